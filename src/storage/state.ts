/**
 * What svc keeps of its sessions: who is logged in, and who may be answered. Others may change it at any time: each look
 * shows what has been written until then, by this process at once, by another one within two seconds where there are many
 * sessions.
 *
 * All that is written is durable when the verb resolves, and appears whole or not at all. A verb rejects with SvcError
 * `store_unavailable` where the engine does not work at the moment; nothing was written then. Others are named with the verb.
 */
import type { BotInfo, Marks, UserContext } from '../model/session.ts'

export interface State {
  readonly sessions: Sessions
  readonly contexts: Contexts
  readonly signIns: SignIns
}

export interface SessionRecord {
  name: string
  /** Absent when the credentials are damaged. */
  bot?: BotInfo
  damaged?: true
}

/** The sessions, looked at. Nothing here waits for a writer. */
export interface SessionSight {
  /** All, in no order. When it is the same array as before, nothing has changed; it is the same promise within a tick. */
  list(): Promise<readonly SessionRecord[]>

  /** The one of that name, compared without case; undefined for none, and for what can be no name. */
  get(name: string): Promise<SessionRecord | undefined>

  /** The one that was made the default, where it is still there. */
  defaultName(): Promise<string | undefined>
}

export interface Sessions extends SessionSight {
  /**
   * Stores credentials: of a new session, or of a new login of one. With another bot what was known of its users' contexts
   * ends first. Where no session is the default, the oldest becomes it.
   */
  save(name: string, bot: BotInfo): Promise<void>

  /** Sets times that do not stand yet, and a text, and removes what is given as undefined; not of another login. */
  mark(name: string, token: string, wanted: Marks): Promise<void>

  /**
   * Removes the credentials, the contexts, and what is counted and held of answers; messages stay. A default session hands
   * over to the oldest.
   *
   * @throws SvcError `session_not_found`
   */
  remove(name: string): Promise<void>

  /**
   * The session's messages go with it: where they cannot, nothing is renamed. An engine that keeps the two apart may leave the
   * messages under the old name when its process is killed in between; the same rename back and forth joins them again.
   *
   * @throws SvcError `session_not_found`, `session_exists`
   */
  rename(oldName: string, newName: string): Promise<void>

  /** @throws SvcError `session_not_found` */
  setDefault(name: string): Promise<void>

  /**
   * Removes what writers that were killed before that time (Unix ms) have left half written: there are credentials in it.
   *
   * @returns how many such things
   */
  sweep(before: number): Promise<number>
}

/** The right to answer: per session and user the newest context token, and when the user last wrote. */
export interface Contexts {
  /** What is known of one user. */
  find(session: string, user: string): Promise<UserContext | undefined>

  /** Everybody known to a session; those who wrote long ago are missing while the store fails. */
  of(session: string): Promise<ReadonlyMap<string, UserContext>>

  /** How many have written to each of these sessions, a second ago at most; as of `of`. */
  writers(sessions: readonly string[]): Promise<ReadonlyMap<string, number>>

  /** Sessions that may know a user, at least all that do: for who then looks with `find`. */
  knowing(user: string): Promise<ReadonlySet<string>>
}

/** Signing in to the panel, as far as all who serve it must know it. Times are Unix ms. */
export interface SignIns {
  /** A code that signs in once, until then. Not durable; on one machine the process that made it alone knows it. */
  addLink(code: string, until: number): Promise<void>

  /** @returns whether there was such a code and its time is not over; of several who take it one is told so */
  takeLink(code: string, now: number): Promise<boolean>

  /** Which of these sign-ins were ended. */
  ended(names: readonly string[]): Promise<ReadonlySet<string>>

  /** Ends sign-ins, which would have ended by then; of those that are not over by now at least the last 1,000 are kept. */
  end(names: readonly string[], until: number, now: number): Promise<void>
}
