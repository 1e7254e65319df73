/** Every table and file of svc has a bound, the list of tables says which, and what is old is removed by whom it names. */
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { dataFiles } from '../../src/model/data-files.ts'
import { constantSql, sql } from '../../src/platform/sql.ts'
import type { PgStorage } from '../../src/storage/postgres/open.ts'
import { keptBy, type StoreTable, storeTables } from '../../src/storage/table-list.ts'
import { onEach } from './engines.ts'
import {
  bulletin,
  entry,
  insertRow,
  invitation,
  key,
  notice,
  part,
  question,
  turn,
  type Values,
} from './rows.ts'
import { add, part as partOf, removeSends } from './sends.ts'
import { bot, insert, message, nthOf, type Opened, outgoing, sending } from './support.ts'

type Bound = StoreTable['bound']
const day = 24 * 3_600_000
/** Rows of a table, by a time: an old one, and one that is alive by its age or by what it is. */
interface Case {
  old(at: number, now: number): Values
  alive(now: number): Values
}

const login = (id: string, until: number) => ({
  name_key: id,
  id,
  version: '1',
  until,
  ended: 1,
  data: '{}',
})
const client = (key: string) => ({ key, session: 1, answers: 'all', created_at: 1, refused: 0 })
const upload = (id: string, expires_at: number) => ({ id, store: 'uploads', begun_at: 1, expires_at })
const asked = (at: number) => ({ at, principal: 'owner', operation: 'name_user', outcome: 'done' })

/** Of each table that is bound by the age of its rows, or by another table that is. */
const cases: Readonly<Record<string, Case>> = {
  event: {
    old: at => ({ place: 1, type: 'audit.line', at, data: '{}' }),
    alive: at => ({ place: 2, type: 'audit.line', at, data: '{}' }),
  },
  outbox: { old: at => entry(1, at), alive: now => entry(2, now) },
  outbox_part: { old: () => part(1000, 1), alive: () => part(2000, 2) },
  turn: {
    old: at => ({ session: 1, peer: 'u', at }),
    alive: now => ({ session: 2, peer: 'u', at: now }),
  },
  access_key: { old: at => key('k1', at, 1), alive: at => key('k2', at, 2) },
  key_use: {
    old: () => ({ key: 'k1', node: 'n', calls: 1, open: 0, bytes: 1, day_began: '2020-01-01' }),
    alive: () => ({ key: 'k1', node: 'o', calls: 1, open: 0, bytes: 1, day_began: '2999-01-01' }),
  },
  relay_client: { old: () => client('k1'), alive: () => client('k2') },
  invitation: { old: at => invitation('i1', at), alive: now => invitation('i2', now) },
  invitation_use: {
    old: at => ({ login: 'l1', invitation: 'i1', at }),
    alive: now => ({ login: 'l2', invitation: 'i2', at: now }),
  },
  audit: { old: asked, alive: asked },
  agent_turn: { old: at => turn(1, 'more', at), alive: now => turn(2, 'more', now) },
  agent_question: { old: at => question(1, at), alive: now => question(2, now) },
  notice: { old: at => notice(1, 'sent', at), alive: now => notice(2, 'sent', now + day) },
  bulletin: { old: at => bulletin('b1', at), alive: now => bulletin('b2', now) },
  gap: {
    old: () => ({ after: 1, size: 10, place: 1 }),
    alive: () => ({ after: 1_000_000, size: 10, place: 1 }),
  },
  login_flow: { old: at => login('old', at), alive: now => login('alive', now + day) },
  sign_in_link: {
    old: at => ({ code: 'old', until: at, shared: 0 }),
    alive: now => ({ code: 'alive', until: now + day, shared: 0 }),
  },
  upload: { old: at => upload('u1', at), alive: now => upload('u2', now + day) },
  blob: {
    old: () => ({ id: 'u1', n: 0, data: 'x' }),
    alive: () => ({ id: 'u2', n: 0, data: 'x' }),
  },
}
/** They have rows of messages and sessions, for which there are tests by themselves. */
const apart = ['message', 'gram', 'session']
/** They go with an account, a reader or an endpoint, which a caller removes. */
const ofCallers: readonly Bound[] = ['session', 'consumer', 'webhook']

const bounds: ReadonlyMap<string, Bound> = new Map(storeTables.map(({ bound, name }) => [name, bound]))
const isAged = (bound: Bound) => /^age/.test(bound)
/** Tables whose rows get old, with those that go with them. */
const aged = storeTables.filter(
  ({ bound }) => isAged(bound) || (bounds.has(bound) && !ofCallers.includes(bound)),
)

test('every table whose rows get old has a row in this test, and every other bound is another table', () => {
  const names = aged.map(({ name }) => name).filter(name => !apart.includes(name))
  expect(names.toSorted()).toEqual(Object.keys(cases).toSorted())
  const words = /^(age|age and number|number|person|session|process|file|one|nothing)$/
  for (const { bound, name } of storeTables) {
    expect([name, words.test(bound) || bounds.has(bound)]).toEqual([name, true])
    expect(bound).not.toBe(name as Bound)
  }
})

test('every table and every file has a bound, and nothing else', () => {
  const inFolders = ['uploads', 'queued', 'downloads', 'backups', 'aside', 'halfWritten']
  const files = [...Object.keys(dataFiles), ...inFolders].map(name => `file.${name}`)
  // A name of a method, or one of these words.
  const words = /^(prune|removeOld|\w+\.\w+|sandbox|forget|caller|process|operator|nobody)$/
  for (const { removedBy } of keptBy.values()) expect(removedBy).toMatch(words)
  expect([...keptBy.keys()].toSorted()).toEqual([...storeTables.map(({ name }) => name), ...files].toSorted())
})

test('a table that is bound by persons has the column of one, or goes with the next message', () => {
  for (const { bound, people, removedBy } of storeTables)
    if (bound === 'person' && removedBy === 'forget') expect(people).toBeDefined()
})

/** Runs what removes, as maintenance does, or as a call does that comes next. */
const remove = (t: Opened, before: number): Readonly<Record<string, () => Promise<unknown>>> => ({
  prune: () => t.store.maintenance.prune(),
  async removeOld() {
    for (const kind of ['line', 'turn', 'question', 'key', 'invitation'] as const)
      await t.store.maintenance.removeOld(kind, before)
    await removeSends(t)
  },
  'topics.expire': () => t.store.topics.expire(),
  'media.sweep': () => (t.storage as PgStorage).openMediaStores({ uploads: { lifeMs: day } }).uploads.sweep(),
  caller: async () => {
    const { logins, signIns } = t.storage.state
    await signIns.takeLink('none', t.clock.now())
    const qr = { status: 'waiting', revision: 0, told: 0 } as const
    const next = {
      id: 'l',
      session: 'new',
      version: '',
      until: t.clock.now() * 2,
      force: false,
      ended: false,
    }
    await logins.put({ ...next, ...qr }, t.clock.now())
  },
})

async function rowsOf(t: Opened, table: string): Promise<Record<string, unknown>[]> {
  const all = new Map(JSON.parse(await t.dump()) as [string, Record<string, unknown>[]][])
  return all.get(table) ?? []
}

onEach((_it, openStore) => {
  test('what is old goes away with whom the list names, and what is alive stays', async () => {
    await using t = await openStore({ maxAgeDays: 30 })
    const there = new Set((JSON.parse(await t.dump()) as [string, unknown][]).map(([name]) => name))
    const tables = aged.filter(({ name }) => name in cases && there.has(name))
    expect(tables.length).toBeGreaterThan(10)
    const now = t.clock.now()
    const old = now - 91 * day
    const parentsFirst = tables.toSorted((a, b) => Number(bounds.has(a.bound)) - Number(bounds.has(b.bound)))
    for (const { name } of parentsFirst) {
      const { alive, old: past } = cases[name]!
      await t.query(insertRow(name, past(old, now)))
      await t.query(insertRow(name, alive(now)))
    }
    // As if messages had come after the gap, and were gone.
    if (there.has('head')) await t.query(sql`UPDATE head SET place = 100000002, last = 100`)
    const before = await Promise.all(tables.map(async ({ name }) => [name, (await rowsOf(t, name)).length]))
    expect(before).toEqual(tables.map(({ name }) => [name, 2]))
    // Rows that go with others come after these.
    for (const { removedBy } of parentsFirst) await remove(t, now - 30 * day)[removedBy]!()
    for (const { name } of tables) {
      const kept = (await rowsOf(t, name)).filter(row => row.name_key !== 'new')
      const known = cases[name]!.alive(now)
      const [same] = kept.map(row =>
        Object.keys(known).filter(column => String(row[column]) === String(known[column])),
      )
      expect([name, kept.length]).toEqual([name, 1])
      expect([name, same?.includes(Object.keys(known)[0]!)]).toEqual([name, true])
    }
  })

  test('links to sign in that nobody opened go when the next one is made, and ended sign-ins by their number', async () => {
    await using t = await openStore()
    const { signIns } = t.storage.state
    const now = t.clock.now()
    for (let nth = 0; nth < 5; nth++) await signIns.addLink(`link ${nth}`, now + 5, now)
    expect(await rowsOf(t, 'sign_in_link')).toHaveLength(5)
    await signIns.addLink('next', now + 10, now + 5)
    expect(await rowsOf(t, 'sign_in_link')).toHaveLength(1)
    const names = Array.from({ length: 1200 }, (_, nth) => `sign-in ${nth}`)
    await signIns.end(names.slice(0, 600), now + 1)
    await signIns.end(names.slice(600), now + 2)
    expect(await rowsOf(t, 'ended_sign_in')).toHaveLength(1000)
    expect((await signIns.filterEnded(names.slice(600))).size).toBe(600)
  })

  describe('names of sessions that are gone', () => {
    const nameless = (table: string) =>
      constantSql(`SELECT * FROM ${table} WHERE session NOT IN (SELECT key FROM session)`)
    const namesOf = async (t: Opened) => {
      const rows = await t.query(sql`SELECT name FROM session`)
      return rows.map(({ name }) => String(name)).sort()
    }

    test('go with what they leave, once nothing has referred to them for long', async () => {
      await using t = await openStore({ maxAgeDays: 30 })
      const { consumers, conversations, events, maintenance, names, outbox } = t.store
      const { sessions } = t.storage.state
      const all = ['again', 'gone', 'living', 'named', 'waits']
      for (const name of all) {
        await sessions.save(name, bot(name))
        await insert(t, [message('x', { from_user: 'u' })], name, `${name}@im.bot`)
        await outbox.settle(await sending(t.store, name, `${name}@im.bot`, outgoing(name)), {
          status: 'accepted',
          spent: true,
        })
        await conversations.markRead(name, 'u')
        await conversations.markRead(name, 'u', undefined, 'k')
        await consumers.claim('default', { limit: 9, session: name })
        await events.append([{ type: 'session.status', session: name, data: { name } }])
        if (name !== 'living') await sessions.remove(name)
      }
      await names.set('named', 'u', 'Ann')
      await add(t.store, [partOf('later')], { session: 'waits' })
      await events.append([{ type: 'endpoint.disabled', data: {} }])
      const remove = async (days: number) => {
        t.clock.at += days * day
        await maintenance.prune()
        await removeSends(t)
        const { clock } = t
        return await maintenance.removeOld('session', clock.now() - 90 * day, ['Living'])
      }
      const keys = await t.query(sql`SELECT key FROM session`)
      await remove(0)
      // The messages go, and then the names wait.
      for (const days of [31, 89]) {
        await remove(days)
        expect(await namesOf(t)).toEqual(all)
      }
      await insert(t, [message('back')], 'again', 'again@im.bot')
      await remove(2)
      expect(await namesOf(t)).toEqual(['again', 'living', 'named', 'waits'])
      const tables = storeTables.filter(
        ({ columns, name }) =>
          columns.includes('session') && !/^(message|event|webhook|webhook_lane|acknowledged)$/.test(name),
      )
      expect(tables.length).toBeGreaterThan(7)
      for (const { name } of tables)
        expect([name, await t.query(sql`${nameless(name)} AND session IS NOT NULL`)]).toEqual([name, []])
      // Its events go with the next messages.
      await remove(31)
      const { events: left } = await events.listAfter('', { limit: 99, types: ['session.status'] })
      expect(left.map(({ data }) => (data as { name: string }).name)).toEqual([
        'again',
        'living',
        'named',
        'waits',
      ])
      // The name is free, for a session that has nothing of the other one.
      await insert(t, [message('new')], 'gone', 'gone@im.bot')
      const [row] = await t.query(sql`SELECT key FROM session WHERE name = 'gone'`)
      expect(keys.map(({ key }) => Number(key))).not.toContain(Number(row!.key))
      expect(await t.store.log.listAfter(0, { limit: 9, session: 'gone' })).toHaveLength(1)
    })

    test('stay for whoever uses one while it is removed', async () => {
      await using t = await openStore()
      await using other = await t.second()
      const rounds = 8
      for (let round = 0; round < rounds; round++) {
        await t.query(sql`UPDATE session SET unused_since = 1`)
        await t.query(sql`DELETE FROM message`)
        await Promise.all([
          ...[t, other].map(({ store }) => store.maintenance.removeOld('session', t.clock.now() - day, [])),
          insert(t, [message('x')], 's'),
          sending(other.store, 's', 'b', outgoing(`out ${round}`)),
        ])
        for (const table of ['message', 'session_bot', 'outbox_lane'])
          expect([table, await t.query(nameless(table))]).toEqual([table, []])
        expect((await t.store.log.listAfter(0, { limit: 9, session: 's' })).length).toBe(2)
      }
    })
  })

  test('messages go by age and by number', async () => {
    await using t = await openStore({ maxAgeDays: 30, maxCount: 3 })
    await insert(t, [message('ancient'), message('older'), message('a'), message('b'), message('new')])
    await t.query(sql`UPDATE message SET stored_at = ${t.clock.now() - 31 * day} WHERE id <= ${t.id(3)}`)
    await t.store.maintenance.prune()
    expect((await rowsOf(t, 'message')).map(({ id }) => nthOf(Number(id)))).toEqual([4, 5])
  })

  describe('events', () => {
    const told = (nth: number) => ({ type: 'endpoint.disabled' as const, data: { id: `e${nth}` } })

    test('that no message comes after go by their age; the newest stays, and its place is not used again', async () => {
      await using t = await openStore({ maxAgeDays: 30 })
      const { events, maintenance } = t.store
      const places: string[] = []
      await t.store.names.set('s', 'u', 'Ann')
      for (let nth = 0; nth < 5; nth++) {
        await events.append([told(nth)])
        places.push(await events.getHead())
      }
      await events.append([{ type: 'session.status', session: 's', data: { name: 's' } }])
      await events.append([told(5)])
      const end = await events.getHead()
      t.clock.at += 29 * day
      await maintenance.prune()
      expect((await events.listAfter('', { limit: 99 })).events).toHaveLength(7)
      t.clock.at += 2 * day
      await maintenance.prune()
      const page = await events.listAfter('', { limit: 99 })
      expect(page.events.map(({ type }) => type)).toEqual(['session.status', 'endpoint.disabled'])
      // Who was behind what is gone hears of it; who was not, does not.
      const isGone = async (cursor: string) => (await events.listAfter(cursor, { limit: 99 })).gone === true
      expect(await Promise.all(['', places[0]!, places[3]!, end].map(isGone))).toEqual([
        false,
        true,
        true,
        false,
      ])
      await events.append([told(6)])
      const next = await events.listAfter(end, { limit: 99 })
      expect([next.gone, next.events.length]).toEqual([undefined, 1])
      await t.reopen()
      expect((await t.store.events.listAfter(places[1]!, { limit: 9 })).gone).toBe(true)
    })

    test('without a limit by age all stay', async () => {
      await using t = await openStore()
      for (let nth = 0; nth < 3; nth++) await t.store.events.append([told(nth)])
      t.clock.at += 5000 * day
      await t.store.maintenance.prune()
      expect((await t.store.events.listAfter('', { limit: 99 })).events).toHaveLength(3)
    })

    test('more than one step of them go in one run', async () => {
      await using t = await openStore({ maxAgeDays: 30 })
      for (let nth = 0; nth < 7; nth++)
        await t.store.events.append(Array.from({ length: 100 }, (_, more) => told(nth * 100 + more)))
      t.clock.at += 31 * day
      await t.store.maintenance.prune()
      expect((await t.store.events.listAfter('', { limit: 999 })).events).toHaveLength(1)
    })
  })

  test('a key stays while a webhook is its own; the last one stays, so the service stays closed', async () => {
    await using t = await openStore()
    const { keys, webhooks } = t.store
    const made = { hash: 'h', grant: { rights: [] }, can: [], made_by: 'owner', created_at: 1 }
    for (const id of ['a', 'b', 'c']) await keys.add({ ...made, id, name: id })
    const endpoint = { url: 'https://example.org/', types: [], headers: {}, secrets: [{ secret: 's' }] }
    const more = { link_key: 'l', allow_private: false, replies: false, created_at: 1, position: '' }
    await webhooks.add({ ...endpoint, ...more, id: 'w', made_by: 'panel:b' })
    for (const id of ['a', 'b', 'c']) await keys.revoke(id, 5)
    expect(await t.store.maintenance.removeOld('key', 5)).toBe(false)
    expect((await keys.list()).map(({ id }) => id)).toEqual(['a', 'b', 'c'])
    await t.store.maintenance.removeOld('key', 6)
    expect((await keys.list()).map(({ id }) => id)).toEqual(['b', 'c'])
    await webhooks.remove('w')
    await t.store.maintenance.removeOld('key', 6)
    expect((await keys.list()).map(({ id }) => id)).toEqual(['c'])
    expect(await keys.hasAny()).toBe(true)
    await keys.add({ ...made, id: 'd', name: 'd' })
    await t.store.maintenance.removeOld('key', 6)
    expect((await keys.list()).map(({ id }) => id)).toEqual(['d'])
  })
})

test('the page for operators tells of every table and file how it is bound', () => {
  const page = readFileSync(new URL('../../scripts/deploy/README.md', import.meta.url), 'utf8')
  const section = page.split('## What is kept')[1]!.split('\n## ')[0]!
  const told = [...section.matchAll(/^\| ([^|]+) \| ([^|]+) \| [^|]+ \|$/gm)].flatMap(
    ([, names = '', bound = '']) =>
      [...names.matchAll(/`([\w.]+)`/g)].map(([, name = '']) => [name, bound.trim()]),
  )
  const known = [...keptBy].map(([name, { bound }]) => [name, bound])
  expect(told.toSorted()).toEqual(known.toSorted() as never)
})
