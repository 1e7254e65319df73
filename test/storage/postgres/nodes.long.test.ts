/** Nodes that share a store on PostgreSQL: which of them polls which session. */
import { describe, expect, test } from 'bun:test'
import { systemClock } from '../../../src/platform/clock.ts'
import { silentLog } from '../../../src/platform/log.ts'
import { connectPg } from '../../../src/platform/postgres.ts'
import { constantSql, sql } from '../../../src/platform/sql.ts'
import { openPgStorage, type PgStorage } from '../../../src/storage/postgres/open.ts'
import { newDatabase, secret } from '../../support/databases.ts'
import { type FreezingProxy, freezingProxy } from '../../support/freezing-proxy.ts'
import { isPostgresThere, sharedPostgres, startPostgres } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { bot } from '../support.ts'

/** Follows a lease like the poller does. */
class Follower {
  readonly storage: PgStorage
  readonly polled = new Set<string>()
  /** How often it lost a lease. */
  lost = 0
  /** False: it does not confirm the end of polls. */
  confirms = true
  readonly #stop = new AbortController()
  readonly #running: Promise<void>
  lease: Awaited<ReturnType<PgStorage['leases']['join']>>

  constructor(storage: PgStorage) {
    this.storage = storage
    this.#running = this.#run()
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      const lease = await this.storage.leases.join().catch(() => undefined)
      this.lease = lease
      const over = AbortSignal.any(lease ? [signal, lease.lost] : [signal])
      lease?.lost.addEventListener('abort', () => this.polled.clear())
      for (let revision: number | undefined; lease && !over.aborted; ) {
        const owned = await lease.listOwned(revision).catch(() => undefined)
        revision = owned?.revision ?? revision
        for (const [name, record] of over.aborted ? [] : (owned?.changed ?? [])) {
          if (record) this.polled.add(name)
          else if (this.polled.delete(name) && this.confirms) lease.giveUp(name)
        }
        await lease.waitForChange(1000, over)
      }
      if (lease?.lost.aborted) this.lost += 1
      this.polled.clear()
      await lease?.release()
      if (!signal.aborted) await systemClock.sleep(200, signal)
    }
  }

  /** Sessions that it may poll now. */
  own(names: readonly string[]): string[] {
    return names.filter(name => this.polled.has(name) && this.lease?.mayPoll(name))
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }
}

const names = Array.from({ length: 40 }, (_, nth) => `s${nth}`)

/** Several nodes with 40 sessions, each behind a proxy; `overlaps` counts sessions that two of them may poll at a time. */
async function cluster(url: string) {
  const address = new URL(url)
  const open: { follower: Follower; proxy: FreezingProxy; storage: PgStorage }[] = []
  const t = {
    overlaps: 0,
    async start(name: string) {
      const proxy = await freezingProxy(Number(address.port))
      const own = Object.assign(new URL(url), { port: String(proxy.port) })
      const options = { secret, name, version: '1', clock: systemClock, log: silentLog }
      const storage = await openPgStorage({ ...options, url: own.href, maxAgeDays: 0, maxCount: 0 })
      const follower = new Follower(storage)
      open.push({ follower, proxy, storage })
      return { follower, proxy, storage }
    },
    followers: () => open.map(({ follower }) => follower),
    /** Whether each session is polled by exactly one of these. */
    isSpread: (followers: readonly Follower[]) =>
      followers.flatMap(follower => follower.own(names)).length === names.length &&
      followers.every(follower => follower.own(names).length > 0),
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      for (const { follower, proxy, storage } of open) {
        await follower.stop()
        await storage.close()
        await proxy.close()
      }
    },
  }
  const timer = setInterval(() => {
    const all = open.flatMap(({ follower }) => names.filter(name => follower.lease?.mayPoll(name)))
    t.overlaps += all.length - new Set(all).size
  }, 10)
  return t
}

async function save(storage: PgStorage): Promise<void> {
  await Promise.all(names.map(name => storage.state.sessions.save(name, bot(name))))
}

async function fences(url: string): Promise<Map<string, number>> {
  const connection = await connectPg({ url, name: 'test', answerMs: 5000 })
  const rows = await connection.all<{ name: string; fence: number }>(sql`SELECT name, fence FROM account`)
  connection.destroy()
  return new Map(rows.map(({ name, fence }) => [name, fence]))
}

describe.skipIf(!isPostgresThere())('nodes on PostgreSQL', () => {
  test('sessions are spread; those of a node that leaves are polled elsewhere at once, those of a frozen one soon', async () => {
    await using database = await newDatabase()
    await using t = await cluster(database.url)
    const a = await t.start('a')
    await save(a.storage)
    await until('all are polled by the first', 5000, () => t.isSpread([a.follower]))
    const b = await t.start('b')
    const c = await t.start('c')
    const all = [a, b, c].map(({ follower }) => follower)
    await until('all are spread', 10_000, () => t.isSpread(all))
    for (const follower of all) expect(follower.own(names).length).toBeGreaterThan(3)
    const before = await fences(database.url)

    const leaving = b.follower.own(names)
    const left = performance.now()
    await b.follower.stop()
    await until('all are polled by two', 5000, () => t.isSpread([a.follower, c.follower]))
    expect(performance.now() - left).toBeLessThan(2000)
    const after = await fences(database.url)
    for (const name of leaving) expect(after.get(name)).toBeGreaterThan(before.get(name)!)

    c.proxy.freeze()
    const frozen = performance.now()
    await until('all are polled by one', 12_000, () => t.isSpread([a.follower]))
    expect(performance.now() - frozen).toBeLessThan(10_000)
    expect(c.follower.lease?.mayPoll()).toBe(false)
    c.proxy.thaw()
    await until('all are spread again', 20_000, () => t.isSpread([a.follower, c.follower]))
    expect(c.follower.lost).toBe(1)
    expect(t.overlaps).toBe(0)
  }, 60_000)

  test('a session that falls to a newcomer stays where it is until its last batch is stored', async () => {
    await using database = await newDatabase()
    await using t = await cluster(database.url)
    const a = await t.start('a')
    await save(a.storage)
    await until('all are polled', 5000, () => t.isSpread([a.follower]))
    a.follower.confirms = false
    const b = await t.start('b')
    await until('some end', 5000, () => a.follower.polled.size < names.length)
    const moving = names.filter(name => !a.follower.polled.has(name))
    expect(moving.filter(name => a.follower.lease?.mayPoll(name))).toEqual([])
    await b.follower.lease!.listOwned()
    expect(b.follower.own(names)).toEqual([])
    for (const name of moving) a.follower.lease!.giveUp(name)
    await until('they are polled', 5000, () => b.follower.own(names).length === moving.length)
    expect(t.overlaps).toBe(0)
  }, 30_000)

  test('nodes that start at the same time never have the same session', async () => {
    await using database = await newDatabase()
    await using t = await cluster(database.url)
    const started = await Promise.all(['a', 'b', 'c', 'd'].map(name => t.start(name)))
    await save(started[0]!.storage)
    await until('all are spread', 15_000, () => t.isSpread(t.followers()))
    expect(t.overlaps).toBe(0)
  }, 30_000)

  test('a process that polls alone does so only while nobody else polls', async () => {
    await using database = await newDatabase()
    await using t = await cluster(database.url)
    const a = await t.start('a')
    await until('it polls', 5000, () => a.follower.lease?.mayPoll() === true)
    const options = { url: database.url, secret, clock: systemClock, log: silentLog }
    const other = await openPgStorage({ ...options, maxAgeDays: 0, maxCount: 0 })
    expect(await other.leases.join({ alone: true })).toBeUndefined()
    await a.follower.stop()
    const lease = await other.leases.join({ alone: true })
    expect(lease?.mayPoll()).toBe(true)
    await other.close()
  })

  test('after another server took over, ids jump ahead, and no session is taken for a term', async () => {
    await using database = await newDatabase()
    await using t = await cluster(database.url)
    const a = await t.start('a')
    await save(a.storage)
    await until('all are polled', 5000, () => t.isSpread([a.follower]))
    const { revision } = await a.storage.state.sessions.listChangedSince()
    const admin = await connectPg({
      url: (await sharedPostgres()).superUrl(new URL(database.url).pathname.slice(1)),
      name: 'test',
      answerMs: 5000,
    })
    await admin.run(constantSql(`UPDATE svc.meta SET timeline = '000000FF'`))
    await admin.run(constantSql('DELETE FROM svc.server_run'))
    await admin.run(
      sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'svc' AND datname = current_database()`,
    )
    const cut = performance.now()
    await until('the lease is lost', 5000, () => a.follower.lost === 1)
    await until('all are polled again', 15_000, () => t.isSpread([a.follower]))
    expect(performance.now() - cut).toBeGreaterThan(5500)
    const head = await admin.one<{ last: number; revision: number }>(sql`SELECT last, revision FROM svc.head`)
    expect(head.last).toBe(1_000_000)
    expect(head.revision).toBeGreaterThan(revision + 1_000_000)
    const { timeline } = await admin.one<{ timeline: string }>(sql`SELECT timeline FROM svc.meta`)
    expect(timeline).not.toBe('000000FF')
    admin.destroy()
  }, 30_000)

  test('a standby that takes over continues with ids that nobody has seen, and its sessions are taken after a term', async () => {
    await using server = await startPostgres()
    await server.createDatabase('svc')
    {
      const options = { url: server.url('svc'), secret, clock: systemClock, log: silentLog }
      const storage = await openPgStorage({ ...options, maxAgeDays: 0, maxCount: 0 })
      await save(storage)
      await storage.close()
    }
    await using standby = await server.createStandby({ synchronous: true })
    await server.kill()
    await standby.promote()
    await standby.psql(`ALTER SYSTEM SET synchronous_standby_names = ''; SELECT pg_reload_conf();`)
    await using t = await cluster(standby.url('svc'))
    const opened = performance.now()
    const { follower, storage } = await t.start('a')
    await until('all are polled', 15_000, () => t.isSpread([follower]))
    expect(performance.now() - opened).toBeGreaterThan(5500)
    expect(await standby.psql('SELECT last FROM svc.head', 'svc')).toBe('1000000')
    expect((await storage.node.readReplication()).timeline).toBe('00000002')
  }, 60_000)

  test('the nodes and what they poll are listed', async () => {
    await using database = await newDatabase()
    await using t = await cluster(database.url)
    const a = await t.start('a')
    await save(a.storage)
    const b = await t.start('b')
    await until('all are spread', 10_000, () => t.isSpread(t.followers()))
    const listed = await a.storage.node.list()
    expect(listed).toMatchObject([
      { name: 'a', version: '1', polls: true, is_this: true, accounts: a.follower.own(names).length },
      { name: 'b', version: '1', polls: true, is_this: false, accounts: b.follower.own(names).length },
    ])
    for (const { lease_left_ms, since } of listed) {
      expect(lease_left_ms).toBeWithin(1000, 6001)
      expect(Math.abs(since - Date.now())).toBeLessThan(30_000)
    }
    const replication = await a.storage.node.readReplication()
    expect(replication).toMatchObject({ synchronous_standby_names: '', standbys: [], can_read: false })
    expect(replication.timeline).toMatch(/^[0-9A-F]{8}$/)
    await b.storage.close()
    expect((await a.storage.node.list()).map(({ name }) => name)).toEqual(['a'])
  }, 30_000)
})
