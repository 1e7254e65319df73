/** MCP over standard input and output: one client, the user who started the process. */

import { Buffer } from 'node:buffer'
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
import { faultIn, faultText } from '../model/bad-json.ts'
import { stdio } from '../model/principal.ts'
import type { Log } from '../platform/log.ts'
import { Waiting } from '../server/http-call.ts'
import { writtenTo } from '../server/written.ts'
import type { McpContext, McpShared } from './context.ts'
import { Deliveries, UnderWay } from './exchange.ts'
import { Questions } from './questions.ts'
import { createMcpServer } from './server.ts'

/** A send with media as base64 is the longest message there is. */
const maxLineBytes = 32 * 1024 * 1024
/** After the end of the input, answers under way may take this long. */
const graceMs = 1500

export interface StdioServer {
  /** Resolves when the client is gone: its input ended, or nobody reads the output any more. */
  readonly ended: Promise<void>
  /** Ends the waits, lets the answers under way be written, and closes. Safe to call twice. */
  close(): Promise<void>
}

export interface StdioStreams {
  readonly input: Readable
  readonly output: Writable
}

/** Serves until the input ends or `close` is called. Nothing but protocol is written to the output. */
export function serveMcpStdio(
  shared: McpShared & Pick<McpContext, 'local'>,
  streams: StdioStreams = { input: process.stdin, output: process.stdout },
): StdioServer {
  const waiting = new Waiting()
  const questions = new Questions()
  const closed = new AbortController()
  const wire = new LineTransport(streams, shared.log)
  const handle = serveStdio(
    ({ era }) =>
      createMcpServer({
        ...shared,
        by: stdio,
        era,
        lasting: true,
        closed: closed.signal,
        calls: {
          waiting,
          questions,
          deliver: (delivery, ctx) => wire.deliveries.add(ctx.mcpReq.id, delivery),
        },
      }),
    { transport: wire, onerror: error => shared.log.debug('mcp', { error }) },
  )
  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= (async () => {
      waiting.stop()
      await wire.unanswered.over(graceMs)
      closed.abort()
      await handle.close()
    })()
    return closing
  }
  return { ended: wire.ended.then(close), close }
}

/** JSON-RPC messages as lines. It knows which answers were written, and to the end of the input keeps the output open. */
export class LineTransport implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: Transport['onmessage']
  readonly ended: Promise<void>
  /** Each is settled once its answer is written. */
  readonly deliveries = new Deliveries()
  /** Requests that wait for their answers. */
  readonly unanswered = new UnderWay<RequestId>()
  readonly #input: Readable
  readonly #output: Writable
  readonly #log: Log
  readonly #end: () => void
  #parts: Buffer[] = []
  #size = 0
  /** The client will not read on, or is about to go. */
  #leaving = false
  #closed = false

  constructor({ input, output }: StdioStreams, log: Log) {
    this.#input = input
    this.#output = output
    this.#log = log
    const { promise, resolve } = Promise.withResolvers<void>()
    this.ended = promise
    this.#end = () => {
      this.#leaving = true
      resolve()
    }
  }

  async start(): Promise<void> {
    this.#input.on('data', this.#read)
    for (const event of ['end', 'close', 'error']) this.#input.on(event, this.#end)
    // Stays on after the end: a broken pipe is no reason to crash.
    this.#output.on('error', this.#end)
  }

  /** Never rejects: the library lets news go without looking after them. A client that is gone is told by `ended`. */
  async send(message: JSONRPCMessage): Promise<void> {
    const settle = this.deliveries.take(message)
    const written = !this.#closed && (await writtenTo(this.#output, serializeMessage(message)))
    if (!written) this.#end()
    // A client that had ended its input before may read on or not: then it comes again. One that ends it later has it.
    settle?.(written && !this.#leaving)
    if (!('method' in message) && message.id !== undefined) this.unanswered.delete(message.id)
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#end()
    this.#input.off('data', this.#read)
    // A paused standard input does not keep the process alive.
    this.#input.pause()
    this.deliveries.lose()
    this.onclose?.()
  }

  #read = (chunk: Buffer): void => {
    let from = 0
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, from)) {
      this.#parts.push(chunk.subarray(from, at))
      from = at + 1
      const line = Buffer.concat(this.#parts).toString('utf8')
      const size = this.#size
      this.#parts = []
      this.#size = 0
      if (size <= maxLineBytes) this.#take(line)
    }
    const rest = chunk.subarray(from)
    this.#size += rest.length
    if (this.#size <= maxLineBytes) this.#parts.push(rest)
    else if (this.#parts.length > 0) {
      // The rest of a line that is too long is read and forgotten; its request gets no answer, as it has no id yet.
      this.#parts = []
      this.#log.warn('a message of more than 32 MiB was ignored')
    }
  }

  #take(line: string): void {
    if (line.trim() === '') return
    let message: JSONRPCMessage
    try {
      message = deserializeMessage(line)
    } catch {
      void this.#tellOfFault(line)
      return
    }
    // A subscription is answered when it ends, which nobody waits for.
    if (isJSONRPCRequest(message) && message.method !== 'subscriptions/listen')
      this.unanswered.add(message.id)
    else if ('method' in message && message.method === 'notifications/cancelled') {
      this.unanswered.delete(message.params?.requestId as RequestId)
    }
    this.onmessage?.(message)
  }

  async #tellOfFault(line: string): Promise<void> {
    const fault = await faultIn(line)
    this.#log.warn('a line on standard input is no JSON-RPC message', {
      length: line.length,
      ...(fault && { fault: faultText(fault) }),
    })
  }
}
