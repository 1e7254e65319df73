/** Links that open an event stream, for browsers: an EventSource cannot send a token. */

import { Buffer } from 'node:buffer'
import type { Keys } from '../access/keys.ts'
import { SvcError } from '../model/error.ts'
import { keyIdOf, owner, type Principal } from '../model/principal.ts'
import { ownBounds } from '../model/shares.ts'
import type { Clock } from '../platform/clock.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { Peer } from '../platform/serve.ts'
import { endedKeyError } from '../storage/keys.ts'
import type { SignInStore } from '../storage/state.ts'
import { addressOf, withProxyRouteOf } from './behind-proxy.ts'
import { noteCaller, withCallerOf } from './caller.ts'
import { queryOf } from './paths.ts'

const eventsPath = '/events'
const linkLifetimeMs = 60_000
/** Maximum of the links of each key, and of all other callers, in each process. */
const maxLinks = ownBounds.eventLinks

/** The parameters of a stream. */
type StreamParameters = Readonly<Record<string, string>>

/** What the code of a link says. That svc wrote it is known from the store, which has all codes that were not used. */
interface Linked {
  stream: StreamParameters
  /** The key of its maker, whose stream it is, and the secret that the maker had. */
  key?: string | undefined
  secret?: string | undefined
  /** Its maker needed no token. */
  open?: boolean
}

/** Whether a request opens an event stream by a link. */
export const isByLink = (request: Request, path: string): boolean =>
  path === eventsPath && request.method === 'GET' && queryOf(request).link !== undefined

export interface LinkPorts {
  clock: Clock
  signIns: Pick<SignInStore, 'addLink' | 'takeLink'>
  keys: Pick<Keys, 'hasAny' | 'recognize' | 'tokenlessOwner'>
}

/** A link opens once, at any process that shares the store of sign-ins. */
export class EventLinks extends RoomPart<LinkPorts> {
  /** Links that this process made: until when (in monotonic ms) and the key, in the order in which they expire. */
  #made: { until: number; key: string | undefined }[] = []

  /** Creates a link below `prefix`; see `Call.linkEvents`. @throws SvcError `rate_limited`, `store_unavailable` */
  async add(
    stream: StreamParameters,
    prefix: string,
    by: Principal,
  ): Promise<{ url: string; expires_at: number }> {
    const { clock, signIns } = this.ports
    const now = clock.monotonic()
    const key = keyIdOf(by)
    this.#made = this.#made.filter(({ until }) => until > now)
    const own = this.#made.filter(link => link.key === key)
    const [oldest] = own
    if (oldest && own.length >= maxLinks)
      throw new SvcError('rate_limited', `${maxLinks} links were made in a minute, which is the maximum`, {
        retryAfter: Math.ceil((oldest.until - now) / 1000),
      })
    this.#made.push({ until: now + linkLifetimeMs, key })
    const { secret } = by
    const linked: Linked = { stream, key, secret, open: key === undefined && by.ended !== undefined }
    const code = `${Buffer.from(JSON.stringify(linked)).toString('base64url')}.${randomBytes(24).toString('base64url')}`
    const made_at = clock.now()
    const expires_at = made_at + linkLifetimeMs
    await signIns.addLink(storedAs(code), expires_at, made_at)
    return { url: `${prefix}${eventsPath}?link=${code}`, expires_at }
  }

  /**
   * Converts a request by link to a request with the parameters of the link. The link cannot be used again.
   *
   * @returns an error if the link is not valid
   */
  async resolve(request: Request, peer: Peer | undefined): Promise<Request | SvcError> {
    const { link = '', ...others } = queryOf(request)
    if (Object.keys(others).length > 0)
      return new SvcError('invalid_arguments', 'A link takes no other parameters', {
        hint: 'Send them to POST /events/link.',
      })
    const { clock, signIns } = this.ports
    if (!(await signIns.takeLink(storedAs(link), clock.now())))
      return new SvcError('forbidden', 'This link was opened before, or is older than 60 seconds', {
        hint: 'Make a new one by POST /events/link, with the id of the last event as "after".',
      })
    const linked: Linked = JSON.parse(Buffer.from(link.split('.')[0]!, 'base64url').toString())
    const by = await this.#makerOf(linked, () => addressOf(request, peer))
    if (by === undefined || by.ended?.aborted) return by?.ended?.reason ?? endedKeyError()
    const { signal, url } = request
    const answered = new Request(`${new URL(eventsPath, url)}?${new URLSearchParams(linked.stream)}`, {
      signal,
    })
    noteCaller(request, by, peer)
    return withCallerOf(withProxyRouteOf(answered, request), request)
  }

  async #makerOf(
    { key, open, secret = '' }: Linked,
    address: () => string | undefined,
  ): Promise<Principal | undefined> {
    const { keys } = this.ports
    if (key !== undefined) return await keys.recognize(key, hash => hash.startsWith(secret), address)
    if (!open) return owner
    // Notices the first key, which ends the calls of those without one.
    return (await keys.hasAny()) ? undefined : keys.tokenlessOwner
  }
}

/** The code in the store. No code of a sign-in to the panel is like it. */
const storedAs = (code: string) => `events ${code}`
