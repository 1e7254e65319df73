/** Logs and measures the calls of an HTTP service. */
import type { Gateway } from '../gateway/gateway-api.ts'
import { formatPrincipal } from '../model/principal.ts'
import { LineLimit, type Log } from '../platform/log.ts'
import type { Peer } from '../platform/serve.ts'
import { addressOf } from './behind-proxy.ts'
import { principalOf, requestIdHeader, requestIdOf } from './caller.ts'
import { withRequestId } from './errors.ts'
import { pathOf } from './paths.ts'

export type RequestHandler = (request: Request, peer?: Peer) => Response | Promise<Response>

/** Like `RequestHandler`, with the request's path from `pathOf`. */
export type PathHandler = (
  request: Request,
  peer: Peer | undefined,
  path: string,
) => Response | Promise<Response>

/** Methods that metrics name. All others count as `other`, since a caller can invent methods. */
const knownMethods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
/** Maximum characters of a path in the log. */
const maxPathLength = 200
/** Limits the log lines about callers that are not accepted, for all services of the process. */
const unacceptedLines = new LineLimit()

/** A peer that remembers whether its call was accepted. */
class ObservedPeer implements Peer {
  readonly #peer: Peer | undefined
  #address: string | undefined
  isAccepted = false

  constructor(peer: Peer | undefined) {
    this.#peer = peer
  }

  get remoteAddress(): string | undefined {
    this.#address ??= this.#peer?.remoteAddress
    return this.#address
  }

  accept(): void {
    this.isAccepted = true
    this.#peer?.accept()
  }
}

/**
 * Wraps a service so that each call is logged and measured. All callers that are not accepted share ten
 * lines a second. The next line contains the number of calls without a line.
 *
 * @param routeOf returns the template of the route of a path, if there is one
 * @param isFile whether a path is a file of a page. A page loads many, so they are logged at level debug
 */
export function observeCalls(
  fetch: PathHandler,
  { gateway, log }: { gateway: Pick<Gateway, 'metrics'>; log: Log },
  routeOf: (path: string) => string | undefined,
  isFile: (path: string) => boolean = () => false,
): RequestHandler {
  return (request, caller) => {
    const began = performance.now()
    const peer = new ObservedPeer(caller)
    const { method } = request
    const path = pathOf(request.url)
    const id = requestIdOf(request)
    const record = (answer: Response): Response | Promise<Response> => {
      answer.headers.set(requestIdHeader, id)
      const route = routeOf(path)
      const { status } = answer
      const ms = performance.now() - began
      gateway.metrics.answered({
        method: knownMethods.has(method) ? method : 'other',
        route: route ?? 'none',
        status,
        ms,
      })
      const { passes, unlogged } = peer.isAccepted ? { passes: true } : unacceptedLines.next()
      // A proxy asks for the health of a node every second or two.
      const isQuiet = status < 400 && (path === '/healthz' || path === '/readyz' || isFile(path))
      const by = principalOf(request)
      if (passes)
        log[isQuiet ? 'debug' : 'info']('answered', {
          method,
          // Without the query, and without the ids of a known route: they reveal who talks to whom.
          path: route ?? path.slice(0, maxPathLength),
          status,
          ms: Math.round(ms * 10) / 10,
          request_id: id,
          caller: by && formatPrincipal(by),
          name: by?.name,
          address: addressOf(request, peer),
          unlogged,
        })
      return withRequestId(answer, id)
    }
    const answer = fetch(request, peer, path)
    return answer instanceof Promise ? answer.then(record) : record(answer)
  }
}
