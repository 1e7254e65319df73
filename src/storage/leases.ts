/**
 * Who polls which sessions: of everybody who shares what is stored, one at a time polls a session, since two would take
 * messages from each other. An engine on one machine may give all sessions to one process; one for several machines spreads
 * them.
 */
import type { SessionRecord } from './state.ts'

export interface Leases {
  /**
   * Asks to take part in polling. Never waits for another process: a free right is given at once, also that of a holder that
   * died.
   *
   * @returns undefined when others have all there is
   * @throws SvcError `store_unavailable` when that cannot be told at the moment
   */
  join(): Promise<Lease | undefined>

  /**
   * Whether somebody else keeps the right to poll and shows no life: stopped, hung, or on a disk that is. To be asked about
   * once a second while `join` gives nothing; known after some 15 s. Never rejects.
   */
  stalled(): Promise<boolean>

  /** The process that has the right to poll, where one has all of it and that is known. Never rejects. */
  holder(): Promise<number | undefined>

  /** Gives back what is held. Safe to call twice. */
  close(): Promise<void>
}

/** The right to poll, until it is given back or lost; while it is held, others see that this process lives. */
export interface Lease {
  /** Aborts when it is lost: another process may poll from then on. */
  readonly lost: AbortSignal

  /**
   * The sessions that are ours to poll, in no order. When it is the same array as before, nothing has changed.
   *
   * @throws SvcError `store_unavailable`
   */
  owned(): Promise<readonly SessionRecord[]>

  /**
   * Whether the session is surely ours at this moment. To be asked before each poll: after a long sleep a lease may be
   * another's before `lost` tells.
   */
  mayPoll(session: string): boolean

  /** Gives it back: others may `join` from then on. Never rejects; safe to call twice. */
  release(): Promise<void>
}
