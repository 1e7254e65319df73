/** A service under Bun and one under Deno, each a process on the same data directory, at the same time. */
import { expect, test } from 'bun:test'
import { fileURLToPath } from 'node:url'
import { deno, denoEnv, denoOrNone, denoRun } from '../support/deno.ts'
import { folderOfTest } from '../support/folder.ts'
import { withSandbox } from '../support/sandbox.ts'
import { type Json, type Service, startService } from '../support/service.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
const commands = { bun: svcProgram, deno: denoRun(main) }
type Runtime = keyof typeof commands
const other = { bun: 'deno', deno: 'bun' } as const

/** Calls recv until the text has come. @returns the messages, in the order they came */
async function readUntil(service: Service, consumer: string, text: string): Promise<Json[]> {
  const got: Json[] = []
  using watch = stopwatch()
  while (!got.some(message => message.text === text)) {
    if (watch.ms > 30_000) throw new Error(`${text} never came: ${JSON.stringify(got)}`)
    const { status, body } = await service.call('recv', { consumer, timeout: 5 })
    if (status !== 200) throw new Error(JSON.stringify(body))
    got.push(...body)
  }
  return got
}

const roleOf = async (service: Service) =>
  ((await (await fetch(`${service.url}/healthz`)).json()) as Json).role

test.skipIf(!deno)(
  `Bun and ${denoOrNone}: whichever is killed, the other polls on, and no message is lost or doubled`,
  async () => {
    await using upstream = await withSandbox()
    const dir = folderOfTest()
    await using stack = new AsyncDisposableStack()
    const urls = ['--upstream-url', upstream.url, '--cdn-url', upstream.cdnUrl, '--pace', 'off']
    const running = {} as Record<Runtime, Service>
    const start = async (runtime: Runtime) => {
      const command = commands[runtime]
      const service = await startService({ dir, sandbox: false, args: urls, command, env: denoEnv })
      running[runtime] = stack.use(service)
      return service
    }
    await start('bun')
    await start('deno')
    expect([await roleOf(running.bun), await roleOf(running.deno)]).toEqual(['poller', 'watcher'])

    // A login through the one that follows is polled by the one that polls.
    const login = running.deno.call('login', { session_name: 'work' })
    await upstream.scanAndConfirm()
    await login
    await until('it is confirmed', 30_000, async () => {
      const { body } = await running.deno.call('login', { session_name: 'work', timeout: 10 })
      return body.status === 'confirmed'
    })

    let said = 0
    const got: Record<Runtime, Json[]> = { bun: [], deno: [] }
    // Each reads with a place of its own, from the beginning.
    for (const runtime of ['bun', 'deno'] as const) {
      await running[runtime].call('recv', { consumer: runtime, timeout: 0 })
    }
    const say = async (count: number) => {
      for (let n = 0; n < count; n++) await upstream.say(`message ${++said}`)
    }
    const readAll = async (runtime: Runtime) =>
      got[runtime].push(...(await readUntil(running[runtime], runtime, `message ${said}`)))

    await say(5)
    await Promise.all([readAll('bun'), readAll('deno')])
    const user = got.bun[0].from_user
    for (const killed of ['bun', 'deno'] as const) {
      const left = other[killed]
      // While both send and messages come, the one that polls dies.
      const sends = [0, 1, 2].map(n => running[left].call('send', { to: user, text: `${left} ${n}` }))
      await say(3)
      await running[killed].kill('SIGKILL')
      await say(3)
      expect((await Promise.all(sends)).map(({ body }) => body.status)).toEqual(Array(3).fill('accepted'))
      await readAll(left)
      expect(await roleOf(running[left])).toBe('poller')
      await start(killed)
      expect(await roleOf(running[killed])).toBe('watcher')
      await readAll(killed)
    }

    // Both take from the same ten answers at the same time, and no more than ten.
    await say(1)
    await Promise.all([readAll('bun'), readAll('deno')])
    const answers = await Promise.all(
      Array.from({ length: 14 }, (_, n) =>
        running[n % 2 ? 'bun' : 'deno'].call('send', { to: user, text: `answer ${n}` }),
      ),
    )
    expect(answers.filter(({ body }) => body.status === 'accepted')).toHaveLength(10)
    expect(answers.filter(({ body }) => body.code === 'quota_exhausted')).toHaveLength(4)

    const wanted = Array.from({ length: said }, (_, n) => `message ${n + 1}`)
    for (const runtime of ['bun', 'deno'] as const) {
      // What was under way at the kill may come again, and says so.
      const fresh = got[runtime].filter(({ redelivered }) => !redelivered).map(({ text }) => text)
      expect(fresh).toEqual(wanted)
      const { body } = await running[runtime].call('history', { direction: 'received', limit: 100 })
      expect(body.messages.map((message: Json) => message.text).reverse()).toEqual(wanted)
      expect((await running[runtime].call('history', { direction: 'sent' })).body.total).toBe(16)
    }
    expect(Math.max(...Object.values(upstream.pollsAtOnce))).toBe(1)

    expect(await Promise.all([running.bun.kill('SIGTERM'), running.deno.kill('SIGTERM')])).toEqual([0, 0])
  },
)
