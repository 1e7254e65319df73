/** Writes whose result the process did not get: what becomes of them when the database answers again. */
import { describe, expect, test } from 'bun:test'
import { connectPg, type PgConnection } from '../../../src/platform/postgres.ts'
import { sql } from '../../../src/platform/sql.ts'
import type { Store } from '../../../src/storage/store.ts'
import { failure } from '../../support/failure.ts'
import { isPostgresThere } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { byId, insert, message, open, outgoing, sending } from '../support.ts'
import { openPostgres } from './support.ts'

/** Runs work whose writes do not commit. @returns the error */
async function withoutCommit(other: PgConnection, work: () => Promise<unknown>): Promise<Error> {
  await other.run(sql`BEGIN`)
  await other.run(sql`LOCK TABLE svc.outbox_part IN EXCLUSIVE MODE`)
  const failed = failure(work())
  const waiting = sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
    AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()`
  await until('it fails', 20_000, async () => {
    await other.all(waiting)
    return Bun.peek.status(failed) !== 'pending'
  })
  await other.run(sql`COMMIT`)
  return await failed
}

/** Runs work that commits, and whose process does not get to know it. @returns the error */
async function withoutAnswer(other: PgConnection, work: () => Promise<unknown>): Promise<Error> {
  const barriers = sql`FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
    AND query LIKE '%durable%' AND pid <> pg_backend_pid()`
  // A write counts after a barrier, which waits for this lock.
  await other.run(sql`BEGIN`)
  await other.run(sql`LOCK TABLE svc.durable IN EXCLUSIVE MODE`)
  const failed = failure(work())
  await until(
    'its barrier waits',
    10_000,
    async () => (await other.all(sql`SELECT pid ${barriers}`)).length > 0,
  )
  const ended = until('its barriers end', 10_000, async () => {
    await other.all(sql`SELECT pg_terminate_backend(pid) ${barriers}`)
    return Bun.peek.status(failed) !== 'pending'
  })
  const error = await failed
  await ended
  await other.run(sql`COMMIT`)
  return error
}

const call = { session: 's', bot_id: 'b', user: 'u', mode: 'fail', made_by: 'owner', key: 'k' } as const
const enqueue = ({ outbox }: Store, text: string) =>
  outbox.enqueue({ ...call, parts: [{ kind: 'text' }] }, open, outgoing(text))

describe.skipIf(!isPostgresThere())('when the database gives no answer', () => {
  test('a message that began so is not sent: it ends, and the key tells it', async () => {
    await using t = await openPostgres()
    const other = await connectPg({ url: t.url, name: 'test', answerMs: 10_000 })
    await insert(t, [message('hi')])
    const error = await withoutAnswer(other, () => enqueue(t.store, 'one'))
    expect(error).toMatchObject({ code: 'store_unavailable' })
    expect(await t.store.outbox.reap(0)).toBe(0)
    t.clock.at += 20_000
    expect(await t.store.outbox.reap(0)).toBe(1)
    expect(await enqueue(t.store, 'two')).toMatchObject({
      state: 'known',
      entry: { ended: true, parts: [{ status: 'unknown' }] },
    })
    other.destroy()
  })

  test('a batch that is tried again is stored again where the database has lost it, and counts as new', async () => {
    await using t = await openPostgres()
    const other = await connectPg({ url: t.url, name: 'test', answerMs: 10_000 })
    const batch = {
      ...{ id: 'batch', session: 's', token: 'of nobody', botId: 'b', cursorFrom: '', cursorTo: 'x', now: 1 },
      messages: [message('kept'), message('lost')].map(one => ({ ...one, repeated: { received_at: 1 } })),
    }
    await withoutAnswer(other, () => t.storage.ingest(batch))
    const [kept, lost] = await other.all<{ id: number }>(sql`SELECT id FROM svc.message ORDER BY id`)
    await other.run(sql`DELETE FROM svc.message WHERE id = ${lost!.id}`)
    const { rows } = await t.storage.ingest(batch)
    expect(rows).toEqual([kept!.id, expect.any(Number)])
    const found = await t.store.log.getByIds(rows.map(Number))
    expect(found.map(({ text }) => text)).toEqual(['kept', 'lost'])
    other.destroy()
  })

  test('a message that was sent is settled later, and once', async () => {
    await using t = await openPostgres()
    const other = await connectPg({ url: t.url, name: 'test', answerMs: 10_000 })
    await insert(t, [message('hi')])
    const begun = await sending(t.store, 's', 'b', outgoing('one'))
    const settled = { status: 'accepted', message_id: '77', spent: true, unseen: false } as const
    // The settlement was stored, or was not: here it was.
    const error = await withoutAnswer(other, () => t.store.outbox.settle(begun, settled))
    expect(error).toMatchObject({ code: 'store_unavailable' })
    expect(await t.store.outbox.reap(0)).toBe(0)
    expect(await byId(t.store, begun.row)).toMatchObject({ status: 'accepted', message_id: '77' })

    const next = await sending(t.store, 's', 'b', outgoing('two'))
    await withoutCommit(other, () => t.store.outbox.settle(next, { ...settled, message_id: '78' }))
    // Another process takes it for lost.
    await using second = await t.second()
    expect(await second.store.outbox.reap(Number.MAX_SAFE_INTEGER)).toBe(1)
    expect(await byId(t.store, next.row)).toMatchObject({ status: 'unknown' })
    await t.store.outbox.reap(0)
    expect(await byId(t.store, next.row)).toMatchObject({ status: 'accepted', message_id: '78' })
    other.destroy()
  })

  test('a message that was not handed over keeps its key until that is stored; the next call sends it, with a row of its own', async () => {
    await using t = await openPostgres()
    await using second = await t.second()
    const other = await connectPg({ url: t.url, name: 'test', answerMs: 10_000 })
    await insert(t, [message('hi')])
    const first = await enqueue(t.store, 'one')
    if (first.state !== 'new') throw new Error(first.state)
    const refused = { status: 'refused', spent: false, unseen: true } as const
    const error = { code: 'store_unavailable', detail: 'the login could not be read' } as const
    await withoutCommit(other, () => t.store.outbox.settle(first.begun!, { ...refused, error }))
    // It may have been sent, for all that another process knows.
    expect(await enqueue(second.store, 'two')).toMatchObject({ state: 'known', entry: { ended: false } })
    await t.store.outbox.reap(0)
    const next = await enqueue(second.store, 'two')
    if (next.state !== 'new') throw new Error(next.state)
    await second.store.outbox.settle(next.begun!, { status: 'accepted', message_id: '77', spent: true })
    expect(await enqueue(t.store, 'three')).toMatchObject({ state: 'known', entry: { ended: true } })
    const rows = [first, next].map(({ begun }) => byId(t.store, begun!.row))
    expect(await Promise.all(rows)).toMatchObject([{ status: 'refused' }, { status: 'accepted' }])
    other.destroy()
  })
})
