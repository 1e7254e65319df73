/**
 * The event log in messages.db. A received message is its own event and needs no row. All other events are
 * rows of `event`. A trigger writes the events for the status of sent messages, whichever version of svc
 * changes the status.
 *
 * A place is the number of an event in the log. The place of a message is its row id times a million. An
 * event between two messages has the place of the event before it plus one. So places grow in the order of
 * the commits, in all processes.
 */
import type { Scope } from '../../model/access.ts'
import { badArgument } from '../../model/error.ts'
import { sessionKeyOf } from '../../model/session.ts'
import { constantSql, type Sql, sql } from '../../platform/sql.ts'
import type { Database, SqlValue } from '../../platform/sqlite.ts'
import {
  type EventFilter,
  type EventPage,
  type EventType,
  type LoggedEvent,
  maxReaders,
  type NewEvent,
  readerIdleMs,
} from '../events.ts'
import { EnginePart, findPlace, type SqliteContext } from './engine-part.ts'
import { erasedSession } from './messages.ts'
import { scopeSqlOf } from './scope.ts'
import { newestRow, nextPlace, placesPerMessage } from './tables.ts'

/**
 * Places between two messages that lines of the audit log leave free. Without any free place, the next message
 * would come before the events that readers have read, and they would miss it.
 */
const placesKept = 100_000
/** Sentinel place of a reader that lost its place, and its cursor, which belongs to no store. */
const lostPlace = -1
const lostCursor = 'lost-0'
/** How often the activity of a reader is recorded. */
const seenEveryMs = 60 * 60_000
/**
 * Maximum number of messages scanned for one page, however few match. With a user, the limit is for that
 * user's messages and for other events.
 */
const scanLimit = 5000

/** A message that svc sent has an event at the place right after its own. */
const notSentHere = `(sent <> 1 OR NOT EXISTS
  (SELECT 1 FROM event WHERE place = message.id * ${placesPerMessage} + 1 AND event.message = message.id))`

/** Returns the statement that adds an event, if there is a place for it. `data`: of the one row of `from`. */
export function insertEvent(
  { type, at, session }: { type: EventType; at: number; session?: string | undefined },
  data: Sql,
  from: Sql,
): Sql {
  const most = placesPerMessage - (type === 'audit.line' ? placesKept : 0)
  return sql`INSERT INTO event (place, type, at, session, data)
    SELECT place, ${type}, ${at}, ${session}, data
    FROM (SELECT ${constantSql(nextPlace(newestRow))} AS place, ${data} AS data FROM ${from})
    WHERE place - ${constantSql(`coalesce(${newestRow}, 0) * ${placesPerMessage}`)} < ${most}`
}

/**
 * Removes the events before a message, except the newest of each type of each session. Call it inside a
 * transaction.
 */
export function pruneEvents(db: Database, row: number): void {
  db.run`DELETE FROM event WHERE place < ${row * placesPerMessage} AND (session IS NULL OR EXISTS
    (SELECT 1 FROM event AS newer WHERE newer.session = event.session AND newer.type = event.type
      AND newer.place > event.place))`
}

export class SqliteEventLog extends EnginePart {
  readonly #id: string

  constructor(ground: SqliteContext) {
    super(ground)
    this.#id = String(this.db.get`SELECT id FROM store_id`?.id)
  }

  listAfter(cursor: string, { limit, types, ...narrowed }: EventFilter): EventPage {
    const wants = (type: EventType) => types?.includes(type) !== false
    const requested = this.#placeOf(cursor)
    // Later commits come after `end`.
    const { end, row } = this.#getEnd()
    const oldest = this.#findOldest()
    const gone = requested > end || (cursor !== '' && (requested < oldest || !this.#isOwn(cursor)))
    const from = requested > end ? 0 : requested
    const first = Math.max(Math.floor(from / placesPerMessage), Math.floor(oldest / placesPerMessage))
    const ofMessages = wants('message.received') || wants('message.status')
    const last = ofMessages ? Math.min(this.#scanEndOf(first, onlyUserOf(narrowed)), row) : row
    const scannedTo = last === row ? end : (last + 1) * placesPerMessage - 1
    const found = [
      ...(wants('message.received') ? this.#listReceived(first, last, limit, narrowed) : []),
      ...this.#listOthers(from, scannedTo, limit, { ...narrowed, ...(types && { types }) }),
    ].sort((a, b) => a.place - b.place)
    const rows = found.slice(0, limit)
    const reached = found.length < limit ? scannedTo : rows.at(-1)!.place
    return {
      events: rows.map(row => this.#eventOf(row)),
      cursor: this.#cursorOf(reached),
      ...(gone && { gone }),
    }
  }

  /**
   * Returns the last message to scan for a page that starts after `first`. With a user, only that user's
   * messages and other events count.
   */
  #scanEndOf(first: number, user: string | undefined): number {
    if (user === undefined) return first + scanLimit
    const found = this.db.get<{ own?: number; other?: number }>`SELECT
      (SELECT id FROM message INDEXED BY message_peer WHERE peer = ${user} AND id > ${first}
        ORDER BY id LIMIT 1 OFFSET ${scanLimit}) AS own,
      (SELECT place FROM event WHERE place > ${first * placesPerMessage} ORDER BY place LIMIT 1 OFFSET ${scanLimit}) AS other`
    const { own = Infinity, other = Infinity } = found ?? {}
    return Math.max(first, Math.min(Math.floor(other / placesPerMessage), own))
  }

  #listReceived(
    first: number,
    last: number,
    limit: number,
    { session, user, hidden, scope }: Narrowed,
  ): EventRow[] {
    const inScope = scopeSqlOf(scope, 'message')
    const only = onlyUserOf({ user, scope })
    const keys = session === undefined ? undefined : JSON.stringify(this.messages.listSessionKeys(session))
    return this.db.all(
      `SELECT id * ${placesPerMessage} AS place, 'message.received' AS type, stored_at AS at, id AS message
       FROM message ${only === undefined ? 'NOT INDEXED' : 'INDEXED BY message_peer'} WHERE id > ? AND id <= ? AND ${hidden ? `session <> ${erasedSession} AND ${notSentHere}` : 'sent = 0'}
       ${keys === undefined ? '' : 'AND session IN (SELECT value FROM json_each(?))'}
       ${only === undefined ? '' : 'AND peer = ?'}${inScope.sql} ORDER BY id LIMIT ?`,
      ...[first, last, ...toParams(keys), ...toParams(only), ...inScope.params, limit],
    )
  }

  #listOthers(
    from: number,
    to: number,
    limit: number,
    { session, user, types, hidden, scope }: Narrowed & Pick<EventFilter, 'types'>,
  ): EventRow[] {
    const inScope = scope ? otherEventsOf(scope) : { sql: '', params: [] }
    const keys = session === undefined ? undefined : JSON.stringify(this.messages.listSessionKeys(session))
    const folded = session === undefined ? undefined : sessionKeyOf(session)
    return this.db.all(
      `SELECT e.* FROM event e LEFT JOIN message m ON m.id = e.message WHERE e.place > ? AND e.place <= ?
       ${types === undefined ? '' : 'AND e.type IN (SELECT value FROM json_each(?))'}
       ${types === undefined && !hidden ? `AND e.type <> 'audit.line'` : ''}
       AND m.session IS NOT ${erasedSession}
       ${hidden ? '' : `AND e.status IS NOT 'sending'`}
       ${keys === undefined ? '' : 'AND (m.session IN (SELECT value FROM json_each(?)) OR e.session = ?)'}
       ${user === undefined ? '' : 'AND m.peer = ?'}${inScope.sql} ORDER BY e.place LIMIT ?`,
      ...[from, to, ...toParams(types && JSON.stringify(types))],
      ...[...toParams(keys), ...toParams(folded), ...toParams(user), ...inScope.params, limit],
    )
  }

  getHead(before?: number): string {
    const { end } = this.#getEnd()
    if (before === undefined) return this.#cursorOf(end)
    const row = this.db.get<{ place?: number }>`SELECT max(place) AS place FROM (
      SELECT * FROM (SELECT id * ${placesPerMessage} AS place FROM message WHERE stored_at < ${before} ORDER BY id DESC LIMIT 1)
      UNION ALL SELECT * FROM (SELECT place FROM event WHERE at < ${before} ORDER BY place DESC LIMIT 1))`
    return this.#cursorOf(row?.place ?? 0)
  }

  countAfter(cursor: string): number {
    const place = this.#placeOf(cursor)
    const others = this.db.one<{ n: number }>`SELECT count(*) AS n FROM event WHERE place > ${place}
      AND status IS NOT 'sending' AND type <> 'audit.line'`.n
    const from = Math.floor(place / placesPerMessage)
    return this.messages.countReceived(from, this.messages.getHead()) + others
  }

  append(events: readonly NewEvent[], seen?: string): boolean {
    const place = seen === undefined ? undefined : this.#placeOf(seen)
    return this.db.transaction(() => {
      const named = events.flatMap(event => ('session' in event ? [sessionKeyOf(event.session)] : []))
      const newer =
        place !== undefined &&
        this.db.get`SELECT 1 AS found FROM event WHERE place > ${place}
          AND session IN (SELECT value FROM json_each(${JSON.stringify(named)}))`
      if (newer) return false
      for (const event of events) {
        const session = 'session' in event ? sessionKeyOf(event.session) : undefined
        const added = { type: event.type, at: this.clock.now(), session }
        const { texts, values } = insertEvent(added, sql`${JSON.stringify(event.data)}`, sql`(SELECT 1)`)
        this.db.run(texts.join('?'), ...(values as SqlValue[]))
      }
      return true
    })
  }

  getPosition(reader: string): string | undefined {
    const row = this.#getReader(reader)
    if (!row) return undefined
    const now = this.clock.now()
    if (now - row.seen_at > seenEveryMs)
      this.db.run`UPDATE event_reader SET seen_at = ${now} WHERE name = ${reader}`
    return row.place === lostPlace ? lostCursor : this.#cursorOf(row.place)
  }

  setPosition(reader: string, cursor: string): void {
    const place = this.#placeOf(cursor)
    this.db.transaction(() => {
      const { place: before = lostPlace } = this.#getReader(reader) ?? {}
      if (before === lostPlace) this.#makeSpace(reader)
      this.db.run`INSERT OR REPLACE INTO event_reader (name, place, seen_at)
        VALUES (${reader}, ${place}, ${this.clock.now()})`
    })
  }

  #getReader(name: string) {
    return this.db.get<{ place: number; seen_at: number }>`SELECT place, seen_at FROM event_reader
      WHERE name = ${name}`
  }

  /** Makes space for one more reader of the same key. @throws SvcError `rate_limited` */
  #makeSpace(reader: string): void {
    const longest = findPlace(this, 'event_reader WHERE place >= 0', reader, readerIdleMs)
    if (longest === undefined) return
    this.db.run`UPDATE event_reader SET place = ${lostPlace} WHERE name = ${longest}`
    this.db.run`DELETE FROM event_reader WHERE name IN (SELECT name FROM event_reader
      WHERE place = ${lostPlace} ORDER BY seen_at DESC LIMIT -1 OFFSET ${maxReaders})`
  }

  listReaderLags(most: number): { reader: string; events: number }[] {
    const rows = this.db.all<{ reader: string; place: number }>`SELECT name AS reader, place
      FROM event_reader WHERE place <> ${lostPlace} ORDER BY instr(name, '/') > 0, seen_at DESC LIMIT ${most}`
    return rows
      .toSorted((a, b) => b.place - a.place)
      .map(({ reader, place }) => ({ reader, events: this.countAfter(this.#cursorOf(place)) }))
  }

  /** Returns the newest place, and the row id of the newest message that ever existed. */
  #getEnd(): { end: number; row: number } {
    const { place = 0, row = 0 } = this.db.one<{ place?: number; row?: number }>(
      `SELECT (SELECT max(place) FROM event) AS place, ${newestRow} AS row`,
    )
    return { row, end: Math.max(place, row * placesPerMessage) }
  }

  /** Returns the place from which on all events are stored. */
  #findOldest(): number {
    const first = `SELECT coalesce(min(id), ${newestRow} + 1, 1) AS id FROM message`
    return (this.db.one<{ id: number }>(first).id - 1) * placesPerMessage
  }

  #cursorOf(place: number): string {
    return `${this.#id}-${place}`
  }

  #placeOf(cursor: string): number {
    if (cursor === '') return 0
    const place = Number(/^\w{1,40}-(\d{1,16})$/.exec(cursor)?.[1])
    if (!Number.isSafeInteger(place))
      throw badArgument('after', 'expected the id of an event, or a time such as 2026-01-31T08:00Z')
    return this.#isOwn(cursor) ? place : 0
  }

  #isOwn(cursor: string): boolean {
    return cursor.startsWith(`${this.#id}-`)
  }

  #eventOf({ place, type, at, message, status, data }: EventRow): LoggedEvent {
    const parsed = data === undefined ? undefined : JSON.parse(data)
    return { cursor: this.#cursorOf(place), type, at, message, status, data: parsed }
  }
}

/** A row of `event`, or a message as one. `data`: JSON. */
interface EventRow extends Omit<LoggedEvent, 'cursor' | 'data'> {
  place: number
  data?: string
}

type Narrowed = Pick<EventFilter, 'session' | 'user' | 'hidden' | 'scope'>

/** Returns the only user whose messages are wanted, if there is one. */
const onlyUserOf = ({ user, scope }: Pick<Narrowed, 'user' | 'scope'>): string | undefined =>
  user ?? (scope?.users?.length === 1 ? scope.users[0] : undefined)

/** Conditions for rows of `event`, by the same rules as `isEventInScope`. */
function otherEventsOf(scope: Scope): { sql: string; params: SqlValue[] } {
  const { sql, params } = scopeSqlOf(scope)
  const ofMessage = `m.id IS NOT NULL${sql}`
  if (scope.users) return { sql: ` AND ${ofMessage}`, params }
  const ofBots = scope.bots ? ` AND e.data ->> 'bot_id' IN (SELECT value FROM json_each(?))` : ''
  return {
    sql: ` AND (${ofMessage} OR e.type GLOB 'session.*'${ofBots})`,
    params: [...params, ...toParams(scope.bots && JSON.stringify(scope.bots))],
  }
}

const toParams = (value: SqlValue | undefined): SqlValue[] => (value === undefined ? [] : [value])
