/** How the engine knows in which sessions an account has messages. */
import { expect, test } from 'bun:test'
import { openDatabase } from '../../../src/platform/sqlite.ts'
import { migrate } from '../../../src/storage/sqlite/migrations.ts'

test('accounts are known by their messages, also by one that was sent under another account before', async () => {
  const db = await openDatabase(':memory:')
  const store = (id: number, session: number, bot: string) =>
    db.run`INSERT INTO message (id, message_id, session, sent, bot_id, peer, msg_type, timestamp, stored_at, text, raw)
      VALUES (${id}, ${`m${id}`}, ${session}, 1, ${bot}, 'u', 'TEXT', 1, 1, '', '{}')`
  const known = () =>
    db.all<{
      bot_id: string
      session: number
    }>`SELECT bot_id, session FROM session_bot ORDER BY bot_id, session`.map(
      ({ bot_id, session }) => `${bot_id}${session}`,
    )
  migrate(db)
  for (const [id, session, bot] of [
    [1, 1, 'a'],
    [2, 1, 'a'],
    [3, 2, 'a'],
  ] as const)
    store(id, session, bot)
  expect(known()).toEqual(['a1', 'a2'])
  store(4, 2, 'b')
  store(5, 2, 'b')
  expect(known()).toEqual(['a1', 'a2', 'b2'])
  // A message that waited is sent by the account that the session has now.
  db.run`UPDATE message SET bot_id = 'c' WHERE id = 1`
  db.run`UPDATE message SET bot_id = 'b' WHERE id = 5`
  expect(known()).toEqual(['a1', 'a2', 'b2', 'c1'])
  db.close()
})
