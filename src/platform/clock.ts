/** Time as an argument: tests and the sandbox pass their own clock. */

export interface Clock {
  /** Unix milliseconds; may step when somebody sets the clock. */
  now(): number
  /** Milliseconds that only go forward. For pace, held requests and deadlines. */
  monotonic(): number
  /** Resolves after `ms`, or as soon as `signal` aborts; never rejects. Check the signal afterwards. */
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

/**
 * Returns the wait in whole ms before attempt `attempt` (0, 1, 2 …): doubles from `baseMs` to `maxMs`, half of it
 * random.
 */
export function backoffMs(attempt: number, baseMs = 1000, maxMs = 30_000): number {
  const full = Math.min(maxMs, baseMs * 2 ** Math.min(attempt, 30))
  return Math.round(full / 2 + (Math.random() * full) / 2)
}

/** Long work runs for this long before it yields to the event loop. */
const sliceMs = 8

/**
 * @returns a function to await between pieces of long work; it yields to the event loop after 8 ms of work
 */
export function createYield(clock: Pick<Clock, 'monotonic' | 'sleep'>): () => Promise<void> {
  let sliceEnds = clock.monotonic() + sliceMs
  return async () => {
    if (clock.monotonic() <= sliceEnds) return
    await clock.sleep(0)
    sliceEnds = clock.monotonic() + sliceMs
  }
}

/**
 * Yields to the event loop like the function above, for long work of many callers at the same time. One
 * caller works for 8 ms, the event loop runs once, then the next caller works. With one function per caller,
 * each of them would work for 8 ms in every round of the event loop.
 */
export class SharedTurns {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #waiting: (() => void)[] = []
  /** A caller works in this round of the event loop. */
  #isTaken = false

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  /** @returns a function that one caller awaits before each piece of its work */
  join(): () => Promise<void> {
    let sliceEnds = Number.NEGATIVE_INFINITY
    return async () => {
      if (this.#clock.monotonic() <= sliceEnds) return
      if (this.#isTaken) await new Promise<void>(resolve => this.#waiting.push(resolve))
      else this.#serve()
      sliceEnds = this.#clock.monotonic() + sliceMs
    }
  }

  /** Starts the next caller in the next round of the event loop. */
  #serve(): void {
    this.#isTaken = true
    setImmediate(() => {
      const next = this.#waiting.shift()
      this.#isTaken = false
      if (!next) return
      next()
      this.#serve()
    })
  }
}

/**
 * Measures time in which this process ran. A machine may stand still for seconds, and a wait must not end
 * because of that: a gap between two measurements counts as at most `longestMs`.
 */
export class AwakeTime {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #longestMs: number
  #measuredAt: number
  /** Whether the process stood still between the last two measurements. */
  hasSlept = false

  constructor(clock: Pick<Clock, 'monotonic'>, longestMs: number) {
    this.#clock = clock
    this.#longestMs = longestMs
    this.#measuredAt = clock.monotonic()
  }

  /** @returns ms since the last measurement, at most `longestMs` */
  measure(): number {
    const now = this.#clock.monotonic()
    const sinceMs = now - this.#measuredAt
    this.#measuredAt = now
    this.hasSlept = sinceMs > this.#longestMs
    return Math.min(sinceMs, this.#longestMs)
  }
}

/** A timer counts this many steps. If the process stands still for a while, only one step passes. */
const awakeSteps = 10

export interface AwakeTimer {
  /** Starts counting from zero. Cheap: a stream may do it with each chunk. */
  restart(): void
  /** Stops the timer; its callback is not called. */
  stop(): void
  unref(): void
}

/**
 * Calls `over` once after `ms` in which this process ran. After a standstill the process first runs for the
 * remaining steps, so it can read what arrived during the standstill.
 */
export function startAwakeTimer(ms: number, over: () => void): AwakeTimer {
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

/** Waits for `work`, at most `ms` in which this process ran. @returns whether the work has ended */
export async function endsWithin(ms: number, work: Promise<unknown>): Promise<boolean> {
  let timer: AwakeTimer | undefined
  const late = new Promise<boolean>(resolve => {
    timer = startAwakeTimer(ms, () => resolve(false))
  })
  return Promise.race([work.then(() => true), late]).finally(() => timer?.stop())
}
