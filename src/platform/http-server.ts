/** What an HTTP server is on every runtime: its options, the checks of each request, and a stop that always ends. */
import process from 'node:process'
import type { LiveCertificate } from './certificate.ts'
import { endsWithin } from './clock.ts'
import type { Listener } from './listeners.ts'

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
  /** Address and port, which identify the connection; absent on a Unix socket, and once it has disconnected. */
  readonly connection?: string
  /** Accepts this call: the limits for strangers in `serve-on-bun.ts` no longer apply to it. */
  accept(): void
}

export interface RunningServer {
  /** `http://host:port` or `https://…`, with the host as it can be typed; `unix:<path>` for a socket. */
  readonly url: string
  readonly hostname: string
  readonly port: number
  /**
   * Ends each connection with its next response, so that its client connects again, to another node if there is one. Where
   * systemd holds the socket, new connections wait for the next process.
   */
  drain(): void
  /**
   * Accepts no new calls, lets running ones finish for `graceMs`, then cuts them off. Resolves within
   * `graceMs` + 1 s.
   */
  stop(graceMs: number): Promise<void>
}

/** Returns the URL of a host and port. */
export const formatUrl = (hostname: string, port: number, isSecure: boolean): string =>
  `http${isSecure ? 's' : ''}://${hostname.includes(':') ? `[${hostname}]` : hostname}:${port}`

/**
 * RFC 9112 3.2: a request without exactly one usable Host gets 400. Bun 1.4.5 joins several with a comma, and
 * takes the address from the Host even if the target is absolute. Deno 2.9.6 rejects several and passes such
 * a target on.
 */
export function createHostCheck(): (request: Request) => Response | undefined {
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
export function createStop({ finish, cut }: Pick<Listener, 'finish' | 'cut'>): RunningServer['stop'] {
  const stop = async (graceMs: number) => {
    if (!(await endsWithin(graceMs, finish()))) await endsWithin(cutMs, cut())
  }
  let stopped: Promise<void> | undefined
  return graceMs => {
    stopped ??= stop(graceMs)
    return stopped
  }
}

/**
 * Tells a client that the connection ends with this response: the runtime closes it without a word, and the
 * client could already write its next call.
 */
export function withLastHeader(response: Response): Response {
  // The headers of a response that was fetched elsewhere cannot be changed under Deno.
  const last = process.versions.bun ? response : new Response(response.body, response)
  last.headers.set('connection', 'close')
  return last
}
