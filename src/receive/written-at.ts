/**
 * When a user wrote: from then on the window of 24 hours runs, and the quota begins anew (protocol notes 5.1).
 *
 * That is not when we heard of it: of a backlog windows are partly over, and a message that upstream delivers again
 * must not open one. Nor is upstream's word enough: a clock of ours that is hours off would shut every window. So what
 * arrives live is dated by our own polls, and the rest as upstream states.
 */

/** Upstream keeps no message so long: a time further back is no time. */
const credibleMs = 7 * 24 * 60 * 60_000

/** All Unix ms by our clock. */
export interface Arrival {
  now: number
  /** Upstream held nothing back then, so what is new was written later; undefined when that is not known. */
  earliest: number | undefined
  /** The store had no such message. */
  isNew: boolean
}

/**
 * @param stated upstream's create time, Unix ms; undefined when it states none
 * @returns `again` for a message that came before and does not say when it was written: it dates nothing
 */
export function writtenAt(
  stated: number | undefined,
  { now, earliest, isNew }: Arrival,
): { received_at: number; again?: true } {
  const said = stated !== undefined && now - stated <= credibleMs ? Math.min(stated, now) : undefined
  if (isNew) return { received_at: Math.max(said ?? now, Math.min(earliest ?? 0, now)) }
  return said === undefined ? { received_at: now, again: true } : { received_at: said }
}
