/** `svc forget` on a used data directory, while a service runs on it. */
import { expect, test } from 'bun:test'
import { eventSource } from '../support/event-source.ts'
import type { Json, Service } from '../support/service.ts'
import { until } from '../support/until.ts'
import { findTraces, gone, startWorld, stays, withinMs } from './forget-world.ts'

/** What callers see of the person who stays. */
async function look({ call }: Service) {
  const history = async (filter: Json) => (await call('history', { limit: 100, ...filter })).body as Json
  const [all, found, nobody] = [
    await history({ user_id: stays }),
    await history({ text_contains: '你好' }),
    await history({ text_contains: '枭魈' }),
  ]
  return { messages: all.messages, total: all.total, found: found.total, nobody: nobody.total }
}

test('a person is erased from every file while a service reads, streams and delivers', async () => {
  await using world = await startWorld()
  const { command, dir, service } = world
  const delivered: Json[] = []
  using hook = Bun.serve({
    port: 0,
    fetch: async request => {
      delivered.push(await request.json())
      return new Response()
    },
  })
  const { status, stderr } = await command('webhook', 'add', hook.url.href, '--allow-private')
  expect([status, stderr]).toEqual([0, expect.any(String)])
  await service.call('recv', { consumer: 'reader', timeout: 0, limit: 100 })
  await using stream = await eventSource(`${service.url}/events`)
  const before = await look(service)
  expect(before).toMatchObject({ total: 14, found: 1, nobody: 1 })
  const last = Math.max(...before.messages.map(({ id }: Json) => id))
  expect((await findTraces(dir)).length).toBeGreaterThan(10)

  const waiting = service.call('recv', { consumer: 'reader', timeout: 20 })
  const forgotten = await command('forget', gone, '--yes', '--json')
  expect(forgotten.stderr).toBe('')
  expect(JSON.parse(forgotten.stdout)).toMatchObject({ messages: 16, sends: 2, backups: [] })
  expect(await findTraces(dir)).toEqual([])

  expect(await look(service)).toEqual({ ...before, nobody: 0 })
  const { body: users } = await service.call('history', { user_id: gone })
  expect(users.total).toBe(0)
  const audit = await command('audit', '--json')
  expect(audit.stdout).toContain(JSON.parse(forgotten.stdout).hash)
  // Everything goes on where it was.
  await service.phone('say', { text: 'Here I am', from: stays })
  expect((await waiting).body.map(({ text }: Json) => text)).toEqual(['Here I am'])
  await until('it is delivered', withinMs, () => delivered.some(({ data }) => data?.text === 'Here I am'))
  const streamed: Json[] = []
  while (!streamed.some(({ text }) => text === 'Here I am'))
    streamed.push((await stream.next())?.data?.data ?? {})
  await until('what waited goes out', withinMs, async () =>
    (await look(service)).messages.every((one: Json) => one.status !== 'queued'),
  )
  const sent: Json = await (await fetch(`${service.phoneUrl}/phone/messages?from=bot&user=${gone}`)).json()
  expect(JSON.stringify(sent)).not.toContain('qqwaiting')
  // The person comes back as a stranger.
  await service.phone('say', { text: 'Hello again', from: gone })
  await until(
    'it is stored',
    withinMs,
    async () => (await service.call('history', { user_id: gone })).body.total === 1,
  )
  const { messages } = (await service.call('history', { user_id: gone })).body
  expect(messages[0].id).toBeGreaterThan(last)
  expect(messages[0].user_name).toBeUndefined()
}, 120_000)
