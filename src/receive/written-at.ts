/**
 * Computes when a user wrote. The window of 24 hours and the quota start at that time (protocol notes 5.1).
 *
 * The time of receipt is not good enough: messages of a backlog have partly used their window, and a
 * message that upstream delivers again must not open a new one. Upstream's time is not either: if our clock
 * is hours off, every window would be closed. So a live message is dated by our own polls, and any other by
 * upstream's time.
 */

/** Upstream does not keep messages for this long, so an older time is wrong. */
const credibleMs = 7 * 24 * 60 * 60_000

/** All in Unix ms of our clock. */
export interface ReceiveTiming {
  now: number
  /** Upstream held no message back at this time, so a new message is younger; undefined if not known. */
  earliest: number | undefined
  /** Whether the store had no such message. */
  isNew: boolean
}

/**
 * @param stated upstream's creation time, Unix ms; undefined if it states none
 * @returns `again` for a message that came before and has no credible time: it does not start a window
 */
export function resolveWrittenAt(
  stated: number | undefined,
  { now, earliest, isNew }: ReceiveTiming,
): { received_at: number; again?: true } {
  const credible = stated !== undefined && now - stated <= credibleMs ? Math.min(stated, now) : undefined
  if (isNew) return { received_at: Math.max(credible ?? now, Math.min(earliest ?? 0, now)) }
  return credible === undefined ? { received_at: now, again: true } : { received_at: credible }
}
