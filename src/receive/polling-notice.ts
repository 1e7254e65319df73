/**
 * Tells upstream that polling begins and that it ends. Without the first, answers may vanish; the second, when it comes
 * late, marks a bot offline that was started again meanwhile (protocol notes 5.6).
 */
import type { Account, Api } from '../ilink/api.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import { retryAfterMs } from './session-health.ts'
import { endingWith } from './watchdog.ts'

/** A farewell may take this long: whoever stops the service waits for it. */
const farewellMs = 1500
/** A request that was cut off and does not end within this is left to itself. */
const leaveAfterMs = 1000

export class PollingNotice {
  readonly #ports: { api: Api; clock: Clock; log: Log }
  readonly #login: Account
  readonly #stop: AbortSignal
  /** It may have reached upstream, answered or not. */
  #tried = false
  #heard = false
  #saying: Promise<void> | undefined

  /** `stop` ends every try. */
  constructor(ports: { api: Api; clock: Clock; log: Log }, login: Account, stop: AbortSignal) {
    this.#ports = ports
    this.#login = login
    this.#stop = stop
  }

  /** Upstream has heard that polling begins. */
  get heard(): boolean {
    return this.#heard
  }

  /** Says once that polling begins. @returns whether upstream has heard it; never throws */
  async say(): Promise<boolean> {
    const { api, log } = this.#ports
    this.#tried = true
    try {
      await api.notifyStart(this.#login, this.#stop)
      this.#heard = true
      return true
    } catch (error) {
      // A -14 too: the poll beside it hears the same, if it is so.
      log.debug('notifystart failed', { error })
      return false
    }
  }

  /** Says it beside the polls, on the ladder, until it is enough. */
  keepSaying(isEnough: (isHeard: boolean) => boolean): void {
    const keep = async () => {
      for (let tries = 0; !this.#stop.aborted; tries++) {
        if (isEnough(await this.say())) return
        await this.#ports.clock.sleep(retryAfterMs(tries), this.#stop)
      }
    }
    this.#saying ??= keep().finally(() => {
      this.#saying = undefined
    })
  }

  /** Says that polling ends, and waits until upstream has heard it or the time is over. */
  async farewell(): Promise<void> {
    const { api, clock, log } = this.#ports
    if (!this.#tried) return
    const late = new AbortController()
    const over = new AbortController()
    void clock.sleep(farewellMs, over.signal).then(() => late.abort())
    await endingWith(api.notifyStop(this.#login, late.signal), late.signal, clock, leaveAfterMs).catch(
      error => log.debug('notifystop failed', { error }),
    )
    over.abort()
  }
}
