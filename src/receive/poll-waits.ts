/**
 * What the loop of a session waits for: answers of getupdates, and pauses. Each wait has a deadline that the watchdog
 * checks. It ends with the loop, or when a caller wants to know what getupdates answers now.
 */
import type { Updates, Upstream } from '../ilink/api.ts'
import type { BotInfo } from '../model/session.ts'
import { RunningPart } from '../platform/runtime.ts'
import { linkSignals } from '../platform/signals.ts'
import type { ProxyLimits } from './gateway-limits.ts'
import type { PolledLogin } from './ingest.ts'
import { abandonAfterAbort } from './watchdog.ts'

/** Time past its hold after which a poll is overdue. Its own deadlines for the reply are shorter. */
const answerGraceMs = 60_000
/** Time past its end after which a pause is overdue. */
const pauseGraceMs = 30_000
/** An aborted request that does not end within this time is no longer waited for. */
const leaveAfterMs = 1000
/** Reason to end a wait: a caller wants to know what getupdates answers now. */
export const checkRequested = new DOMException('asked', 'AbortError')

interface WaitPorts {
  login: PolledLogin
  upstream: Pick<Upstream, 'api' | 'account'>
  limits: ProxyLimits
}

export class PollWaits extends RunningPart<WaitPorts> {
  /** Ends the loop after the request under way. */
  readonly leaving = new AbortController()
  /** Ends that request. */
  readonly stop = new AbortController()
  /** Ends the wait under way. */
  #interrupt = new AbortController()

  /** Ends the wait under way: a poll then fails with `checkRequested`. */
  interrupt(): void {
    this.#interrupt.abort(checkRequested)
    this.#interrupt = new AbortController()
  }

  async pause(ms: number): Promise<void> {
    const { clock } = this.runtime
    using either = linkSignals(this.leaving.signal, this.#interrupt.signal)
    this.ports.login.wait = { what: 'pause', dueAt: clock.monotonic() + ms + pauseGraceMs }
    await clock.sleep(ms, either.signal)
    this.ports.login.wait = undefined
  }

  /**
   * Sends one poll.
   *
   * @param holdMs expected time that upstream holds it
   * @param late called with an answer that comes after the wait was ended
   */
  async request(
    { bot, cursor, holdMs }: { bot: BotInfo; cursor: string; holdMs: number },
    late: (updates: Updates) => void,
  ): Promise<Updates> {
    const { clock, log } = this.runtime
    const account = this.ports.upstream.account(bot)
    const expectedMs = this.ports.limits.expectedMs(account.base_url, holdMs)
    using either = linkSignals(this.stop.signal, this.#interrupt.signal)
    const { signal } = either
    const askedAt = clock.monotonic()
    this.ports.login.wait = { what: 'answer', dueAt: askedAt + expectedMs + answerGraceMs }
    try {
      const polled = this.ports.upstream.api.getUpdates(account, cursor, expectedMs, signal)
      const updates = await abandonAfterAbort(polled, signal, clock, leaveAfterMs, late)
      if (updates.form === undefined) this.ports.limits.forget(account.base_url)
      return updates
    } catch (error) {
      const tookMs = clock.monotonic() - askedAt
      if (signal.aborted || !this.ports.limits.noteFailure(account.base_url, tookMs, error)) throw error
      log.debug('a long poll was cut', { tookMs: Math.round(tookMs), error })
      return { messages: [] }
    } finally {
      this.ports.login.wait = undefined
    }
  }
}
