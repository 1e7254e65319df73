/**
 * QR logins under way, and how they ended. Any process that shares what is stored can answer for one, and goes on with it
 * when the one that began it died. A few exist at a time, for minutes.
 *
 * What is true of every verb stands in `store.ts`; what these write is not durable.
 */
import type { LoginNotice, LoginState, QrLogin } from '../model/login.ts'
import type { BotInfo } from '../model/session.ts'

/** A login as it is kept. Whoever changes it gives the whole back. */
export interface StoredLogin {
  id: string
  /** Name of the session. Of each one login is kept; names are compared without case. */
  session: string
  /** Another one after each write; '' of one that is not kept yet. */
  version: string
  /** Unix ms: it is forgotten then. */
  until: number
  /** Begun to log a connected session in again. */
  force: boolean
  ended: boolean
  status: LoginState
  notice?: LoginNotice
  /** Why it ended, where neither of these says it. */
  problem?: string
  bot_id?: string
  /** Counts what callers are told of; and the count that one of them was told last. */
  revision: number
  told: number
  /** Somebody left the page that followed it: as of then (Unix ms) nobody has asked again. */
  left_at?: number
  /** Secret: the QR code that is shown. Absent before there is one, and when it is over. */
  qr?: QrLogin & {
    /** Unix ms since when. */
    shown_at: number
  }
  /** Digits that somebody typed and upstream has not judged yet. */
  code?: string
  /** Upstream has issued credentials: too late to call it off. */
  confirmed?: true
}

/** Which one is meant: of its session, another may be kept by now. */
export type LoginKey = Pick<StoredLogin, 'id' | 'session'>

export interface LoginFlows {
  /** Those under way that are kept at `now` (Unix ms), in no order. Asked with every look at the sessions. */
  underWay(now: number): Promise<readonly StoredLogin[]>

  /** All that are kept then, with those that have ended: thousands after as many logins. */
  list(now: number): Promise<readonly StoredLogin[]>

  /** The one that is kept of a session then. */
  of(session: string, now: number): Promise<StoredLogin | undefined>

  /**
   * Keeps a login as given, in the place of the one of its session that has its version; '' stands for none, and for one
   * that is forgotten at `now` (Unix ms).
   *
   * @returns as it is kept now; undefined, and nothing is written, where another version is kept
   */
  put(login: StoredLogin, now: number): Promise<StoredLogin | undefined>

  /**
   * The same, with the credentials that came of it: they are stored durably, as by `Sessions.save`, unless the session has
   * that token already. An engine that keeps the two apart may have stored the credentials alone when its process is
   * killed; the same call again completes it.
   */
  finish(login: StoredLogin, bot: BotInfo, now: number): Promise<StoredLogin | undefined>

  /**
   * Takes the right to ask upstream about a login, or keeps it: for a minute, and not beyond the death of this process where
   * that can be known.
   *
   * @returns false while another process has it, and when the login is not kept any more
   */
  claim(login: LoginKey): Promise<boolean>

  /** Gives it back; nothing happens when it is another's. */
  release(login: LoginKey): Promise<void>

  /**
   * Resolves when the login is kept in that version no more, at once when it is not, and when the signal aborts. What
   * another process writes is noticed within a second. Never rejects.
   */
  wait(login: Pick<StoredLogin, 'session' | 'version'>, signal: AbortSignal): Promise<void>
}
