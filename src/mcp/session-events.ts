import { randomUUID } from 'node:crypto'
import type { EventStore, JSONRPCMessage } from '@modelcontextprotocol/server'

const maxEvents = 500
const maxLength = 4 * 1024 * 1024
/** A client that has not come back by then does not come back. */
const keptMs = 60_000

interface Kept {
  readonly id: string
  readonly stream: string
  readonly message: JSONRPCMessage
  readonly length: number
  readonly at: number
}

/** The stream of news, which a client follows all the time. */
const standalone = '_GET_stream'

/**
 * What the streams of one session sent last, so that a client whose connection broke can read on. Bounded: the oldest
 * events are forgotten first. An event's id names its stream and, as a session may be opened again, when it began here.
 */
export class Events implements EventStore {
  readonly #birth = randomUUID().slice(0, 8)
  readonly #kept: Kept[] = []
  #length = 0
  #last = 0

  async storeEvent(stream: string, message: JSONRPCMessage): Promise<string> {
    const id = `${stream}_${this.#birth}-${++this.#last}`
    const { length } = JSON.stringify(message)
    this.#kept.push({ id, stream, message, length, at: performance.now() })
    this.#length += length
    this.forget()
    return id
  }

  /** Drops what is too much or too old. */
  forget(): void {
    const oldest = performance.now() - keptMs
    for (let first = this.#kept[0]; first; first = this.#kept[0]) {
      const many = this.#kept.length > maxEvents || (this.#length > maxLength && this.#kept.length > 1)
      if (!many && first.at >= oldest) return
      this.#kept.shift()
      this.#length -= first.length
    }
  }

  /** Whether it names an answer of an earlier process. */
  isForeign(eventId: string): boolean {
    return eventId !== '' && streamOf(eventId) !== standalone && !eventId.includes(`_${this.#birth}-`)
  }

  async getStreamIdForEventId(id: string): Promise<string | undefined> {
    return streamOf(id)
  }

  async replayEventsAfter(
    lastEventId: string,
    { send }: { send: (id: string, message: JSONRPCMessage) => Promise<void> },
  ): Promise<string> {
    const stream = streamOf(lastEventId) ?? ''
    const isOurs = lastEventId.includes(`_${this.#birth}-`)
    const numberOf = (id: string) => Number(id.slice(id.lastIndexOf('-') + 1))
    const after = isOurs ? numberOf(lastEventId) : 0
    // The event that opens a stream carries no message.
    for (const event of [...this.#kept])
      if (event.stream === stream && numberOf(event.id) > after && 'jsonrpc' in event.message)
        await send(event.id, event.message)
    return stream
  }
}

/** The stream that an event belongs to. */
export const streamOf = (eventId: string): string | undefined => /^(.+)_[0-9a-f]{8}-\d+$/.exec(eventId)?.[1]
