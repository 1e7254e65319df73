/**
 * The event log in PostgreSQL: `add_messages`, `add_events` and a trigger on `message.status` write it. `head` has the last
 * place, and writers lock it until they commit, so places become visible in their order. Readers stop at the place that is
 * durable.
 */
import { constantSql, sql } from '../../platform/sql.ts'
import type { EventLog } from '../events.ts'
import { type EventsNoun, type LogSql, perMessage } from '../nouns/events.ts'
import { openNoun } from '../routine.ts'
import type { PgDatabase } from './database.ts'
import { drive } from './drive.ts'
import { createRunner } from './routines.ts'
import { keysOfName } from './session-keys.ts'
import { horizon, placeHorizon } from './tables.ts'

export const logSql: LogSql = {
  storeId: constantSql('SELECT store_id AS id FROM meta'),
  lastRow: horizon,
  lastPlace: placeHorizon,
  removedPlace: constantSql('(SELECT events_removed FROM meta)'),
  endOfGap: place => sql`(SELECT (g.after + g.size) * ${perMessage} FROM gap g
    WHERE ${place} > g.place AND ${place} < (g.after + g.size) * ${perMessage})`,
  // It is looked up by its id; a join could read all messages instead.
  messageOf: constantSql(`LEFT JOIN LATERAL
    (SELECT id, session, peer, bot_id FROM message WHERE id = e.message LIMIT 1) m ON true`),
  isOfSession: name => sql`m.session = ANY (${keysOfName(name)})`,
  countReceived: (after, upTo) => sql`count_received(${after}, ${upTo})`,
  sharesBounds: reader => sql`key_of_reader(name) IN (SELECT family_of(key_of_reader(${reader})))`,
}

export const openEvents = (db: PgDatabase, noun: EventsNoun): EventLog => ({
  ...openNoun(noun, createRunner(db)),
  async wait(seen, ms, signal) {
    const place = await drive(db, noun.verbs.placeOf(seen))
    if (place === undefined) return
    // What `listAfter` read may be further than what is known here.
    if (place > db.horizon.place && !signal.aborted) await db.look()
    await db.wait(now => now.place !== place, ms, signal)
  },
})
