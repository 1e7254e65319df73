/** The event log in SQLite: what other versions write. */
import { expect } from 'bun:test'
import { openDatabase } from '../../../src/platform/sqlite.ts'
import type { Store } from '../../../src/storage/store.ts'
import { given } from '../../support/given.ts'
import { insert, message } from '../support.ts'
import { inOtherProcess, openSqlite } from './support.ts'

const it = given(openSqlite)

/** The messages that events after a cursor tell of, and their status. */
const messagesAfter = async ({ events }: Store, cursor = '') =>
  (await events.listAfter(cursor, { limit: 100 })).events.map(({ message: row, status }) => [row, status])

it('changes of an older version that runs at the same time are events', async t => {
  const start = await t.store.events.getHead()
  const row = (await insert(t, [message('hi')]))[0] as number
  // Its statements write no events.
  const older = `const { openDatabase } = await import(DATABASE)
    const db = await openDatabase(${JSON.stringify(t.path)})
    db.run\`INSERT INTO message (message_id, session, sent, status, bot_id, peer, msg_type, timestamp, stored_at, text, raw)
      VALUES (\${'local:1'}, 1, 1, \${'sending'}, 'b', 'u', 'TEXT', 1, 5, '', '')\`
    db.run\`UPDATE OR IGNORE message SET status = \${'accepted'}, reason = NULL, reason_code = NULL, message_id = \${'9'}
      WHERE message_id = \${'local:1'}\`
    db.close()`
  const database = JSON.stringify(new URL('../../../src/platform/sqlite.ts', import.meta.url).pathname)
  await inOtherProcess(t.dir, older.replace('DATABASE', database))
  expect(await messagesAfter(t.store, start)).toEqual([
    [row, undefined],
    [row + 1, 'accepted'],
  ])
})

it('however many lines the audit log gets, readers get the next message', async t => {
  const [row] = await insert(t, [message('before')])
  const line = { at: 1, principal: 'key:k1', operation: 'send', outcome: 'denied' }
  await t.store.audit.add(line)
  // As after a million lines.
  const db = await openDatabase(t.path)
  db.run`UPDATE event SET place = place + 999_998`
  db.close()
  for (let nth = 0; nth < 3; nth++) await t.store.audit.add(line)
  const read = await t.store.events.getHead()
  const [next] = await insert(t, [message('after')])
  expect(next).toBe((row as number) + 1)
  expect(await messagesAfter(t.store, read)).toEqual([[next as number, undefined]])
  expect(await t.store.audit.list({ limit: 10 })).toHaveLength(4)
})
