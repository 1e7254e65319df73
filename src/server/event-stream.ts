/** Streams of events, and what waits in all of them together for readers that do not read. */
import { jsonAnswer } from './route.ts'

/** Bytes that wait in all streams of this process: where it would be more, who has read nothing for longest is cut off. */
const mostWaiting = 64 * 1024 * 1024

/** What waits for one reader. */
export interface Backlog {
  /** So much waits now. @param moved the reader has taken something */
  holds(bytes: number, moved: boolean): void
  /** Nothing more. */
  end(): void
}

interface Entry {
  bytes: number
  cut(): void
}

/** The backlogs of readers, those that took nothing for longest first. */
export class Backlogs {
  readonly #most: number
  readonly #entries = new Set<Entry>()
  #total = 0

  constructor(most: number) {
    this.#most = most
  }

  /** @param cut ends it: there is no room for what waits */
  open(cut: () => void): Backlog {
    const entry: Entry = { bytes: 0, cut }
    this.#entries.add(entry)
    return {
      holds: (bytes, moved) => {
        if (!this.#entries.has(entry)) return
        this.#total += bytes - entry.bytes
        // Who has nothing to read is not behind.
        if (moved || entry.bytes === 0) {
          this.#entries.delete(entry)
          this.#entries.add(entry)
        }
        entry.bytes = bytes
        this.#makeRoom()
      },
      end: () => this.#remove(entry),
    }
  }

  #makeRoom(): void {
    for (const entry of this.#entries) {
      if (this.#total <= this.#most) return
      if (entry.bytes === 0) continue
      this.#remove(entry)
      entry.cut()
    }
  }

  #remove(entry: Entry): void {
    if (!this.#entries.delete(entry)) return
    this.#total -= entry.bytes
  }
}

/** Of all doors. */
export const backlogs = new Backlogs(mostWaiting)

/** Where events go to one reader. */
export interface Outlet {
  /** Bytes that wait for the reader. */
  readonly waiting: number
  enqueue(bytes: Uint8Array): void
  close(): void
  error(error: unknown): void
}

export const streamHeaders = {
  ...jsonAnswer.headers,
  'content-type': 'text/event-stream',
  // A proxy in front must not gather them.
  'x-accel-buffering': 'no',
}

interface Source {
  start(outlet: Outlet): void
  /** The reader has taken something. */
  pull?(): void
  /** It has gone, or is so far behind that it was cut off. */
  cancel(): void
}

/** What HEAD of a stream of events is answered with: a stream that never begins, since an empty one has a length. */
export const unopenedStream = (): Response => new Response(new ReadableStream(), { headers: streamHeaders })

/** Server-sent events. A reader that has `behindBytes` waiting for it has no room left. */
export function eventStream(behindBytes: number, source: Source): Response {
  let controller: ReadableStreamDefaultController<Uint8Array>
  /** What waited when it was looked at last: a stream is also asked for more when nobody read anything. */
  let seen = 0
  const waiting = () => behindBytes - (controller.desiredSize ?? behindBytes)
  const backlog = backlogs.open(() => {
    source.cancel()
    controller.error(new Error('too slow'))
  })
  const stream = new ReadableStream<Uint8Array>(
    {
      start(own) {
        controller = own
        source.start({
          get waiting() {
            return waiting()
          },
          enqueue(bytes) {
            controller.enqueue(bytes)
            seen = waiting()
            backlog.holds(seen, false)
          },
          close() {
            backlog.end()
            controller.close()
          },
          error(error) {
            backlog.end()
            controller.error(error)
          },
        })
      },
      pull() {
        const before = seen
        seen = waiting()
        if (seen >= before) return
        backlog.holds(seen, true)
        source.pull?.()
      },
      cancel() {
        backlog.end()
        source.cancel()
      },
    },
    { highWaterMark: behindBytes, size: chunk => chunk?.byteLength ?? 0 },
  )
  return new Response(stream, { headers: streamHeaders })
}
