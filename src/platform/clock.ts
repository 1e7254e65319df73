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
