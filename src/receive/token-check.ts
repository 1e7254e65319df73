/**
 * Asks getupdates whether a session works: after another endpoint refused it with -14, which says little
 * about receiving (protocol notes 5.6), and when a person wants to know.
 *
 * The loop that polls the session gets the answer (`session-poller.ts`), possibly in another process. So
 * the question is written into token.json (`check_at`), which every poller reads. It is answered when it is
 * gone from there.
 */
import { isILinkError } from '../ilink/http.ts'
import { SvcError } from '../model/error.ts'
import type { BotInfo } from '../model/session.ts'
import { RunningPart } from '../platform/runtime.ts'
import type { PolledSessions } from '../storage/state.ts'
import { currentSession } from './ingest.ts'
import type { OneShot } from './one-shot.ts'

export interface TokenCheckPorts {
  sessions: PolledSessions
  /** Polls for calls, in a process that does not poll permanently. */
  oneShot: OneShot | undefined
}

/** What getupdates says; `unanswered` if that is not known in time. */
export type TokenCheckResult = 'works' | 'expired' | 'unanswered'

/**
 * Time limit of a check. An accepted poll shows that after 3 s; another process reads the file every
 * second.
 */
const checkLimitMs = 10_000
const checkFileMs = 25
/** Within this time after the last answer a refusal causes no new check, because each check ends a poll. */
const freshMs = 30_000

export class TokenCheck extends RunningPart<TokenCheckPorts> {
  /** Running checks, by token. */
  readonly #asking = new Map<string, Promise<TokenCheckResult>>()
  readonly #known = new Map<string, { checked: TokenCheckResult; at: number }>()

  /** Asks getupdates now. Calls made in the meantime get the same answer. */
  ask(session: string, bot: BotInfo): Promise<TokenCheckResult> {
    const { clock, log } = this.runtime
    const asking =
      this.#asking.get(bot.token) ??
      this.#ask(session, bot)
        .catch((error): TokenCheckResult => {
          log.warn('session not checked', { session, error })
          return 'unanswered'
        })
        .then(checked => {
          this.#known.set(bot.token, { checked, at: clock.monotonic() })
          return checked
        })
        .finally(() => this.#asking.delete(bot.token))
    this.#asking.set(bot.token, asking)
    return asking
  }

  /** Checks a token after a refusal. Like `ask`, but a result of the last moments is used again. */
  checkAfterRefusal(session: string, bot: BotInfo): Promise<TokenCheckResult> {
    const now = this.runtime.clock.monotonic()
    for (const [token, { at }] of this.#known) if (now - at > freshMs) this.#known.delete(token)
    const known = this.#known.get(bot.token)
    return known ? Promise.resolve(known.checked) : this.ask(session, bot)
  }

  /**
   * Runs `work`. If it is refused with -14 and getupdates says that the token works, runs it once more.
   *
   * @throws SvcError `session_expired`; `upstream_error` if the token works and the endpoint still
   *   refuses it, or if nothing is known; any other error of `work`
   */
  async runChecked<T>(session: string, bot: BotInfo, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      if (!isILinkError(error, 'expired')) throw error
      const checked = await this.checkAfterRefusal(session, bot)
      if (checked === 'expired') throw sessionExpiredError(session)
      if (checked === 'unanswered') throw sendRefusedError(session)
    }
    try {
      return await work()
    } catch (error) {
      throw isILinkError(error, 'expired') ? sendRefusedError(session, error) : error
    }
  }

  async #ask(name: string, bot: BotInfo): Promise<TokenCheckResult> {
    const { bus, clock, closing } = this.runtime
    const { oneShot, sessions } = this.ports
    await sessions.mark(name, bot.token, { check_at: clock.now() })
    bus.notify('sessionsChanged')
    await using _own = await oneShot?.startPolling()
    const login = { name, token: bot.token }
    const deadline = clock.monotonic() + checkLimitMs
    while (clock.monotonic() < deadline && !closing.aborted) {
      const found = (await currentSession(sessions, login))?.bot
      if (!found) return 'unanswered'
      if (found.check_at === undefined) return found.expired_at === undefined ? 'works' : 'expired'
      await clock.sleep(checkFileMs, closing)
    }
    return 'unanswered'
  }
}

/** Returns the error of a send from an expired session. */
export const sessionExpiredError = (session: string): SvcError =>
  new SvcError('session_expired', `session "${session}" has expired`, { next: { action: 'login', session } })

const sendRefusedError = (session: string, cause?: unknown): SvcError =>
  new SvcError(
    'upstream_error',
    `WeChat refuses to send for session "${session}" for now; nothing was sent`,
    {
      cause,
      hint: 'Wait until the user writes: that heals it most often. A check tells whether the login works.',
      next: { action: 'run', command: ['check', session] },
    },
  )
