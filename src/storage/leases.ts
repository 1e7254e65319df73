/**
 * Leases: which process polls which sessions. Only one of the processes that share the storage polls a
 * session at a time, since two would take messages from each other. An engine on one machine may give all
 * sessions to one process. An engine for several machines spreads them: each process gets a lease, which may
 * own nothing at first, and `listOwned` changes as other processes come and go.
 */
import type { SessionChanges } from './state.ts'

export interface Leases {
  /**
   * Asks to take part in polling. Call it again every second while there is no lease. Never waits for another
   * process: a free right is granted immediately, also the right of a holder that died.
   *
   * @param options.alone for a process that polls for a moment only: do not share the sessions with others
   * @returns undefined if another process has the right to poll every session, or `alone` and another one polls
   * @throws SvcError `store_unavailable` if the holder cannot be determined now
   */
  join(options?: { alone?: boolean }): Promise<Lease | undefined>

  /**
   * Whether another process has the right to poll but shows no sign of life (it was stopped, or hangs). Call
   * it every second while `join` returns undefined; the result is known after about 15 s. Never rejects. An
   * engine whose leases expire returns false.
   */
  isStalled(): Promise<boolean>

  /**
   * Process id of the process that polls every session, if it runs on this machine and is known. Never
   * rejects.
   */
  findHolder(): Promise<number | undefined>

  /** Releases everything. Safe to call twice. */
  close(): Promise<void>
}

/** The right to poll, until it is released or lost. */
export interface Lease {
  /** Aborts when the lease is lost: another process may poll from then on. */
  readonly lost: AbortSignal

  /** Whether other processes poll too, and take over the sessions when this lease ends. */
  readonly isShared: boolean
  /** Whether what was polled waits, after the lease is over, for a store that is away. */
  readonly waitsForStore: boolean

  /**
   * Returns what changed in the sessions that this process polls, like `SessionReader.listChangedSince`. A
   * session that another process is to poll is returned as removed: begin no poll, and call `giveUp` when the one
   * under way is answered. `mayPoll` is false for it, and true for a session that was logged out.
   *
   * @throws SvcError `store_unavailable`
   */
  listOwned(revision?: number): Promise<SessionChanges>

  /**
   * Whether this process certainly owns the session now (without a name: the right to poll). Call it before
   * each poll: after a long sleep another process may have the lease before `lost` aborts.
   */
  mayPoll(session?: string): boolean

  /** Resolves after `ms`, when the signal aborts, or when it is useful to call `listOwned` before. */
  waitForChange(ms: number, signal: AbortSignal): Promise<void>

  /**
   * Confirms that this process does not poll a session that `listOwned` returned as removed, and that its last
   * batch is stored. From then on another process may poll it. No effect on any other session. Never rejects.
   */
  giveUp(session: string): void

  /** Releases the lease: others may `join` from then on. Never rejects; safe to call twice. */
  release(): Promise<void>
}
