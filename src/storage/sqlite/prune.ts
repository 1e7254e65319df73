/**
 * Retention: removes rows that are too old or too many, oldest first, in small steps, and shrinks the file.
 */
import type { Clock } from '../../platform/clock.ts'
import type { Log } from '../../platform/log.ts'
import type { Database } from '../../platform/sqlite.ts'
import type { ClockTrust } from '../clock-trust.ts'
import { type DatedRow, dayMs, findRemoved, liveMs, type RetentionRules } from '../retention.ts'
import { pruneEvents } from './events.ts'

/** Rows per transaction: a writer waits for tens of milliseconds at most. */
const stepRows = 300
/** Pages given back to the file system per transaction. */
const stepPages = 256
/** Free pages kept for the next rows. */
const sparePages = 256

interface PruneRules extends Omit<RetentionRules, 'last'> {
  log: Log
  /** Consumers and waiting sends for which this run has logged a warning already. */
  warned: Set<string>
}

/** Removes up to one step of rows. @returns whether there may be more to remove */
function pruneStep(db: Database, rules: PruneRules): boolean {
  const { now } = rules
  const { last = 0 } = db.one<{ last?: number }>`SELECT max(id) AS last FROM message`
  const oldest = db.all<DatedRow>`SELECT id, stored_at AS storedAt FROM message ORDER BY id LIMIT ${stepRows}`
  const { end, isKept } = findRemoved(oldest, { ...rules, last }, id => findNextDated(db, id, now + dayMs))
  if (end === undefined) return false
  warnReaders(db, rules, end)
  warnSenders(db, rules, end)
  db.transaction(() => {
    db.run`DELETE FROM gram WHERE rowid BETWEEN ${oldest[0]?.id ?? end} AND ${end}`
    db.run`DELETE FROM message WHERE id <= ${end}`
    pruneEvents(db, end)
  })
  return !isKept
}

/** Returns the first row after `id` that is not dated in the future. */
function findNextDated(db: Database, id: number, latest: number): Pick<DatedRow, 'storedAt'> | undefined {
  return db.get`SELECT stored_at AS storedAt FROM message WHERE id > ${id} AND stored_at <= ${latest}
    ORDER BY id LIMIT 1`
}

/**
 * Returns the time of the newest row or reader activity (Unix ms) that is not in the future; undefined if
 * there is none.
 */
export function findLastSign(db: Database, now: number): number | undefined {
  return db.get<{ at?: number }>`SELECT max(at) AS at FROM (
    SELECT * FROM (SELECT stored_at AS at FROM message ORDER BY id DESC LIMIT 1)
    UNION ALL SELECT max(seen_at) FROM consumer
    ) WHERE at <= ${now + dayMs}`?.at
}

/** Gives some free pages back to the file system. @returns whether there are more */
function shrinkStep(db: Database): boolean {
  const free = Number(db.get`PRAGMA freelist_count`?.freelist_count ?? 0)
  if (free <= sparePages) return false
  db.exec(`PRAGMA incremental_vacuum(${Math.min(stepPages, free - sparePages)})`)
  return true
}

function warnReaders(db: Database, { now, trusted, log, warned }: PruneRules, end: number): void {
  const lagging = db.all<{ consumer: string; position: number }>`SELECT name AS consumer, position
    FROM consumer WHERE seen_at > ${trusted ? now - liveMs : 0}
    AND position < ${end}`
  for (const { consumer, position } of lagging) {
    if (warned.has(consumer)) continue
    const unread = db.get`SELECT 1 AS found FROM message m WHERE id > ${position} AND id <= ${end}
      AND sent = 0 AND NOT EXISTS (SELECT 1 FROM consumer_ahead a
        WHERE a.consumer = ${consumer} AND a.session = m.session AND a.position >= m.id)`
    if (!unread) continue
    warned.add(consumer)
    log.warn('retention removes messages that a consumer has not read', { consumer, position })
  }
}

/** Messages in the outbox are complete there and are still sent: only their row is missing until then. */
function warnSenders(db: Database, { log, warned }: PruneRules, end: number): void {
  const waiting = db.all<{ outbox: number; messages: number }>`SELECT entry AS outbox, count(*) AS messages
    FROM outbox_part WHERE message <= ${end} AND status = 'queued' GROUP BY entry`
  for (const found of waiting) {
    const entry = `outbox ${found.outbox}`
    if (warned.has(entry)) continue
    warned.add(entry)
    log.warn('retention removes unsent messages from the history; they stay in the outbox', { ...found })
  }
}

/** Maximum number of steps of one prune, each of some hundred rows or pages. */
const pruneSteps = 20_000

interface PrunePorts {
  db: Database
  clockTrust: Pick<ClockTrust, 'isTrusted'>
  /** Removes entries of the outbox that answer for nothing any more. */
  pruneOutbox(): Promise<void>
  guard<T>(step: () => T): T
}

export function createPrune(
  { clock, log, maxAgeDays, maxCount }: Omit<PruneRules, 'now' | 'trusted' | 'warned'> & { clock: Clock },
  { clockTrust, db, guard, pruneOutbox }: PrunePorts,
): (signal?: AbortSignal) => Promise<void> {
  /** The clock was not trusted at the last prune. */
  let wasDoubted = false
  return async signal => {
    const trusted = clockTrust.isTrusted
    const rules = { now: clock.now(), trusted, maxAgeDays, maxCount, log, warned: new Set<string>() }
    if (trusted) await pruneOutbox()
    else if (!wasDoubted)
      log.warn('the clock jumped, or svc did not run for long: nothing is removed for its age for a day')
    wasDoubted = !trusted
    for (const step of [() => pruneStep(db, rules), () => shrinkStep(db)])
      for (let count = 0; count < pruneSteps && !signal?.aborted; count++) {
        if (!guard(step)) break
        await clock.sleep(5, signal)
      }
  }
}
