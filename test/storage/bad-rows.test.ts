/** One row that cannot be changed stops no other: it is set aside with its reason (`src/platform/apart.ts`). */
import { expect, test } from 'bun:test'
import { RowsFailedError } from '../../src/platform/apart.ts'
import { connectPg } from '../../src/platform/postgres.ts'
import { constantSql } from '../../src/platform/sql.ts'
import { openDatabase } from '../../src/platform/sqlite.ts'
import { failure } from '../support/failure.ts'
import { onEach } from './engines.ts'
import { add, part } from './sends.ts'
import { insert, message, type Opened } from './support.ts'

const day = 24 * 3_600_000
type Place = Opened & { path?: string; url?: string }

async function run(t: Place, ...statements: readonly string[]): Promise<void> {
  if (t.url === undefined) {
    const db = await openDatabase(t.path!)
    for (const statement of statements) db.exec(statement)
    return db.close()
  }
  const connection = await connectPg({ url: t.url, name: 'tests', answerMs: 60_000 })
  for (const statement of statements) await connection.run(constantSql(statement))
  connection.destroy()
}

/** Lets each change of a row fail for which the condition about `old` holds. @returns a function that mends it */
async function spoil(
  t: Place,
  change: string,
  table: string,
  condition: string,
): Promise<() => Promise<void>> {
  const isPg = t.url !== undefined
  const begin = `CREATE TRIGGER spoiled BEFORE ${change} ON ${table}`
  if (!isPg) await run(t, `${begin} WHEN ${condition} BEGIN SELECT RAISE(ABORT, 'spoiled row'); END`)
  else
    await run(
      t,
      `CREATE OR REPLACE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'spoiled row'; END$$`,
      `${begin} FOR EACH ROW WHEN (${condition}) EXECUTE FUNCTION spoil()`,
    )
  return () => run(t, isPg ? `DROP TRIGGER spoiled ON ${table}` : 'DROP TRIGGER spoiled')
}

/** What failed, and what was done all the same. */
async function apart<T>(call: Promise<T>): Promise<{ rows: string[]; done: T }> {
  const error = await failure(call)
  expect(error).toBeInstanceOf(RowsFailedError)
  const { done, failures } = error as RowsFailedError<T>
  for (const { error } of failures) expect(String(error)).toContain('spoiled row')
  return { rows: failures.map(({ row }) => row), done }
}

onEach((it, open) => {
  it('a send that cannot be ended, and one that cannot be let go, stop no other', async t => {
    const { outbox } = t.store
    const sends: number[] = []
    for (const text of ['a', 'b', 'c'])
      sends.push((await add(t.store, [part(text)], { send_at: t.clock.at + 1000 })).entry.id)
    const mend = await spoil(t, 'UPDATE', 'outbox', `old.id = ${sends[1]}`)
    t.clock.at += 2000
    const { done, rows } = await apart(outbox.expire())
    expect(rows).toEqual([`send ${sends[1]}`])
    expect(done.map(({ entry }) => entry.id)).toEqual([sends[0]!, sends[2]!])
    await mend()
    expect(await outbox.expire()).toMatchObject([{ entry: { id: sends[1] }, isLetGo: true }])
  })

  it('an ended send that cannot be removed stops neither other ones nor retention', async t => {
    const { maintenance, outbox } = t.store
    const sends: number[] = []
    for (const text of ['a', 'b', 'c']) sends.push((await add(t.store, [part(text)])).entry.id)
    for (const id of sends) await outbox.end(id, { code: 'cancelled', detail: 'no' })
    t.clock.at += 8 * day
    const mend = await spoil(t, 'DELETE', 'outbox', `old.id = ${sends[0]}`)
    expect((await apart(maintenance.pruneOutbox())).rows).toEqual([`send ${sends[0]}`])
    expect(await Promise.all(sends.map(async id => (await outbox.getEntry(id))?.id))).toEqual([
      sends[0]!,
      undefined,
      undefined,
    ])
    await mend()
    await maintenance.pruneOutbox()
    expect(await outbox.getEntry(sends[0]!)).toBeUndefined()
  })

  it('lines of the audit log and turns of agents go past those that cannot be removed', async t => {
    const { agents, audit } = t.store
    const line = { principal: 'key:k1', operation: 'logout' }
    for (const at of [1, 2, 3, 4]) await audit.add({ ...line, at })
    await spoil(t, 'DELETE', 'audit', 'old.at = 2')
    expect(await apart(audit.prune(4))).toEqual({ rows: ['line 2'], done: false })
    const left = await audit.list({ limit: 9 } as Parameters<typeof audit.list>[0])
    expect(left.map(({ at }) => at)).toEqual([4, 2])
    expect(await agents.prune(1)).toBe(false)
  })

  it('notices whose time is over go past one that cannot be removed', async t => {
    const { topics } = t.store
    const person = { session: 's', user_id: 'u' }
    await topics.add({
      ...{ ...person, name: 'home', min_priority: 'min', max_priority: 'high', digest: false, answers: 5 },
      ...{ keep_ms: day, attach_private: false, made_by: 'owner', created_at: 1 },
    })
    const texts = ['a', 'b', 'c'].map(text => ({ text, priority: 'default' }) as const)
    const [bad] = (await topics.accept('home', texts))!
    await spoil(t, 'DELETE', 'notice', `old.id = ${bad!.id}`)
    t.clock.at += 2 * day
    expect((await apart(topics.expire())).rows).toEqual([`notice ${bad!.id}`])
    // It is not sent either.
    expect((await topics.read(person)).notices).toEqual([])
    expect((await topics.find('home'))!.expired).toBe(2)
  })

  it('a key that cannot be ended stops no other', async t => {
    const { keys } = t.store
    const ids = ['k1', 'k2', 'k3']
    for (const id of ids)
      await keys.add({
        ...{
          id,
          name: id,
          hash: `hash of ${id}`,
          grant: { rights: [] },
          can: { rights: [] },
          made_by: 'owner',
          created_at: 1,
        },
        expires_at: 1000,
      } as unknown as Parameters<typeof keys.add>[0])
    await spoil(t, 'UPDATE', 'access_key', `old.id = 'k2'`)
    expect(await apart(keys.endExpired(2000))).toEqual({ rows: ['key k2'], done: ['k1', 'k3'] })
  })

  test('messages and events that cannot be removed stop no other', async () => {
    await using t = await open({ maxCount: 2 })
    await insert(
      t,
      Array.from({ length: 10 }, () => message('x')),
    )
    await spoil(t, 'DELETE', 'message', 'old.id IN (1, 4)')
    const { done, rows } = await apart(t.store.maintenance.prune())
    expect(rows).toEqual(['message 1', 'message 4'])
    expect(done).toBe(0)
    expect((await t.store.log.listAfter(0, { limit: 99 })).map(({ id }) => id)).toEqual([1, 4, 9, 10])
  })
})
