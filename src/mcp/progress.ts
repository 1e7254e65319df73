/** Progress notifications: bytes where they are counted, else a sign of life every few seconds. */
import type { Notification, ProgressToken } from '@modelcontextprotocol/server'
import type { Progress } from '../model/call.ts'

/** Clients that give up after a minute without a word are kept by this. */
const tickMs = 3000
/** Bytes are told at most this often. */
const stepMs = 250

export class Ticker {
  readonly #token: ProgressToken
  readonly #notify: (notification: Notification) => Promise<void>
  readonly #since = performance.now()
  #timer: ReturnType<typeof setInterval> | undefined
  #what = ''
  /** What all steps before the present one came to. */
  #before = 0
  #done = 0
  #told = 0
  #toldAt = Number.NEGATIVE_INFINITY
  #over = false

  constructor(token: ProgressToken, notify: (notification: Notification) => Promise<void>) {
    this.#token = token
    this.#notify = notify
  }

  /** Signs of life from now on, in seconds of `total`, until bytes are counted or the call ends. */
  start(what: string, total?: number): void {
    this.#timer ??= setInterval(
      () => this.#tell(Math.round((performance.now() - this.#since) / 1000), what, total),
      tickMs,
    )
  }

  step({ what, done, total }: Progress): void {
    clearInterval(this.#timer)
    if (what !== this.#what || done < this.#done) {
      // The next file counts on, since progress must never go back.
      this.#before = this.#told
      this.#what = what
    }
    this.#done = done
    const complete = total !== undefined && done >= total
    const now = performance.now()
    if (!complete && now - this.#toldAt < stepMs) return
    this.#toldAt = now
    this.#tell(this.#before + done, what, total === undefined ? undefined : this.#before + total)
  }

  stop(): void {
    this.#over = true
    clearInterval(this.#timer)
  }

  #tell(progress: number, message: string, total?: number): void {
    if (this.#over || progress <= this.#told) return
    this.#told = progress
    const params = { progressToken: this.#token, progress, message, total }
    // A client that is gone is found out by other means.
    this.#notify({ method: 'notifications/progress', params }).catch(() => {})
  }
}
