/** What several nodes do to the same sessions at the same time, and how a rename moves what has a name of its own. */
import { describe, expect, test } from 'bun:test'
import { systemClock } from '../../../src/platform/clock.ts'
import { silentLog } from '../../../src/platform/log.ts'
import { createSealer } from '../../../src/platform/sealing.ts'
import { constantSql, sql } from '../../../src/platform/sql.ts'
import { PgDatabase } from '../../../src/storage/postgres/database.ts'
import type { EngineContext } from '../../../src/storage/postgres/part.ts'
import { dayMs } from '../../../src/storage/retention.ts'
import { secret } from '../../support/databases.ts'
import { isPostgresThere } from '../../support/postgres.ts'
import { bot } from '../support.ts'
import { openPostgres } from './support.ts'

/** The database of a test, as a part of the engine uses it. */
async function partOf({ url }: { url: string }): Promise<EngineContext & AsyncDisposable> {
  const db = new PgDatabase({ url, clock: systemClock, log: silentLog, node: crypto.randomUUID() })
  await db.start()
  const context = { db, clock: systemClock, log: silentLog, sealer: createSealer(secret) } as EngineContext
  return { ...context, [Symbol.asyncDispose]: () => db.close() }
}

describe.skipIf(!isPostgresThere())('sessions on PostgreSQL', () => {
  test('several nodes save, mark, rename and remove the same sessions: one default, and no change is lost', async () => {
    await using t = await openPostgres()
    await using second = await t.second()
    await using third = await t.second()
    const nodes = [t, second, third].map(({ storage }) => storage.state.sessions)
    const names = Array.from({ length: 8 }, (_, nth) => `s${nth}`)
    const lists = await Promise.all(nodes.map(node => node.listChangedSince()))
    await Promise.all(nodes.flatMap(node => names.map(name => node.save(name, bot(name)))))
    await Promise.all([
      ...names.map(name => nodes[0]!.mark(name, bot(name).token, { idle_at: 5 })),
      ...names.map(name => nodes[1]!.mark(name, bot(name).token, { poll_error: 'why' })),
      ...names.map(name => nodes[2]!.setDefault(name)),
    ])
    for (const node of nodes) {
      const found = await node.list()
      expect(found.map(({ name }) => name).sort()).toEqual(names)
      for (const { bot } of found) expect(bot).toMatchObject({ idle_at: 5, poll_error: 'why' })
    }
    const moved = await Promise.allSettled(
      nodes.flatMap(node => names.map(name => node.rename(name, `${name}x`))),
    )
    expect(moved.filter(({ status }) => status === 'fulfilled')).toHaveLength(names.length)
    const left = await Promise.allSettled(
      nodes.flatMap(node => names.slice(1).map(name => node.remove(`${name}x`))),
    )
    expect(left.filter(({ status }) => status === 'fulfilled')).toHaveLength(names.length - 1)
    for (const [nth, node] of nodes.entries()) {
      expect((await node.list()).map(({ name }) => name)).toEqual(['s0x'])
      expect(await node.getDefaultName()).toBe('s0x')
      const { changed } = await node.listChangedSince(lists[nth]!.revision)
      expect([...changed].filter(([, record]) => record).map(([name]) => name)).toEqual(['s0x'])
      expect(changed.size).toBe(16)
    }
  })

  test('a node that takes the accounts of one that died logs how many, and of whom', async () => {
    await using t = await openPostgres()
    await using part = await partOf(t)
    for (const name of ['a', 'b', 'new']) await t.storage.state.sessions.save(name, bot(name))
    await part.db.script([
      sql`INSERT INTO node (id, name, version, polls, lease_until)
        VALUES ('dead', 'old.example:1', '1', true, clock_timestamp() - interval '1 s')`,
      sql`UPDATE account SET node = 'dead' WHERE name <> 'new'`,
    ])
    const lease = (await t.storage.leases.join())!
    const { changed } = await lease.listOwned()
    expect([...changed.keys()].sort()).toEqual(['a', 'b', 'new'])
    await lease.listOwned()
    expect(t.lines.filter(line => line.includes('took over'))).toEqual([
      expect.stringMatching(
        /INFO.*took over the accounts of a node whose lease is over accounts=2 node=old.example:1/,
      ),
    ])
  })

  test('a change of the spelling is listed: the old one is gone', async () => {
    await using t = await openPostgres()
    const { sessions } = t.storage.state
    await sessions.save('Shop', bot('b'))
    const { revision } = await sessions.listChangedSince()
    const look = async () =>
      [...(await sessions.listChangedSince(revision)).changed].map(([name, one]) => [name, one?.bot?.bot_id])
    await sessions.rename('shop', 'SHOP')
    expect((await look()).sort()).toEqual([
      ['SHOP', 'b@im.bot'],
      ['Shop', undefined],
    ])
    await sessions.rename('shop', 'Shop')
    expect((await look()).sort()).toEqual([
      ['SHOP', undefined],
      ['Shop', 'b@im.bot'],
    ])
    await sessions.remove('shop')
    await sessions.save('shop', bot('c'))
    expect((await look()).sort()).toEqual([
      ['SHOP', undefined],
      ['Shop', undefined],
      ['shop', 'c@im.bot'],
    ])
    expect(await sessions.list()).toHaveLength(1)
  })

  test('a rename changes the filters and lanes of endpoints, each with a new epoch', async () => {
    await using t = await openPostgres()
    await using part = await partOf(t)
    const { sessions } = t.storage.state
    await sessions.save('a', bot('a'))
    await part.db.script([
      ...['A', 'other', undefined].map(
        (
          session,
          nth,
        ) => sql`INSERT INTO webhook (id, url, types, session, headers, secrets, link_key, allow_private, replies,
          created_at, position) VALUES (${`w${nth}`}, '', '', ${session}, '', '', '', 0, 0, 0, '')`,
      ),
      ...['a', 'b', 'other'].map(
        session =>
          sql`INSERT INTO webhook_lane (webhook, session, peer, position) VALUES ('w2', ${session}, 'u', ${session})`,
      ),
    ])
    await sessions.rename('a', 'b')
    expect(await part.db.all(constantSql('SELECT session, epoch FROM webhook ORDER BY id'))).toEqual([
      { session: 'b', epoch: 1 },
      { session: 'other', epoch: 1 },
      { session: undefined, epoch: 1 },
    ])
    expect(
      await part.db.all(constantSql('SELECT session, position FROM webhook_lane ORDER BY session')),
    ).toEqual([
      { session: 'b', position: 'a' },
      { session: 'other', position: 'other' },
    ])
  })

  test('what says that a session is gone, or spelled otherwise, goes once every node has read it for long', async () => {
    await using t = await openPostgres({ maxAgeDays: 30 })
    const { sessions } = t.storage.state
    for (const name of ['a', 'b', 'c']) await sessions.save(name, bot(name))
    await sessions.remove('a')
    await sessions.rename('b', 'd')
    await sessions.rename('c', 'C')
    const rows = async () =>
      (await t.query(sql`SELECT name FROM account ORDER BY name`)).map(({ name }) => name)
    const all = (await rows()).length
    expect(all).toBe(5)
    t.clock.at += 29 * dayMs
    await t.store.maintenance.prune()
    expect(await rows()).toHaveLength(all)
    t.clock.at += 2 * dayMs
    await t.store.maintenance.prune()
    expect((await rows()).sort()).toEqual(['C', 'd'])
    await using other = await t.second()
    for (const { state } of [t.storage, other.storage])
      expect((await state.sessions.list()).map(({ name }) => name).sort()).toEqual(['C', 'd'])
    await sessions.save('a', bot('a'))
    expect((await sessions.list()).map(({ name }) => name).sort()).toEqual(['C', 'a', 'd'])
  })

  test('no poll begins in the last second of a lease, which lasts', async () => {
    await using t = await openPostgres()
    const { leases, node, state } = t.storage
    await state.sessions.save('s', bot('s'))
    const lease = (await leases.join())!
    await lease.listOwned()
    const mayPoll = () => [lease.mayPoll('s'), lease.mayPoll()]
    expect(mayPoll()).toEqual([true, true])
    // Nothing else runs between these lines, so that the lease does not end meanwhile.
    const jumpMs = node.leaseLeftMs - 900
    t.clock.at += jumpMs
    const inLastSecond = mayPoll()
    t.clock.at -= jumpMs
    expect([inLastSecond, mayPoll()]).toEqual([
      [false, true],
      [true, true],
    ])
    expect(lease.lost.aborted).toBe(false)
    await lease.release()
  })
})
