/** The scripted agent: what its words do, alone and over ACP. */
import { expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { client, methods, ndJsonStream } from '@agentclientprotocol/sdk'
import { echo } from '../../src/agent/echo.ts'
import { svcProcess } from '../support/command.ts'
import { failure } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { svcProgram } from '../support/svc-program.ts'

const ports = (folder: string, stop = new AbortController()) => ({ folder, signal: stop.signal })

test('it repeats, and its words do more, also as one line of several', async () => {
  const folder = folderOfTest()
  expect(await echo('Hello', ports(folder))).toBe('You said: Hello')
  expect(await echo('picturesque', ports(folder))).toBe('You said: picturesque')
  expect(await echo('', ports(folder))).not.toBe('')
  expect((await echo('please\nlong 200', ports(folder))).length).toBeGreaterThan(50_000)
  expect(await echo('图片', ports(folder))).toContain('](picture.png)')
  expect((await readFile(join(folder, 'picture.png'))).subarray(1, 4).toString()).toBe('PNG')
  expect(await echo('ask', ports(folder))).toContain('--acp')
  expect((await failure(echo('fail', ports(folder)))).message).toContain('fails')
  const stop = new AbortController()
  const slow = failure(echo('slow 600', ports(folder, stop)))
  stop.abort()
  expect((await slow).name).toBe('AbortError')
})

test('as a command it takes stdin or an argument, and a failure has its status', async () => {
  const home = folderOfTest()
  expect(await svcProcess(['echo-agent', 'Hello'], { home })).toMatchObject({
    status: 0,
    stdout: 'You said: Hello\n',
  })
  expect((await svcProcess(['echo-agent'], { home, stdin: '你好\n' })).stdout).toBe('You said: 你好\n')
  expect(await svcProcess(['echo-agent', 'fail'], { home })).toMatchObject({ status: 1, stdout: '' })
})

test('over ACP it answers, asks, is cancelled, and goes on in a session', async () => {
  const folder = folderOfTest()
  const child = Bun.spawn([...svcProgram, 'echo-agent', '--acp'], {
    cwd: folder,
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const said: string[] = []
  let choice = 'yes'
  const connection = client({ name: 'test' })
    .onRequest(methods.client.session.requestPermission, () => ({
      outcome: { outcome: 'selected', optionId: choice },
    }))
    .onNotification(methods.client.session.update, ({ params: { update } }) => {
      if (update.sessionUpdate === 'agent_message_chunk' && update.content.type === 'text')
        said.push(update.content.text)
    })
    .connect(
      ndJsonStream(
        Writable.toWeb(
          new Writable({
            write(bytes, _encoding, done) {
              child.stdin.write(bytes)
              void Promise.resolve(child.stdin.flush()).then(() => done())
            },
          }),
        ) as WritableStream<Uint8Array>,
        Readable.toWeb(Readable.from(child.stdout)) as unknown as ReadableStream<Uint8Array>,
      ),
    )
  const { agent } = connection
  await agent.request(methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {} })
  const { sessionId } = await agent.request(methods.agent.session.new, { cwd: folder, mcpServers: [] })
  const prompt = (text: string) =>
    agent.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: 'text', text }] })
  expect((await prompt('Hello')).stopReason).toBe('end_turn')
  await prompt('ask')
  choice = 'no'
  await prompt('ask')
  expect(said[0]).toBe('You said: Hello')
  expect(said[1]).not.toBe(said[2])
  const slow = prompt('slow 600')
  await agent.notify(methods.agent.session.cancel, { sessionId })
  expect((await slow).stopReason).toBe('cancelled')
  await agent.request(methods.agent.session.setConfigOption, { sessionId, configId: 'mode', value: 'free' })
  await prompt('/shout ask')
  await prompt('ask')
  expect(said.slice(-2)).toEqual(['ASK', expect.not.stringContaining('allow')])
  const { sessions } = await agent.request(methods.agent.session.list, { cwd: folder })
  expect(sessions).toMatchObject([{ sessionId, cwd: folder, title: 'Hello' }])
  const { resume } = methods.agent.session
  const going = (sessionId: string) => agent.request(resume, { sessionId, cwd: folder, mcpServers: [] })
  expect(JSON.stringify(await going(sessionId))).toContain('"currentValue":"free"')
  expect((await failure(going('unknown'))).message).toContain('not found')
  child.stdin.end()
  expect(await child.exited).toBe(0)
})
