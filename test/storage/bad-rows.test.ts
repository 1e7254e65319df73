/** One row that cannot be changed stops no other: it is set aside with its reason (`src/platform/apart.ts`). */
import { expect, test } from 'bun:test'
import { RowsFailedError } from '../../src/platform/apart.ts'
import { connectPg } from '../../src/platform/postgres.ts'
import { constantSql } from '../../src/platform/sql.ts'
import { openDatabase } from '../../src/platform/sqlite.ts'
import type { OldKind } from '../../src/storage/store.ts'
import { failure } from '../support/failure.ts'
import { onEach } from './engines.ts'
import {
  bulletin,
  entry,
  insertRow,
  invitation,
  key,
  notice,
  question,
  session,
  turn,
  type Values,
} from './rows.ts'
import { add, part, removeSends } from './sends.ts'
import { insert, message, nthOf, type Opened } from './support.ts'

const day = 24 * 3_600_000
const now = 400 * day
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
    const { outbox } = t.store
    const sends: number[] = []
    for (const text of ['a', 'b', 'c']) sends.push((await add(t.store, [part(text)])).entry.id)
    for (const id of sends) await outbox.end(id, { code: 'cancelled', detail: 'no' })
    t.clock.at += 8 * day
    const mend = await spoil(t, 'DELETE', 'outbox', `old.id = ${sends[0]}`)
    expect((await apart(removeSends(t))).rows).toEqual([`send ${sends[0]}`])
    expect(await Promise.all(sends.map(async id => (await outbox.getEntry(id))?.id))).toEqual([
      sends[0]!,
      undefined,
      undefined,
    ])
    await mend()
    await removeSends(t)
    expect(await outbox.getEntry(sends[0]!)).toBeUndefined()
  })

  /** Rows that are over, three of each kind, by their numbers. */
  const old: Readonly<Record<OldKind, (id: number, isPostgres: boolean) => Values>> = {
    line: id => ({ id, at: 1, principal: 'owner', operation: 'logout', outcome: 'done' }),
    turn: id => turn(id, 'answered', 1),
    question: id => question(id, 1),
    key: id => key(`k${id}`, 1, id),
    invitation: id => invitation(`i${id}`, 1),
    session: (id, isPostgres) => session(id, `s${id}`, 1, isPostgres),
    send: id => entry(id, 1),
    'key of send': id => ({ ...entry(id, now), created_at: 1, key: `k${id}` }),
    notice: id => notice(id, 'sent', 1),
    bulletin: id => bulletin(`b${id}`, 1),
    answer: id => ({
      ...{ id, webhook: 'w', at: 1, event: 'e-1', type: 't', outcome: 'done', took_ms: 1 },
      answer: 'hush',
    }),
  }
  /** Tables and keys of kinds whose rows are not called by their number. */
  const tables: Readonly<Partial<Record<OldKind, readonly [table: string, key?: string]>>> = {
    line: ['audit'],
    turn: ['agent_turn'],
    question: ['agent_question'],
    key: ['access_key', 'k'],
    invitation: ['invitation', 'i'],
    send: ['outbox'],
    'key of send': ['outbox'],
    bulletin: ['bulletin', 'b'],
    answer: ['webhook_try'],
  }
  for (const kind of Object.keys(old) as OldKind[])
    it(`${kind}: one that cannot be removed or changed stops no other`, async t => {
      const [table, prefix = ''] = tables[kind] ?? [kind]
      const changed = { 'key of send': 'key', answer: 'answer' }[kind as string]
      const change = changed ? 'UPDATE' : 'DELETE'
      const isPostgres = !('path' in t)
      const column = kind === 'session' ? 'key' : 'id'
      for (const id of [1, 2, 3]) await t.query(insertRow(table, old[kind](id, isPostgres)))
      if (kind === 'key') await t.query(insertRow(table, key('newest', now, 4)))
      const name = prefix === '' ? 2 : `'${prefix}2'`
      const mend = await spoil(t, change, table, `old.${column} = ${name}`)
      const isLeft = changed ? `${changed} IS NOT NULL` : 'true'
      const left = async () => {
        const rows = await t.query(
          constantSql(`SELECT ${column} AS id FROM ${table} WHERE ${isLeft} ORDER BY 1`),
        )
        return rows.map(({ id }) => String(id)).filter(id => id !== 'newest')
      }
      const remove = () => t.store.maintenance.removeOld(kind, now - day)
      expect(await apart(remove())).toEqual({ rows: [`${kind} ${prefix}2`], done: false })
      expect(await left()).toEqual([`${prefix}2`])
      await mend()
      expect(await remove()).toBe(false)
      expect(await left()).toEqual([])
    })

  it('notices whose time is over go past one that cannot be removed', async t => {
    const { topics } = t.store
    const person = { session: 's', user_id: 'u' }
    await topics.add({
      ...{
        people: [person],
        name: 'home',
        min_priority: 'min',
        max_priority: 'high',
        digest: false,
        answers: 5,
      },
      ...{ keep_ms: day, attach_private: false, made_by: 'owner', created_at: 1 },
    })
    const texts = ['a', 'b', 'c'].map(text => ({ text, priority: 'default' }) as const)
    await topics.accept('home', texts, {})
    const bad = (await topics.read(person)).notices.find(({ name }) => name === 'a')
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
    await spoil(t, 'DELETE', 'message', `old.id IN (${t.id(1)}, ${t.id(4)})`)
    const { done, rows } = await apart(t.store.maintenance.prune())
    expect(rows).toEqual([`message ${t.id(1)}`, `message ${t.id(4)}`])
    expect(done).toBe(0)
    expect((await t.store.log.listAfter(0, { limit: 99 })).map(({ id }) => nthOf(id))).toEqual([1, 4, 9, 10])
  })
})
