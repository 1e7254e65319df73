/** How many messages and events their readers have not read yet. */
import { constantSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import { type Noun, type NounContext, readAll, readFirst } from '../routine.ts'
import type { Backlog, ConsumerLag } from '../store.ts'
import { type EventsNoun, type LogSql, lostPlace, namedOnly, perMessage } from './events.ts'

type Counts = Pick<Backlog, 'countEvents' | 'listLags' | 'listReaderLags'>

/**
 * One walk counts for all readers: what comes after the position of one, and before that of the reader ahead of it, is
 * counted for both.
 */
const spansOf = (latest: Sql, end: Sql): Sql => sql`WITH latest AS MATERIALIZED (${latest}),
  spans AS (SELECT name, at, lag(at, 1, ${end}) OVER (ORDER BY at DESC, name) AS upto FROM latest)`

/** Readers that read last come first, those of keys after all others. */
const lastFirst = constantSql(`ORDER BY name LIKE '%/%', seen_at DESC`)

export function createBacklog(
  { dialect }: NounContext,
  log: LogSql,
  { verbs: events }: EventsNoun,
): Noun<Counts> {
  const { lastPlace, lastRow } = log
  const [at, upto] = [constantSql('spans.at'), constantSql('spans.upto')]
  const counted = constantSql('sum(n) OVER (ORDER BY at DESC, name)')

  /** SQL for the number of published events after a place, up to another one. */
  const countBetween = (after: Sql, upTo: Sql): Sql => sql`((SELECT count(*) FROM event
      WHERE event.place > ${after} AND event.place <= ${upTo} AND status IS DISTINCT FROM 'sending' AND type NOT IN (${namedOnly}))
    + ${log.countReceived(sql`${after} / ${perMessage}`, sql`${upTo} / ${perMessage}`)})`

  return {
    verbs: {
      *countEvents(cursor) {
        const place = (yield* events.placeOf(cursor)) ?? 0
        const count = countBetween(sql`CAST(${place} AS bigint)`, lastPlace)
        return (yield* readFirst<{ events: number }>(sql`SELECT ${count} AS events`))!.events
      },

      listReaderLags: most =>
        readAll(sql`${spansOf(
          sql`SELECT name, ${dialect.least}(place, ${lastPlace}) AS at FROM event_reader WHERE place <> ${lostPlace}
            ${lastFirst} LIMIT ${most}`,
          lastPlace,
        )}, counted AS (SELECT name, at, ${countBetween(at, upto)} AS n FROM spans)
        SELECT name AS reader, ${counted} AS events FROM counted ORDER BY at DESC, name`),

      // Rows that a consumer read from single sessions are counted separately.
      *listLags(most, { since = 0, of } = {}) {
        const isOf = of === undefined ? noSql : sql` AND name LIKE ${`${of}/%`}`
        const rows = yield* readAll<ConsumerLag>(sql`${spansOf(
          sql`SELECT name, ${dialect.least}(position, ${lastRow}) AS at FROM consumer
            WHERE seen_at >= ${since}${isOf} ${lastFirst} LIMIT ${most}`,
          lastRow,
        )}, counted AS (SELECT name, at, ${log.countReceived(at, upto)} AS n FROM spans)
        SELECT name AS consumer, ${counted} - (SELECT count(*) FROM consumer_ahead a
            ${dialect.inOrderJoin} message m${dialect.by('message_session')} ON m.session = a.session
              AND m.id > counted.at AND m.id <= a.position AND m.id <= ${lastRow} AND m.sent = 0
            WHERE a.consumer = counted.name) AS messages,
          (SELECT c.seen_at FROM consumer c WHERE c.name = counted.name) AS seen_at,
          EXISTS (SELECT 1 FROM acknowledged a WHERE a.consumer = counted.name) AS acknowledges FROM counted`)
        // SQLite has no booleans.
        return rows.map(row => ({ ...row, acknowledges: Boolean(row.acknowledges) }))
      },
    },
    modes: { countEvents: 'plain', listReaderLags: 'plain', listLags: 'plain' },
  }
}
