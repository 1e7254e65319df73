/**
 * Serves a fetch handler on Bun or Deno: request bodies are streamed with back-pressure, connections without
 * an accepted call have deadlines, and a stop always ends.
 *
 * What a connection may do on Bun 1.4.5, as measured (its timers tick every 4 s):
 * - Before its first request no handler sees it. Bun closes it after 12 s: with no byte, with half a header,
 *   or with a header that drips. Until then it costs an open file: keep `ulimit -Hn` above what strangers can
 *   hold open (Bun raises the soft limit).
 * - After a request it may be silent for `strangerSeconds`, also within a body, which must come at a fair
 *   pace.
 * - An accepted call waits as long as it takes. The reader of its body sets a deadline (`server/body.ts`).
 *   Its response may stand still for `defaultAnswerSeconds`, so a reader of 10 KB/s or more is never cut off.
 * - Pipelined requests are answered in order while each response is there at once. Behind a response that
 *   waits or is still being written, Bun closes the connection with a FIN, and no handler sees the next
 *   request. Deno answers all.
 *
 * Deno 2.9.6 has no such deadlines and cannot close a connection: put a proxy in front of it where strangers
 * may connect.
 */
import process from 'node:process'
import type { LiveCertificate } from './certificate.ts'
import { endsWithin } from './clock.ts'
import { type Listener, openListeners } from './listeners.ts'

export interface ServeOptions {
  hostname: string
  /** 0 picks a free port. */
  port: number
  /** The path of a Unix socket that only this user may open. Replaces host and port. */
  socket?: string
  /** Serves https instead of http; not on a socket. */
  certificate?: LiveCertificate | undefined
  /** Returns the response; must not throw. */
  fetch(request: Request, peer: Peer): Response | Promise<Response>
  /** For tests: how many seconds a response may stand still. */
  answerSeconds?: number
}

/** The other end of a request. */
export interface Peer {
  /** Its IP address; absent when it has already disconnected. */
  readonly remoteAddress?: string
  /** Its connection: the address with the port. Absent as the address is, and on a Unix socket. */
  readonly connection?: string
  /** Accepts this call: the limits for strangers at the top of this file no longer apply to it. */
  accept(): void
}

/**
 * A connection whose last call was not accepted is closed after this many seconds of silence, together with
 * that call.
 */
const strangerSeconds = 10
/**
 * A response is given up, with its connection, after this many seconds in which nothing of it could be
 * written; 255 is the maximum. The kernel asks for more only when a third of its buffer is free: for a reader
 * of 16 KB/s that was every 69 s.
 */
const defaultAnswerSeconds = 240

export interface RunningServer {
  /** `http://host:port` or `https://…`, with the host as it can be typed; `unix:<path>` for a socket. */
  readonly url: string
  readonly hostname: string
  readonly port: number
  /**
   * Accepts no new calls, lets running ones finish for `graceMs`, then cuts them off. Resolves within
   * `graceMs` + 1 s.
   */
  stop(graceMs: number): Promise<void>
}

/**
 * @throws Error with `code` EADDRINUSE, EACCES, EADDRNOTAVAIL … when it cannot listen; EEXIST when `socket`
 *   is not a socket
 */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const { socket } = options
  const start = process.versions.bun ? serveOnBun : serveOnDeno
  if (socket === undefined) return start(options)
  // Loaded on use: node:net is 1 ms of a start.
  const { clearSocket, trackSocket, runPrivately } = await import('./socket-file.ts')
  await clearSocket(socket)
  const server = runPrivately(() => start(options))
  const remove = await trackSocket(socket)
  return {
    ...server,
    url: `unix:${socket}`,
    stop: graceMs => server.stop(graceMs).finally(remove),
  }
}

/** Returns the URL of a host and port. */
export const formatUrl = (hostname: string, port: number, isSecure: boolean): string =>
  `http${isSecure ? 's' : ''}://${hostname.includes(':') ? `[${hostname}]` : hostname}:${port}`

/**
 * Returns the URL in a form that this machine can open. Matters where the server listens on all addresses.
 */
export const toReachableUrl = (url: string): string =>
  url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')

/**
 * Whether a host name or address always means this machine. `0.0.0.0` and `::` do not: they listen to other
 * machines too.
 */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[(.*)\]$/, '$1')
  if (name === 'localhost' || name.endsWith('.localhost')) return true
  if (name === '::1' || name === '0:0:0:0:0:0:0:1') return true
  const v4 = /^(?:::ffff:)?127\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(name)
  return v4?.slice(1).every(part => Number(part) <= 255) === true
}

/**
 * Size of the pieces for a Deno stream, in bytes. The server may hold one piece while it asks for the next.
 */
const pieceBytes = 64 * 1024

/**
 * Marks an accepted request whose connection shows how far a response is: over TCP on Bun. A property of the
 * request, because a weak map costs more.
 */
const peerOf = Symbol('peer')
interface AcceptedRequest extends Request {
  [peerOf]?: BunPeer
}

/**
 * Reports what happened to the response that the caller is about to return, which must not be a stream: true
 * when the kernel has taken every byte and the client was still there, false when the client left first. The
 * server does not stop before it is known.
 *
 * @returns undefined where this cannot be known
 */
export const waitUntilWritten = (request: AcceptedRequest): Promise<boolean> | undefined =>
  request[peerOf]?.waitUntilWritten()

/**
 * Splits bytes for a stream whose progress matters. On Bun a chunk of any size is in the kernel when the next
 * one is requested. Deno 2.9.6 takes even 60 MB into its own memory at once.
 */
export function* piecesOf(bytes: Uint8Array): Generator<Uint8Array, undefined> {
  if (process.versions.bun && bytes.length > 0) yield bytes
  else for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes)
}

/** Bytes given to the runtime are in the kernel after this time. */
const flushMs = 2
/**
 * Deno 2.9.6 holds up to half a megabyte of a stream while its reader stands still, and does not report a
 * reader that left.
 */
const longFlushMs = 1000

/**
 * Returns after how many ms a stream of this size is in the kernel, counted from when its last piece was
 * taken.
 */
export const flushMsOf = (bytes: number): number =>
  process.versions.bun || bytes <= pieceBytes ? flushMs : longFlushMs

/**
 * RFC 9112 3.2: a request without exactly one usable Host gets 400. Bun 1.4.5 joins several with a comma, and
 * takes the address from the Host even if the target is absolute. Deno 2.9.6 rejects several and passes such
 * a target on.
 */
function createHostCheck(): (request: Request) => Response | undefined {
  // Clients send the same Host each time, and no path can make it invalid: the last good one is not parsed
  // again.
  let goodOrigin: string | undefined
  let goodHost: string | null = null
  return request => {
    const { url } = request
    const host = request.headers.get('host')
    if (goodOrigin !== undefined && host === goodHost && url.startsWith(goodOrigin)) return undefined
    if (host && !/[\s,/?#@\\]/.test(host) && URL.canParse(url)) {
      const { protocol, host: target } = new URL(url)
      if (target === URL.parse(`${protocol}//${host}`)?.host) {
        goodOrigin = `${protocol}//${target}/`
        goodHost = host
        return undefined
      }
    }
    return new Response('400 Bad Request: expected one Host header, which names the host of the target\n', {
      status: 400,
      headers: { 'content-type': 'text/plain; charset=utf-8', connection: 'close' },
    })
  }
}

/** How long to wait for the runtime to cut off connections. */
const cutMs = 1000

/** Makes a stop that always ends, whatever the runtime waits for, and that may be called again. */
function createStop({ finish, cut }: Pick<Listener, 'finish' | 'cut'>): RunningServer['stop'] {
  const stop = async (graceMs: number) => {
    if (!(await endsWithin(graceMs, finish()))) await endsWithin(cutMs, cut())
  }
  let stopped: Promise<void> | undefined
  return graceMs => {
    stopped ??= stop(graceMs)
    return stopped
  }
}

function serveOnBun(options: ServeOptions): RunningServer {
  const checkHost = createHostCheck()
  const { socket, hostname } = options
  const state: BunServerState = {
    answerSeconds: options.answerSeconds ?? defaultAnswerSeconds,
    pending: new Set(),
    // A Unix socket has no addresses.
    ...(socket === undefined && { watched: new Set() }),
  }
  const start = (port: number, tls?: { cert: string; key: string }): Listener => {
    const own = { isOld: false }
    const common = {
      development: false as const,
      // The REST and MCP handlers count body bytes themselves.
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      fetch(request: Request, running: BunServer) {
        const rejection = checkHost(request)
        if (rejection) return rejection
        const peer = new BunPeer(running, request, state, own)
        const { held } = listeners
        const answer = held ? held.then(() => options.fetch(request, peer)) : options.fetch(request, peer)
        return answer instanceof Promise ? answer.then(peer.finish) : peer.finish(answer)
      },
    }
    const server =
      socket === undefined
        ? // Without `reusePort: false`, `development: false` shares the port with any other such server (Bun 1.4.5).
          Bun.serve({ ...common, hostname, port, tls, reusePort: false, idleTimeout: strangerSeconds })
        : Bun.serve({ ...common, unix: socket })
    return {
      port: server.port ?? port,
      finish() {
        own.isOld = true
        return server.stop(false)
      },
      cut: () => server.stop(true),
    }
  }
  const listeners = openListeners(start, options.port, options.certificate)
  const liftTimer = setInterval(() => {
    for (const peer of state.pending) peer.liftLimit()
  }, state.answerSeconds * 250)
  liftTimer.unref()
  const stop = createStop({
    async finish() {
      await listeners.finish()
      await Promise.all(state.watched ?? [])
    },
    cut: listeners.cut,
  })
  const { port } = listeners
  return {
    url: formatUrl(hostname, port, options.certificate !== undefined),
    hostname,
    port,
    stop: graceMs => stop(graceMs).finally(() => clearInterval(liftTimer)),
  }
}

interface BunServer {
  requestIP(request: Request): { address: string; port: number } | null
  timeout(request: Request, seconds: number): void
}

/** What all connections of one server share. */
interface BunServerState {
  answerSeconds: number
  /** Accepted calls without a response yet. */
  pending: Set<BunPeer>
  /** Responses whose completion is watched; absent where it cannot be known. */
  watched?: Set<Promise<boolean>>
}

/**
 * If a response ended because its client hung up, the signal aborts within this time: 1.4 ms on a busy
 * machine.
 */
const hangUpMs = 5
/** Longest interval between two checks of a response that waits for its reader. */
const pollEveryMs = 50

/** Reads the address only when it is needed: that costs a tenth of a small request. */
class BunPeer implements Peer {
  readonly #server: BunServer
  readonly #request: AcceptedRequest
  readonly #state: BunServerState
  readonly #listener: { readonly isOld: boolean }
  #lifted = false
  #isAnswered = false

  constructor(
    server: BunServer,
    request: Request,
    state: BunServerState,
    listener: { readonly isOld: boolean },
  ) {
    this.#server = server
    this.#request = request
    this.#state = state
    this.#listener = listener
  }

  get remoteAddress(): string | undefined {
    return this.#server.requestIP(this.#request)?.address
  }

  get connection(): string | undefined {
    const found = this.#server.requestIP(this.#request)
    return found ? `${found.address} ${found.port}` : undefined
  }

  accept(): void {
    // It would be pending for ever.
    if (this.#isAnswered) return
    this.#server.timeout(this.#request, this.#state.answerSeconds)
    this.#state.pending.add(this)
    if (this.#state.watched) this.#request[peerOf] = this
  }

  /** See `waitUntilWritten`. */
  waitUntilWritten(): Promise<boolean> {
    const { watched } = this.#state
    const written = this.#pollWritten().finally(() => watched?.delete(written))
    watched?.add(written)
    return written
  }

  /**
   * Bun 1.4.5 reports an address for as long as the response is being written: for 30 MB to a slow reader
   * until the kernel has taken the last byte, and for a reader that resets until the reset. The signal aborts
   * a moment later.
   */
  async #pollWritten(): Promise<boolean> {
    for (let waitMs = flushMs; ; waitMs = Math.min(waitMs * 2, pollEveryMs)) {
      await new Promise(resolve => setTimeout(resolve, waitMs))
      if (this.remoteAddress === undefined) break
    }
    await new Promise(resolve => setTimeout(resolve, hangUpMs))
    await new Promise(resolve => setImmediate(resolve))
    return !this.#request.signal.aborted
  }

  /**
   * Removes the time limit of a slow call. Most calls end before this: each use of the runtime's timer costs
   * 1 µs.
   */
  liftLimit(): void {
    this.#lifted = true
    this.#server.timeout(this.#request, 0)
  }

  /** From now on Bun's limit applies between two bytes, and until the next request on the connection. */
  readonly finish = (answer: Response): Response => {
    this.#isAnswered = true
    this.#state.pending.delete(this)
    if (this.#lifted) this.#server.timeout(this.#request, this.#state.answerSeconds)
    return this.#listener.isOld ? withLastHeader(answer) : answer
  }
}

interface DenoServer {
  readonly addr: { port?: number }
  shutdown(): Promise<void>
}
interface DenoAddress {
  hostname?: string
  port?: number
}
interface DenoRuntime {
  serve(
    options: ({ hostname: string; port: number; cert?: string; key?: string } | { path: string }) & {
      onListen(): void
    },
    handler: (request: Request, info: { remoteAddr: DenoAddress }) => Response | Promise<Response>,
  ): DenoServer
}

function serveOnDeno(options: ServeOptions): RunningServer {
  const { Deno } = globalThis as { Deno?: DenoRuntime }
  if (!Deno) throw new Error('svc runs on Bun or Deno')
  const validateHost = createHostCheck()
  silenceAbortWarning()
  const { certificate, hostname, socket } = options
  const answer = async (
    request: Request,
    { remoteAddr: { hostname: remoteAddress, port: remotePort } }: { remoteAddr: DenoAddress },
    listener: { readonly isOld: boolean },
  ) => {
    // Deno 2.9 aborts the request's own signal after every response, also after a complete one. Before the
    // response it means that the client left. After it, the stream's cancellation shows that.
    const clientGone = new AbortController()
    const onLeave = () => clientGone.abort(request.signal.reason)
    request.signal.addEventListener('abort', onLeave, { once: true })
    // On a Unix socket, request URLs begin with http+unix.
    const plain = socket === undefined ? request : new Request(request.url.replace('+unix', ''), request)
    const own = new Request(plain, { signal: clientGone.signal })
    // Over TLS, Deno also speaks HTTP/2, which names the host outside the headers.
    if (certificate && !own.headers.has('host')) own.headers.set('host', new URL(own.url).host)
    if (listeners.held) await listeners.held
    const found =
      validateHost(own) ??
      (await options.fetch(own, {
        remoteAddress,
        ...(remotePort !== undefined && { connection: `${remoteAddress} ${remotePort}` }),
        accept() {},
      }))
    request.signal.removeEventListener('abort', onLeave)
    const isLive = found.body && found.headers.get('content-type')?.startsWith('text/event-stream')
    const live = isLive ? new Response(withCancellation(found.body, clientGone), found) : found
    return listener.isOld ? withLastHeader(live) : live
  }
  const start = (port: number, tls?: { cert: string; key: string }): Listener => {
    const place = socket === undefined ? { hostname, port, ...tls } : { path: socket }
    const own = { isOld: false }
    const server = Deno.serve({ ...place, onListen() {} }, (request, info) => answer(request, info, own))
    let ended: Promise<void> | undefined
    return {
      port: server.addr.port ?? port,
      finish() {
        own.isOld = true
        ended ??= server.shutdown()
        return ended
      },
      // Aborting after a shutdown is an uncaught BadResource in Deno 2.9.6. Calls that still run end with the
      // process.
      async cut() {},
    }
  }
  const listeners = openListeners(start, options.port, certificate)
  const { port } = listeners
  return {
    url: formatUrl(hostname, port, certificate !== undefined),
    hostname,
    port,
    stop: createStop(listeners),
  }
}

/**
 * Tells a client that the connection ends with this response: the runtime closes it without a word, and the
 * client could already write its next call.
 */
function withLastHeader(found: Response): Response {
  // The headers of a response that was fetched elsewhere cannot be changed under Deno.
  const last = process.versions.bun ? found : new Response(found.body, found)
  last.headers.set('connection', 'close')
  return last
}

/** Returns the same stream, and aborts `onCancel` when its reader cancels it. */
function withCancellation(
  body: ReadableStream<Uint8Array>,
  onCancel: AbortController,
): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await reader.read()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      cancel(reason) {
        onCancel.abort(reason)
        return reader.cancel(reason)
      },
    },
    { highWaterMark: 0 },
  )
}

/**
 * Deno warns once about that abort. A person who runs svc cannot do anything about it, so the warning is
 * hidden.
 */
function silenceAbortWarning(): void {
  const { warn } = console
  console.warn = (...values: unknown[]) => {
    if (String(values[0]).startsWith('Deno.serve: request.signal aborts')) console.warn = warn
    else warn(...values)
  }
}
