/**
 * What svc keeps of its sessions: who is logged in, and who may be answered. A look shows what this process wrote at once, and
 * what another one wrote too; `list`, `changedSince` and `writers` may show that two seconds later.
 *
 * What is true of every verb stands in `store.ts`. But an engine that keeps a session in several files may have done the
 * beginning of `save`, `remove` or `rename` when it rejects, or its process is killed.
 */
import type { SvcError } from '../model/error.ts'
import type { BotInfo, Counter, Marks, UserContext } from '../model/session.ts'
import type { LoginFlows } from './logins.ts'

export interface State {
  readonly sessions: Sessions
  readonly contexts: Contexts
  readonly logins: LoginFlows
  readonly signIns: SignIns
}

export interface SessionRecord {
  name: string
  /** Absent when the credentials cannot be used. */
  bot?: BotInfo
  damaged?: true
  /** Why the system refuses to show them, as `store_unavailable`: they may be sound. */
  unreadable?: SvcError
}

/** What became of sessions since a revision. */
export interface SessionChanges {
  /** For the next look. It grows; it is of this process alone. */
  revision: number
  /** By name, those that are new or may be others than before; undefined of one that is gone. */
  changed: ReadonlyMap<string, SessionRecord | undefined>
}

/** The sessions, looked at. Nothing here waits for a writer. */
export interface SessionSight {
  /** All, in no order. */
  list(): Promise<readonly SessionRecord[]>

  /**
   * What changed since that revision; without one all sessions. That is the record, the cursor, contexts, or a name of a user.
   * Counters change with a message, of which the event log tells. It costs what changed.
   */
  changedSince(revision?: number): Promise<SessionChanges>

  /** The one of that name, compared without case; undefined for none, and for what can be no name. */
  get(name: string): Promise<SessionRecord | undefined>

  /** The one that was made the default, where it is still there. */
  defaultName(): Promise<string | undefined>
}

/** What polling needs of them. */
export interface PolledSessions extends SessionSight {
  /** Marks a login as `marked` says; nothing happens where the session has another token, or is not there. */
  mark(name: string, token: string, wanted: Marks): Promise<void>
}

export interface Sessions extends PolledSessions {
  /**
   * Stores credentials, without marks but those that `takenOver` gives: of a new session, or of a new login of the one with that name, which keeps its
   * spelling. Of the same bot all contexts stay, tokens too. With another bot they end first, but for `first_seen`, and so
   * do the counters and holds of its lanes. Where no session is the default, the oldest by `created_at` becomes it.
   */
  save(name: string, bot: BotInfo): Promise<void>

  /**
   * Removes the credentials, the contexts, and the counters and holds of its lanes. Messages, names and endpoints stay, and
   * what waits in the outbox waits for a login. If it was the default, the oldest becomes it.
   *
   * @throws SvcError `session_not_found`
   */
  remove(name: string): Promise<void>

  /**
   * All that bears the old name goes with it: the choice as the default, messages, names, lanes and what waits, positions of
   * readers, and of endpoints the filters and lanes, which begin a new epoch. Events keep the name that they were appended with,
   * logins under way that of their call. Where a session that was logged out bore the new name, its messages are read together
   * with these from then on, and what waits there, and its names, join these: of a user, or a name, that both know this
   * session's counts. The names may differ in case alone.
   *
   * Where the messages cannot follow, nothing is renamed; but an engine that keeps the two apart may leave them under the old
   * name when its process is killed in between, until the next one opens it.
   *
   * @throws SvcError `session_not_found`, `session_exists`
   */
  rename(oldName: string, newName: string): Promise<void>

  /** @throws SvcError `session_not_found` */
  setDefault(name: string): Promise<void>

  /**
   * Removes files with credentials that writers have left half written when they were killed before that time (Unix ms).
   *
   * @returns how many; 0 for an engine that leaves none
   */
  sweep(before: number): Promise<number>
}

/** Somebody who has written to a session. */
export interface Contact {
  user_id: string
  context: UserContext
  /** Answers, as far as any were counted. */
  counter?: Counter | undefined
  /** What people call this user. */
  name?: string | undefined
}

/** The right to answer: per session and user the newest context token, and when the user last wrote. */
export interface Contexts {
  /** What is known of one user. `used` and `last_sent_at` are where the counter of the lane begins (`countNow`). */
  find(session: string, user: string): Promise<UserContext | undefined>

  /**
   * Who has written (`hasWritten`) to each of these sessions, in no order: of all of them at once. Nobody of a session that is
   * not there or is `unreadable`. While the store fails, those who wrote long ago, names and counters may be missing.
   */
  users(sessions: readonly string[]): Promise<ReadonlyMap<string, readonly Contact[]>>

  /** How many `users` gives of each; what another process wrote may show a second later. */
  writers(sessions: readonly string[]): Promise<ReadonlyMap<string, number>>

  /** The sessions that know a user, and perhaps others: `find` tells. */
  knowing(user: string): Promise<ReadonlySet<string>>
}

/** Signing in to the panel, as far as all who serve it must know it. Times are Unix ms. */
export interface SignIns {
  /** A code that signs in once, until then. Not durable; on one machine only the process that made it knows it. */
  addLink(code: string, until: number): Promise<void>

  /** @returns whether there was such a code and its time is not over; of several who take it one is told so */
  takeLink(code: string, now: number): Promise<boolean>

  /** Which of these sign-ins were ended. */
  ended(names: readonly string[]): Promise<ReadonlySet<string>>

  /** Ends sign-ins, and keeps that until then. Of more than 1,000 those may be forgotten whose `until` comes first. */
  end(names: readonly string[], until: number, now: number): Promise<void>
}
