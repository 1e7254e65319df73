/** Tells browsers to use only https for this host from now on (HSTS, RFC 6797). */
import { isLoopback, type ServeOptions } from '../platform/serve.ts'

/** A year, in seconds. */
const maxAge = 365 * 24 * 60 * 60

function withHeader(answer: Response): Response {
  answer.headers.set('strict-transport-security', `max-age=${maxAge}`)
  return answer
}

/**
 * Adds the header to the answers of a server that serves https. Not for loopback names: it would close other
 * services of this machine to its browsers, on all their ports.
 */
export function withStrictTransport(fetch: ServeOptions['fetch']): ServeOptions['fetch'] {
  return async (request, peer) => {
    const answer = await fetch(request, peer)
    if (isLoopback(new URL(request.url).hostname)) return answer
    try {
      return withHeader(answer)
    } catch {
      // The headers of an answer that was fetched elsewhere cannot be changed.
      return withHeader(new Response(answer.body, answer))
    }
  }
}
