/** MCP over standard input and output, for the one client that started the process. */

import type { Buffer } from 'node:buffer'
import process from 'node:process'
import type { Readable, Writable } from 'node:stream'
import {
  deserializeMessage,
  isJSONRPCRequest,
  type JSONRPCMessage,
  type RequestId,
  serializeMessage,
  type Transport,
} from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { findFault, formatFault } from '../model/bad-json.ts'
import { Lines } from '../platform/byte-lines.ts'
import { endsWithin } from '../platform/clock.ts'
import { attempt } from '../platform/fields.ts'
import { isPeerOpen } from '../platform/libc.ts'
import type { Log } from '../platform/log.ts'
import { RoomPart } from '../platform/runtime.ts'
import { ShutdownSignal } from '../server/http-call.ts'
import { waitForTurn, writeTo } from '../server/written.ts'
import type { McpContext, McpShared } from './context.ts'
import { ConnectionDeliveries, PendingSet } from './exchange.ts'
import { QuestionTickets } from './questions.ts'
import { createMcpServer } from './server.ts'

/** Longest message, in bytes. `send` with media as base64 has the longest ones. */
const maxLineBytes = 32 * 1024 * 1024
/** How long `close` waits for open answers, in milliseconds. */
const graceMs = 1500
/**
 * A client that has closed its input has ended in order if it still takes output after this time, in
 * milliseconds. One that was killed has closed both.
 */
const orderlyMs = 200

/** Methods whose answer is the end of a subscription. */
const subscribing: ReadonlySet<string> = new Set(['subscriptions/listen', 'events/stream'])

export interface StdioServer {
  /** Resolves when the client is gone: its input has ended, or the output is closed. */
  readonly ended: Promise<void>
  /** Ends waiting calls, waits until the open answers are written, and closes. Safe to call twice. */
  close(): Promise<void>
}

export interface StdioStreams {
  readonly input: Readable
  readonly output: Writable
}

/**
 * Serves until the input ends or `close` is called. Writes only MCP messages to the output.
 *
 * @param confirmMs for tests: see `UnconfirmedAnswers`
 */
export function serveMcpStdio(
  shared: McpShared & Pick<McpContext, 'by' | 'local'>,
  streams: StdioStreams = { input: process.stdin, output: process.stdout },
  confirmMs?: number,
): StdioServer {
  const waiting = new ShutdownSignal()
  const questions = new QuestionTickets()
  const closed = new AbortController()
  const wire = new LineTransport(streams, shared.log, confirmMs)
  const handle = serveStdio(
    ({ era }) =>
      createMcpServer({
        ...shared,
        era,
        lasting: true,
        closed: closed.signal,
        calls: {
          waiting,
          questions,
          deliver: (delivery, ctx) => wire.deliveries.add(ctx.mcpReq.id, delivery),
          // A notification is sent when the client has taken it.
          waitForReader: async () => {},
        },
      }),
    { transport: wire, onerror: error => shared.log.debug('mcp', { error }) },
  )
  const opened = async () => void (await shared.gateway)
  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= (async () => {
      // A client may end its input before the store is open: its calls still run.
      await opened().catch(() => {})
      waiting.stop()
      await wire.unanswered.whenEmpty(graceMs)
      if (wire.deliveries.isUnconfirmed && (await wire.hasEndedInOrder())) wire.deliveries.confirmAll()
      closed.abort()
      await handle.close()
    })()
    return closing
  }
  return { ended: wire.ended.then(close), close }
}

/** Reads and writes JSON-RPC messages, one a line. Knows which answers were written. */
export class LineTransport implements Transport {
  onclose?: () => void
  onmessage?: Transport['onmessage']
  /** Deliveries of open requests. */
  readonly deliveries: ConnectionDeliveries
  /** Ids of requests without an answer yet. */
  readonly unanswered = new PendingSet<RequestId>()
  readonly #lines: LineReader
  readonly #output: Writable
  /** Resolves when the client is gone. */
  readonly #end = Promise.withResolvers<void>()
  /** Whether the client has closed its input. */
  #isInputClosed = false
  /** Whether the client has stopped reading. */
  #isOutputBroken = false
  #closed = false

  /** @param confirmMs for tests: see `UnconfirmedAnswers` */
  constructor({ input, output }: StdioStreams, log: Log, confirmMs?: number) {
    this.deliveries = new ConnectionDeliveries(() => !this.#isInputClosed && !this.#isOutputBroken, confirmMs)
    this.#lines = new LineReader({ input, log, take: message => this.#take(message) })
    this.#output = output
  }

  get ended(): Promise<void> {
    return this.#end.promise
  }

  async start(): Promise<void> {
    this.#lines.start(() => {
      this.#isInputClosed = true
      this.#end.resolve()
    })
    // This listener stays after the end, so that a broken pipe does not crash the process.
    this.#output.on('error', () => {
      this.#isOutputBroken = true
      this.#end.resolve()
    })
  }

  /** Returns whether the client has closed its input and still takes output a moment later. */
  async hasEndedInOrder(): Promise<boolean> {
    if (!this.#isInputClosed || this.#isOutputBroken) return false
    await new Promise(resolve => setTimeout(resolve, orderlyMs))
    const { fd } = this.#output as { fd?: unknown }
    const isOpen = typeof fd === 'number' ? await isPeerOpen(fd) : undefined
    return isOpen ?? (await this.#takesOutput())
  }

  /** Tries it with a space, where nothing else shows it: a reader of messages ignores it. */
  async #takesOutput(): Promise<boolean> {
    let isTaken = false
    const taken = writeTo(this.#output, ' ').then(taken => {
      isTaken = taken
    })
    await endsWithin(orderlyMs, taken)
    return isTaken && !this.#isOutputBroken
  }

  /**
   * Writes a message. Never rejects, as the SDK does not handle rejected notifications. `ended` reports a
   * client that is gone.
   */
  async send(message: JSONRPCMessage): Promise<void> {
    const settle = this.deliveries.take(message)
    const written = !this.#closed && (await writeTo(this.#output, serializeMessage(message)))
    if (!written) {
      this.#isOutputBroken = true
      this.#end.resolve()
    }
    // What the client sent before the last byte is read in this turn, and does not confirm the answer.
    if (settle) await waitForTurn()
    settle?.(written)
    if (!('method' in message) && message.id !== undefined) this.unanswered.delete(message.id)
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#end.resolve()
    this.#lines.stop()
    this.deliveries.loseAll()
    this.onclose?.()
  }

  #take(message: JSONRPCMessage): void {
    this.deliveries.confirm(message)
    // A subscription is answered only when it ends, so `close` does not wait for it.
    if (isJSONRPCRequest(message) && !subscribing.has(message.method)) this.unanswered.add(message.id)
    else if ('method' in message && message.method === 'notifications/cancelled') {
      this.unanswered.delete(message.params?.requestId as RequestId)
    }
    this.onmessage?.(message)
  }
}

/** Reads JSON-RPC messages, one a line. What is no message is logged. */
class LineReader extends RoomPart<{ input: Readable; log: Log; take: (message: JSONRPCMessage) => void }> {
  readonly #lines = new Lines(line => this.#takeLine(line), maxLineBytes)

  start(onEnd: () => void): void {
    this.ports.input.on('data', this.#read)
    for (const event of ['end', 'close', 'error']) this.ports.input.on(event, onEnd)
  }

  stop(): void {
    this.ports.input.off('data', this.#read)
    // A paused standard input does not keep the process alive.
    this.ports.input.pause()
  }

  readonly #read = (chunk: Buffer): void => {
    this.#lines.add(chunk)
    // The request gets no answer, as its id is not known.
    if (this.#lines.hasDropped) this.ports.log.warn('a message of more than 32 MiB was ignored')
    this.#lines.hasDropped = false
  }

  #takeLine(line: string): void {
    const message = attempt(() => deserializeMessage(line))
    if (message) this.ports.take(message)
    else void this.#logFault(line)
  }

  async #logFault(line: string): Promise<void> {
    const fault = await findFault(line)
    this.ports.log.warn('a line on standard input is not a JSON-RPC message', {
      length: line.length,
      ...(fault && { fault: formatFault(fault) }),
    })
  }
}
