/** Server-sent event streams, and the memory limit for the unread bytes of all of them. */
import { shares } from '../model/shares.ts'
import { jsonAnswer } from './route.ts'

/** Reports the unread bytes of one reader to the total of all readers. */
export interface EventBacklog {
  /** Sets the number of unread bytes. @param moved true if the reader has read something */
  update(bytes: number, moved: boolean): void
  /** Ends the count for this reader. */
  end(): void
}

interface BacklogEntry {
  bytes: number
  disconnect(): void
}

/** The backlogs of all readers, in the order of their last read, oldest first. */
export class Backlogs {
  readonly #most: number
  readonly #entries = new Set<BacklogEntry>()
  #total = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Starts a backlog. @param onLimit called when the limit is exceeded, to disconnect the reader */
  open(onLimit: () => void): EventBacklog {
    const entry: BacklogEntry = { bytes: 0, disconnect: onLimit }
    this.#entries.add(entry)
    return {
      update: (bytes, moved) => {
        if (!this.#entries.has(entry)) return
        this.#total += bytes - entry.bytes
        // A reader without unread bytes is up to date, so it goes to the end.
        if (moved || entry.bytes === 0) {
          this.#entries.delete(entry)
          this.#entries.add(entry)
        }
        entry.bytes = bytes
        this.#enforceLimit()
      },
      end: () => this.#remove(entry),
    }
  }

  #enforceLimit(): void {
    for (const entry of this.#entries) {
      if (this.#total <= this.#most) return
      if (entry.bytes === 0) continue
      this.#remove(entry)
      entry.disconnect()
    }
  }

  #remove(entry: BacklogEntry): void {
    if (!this.#entries.delete(entry)) return
    this.#total -= entry.bytes
  }
}

/** The backlogs of all services of the process. */
export const backlogs = new Backlogs(shares.unread.most)

/** The output to one reader. */
export interface Outlet {
  /** Unread bytes. */
  readonly unreadBytes: number
  enqueue(bytes: Uint8Array): void
  close(): void
  error(error: unknown): void
}

export const streamHeaders = {
  ...jsonAnswer.headers,
  'content-type': 'text/event-stream',
  // Prevents buffering in a proxy.
  'x-accel-buffering': 'no',
}

/** What feeds one stream. */
interface StreamSource {
  start(outlet: Outlet): void
  /** Called when the reader has read something. */
  pull?(): void
  /** Called when the reader has disconnected, or was disconnected because it is too far behind. */
  cancel(): void
}

/**
 * Returns the answer to HEAD for an event stream: a stream that never begins. An empty body would have a
 * length.
 */
export const createUnopenedStream = (): Response =>
  new Response(new ReadableStream(), { headers: streamHeaders })

/**
 * Creates a response with server-sent events.
 *
 * @param behindBytes unread bytes at which a reader's buffer is full
 */
export function createEventStream(behindBytes: number, source: StreamSource): Response {
  let controller: ReadableStreamDefaultController<Uint8Array>
  /** Unread bytes at the last check. The runtime also calls `pull` when the reader has read nothing. */
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
          get unreadBytes() {
            return waiting()
          },
          enqueue(bytes) {
            controller.enqueue(bytes)
            seen = waiting()
            backlog.update(seen, false)
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
        backlog.update(seen, true)
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
