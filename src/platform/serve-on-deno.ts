/**
 * Serves on Deno. Deno 2.9.6 has no deadlines for strangers and cannot close a connection: put a proxy in front of it
 * where strangers may connect.
 */
import {
  createHostCheck,
  createStop,
  formatUrl,
  type RunningServer,
  type ServeOptions,
  withLastHeader,
} from './http-server.ts'
import { type Listener, openListeners } from './listeners.ts'
import { streamOnDemand } from './streams.ts'

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

export function serveOnDeno(options: ServeOptions): RunningServer {
  const { Deno } = globalThis as { Deno?: DenoRuntime }
  if (!Deno) throw new Error('svc runs on Bun or Deno')
  const validateHost = createHostCheck()
  silenceAbortWarning()
  const { certificate, hostname, socket } = options
  let isDraining = false
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
    const response =
      validateHost(own) ??
      (await options.fetch(own, {
        remoteAddress,
        ...(remotePort !== undefined && { connection: `${remoteAddress} ${remotePort}` }),
        accept() {},
      }))
    request.signal.removeEventListener('abort', onLeave)
    const isLive = response.body && response.headers.get('content-type')?.startsWith('text/event-stream')
    const live = isLive ? new Response(withCancellation(response.body, clientGone), response) : response
    return listener.isOld || isDraining ? withLastHeader(live) : live
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
    drain() {
      isDraining = true
    },
    stop: createStop(listeners),
  }
}

/** Returns the same stream, and aborts `onCancel` when its reader cancels it. */
function withCancellation(
  body: ReadableStream<Uint8Array>,
  onCancel: AbortController,
): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  return streamOnDemand({
    async pull(controller) {
      const { done, value } = await reader.read()
      if (done) controller.close()
      else controller.enqueue(value)
    },
    cancel(reason) {
      onCancel.abort(reason)
      return reader.cancel(reason)
    },
  })
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
