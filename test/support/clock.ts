/** The real time, which a test may push forward: whoever sleeps wakes when his time has come by either. */

import type { Clock } from '../../src/platform/clock.ts'

export interface TestClock extends Clock {
  /** Lets `ms` pass at once. */
  advance(ms: number): void
  /** Sets the clock on the wall forward, or back, as an administrator or NTP does; no time passes. */
  step(ms: number): void
  /** Whether somebody sleeps who wakes in `minMs` to `maxMs`. */
  sleeps(minMs: number, maxMs: number): boolean
}

/** @param runs false: no time passes but what the test lets pass */
export function testClock({ runs = true } = {}): TestClock {
  let ahead = 0
  let off = 0
  const sleepers = new Map<() => void, number>()
  const beganAt = performance.now()
  const monotonic = () => (runs ? performance.now() : beganAt) + ahead
  return {
    now: () => Date.now() + ahead + off,
    monotonic,
    sleep(ms, signal) {
      if (signal?.aborted) return Promise.resolve()
      const until = monotonic() + ms
      return new Promise(resolve => {
        let timer: ReturnType<typeof setTimeout> | undefined
        const done = () => {
          clearTimeout(timer)
          signal?.removeEventListener('abort', done)
          sleepers.delete(look)
          resolve()
        }
        const look = () => {
          clearTimeout(timer)
          const leftMs = until - monotonic()
          if (leftMs <= 0) done()
          // Timers ring a little early now and then.
          else if (runs) timer = setTimeout(look, leftMs)
        }
        signal?.addEventListener('abort', done, { once: true })
        sleepers.set(look, until)
        if (runs) timer = setTimeout(look, ms)
      })
    },
    advance(ms) {
      ahead += ms
      for (const look of [...sleepers.keys()]) look()
    },
    step(ms) {
      off += ms
    },
    sleeps(minMs, maxMs) {
      const lefts = [...sleepers.values()].map(until => until - monotonic())
      return lefts.some(leftMs => leftMs >= minMs && leftMs <= maxMs)
    },
  }
}
