/** Logins as they are kept: found, changed and waited for, whichever processes do the same. */
import type { Clock } from '../platform/clock.ts'
import type { LoginFlows, LoginKey, StoredLogin } from '../storage/logins.ts'

/** The last state of a login stays readable this long; so does one that no process goes on with. */
export const keptMs = 10 * 60_000

type KeptLogins = Pick<LoginFlows, 'underWay' | 'list' | 'of' | 'put' | 'wait'>

export class LoginRecords {
  readonly #flows: KeptLogins
  readonly #clock: Clock

  constructor(flows: KeptLogins, clock: Clock) {
    this.#flows = flows
    this.#clock = clock
  }

  underWay(): Promise<readonly StoredLogin[]> {
    return this.#flows.underWay(this.#clock.now())
  }

  list(): Promise<readonly StoredLogin[]> {
    return this.#flows.list(this.#clock.now())
  }

  of(session: string): Promise<StoredLogin | undefined> {
    return this.#flows.of(session, this.#clock.now())
  }

  /** As it is kept now; undefined when it is not any more. */
  async find({ id, session }: LoginKey): Promise<StoredLogin | undefined> {
    const login = await this.of(session)
    return login?.id === id ? login : undefined
  }

  /** @returns as it is kept then; undefined, and nothing is written, where another login of its session is kept by now */
  put(login: StoredLogin): Promise<StoredLogin | undefined> {
    return this.#flows.put(login, this.#clock.now())
  }

  /**
   * Changes a login. `to` is asked again when somebody else was faster; the same login back writes nothing.
   *
   * @returns as it is kept then; undefined when it is not kept any more
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

  /** Waits while `same` holds, at most until the signal aborts. @returns the login as it is then */
  async while(
    login: StoredLogin,
    same: (login: StoredLogin) => boolean,
    signal: AbortSignal,
  ): Promise<StoredLogin> {
    let now = login
    while (same(now) && !signal.aborted) {
      await this.#flows.wait(now, signal)
      // Called off, and another one has begun already.
      now = (await this.find(login)) ?? this.over(now, { status: 'expired', notice: 'called_off' })
    }
    return now
  }

  /** How a login is once it is over: with nothing secret any more. */
  over(login: StoredLogin, how: Pick<StoredLogin, 'status' | 'notice' | 'problem' | 'bot_id'>): StoredLogin {
    const { qr: _qr, code: _code, notice: _notice, ...rest } = login
    const until = this.#clock.now() + keptMs
    return { ...rest, ...how, ended: true, until, revision: login.revision + 1 }
  }
}
