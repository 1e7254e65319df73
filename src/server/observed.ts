/** What every HTTP door tells of a call once it is answered: a line in the log, and how long it took. */
import type { Gateway } from '../gateway/gateway-api.ts'
import { FewLines, type Log } from '../platform/log.ts'
import type { Peer } from '../platform/serve.ts'
import { pathOf } from './paths.ts'

export type Answering = (request: Request, peer?: Peer) => Response | Promise<Response>

/** The same for one whose path is known: as `pathOf` gives it. */
export type AnsweringAt = (
  request: Request,
  peer: Peer | undefined,
  path: string,
) => Response | Promise<Response>

/** Methods that are told apart; a caller can invent others. */
const known = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
const longestPath = 200
/** At all doors. */
const ofStrangers = new FewLines()

/** A peer of whom one sees whether its call was accepted. */
class ToldPeer implements Peer {
  readonly #peer: Peer | undefined
  isAccepted = false

  constructor(peer: Peer | undefined) {
    this.#peer = peer
  }

  get remoteAddress(): string | undefined {
    return this.#peer?.remoteAddress
  }

  accept(): void {
    this.isAccepted = true
    this.#peer?.accept()
  }
}

/**
 * Callers that are not accepted have ten lines a second together; the next one says how many calls have none.
 *
 * @param routeOf the template of the route that a path belongs to, if there is one
 * @param isFile whether it is one of a page's files: a page loads many, and they would fill the log
 */
export function observed(
  fetch: AnsweringAt,
  { gateway, log }: { gateway: Pick<Gateway, 'metrics'>; log: Log },
  routeOf: (path: string) => string | undefined,
  isFile: (path: string) => boolean = () => false,
): Answering {
  return (request, given) => {
    const began = performance.now()
    const peer = new ToldPeer(given)
    const { method } = request
    const path = pathOf(request.url)
    const told = (answer: Response): Response => {
      const route = routeOf(path)
      const { status } = answer
      const ms = performance.now() - began
      gateway.metrics.answered({
        method: known.has(method) ? method : 'other',
        route: route ?? 'none',
        status,
        ms,
      })
      const { passes, unlogged } = peer.isAccepted ? { passes: true } : ofStrangers.next()
      if (!passes) return answer
      // No query, and of a known route no ids: they say who talks to whom.
      const shown = route ?? path.slice(0, longestPath)
      const level = status < 400 && isFile(path) ? 'debug' : 'info'
      log[level]('answered', { method, path: shown, status, ms: Math.round(ms * 10) / 10, unlogged })
      return answer
    }
    const answer = fetch(request, peer, path)
    return answer instanceof Promise ? answer.then(told) : told(answer)
  }
}
