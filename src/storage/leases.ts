/**
 * Who polls which sessions: of everybody who shares what is stored, one at a time polls a session, since two would take
 * messages from each other. An engine on one machine may give all sessions to one process. One for several machines spreads
 * them: it gives everybody a lease, which may own nothing at first, and `owned` changes as others come and go.
 */
import type { SessionChanges } from './state.ts'

export interface Leases {
  /**
   * Asks to take part in polling; asked again every second while there is no lease. Never waits for another process: a free
   * right is given at once, also that of a holder that died.
   *
   * @returns undefined when another process has the right to poll every session
   * @throws SvcError `store_unavailable` when that cannot be told at the moment
   */
  join(): Promise<Lease | undefined>

  /**
   * Whether another process keeps the right to poll and shows no life, since it was stopped or hangs. To be asked every
   * second while `join` gives nothing; known after some 15 s. Never rejects. An engine whose leases lapse answers false.
   */
  stalled(): Promise<boolean>

  /** Process id of the one that polls every session, if it runs on this machine and is known. Never rejects. */
  holder(): Promise<number | undefined>

  /** Gives back what is held. Safe to call twice. */
  close(): Promise<void>
}

/** The right to poll, until it is given back or lost. */
export interface Lease {
  /** Aborts when it is lost: another process may poll from then on. */
  readonly lost: AbortSignal

  /**
   * What changed of the sessions that are ours to poll, as `Sessions.changedSince`. One that is another's now is gone.
   *
   * @throws SvcError `store_unavailable`
   */
  owned(revision?: number): Promise<SessionChanges>

  /**
   * Whether the session (without a name: the right to poll) is surely ours at this moment. To be asked before each poll: after a long sleep a lease may be
   * another's before `lost` tells.
   */
  mayPoll(session?: string): boolean

  /** Gives it back: others may `join` from then on. Never rejects; safe to call twice. */
  release(): Promise<void>
}
