/** Messages whose ids and users are as long as upstream can make them: an entry of a B-tree has less room. */
import { describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { silentLog } from '../../../src/platform/log.ts'
import { sql } from '../../../src/platform/sql.ts'
import { PgDatabase } from '../../../src/storage/postgres/database.ts'
import { isPostgresThere } from '../../support/postgres.ts'
import { bot, insert, message } from '../support.ts'
import { openPostgres } from './support.ts'

/** Text that cannot be compressed. */
const random = (length: number, alphabet: readonly string[]) =>
  Array.from(randomBytes(length), byte => alphabet[byte % alphabet.length]).join('')
const hanzi = Array.from({ length: 256 }, (_, nth) => String.fromCharCode(0x4e00 + nth * 79))
const hex = [...'0123456789abcdef\\']

describe.skipIf(!isPostgresThere())('PostgreSQL', () => {
  test('a message whose id is very long is stored once, and found', async () => {
    await using t = await openPostgres()
    const ids = [random(100_000, hex), random(100_000, hanzi), random(3000, ['\0', '\ue0fe', '\\x', "'"])]
    const long = ids.map(message_id => message('long', { message_id, timed: false }))
    expect(await insert(t, [...long, message('next')])).toEqual([1, 2, 3, 4])
    expect(await insert(t, long)).toEqual(ids.map(() => 'duplicate'))
    const { rows } = await t.store.log.getByMessageIds(ids)
    expect(rows.map(row => row.message_id)).toEqual(ids)
    const answered = ids.map(id => ({ ...message('other', { message_id: id, timed: false }) }))
    expect(await insert(t, answered, 's', 'another bot')).toEqual([5, 6, 7])
  })

  test('a user whose id is as long as it may be is stored, with the right to answer', async () => {
    await using t = await openPostgres()
    await t.storage.state.sessions.save('s', bot('b'))
    const users = [
      random(512, hanzi),
      random(512, ['\0', '\ue0fe']),
      '\0'.repeat(512),
      random(512, ['\0', 'a', '好']),
    ]
    const batch = users.map(from_user => ({
      ...message('x', { from_user, written_at: 1000, contextToken: 't' }),
      repeated: { received_at: 1000 },
    }))
    const own = { id: '1', session: 's', token: bot('b').token, botId: 'b@im.bot', now: 2000 }
    const { rows, cursor } = await t.storage.ingest({
      ...own,
      cursorFrom: '',
      cursorTo: 'c',
      messages: batch,
    })
    expect([rows, cursor]).toEqual([[1, 2, 3, 4], 'moved'])
    for (const user of users)
      expect(await t.storage.state.contexts.find('s', user)).toMatchObject({ token: 't' })
  })

  test('a batch that the database refuses fails alone', async () => {
    await using t = await openPostgres()
    const far = message('far', { timestamp: 2 ** 70 })
    const all = await Promise.allSettled([
      insert(t, [message('first')], 's1', 'b1'),
      insert(t, [message('second')], 's2', 'b2'),
      insert(t, [far], 's3', 'b3'),
      insert(t, [message('third')], 's4', 'b4'),
    ])
    expect(all.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled'])
    expect(await t.store.log.getHead()).toBe(3)
  })

  test('batches are stored while other writers change what they rest on all the time', async () => {
    await using t = await openPostgres()
    await t.storage.state.sessions.save('s', bot('b'))
    const db = new PgDatabase({ url: t.url, clock: t.clock, log: silentLog, node: 'test' })
    const stop = new AbortController()
    const change = async () => {
      while (!stop.signal.aborted) {
        await db.run(sql`UPDATE outbox_lane SET not_before = not_before + 1`)
        await db.run(sql`UPDATE account SET fence = fence + 1`)
      }
    }
    const changing = [change(), change()]
    const own = { session: 's', token: bot('b').token, botId: 'b@im.bot', now: 2000 }
    for (let nth = 0; nth < 15; nth++) {
      const said = message(`${nth}`, { from_user: 'u', written_at: 1000 + nth, contextToken: `t${nth}` })
      const batch = { ...own, id: `${nth}`, cursorFrom: nth === 0 ? '' : `c${nth - 1}`, cursorTo: `c${nth}` }
      const messages = [{ ...said, repeated: { received_at: 1000 + nth } }]
      expect(await t.storage.ingest({ ...batch, messages })).toEqual({ rows: [nth + 1], cursor: 'moved' })
    }
    stop.abort()
    await Promise.all(changing)
    expect(await t.storage.state.contexts.find('s', 'u')).toMatchObject({ token: 't14', received_at: 1014 })
    await db.close()
  })
})
