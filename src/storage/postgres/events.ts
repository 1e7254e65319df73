/**
 * The event log in PostgreSQL. A received message is its own event and needs no row. All other events are rows of
 * `event`, which `add_messages`, `add_events` and a trigger on `message.status` write.
 *
 * A place is the number of an event in the log. The place of a message is its row id times a million. An event between
 * two messages has the place of the event before it plus one. `head` has the last place, and writers lock it until they
 * commit, so places become visible in their order. Readers stop at the place that is durable.
 */
import type { Scope } from '../../model/access.ts'
import { badArgument } from '../../model/error.ts'
import { sessionKeyOf } from '../../model/session.ts'
import { toJsonb } from '../../platform/postgres.ts'
import { constantSql, joinSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import {
  type EventFilter,
  type EventLog,
  type EventPage,
  type EventType,
  type LoggedEvent,
  maxReaders,
  type NewEvent,
  noPlaceError,
  readerIdleMs,
} from '../events.ts'
import { inScope, PgPart } from './part.ts'
import { keysOfName } from './session-keys.ts'
import { erasedSession, horizon, placeHorizon, placesPerMessage } from './tables.ts'

/**
 * Places between two messages that lines of the audit log leave free. Without any free place, an event of another
 * type would be lost.
 */
export const placesKept = 100_000
/** Place of a reader that lost its place, and its cursor, which belongs to no store. */
const lostPlace = -1
const lostCursor = 'lost-0'
/** How often the activity of a reader is recorded. */
const seenEveryMs = 60 * 60_000
/**
 * Maximum number of messages scanned for one page, however few match. With a user, the limit is for that user's
 * messages and for other events.
 */
const scanLimit = 5000

const perMessage = constantSql(String(placesPerMessage))
const erased = constantSql(String(erasedSession))
/** The row before the oldest stored one: all events after its place are stored. */
const beforeOldest = sql`(coalesce((SELECT min(id) FROM message), ${horizon} + 1) - 1)`

/** A message that svc sent has an event at the place right after its own. */
const notSentHere = sql`(m.sent <> 1 OR NOT EXISTS
  (SELECT 1 FROM event e WHERE e.place = m.id * ${perMessage} + 1 AND e.message = m.id))`

/** SQL that makes the data of an event from JSON: what `toStorable` escaped becomes an escape of JSON. */
export const eventDataOf = (json: Sql): Sql => sql`replace(${json}::text, chr(57598), '\\u')`

/** Locks the head: what is read by later statements of the script changes only with the head, until it commits. */
export const lockHead: Sql = constantSql('SELECT last FROM head FOR UPDATE')

/** SQL for the number of published events after a place, up to another one. */
const countBetween = (after: Sql, upTo: Sql): Sql => sql`((SELECT count(*) FROM event
    WHERE event.place > ${after} AND event.place <= ${upTo} AND status IS DISTINCT FROM 'sending' AND type <> 'audit.line')
  + count_received(${after} / ${perMessage}, ${upTo} / ${perMessage}))`

/** SQL for the end of the gap in which a place is; NULL if it is in none. No event is there, but one that was lost. */
const endOfGap = (place: Sql): Sql => sql`(SELECT (g.after + g.size) * ${perMessage} FROM gap g
  WHERE ${place} > g.place AND ${place} < (g.after + g.size) * ${perMessage})`

export class PgEventLog extends PgPart implements EventLog {
  #id: string | undefined

  /** Returns the place of a cursor; 0, the start, for one of another store. */
  async #placeOf(cursor: string): Promise<number> {
    const { store, place } = parseCursor(cursor)
    return store === (await this.#storeId()) ? place : 0
  }

  async #storeId(): Promise<string> {
    this.#id ??= (await this.db.one<{ id: string }>(sql`SELECT store_id AS id FROM meta`)).id
    return this.#id
  }

  async listAfter(cursor: string, { limit, types, ...narrowed }: EventFilter): Promise<EventPage> {
    const requested = await this.#placeOf(cursor)
    const id = await this.#storeId()
    const wants = (type: EventType) => types?.includes(type) !== false
    const ofMessages = wants('message.received') || wants('message.status')
    const newest = ofMessages ? scanEndOf(onlyUserOf(narrowed)) : sql`b.newest`
    const sources = [
      ...(wants('message.received') ? [selectReceived(narrowed, limit)] : []),
      selectOthers({ ...narrowed, types }, ofMessages, limit),
    ]
    // One statement, so that retention removes nothing between two reads.
    const rows = await this.db.all<Bounds & Partial<EventRow>>(sql`WITH
      ends AS MATERIALIZED (SELECT ${placeHorizon} AS upto, ${horizon} AS newest, ${beforeOldest} AS oldest),
      bounds AS MATERIALIZED (SELECT *, greatest(start / ${perMessage}, oldest) AS first FROM (
        SELECT *, CASE WHEN ${requested}::bigint > upto THEN 0 ELSE ${requested}::bigint END AS start FROM ends) s),
      scan AS MATERIALIZED (SELECT b.*, least(${newest}, b.newest) AS last FROM bounds b),
      range AS MATERIALIZED (SELECT *,
        CASE WHEN last = newest THEN upto
          ELSE coalesce(${endOfGap(sql`last * ${perMessage}`)}, (last + 1) * ${perMessage} - 1) END AS scanned FROM scan),
      found AS (SELECT * FROM (${joinSql(sources, ' UNION ALL ')}) s ORDER BY place LIMIT ${limit})
      SELECT r.upto, r.oldest, r.scanned, ${endOfGap(sql`${requested}::bigint`)} IS NOT NULL AS lost, f.*
        FROM range r LEFT JOIN found f ON true ORDER BY f.place`)
    const { lost, upto, oldest, scanned } = rows[0]!
    const isForeign = cursor !== '' && !cursor.startsWith(`${id}-`)
    const gone =
      lost || requested > upto || isForeign || (cursor !== '' && requested < oldest * placesPerMessage)
    const found = rows.filter((row): row is Bounds & EventRow => row.place !== undefined)
    return {
      events: found.map(row => eventOf(row, id)),
      cursor: `${id}-${found.length < limit ? scanned : found.at(-1)!.place}`,
      ...(gone && { gone }),
    }
  }

  async getHead(before?: number): Promise<string> {
    const id = await this.#storeId()
    if (before === undefined) {
      // `wait` compares with the place that is known here.
      await this.db.look()
      return `${id}-${this.db.horizon.place}`
    }
    const { place } = await this.db.one<{ place: number }>(sql`SELECT greatest(0,
      (SELECT id * ${perMessage} FROM message WHERE stored_at < ${before} AND id <= ${horizon} ORDER BY id DESC LIMIT 1),
      (SELECT place FROM event WHERE at < ${before} AND place <= ${placeHorizon} ORDER BY place DESC LIMIT 1)) AS place`)
    return `${id}-${place}`
  }

  async wait(seen: string, ms: number, signal: AbortSignal): Promise<void> {
    const { store, place } = parseCursor(seen)
    if (store !== (await this.#storeId())) return
    // What `listAfter` read may be further than what is known here.
    if (place > this.db.horizon.place && !signal.aborted) await this.db.look()
    await this.db.wait(now => now.place !== place, ms, signal)
  }

  async append(events: readonly NewEvent[], seen?: string): Promise<boolean> {
    const place = seen === undefined ? undefined : await this.#placeOf(seen)
    if (events.length === 0) return true
    const at = this.clock.now()
    const rows = events.map(event => ({
      type: event.type,
      at,
      ...('session' in event && { session: sessionKeyOf(event.session) }),
      data: JSON.stringify(event.data),
    }))
    const kept = events.every(({ type }) => type === 'audit.line') ? placesKept : 0
    const sessions = rows.flatMap(({ session }) => session ?? [])
    const isCurrent =
      place === undefined
        ? noSql
        : sql` WHERE NOT EXISTS (SELECT 1 FROM event WHERE place > ${place} AND session = ANY (${sessions}::text[]))`
    return this.durably(async () => {
      // Two processes that compare at a time: the second one reads after the first one committed.
      const [, added] = await this.db.script([
        lockHead,
        sql`SELECT add_events(${toJsonb(rows)}::jsonb, ${kept})${isCurrent}`,
      ])
      return added!.length > 0
    })
  }

  async getPosition(reader: string): Promise<string | undefined> {
    const id = await this.#storeId()
    const row = await this.db.get<{ place: number; seen_at: number }>(
      sql`SELECT place, seen_at FROM event_reader WHERE name = ${reader}`,
    )
    if (!row) return undefined
    const now = this.clock.now()
    if (now - row.seen_at > seenEveryMs)
      await this.db.run(sql`UPDATE event_reader SET seen_at = ${now} WHERE name = ${reader}`)
    return row.place === lostPlace ? lostCursor : `${id}-${row.place}`
  }

  async setPosition(reader: string, cursor: string): Promise<void> {
    const place = await this.#placeOf(cursor)
    const moved =
      await this.db.run(sql`UPDATE event_reader SET place = ${place}, seen_at = ${this.clock.now()}
      WHERE name = ${reader} AND place <> ${lostPlace}`)
    if (moved === 0) await this.#addReader(reader, place)
  }

  /** Adds a reader, and makes space for it among those of the same key. @throws SvcError `rate_limited` */
  async #addReader(reader: string, place: number): Promise<void> {
    const now = this.clock.now()
    const put = sql`WITH longest AS (SELECT name, seen_at + ${readerIdleMs}::bigint - ${now}::bigint AS wait_ms
        FROM event_reader WHERE place <> ${lostPlace} AND name <> ${reader}
          AND key_of_reader(name) IN (SELECT family_of(key_of_reader(${reader})))
        ORDER BY seen_at DESC LIMIT 1 OFFSET ${maxReaders - 1}),
      lost AS (UPDATE event_reader r SET place = ${lostPlace} FROM longest l WHERE r.name = l.name AND l.wait_ms <= 0),
      put AS (INSERT INTO event_reader (name, place, seen_at) SELECT ${reader}, ${place}::bigint, ${now}::bigint
        WHERE NOT EXISTS (SELECT 1 FROM longest WHERE wait_ms > 0)
        ON CONFLICT (name) DO UPDATE SET place = excluded.place, seen_at = excluded.seen_at)
      SELECT wait_ms FROM longest WHERE wait_ms > 0`
    const forget = sql`DELETE FROM event_reader WHERE name IN (SELECT name FROM event_reader
      WHERE place = ${lostPlace} ORDER BY seen_at DESC OFFSET ${maxReaders})`
    // One new reader at a time, so that no two take the last place.
    const [, full] = await this.db.script([sql`SELECT form FROM meta FOR UPDATE`, put, forget])
    const [{ wait_ms } = {}] = full as { wait_ms?: number }[]
    if (wait_ms === undefined) return
    throw noPlaceError(wait_ms)
  }

  /** As `Backlog.countEvents`. */
  async countAfter(cursor: string): Promise<number> {
    const place = await this.#placeOf(cursor)
    const { events } = await this.db.one<{ events: number }>(
      sql`SELECT ${countBetween(sql`${place}::bigint`, placeHorizon)} AS events`,
    )
    return events
  }

  /** As `Backlog.listReaderLags`. Each event is counted once, for all readers. */
  listReaderLags(most: number): Promise<{ reader: string; events: number }[]> {
    return this.db.all(sql`WITH latest AS MATERIALIZED (SELECT name, least(place, ${placeHorizon}) AS place
        FROM event_reader WHERE place <> ${lostPlace} ORDER BY strpos(name, '/') > 0, seen_at DESC LIMIT ${most}),
      spans AS (SELECT name, place, lag(place, 1, ${placeHorizon}) OVER (ORDER BY place DESC, name) AS upto FROM latest)
      SELECT name AS reader, sum(${countBetween(constantSql('spans.place'), constantSql('spans.upto'))})
        OVER (ORDER BY place DESC, name) AS events FROM spans ORDER BY place DESC, name`)
  }
}

/** Bounds of a page: the end of the log; the row before the oldest one; the place up to which the page was scanned. */
interface Bounds {
  upto: number
  oldest: number
  scanned: number
  /** The cursor is at an event that was lost when a standby took over. */
  lost: boolean
}

/** A row of `event`, or a message as one. `data`: JSON. */
interface EventRow extends Omit<LoggedEvent, 'cursor' | 'data'> {
  place: number
  data?: string
}

const eventOf = ({ place, type, at, message, status, data }: EventRow, id: string): LoggedEvent =>
  ({
    cursor: `${id}-${place}`,
    type,
    at,
    message,
    status,
    data: data === undefined ? undefined : JSON.parse(data),
  }) as LoggedEvent

/** Returns the parts of a cursor: the id of its store, and its place. */
function parseCursor(cursor: string): { store: string; place: number } {
  if (cursor === '') return { store: '', place: 0 }
  const [, store = '', digits] = /^(\w{1,40})-(\d{1,16})$/.exec(cursor) ?? []
  const place = Number(digits)
  if (!Number.isSafeInteger(place))
    throw badArgument('after', 'expected the id of an event, or a time such as 2026-01-31T08:00Z')
  return { store, place }
}

type Narrowed = Pick<EventFilter, 'session' | 'user' | 'hidden' | 'scope'>

/** Returns the only user whose messages are wanted, if there is one. */
const onlyUserOf = ({ user, scope }: Pick<Narrowed, 'user' | 'scope'>): string | undefined =>
  user ?? (scope?.users?.length === 1 ? scope.users[0] : undefined)

/** SQL for the last message to scan. With a user, only that user's messages and other events count. */
const scanEndOf = (user: string | undefined): Sql =>
  user === undefined
    ? sql`b.first + ${scanLimit}`
    : sql`greatest(b.first, least(
        (SELECT id FROM message WHERE peer = ${user} AND id > b.first ORDER BY id LIMIT 1 OFFSET ${scanLimit}),
        (SELECT place FROM event WHERE place > b.first * ${perMessage} ORDER BY place LIMIT 1 OFFSET ${scanLimit})
          / ${perMessage}, b.newest))`

/** The messages of a page that are events themselves. */
function selectReceived({ session, user, hidden, scope }: Narrowed, limit: number): Sql {
  const only = onlyUserOf({ user, scope })
  return sql`(SELECT m.id * ${perMessage} AS place, 'message.received' AS type, m.stored_at AS at, m.id AS message,
      NULL AS status, NULL AS data FROM message m
    WHERE m.id > (SELECT first FROM range) AND m.id <= (SELECT last FROM range)
    AND ${hidden ? sql`m.session <> ${erased} AND ${notSentHere}` : sql`m.sent = 0`}
    ${session === undefined ? noSql : sql`AND m.session = ANY (${keysOfName(session)})`}
    ${only === undefined ? noSql : sql`AND m.peer = ${only}`}${inScope(scope)} ORDER BY m.id LIMIT ${limit})`
}

/** The rows of `event` of a page. `ofMessages`: those of messages may be wanted. */
function selectOthers(
  { session, user, types, hidden, scope }: Narrowed & { types: readonly EventType[] | undefined },
  ofMessages: boolean,
  limit: number,
): Sql {
  const ofSession = (name: string) =>
    ofMessages
      ? sql` AND (m.session = ANY (${keysOfName(name)}) OR e.session = ${sessionKeyOf(name)})`
      : sql` AND e.session = ${sessionKeyOf(name)}`
  // The message of an event is looked up by its id; a join could read all messages instead.
  return sql`(SELECT e.place, e.type, e.at, e.message, e.status, e.data FROM event e
    LEFT JOIN LATERAL (SELECT id, session, peer, bot_id FROM message WHERE id = e.message LIMIT 1) m ON true
    WHERE e.place > (SELECT start FROM range) AND e.place <= (SELECT scanned FROM range)
    AND m.session IS DISTINCT FROM ${erased}
    ${types ? sql` AND e.type = ANY (${types}::text[])` : hidden ? noSql : sql` AND e.type <> 'audit.line'`}
    ${hidden ? noSql : sql` AND e.status IS DISTINCT FROM 'sending'`}
    ${session === undefined ? noSql : ofSession(session)}
    ${user === undefined ? noSql : sql` AND m.peer = ${user}`}
    ${scope ? otherEventsOf(scope) : noSql} ORDER BY e.place LIMIT ${limit})`
}

/** Conditions for rows of `event`, by the same rules as `isEventInScope`. */
function otherEventsOf(scope: Scope): Sql {
  const ofMessage = sql`m.id IS NOT NULL${inScope(scope)}`
  if (scope.users) return sql` AND ${ofMessage}`
  const isOfBot = scope.bots ? sql`(e.data::json ->> 'bot_id') = ANY (${scope.bots}::text[])` : sql`true`
  return sql` AND CASE WHEN e.type LIKE 'session.%' THEN ${isOfBot} ELSE ${ofMessage} END`
}
