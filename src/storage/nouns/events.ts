/**
 * The event log. A received message is its own event and needs no row. All other events are rows of `event`. Each engine
 * adds those about messages, with the messages.
 *
 * A place is the number of an event in the log. The place of a message is its row id times a million. An event between two
 * messages has the place of the event before it plus one. So places grow in the order of the commits, in all processes.
 */
import type { Scope } from '../../model/access.ts'
import { badArgument } from '../../model/error.ts'
import { eventTypes, isNamedOnly } from '../../model/event.ts'
import { sessionKeyOf } from '../../model/session.ts'
import { constantSql, joinSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import {
  type EventFilter,
  type EventLog,
  type EventPage,
  type EventType,
  type LoggedEvent,
  maxReaders,
  type NewEvent,
  readerIdleMs,
} from '../events.ts'
import { erasedSession, placesPerMessage } from '../log-rows.ts'
import {
  changes,
  type Dialect,
  EngineVerbs,
  type Noun,
  type NounContext,
  type Routine,
  readAll,
  readFirst,
  type Verbs,
  write,
} from '../routine.ts'
import { findIdle, seenEveryMs, selectIdle } from './readers.ts'

/**
 * Places between two messages that lines of the audit log leave free. Without any free place, the next message would come
 * before the events that readers have read, or an event would be lost.
 */
export const placesKept = 100_000
/** The types that readers must name. */
export const namedOnly = constantSql(
  eventTypes
    .filter(isNamedOnly)
    .map(type => `'${type}'`)
    .join(', '),
)
/** Place of a reader that lost its place, and its cursor, which belongs to no store. */
export const lostPlace = -1
const lostCursor = 'lost-0'
/**
 * Maximum number of messages scanned for one page, however few match. With a user, the limit is for that user's
 * messages and for other events.
 */
const scanLimit = constantSql('5000')

export const perMessage: Sql = constantSql(String(placesPerMessage))
const erased = constantSql(String(erasedSession))

/** The log in the SQL of an engine. Readers see it up to the last row and place. */
export interface LogSql {
  /** SELECT of the id of the store, as `id`. */
  readonly storeId: Sql
  readonly lastRow: Sql
  readonly lastPlace: Sql
  /** The place up to which events were removed for their age. */
  readonly removedPlace: Sql
  /** The end of the gap in which a place is; NULL if it is in none. No event is there, but one that was lost. */
  endOfGap(place: Sql): Sql
  /** Joins the message `m` of an event `e`, if it has one. */
  readonly messageOf: Sql
  /** The message `m` is of a session. */
  isOfSession(name: string): Sql
  /** Number of received messages after a row and up to another one, without the bot's own and imported ones. */
  countReceived(after: Sql, upTo: Sql): Sql
  /** The key of the reader in the column `name` shares its bounds with that of a reader. */
  sharesBounds(reader: string): Sql
}

/** A message that svc sent has an event at the place right after its own. */
const notSentHere = sql`(m.sent <> 1 OR NOT EXISTS
  (SELECT 1 FROM event e WHERE e.place = m.id * ${perMessage} + 1 AND e.message = m.id))`

type Events = Omit<EventLog, 'wait'>

class EventVerbs extends EngineVerbs<LogSql> implements Verbs<Events> {
  /** Id of the store. */
  #id: string | undefined

  /** SQL for the last message to scan. With a user, only that user's messages and other events count. */
  #scanEndOf(user: string | undefined): Sql {
    const { greatest, least } = this.dialect
    return user === undefined
      ? sql`b.first + ${scanLimit}`
      : sql`${greatest}(b.first, ${least}(coalesce((SELECT id FROM message${this.dialect.by('message_peer')}
            WHERE peer = ${user} AND id > b.first ORDER BY id LIMIT 1 OFFSET ${scanLimit}), b.newest),
          coalesce((SELECT place FROM event WHERE place > b.first * ${perMessage}
            ORDER BY place LIMIT 1 OFFSET ${scanLimit}) / ${perMessage}, b.newest)))`
  }

  *#storeId(): Routine<string> {
    this.#id ??= (yield* readFirst<{ id: string }>(this.parts.storeId))!.id
    return this.#id
  }

  /** @returns undefined for a cursor of another store */
  *placeOf(cursor: string): Routine<number | undefined> {
    const { store, place } = parseCursor(cursor)
    return store === (yield* this.#storeId()) ? place : undefined
  }

  /** The messages of a page that are events themselves. */
  #selectReceived({ session, user, hidden, scope }: Narrowed, limit: Sql): Sql {
    const only = onlyUserOf({ user, scope })
    return sql`SELECT * FROM (SELECT m.id * ${perMessage} AS place, 'message.received' AS type, m.stored_at AS at,
        m.id AS message, NULL AS status, NULL AS data FROM message m${this.dialect.by(only === undefined ? undefined : 'message_peer')}
      WHERE m.id > (SELECT first FROM bounded) AND m.id <= (SELECT last FROM bounded)
      AND ${hidden ? sql`m.session <> ${erased} AND ${notSentHere}` : sql`m.sent = 0`}
      ${session === undefined ? noSql : sql`AND ${this.parts.isOfSession(session)}`}
      ${only === undefined ? noSql : sql`AND m.peer = ${only}`}${this.dialect.inScope(scope)} ORDER BY m.id LIMIT ${limit}) received`
  }

  /** The rows of `event` of a page. `ofMessages`: those of messages may be wanted. */
  #selectOthers(
    { session, user, types, hidden, scope }: Narrowed & Pick<EventFilter, 'types'>,
    ofMessages: boolean,
    limit: Sql,
  ): Sql {
    const ofSession = (name: string) => {
      const own = sql`e.session = ${sessionKeyOf(name)}`
      return ofMessages ? sql`AND (${this.parts.isOfSession(name)} OR ${own})` : sql`AND ${own}`
    }
    return sql`SELECT * FROM (SELECT e.place, e.type, e.at, e.message, e.status, e.data FROM event e ${this.parts.messageOf}
      WHERE e.place > (SELECT start FROM bounded) AND e.place <= (SELECT scanned FROM bounded)
      AND m.session IS DISTINCT FROM ${erased}
      ${types ? sql`AND ${this.dialect.isOneOf(sql`e.type`, types)}` : hidden ? noSql : sql`AND e.type NOT IN (${namedOnly})`}
      ${hidden ? noSql : sql`AND e.status IS DISTINCT FROM 'sending'`}
      ${session === undefined ? noSql : ofSession(session)}
      ${user === undefined ? noSql : sql`AND m.peer = ${user}`}
      ${scope ? otherEventsOf(this.dialect, scope) : noSql} ORDER BY e.place LIMIT ${limit}) others`
  }

  *listAfter(cursor: string, { limit, types, ...narrowed }: EventFilter): Routine<EventPage> {
    const { endOfGap, lastPlace, lastRow } = this.parts
    const { greatest, least } = this.dialect
    const own = yield* this.placeOf(cursor)
    const store = yield* this.#storeId()
    const requested = own ?? 0
    // SQLite would compile the statement again for each plain parameter of a LIMIT.
    const most = sql`CAST(${limit} AS bigint)`
    const wants = (type: EventType) => types?.includes(type) !== false
    const ofMessages = wants('message.received') || wants('message.status')
    const scanEnd = ofMessages ? this.#scanEndOf(onlyUserOf(narrowed)) : sql`b.newest`
    const others = this.#selectOthers({ ...narrowed, ...(types && { types }) }, ofMessages, most)
    const sources = wants('message.received') ? [this.#selectReceived(narrowed, most), others] : [others]
    // One statement, so that retention removes nothing between two reads.
    const rows = yield* readAll<Bounds & Partial<EventRow>>(sql`WITH
      ends AS MATERIALIZED (SELECT ${lastPlace} AS upto, ${lastRow} AS newest,
        coalesce((SELECT min(id) FROM message), ${lastRow} + 1) - 1 AS oldest),
      begun AS MATERIALIZED (SELECT *, ${greatest}(start / ${perMessage}, oldest) AS first FROM (
        SELECT *, CASE WHEN CAST(${requested} AS bigint) > upto THEN 0 ELSE CAST(${requested} AS bigint) END AS start
          FROM ends) s),
      scan AS MATERIALIZED (SELECT b.*, ${least}(${scanEnd}, b.newest) AS last FROM begun b),
      bounded AS MATERIALIZED (SELECT *, CASE WHEN last = newest THEN upto
        ELSE coalesce(${endOfGap(sql`last * ${perMessage}`)}, (last + 1) * ${perMessage} - 1) END AS scanned FROM scan),
      found AS (SELECT * FROM (${joinSql(sources, ' UNION ALL ')}) s ORDER BY place LIMIT ${most})
      SELECT b.upto, b.oldest, b.scanned, ${this.parts.removedPlace} AS removed, ${endOfGap(sql`CAST(${requested} AS bigint)`)} IS NOT NULL AS lost, f.*
        FROM bounded b LEFT JOIN found f ON true ORDER BY f.place`)
    const { lost, upto, oldest, removed, scanned } = rows[0]!
    const isBefore = own === undefined || own < Math.max(oldest * placesPerMessage, removed)
    const gone = Boolean(lost) || requested > upto || (cursor !== '' && isBefore)
    const found = rows.filter((row): row is Bounds & EventRow => row.place !== undefined)
    return {
      events: found.map(row => eventOf(row, store)),
      cursor: `${store}-${found.length < limit ? scanned : found.at(-1)!.place}`,
      ...(gone && { gone }),
    }
  }

  *getHead(before?: number): Routine<string> {
    const { lastPlace, lastRow } = this.parts
    const ofTime = sql`coalesce(max(place), 0) AS place FROM (
      SELECT * FROM (SELECT id * ${perMessage} AS place FROM message WHERE stored_at < ${before} AND id <= ${lastRow}
        ORDER BY id DESC LIMIT 1) message
      UNION ALL SELECT * FROM (SELECT place FROM event WHERE at < ${before} AND place <= ${lastPlace}
        ORDER BY place DESC LIMIT 1) event) newest`
    const { place } = (yield* readFirst<{ place: number }>(
      before === undefined ? sql`SELECT ${lastPlace} AS place` : sql`SELECT ${ofTime}`,
    ))!
    return `${yield* this.#storeId()}-${place}`
  }

  *append(events: readonly NewEvent[], seen?: string): Routine<boolean> {
    const named = events.flatMap(event => ('session' in event ? [sessionKeyOf(event.session)] : []))
    const place = seen === undefined ? undefined : ((yield* this.placeOf(seen)) ?? 0)
    const isNewer = sql`EXISTS (SELECT 1 FROM event WHERE place > ${place} AND ${this.dialect.isOneOf(sql`session`, named)})`
    if (place !== undefined && (yield* readFirst(sql`SELECT 1 AS found WHERE ${isNewer}`))) return false
    yield* write(
      // Two processes that compare at a time: the second one reads after the first one committed.
      ...this.dialect.lock(constantSql('SELECT last FROM head')),
      ...(place === undefined ? [] : this.dialect.expect(sql`NOT ${isNewer}`)),
      ...events.map(({ data, type, ...event }) => {
        const session = 'session' in event ? sessionKeyOf(event.session) : undefined
        return this.context.addEvent({ type, session }, sql`${JSON.stringify(data)}`)
      }),
    )
    return true
  }

  *getPosition(reader: string): Routine<string | undefined> {
    const row = yield* readFirst<{ place: number; seen_at: number }>(
      sql`SELECT place, seen_at FROM event_reader WHERE name = ${reader}`,
    )
    if (!row) return undefined
    const now = this.clock.now()
    if (now - row.seen_at > seenEveryMs)
      yield* write(sql`UPDATE event_reader SET seen_at = ${now} WHERE name = ${reader}`)
    return row.place === lostPlace ? lostCursor : `${yield* this.#storeId()}-${row.place}`
  }

  *setPosition(reader: string, cursor: string): Routine<void> {
    const place = (yield* this.placeOf(cursor)) ?? 0
    const now = this.clock.now()
    const isMoved = yield* changes(sql`UPDATE event_reader SET place = ${place}, seen_at = ${now}
      WHERE name = ${reader} AND place <> ${lostPlace} RETURNING name`)
    if (isMoved) return
    const select = selectIdle(sql`event_reader WHERE place <> ${lostPlace}`, this.parts.sharesBounds(reader))
    const idle = yield* findIdle(select, readerIdleMs, now)
    yield* write(
      // One new reader at a time, so that no two take the last place.
      ...this.dialect.lock(constantSql('SELECT form FROM meta')),
      ...this.dialect.expect(sql`(SELECT name FROM (${select}) idle) IS NOT DISTINCT FROM ${idle}`),
      ...(idle === undefined ? [] : loseReader(idle)),
      sql`INSERT INTO event_reader (name, place, seen_at) VALUES (${reader}, ${place}, ${now})
        ON CONFLICT (name) DO UPDATE SET place = excluded.place, seen_at = excluded.seen_at`,
    )
  }
}

export interface EventsNoun extends Noun<Events> {
  readonly verbs: EventVerbs
}

export const createEvents = (context: NounContext, log: LogSql): EventsNoun => ({
  verbs: new EventVerbs(context, log),
  modes: {
    listAfter: 'plain',
    getHead: 'plain',
    append: 'intake',
    getPosition: 'plain',
    setPosition: 'light',
  },
})

/** The reader loses its place. The newest losses are remembered. */
const loseReader = (name: string): readonly Sql[] => [
  sql`UPDATE event_reader SET place = ${lostPlace} WHERE name = ${name}`,
  sql`DELETE FROM event_reader WHERE name IN (SELECT name FROM event_reader WHERE place = ${lostPlace}
    ORDER BY seen_at DESC LIMIT ${Number.MAX_SAFE_INTEGER} OFFSET ${maxReaders})`,
]

/** Bounds of a page: the end of the log; the row before the oldest one; the place up to which the page was scanned. */
interface Bounds {
  upto: number
  oldest: number
  scanned: number
  /** Events up to this place were removed for their age. */
  removed: number
  /** The cursor is at an event that was lost when a standby took over. */
  lost: unknown
}

/** A row of `event`, or a message as one. `data`: JSON. */
interface EventRow extends Omit<LoggedEvent, 'cursor' | 'data'> {
  place: number
  data?: string
}

const eventOf = ({ place, type, at, message, status, data }: EventRow, store: string): LoggedEvent =>
  ({
    cursor: `${store}-${place}`,
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

/** Conditions for rows of `event`, by the same rules as `isEventInScope`. */
function otherEventsOf(dialect: Dialect, scope: Scope): Sql {
  const ofMessage = sql`m.id IS NOT NULL${dialect.inScope(scope)}`
  if (scope.users) return sql`AND ${ofMessage}`
  const isOfBot = scope.bots
    ? dialect.isOneOf(sql`(${dialect.json(sql`e.data`)} ->> 'bot_id')`, scope.bots)
    : sql`true`
  return sql`AND CASE WHEN e.type LIKE 'session.%' THEN ${isOfBot} ELSE ${ofMessage} END`
}
