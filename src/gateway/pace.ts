/**
 * How fast one may send: upstream refuses bursts, counts refused tries too, and stays angry for minutes
 * (protocol notes 5.2), so a send waits for its turn here instead of being refused there. Turns are booked in the store,
 * so every process on the directory, and the next one after a restart, keeps the same pace.
 *
 * And one user gets one send after the other: the parts of two never mix, and a slow first one is not overtaken. That
 * holds among the sends of one process.
 */
import type { Pace } from '../config.ts'
import { SvcError } from '../model/error.ts'
import type { Clock } from '../platform/clock.ts'
import type { Store, TurnRules, TurnsTaken } from '../store/store.ts'

/** A send waits at most this long for its turn. */
const longestWaitMs = 30_000
/** Who wakes this long after his turn has missed it: the machine stood still, and all who waited with him wake now. */
const missedMs = 1000
/** Those ahead may hang beyond what the pace foresees; one request that gets no answer takes 15 s. */
const longestLineMs = longestWaitMs + 15_000

/** Those who send to one user, first come, first served. */
interface Line {
  /** Resolves when the last one in it is done. */
  end: Promise<void>
  /** Messages of all in it that have no turn yet. */
  messages: number
}

/** A place in a line, and the head of it: nobody else sends to that user until it is left. */
export interface Place {
  /**
   * Waits for the next message's turn.
   *
   * @throws SvcError `rate_limited` with `retry_after` when the turn is more than 30 s away; no turn is taken then
   */
  turn(): Promise<void>
  /** Nothing went out in the turn that was taken last: it does not count. */
  unused(): void
  /** To be called when the last message is out, or none will go. */
  leave(): void
}

export class Turnstile {
  readonly #pace: Pace | 'off'
  readonly #store: Store
  readonly #clock: Clock
  readonly #pretended: boolean
  readonly #lines = new Map<string, Line>()

  /** @param pretended whether the sandbox is sent to: whoever tries things is told how not to wait */
  constructor(pace: Pace | 'off', store: Store, clock: Clock, pretended: boolean) {
    this.#pace = pace
    this.#store = store
    this.#clock = clock
    this.#pretended = pretended
  }

  /**
   * Whether `count` messages could go out now one after the other, none waiting more than 30 s. Takes nothing.
   *
   * @throws SvcError `rate_limited` with `retry_after`
   */
  look(session: string, user: string, count: number): void {
    const pace = this.#pace
    if (pace === 'off') return
    const taken = this.#store.turns(turns => turns.taken(session, user, rulesOf(pace)))
    const ahead = this.#lines.get(keyOf(session, user))?.messages ?? 0
    let before = taken.now
    for (let nth = 0; nth < ahead + count; nth++) {
      const at = nextTurn(pace, taken)
      // Those ahead have been told already that they may go.
      if (nth >= ahead && at - before > longestWaitMs) throw this.#tooSoon(at - taken.now)
      if (nth >= ahead) before = at
      taken.last = at
      taken.user.push(at)
    }
  }

  /**
   * Waits until everybody who came before to this user is done.
   *
   * @throws SvcError `rate_limited` when the pace will not let `count` messages go in time, or those ahead take too
   *   long; the signal's reason
   */
  async line(session: string, user: string, count: number, signal: AbortSignal): Promise<Place> {
    signal.throwIfAborted()
    this.look(session, user, count)
    const key = keyOf(session, user)
    const done = Promise.withResolvers<void>()
    const line = this.#lines.get(key) ?? { end: Promise.resolve(), messages: 0 }
    const before = line.end
    const end = before.then(() => done.promise)
    line.end = end
    line.messages += count
    this.#lines.set(key, line)
    let waiting = count
    const leave = () => {
      line.messages -= waiting
      waiting = 0
      done.resolve()
      void end.then(() => {
        if (line.end === end && this.#lines.get(key) === line) this.#lines.delete(key)
      })
    }
    const over = new AbortController()
    const abort = () => over.abort()
    signal.addEventListener('abort', abort, { once: true })
    const first = await Promise.race([
      before.then(() => true),
      this.#clock.sleep(longestLineMs, over.signal).then(() => false),
    ])
    over.abort()
    signal.removeEventListener('abort', abort)
    if (first && !signal.aborted) {
      let at: number | undefined
      const turn = () => {
        at = undefined
        return this.#turn(session, user, signal, booked => {
          if (at === undefined) {
            waiting -= 1
            line.messages -= 1
          }
          at = booked
        })
      }
      const unused = () => {
        if (at !== undefined) this.#store.turns(turns => turns.giveBack(session, user, at!))
        at = undefined
      }
      return { turn, unused, leave }
    }
    leave()
    signal.throwIfAborted()
    throw this.#tooSoon(longestWaitMs)
  }

  async #turn(
    session: string,
    user: string,
    signal: AbortSignal,
    onBooked: (at: number) => void,
  ): Promise<void> {
    const pace = this.#pace
    if (pace === 'off') return
    const rules = rulesOf(pace)
    let booked = 0
    // Booked before waiting, so that sends to other users of the session queue up behind.
    let waitMs = this.#store.turns(turns =>
      turns.book(session, user, rules, taken => {
        const at = nextTurn(pace, taken)
        if (at - taken.now > longestWaitMs) throw this.#tooSoon(at - taken.now)
        booked = at
        return at
      }),
    )
    onBooked(booked)
    while (waitMs > 0) {
      await this.#clock.sleep(waitMs, signal)
      if (signal.aborted || this.#clock.now() - booked < missedMs) return
      waitMs = this.#store.turns(turns =>
        turns.rebook(session, user, booked, rules, taken => {
          // It was granted, so it is not refused now.
          booked = Math.min(nextTurn(pace, taken), taken.now + longestWaitMs)
          return booked
        }),
      )
      onBooked(booked)
    }
  }

  #tooSoon(waitMs: number): SvcError {
    const seconds = Math.ceil(waitMs / 1000)
    return new SvcError('rate_limited', `the pace allows the next send to this user in ${seconds} s`, {
      retryAfter: seconds,
      ...(this.#pretended && {
        // The sandbox refuses bursts of its own, as WeChat does.
        hint: 'Try again then. To send without waiting: --pace off, and "burst" off at the phone.',
      }),
    })
  }
}

/** Nobody books a turn further ahead than the longest wait: one that is was booked by another time of the clock. */
const rulesOf = ({ perWindow, windowMs }: Pace): TurnRules => ({
  perWindow,
  windowMs,
  aheadMs: longestWaitMs,
})

/** When the next turn is, after these. */
function nextTurn({ perSecond, perWindow, windowMs }: Pace, { now, last, user }: TurnsTaken): number {
  const blocking = user.at(-perWindow)
  return Math.max(
    now,
    last === undefined ? now : last + 1000 / perSecond,
    blocking === undefined ? now : blocking + windowMs,
  )
}

const keyOf = (session: string, user: string) => `${session}\n${user}`
