/** The real time, which a test may push forward: whoever sleeps wakes when his time has come by either. */

import type { Clock } from '../../src/platform/clock.ts'

export interface TestClock extends Clock {
  /** Lets `ms` pass at once. */
  advance(ms: number): void
  /** Sets the clock on the wall forward, or back, as an administrator or NTP does; no time passes. */
  step(ms: number): void
  /** Whether somebody sleeps who wakes in `minMs` to `maxMs`. */
  sleeps(minMs: number, maxMs: number): boolean
  /** Lets as many whole ms pass as wake everybody who sleeps for `mostMs` at most: none where nobody does. */
  wake(mostMs: number): void
  /** Waits for `work`, and wakes who sleeps until it has ended, as `wake` does. */
  hurry<T>(work: Promise<T>, mostMs: number): Promise<T>
}

/** @param runs false: no time passes but what the test lets pass */
export function testClock({ runs = true } = {}): TestClock {
  let ahead = 0
  let off = 0
  const sleepers = new Map<() => void, number>()
  // Whole: a clock that does not run counts without rounding, and a wait of 100 ms is one of 100 ms at any time.
  const beganAt = Math.floor(performance.now())
  const monotonic = () => (runs ? performance.now() : beganAt) + ahead
  const clock: TestClock = {
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
    wake(mostMs) {
      const lefts = [...sleepers.values()].map(until => until - monotonic())
      const due = lefts.filter(leftMs => leftMs <= mostMs)
      if (due.length > 0) clock.advance(Math.ceil(Math.max(0, ...due)))
    },
    async hurry(work, mostMs) {
      let isOver = false
      const over = () => {
        isOver = true
      }
      work.then(over, over)
      while (!isOver) {
        clock.wake(mostMs)
        await new Promise(resolve => setTimeout(resolve, 1))
      }
      return work
    },
  }
  return clock
}
