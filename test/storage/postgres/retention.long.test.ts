/** Retention over a million rows, by number and by age. */
import { describe, expect, test } from 'bun:test'
import { connectPg } from '../../../src/platform/postgres.ts'
import { sql } from '../../../src/platform/sql.ts'
import { lastRowId, placesPerMessage } from '../../../src/storage/log-rows.ts'
import { isPostgresThere } from '../../support/postgres.ts'
import { openPostgres } from './support.ts'

const rows = 1_000_000
const dayMs = 24 * 3_600_000

describe.skipIf(!isPostgresThere())('PostgreSQL', () => {
  for (const before of [1, lastRowId - 2 * rows])
    test(`of a million rows after row ${before}, those within the limits are left`, async () => {
      await using t = await openPostgres({ maxCount: 600_000, maxAgeDays: 30 })
      await t.continueAfter(before)
      const connection = await connectPg({ url: t.url, name: 'test', answerMs: 600_000 })
      const now = t.clock.now()
      await connection.script([
        sql`INSERT INTO message (id, message_id, session, sent, bot_id, peer, msg_type, timestamp, stored_at, text, raw)
          SELECT ${before} + n, n::text, 1, 0, 'b', 'u', 'TEXT', n, ${now} - (${rows} - n) * 60000, 'x', '{}'
          FROM generate_series(1, ${rows}) n`,
        sql`INSERT INTO event (place, type, at, data) SELECT (${before} + n) * ${placesPerMessage} + 1, 'audit.line', ${now} - (${rows} - n) * 60000, '{}'
          FROM generate_series(1, ${rows}, 1000) n`,
        sql`UPDATE head SET last = last + ${rows}, place = place + ${rows * placesPerMessage} + 1`,
      ])
      await t.storage.store.events.append([])
      const left = () =>
        connection.one(sql`SELECT (SELECT count(*) FROM message) AS messages, (SELECT min(id) FROM message) - ${before} AS first,
          (SELECT count(*) FROM event) AS events`)
      // 30 days have 43,200 minutes.
      const byAge = 30 * 24 * 60
      await t.store.maintenance.prune()
      expect(await left()).toEqual({
        messages: byAge + 1,
        first: rows - byAge,
        events: Math.floor(byAge / 1000),
      })
      t.clock.at += dayMs
      await t.store.maintenance.prune()
      expect(await left()).toMatchObject({ messages: byAge + 1 - 24 * 60 })
      connection.destroy()
    }, 900_000)
})
