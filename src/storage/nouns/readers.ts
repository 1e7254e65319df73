/** Rules for named readers, of messages and of events. Each has a place as long as there is room for it. */
import { badArgument, type SvcError } from '../../model/error.ts'
import { type Sql, sql } from '../../platform/sql.ts'
import { maxReaders, noPlaceError } from '../events.ts'
import { type Routine, readFirst } from '../routine.ts'

/** Precision of the time when a reader was last active: retention compares days. */
export const seenEveryMs = 60 * 60_000

/** A lease of rows expires after this; sooner if its owner is known to be dead. */
export const rowLeaseMs = 30_000
/** `lease.expires_at` of rows that no reader saw. */
export const neverSeen = -1
/** `lease.owner` of a program, whose lease no death of a process ends. */
export const ofProgram = ''
/** A lease of a program expires after this: less than twice `rowLeaseMs`, beyond which the clock was set back. */
export const programLeaseMs = 45_000
/** Leases of programs that a consumer has open, and rows of it that wait for others of their persons. */
export const [maxLeases, maxBehind] = [100, 1000]
/** New rows that one call looks at. */
export const mostLookedAt = 100

export const missingAckError = (consumer: string): SvcError =>
  badArgument('ack', `missing; nothing else moves the consumer "${consumer}"`, {
    hint: 'Give the id of the last message that is dealt with (0 to begin), or use another consumer.',
  })

export const notDeliveredError = (): SvcError =>
  badArgument('ack', 'expected at most the id of the last message that this consumer was given', {
    hint: 'Give the id of the last message that is dealt with, 0 to begin.',
  })

/** SELECT of the reader that gives its place to another one, if all places are taken. `readers`: a FROM with a WHERE. */
export const selectIdle = (readers: Sql, sharesBounds: Sql): Sql =>
  sql`SELECT name, seen_at FROM ${readers} AND ${sharesBounds} ORDER BY seen_at DESC LIMIT 1 OFFSET ${maxReaders - 1}`

/**
 * @param idleMs a reader that was idle for so long may give its place
 * @returns the name of such a reader, if all places are taken
 * @throws SvcError `rate_limited`
 */
export function* findIdle(select: Sql, idleMs: number, now: number): Routine<string | undefined> {
  const longest = yield* readFirst<{ name: string; seen_at: number }>(select)
  const waitMs = longest ? longest.seen_at + idleMs - now : 0
  if (waitMs > 0) throw noPlaceError(waitMs)
  return longest?.name
}
