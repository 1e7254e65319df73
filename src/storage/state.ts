/**
 * What svc stores about its sessions: their logins, and the users that may be answered. A read returns
 * immediately what this process wrote, and also what another process wrote. Only `list`, `listChangedSince`
 * and `countWriters` may return what another process wrote up to two seconds later.
 *
 * The rules for every method are in `store.ts`, with one exception: an engine that keeps a session in several
 * files may have done the first part of `save`, `remove` or `rename` when the method rejects or its process
 * is killed.
 */
import type { SvcError } from '../model/error.ts'
import type { BotInfo, Counter, Marks, UserContext } from '../model/session.ts'
import type { LoginStore } from './logins.ts'

export interface State {
  readonly sessions: SessionStore
  readonly contexts: ContextStore
  readonly logins: LoginStore
  readonly signIns: SignInStore

  /**
   * Runs reads that must see one moment: no other process is in the middle of a change then. An engine with
   * files holds the data lock, so `read` must not wait for anything else, and change nothing.
   *
   * @throws SvcError `store_unavailable` when another process keeps the lock for ten seconds
   */
  readTogether<T>(read: () => Promise<T>): Promise<T>

  /**
   * Erases a user: the contexts in all sessions, and the id in the credentials of the accounts that this user
   * logged in. Messages and what else the store has are erased by `PeopleStore`.
   */
  forgetUser(user: string): Promise<void>
}

export interface SessionRecord {
  name: string
  /** Absent if the credentials cannot be used. */
  bot?: BotInfo
  damaged?: true
  /** Why the system cannot read the credentials, as `store_unavailable`: they may be intact. */
  unreadable?: SvcError
}

/** Changes of the sessions since a revision. */
export interface SessionChanges {
  /** Pass it to the next call. It grows; it is valid in this process only. */
  revision: number
  /** Sessions that are new or may have changed, by name; undefined for a session that is gone. */
  changed: ReadonlyMap<string, SessionRecord | undefined>
}

/** Read access to the sessions. No method here waits for a writer. */
export interface SessionReader {
  /** Returns all sessions, in no order. */
  list(): Promise<readonly SessionRecord[]>

  /**
   * Returns what changed since that revision; without one, all sessions. A change is one of the record, the
   * cursor, the contexts, or the name of a user. Counters change with each message; the event log reports
   * counters. The cost of a call grows with the number of changes only.
   */
  listChangedSince(revision?: number): Promise<SessionChanges>

  /**
   * Finds a session by name, ignoring case. Undefined if there is none, or if the string cannot be a name.
   */
  get(name: string): Promise<SessionRecord | undefined>

  /** Returns the session that was chosen as default, if it still exists. */
  getDefaultName(): Promise<string | undefined>
}

/** Access to the sessions that polling needs. */
export interface PolledSessions extends SessionReader {
  /**
   * Stores marks of a login by the rules of `withMarks`. No effect if the session has another token, or does
   * not exist.
   */
  mark(name: string, token: string, wanted: Marks): Promise<void>
}

export interface SessionStore extends PolledSessions {
  /**
   * Stores credentials: of a new session, or of a new login of the session with that name, which keeps its
   * spelling. Marks are not kept, except those that `inheritedMarksOf` returns. For the same bot, all
   * contexts stay, including tokens. For another bot, the contexts (except `first_seen`), counters and holds
   * of its lanes are removed first. If no session is the default, the oldest by `created_at` becomes the
   * default.
   */
  save(name: string, bot: BotInfo): Promise<void>

  /**
   * Removes the credentials, the contexts, and the counters and holds of the session's lanes. Messages, names
   * and endpoints stay; waiting messages wait for a login. If it was the default, the oldest session becomes
   * the default.
   *
   * @throws SvcError `session_not_found`
   */
  remove(name: string): Promise<void>

  /**
   * Renames a session with everything that has its old name: the choice as default, messages, names, lanes,
   * waiting messages, positions of readers, and the filters and lanes of endpoints, which start a new epoch.
   * Events keep the name that they were appended with; running logins keep the name of their call. If a
   * session with the new name was logged out before, its messages are read together with this session's from
   * then on, and its waiting messages and names are joined to this session's. If both sessions name the same
   * user or use the same name, this session's entry wins. The two names may differ in case only.
   *
   * If the messages cannot be renamed, nothing is renamed. But an engine that stores messages and sessions
   * separately may leave the messages under the old name when its process is killed in between; the next
   * process that opens the storage completes the rename.
   *
   * @throws SvcError `session_not_found`, `session_exists`
   */
  rename(oldName: string, newName: string): Promise<void>

  /** @throws SvcError `session_not_found` */
  setDefault(name: string): Promise<void>

  /**
   * Removes credential files that writers left incomplete when they were killed before this time (Unix ms).
   *
   * @returns how many were removed; 0 for an engine that leaves none
   */
  sweep(before: number): Promise<number>
}

/** A user who has written to a session. */
export interface Contact {
  user_id: string
  /** Without the token, which `find` returns. */
  context: Omit<UserContext, 'token'>
  /** Answers, if any were counted. */
  counter?: Counter | undefined
  /** Name that people gave to this user. */
  name?: string | undefined
}

/** A session that knows a user. */
export interface KnowingSession {
  record: SessionRecord
  context: UserContext
}

/** The right to answer: for each session and user the newest context token, and when the user last wrote. */
export interface ContextStore {
  /**
   * Returns what is known about one user. `used` and `last_sent_at` are where the counter of the lane starts
   * (`currentCounterOf`).
   */
  find(session: string, user: string): Promise<UserContext | undefined>

  /**
   * Returns the users who have written (`hasWritten`) to each of these sessions, in no order. For a session
   * that does not exist or is `unreadable` it returns none. While the store fails, users who wrote long ago,
   * names and counters may be missing.
   */
  listUsers(sessions: readonly string[]): Promise<ReadonlyMap<string, readonly Contact[]>>

  /**
   * Returns how many users `listUsers` returns for each session. What another process wrote may count up to
   * a second later.
   */
  countWriters(sessions: readonly string[]): Promise<ReadonlyMap<string, number>>

  /** Returns the sessions that know a user, as they are now, with what `find` returns for each. */
  findKnowing(user: string): Promise<readonly KnowingSession[]>
}

/** Sign-ins to the panel, as far as all processes that serve it must know them. Times are Unix ms. */
export interface SignInStore {
  /**
   * Adds a code that counts once, until that time, and removes those whose time is over. Not durable.
   *
   * @param isShared it replaces the code that was shared last
   */
  addLink(code: string, until: number, now: number, isShared?: boolean): Promise<void>

  /** @returns whether the code existed and had not expired; if several callers take it, only one gets true */
  takeLink(code: string, now: number): Promise<boolean>

  /** Returns the names of the sign-ins in `names` that were ended. */
  filterEnded(names: readonly string[]): Promise<ReadonlySet<string>>

  /**
   * Ends sign-ins, and remembers that until `until`. If there are more than 1,000, the sign-ins with the
   * earliest `until` may be forgotten.
   */
  end(names: readonly string[], until: number): Promise<void>
}
