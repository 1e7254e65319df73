/** What the erasure of a person needs of this engine: see `nouns/people.ts`. */
import { constantSql, sql } from '../../platform/sql.ts'
import type { PeopleParts } from '../nouns/people.ts'
import { readAll } from '../routine.ts'
import type { SqliteContext } from './engine-part.ts'

export const createPeopleParts = ({ messages }: SqliteContext): PeopleParts => ({
  store: constantSql('store_id'),
  isUndated: constantSql(`context IS NOT NULL AND context ->> 'received_at' IS NULL`),
  beforeUnnaming: () => [],
  eraseFromLeases: user => [
    sql`UPDATE lease SET ids = (SELECT json_group_array(value) FROM json_each(ids)
      WHERE value NOT IN (SELECT id FROM message WHERE peer = ${user}))`,
    sql`DELETE FROM lease WHERE ids = '[]'`,
  ],
  *eraseMessages(user, most) {
    const rows = yield* readAll<{ id: number }>(sql`SELECT id FROM message INDEXED BY message_peer
      WHERE peer = ${user} ORDER BY id LIMIT ${most}`)
    for (const { id } of rows) messages.erase(id)
    messages.forgetUser(user)
    return rows.length
  },
  // One writer at a time.
  othersEnded: async () => {},
})
