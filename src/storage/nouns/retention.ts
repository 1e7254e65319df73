/** Retention: removes rows of the log that are too old or too many, oldest first, in small steps (README, "Retention"). */
import type { Scope } from '../../model/access.ts'
import { sessionKeyOf } from '../../model/session.ts'
import { changeApart, doneApart, type RowFailure } from '../../platform/apart.ts'
import type { Clock } from '../../platform/clock.ts'
import type { Log } from '../../platform/log.ts'
import { noSql, type Sql, sql } from '../../platform/sql.ts'
import type { NewAuditLine } from '../audit.ts'
import type { ClockTrust, KnownClock } from '../clock-trust.ts'
import { dayMs, liveMs } from '../retention.ts'
import { type Dialect, type Routine, type Runner, readAll, readFirst, write } from '../routine.ts'
import { createAudit, type LineContext } from './audit.ts'
import { perMessage } from './events.ts'

/** Rows per step, which is a transaction of its own: a writer waits for tens of milliseconds at most. */
const stepRows = 300
/** Maximum number of steps of one prune, and the pause after one, so that writers come in between. */
const [mostSteps, pauseMs] = [20_000, 5]
/** Held while a step removes. Only svc takes this advisory lock. */
const pruneLock = 0x737665

/** Newest events of sessions without a name stay this long: nothing else may be known of an account that nobody wrote to. */
const unnamedMs = 90 * dayMs

/** Returns the condition of an event that may go: the newest of each type of each session stays, as long as its name does. */
function* findNotLatest({ dialect }: PruneParts, now: number): Routine<Sql> {
  const names = yield* readAll<{ name: string }>(sql`SELECT DISTINCT name FROM session`)
  const isNamed = dialect.isOneOf(
    sql`e.session`,
    names.map(({ name }) => sessionKeyOf(name)),
  )
  return sql`(e.session IS NULL OR (e.at < ${now - unnamedMs} AND NOT ${isNamed}) OR EXISTS
    (SELECT 1 FROM event newer WHERE newer.session = e.session AND newer.type = e.type AND newer.place > e.place))`
}

/** What retention keeps; 0: no limit. */
export interface Retention {
  maxAgeDays: number
  maxCount: number
}

interface RetentionRules extends Retention {
  /** Unix ms. */
  now: number
  /**
   * Whether `now` can be trusted: otherwise nothing is removed by age, and every consumer counts as a reader.
   */
  trusted: boolean
  /** Consumers and waiting sends for which this run has logged a warning already. */
  warned: Set<string>
}

interface DatedRow {
  id: number
  /** Unix ms. */
  storedAt: number
}

export interface PruneParts {
  readonly clock: Clock
  readonly log: Log
  readonly dialect: Dialect
  /** What to keep now. */
  findRetention(): Promise<Retention>
  readonly clockTrust: Pick<ClockTrust, 'isTrusted'>
  /** Column with the row id in the index of texts. */
  readonly textId: Sql
  /** Returns the highest row id. `maxCount` rows have ids beyond that many less. */
  findLast(maxCount: number): Routine<number>
  /** The table of one row with what is known of the store. */
  readonly store: Sql
  /** Statements that remove what only this engine has, and nothing needs any more. */
  readonly leftovers: readonly Sql[]
}

/** @returns `StoreMaintenance.prune` */
export function createPrune(parts: PruneParts, run: Runner): (signal?: AbortSignal) => Promise<number> {
  const { clock, clockTrust, findRetention, log } = parts
  let wasDoubted = false
  return async signal => {
    const trusted = clockTrust.isTrusted
    const retention = await findRetention()
    const rules = { ...retention, now: clock.now(), trusted, warned: new Set<string>() }
    if (!trusted && !wasDoubted)
      log.warn('the clock jumped, or svc did not run for long: nothing is removed for its age for a day')
    wasDoubted = !trusted
    let [after, unread] = [0, 0]
    const failures: RowFailure[] = []
    const removeOf = (what: 'event' | 'message', ids: readonly number[]) =>
      changeApart(
        ids,
        id => `${what} ${id}`,
        some => run('plain', () => removers[what](parts, some)),
      )
    await inSteps(clock, signal, async () => {
      const step = await run('plain', () => planStep(parts, after, rules))
      unread += step.unread
      // Events first: a reader of events goes past one whose message is gone, and no later step would find the others.
      failures.push(...(await removeOf('event', step.events)), ...(await removeOf('message', step.doomed)))
      after = step.doomed.at(-1) ?? after
      return step.isFull
    })
    await inSteps(clock, signal, async () => {
      const { end, isFull, places } = await run('plain', () => planEvents(parts, rules))
      // First: a process that dies between the two leaves no reader that misses something and is not told.
      if (end !== undefined) await run('plain', () => noteRemoved(parts, end))
      failures.push(...(await removeOf('event', places)))
      return isFull
    })
    // Slots are removed with later ones of their session, which may never send again.
    const slots = sql`DELETE FROM turn WHERE at < ${rules.now - liveMs}`
    const remove = async (some: readonly Sql[]) => await run('plain', () => write(...some))
    if (trusted)
      failures.push(...(await changeApart([slots, ...parts.leftovers], () => 'what is left over', remove)))
    return doneApart(failures, unread)
  }
}

/** @param step returns whether there may be more to do */
export async function inSteps(
  clock: Clock,
  signal: AbortSignal | undefined,
  step: () => boolean | Promise<boolean>,
): Promise<void> {
  for (let count = 0; count < mostSteps && !signal?.aborted; count++) {
    if (!(await step())) return
    await clock.sleep(pauseMs, signal)
  }
}

/**
 * Decides which rows are removed in one step.
 *
 * @param after all rows up to this one were seen to already
 * @returns `doomed`: ids, ascending; `events`: places of events before them; `unread`: what consumers had not read of them;
 *   `isFull`: there may be more to remove
 */
function* planStep(
  parts: PruneParts,
  after: number,
  rules: RetentionRules,
): Routine<{ doomed: number[]; events: number[]; unread: number; isFull: boolean }> {
  const { findLast } = parts
  const last = yield* findLast(rules.maxCount)
  const oldest =
    yield* readAll<DatedRow>(sql`SELECT id, stored_at AS "storedAt" FROM message WHERE id > ${after}
    ORDER BY id LIMIT ${stepRows}`)
  const { end, isKept } = yield* findRemoved(oldest, last, rules)
  if (end === undefined) return { doomed: [], events: [], unread: 0, isFull: false }
  const unread = yield* countUnread(parts, end, rules)
  yield* warnSenders(parts, end, rules)
  const doomed = oldest.flatMap(({ id }) => (id <= end ? id : []))
  return { doomed, events: yield* listEventsBefore(parts, end, rules.now), unread, isFull: !isKept }
}

/** Returns the places of the events before the one of a message. */
function* listEventsBefore(parts: PruneParts, end: number, now: number): Routine<number[]> {
  const isNotLatest = yield* findNotLatest(parts, now)
  const rows = yield* readAll<{
    place: number
  }>(sql`SELECT e.place FROM event e WHERE e.place < ${end} * ${perMessage} AND ${isNotLatest}`)
  return rows.map(({ place }) => place)
}

const removers = {
  *event({ dialect }: PruneParts, places: readonly number[]): Routine<void> {
    yield* write(sql`DELETE FROM event WHERE ${dialect.isOneOf(sql`place`, places)}`)
  },

  /** @param ids without gaps of rows that stay */
  *message({ dialect, textId }: PruneParts, ids: readonly number[]): Routine<void> {
    const [first = 0, end = 0] = [ids[0], ids.at(-1)]
    yield* write(
      ...dialect.oneAtATime(pruneLock),
      sql`DELETE FROM gram WHERE ${textId} >= ${first} AND ${textId} <= ${end}`,
      sql`DELETE FROM message WHERE id >= ${first} AND id <= ${end}`,
    )
  },
}

/**
 * Decides about the oldest rows of the log.
 *
 * @param last the highest row id
 * @returns `end`: the last row that is removed, if any; `isKept`: whether a later one of these rows stays
 */
function* findRemoved(
  oldest: readonly DatedRow[],
  last: number,
  { now, trusted, maxAgeDays, maxCount }: RetentionRules,
): Routine<{ end: number | undefined; isKept: boolean }> {
  // The newest maxCount rows are those with a higher id than this.
  const lastSurplusId = maxCount > 0 ? last - maxCount : 0
  const before = trusted && maxAgeDays > 0 ? now - maxAgeDays * dayMs : Number.NEGATIVE_INFINITY
  // A row dated in the future was stored by a clock that was set back since: it is older than the rows after
  // it.
  const latest = now + dayMs
  const kept = oldest.findIndex(
    ({ id, storedAt }) => id > lastSurplusId && storedAt >= before && storedAt <= latest,
  )
  const doomed = kept === -1 ? [...oldest] : oldest.slice(0, kept)
  const goes = (row: DatedRow) => row.id <= lastSurplusId || row.storedAt < before
  const beyond =
    kept === -1
      ? yield* readFirst<Pick<DatedRow, 'storedAt'>>(sql`SELECT stored_at AS "storedAt" FROM message
          WHERE id > ${doomed.at(-1)?.id ?? 0} AND stored_at <= ${latest} ORDER BY id LIMIT 1`)
      : undefined
  if (!beyond || beyond.storedAt >= before) doomed.length = doomed.findLastIndex(goes) + 1
  return { end: doomed.at(-1)?.id, isKept: kept !== -1 }
}

/**
 * Decides which events are too old, whatever messages come after them. The newest one stays: the next event gets the place
 * after it.
 *
 * @returns `places`: up to one step of them; `end`: all up to this place were looked at; `isFull`: there may be more
 */
function* planEvents(
  parts: PruneParts,
  { maxAgeDays, now, trusted }: RetentionRules,
): Routine<{ places: number[]; end?: number; isFull: boolean }> {
  if (!trusted || maxAgeDays === 0) return { places: [], isFull: false }
  const before = now - maxAgeDays * dayMs
  const isNotLatest = yield* findNotLatest(parts, now)
  const oldest = yield* readAll<{
    place: number
    at: number
    goes: unknown
  }>(sql`SELECT place, at, ${isNotLatest} AS goes
    FROM event e WHERE place > (SELECT events_removed FROM ${parts.store}) AND place < (SELECT max(place) FROM event)
    ORDER BY place LIMIT ${stepRows}`)
  // As with messages, one dated in the future goes with one after it.
  const kept = oldest.findIndex(({ at }) => at >= before && at <= now + dayMs)
  const old = kept === -1 ? oldest : oldest.slice(0, kept)
  const end = old.findLast(({ at }) => at < before)?.place
  if (end === undefined) return { places: [], isFull: false }
  const places = old.flatMap(({ goes, place }) => (goes && place <= end ? [place] : []))
  return { places, end, isFull: kept === -1 && oldest.length === stepRows }
}

/** From now on, readers before this place get a sign that they missed something. */
function* noteRemoved({ store }: PruneParts, end: number): Routine<void> {
  yield* write(sql`UPDATE ${store} SET events_removed = ${end} WHERE events_removed < ${end}`)
}

/**
 * Counts the messages up to a row that a consumer in use has not read, for each such consumer, and warns once of it. The
 * consumer of a key reads only what the key may see.
 */
function* countUnread({ dialect, log }: PruneParts, end: number, rules: RetentionRules): Routine<number> {
  const { now, trusted, warned } = rules
  const behind = yield* readAll<{ consumer: string; position: number; grant?: string }>(sql`
    SELECT c.name AS consumer, c.position, k."grant" FROM consumer c LEFT JOIN access_key k ON c.name LIKE k.id || '/%'
      WHERE c.seen_at > ${trusted ? now - liveMs : 0} AND c.position < ${end}`)
  let unread = 0
  for (const { consumer, grant = '{}', position } of behind) {
    const { bots, users }: Scope = JSON.parse(grant)
    const isIn = (column: Sql, list?: readonly string[]) =>
      list ? sql` AND ${dialect.isOneOf(column, list)}` : noSql
    const row = yield* readFirst<{ messages: number }>(sql`SELECT count(*) AS messages FROM message m
      WHERE m.id > ${position} AND m.id <= ${end} AND m.sent = 0${isIn(sql`m.bot_id`, bots)}${isIn(sql`m.peer`, users)}
        AND NOT EXISTS (SELECT 1 FROM consumer_ahead a
          WHERE a.consumer = ${consumer} AND a.session = m.session AND a.position >= m.id)`)
    const { messages = 0 } = row ?? {}
    unread += messages
    if (messages === 0 || warned.has(consumer)) continue
    warned.add(consumer)
    log.warn('retention removes messages that a consumer has not read', { consumer, position })
  }
  return unread
}

/** Messages in the outbox are complete there and are still sent: only their row is missing until then. */
function* warnSenders({ log }: PruneParts, end: number, { warned }: RetentionRules): Routine<void> {
  const waiting = yield* readAll<{ outbox: number; messages: number }>(sql`SELECT entry AS outbox,
    count(*) AS messages FROM outbox_part WHERE message <= ${end} AND status = 'queued' GROUP BY entry`)
  for (const found of waiting) {
    const entry = `outbox ${found.outbox}`
    if (warned.has(entry)) continue
    warned.add(entry)
    log.warn('retention removes unsent messages from the history; they stay in the outbox', { ...found })
  }
}

/** @returns `StoreMaintenance.noteRetention` */
export function* noteRetention(context: LineContext, store: Sql, line: NewAuditLine): Routine<void> {
  const { retention } = (yield* readFirst<{ retention?: string }>(sql`SELECT retention FROM ${store}`))!
  if (retention === line.subject) return
  if (retention !== undefined) yield* createAudit(context).verbs.add(line)
  yield* write(sql`UPDATE ${store} SET retention = ${line.subject}`)
}

/**
 * Returns what is known of the clock. The last sign of life is the time of the newest row, reader activity, or note of the
 * clock (Unix ms) that is not in the future.
 *
 * @param store the table of one row with what is known of the store
 */
export function* readClock(now: number, store: Sql): Routine<KnownClock> {
  const row = yield* readFirst<{ at?: number }>(sql`SELECT max(at) AS at FROM (
    SELECT * FROM (SELECT stored_at AS at FROM message ORDER BY id DESC LIMIT 1) newest
    UNION ALL SELECT max(seen_at) FROM consumer UNION ALL SELECT clock_seen FROM ${store}) signs
    WHERE at <= ${now + dayMs}`)
  const known = yield* readFirst<{ leftMs: number }>(sql`SELECT clock_doubt_ms AS "leftMs" FROM ${store}`)
  return { lastSign: row?.at, leftMs: known?.leftMs }
}

/** Stores what is known of the clock. If several processes count down one doubt, the lowest number is kept. */
export function* noteClock(clockTrust: ClockTrust, { least }: Dialect, store: Sql): Routine<void> {
  const { isNew, leftMs, seenAt } = clockTrust.note()
  const left = isNew ? sql`${leftMs}` : sql`${least}(clock_doubt_ms, ${leftMs})`
  yield* write(sql`UPDATE ${store} SET clock_seen = ${seenAt}, clock_doubt_ms = ${left}`)
}
