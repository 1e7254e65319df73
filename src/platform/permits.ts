/**
 * Limits outgoing requests by kind. The runtime has one limit and one queue for all requests, and a deadline
 * already runs while a request waits in that queue: held polls alone can fill it, and then nothing is sent.
 * Here a request waits only for its own kind, and its time begins when it has its permit. `fetchPublic` is not
 * under the runtime's limit.
 */
import { readFetchLimit } from './process.ts'

/** A limit on requests at the same time; first come, first served. */
export class Permits {
  readonly size: number
  #free: number
  readonly #waiting = new Set<() => void>()

  constructor(size: number) {
    this.size = size
    this.#free = size
  }

  /** Resolves with a permit. Dispose of it once or more. @throws the signal's reason when it aborts first */
  async take(signal?: AbortSignal): Promise<Disposable> {
    signal?.throwIfAborted()
    if (this.#free > 0) this.#free -= 1
    else await this.#waitForPermit(signal)
    let held = true
    return {
      [Symbol.dispose]: () => {
        if (held) this.#release()
        held = false
      },
    }
  }

  #waitForPermit(signal: AbortSignal | undefined): Promise<void> {
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

  #release(): void {
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
export interface RequestPermits {
  /** Held for half a minute each: one for each session. */
  readonly polls: Permits
  /** Held as long: one for each login in progress. */
  readonly logins: Permits
  readonly sends: Permits
  /** Uploads to the CDN and downloads from it. */
  readonly media: Permits
}

/** Divides a limit among the kinds. A small rest stays for the program that uses the library. */
export const permitsOf = (limit: number): RequestPermits => ({
  polls: new Permits(Math.ceil(limit * 0.65)),
  logins: new Permits(Math.ceil(limit * 0.07)),
  sends: new Permits(Math.ceil(limit * 0.12)),
  media: new Permits(Math.ceil(limit * 0.15)),
})

/** Permits of this process. The limit holds for the process, however many data directories it opens. */
export const requestPermits: RequestPermits = permitsOf(readFetchLimit())
