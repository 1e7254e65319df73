/** Subscriptions of MCP Events by webhook: endpoints that their clients make, renew and end by themselves. */
import { badArgument, SvcError } from '../model/error.ts'
import type { MessageFilter } from '../model/occurrence.ts'
import { formatPrincipal, type Principal, scopeOf } from '../model/principal.ts'
import { nodeCrypto, randomBytes } from '../platform/lazy-crypto.ts'
import { RunningPart } from '../platform/runtime.ts'
import { cursorBefore, cursorNumberOf, type EventLog } from '../storage/events.ts'
import {
  isSubscribed,
  type NewWebhook,
  type WebhookStore as Store,
  type Webhook,
} from '../storage/webhooks.ts'
import { type CallbackFailure, type Callbacks, callbackFailureOf } from './callbacks.ts'
import type { ResolveTarget } from './events.ts'
import type { Webhooks } from './webhooks.ts'

export interface SubscriptionPorts {
  webhooks: Store
  events: Pick<EventLog, 'listAfter' | 'getHead'>
  resolveTarget: ResolveTarget
  callbacks: Callbacks
  /** Adds an endpoint within the bounds of its maker. */
  endpoints: Pick<Webhooks, 'store'>
}

/** What identifies a subscription, together with its principal. */
export interface SubscriptionName extends MessageFilter {
  type: string
  session?: string | undefined
  user?: string | undefined
  /** The callback. */
  url: string
}

export interface SubscribeRequest extends SubscriptionName {
  secret: string
  /** Where a new subscription begins; by default now. */
  cursor?: string | undefined
  /** Events older than this are left out. */
  max_age_ms?: number | undefined
  /** Lifetime that the client suggests; null: as long as possible. */
  ttl_ms?: number | null | undefined
}

export interface SubscriptionState {
  id: string
  /** Unix ms. */
  expires_at: number
  /** Everything up to here was delivered or given up. */
  cursor: string
  truncated: boolean
  /** How the deliveries go. Absent for a new subscription. */
  status?: { active: boolean; last_success_at?: number; error?: CallbackFailure; failing_since?: number }
}

const maxUrlLength = 2000
const maxSubscriptions = 20
const [minTtlMs, usualTtlMs, maxTtlMs] = [60_000, 3_600_000, 24 * 3_600_000]
/** After a client changed its secret, the previous one also signs for this time. */
const graceMs = 10 * 60_000
/** Challenges to one host in a minute. */
const maxChallenges = 10
const minuteMs = 60_000

/** Failures of a callback are `invalid_arguments` with the reason in `details.callback`. */
const callbackError = (callback: CallbackFailure) =>
  badArgument('url', `the callback failed: ${callback}`, { details: { callback } })

const limitError = (limit: string, max: number) =>
  new SvcError('rate_limited', `${max} ${limit} are the maximum`, { details: { limit, max } })

export class Subscriptions extends RunningPart<SubscriptionPorts> {
  /** Challenges under way, by principal and URL. */
  readonly #challenges = new Map<string, Promise<CallbackFailure | undefined>>()
  /** Times of the last challenges, by host (monotonic ms). */
  readonly #challengedAt = new Map<string, number[]>()

  /**
   * Makes a subscription, or renews it.
   *
   * @throws SvcError `invalid_arguments`, `session_not_found`; `forbidden` if a person removed it; `rate_limited`
   *   with the limit in `details`
   */
  async subscribe(by: Principal, request: SubscribeRequest, signal: AbortSignal): Promise<SubscriptionState> {
    checkSecret(request.secret)
    const url = checkCallback(request.url)
    const id = idOf(by, { ...request, url })
    const known = await this.#find(id)
    return known ? this.#renew(known, request) : this.#add(by, id, { ...request, url }, signal)
  }

  /** @throws SvcError `not_found` */
  async unsubscribe(by: Principal, name: SubscriptionName): Promise<{ id: string }> {
    const id = idOf(by, { ...name, url: checkCallback(name.url) })
    const known = await this.#find(id)
    const isThere = known !== undefined && known.secrets.length > 0
    if (!isThere || !(await this.ports.webhooks.remove(id)))
      throw new SvcError('not_found', 'no subscription matches')
    return { id }
  }

  /** Returns a subscription that has not expired. */
  async #find(id: string): Promise<Webhook | undefined> {
    const found = await this.ports.webhooks.get(id)
    if (!found || (found.expires_at ?? 0) > this.runtime.clock.now()) return found
    await this.ports.webhooks.remove(id)
    return undefined
  }

  async #renew(known: Webhook, { secret, ttl_ms }: SubscribeRequest): Promise<SubscriptionState> {
    const { callbacks, webhooks } = this.ports
    const { disabled, failing_since, id, last_error, last_error_code, last_success_at, paused, secrets } =
      known
    if (secrets.length === 0 || disabled?.code === 'key_revoked')
      throw new SvcError('forbidden', 'the subscription was ended')
    const now = this.runtime.clock.now()
    const expires_at = now + grant(ttl_ms)
    const { allow_private, ca } = callbacks.reachOf(known.url)
    const isElsewhere = allow_private !== known.allow_private || ca !== known.subscription?.ca
    await webhooks.change(id, {
      expires_at,
      ...(isElsewhere && { allow_private, subscription: { ...known.subscription, ca } }),
      ...(secrets[0]?.secret !== secret && { rotation: { secret, until: now + graceMs } }),
      ...(disabled && { disabled: undefined, failing_since: undefined, last_error: undefined }),
      retries: true,
    })
    const gone = (await this.ports.events.listAfter(known.position, { limit: 1 })).gone === true
    const lanes = await webhooks.progress.listLanes(id)
    const cursor = [known.position, ...lanes.map(({ position }) => position)].reduce((one, other) =>
      cursorNumberOf(one) < cursorNumberOf(other) ? one : other,
    )
    return {
      id: publicIdOf(id),
      expires_at,
      cursor,
      truncated: gone,
      status: {
        active: !paused && !disabled,
        ...(last_success_at !== undefined && { last_success_at }),
        ...(failing_since !== undefined && {
          failing_since,
          error: callbackFailureOf(last_error_code, last_error),
        }),
      },
    }
  }

  async #add(
    by: Principal,
    id: string,
    request: SubscribeRequest,
    signal: AbortSignal,
  ): Promise<SubscriptionState> {
    const { callbacks, endpoints, resolveTarget } = this.ports
    const { kinds, secret, session, ttl_ms, type, url, user, words } = request
    const made_by = formatPrincipal(by)
    await this.#checkCount(made_by)
    const target = await resolveTarget({ session, user, scope: scopeOf(by) })
    const { position, truncated } = await this.#findStart(request)
    const created_at = this.runtime.clock.now()
    const { allow_private, ca } = callbacks.reachOf(url)
    const webhook: NewWebhook = {
      id,
      url,
      types: [type],
      session: target.session,
      user: target.user,
      headers: { 'X-MCP-Subscription-Id': publicIdOf(id) },
      secrets: [{ secret }],
      link_key: randomBytes(32).toString('base64'),
      allow_private,
      replies: false,
      made_by,
      ...(by.grant && { grant: by.grant }),
      created_at,
      position,
      subscription: { ...(kinds && { kinds }), ...(words && { words }), ...(ca && { ca }) },
      expires_at: created_at + grant(ttl_ms),
    }
    await this.#verify(webhook, signal)
    try {
      await endpoints.store(webhook, () => this.#checkCount(made_by))
    } catch (error) {
      // Another call of the client, perhaps in another process, may have made it meanwhile.
      const other = await this.#find(id)
      if (!other) throw error
      return this.#renew(other, request)
    }
    return { id: publicIdOf(id), expires_at: webhook.expires_at!, cursor: position, truncated }
  }

  async #listOwn(made_by: string): Promise<Webhook[]> {
    const now = this.runtime.clock.now()
    const all = await this.ports.webhooks.list()
    return all.filter(one => one.subscription && one.made_by === made_by && isSubscribed(one, now))
  }

  async #checkCount(made_by: string): Promise<void> {
    if ((await this.#listOwn(made_by)).length >= maxSubscriptions)
      throw limitError('subscriptions', maxSubscriptions)
  }

  /** Returns where a new subscription begins in the log. */
  async #findStart({
    cursor,
    max_age_ms,
  }: SubscribeRequest): Promise<{ position: string; truncated: boolean }> {
    const { events } = this.ports
    if (cursor === undefined) return { position: await events.getHead(), truncated: false }
    const { events: found, gone = false, ...page } = await events.listAfter(cursor, { limit: 1 })
    const position = gone ? (found[0] ? cursorBefore(found[0].cursor) : page.cursor) : cursor
    if (max_age_ms === undefined) return { position, truncated: gone }
    const floor = await events.getHead(this.runtime.clock.now() - max_age_ms)
    const isCut = cursorNumberOf(floor) > cursorNumberOf(position)
    return { position: isCut ? floor : position, truncated: gone || isCut }
  }

  /** Asks a callback once for a principal, whatever is subscribed. @throws SvcError */
  async #verify(webhook: NewWebhook, signal: AbortSignal): Promise<void> {
    const { made_by = '', url } = webhook
    if ((await this.#listOwn(made_by)).some(one => one.url === url)) return
    const key = `${made_by} ${url}`
    const asking = this.#challenges.get(key) ?? this.#challenge(webhook, signal)
    this.#challenges.set(key, asking)
    const failure = await asking.finally(() => this.#challenges.delete(key))
    if (failure) throw callbackError(failure)
  }

  async #challenge(webhook: NewWebhook, signal: AbortSignal): Promise<CallbackFailure | undefined> {
    const now = this.runtime.clock.monotonic()
    for (const [host, times] of this.#challengedAt)
      if (times.every(at => now - at >= minuteMs)) this.#challengedAt.delete(host)
    // Whatever the port: else this would find the open ones.
    const host = new URL(webhook.url).hostname.replace(/\.$/, '')
    const recent = (this.#challengedAt.get(host) ?? []).filter(at => now - at < minuteMs)
    if (recent.length >= maxChallenges) throw limitError('challenges', maxChallenges)
    this.#challengedAt.set(host, [...recent, now])
    // Loaded on first use: the HTTP client costs 5 ms and 4 MB at start.
    const { challengeCallback } = await import('./envelopes.ts')
    return challengeCallback(webhook, signal)
  }
}

/** Returns the lifetime that is granted for a suggestion. */
const grant = (suggested: number | null | undefined): number =>
  suggested === null ? maxTtlMs : Math.min(Math.max(suggested ?? usualTtlMs, minTtlMs), maxTtlMs)

const publicIdOf = (id: string): string => id.replace(/^wh_/, 'sub_')

/** The same subscription of the same principal has the same id, in every process. */
function idOf(by: Principal, { type, session, user, kinds, words, url }: SubscriptionName): string {
  const name = JSON.stringify([formatPrincipal(by), url, type, { session, user, kinds, words }])
  return `wh_${nodeCrypto().createHash('sha256').update(name).digest('hex').slice(0, 32)}`
}

/** @throws SvcError `invalid_arguments` */
function checkCallback(text: string): string {
  const url = URL.parse(text)
  if (url?.protocol !== 'https:') throw badArgument('url', 'expected an https URL')
  if (url.username || url.password) throw badArgument('url', 'contains a user name or password')
  url.hash = ''
  if (url.href.length > maxUrlLength) throw badArgument('url', `expected at most ${maxUrlLength} characters`)
  return url.href
}

/** @throws SvcError `invalid_arguments` */
function checkSecret(secret: string): void {
  const [, encoded = ''] =
    /^whsec_((?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)$/.exec(secret) ?? []
  const bytes = (encoded.replace(/=+$/, '').length * 3) >> 2
  if (bytes < 24 || bytes > 64)
    throw badArgument('secret', 'expected whsec_ and the base64 of 24 to 64 bytes')
}
