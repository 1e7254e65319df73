/** Stored logins: finds, changes and awaits them, also if other processes do the same. */
import type { Clock } from '../platform/clock.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { LoginKey, LoginStore, StoredLogin } from '../storage/logins.ts'

/**
 * How long the last state of a login stays readable, and how long a login is stored that no process
 * continues.
 */
export const retentionMs = 10 * 60_000

type LoginRecordStore = Pick<LoginStore, 'listRunning' | 'list' | 'get' | 'put' | 'wait'>

export class LoginRecords extends RoomPart<{ flows: LoginRecordStore; clock: Clock }> {
  listPending(): Promise<readonly StoredLogin[]> {
    return this.ports.flows.listRunning(this.ports.clock.now())
  }

  list(): Promise<readonly StoredLogin[]> {
    return this.ports.flows.list(this.ports.clock.now())
  }

  findOfSession(session: string): Promise<StoredLogin | undefined> {
    return this.ports.flows.get(session, this.ports.clock.now())
  }

  /** Returns the stored login; undefined if it is no longer stored. */
  async find({ id, session }: LoginKey): Promise<StoredLogin | undefined> {
    const login = await this.findOfSession(session)
    return login?.id === id ? login : undefined
  }

  /**
   * Stores a login. Returns it as stored; undefined, without writing, if the session has another login by
   * now.
   */
  put(login: StoredLogin): Promise<StoredLogin | undefined> {
    return this.ports.flows.put(login, this.ports.clock.now())
  }

  /**
   * Changes a login. Calls `to` again if another process changed it first. Writes nothing if `to` returns
   * the same object.
   *
   * @returns the login as stored; undefined if it is no longer stored
   */
  async change(key: LoginKey, to: (login: StoredLogin) => StoredLogin): Promise<StoredLogin | undefined> {
    for (;;) {
      const login = await this.find(key)
      const next = login && to(login)
      if (!next || next === login) return next
      const kept = await this.put(next)
      if (kept) return kept
    }
  }

  /** Waits while `same` returns true, at most until the signal aborts. Returns the current login. */
  async waitWhile(
    login: StoredLogin,
    same: (login: StoredLogin) => boolean,
    signal: AbortSignal,
  ): Promise<StoredLogin> {
    let now = login
    while (same(now) && !signal.aborted) {
      await this.ports.flows.wait(now, signal)
      // Not found: this login was called off, and the session has a new login.
      now = (await this.find(login)) ?? this.toEnded(now, { status: 'expired', notice: 'called_off' })
    }
    return now
  }

  /** Returns an ended login, without secrets. */
  toEnded(
    login: StoredLogin,
    how: Pick<StoredLogin, 'status' | 'notice' | 'problem' | 'bot_id'>,
  ): StoredLogin {
    const { qr: _qr, code: _code, notice: _notice, ...rest } = login
    const until = this.ports.clock.now() + retentionMs
    return { ...rest, ...how, ended: true, until, revision: login.revision + 1 }
  }
}
