/**
 * Looks after waits that have deadlines of their own, for the day on which a deadline does not keep its word: a
 * suspended machine, a timer that never fires, a request that ends neither by itself nor when it is cut off.
 */
import { AwakeTime, type Clock } from '../platform/clock.ts'

/** What a loop waits for. */
export interface Wait {
  readonly what: 'answer' | 'pause' | 'commit'
  /** Monotonic ms; over by then, unless something is wrong. */
  dueAt: number
  /** It is due early because of a gap: its connection is doubted, and may live. */
  doubted?: boolean
}

/** Nobody looked for so long, by either clock: the machine slept, or this process did. */
const gapMs = 30_000
/** After a gap, what has arrived meanwhile gets this long to be read. */
const readMs = 5000

/** Tells which waits are overdue; asked every second or so. */
export class Watchdog {
  readonly #clock: Clock
  readonly #looks: readonly AwakeTime[]

  constructor(clock: Clock) {
    this.#clock = clock
    // Linux stops the monotonic clock while the machine is suspended. The other one shows it, and steps at times: then
    // a poll is cut off for nothing, and asked again.
    this.#looks = [clock, { monotonic: () => clock.now() }].map(one => new AwakeTime(one, gapMs))
  }

  /** Looks once. @returns those that should be over by now */
  overdue<T extends { wait?: Wait }>(waiting: Iterable<T>): T[] {
    const monotonic = this.#clock.monotonic()
    for (const one of this.#looks) one.look()
    const slept = this.#looks.some(one => one.slept)
    return [...waiting].filter(({ wait }) => {
      if (!wait) return false
      if (slept) {
        const soon = monotonic + readMs
        // Connections seldom outlive a long sleep, and a dead one is waited for until its deadline.
        wait.doubted = wait.what === 'answer'
        wait.dueAt = wait.doubted ? soon : Math.max(wait.dueAt, soon)
      }
      return monotonic > wait.dueAt
    })
  }
}

/**
 * `work`, as long as it ends soon after `signal` has aborted; what does not is left to itself.
 *
 * @param late is told of a result that comes after that
 * @throws the signal's reason for work that was left
 */
export function endingWith<T>(
  work: Promise<T>,
  signal: AbortSignal,
  clock: Clock,
  graceMs: number,
  late: (result: T) => void = () => {},
): Promise<T> {
  return new Promise((resolve, reject) => {
    // Made when it is needed: thousands of polls are under way, and most end by themselves.
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
