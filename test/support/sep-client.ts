/**
 * A client of MCP Events for poll and push over Streamable HTTP, written from the text of SEP-3415 alone. Sections in
 * quotes are those of the SEP. It throws where an answer breaks a rule of the SEP.
 */

// biome-ignore lint/suspicious/noExplicitAny: tests read any field of an answer
type Json = any

const extension = 'io.modelcontextprotocol/events'
const subscriptionId = 'io.modelcontextprotocol/subscriptionId'

/** "Error Handling". */
export const errorCodes = {
  InvalidParams: -32602,
  NotFound: -32023,
  Forbidden: -32024,
  MethodNotFound: -32601,
}

/** "Listing Available Events". */
export interface EventType {
  name: string
  delivery: ('poll' | 'push' | 'webhook')[]
  inputSchema: object
  payloadSchema: object
}

/** "Event Occurrences". `cursor` is there in push alone. */
export interface Occurrence {
  eventId: string
  name: string
  /** ISO 8601. */
  timestamp: string
  data: Json
  cursor?: string | null
}

/** "Cursor Lifecycle": without a cursor, or with null, a subscription starts from now. */
export interface Subscription {
  name: string
  arguments?: Json
  cursor?: string | null
  maxAgeMs?: number
}

/** "Poll-Based Delivery", response. */
export interface Polled {
  events: Occurrence[]
  cursor: string | null
  truncated: boolean
  hasMore: boolean
  nextPollMs: number
}

/** "Push-Based Delivery": the notifications of a stream, without their prefix `notifications/events/`. */
export type Pushed =
  | { kind: 'active'; cursor?: string | null; truncated: boolean }
  | ({ kind: 'event' } & Occurrence)
  | { kind: 'heartbeat'; cursor?: string | null }
  | { kind: 'error' | 'terminated'; error: { code: number; message: string; data?: Json } }

export interface EventStream extends AsyncDisposable {
  /**
   * Position to go on from: that of the newest confirmation, event or heartbeat. "Cursor advancement", "Cursor
   * advancement without events".
   */
  readonly cursor: string | null
  /** True after the empty result that may close a stream. "Lifecycle", stream termination. */
  readonly closed: boolean
  /** Returns the next notification; undefined at the end. */
  next(): Promise<Pushed | undefined>
  /** Returns the next event; skips heartbeats. @throws if the stream ends, fails, or has a gap */
  event(): Promise<Occurrence>
  /** Ends the subscription by aborting the request. "Lifecycle", cancellation. */
  cut(): void
}

/** A JSON-RPC error, or an answer of HTTP that has none; then `code` is undefined. */
export class EventsError extends Error {
  readonly status: number
  readonly code: number | undefined
  readonly data: Json

  constructor(status: number, error: { code?: number; message?: string; data?: Json } = {}) {
    super(`${status}: ${error.code}: ${error.message}`)
    this.status = status
    this.code = error.code
    this.data = error.data
  }
}

/** @param url address of the MCP endpoint @param key bearer token */
export function sepClient(url: string, key: string) {
  let lastId = 0

  async function post(method: string, id: number, params: object, signal?: AbortSignal): Promise<Response> {
    // "Capability Negotiation": the client declares the extension in each request.
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'sep', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': { extensions: { [extension]: {} } },
    }
    return await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': method,
        authorization: `Bearer ${key}`,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id, method, params: { ...params, _meta } }),
      ...(signal && { signal }),
    })
  }

  /** Sends a request. "Specification": each result is complete. @throws EventsError */
  async function request(method: string, params: object = {}): Promise<Json> {
    const id = ++lastId
    const answer = await resultOf(await post(method, id, params))
    must(answer.id === id, 'the answer has the id of the request', answer)
    must(answer.result.resultType === 'complete', 'a result is complete', answer)
    return answer.result
  }

  async function poll(subscription: Subscription & { maxEvents?: number }): Promise<Polled> {
    const polled = await request('events/poll', subscription)
    must(Array.isArray(polled.events), 'events is a list', polled)
    for (const flag of ['truncated', 'hasMore']) must(typeof polled[flag] === 'boolean', flag, polled)
    must(Number.isInteger(polled.nextPollMs), 'nextPollMs is a number', polled)
    return polled
  }

  return {
    request,
    poll,

    /** Returns the settings of the extension; undefined if the server does not offer it. */
    async settings(): Promise<{ listChanged?: boolean } | undefined> {
      return (await request('server/discover')).capabilities.extensions?.[extension]
    },

    /** All event types, of every page. "Listing Available Events". */
    async list(): Promise<EventType[]> {
      const types: EventType[] = []
      for (let cursor: string | undefined; ; ) {
        const page = await request('events/list', cursor === undefined ? {} : { cursor })
        types.push(...page.events)
        cursor = page.nextCursor
        if (cursor === undefined) return types
      }
    },

    /** Polls at once for as long as there is more. "Poll-Based Delivery", hasMore. */
    async *pages(subscription: Subscription & { maxEvents?: number }): AsyncGenerator<Polled> {
      for (let { cursor } = subscription; ; ) {
        const page = await poll({ ...subscription, cursor })
        yield page
        cursor = page.cursor
        if (!page.hasMore) return
      }
    },

    /**
     * Opens a stream. "Event delivery": a wrong subscription fails before there is a stream, and the first notification
     * confirms it.
     *
     * @throws EventsError
     */
    async stream(subscription: Subscription): Promise<EventStream & { active: Pushed & { kind: 'active' } }> {
      const id = ++lastId
      const leave = new AbortController()
      const response = await post('events/stream', id, subscription, leave.signal)
      if (!response.headers.get('content-type')?.startsWith('text/event-stream'))
        throw new Error(`no stream: ${JSON.stringify(await resultOf(response))}`)
      const stream = streamOver(response, id, subscription.cursor ?? null, () => leave.abort())
      const active = await stream.next()
      if (active?.kind !== 'active') throw new Error(`not confirmed: ${JSON.stringify(active)}`)
      return Object.assign(stream, { active })
    },
  }
}

export type SepClient = ReturnType<typeof sepClient>

function streamOver(response: Response, id: number, from: string | null, abort: () => void): EventStream {
  let cursor = from
  let closed = false
  const messages = messagesOf(response)

  async function next(): Promise<Pushed | undefined> {
    const message = (await messages.next().catch(() => undefined))?.value
    if (message === undefined) return undefined
    must(!closed, 'nothing follows the result', message)
    if ('result' in message) {
      must(
        message.id === id && message.result._meta[subscriptionId] === id,
        'the result of the stream',
        message,
      )
      closed = true
      return next()
    }
    const kind = /^notifications\/events\/(active|event|heartbeat|error|terminated)$/.exec(
      message.method,
    )?.[1]
    must(kind !== undefined, 'a stream has notifications of its subscription alone', message)
    must(message.params._meta?.[subscriptionId] === id, 'a notification names its subscription', message)
    if (kind === 'active') must(typeof message.params.truncated === 'boolean', 'truncated', message)
    if ('cursor' in message.params) cursor = message.params.cursor
    const { _meta, ...params } = message.params
    return { kind, ...params }
  }

  return {
    get cursor() {
      return cursor
    },
    get closed() {
      return closed
    },
    next,
    async event() {
      for (;;) {
        const pushed = await next()
        if (pushed?.kind === 'event') return pushed
        if (pushed?.kind !== 'heartbeat') throw new Error(`not an event: ${JSON.stringify(pushed)}`)
      }
    },
    cut: abort,
    async [Symbol.asyncDispose]() {
      abort()
    },
  }
}

/** The messages of a stream. "Lifecycle", heartbeat: each is an SSE frame with data; comments carry none. */
async function* messagesOf(response: Response): AsyncGenerator<Json, undefined> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body!) {
    text += decoder.decode(chunk, { stream: true })
    const frames = text.split(/\r?\n\r?\n/)
    text = frames.pop()!
    for (const frame of frames) {
      const lines = frame.split(/\r?\n/).filter(line => line.startsWith('data:'))
      if (lines.length > 0) yield JSON.parse(lines.map(line => line.slice(5)).join('\n'))
    }
  }
}

async function resultOf(response: Response): Promise<Json> {
  const text = await response.text()
  const answer = text.startsWith('{') ? JSON.parse(text) : undefined
  if (answer?.result === undefined) throw new EventsError(response.status, answer?.error)
  return answer
}

function must(holds: boolean, rule: string, message: Json): asserts holds {
  if (!holds) throw new Error(`${rule}: ${JSON.stringify(message)}`)
}
