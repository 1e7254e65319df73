/** A year of plausible days ends within a tenth of the disk that the page for operators promises. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { sql } from '../../src/platform/sql.ts'
import { onEach } from './engines.ts'
import { insert, message, type Opened } from './support.ts'

const dayMs = 24 * 3_600_000
const perDay = 400
/** Frequent words, so that search words cost what they cost. */
const words =
  'order door light tomorrow thanks where when package invoice meeting coffee 你好 谢谢 明天 快递'.split(' ')
const textOf = (nth: number) =>
  Array.from({ length: 4 + (nth % 9) }, (_, n) => words[(nth * 7 + n * n * 3) % words.length]).join(' ')

/** A short message, as long as WeChat's. */
function received(nth: number) {
  const text = textOf(nth)
  const from_user = `o9cq8${nth % 40}-x1y2z3Ab4Cd5Ef6Gh@im.wechat`
  const id = String(7_412_365_478_000_000_000n + BigInt(nth))
  const item = { type: 1, create_time_ms: nth, update_time_ms: nth, is_completed: true, text_item: { text } }
  const raw = {
    ...{ seq: nth, message_id: id, from_user_id: from_user, to_user_id: '4f2c0a1b2c3d@im.bot' },
    ...{
      client_id: `phone:${id}`,
      create_time_ms: nth,
      update_time_ms: nth,
      delete_time_ms: 0,
      group_id: '',
    },
    ...{
      session_id: `${from_user}#4f2c0a1b2c3d@im.bot`,
      message_type: 1,
      message_state: 2,
      item_list: [item],
    },
  }
  return message(text, { from_user, message_id: id, raw: JSON.stringify(raw) })
}

/** The bytes for one message that the page promises, for an engine. */
function promisedBytes(isSqlite: boolean): number {
  const page = readFileSync(new URL('../../scripts/deploy/README.md', import.meta.url), 'utf8')
  const [, sqlite, postgres] =
    /^\| disk for a million short messages[^|]*\| ([\d.]+) GB \| ([\d.]+) GB \|/m.exec(page)!
  return Number(isSqlite ? sqlite : postgres) * 1000
}

/** What a day brings: messages of 40 people, answers of callers, keys that come and go, and calls that leave lines and events. */
async function liveOneDay(t: Opened, day: number): Promise<void> {
  const { store } = t
  const now = t.clock.now()
  for (let from = 0; from < perDay; from += 100)
    await insert(
      t,
      Array.from({ length: 100 }, (_, n) => received(day * perDay + from + n)),
    )
  // The helper of the tests stores them at a time of its own.
  await t.query(
    sql`UPDATE message SET stored_at = ${now} WHERE stored_at < ${now} AND id > ${t.id(day * perDay)}`,
  )
  for (let nth = 0; nth < 20; nth++) {
    await store.audit.add({ at: now, principal: 'owner', operation: 'name_user', outcome: 'done' })
    await store.events.append([{ type: 'session.status', session: `s${nth % 3}`, data: { name: 's' } }])
  }
  const key = { hash: `${day}`, grant: { rights: [] }, can: [], made_by: 'owner', created_at: now }
  await store.keys.add({ ...key, id: `k${day}`, name: `k${day}` })
  await store.keys.revoke(`k${day}`, now)
}

/** Bytes that the engine has on the disk, once the database has cleaned up as it does at night. */
async function sizeOf(t: Opened): Promise<number> {
  if ('path' in t) return (await stat(String(t.path))).size
  const [row] = await t.query(sql`SELECT sum(pg_total_relation_size(oid)) AS size FROM pg_class
    WHERE relnamespace = 'svc'::regnamespace AND relkind = 'r'`)
  return Number(row!.size)
}

onEach((_it, openStore) => {
  test('a year of days', async () => {
    await using t = await openStore({ maxAgeDays: 30, maxCount: 100_000 })
    const sizes: number[] = []
    for (let day = 0; day < 365; day++) {
      await liveOneDay(t, day)
      t.clock.at += dayMs
      const { maintenance } = t.store
      await maintenance.prune()
      const before = t.clock.now() - 90 * dayMs
      while (await maintenance.removeOld('line', before));
      while (await maintenance.removeOld('key', before));
      if (!('path' in t)) await t.query(sql`VACUUM`)
      if (day % 30 === 0) sizes.push(await sizeOf(t))
    }
    const promised = 30 * perDay * promisedBytes('path' in t)
    const end = sizes.at(-1)!
    expect(end).toBeLessThan(1.1 * promised)
    // From the fourth month on, when the audit log is as long as it gets, nothing grows.
    expect(end).toBeLessThan(1.1 * sizes[4]!)
  }, 3_600_000)
})
