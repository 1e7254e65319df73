/** `svc hook-ask`: what a person answers on the phone is what Claude Code gets. */
import { expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Serving, serveHere, svc, svcRunning } from '../support/command.ts'
import { folderOfFile, folderOfTest } from '../support/folder.ts'
import { logIn, type Served } from '../support/service.ts'
import { until } from '../support/until.ts'

const home = folderOfFile()
const command = 'touch made.txt'

const request = (more = {}) =>
  JSON.stringify({
    hook_event_name: 'PermissionRequest',
    tool_name: 'Bash',
    tool_input: { command },
    cwd: '/project',
    ...more,
  })

async function begin() {
  const service = await serveHere(folderOfTest(), { home })
  await logIn(service)
  await say(service, 'hello')
  return { service, to: (await personOf(service)).user_id }
}

async function personOf({ url }: Served): Promise<{ user_id: string; remaining: number }> {
  return (await (await fetch(`${url}/users`)).json())[0]
}

/** Says it on the phone, and waits until the service has stored it. */
async function say(service: Served, text: string) {
  await service.phone('say', { text })
  await until('it is stored', 30_000, async () => {
    const { body } = await service.call('history', { limit: 1 })
    return body.messages[0]?.text === text
  })
}

const line = (service: { dir: string }, to: string) => ['hook-ask', to, '-d', service.dir, '--sandbox']

/** Starts the hook, and waits until the question with this id is open. */
async function ask(service: Serving, to: string, id: number, more = {}) {
  const running = svcRunning(line(service, to), { home, stdin: request(more) })
  await until('it is asked', 30_000, async () => (await stateOf(service, id)) === 'open')
  const { messages } = (await service.call('history', { limit: 1 })).body
  return { running, code: /^(\w{4}) 1 = yes$/m.exec(messages[0].text)![1]! }
}

const stateOf = async ({ url }: Served, id: number): Promise<string> =>
  (await (await fetch(`${url}/questions/${id}`)).json()).status

const nothing = { status: 0, stdout: '', stderr: '' }

test('yes allows once, no denies', async () => {
  const { service, to } = await begin()
  await using _ = service
  const yes = await ask(service, to, 1)
  await say(service, `${yes.code} 1`)
  const { status, stdout } = await yes.running.exited
  expect([status, JSON.parse(stdout).hookSpecificOutput]).toEqual([
    0,
    { hookEventName: 'PermissionRequest', decision: { behavior: 'allow' } },
  ])
  const no = await ask(service, to, 2)
  await say(service, `${no.code} 2`)
  expect(JSON.parse((await no.running.exited).stdout).hookSpecificOutput.decision).toEqual({
    behavior: 'deny',
    message: expect.stringContaining(to),
  })
})

test('stopped, or decided on the screen: no decision, and the question is taken back', async () => {
  const { service, to } = await begin()
  await using _ = service
  const stopped = await ask(service, to, 1)
  stopped.running.stop('SIGTERM')
  expect(await stopped.running.exited).toEqual(nothing)
  expect(await stateOf(service, 1)).toBe('cancelled')

  const transcript_path = join(service.dir, 'transcript.jsonl')
  const entry = (part: object) => `${JSON.stringify({ message: { content: [part] } })}\n`
  const call = entry({ type: 'tool_use', id: '1', name: 'Bash', input: { command } })
  await writeFile(transcript_path, call)
  const decided = await ask(service, to, 2, { transcript_path })
  await writeFile(transcript_path, call + entry({ type: 'tool_result', tool_use_id: '1' }))
  expect(await decided.running.exited).toEqual(nothing)
  expect(await stateOf(service, 2)).toBe('cancelled')
})

test('with three answers left, and for what is no yes or no, nothing is asked', async () => {
  const { service, to } = await begin()
  await using _ = service
  const run = (stdin: string, dir = service.dir) => svc(line({ dir }, to), { home, stdin })
  expect(await run(request({ tool_name: 'ExitPlanMode' }))).toEqual(nothing)
  expect(await run(request(), join(service.dir, 'none'))).toEqual(nothing)
  expect(await run('no JSON')).toMatchObject({ status: 1, stdout: '' })
  for (let sent = 0; sent < 7; sent++) await service.call('send', { to, text: `${sent}` })
  expect(await run(request())).toMatchObject({ status: 1, stdout: '' })
  expect((await personOf(service)).remaining).toBe(3)
})
