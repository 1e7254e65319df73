/**
 * Watches waits that have deadlines of their own, in case a deadline fails: after a suspend of the machine,
 * if a timer never fires, or if a request does not end even when aborted.
 */
import { AwakeTime, type Clock } from '../platform/clock.ts'

/** What a loop waits for. */
export interface Wait {
  readonly what: 'answer' | 'pause' | 'commit'
  /** Monotonic ms. A wait that lasts longer is overdue. */
  dueAt: number
  /** Whether the wait is due early because of a gap: its connection may be dead. */
  isDoubted?: boolean
}

/** A longer gap between two checks, by either clock, means that the machine or this process slept. */
const gapMs = 30_000
/** Time after a gap to read what has arrived. */
const readMs = 5000

/** Finds overdue waits. Call it about every second. */
export class Watchdog {
  readonly #clock: Clock
  readonly #awakeTimes: readonly AwakeTime[]

  constructor(clock: Clock) {
    this.#clock = clock
    // Linux stops the monotonic clock during a suspend. The wall clock shows the gap, but it also steps at
    // times: then a poll is aborted without need, and repeated.
    this.#awakeTimes = [clock, { monotonic: () => clock.now() }].map(source => new AwakeTime(source, gapMs))
  }

  /** Checks the waits once. @returns the overdue ones */
  findOverdue<T extends { wait?: Wait }>(waiting: Iterable<T>): T[] {
    const monotonic = this.#clock.monotonic()
    for (const awakeTime of this.#awakeTimes) awakeTime.measure()
    const slept = this.#awakeTimes.some(awakeTime => awakeTime.hasSlept)
    return [...waiting].filter(({ wait }) => {
      if (!wait) return false
      if (slept) {
        const soon = monotonic + readMs
        // A connection seldom survives a long sleep, and a dead one would otherwise be waited for until its
        // deadline.
        wait.isDoubted = wait.what === 'answer'
        wait.dueAt = wait.isDoubted ? soon : Math.max(wait.dueAt, soon)
      }
      return monotonic > wait.dueAt
    })
  }
}

/**
 * Returns the result of `work`, if it ends soon after `signal` aborts. Otherwise stops waiting for it.
 *
 * @param late called with a result that comes after that
 * @throws the signal's reason if it stopped waiting
 */
export function abandonAfterAbort<T>(
  work: Promise<T>,
  signal: AbortSignal,
  clock: Clock,
  graceMs: number,
  late: (result: T) => void = () => {},
): Promise<T> {
  return new Promise((resolve, reject) => {
    // Created on demand: thousands of polls are under way, and most end by themselves.
    let ended: AbortController | undefined
    let left = false
    const leave = async () => {
      ended = new AbortController()
      await clock.sleep(graceMs, ended.signal)
      if (ended.signal.aborted) return
      left = true
      reject(signal.reason)
    }
    const end = () => {
      signal.removeEventListener('abort', leave)
      ended?.abort()
    }
    if (signal.aborted) void leave()
    else signal.addEventListener('abort', leave, { once: true })
    work.then(
      result => {
        end()
        if (left) late(result)
        else resolve(result)
      },
      error => {
        end()
        reject(error)
      },
    )
  })
}
