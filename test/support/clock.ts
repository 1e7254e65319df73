/** Real time that a test can move forward. A sleeper wakes when its time has passed or was skipped. */

import type { Clock } from '../../src/platform/clock.ts'

export interface TestClock extends Clock {
  /** Moves time forward by `ms` immediately. */
  advance(ms: number): void
  /** Sets the wall clock forward or back, as an administrator or NTP does. No time passes. */
  step(ms: number): void
  /** Returns true if a sleeper wakes in `minMs` to `maxMs`. */
  sleeps(minMs: number, maxMs: number): boolean
  /**
   * Moves time forward until all sleepers with at most `mostMs` left wake; not at all if there is none.
   * Whole milliseconds.
   */
  wake(mostMs: number): void
  /** Waits for `work`, and calls `wake` until it has ended. */
  hurry<T>(work: Promise<T>, mostMs: number): Promise<T>
}

/** @param runs false: time passes only when the test moves it, also on the wall */
export function testClock({ runs = true } = {}): TestClock {
  let ahead = 0
  let off = 0
  const sleepers = new Map<() => void, number>()
  // A whole number: with a stopped clock, sums have no rounding errors, so a wait of 100 ms is exactly 100
  // ms.
  const beganAt = Math.floor(performance.now())
  const monotonic = () => (runs ? performance.now() : beganAt) + ahead
  const beganOn = Date.now()
  const clock: TestClock = {
    now: () => (runs ? Date.now() : beganOn) + ahead + off,
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
          // Timers sometimes fire a little early.
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
