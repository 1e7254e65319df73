/** Links that open an event stream, for browsers: an EventSource cannot send a token. */
import { SvcError } from '../model/error.ts'
import { keyIdOf, type Principal } from '../model/principal.ts'
import type { Clock } from '../platform/clock.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import type { Peer } from '../platform/serve.ts'
import { noteCaller } from './caller.ts'
import { queryOf } from './paths.ts'

const eventsPath = '/events'
const linkLifetimeMs = 60_000
/** Maximum of the links of each key, and of all other callers. */
const maxLinks = 1000

/** The parameters of a stream. */
type StreamParameters = Readonly<Record<string, string>>

/** A link that is not opened yet. */
interface Link {
  stream: StreamParameters
  /** Who made the link. The stream is that caller's. */
  by: Principal
  /** Expiry, in monotonic ms. */
  until: number
}

/** Whether a request opens an event stream by a link. */
export const isByLink = (request: Request, path: string): boolean =>
  path === eventsPath && request.method === 'GET' && queryOf(request).link !== undefined

/**
 * Links that are not opened yet. A link opens once. Links are in the memory of the process that created them,
 * so they end with it.
 */
export class EventLinks {
  readonly #clock: Clock
  /** Links by code, in the order in which they expire. */
  readonly #links = new Map<string, Link>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Creates a link below `prefix`; see `Call.linkEvents`. @throws SvcError `rate_limited` */
  add(stream: StreamParameters, prefix: string, by: Principal): { url: string; expires_at: number } {
    const now = this.#clock.monotonic()
    for (const [code, { until }] of this.#links) {
      if (until > now) break
      this.#links.delete(code)
    }
    const own = [...this.#links.values()].filter(link => keyIdOf(link.by) === keyIdOf(by))
    const [oldest] = own
    if (oldest && own.length >= maxLinks)
      throw new SvcError('rate_limited', `${maxLinks} links wait to be opened, which is the maximum`, {
        retryAfter: Math.ceil((oldest.until - now) / 1000),
      })
    const code = randomBytes(24).toString('base64url')
    this.#links.set(code, { stream, by, until: now + linkLifetimeMs })
    return { url: `${prefix}${eventsPath}?link=${code}`, expires_at: this.#clock.now() + linkLifetimeMs }
  }

  /**
   * Converts a request by link to a request with the parameters of the link. The link cannot be used again.
   *
   * @returns an error if the link is not valid
   */
  resolve(request: Request, peer: Peer | undefined): Request | SvcError {
    const { link, ...others } = queryOf(request)
    if (Object.keys(others).length > 0)
      return new SvcError('invalid_arguments', 'A link takes no other parameters', {
        hint: 'Send them to POST /events/link.',
      })
    const found = this.#take(link ?? '')
    if (found?.by.ended?.aborted) return found.by.ended.reason
    if (found === undefined)
      return new SvcError('forbidden', 'This link was opened before, or is older than 60 seconds', {
        hint: 'Make a new one by POST /events/link, with the id of the last event as "after".',
      })
    const { signal, url } = request
    const linked = new Request(`${new URL(eventsPath, url)}?${new URLSearchParams(found.stream)}`, { signal })
    noteCaller(linked, found.by, peer)
    return linked
  }

  #take(code: string): Link | undefined {
    const link = this.#links.get(code)
    this.#links.delete(code)
    return link && link.until > this.#clock.monotonic() ? link : undefined
  }
}
