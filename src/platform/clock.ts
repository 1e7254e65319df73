/** Time, as an argument: tests and the sandbox bring their own. */

export interface Clock {
  /** Unix milliseconds; may step when somebody sets the clock. */
  now(): number
  /** Milliseconds that only go forward: for pace, holds and deadlines. */
  monotonic(): number
  /** Resolves after `ms`, or as soon as `signal` aborts; never rejects. Look at the signal afterwards. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep(ms, signal) {
    if (signal?.aborted) return Promise.resolve()
    return new Promise(resolve => {
      const done = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      signal?.addEventListener('abort', done, { once: true })
    })
  },
}

/** Milliseconds before try number `attempt` (0, 1, 2 …): doubling from `baseMs` to `maxMs`, the last half random. */
export function backoffMs(attempt: number, baseMs = 1000, maxMs = 30_000): number {
  const full = Math.min(maxMs, baseMs * 2 ** Math.min(attempt, 30))
  return full / 2 + (Math.random() * full) / 2
}

/** Long work goes on for so long before others have their turn. */
const sliceMs = 8

/** @returns what you call between pieces of long work: it lets others have their turn when 8 ms have gone to the work */
export function turns(clock: Pick<Clock, 'monotonic' | 'sleep'>): () => Promise<void> {
  let sliceEnds = clock.monotonic() + sliceMs
  return async () => {
    if (clock.monotonic() <= sliceEnds) return
    await clock.sleep(0)
    sliceEnds = clock.monotonic() + sliceMs
  }
}

/**
 * The same for long work of many callers at a time. One of them works for 8 ms, then the event loop serves everybody else, then
 * the next one works: with `turns` each of them would have its 8 ms in every round of the loop.
 */
export class SharedTurns {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #waiting: (() => void)[] = []
  /** Somebody works in this round of the event loop. */
  #taken = false

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  /** @returns what one caller awaits before each piece of its work */
  join(): () => Promise<void> {
    let sliceEnds = Number.NEGATIVE_INFINITY
    return async () => {
      if (this.#clock.monotonic() <= sliceEnds) return
      if (this.#taken) await new Promise<void>(resolve => this.#waiting.push(resolve))
      else this.#serve()
      sliceEnds = this.#clock.monotonic() + sliceMs
    }
  }

  /** The next one works in the next round. */
  #serve(): void {
    this.#taken = true
    setImmediate(() => {
      const next = this.#waiting.shift()
      this.#taken = false
      if (!next) return
      next()
      this.#serve()
    })
  }
}

/**
 * Time as this process lived it: a machine may stand still for seconds, and a wait that counts looks should not end
 * for that. Of a longer gap between two looks only `longestMs` count.
 */
export class AwakeTime {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #longestMs: number
  #lookedAt: number
  /** Whether the process stood still between the last two looks. */
  slept = false

  constructor(clock: Pick<Clock, 'monotonic'>, longestMs: number) {
    this.#clock = clock
    this.#longestMs = longestMs
    this.#lookedAt = clock.monotonic()
  }

  /** @returns ms since the look before, `longestMs` at most */
  look(): number {
    const now = this.#clock.monotonic()
    const sinceMs = now - this.#lookedAt
    this.#lookedAt = now
    this.slept = sinceMs > this.#longestMs
    return Math.min(sinceMs, this.#longestMs)
  }
}

/** What is over when the process wakes up is one of these steps. */
const awakeSteps = 10

export interface AwakeTimer {
  /** Counts anew. Cheap: a stream may do it with each of its pieces. */
  restart(): void
  /** It is not waited for any more. */
  stop(): void
  unref(): void
}

/**
 * Calls `over` once after `ms` that this process lived. One that stood still until then goes on for a while first, and
 * reads what came meanwhile.
 */
export function afterAwake(ms: number, over: () => void): AwakeTimer {
  let left = awakeSteps
  const timer = setInterval(() => {
    if (--left > 0) return
    clearInterval(timer)
    over()
  }, ms / awakeSteps)
  return {
    restart() {
      left = awakeSteps
    },
    stop: () => clearInterval(timer),
    unref: () => void timer.unref(),
  }
}

/** Waits for `work`, for `ms` at most that this process lived. @returns whether it has ended */
export async function endsWithin(ms: number, work: Promise<unknown>): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<boolean>()
  const timer = afterAwake(ms, () => resolve(false))
  return Promise.race([work.then(() => true), late]).finally(timer.stop)
}
