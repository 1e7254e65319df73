import { describe, expect, test } from 'bun:test'
import { closeSync, constants, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { folderOfTest } from '../support/folder.ts'
import { withSandbox } from '../support/sandbox.ts'
import { type Json, logIn, type Service, startService } from '../support/service.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

/** What the issue promises; the process is killed by the test after it. */
const exitWithinMs = 5000

describe('SIGTERM', () => {
  test('in the middle of a send with a slow upload: the caller hears the truth, and history agrees', async () => {
    const dir = folderOfTest()
    await using sandbox = await withSandbox({ dir: join(dir, 'sandbox') })
    const service = await startService({ dir })
    await logIn(service)
    await service.phone('say', { text: 'hi' })
    const [hi] = (await service.call('recv', { timeout: 50 })).body
    await sandbox.fail('upload', 'slow', { times: 0, delay_ms: 60_000 })
    const data = Buffer.alloc(3_000_000, 7).toString('base64')
    const sending = service.call('send', {
      to: hi.from_user,
      text: 'with this',
      media: [{ kind: 'file', data }],
    })
    await busy(service)
    const { code, tookMs } = await terminate(service)
    const { status, body } = await sending
    // Uploads come first, so nothing was sent.
    expect(status).toBe(503)
    expect(body).toMatchObject({ code: 'shutting_down' })
    expect(code).toBe(0)
    expect(tookMs).toBeLessThan(exitWithinMs)

    await using again = await startService({ dir })
    const { body: history } = await again.call('history', {})
    expect(history.messages.map((message: { text: string }) => message.text)).toEqual(['hi'])
    const answer = await again.call('send', { to: hi.from_user, text: 'now' })
    // The units set apart for the interrupted send came back.
    expect(answer.body).toMatchObject({ success: true, remaining: 9 })
  })

  test('while WeChat does not answer a send: the caller hears that its fate is unknown, and so says history', async () => {
    const dir = folderOfTest()
    await using sandbox = await withSandbox({ dir: join(dir, 'sandbox') })
    const service = await startService({ dir })
    await logIn(service)
    await service.phone('say', { text: 'hi' })
    const [hi] = (await service.call('recv', { timeout: 50 })).body
    await sandbox.fail('sendmessage', 'hang', { times: 0 })
    const asked = sandbox.world.core.stats.requests.sendmessage ?? 0
    const sending = service.call('send', { to: hi.from_user, text: 'lost?' })
    const tool = { name: 'send', arguments: { to: hi.from_user, text: 'behind it' } }
    const overMcp = fetch(`${service.url}/mcp`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: tool }),
    }).then(response => response.text())
    await until('it is handed over', 30_000, () => sandbox.world.core.stats.requests.sendmessage! > asked)
    const { code, tookMs } = await terminate(service)
    expect(await sending).toMatchObject({ status: 200, body: { success: false, status: 'unknown' } })
    expect(await overMcp).toMatch(/"id":1|shutting_down/)
    expect(code).toBe(0)
    expect(tookMs).toBeLessThan(exitWithinMs)
    await using again = await startService({ dir })
    const { messages } = (await again.call('history', { direction: 'sent' })).body
    expect(messages.map(({ status, text }: Json) => [status, text])).toEqual([['unknown', 'lost?']])
  })

  test.each(['held', 'hang'])(
    'while callers and a poll wait (%s): callers hear something, and what comes then is stored, once and in order',
    async how => {
      const dir = folderOfTest()
      await using sandbox = await withSandbox({ dir: join(dir, 'sandbox') })
      const service = await startService({ dir })
      await logIn(service)
      const isAsked = () => sandbox.world.core.stats.requests.getupdates ?? 0
      const before = how === 'hang' ? isAsked() : 0
      if (how === 'hang') {
        await sandbox.fail('getupdates', 'hang', { times: 0 })
        // It ends the poll that is held.
        await sandbox.say('first')
        expect((await service.call('recv', { timeout: 50 })).body).toHaveLength(1)
      }
      await until('a poll waits', 30_000, () => isAsked() > before)
      const waiting = [1, 2].map(() => service.call('recv', { timeout: 50 }))
      const stream = await fetch(`${service.url}/events`)
      await busy(service)
      const texts = Array.from({ length: 20 }, (_, nth) => `said ${nth}`)
      const [{ code, tookMs }] = await Promise.all([
        terminate(service),
        (async () => {
          for (const text of texts) await sandbox.say(text)
        })(),
      ])
      for (const { status, body } of await Promise.all(waiting))
        expect([status, Array.isArray(body)]).toEqual([200, true])
      expect(await stream.text()).toBeString()
      expect(code).toBe(0)
      expect(tookMs).toBeLessThan(exitWithinMs)

      await sandbox.mend()
      await using again = await startService({ dir })
      const all = how === 'hang' ? ['first', ...texts] : texts
      const stored = async () => {
        const { messages } = (await again.call('history', { limit: 100 })).body
        return messages.map(({ text }: Json) => text).toReversed()
      }
      await until('all are there', 30_000, async () => (await stored()).length >= all.length)
      expect(await stored()).toEqual(all)
    },
    60_000,
  )

  test.skipIf(process.platform === 'win32')('a terminal that closes ends it as well', async () => {
    const service = await startService({ args: ['--log-level', 'INFO'] })
    const waiting = service.call('recv', { timeout: 50 })
    await busy(service)
    const code = await service.kill('SIGHUP')
    expect(await waiting).toMatchObject({ status: 200, body: [] })
    expect(code).toBe(0)
  })

  test('in the middle of an upload to us: the request ends with a clear answer or a closed connection', async () => {
    await using service = await startService()
    const sent = Promise.withResolvers<void>()
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        controller.enqueue(new Uint8Array(64 * 1024))
        sent.resolve()
        await Bun.sleep(5)
      },
    })
    const uploading = fetch(`${service.url}/media?file_name=a.bin`, { method: 'POST', body }).then(
      response => response.status,
      () => 'closed',
    )
    await sent.promise
    const { code, tookMs } = await terminate(service)
    expect([503, 'closed']).toContain(await uploading)
    expect(code).toBe(0)
    expect(tookMs).toBeLessThan(exitWithinMs)
  })

  // Deno writes to it synchronously and stands still itself.
  test.skipIf(svcProgram[0] === 'deno')(
    'while the reader of its log stands still: it ends all the same',
    async () => {
      const pipe = join(folderOfTest(), 'log')
      await Bun.$`mkfifo ${pipe}`
      const reader = openSync(pipe, 'r+')
      const command = ['sh', '-c', 'exec "$@" 2>"$0"', pipe, ...svcProgram]
      await using service = await startService({ command })
      fill(pipe)
      expect((await service.call('sessions')).status).toBe(200)
      const { code, tookMs } = await terminate(service)
      closeSync(reader)
      expect(code).toBe(0)
      expect(tookMs).toBeLessThan(exitWithinMs)
    },
  )
})

/** Writes to a pipe until it takes nothing more. */
function fill(pipe: string): void {
  const writer = openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK)
  for (const size of [4096, 1]) {
    try {
      while (true) writeSync(writer, Buffer.alloc(size, 'x'))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
    }
  }
  closeSync(writer)
}

/** The request sent before has reached the service: one that came after it has been answered. */
async function busy(service: Service): Promise<void> {
  for (let n = 0; n < 10; n++) await service.call('sessions')
}

async function terminate(service: Service): Promise<{ code: number; tookMs: number }> {
  using watch = stopwatch()
  const code = await service.kill('SIGTERM')
  return { code, tookMs: watch.ms }
}
