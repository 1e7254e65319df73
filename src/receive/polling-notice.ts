/**
 * Tells upstream that polling starts (notifystart) and that it ends (notifystop). Without the first,
 * answers may get lost. A late notifystop marks a bot offline that was started again since (protocol notes
 * 5.6).
 */
import type { Account, Api } from '../ilink/api.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import { RoomPart } from '../platform/runtime.ts'
import { retryAfterMs } from './session-health.ts'
import { abandonAfterAbort } from './watchdog.ts'

/** Limit for notifystop, because the stop of the service waits for it. */
const notifyStopMs = 1500
/** An aborted request that does not end within this time is no longer waited for. */
const leaveAfterMs = 1000

interface NoticePorts {
  api: Api
  clock: Clock
  log: Log
  login: Account
  /** Ends every attempt. */
  stop: AbortSignal
}

export class PollingNotice extends RoomPart<NoticePorts> {
  /** Whether a notifystart was sent, answered or not. */
  #isTried = false
  #isAnswered = false
  #notifying: Promise<void> | undefined

  /** Whether upstream has answered the notifystart. */
  get isAnswered(): boolean {
    return this.#isAnswered
  }

  /** Sends one notifystart. @returns whether upstream answered it; never throws */
  async notifyStart(): Promise<boolean> {
    const { api, log } = this.ports
    this.#isTried = true
    try {
      await api.notifyStart(this.ports.login, this.ports.stop)
      this.#isAnswered = true
      return true
    } catch (error) {
      // Also for -14: the poll itself gets the same answer if the token is refused.
      log.debug('notifystart failed', { error })
      return false
    }
  }

  /** Sends notifystart in parallel with the polls, with increasing waits, until `isEnough` returns true. */
  keepNotifying(isEnough: (isHeard: boolean) => boolean): void {
    const keep = async () => {
      for (let tries = 0; !this.ports.stop.aborted; tries++) {
        if (isEnough(await this.notifyStart())) return
        await this.ports.clock.sleep(retryAfterMs(tries), this.ports.stop)
      }
    }
    this.#notifying ??= keep().finally(() => {
      this.#notifying = undefined
    })
  }

  /** Sends notifystop, and waits for the answer up to a limit. */
  async notifyStop(): Promise<void> {
    const { api, clock, log } = this.ports
    if (!this.#isTried) return
    const late = new AbortController()
    const over = new AbortController()
    void clock.sleep(notifyStopMs, over.signal).then(() => late.abort())
    await abandonAfterAbort(
      api.notifyStop(this.ports.login, late.signal),
      late.signal,
      clock,
      leaveAfterMs,
    ).catch(error => log.debug('notifystop failed', { error }))
    over.abort()
  }
}
