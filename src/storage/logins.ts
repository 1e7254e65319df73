/**
 * QR logins that run or ended. Every process that shares the storage can report on a login, and continues it
 * if the process that started it died. A few exist at a time, for minutes.
 *
 * The rules for every method are in `store.ts`; nothing here is durable.
 */
import type { LoginNotice, LoginState, QrLogin } from '../model/login.ts'
import type { BotInfo } from '../model/session.ts'
import type { JoinOutcome } from './invitations.ts'

/** A stored login. A change stores the whole login. */
export interface StoredLogin {
  id: string
  /** Name of the session. One login is stored for each session; names are compared without case. */
  session: string
  /** Changes with each write; '' for a login that is not stored yet. */
  version: string
  /** Unix ms: the login is forgotten then. */
  until: number
  /** Id of the key that started it: only callers with this key may follow it. Absent for the owner's. */
  key?: string
  /**
   * The invitation that it came by, and the hash of the cookie of the browser: no other caller may follow it. The address is
   * that of the browser, if it is known.
   */
  invitation?: { id: string; browser: string; address?: string }
  /** When the page of the invitation asked last (Unix ms). */
  seen_at?: number
  /** What became of it, and the session that got the credentials. */
  joined?: { outcome: JoinOutcome; session?: string }
  /** Started to log a connected session in again. */
  force: boolean
  /** When a caller last began or joined it (Unix ms), later than every login before. Absent: an older version did. */
  begun_at?: number
  ended: boolean
  status: LoginState
  notice?: LoginNotice
  /** Why it ended, if neither `status` nor `notice` says it. */
  problem?: string
  bot_id?: string
  /** Number of states that callers can see, and the number of the state that a caller saw last. */
  revision: number
  told: number
  /** When a caller left the page that followed the login (Unix ms); nobody has asked since. */
  left_at?: number
  /** Secret: the QR code that is displayed. Absent before there is one, and after the login ended. */
  qr?: QrLogin & {
    /** Since when it is displayed, in Unix ms. */
    shown_at: number
  }
  /** Digits that the user typed and upstream has not checked yet. */
  code?: string
  /** Upstream has issued credentials: too late to cancel. */
  confirmed?: true
}

/** Identifies a login: its session may have another one by now. */
export type LoginKey = Pick<StoredLogin, 'id' | 'session'>

export interface LoginStore {
  /**
   * Returns the logins in progress that are stored at `now` (Unix ms), in no order. Called with every read
   * of the sessions.
   */
  listRunning(now: number): Promise<readonly StoredLogin[]>

  /**
   * Returns all logins that are stored at `now`, including those that have ended: thousands after as many
   * logins.
   */
  list(now: number): Promise<readonly StoredLogin[]>

  /** Returns the login that is stored for a session at `now`. */
  get(session: string, now: number): Promise<StoredLogin | undefined>

  /**
   * Stores a login, in place of the stored login of its session that has its version. '' stands for none, and
   * for a login that expired before `now` (Unix ms).
   *
   * @returns the login as it is stored now; undefined, and nothing is written, if another version is stored
   */
  put(login: StoredLogin, now: number): Promise<StoredLogin | undefined>

  /**
   * Like `put`, and stores the credentials of the login durably, as `SessionStore.save` does, unless the
   * session has that token already. An engine that stores login and credentials separately may have stored
   * only the credentials when its process is killed; the same call again completes it.
   *
   * A login by invitation counts a use, in the same step; if that engine is killed, maybe before the credentials are stored.
   * `joiningOf` (`joined-logins.ts`) says which session gets them. If the invitation has ended, they are not stored, and the login ends as
   * `expired`. `joined` of the result says what happened.
   */
  finish(login: StoredLogin, bot: BotInfo, now: number): Promise<StoredLogin | undefined>

  /**
   * Takes or renews the right to ask upstream about a login: for a minute, and no longer than this process
   * lives if the engine can tell.
   *
   * @returns false while another process has it, and if the login is no longer stored
   */
  claim(login: LoginKey): Promise<boolean>

  /** Gives the right back. No effect if another process has it. */
  release(login: LoginKey): Promise<void>

  /**
   * Resolves when the stored login no longer has that version (immediately if it never had), or when the
   * signal aborts. Writes of other processes are noticed within a second. Never rejects.
   */
  wait(login: Pick<StoredLogin, 'session' | 'version'>, signal: AbortSignal): Promise<void>
}
