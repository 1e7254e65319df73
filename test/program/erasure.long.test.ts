/**
 * People are erased while two processes, webhooks whose receivers are up and down, streams, consumers, sends and an agent are
 * busy with them. From when `forget` returns nothing of them leaves, and then no table and no file has anything of them.
 */
import { expect, test } from 'bun:test'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connectPg } from '../../src/platform/postgres.ts'
import { sql } from '../../src/platform/sql.ts'
import { receiver } from '../push/receiver.ts'
import { clusterSecret, startCluster, startWeChat } from '../support/cluster.ts'
import { eventSource } from '../support/event-source.ts'
import { isPostgresThere } from '../support/postgres.ts'
import { type Json, type Service, startService } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'
import { findTraces } from './forget-world.ts'

const rounds = 30
const withinMs = 60_000
const texts = 20

interface World extends AsyncDisposable {
  readonly services: readonly Service[]
  /** Arguments and variables of commands on the store. */
  readonly args: readonly string[]
  readonly env: Record<string, string>
  phone(path: string, body?: unknown): Promise<Json>
  seen(path: string): Promise<Json>
  /** Returns the places with one of the words. */
  find(words: readonly string[]): Promise<string[]>
}

async function onSqlite(): Promise<World> {
  await using stack = new AsyncDisposableStack()
  const dir = await mkdtemp(join(tmpdir(), 'svc-erasure-'))
  stack.defer(() => rm(dir, { recursive: true, force: true }))
  await mkdir(join(dir, 'data'), { mode: 0o700 })
  const wechat = stack.use(await startWeChat(join(dir, 'wechat'))).url
  const args = ['--upstream-url', wechat, '--cdn-url', `${wechat}/c2c`]
  const start = () =>
    startService({ dir: join(dir, 'data'), sandbox: false, args: [...args, '--pace', 'off'] })
  const services = [stack.use(await start()), stack.use(await start())] as const
  const ask = async (path: string, body?: unknown) =>
    (
      await fetch(`${wechat}/phone/${path}`, {
        headers: { 'content-type': 'application/json' },
        ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
      })
    ).json()
  const begun = await services[0].call('login', { session_name: 'work' })
  await ask('scan', { confirm: true, qrcode: begun.body.qr_url })
  await until('the login is confirmed', withinMs, async () => {
    const { body } = await services[0].call('login', { session_name: 'work', timeout: 5 })
    return body.status === 'confirmed'
  })
  const own = stack.move()
  return {
    services,
    args: [...args, '-d', join(dir, 'data')],
    env: {},
    phone: ask,
    seen: ask,
    find: words => findTraces(join(dir, 'data'), words),
    [Symbol.asyncDispose]: () => own.disposeAsync(),
  }
}

async function onPostgres(): Promise<World> {
  const cluster = await startCluster({ nodes: 2, args: ['--pace', 'off'] })
  await cluster.logIn('work')
  const dir = await mkdtemp(join(tmpdir(), 'svc-erasure-'))
  const url = cluster.postgres.url(cluster.databaseName)
  return {
    services: cluster.nodes,
    args: ['--upstream-url', cluster.wechat, '--cdn-url', `${cluster.wechat}/c2c`, '-d', dir],
    env: { SVC_STORE_URL: url, SVC_SECRET_KEY: clusterSecret },
    phone: cluster.phone,
    seen: cluster.seen,
    async find(words) {
      const connection = await connectPg({ url, name: 'tests', answerMs: 60_000 })
      const tables = await connection.all<{ name: string; rows: string }>(sql`SELECT table_name AS name,
        query_to_xml('SELECT * FROM svc.' || quote_ident(table_name), true, false, '')::text AS rows
        FROM information_schema.tables WHERE table_schema = 'svc'`)
      connection.destroy()
      const found = tables.flatMap(({ name, rows }) =>
        words.filter(word => rows.includes(word)).map(word => `${name}: ${word}`),
      )
      return [...found, ...(await findTraces(dir, words))]
    },
    async [Symbol.asyncDispose]() {
      await cluster[Symbol.asyncDispose]()
      await rm(dir, { recursive: true, force: true })
    },
  }
}

/** Something that left svc, and when. */
interface Left {
  at: number
  where: string
  text: string
}

async function erase(world: World): Promise<void> {
  const { args, env, find, phone, seen, services } = world
  const left: Left[] = []
  const note = (where: string, what: unknown) =>
    left.push({ at: performance.now(), where, text: typeof what === 'string' ? what : JSON.stringify(what) })
  let isDown = false
  using hook = receiver(({ text }) => {
    note('webhook', text)
    // Some answer themselves.
    return isDown ? 500 : Response.json({ reply: { text: 'from the receiver' } })
  })
  using slow = receiver(async ({ text }) => {
    note('slow webhook', text)
    await Bun.sleep(100)
    return new Response()
  })
  const home = { PATH: process.env.PATH ?? '', HOME: tmpdir(), ...env }
  for (const url of [hook.url, slow.url, 'http://127.0.0.1:9/']) {
    const words = [
      'webhook',
      'add',
      url,
      '--allow-private',
      ...(url === hook.url ? ['--replies'] : []),
      ...args,
    ]
    const child = Bun.spawn([...svcProgram, ...words], { env: home, stdout: 'ignore', stderr: 'inherit' })
    expect(await child.exited).toBe(0)
  }
  const agent = Bun.spawn(
    [...svcProgram, 'agent', '--allow', 'everyone', ...args, '--', 'sh', '-c', 'sleep 0.3; cat; pwd > here'],
    { env: home, stdout: 'ignore', stderr: 'pipe' },
  )
  const streams = await Promise.all(services.map(({ url }) => eventSource(`${url}/events`)))
  let isOver = false
  const reading = [
    ...streams.map(async stream => {
      for (let frame = await stream.next(); frame && !isOver; frame = await stream.next())
        note('stream', frame)
    }),
    ...services.map(async ({ call }, nth) => {
      while (!isOver) note('recv', (await call('recv', { consumer: `own${nth}`, timeout: 2, limit: 5 })).body)
    }),
  ]
  try {
    for (let round = 0; round < rounds; round++) {
      const [id, word] = [`o-gone-${round}-x@im.wechat`, `hush${round}hush`]
      await phone('users', { id })
      const tell = (nth: number) => phone('say', { text: `${word} ${nth}`, from: id })
      for (let nth = 0; nth < texts; nth++) await tell(nth)
      const total = async () =>
        (await services[0]!.call('history', { user_id: id, direction: 'received' })).body.total
      await until('all are stored', withinMs, async () => (await total()) === texts)
      isDown = round % 2 === 1
      let isErased = false
      /** Calls under way when `forget` returns may have begun any time before. */
      const calling = services.flatMap(({ call, url }, nth) => {
        const repeat = async (work: (count: number) => Promise<unknown>) => {
          for (let count = 0; !isErased; count++) await work(count)
        }
        return [
          repeat(count => call('send', { to: id, text: `${word} to ${count}`, when_closed: 'queue' })),
          repeat(count =>
            call('send', {
              to: id,
              text: `${word} once ${count}`,
              idempotency_key: `${round} ${nth} ${count}`,
            }),
          ),
          repeat(() =>
            fetch(`${url}/users/${encodeURIComponent(id)}/name`, {
              method: 'PUT',
              headers: { 'content-type': 'application/json' },
              body: JSON.stringify({ name: `Name ${word}` }),
            }),
          ),
          repeat(async () => note('history', (await call('history', { user_id: id, limit: 5 })).body)),
        ]
      })
      await Bun.sleep(Math.random() * 1500)
      const forgotten = await fetch(`${services[round % services.length]!.url}/forget`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ user: id }),
      })
      const erasedAt = performance.now()
      expect([forgotten.status, forgotten.status === 200 ? '' : await forgotten.text()]).toEqual([200, ''])
      const got = async () => JSON.stringify(await seen(`messages?from=bot&user=${id}&limit=1000`))
      const before = await got()
      isErased = true
      await Promise.all(calling)
      isDown = false
      // What was delivered late would come within this time: retries, turns of the agent.
      await Bun.sleep(3000)
      const late = left.filter(({ at, text }) => at > erasedAt && (text.includes(word) || text.includes(id)))
      expect(late.map(({ where, at, text }) => [round, where, at - erasedAt, text.slice(0, 300)])).toEqual([])
      expect([round, await find([id, word])]).toEqual([round, []])
      expect(before).toContain('message')
      expect(await got()).toBe(before)
      left.length = 0
    }
  } finally {
    isOver = true
    for (const stream of streams) stream.cut()
    agent.kill()
    await agent.exited
    await Promise.allSettled(reading)
  }
}

test(`${rounds} people are erased from a data directory`, async () => {
  await using world = await onSqlite()
  await erase(world)
}, 1_200_000)

test.skipIf(!isPostgresThere())(
  `${rounds} people are erased from a cluster`,
  async () => {
    await using world = await onPostgres()
    await erase(world)
  },
  1_200_000,
)
