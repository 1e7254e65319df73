/** A client of MCP Events over HTTP, written from the text of SEP-3415 alone: poll, push, and the requests for webhooks. */
import { modernMeta, post } from './mcp-raw.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests read any field of an answer
export type Json = any

/** An error of the protocol, with its code and data. */
class RpcError extends Error {
  readonly code: number
  readonly data: Json

  constructor({ code, message, data }: Json) {
    super(message)
    this.code = code
    this.data = data
  }
}

export class EventsClient {
  readonly #url: string
  readonly #headers: Record<string, string>
  #id = 0

  /** @param session a session of an older revision; without it the client speaks that of 2026-07-28 */
  constructor(url: string, headers: Record<string, string> = {}, session?: Record<string, string>) {
    this.#url = url
    this.#headers = { ...headers, ...session }
    this.isModern = session === undefined
  }

  readonly isModern: boolean

  async #post(method: string, params: object, signal?: AbortSignal): Promise<Response> {
    const id = ++this.#id
    const modern = this.isModern && {
      _meta: modernMeta({ extensions: { 'io.modelcontextprotocol/events': {} } }),
    }
    const headers: Record<string, string> = this.isModern
      ? { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method }
      : {}
    return post(
      this.#url,
      { jsonrpc: '2.0', id, method, params: { ...params, ...modern } },
      { ...headers, ...this.#headers },
      signal,
    )
  }

  /** @throws RpcError */
  async call(method: string, params: object = {}): Promise<Json> {
    const response = await this.#post(method, params)
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream')
    const text = await response.text()
    const answer = isStream ? framesIn(text).at(-1) : JSON.parse(text)
    if (answer.error) throw new RpcError(answer.error)
    if (!response.ok) throw new RpcError({ code: response.status, message: text })
    return answer.result
  }

  /** Polls once. */
  poll(name: string, cursor: string | null = null, more: object = {}): Promise<Json> {
    return this.call('events/poll', { name, cursor, ...more })
  }

  /** Opens a stream. @throws RpcError if the server opens none */
  async stream(params: object): Promise<EventStream> {
    const abort = new AbortController()
    const response = await this.#post('events/stream', params, abort.signal)
    if (response.headers.get('content-type')?.startsWith('text/event-stream'))
      return new EventStream(response, abort)
    throw new RpcError(((await response.json()) as Json).error)
  }
}

const framesIn = (text: string): Json[] =>
  text
    .split('\n\n')
    .flatMap(frame => frame.split('\n').filter(line => line.startsWith('data:')))
    .map(line => line.slice(5).trim())
    .filter(line => line !== '')
    .map(line => JSON.parse(line))

/** The messages of a stream, one after the other. */
export class EventStream implements AsyncDisposable {
  readonly #reader: { read(): Promise<{ done: boolean; value?: Uint8Array | undefined }> }
  readonly #abort: AbortController
  readonly #decoder = new TextDecoder()
  #text = ''
  #messages: Json[] = []

  constructor(response: Response, abort: AbortController) {
    this.#reader = response.body!.getReader()
    this.#abort = abort
  }

  /** Returns the next message; undefined at the end of the stream. */
  async next(): Promise<Json | undefined> {
    while (this.#messages.length === 0) {
      const { done, value } = await this.#reader.read()
      if (done) return undefined
      this.#text += this.#decoder.decode(value, { stream: true })
      const end = this.#text.lastIndexOf('\n\n') + 2
      if (end < 2) continue
      this.#messages = framesIn(this.#text.slice(0, end))
      this.#text = this.#text.slice(end)
    }
    return this.#messages.shift()
  }

  /** Returns the params of the next notification of a kind, such as `event`; skips others. */
  async nextOf(kind: string): Promise<Json> {
    for (;;) {
      const message = await this.next()
      if (message === undefined) throw new Error(`the stream ended before ${kind}`)
      if (message.method === `notifications/events/${kind}`) return message.params
      if (message.error) throw new RpcError(message.error)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort()
  }
}
