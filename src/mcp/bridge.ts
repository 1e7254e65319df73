/** `svc mcp --url`: passes messages between a client on standard input and output and a running service. */
import process from 'node:process'
import { SdkHttpError, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import {
  isJSONRPCRequest,
  type JSONRPCMessage,
  type JSONRPCRequest,
  type RequestId,
} from '@modelcontextprotocol/server'
import { SvcError } from '../model/error.ts'
import { endsWithin } from '../platform/clock.ts'
import {
  fetchTrusting,
  isCertificateError,
  networkCodeOf,
  socketPathOf,
  toSocketOptions,
} from '../platform/fetch.ts'
import { parseFields } from '../platform/fields.ts'
import type { Log } from '../platform/log.ts'
import { reasonOf } from '../platform/system-error.ts'
import { LineTransport, type StdioServer, type StdioStreams } from './stdio.ts'

export interface BridgeOptions {
  /** Address of the service's MCP, such as `http://127.0.0.1:8000/mcp` or `unix:/run/svc.sock`. */
  readonly url: string
  readonly token: string | undefined
  /** SHA-256 of the service's certificate, if it is known. Else the usual checks apply. */
  readonly fingerprint?: string | undefined
  /** Consumer that `recv` uses at the service. */
  readonly consumer?: string
  readonly log: Log
  readonly streams?: StdioStreams
}

/** How long `close` waits for open answers, and for the end of the MCP session, in milliseconds. */
const graceMs = 1500
/**
 * Id of the bridge's own `initialize` request. Its answer is not passed on: the client has had one already.
 */
const reopenId = 'svc-bridge-again'
const bridgeErrorCode = -32000

/**
 * Bridges until the input ends or `close` is called. `ended` rejects with an SvcError if the service cannot
 * be used: it rejects the token, or it could not be reached from the start.
 */
export function bridgeMcp(options: BridgeOptions): StdioServer {
  const bridge = new Bridge(options)
  return { ended: bridge.run(), close: () => bridge.close() }
}

class Bridge {
  readonly #url: string
  readonly #log: Log
  readonly #client: LineTransport
  readonly #service: StreamableHTTPClientTransport
  /** Open requests of the client. Each controller aborts the connection of its request. */
  readonly #waiting = new Map<RequestId, AbortController>()
  /** Resolves with the reason if the service cannot be used. */
  readonly #unusable = Promise.withResolvers<SvcError>()
  /** The MCP session: the request that opens it. Other messages wait until it is `opened`. */
  readonly #session: { initialize?: JSONRPCRequest; opened: Promise<unknown>; isReopening: boolean } = {
    opened: Promise.resolve(),
    isReopening: false,
  }
  /** Whether the service has accepted a message. */
  #hasAccepted = false
  #closing: Promise<void> | undefined

  constructor({ url, token, fingerprint, consumer, log, streams }: BridgeOptions) {
    this.#url = url
    this.#log = log
    this.#client = new LineTransport(streams ?? { input: process.stdin, output: process.stdout }, log)
    const headers = new Headers(token === undefined ? {} : { authorization: `Bearer ${token}` })
    const socket = socketPathOf(url)
    // `through` is called once for all messages: under Deno each call of it makes its own connections.
    const socketOptions = socket === undefined ? {} : toSocketOptions(socket)
    const address = new URL(socket === undefined ? url : 'http://localhost/mcp')
    if (consumer !== undefined) address.searchParams.set('consumer', consumer)
    this.#service = new StreamableHTTPClientTransport(address, {
      requestInit: { headers },
      fetch: (to, init) =>
        fingerprint === undefined
          ? fetch(to, { ...init, ...socketOptions })
          : fetchTrusting(fingerprint, to, init ?? {}),
    })
    this.#service.onerror = error => {
      log.debug('mcp', { error })
      // The stream of a session ends with its key. Opening it again shows that.
      if (statusOf(error) === 401) this.#giveUp(error)
    }
  }

  async run(): Promise<void> {
    this.#service.onmessage = message => this.#passToClient(message)
    this.#client.onmessage = message => void this.#passToService(message as JSONRPCMessage)
    await this.#service.start()
    await this.#client.start()
    const error = await Promise.race([this.#client.ended, this.#unusable.promise])
    await this.close()
    if (error) throw error
  }

  close(): Promise<void> {
    this.#closing ??= (async () => {
      await this.#client.unanswered.whenEmpty(graceMs)
      // The service takes DELETE as a sign that the client has read its answers. A client that was killed has
      // not. The call fails if the service is gone; then there is no session to end.
      if (await this.#client.hasEndedInOrder())
        await endsWithin(
          graceMs,
          this.#service.terminateSession().catch(() => {}),
        )
      await this.#service.close()
      await this.#client.close()
    })()
    return this.#closing
  }

  /** Passes a message of the service to the client. */
  #passToClient(message: JSONRPCMessage): void {
    if (!('method' in message) && message.id !== undefined) {
      if ('result' in message && message.id === this.#session.initialize?.id) {
        const { protocolVersion } = message.result
        if (typeof protocolVersion === 'string') this.#service.setProtocolVersion(protocolVersion)
      }
      if (message.id === reopenId) return
      this.#waiting.delete(message.id)
    }
    void this.#client.send(message)
  }

  /** Passes a message of the client to the service. */
  async #passToService(message: JSONRPCMessage): Promise<void> {
    if (isJSONRPCRequest(message) && message.method === 'initialize') {
      this.#session.initialize = message
      this.#session.opened = this.#send(message)
      return
    }
    const isRequest = isJSONRPCRequest(message)
    // Registered before the wait for the session, so that it can be cancelled during the wait.
    if (isRequest) this.#waiting.set(message.id, new AbortController())
    await this.#session.opened
    if ('method' in message && message.method === 'notifications/cancelled') {
      const id = message.params?.requestId as RequestId
      const connection = this.#waiting.get(id)
      this.#waiting.delete(id)
      // A request outside a session is cancelled only by closing its connection.
      if (this.#service.sessionId !== undefined) await this.#send(message)
      connection?.abort()
    } else if (!isRequest || this.#waiting.has(message.id)) await this.#send(message)
  }

  /** Sends a message to the service. Never rejects: it answers a failed request with an error. */
  async #send(message: JSONRPCMessage, isSecondTry = false): Promise<void> {
    const id = isJSONRPCRequest(message) ? message.id : undefined
    const connection = (id !== undefined && this.#waiting.get(id)) || new AbortController()
    if (id !== undefined) this.#waiting.set(id, connection)
    try {
      await this.#service.send(message, {
        requestSignal: connection.signal,
        onRequestStreamEnd: () =>
          this.#answerWithError(id, 'the connection to the service broke before its answer'),
      })
      this.#hasAccepted = true
    } catch (error) {
      if (connection.signal.aborted) return
      const status = statusOf(error)
      const isSessionGone = status === 404 && this.#service.sessionId !== undefined
      if (isSessionGone && !isSecondTry && (await this.#reopenSession())) return this.#send(message, true)
      const { problem, hint } = describeFailure(error, this.#url)
      const isUnusable = status === 401 || (!this.#hasAccepted && [undefined, 403, 404].includes(status))
      if (isUnusable) this.#giveUp(error)
      else this.#log.warn(problem)
      this.#answerWithError(id, `${problem}. ${hint}`)
    }
  }

  /**
   * Opens a new session, as a restarted service may not know the old one.
   *
   * @returns whether a session is open again
   */
  async #reopenSession(): Promise<boolean> {
    const { sessionId } = this.#service
    const session = this.#session
    const { initialize } = session
    if (!initialize) return false
    if (!session.isReopening) {
      session.isReopening = true
      this.#log.info('opening a new session')
      session.opened = this.#service
        .send({ ...initialize, id: reopenId })
        .then(() => this.#service.send({ jsonrpc: '2.0', method: 'notifications/initialized' }))
        .catch(error => this.#log.debug('mcp', { error }))
        .finally(() => {
          session.isReopening = false
        })
    }
    await session.opened
    return this.#service.sessionId !== sessionId
  }

  #giveUp(error: unknown): void {
    const { problem, hint } = describeFailure(error, this.#url)
    for (const id of this.#waiting.keys()) this.#answerWithError(id, `${problem}. ${hint}`)
    const code = statusOf(error) === 401 ? 'unauthorized' : 'not_found'
    this.#unusable.resolve(new SvcError(code, problem, { hint }))
  }

  #answerWithError(id: RequestId | undefined, message: string): void {
    if (id === undefined || !this.#waiting.delete(id)) return
    void this.#client.send({ jsonrpc: '2.0', id, error: { code: bridgeErrorCode, message } })
  }
}

const statusOf = (error: unknown) => (error instanceof SdkHttpError ? error.status : undefined)

/** Describes why the service did not accept a message, and what to do. */
function describeFailure(error: unknown, url: string): { problem: string; hint: string } {
  if (!(error instanceof SdkHttpError))
    return {
      problem: `the service at ${url} cannot be reached: ${reasonOf(error)}`,
      hint: isCertificateError(networkCodeOf(error) ?? '')
        ? 'Use a host name that the certificate names, and name the file of its issuer in NODE_EXTRA_CA_CERTS. On the machine of the service, SVC_BASE_PATH with its data directory is enough.'
        : 'Start the service with svc openapi there, and check --url.',
    }
  const { status, text } = error.data
  if (status === 401)
    return {
      problem: `the service at ${url} needs a token, or rejects the one it got`,
      hint: 'Name the file of a key with --key-file, or set SVC_TOKEN to the token that the service was started with. If svc made the token, svc token prints it there.',
    }
  const body: { error?: { message?: string }; detail?: string; hint?: string } =
    parseFields(String(text)) ?? {}
  return {
    problem: `the service at ${url} answered with ${status}: ${body.error?.message ?? body.detail ?? 'no reason given'}`,
    hint: body.hint ?? 'Check --url. Example: http://127.0.0.1:8000/mcp.',
  }
}
