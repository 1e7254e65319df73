/** Links to streams of events, for browsers: an EventSource sends no token. */
import { SvcError } from '../model/error.ts'
import type { Clock } from '../platform/clock.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import { queryOf } from './paths.ts'

const eventsPath = '/events'
const linkMs = 60_000
const mostLinks = 1000

/** The parameters of a stream. */
type Stream = Readonly<Record<string, string>>

interface Link {
  stream: Stream
  /** Monotonic ms. */
  until: number
}

/** Whether a request asks for events by a link. */
export const isByLink = (request: Request, path: string): boolean =>
  path === eventsPath && request.method === 'GET' && queryOf(request).link !== undefined

/**
 * Links that were made and not opened. They are kept by the process that made them: a link opens once, and none outlives a restart.
 */
export class EventLinks {
  readonly #clock: Clock
  /** By code, in the order in which they expire. */
  readonly #links = new Map<string, Link>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** A new link below `prefix`, as of `Call.linkEvents`. @throws SvcError `rate_limited` */
  add(stream: Stream, prefix: string): { url: string; expires_at: number } {
    const now = this.#clock.monotonic()
    for (const [code, { until }] of this.#links) {
      if (until > now) break
      this.#links.delete(code)
    }
    const [oldest] = this.#links.values()
    if (oldest && this.#links.size >= mostLinks)
      throw new SvcError('rate_limited', `${mostLinks} links wait to be opened, which is the most`, {
        retryAfter: Math.ceil((oldest.until - now) / 1000),
      })
    const code = randomBytes(24).toString('base64url')
    this.#links.set(code, { stream, until: now + linkMs })
    return { url: `${prefix}${eventsPath}?link=${code}`, expires_at: this.#clock.now() + linkMs }
  }

  /** The request that a request by link stands for: one with the parameters of the link alone. A link opens once. */
  follow(request: Request): Request | SvcError {
    const { link, ...others } = queryOf(request)
    if (Object.keys(others).length > 0)
      return new SvcError('invalid_arguments', 'A link takes no other parameters', {
        hint: 'Give them to POST /events/link.',
      })
    const stream = this.#take(link ?? '')
    if (stream === undefined)
      return new SvcError('forbidden', 'This link was opened before, or is older than 60 seconds', {
        hint: 'Make a new one by POST /events/link, with the id of the last event as "after".',
      })
    const { signal, url } = request
    return new Request(`${new URL(eventsPath, url)}?${new URLSearchParams(stream)}`, { signal })
  }

  #take(code: string): Stream | undefined {
    const link = this.#links.get(code)
    this.#links.delete(code)
    return link && link.until > this.#clock.monotonic() ? link.stream : undefined
  }
}
