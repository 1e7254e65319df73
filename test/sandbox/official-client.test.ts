import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { folderOfTest } from '../support/folder.ts'
import { withSandbox } from '../support/sandbox.ts'

test("Tencent's own client logs in, receives, answers, sends and fetches media", async () => {
  // It saves the cursor before it handles a batch; with replay its loop would meet the last message again.
  await using sandbox = await withSandbox({ switches: { replay: 'never' } })
  const dir = folderOfTest()
  await using cleanup = new AsyncDisposableStack()
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'official-client.ts'), sandbox.url, dir], {
    env: { PATH: process.env.PATH ?? '', HOME: dir, OPENCLAW_STATE_DIR: dir },
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  cleanup.defer(async () => {
    child.kill()
    await child.exited
  })
  const lines = stepsOf(child.stdout)
  const step = async (name: string) => {
    for (let skipped = 0; skipped < 50; skipped++) {
      const { value, done } = await lines.next()
      if (done) throw new Error(`the client ended before "${name}"`)
      if (value.step === 'error') throw new Error(String(value.text))
      if (value.step === name) return value
    }
    throw new Error(`no step "${name}"`)
  }

  await step('qr')
  const { user_id } = await sandbox.scanAndConfirm()
  expect(await step('login')).toMatchObject({ connected: true, baseUrl: sandbox.url, userId: user_id })
  expect(await step('start')).toMatchObject({ ret: 0 })

  await step('listening')
  const said = await sandbox.say('hello 你好')
  expect(await step('heard')).toMatchObject({ text: 'hello 你好', id: said.message_id })
  await step('typing')

  const sent = await step('sent')
  await step('uploaded')
  const seen = await sandbox.messages({ from: 'bot' })
  expect(seen.map(({ shown, items }) => [shown, items[0]?.kind, items[0]?.size])).toEqual([
    [true, 'text', undefined],
    [true, 'image', 100_000],
    [true, 'video', 70_000],
    [true, 'file', 33_333],
  ])
  expect(seen[0]?.message_id).toBe(String(sent.id))
  expect(await sandbox.mediaBytes(seen[1]!.items[0]!.media_id!)).toEqual(new Uint8Array(100_000).fill(7))

  const bytes = crypto.getRandomValues(new Uint8Array(50_001))
  const md5 = createHash('md5').update(bytes).digest('hex')
  for (const image_key of ['c', 'a', 'b', 'none'] as const) {
    await sandbox.switches({ image_key })
    await sandbox.media('image', bytes)
    expect(await step('downloaded')).toMatchObject({ saved: [{ md5, size: bytes.length }] })
  }

  await sandbox.say('this part', { quote: seen[0]!.message_id, part: 'the official' })
  expect(await step('quote')).toMatchObject({ svr_id: seen[0]!.message_id, part: 'the official' })

  await step('loop')
  await sandbox.say('/echo back to me')
  const echoed = await sandbox.seen(messages => messages.length >= seen.length + 2)
  expect(echoed.at(-2)?.items[0]?.text).toBe('back to me')
  child.stdin.write('stop\n')
  await child.stdin.flush()
  expect(await step('stop')).toMatchObject({ ret: 0 })
})

async function* stepsOf(stdout: ReadableStream<Uint8Array>): AsyncGenerator<Record<string, unknown>> {
  let rest = ''
  const decoder = new TextDecoder()
  for await (const bytes of stdout) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) if (line.startsWith('{')) yield JSON.parse(line)
  }
}
