/** Retention, erasing and the state of the engine, where PostgreSQL does more than the contract says. */
import { describe, expect, test } from 'bun:test'
import { systemClock } from '../../../src/platform/clock.ts'
import { createLog } from '../../../src/platform/log.ts'
import { connectPg, type PgConnection } from '../../../src/platform/postgres.ts'
import { constantSql, sql } from '../../../src/platform/sql.ts'
import { openPgStorage } from '../../../src/storage/postgres/open.ts'
import { newDatabase, secret } from '../../support/databases.ts'
import { isPostgresThere, sharedPostgres } from '../../support/postgres.ts'
import { stopwatch } from '../../support/stopwatch.ts'
import { until } from '../../support/until.ts'
import { insert, message, type Opened, open, outgoing } from '../support.ts'
import { openPostgres } from './support.ts'

const dayMs = 24 * 3_600_000
const [gone, other] = ['o-gone@im.wechat', 'o-other@im.wechat']

type Test = Awaited<ReturnType<typeof openPostgres>>

/** Another connection to the database of a test. */
async function connect({ url }: Pick<Test, 'url'>): Promise<PgConnection & Disposable> {
  const connection = await connectPg({ url, name: 'test', answerMs: 10_000 })
  return Object.assign(connection, { [Symbol.dispose]: () => connection.destroy() })
}

const add = (t: Opened, count: number, from_user = gone) =>
  insert(
    t,
    Array.from({ length: count }, (_, nth) => message(`secret ${nth}`, { from_user })),
  )

describe.skipIf(!isPostgresThere())('PostgreSQL', () => {
  test('a database that is read-only cannot be written, and can again afterwards', async () => {
    await using t = await openPostgres({}, { isNew: true })
    using admin = await connect(t)
    const { maintenance } = t.store
    expect(await maintenance.checkWritable()).toBeUndefined()
    const name = new URL(t.url).pathname.slice(1)
    await admin.run(constantSql(`ALTER DATABASE ${name} SET default_transaction_read_only = on`))
    const end = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()`
    await admin.all(constantSql(end))
    const found = []
    // The first one after the connections broke may only find that.
    for (let nth = 0; nth < 3; nth++) found.push(await maintenance.checkWritable())
    expect(found.at(-1)).toMatchObject({
      code: 'store_unavailable',
      // The state of SQL for a transaction that is read-only.
      message: expect.stringContaining('25006'),
    })
    await admin.run(constantSql('SET default_transaction_read_only = off'))
    await admin.run(constantSql(`ALTER DATABASE ${name} RESET default_transaction_read_only`))
    await admin.all(constantSql(end))
    await maintenance.checkWritable()
    expect(await maintenance.checkWritable()).toBeUndefined()
  })

  test('a database that does not answer is reported within the deadline', async () => {
    await using t = await openPostgres()
    using admin = await connect(t)
    await t.store.maintenance.checkWritable()
    await admin.run(sql`BEGIN`)
    await admin.run(sql`LOCK TABLE durable IN ACCESS EXCLUSIVE MODE`)
    using watch = stopwatch()
    expect(await t.store.maintenance.checkWritable()).toMatchObject({ code: 'store_unavailable' })
    expect(watch.ms).toBeLessThan(3500)
    await admin.run(sql`COMMIT`)
    expect(await t.store.maintenance.checkWritable()).toBeUndefined()
  })

  test('a closed store says so', async () => {
    await using t = await openPostgres()
    const { maintenance } = t.store
    await t.storage.close()
    expect(await maintenance.checkWritable()).toMatchObject({ code: 'shutting_down' })
  })

  test('many rows go in steps, also if two processes remove them, and readers that lose some are named', async () => {
    await using t = await openPostgres({ maxCount: 100 })
    await using second = await t.second()
    await t.store.consumers.claim('slow', { limit: 1 })
    for (let nth = 0; nth < 4; nth++) await add(t, 500)
    await Promise.all([t.store.maintenance.prune(), second.store.maintenance.prune()])
    // The one that gave way may have left some.
    await t.store.maintenance.prune()
    using admin = await connect(t)
    expect(await admin.one(sql`SELECT count(*) AS n, min(id) AS first FROM message`)).toEqual({
      n: 100,
      first: 1901,
    })
    const told = t.lines.filter(line => line.includes('that a consumer has not read'))
    expect(told.length).toBeLessThanOrEqual(2)
  })

  test('of nodes with different limits the largest count, and the log names them, until they agree', async () => {
    await using database = await newDatabase()
    const lines: string[] = []
    const log = createLog('WARNING', line => void lines.push(line))
    const open = (name: string, limits: { maxAgeDays: number; maxCount: number }) =>
      openPgStorage({ url: database.url, secret, clock: systemClock, log, name, ...limits })
    const strict = await open('strict', { maxAgeDays: 1, maxCount: 10 })
    const second = await open('second', { maxAgeDays: 9, maxCount: 20 })
    const endless = await open('endless', { maxAgeDays: 0, maxCount: 15 })
    for (const { node } of [strict, second, endless]) node.setUrl('http://node.example')
    try {
      await insert(
        { storage: strict },
        Array.from({ length: 30 }, (_, nth) => message(String(nth))),
      )
      const left = async () => {
        await strict.store.maintenance.prune()
        return (await strict.store.log.listAfter(0, { limit: 99 })).length
      }
      const names = ['strict', 'second', 'endless']
      await until('the log names them', 30_000, () =>
        lines.some(line => names.every(name => line.includes(name))),
      )
      const listed = await strict.node.list()
      expect(
        listed.map(({ max_age_days, max_count, name }) => [name, max_age_days, max_count]).sort(),
      ).toEqual([
        ['endless', 0, 15],
        ['second', 9, 20],
        ['strict', 1, 10],
      ])
      expect(await left()).toBe(20)
      await second.close()
      expect(await left()).toBe(15)
      await endless.close()
      expect(await left()).toBe(10)
    } finally {
      for (const one of [strict, second, endless]) await one.close()
    }
  })

  test('nothing is removed for its age for a day after the clock jumped', async () => {
    await using t = await openPostgres({ maxAgeDays: 30 })
    await add(t, 3)
    const count = async () => (await t.store.log.listAfter(0, { limit: 9 })).length
    t.clock.off = 400 * dayMs
    await t.store.maintenance.prune()
    expect(await t.store.maintenance.isClockTrusted()).toBe(false)
    expect(await count()).toBe(3)
    // A process that starts then does not trust it either.
    await using second = await t.second()
    expect(await second.store.maintenance.isClockTrusted()).toBe(false)
    t.clock.at += dayMs + 1
    expect(await t.store.maintenance.isClockTrusted()).toBe(true)
    await t.store.maintenance.prune()
    expect(await count()).toBe(0)
  })

  test('no table has anything of an erased user', async () => {
    await using t = await openPostgres({}, { isOwner: true })
    const { agents, audit, consumers, conversations, names, outbox, people, events } = t.store
    const ids = (await add(t, 700)) as number[]
    await add(t, 3, other)
    await names.set('s', gone, 'Mum')
    await conversations.markRead('s', gone, ids[0]!)
    await consumers.claim('default', { limit: 9 })
    for (const subject of [gone, 'MUM', `s ${gone}`])
      await audit.add({ at: 1, principal: 'owner', operation: 'name_user', outcome: 'done', subject })
    const key = { agent: 'home', session: 's', user: gone }
    const turn = await agents.addTurn({ ...key, source: 'message', messages: ids.slice(0, 2) })
    await agents.claim(key)
    await agents.changeTurn(turn.id, { status: 'running', started_at: 1 })
    const options = [{ id: 'yes', name: 'Yes', kind: 'allow_once' } as const]
    const expires_at = t.clock.now() + 1000
    await agents.ask({ turn: turn.id, text: `May I tell ${gone}?`, options, code: 'K7QX', expires_at })
    const waiting = { message: outgoing('later', { to_user: gone }) }
    const entry = { session: 's', bot_id: 'b', user: gone, mode: 'queue' as const, made_by: 'owner' }
    await outbox.enqueue({ ...entry, parts: [{ kind: 'text', waiting }] }, open)
    await events.getHead()
    using admin = await connect(t)
    const tables = await admin.all<{ name: string }>(sql`SELECT tablename AS name FROM pg_tables
      WHERE schemaname = 'svc' ORDER BY 1`)
    const mentioning = async () => {
      const found: string[] = []
      for (const { name } of tables) {
        const { n } = await admin.one<{ n: number }>(
          sql`SELECT count(*) AS n FROM ${constantSql(name)} t WHERE t::text ~* ${`${gone}|mum|secret [3-9]`}`,
        )
        if (n > 0) found.push(name)
      }
      return found
    }
    const before = await mentioning()
    for (const name of ['agent_conversation', 'audit', 'event', 'message', 'outbox_lane', 'user_name'])
      expect(before).toContain(name)
    expect((await people.erase(gone)).messages).toBe(701)
    expect(await mentioning()).toEqual([])
    expect((await t.store.log.listAfter(0, { limit: 9 })).length).toBe(3)
    await people.scrub()
    // The statistics of the server come late, and may count what is gone.
    using root = await connect({ url: (await sharedPostgres()).superUrl(new URL(t.url).pathname.slice(1)) })
    await root.run(sql`CREATE EXTENSION pgstattuple`)
    const dead = await root.one<{ n: number }>(
      sql`SELECT dead_tuple_count AS n FROM pgstattuple('svc.message')`,
    )
    expect(dead.n).toBe(0)
  })

  test('a clock that differs from that of the database is measured, and logged once until it changes', async () => {
    await using database = await newDatabase()
    let aheadMs = 0
    const clock = { ...systemClock, now: () => Date.now() + aheadMs }
    const lines: string[] = []
    const log = createLog('INFO', line => void lines.push(line))
    const storage = await openPgStorage({ url: database.url, secret, clock, log, maxAgeDays: 0, maxCount: 0 })
    const said = () => lines.filter(line => line.includes('clock of this machine'))
    const measured = (ms: number) =>
      until('the clocks are compared', 20_000, () => Math.abs(storage.node.clockOffsetMs - ms) < 1500)
    try {
      await measured(0)
      expect(said()).toEqual([])
      for (const [jumpMs, count] of [
        [3_600_000, 1],
        [3_600_500, 1],
        [-7_200_000, 2],
        [0, 3],
      ] as const) {
        aheadMs = jumpMs
        await measured(-jumpMs)
        expect(said()).toHaveLength(count)
      }
      expect(said()[0]).toMatch(/-(3600|3599|3601)\d{3}/)
    } finally {
      await storage.close()
    }
  }, 60_000)
})
