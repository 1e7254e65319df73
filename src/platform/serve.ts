/**
 * A fetch handler as a listening server, on Bun or Deno: request bodies streamed with back-pressure, deadlines for callers
 * that were not accepted, and a stop that ends.
 *
 * What a connection may do on Bun 1.4.5, as measured (its timers tick every 4 s):
 * - Before its first request no handler sees it. Bun closes it after 12 s: with no byte, with half a header, and with one that
 *   drips. Until then it costs an open file: keep `ulimit -Hn` above what strangers can hold open (Bun raises the soft limit).
 * - After a request it may be silent for `strangerSeconds`, in a body too, which has to come at a fair pace.
 * - A call that was accepted waits as long as it takes. Its body has a deadline where it is read (`server/body.ts`), its
 *   answer may stand still for `usualAnswerSeconds`: a reader of 10 KB/s and more is never cut.
 * - Requests that are sent ahead (pipelining) are answered in order while each answer is there at once. Behind one that waits or
 *   is still written Bun closes the connection with a FIN, and no handler hears of the next request. Deno answers all.
 *
 * Deno 2.9.6 has no such deadlines, and no way to close a connection: put a proxy in front of it where strangers may come.
 */
import process from 'node:process'
import { endsWithin } from './clock.ts'

export interface ServeOptions {
  hostname: string
  /** 0 picks a free one. */
  port: number
  /** The path of a Unix socket, for this user alone, in place of the two. */
  socket?: string
  /** The answer; must not throw. */
  fetch(request: Request, peer: Peer): Response | Promise<Response>
  /** For tests: how long an answer may stand still. */
  answerSeconds?: number
}

/** Who is at the other end of a request. */
export interface Peer {
  /** Its IP; absent when it is gone already. */
  readonly remoteAddress?: string
  /** This call may take its time: what stands at the top of this file for strangers holds for it no more. */
  accept(): void
}

/** A connection whose last call was not accepted is closed after this, with that call. */
const strangerSeconds = 10
/**
 * An answer of which nothing could be written for so long is given up, with its connection; 255 is the most. The kernel
 * asks for more only when a third of what it holds is gone: of a reader of 16 KB/s that was heard every 69 s.
 */
const usualAnswerSeconds = 240

export interface RunningServer {
  /** `http://host:port`, the host as one may type it; `unix:<path>` of a socket. */
  readonly url: string
  readonly hostname: string
  readonly port: number
  /** Accepts no more, lets what runs finish for `graceMs`, then cuts it off. Resolves within `graceMs` + 1 s. */
  stop(graceMs: number): Promise<void>
}

/** @throws Error with `code` EADDRINUSE, EACCES, EADDRNOTAVAIL … when it cannot listen; EEXIST as of `clearSocket` */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const { socket } = options
  const start = process.versions.bun ? serveOnBun : serveOnDeno
  if (socket === undefined) return start(options)
  // Loaded on use: node:net is 1 ms of a start.
  const { clearSocket, ownSocket, privately } = await import('./socket-file.ts')
  await clearSocket(socket)
  const server = privately(() => start(options))
  const remove = await ownSocket(socket)
  return {
    ...server,
    url: `unix:${socket}`,
    stop: graceMs => server.stop(graceMs).finally(remove),
  }
}

const shownUrl = (hostname: string, port: number) =>
  `http://${hostname.includes(':') ? `[${hostname}]` : hostname}:${port}`

/** The address as this machine can open it, where `url` is bound to every address of it. */
export const reachable = (url: string): string =>
  url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')

/** Of what a stream of Deno's gives, this much may be held by the server while the next is asked for. */
const pieceBytes = 64 * 1024

/** Of an accepted request, where connections tell how far an answer is: over TCP on Bun. At the request, since a weak map is dearer. */
const peerOf = Symbol('peer')
interface Accepted extends Request {
  [peerOf]?: BunPeer
}

/**
 * Tells what became of the answer that is about to be given, one that is no stream: true when the kernel has taken every
 * byte and the caller was still there, false when the caller left first. The server waits for it before it has stopped.
 *
 * @returns undefined where nobody can tell
 */
export const whenWritten = (request: Accepted): Promise<boolean> | undefined => request[peerOf]?.written()

/**
 * Bytes for a stream of which one wants to know how far it got: on Bun a chunk is drained into the kernel when the next
 * is asked for, whatever its size. Deno 2.9.6 takes even 60 MB into its own memory at once.
 */
export function* piecesOf(bytes: Uint8Array): Generator<Uint8Array, undefined> {
  if (process.versions.bun && bytes.length > 0) yield bytes
  else for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes)
}

/** What is handed to the runtime is in the kernel after this. */
const flushMs = 2
/** Deno 2.9.6 keeps up to half a megabyte of a stream to itself while its reader stands still, and tells nobody when it has left. */
const longFlushMs = 1000

/** After so many ms a stream of so many bytes, whose last piece was taken, is in the kernel. */
export const flushMsOf = (bytes: number): number =>
  process.versions.bun || bytes <= pieceBytes ? flushMs : longFlushMs

/**
 * RFC 9112 3.2: a request without exactly one usable Host is answered with 400. Bun 1.4.5 joins several with a comma, and
 * takes the address from the Host whatever an absolute target says; Deno 2.9.6 refuses several and shows such a target.
 */
function hostCheck(): (request: Request) => Response | undefined {
  // Clients say the same Host each time, and after it no path can spoil an address: the last good one is not parsed again.
  let good: string | undefined
  let goodHost: string | null = null
  return request => {
    const { url } = request
    const host = request.headers.get('host')
    if (good !== undefined && host === goodHost && url.startsWith(good)) return undefined
    if (host && !/[\s,/?#@\\]/.test(host) && URL.canParse(url) && URL.canParse(`http://${host}`)) {
      const { protocol, host: target } = new URL(url)
      if (target === new URL(`http://${host}`).host) {
        good = `${protocol}//${target}/`
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

/** How long a cut-off may take until it is believed. */
const cutMs = 1000

/** A stop that ends, whatever the runtime waits for, and that may be asked for again. */
function stopOnce(finish: () => Promise<void>, cut: () => Promise<void>): RunningServer['stop'] {
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
  const refused = hostCheck()
  const { socket, hostname } = options
  const door: BunDoor = {
    answerSeconds: options.answerSeconds ?? usualAnswerSeconds,
    working: new Set(),
    // A Unix socket has no addresses.
    ...(socket === undefined && { watched: new Set() }),
  }
  const common = {
    development: false as const,
    // The doors count for themselves.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    fetch(request: Request, running: BunServer) {
      const bad = refused(request)
      if (bad) return bad
      const peer = new BunPeer(running, request, door)
      const answer = options.fetch(request, peer)
      return answer instanceof Promise ? answer.then(peer.answered) : peer.answered(answer)
    },
  }
  const server =
    socket === undefined
      ? // Without a word, `development: false` shares a port with any other server that does the same (Bun 1.4.5).
        Bun.serve({
          ...common,
          ...{ hostname, port: options.port, reusePort: false, idleTimeout: strangerSeconds },
        })
      : Bun.serve({ ...common, unix: socket })
  const lifting = setInterval(() => {
    for (const peer of door.working) peer.lift()
  }, door.answerSeconds * 250)
  lifting.unref()
  const stop = stopOnce(
    async () => {
      await server.stop(false)
      await Promise.all(door.watched ?? [])
    },
    () => server.stop(true),
  )
  const port = server.port ?? options.port
  return {
    url: shownUrl(hostname, port),
    ...{ hostname, port },
    stop: graceMs => stop(graceMs).finally(() => clearInterval(lifting)),
  }
}

interface BunServer {
  requestIP(request: Request): { address: string } | null
  timeout(request: Request, seconds: number): void
}

/** What the peers of one server share. */
interface BunDoor {
  answerSeconds: number
  /** Accepted, and not answered yet. */
  working: Set<BunPeer>
  /** The answers of which somebody wants to hear whether they were written; absent where nobody can tell. */
  watched?: Set<Promise<boolean>>
}

/** Within this the signal tells that an answer ended because its caller hung up: 1.4 ms on a busy machine. */
const hangUpMs = 5
/** An answer that waits for its reader is looked at as often, at least. */
const lookEveryMs = 50

/** Asks for the address only when somebody wants it: it costs a tenth of a small request. */
class BunPeer implements Peer {
  readonly #server: BunServer
  readonly #request: Accepted
  readonly #door: BunDoor
  #lifted = false

  constructor(server: BunServer, request: Request, door: BunDoor) {
    this.#server = server
    this.#request = request
    this.#door = door
  }

  get remoteAddress(): string | undefined {
    return this.#server.requestIP(this.#request)?.address
  }

  accept(): void {
    this.#server.timeout(this.#request, this.#door.answerSeconds)
    this.#door.working.add(this)
    if (this.#door.watched) this.#request[peerOf] = this
  }

  /** See `whenWritten`. */
  written(): Promise<boolean> {
    const { watched } = this.#door
    const written = this.#written().finally(() => watched?.delete(written))
    watched?.add(written)
    return written
  }

  /**
   * Bun 1.4.5 knows an address for as long as its answer is written: 30 MB to a slow reader until the kernel has taken the
   * last byte, and to one that resets until then. The signal tells of that a moment later.
   */
  async #written(): Promise<boolean> {
    for (let waitMs = flushMs; ; waitMs = Math.min(waitMs * 2, lookEveryMs)) {
      await new Promise(resolve => setTimeout(resolve, waitMs))
      if (this.remoteAddress === undefined) break
    }
    await new Promise(resolve => setTimeout(resolve, hangUpMs))
    await new Promise(resolve => setImmediate(resolve))
    return !this.#request.signal.aborted
  }

  /** It takes its time. Most are answered before they are asked this: the runtime's clock costs 1 µs a time. */
  lift(): void {
    this.#lifted = true
    this.#server.timeout(this.#request, 0)
  }

  /** From here on Bun counts from byte to byte, and until the next request on the connection. */
  readonly answered = (answer: Response): Response => {
    this.#door.working.delete(this)
    if (this.#lifted) this.#server.timeout(this.#request, this.#door.answerSeconds)
    return answer
  }
}

interface DenoServer {
  readonly addr: { port?: number }
  shutdown(): Promise<void>
}
interface DenoRuntime {
  serve(
    options: ({ hostname: string; port: number } | { path: string }) & { onListen(): void },
    handler: (request: Request, info: { remoteAddr: { hostname?: string } }) => Response | Promise<Response>,
  ): DenoServer
}

function serveOnDeno(options: ServeOptions): RunningServer {
  const { Deno } = globalThis as { Deno?: DenoRuntime }
  if (!Deno) throw new Error('svc runs on Bun or Deno')
  const refused = hostCheck()
  hushLegacyAbort()
  const { socket, hostname } = options
  const server = Deno.serve(
    { ...(socket === undefined ? { hostname, port: options.port } : { path: socket }), onListen() {} },
    async (request, info) => {
      // Deno 2.9 aborts the request's own signal after every answer, the good ones too: until there is an answer it means
      // that the client left, and from then on the stream's end tells its reader.
      const gone = new AbortController()
      const left = () => gone.abort(request.signal.reason)
      request.signal.addEventListener('abort', left, { once: true })
      // Of a socket its addresses begin with http+unix.
      const plain = socket === undefined ? request : new Request(request.url.replace('+unix', ''), request)
      const own = new Request(plain, { signal: gone.signal })
      const answer =
        refused(request) ??
        (await options.fetch(own, { remoteAddress: info.remoteAddr.hostname, accept() {} }))
      request.signal.removeEventListener('abort', left)
      const isLive = answer.body && answer.headers.get('content-type')?.startsWith('text/event-stream')
      return isLive ? new Response(cancelling(answer.body, gone), answer) : answer
    },
  )
  const port = server.addr.port ?? options.port
  return {
    url: shownUrl(hostname, port),
    ...{ hostname, port },
    stop: stopOnce(
      () => server.shutdown(),
      // Aborting after a shutdown is an uncaught BadResource in Deno 2.9.6; what still runs ends with the process.
      async () => {},
    ),
  }
}

/** The same stream, which aborts when nobody reads it any more. */
function cancelling(body: ReadableStream<Uint8Array>, gone: AbortController): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await reader.read()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      cancel(reason) {
        gone.abort(reason)
        return reader.cancel(reason)
      },
    },
    { highWaterMark: 0 },
  )
}

/** Deno warns of that abort once; a person who runs svc can do nothing about it. */
function hushLegacyAbort(): void {
  const { warn } = console
  console.warn = (...words: unknown[]) => {
    if (String(words[0]).startsWith('Deno.serve: request.signal aborts')) console.warn = warn
    else warn(...words)
  }
}
