/**
 * MCP requests over HTTP without a session: requests of the modern era, and legacy calls without a session id.
 */
import { createMcpHandler, type McpHttpHandler } from '@modelcontextprotocol/server'
import { Delivery } from '../model/call.ts'
import type { Principal } from '../model/principal.ts'
import { endsWithin } from '../platform/clock.ts'
import { RoomPart } from '../platform/runtime.ts'
import { releaseBody } from '../server/body.ts'
import { beginStream } from '../server/limits.ts'
import { openCallsOf } from '../server/open-calls.ts'
import type { McpShared, ServerFactory } from './context.ts'
import { closeWithKey, type RequestDeliveries, UnconfirmedAnswers, watchResponse } from './exchange.ts'
import type { Caller } from './sessions.ts'

/** How long the answer to a client that listens waits until changes are followed. */
const followWithinMs = 1000

export interface StatelessOptions extends Pick<McpShared, 'changes' | 'log'> {
  readonly servers: ServerFactory
  readonly exchanges: RequestDeliveries
  readonly maxBodyBytes: number
  /** For tests: see `UnconfirmedAnswers`. */
  readonly confirmMs?: number | undefined
}

/** The handlers of one caller. */
interface HandlerPair {
  readonly plain: McpHttpHandler
  /**
   * For calls of tools, which may wait for minutes: its stream starts immediately and shows life, so that no
   * proxy cuts the connection.
   */
  readonly streaming: McpHttpHandler
}

/** Handlers by caller: each announces only the changes that its caller may see. */
export class StatelessRequests extends RoomPart<StatelessOptions> {
  readonly #handlers = new Map<Principal, HandlerPair>()
  /** Without a session, only the next request on the same connection is a sign of life. */
  readonly #unconfirmed = new UnconfirmedAnswers(() => false, this.ports.confirmMs)

  async answer(request: Request, { by, connection }: Caller, parsedBody?: unknown): Promise<Response> {
    if (connection !== undefined) this.#unconfirmed.confirm({ body: parsedBody, connection })
    const method = (parsedBody as { method?: unknown } | undefined)?.method
    const isStream = method === 'subscriptions/listen' || method === 'events/stream'
    // An answer may be a stream that waits for a long call.
    const endStream = isStream ? beginStream(by) : openCallsOf(by).hold()
    // The shutdown does not wait for subscriptions.
    const exchange = isStream ? new Delivery() : this.ports.exchanges.open(request)
    const { plain, streaming } = this.#handlersOf(by)
    const handler = method === 'tools/call' ? streaming : plain
    const end = () => {
      releaseBody(request)
      endStream()
    }
    let response: Response
    try {
      response = await handler.fetch(request, parsedBody === undefined ? {} : { parsedBody })
      // The answer says that the client listens. A store that does not answer holds up no client.
      if (isStream) await endsWithin(followWithinMs, this.ports.changes.followed(by))
    } catch (error) {
      end()
      throw error
    }
    return watchResponse(response, {
      signal: request.signal,
      isCounted: () => exchange.isAwaited,
      onChunk: () => this.ports.exchanges.noteRead(request),
      onWritten: () => {
        end()
        // Nothing confirms an answer whose connection is not known.
        this.#unconfirmed.add(exchange, { connection: connection ?? exchange })
      },
      onLost() {
        end()
        exchange.report(false)
      },
    })
  }

  /** Same as `McpSessions.stop`. */
  stop(): void {
    this.#unconfirmed.end(false)
  }

  #handlersOf(by: Principal): HandlerPair {
    const known = this.#handlers.get(by)
    if (known) return known
    const pair = { plain: this.#createHandler(by, 'auto'), streaming: this.#createHandler(by, 'sse') }
    this.#handlers.set(by, pair)
    closeWithKey(by, () => {
      this.#handlers.delete(by)
      return closePair(pair)
    })
    return pair
  }

  #createHandler(by: Principal, responseMode: 'auto' | 'sse'): McpHttpHandler {
    const { changes, log, maxBodyBytes, servers } = this.ports
    return createMcpHandler(
      ({ era, requestInfo: request }) => {
        const closed = request?.signal ?? new AbortController().signal
        return servers(request, { by, era, lasting: false, closed })
      },
      {
        responseMode,
        maxRequestBodySize: maxBodyBytes,
        onerror: error => log.debug('mcp', { error }),
        bus: {
          publish() {},
          subscribe: listener =>
            changes.subscribe(by, change =>
              listener(
                change.kind === 'updated'
                  ? { kind: 'resource_updated', uri: change.uri }
                  : { kind: 'resources_list_changed' },
              ),
            ),
        },
      },
    )
  }

  async close(): Promise<void> {
    await Promise.all([...this.#handlers.values()].map(closePair))
  }
}

const closePair = ({ plain, streaming }: HandlerPair) => Promise.all([plain.close(), streaming.close()])
