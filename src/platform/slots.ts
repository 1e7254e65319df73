/**
 * Bounds on outgoing requests, by kind. The runtime has one limit and one queue for all of them, in which a deadline
 * already runs: held polls alone can fill it, and then nothing is sent. Here a kind waits for its own alone, and a
 * request's time begins when it has its slot. `fetchPublic` is not under the runtime's limit.
 */
import { fetchLimit } from './process.ts'

/** Room for so many at a time; who comes first goes first. */
export class Slots {
  readonly size: number
  #free: number
  readonly #waiting = new Set<() => void>()

  constructor(size: number) {
    this.size = size
    this.#free = size
  }

  /** Resolves with a slot, to be disposed of (once or more). @throws the signal's reason when it aborts before */
  async take(signal?: AbortSignal): Promise<Disposable> {
    signal?.throwIfAborted()
    if (this.#free > 0) this.#free -= 1
    else await this.#turn(signal)
    let held = true
    return {
      [Symbol.dispose]: () => {
        if (held) this.#giveBack()
        held = false
      },
    }
  }

  #turn(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting.delete(go)
        reject(signal?.reason)
      }
      const go = () => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }
      this.#waiting.add(go)
      signal?.addEventListener('abort', leave, { once: true })
    })
  }

  #giveBack(): void {
    const [next] = this.#waiting
    if (!next) {
      this.#free += 1
      return
    }
    this.#waiting.delete(next)
    next()
  }
}

/** The kinds of requests to upstream. */
export interface FetchSlots {
  /** Held for half a minute each: one for every session. */
  readonly polls: Slots
  /** Held as long, one for every login that is under way. */
  readonly logins: Slots
  readonly sends: Slots
  /** Up to the CDN and down from it. */
  readonly media: Slots
}

/** The shares of a limit; some requests are left to the program around the library. */
export const slotsOf = (limit: number): FetchSlots => ({
  polls: new Slots(Math.ceil(limit * 0.65)),
  logins: new Slots(Math.ceil(limit * 0.07)),
  sends: new Slots(Math.ceil(limit * 0.12)),
  media: new Slots(Math.ceil(limit * 0.15)),
})

/** Of this process: the limit is the process's, however many data directories it opens. */
export const fetchSlots: FetchSlots = slotsOf(fetchLimit())
