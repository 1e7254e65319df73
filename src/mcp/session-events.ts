/** Stored messages of an MCP session's streams, so that a client can resume a broken stream. */
import { randomUUID } from 'node:crypto'
import type { EventStore, JSONRPCMessage } from '@modelcontextprotocol/server'

const maxEvents = 500
/** Maximum length of all stored messages together, in characters of JSON. */
const maxLength = 4 * 1024 * 1024
/** How long messages are stored, in milliseconds. A client resumes earlier or never. */
const maxAgeMs = 60_000

interface StoredEvent {
  readonly id: string
  readonly stream: string
  readonly message: JSONRPCMessage
  readonly length: number
  readonly at: number
}

/** Stream id of the notifications (GET), which a client follows all the time. */
const notificationStream = '_GET_stream'

/**
 * The last messages that the streams of one MCP session sent. If there are too many, the oldest are dropped
 * first. An event id contains the stream id and a random value of this object, since another process may open
 * the session again.
 */
export class SessionEvents implements EventStore {
  #instance = randomUUID().slice(0, 8)
  #events: StoredEvent[] = []
  #length = 0
  #lastNumber = 0

  async storeEvent(stream: string, message: JSONRPCMessage): Promise<string> {
    const id = `${stream}_${this.#instance}-${++this.#lastNumber}`
    const { length } = JSON.stringify(message)
    this.#events.push({ id, stream, message, length, at: performance.now() })
    this.#length += length
    this.prune()
    return id
  }

  /** Drops messages that are too old, or beyond the limits. */
  prune(): void {
    const oldest = performance.now() - maxAgeMs
    for (let first = this.#events[0]; first; first = this.#events[0]) {
      const isTooMuch =
        this.#events.length > maxEvents || (this.#length > maxLength && this.#events.length > 1)
      if (!isTooMuch && first.at >= oldest) return
      this.#events.shift()
      this.#length -= first.length
    }
  }

  /** Drops everything: earlier streams cannot be resumed. */
  clear(): void {
    this.#instance = randomUUID().slice(0, 8)
    this.#events = []
    this.#length = 0
  }

  /** Returns whether the event belongs to an answer of an earlier process, or one that was dropped. */
  isForeign(eventId: string): boolean {
    return (
      eventId !== '' && streamIdOf(eventId) !== notificationStream && !eventId.includes(`_${this.#instance}-`)
    )
  }

  async getStreamIdForEventId(id: string): Promise<string | undefined> {
    return streamIdOf(id)
  }

  async replayEventsAfter(
    lastEventId: string,
    { send }: { send: (id: string, message: JSONRPCMessage) => Promise<void> },
  ): Promise<string> {
    const stream = streamIdOf(lastEventId) ?? ''
    const isOurs = lastEventId.includes(`_${this.#instance}-`)
    const numberOf = (id: string) => Number(id.slice(id.lastIndexOf('-') + 1))
    const after = isOurs ? numberOf(lastEventId) : 0
    // The first event of a stream contains no message.
    for (const event of [...this.#events])
      if (event.stream === stream && numberOf(event.id) > after && 'jsonrpc' in event.message)
        await send(event.id, event.message)
    return stream
  }
}

/** Returns the stream id of an event id. */
export const streamIdOf = (eventId: string): string | undefined => /^(.+)_[0-9a-f]{8}-\d+$/.exec(eventId)?.[1]
