/** Webhook endpoints as people and programs handle them. Any process of the data directory can; the one that polls delivers. */
import { type Static, Type } from '@sinclair/typebox'
import { badArgument, isSvcError, renamed, SvcError } from '../model/error.ts'
import type { Message } from '../model/message.ts'
import { flag, integer, optional, text } from '../model/shapes.ts'
import {
  type AddedWebhook,
  type EventStart,
  FailureCode,
  type NewWebhookInput,
  type ReplayedWebhook,
  type WebhookDelivery,
  type WebhookEndpoint,
  type WebhookLogQuery,
} from '../model/webhook.ts'
import { type Clock, turns } from '../platform/clock.ts'
import { defined } from '../platform/fields.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import { type Events, placeBefore, placeOf } from '../storage/events.ts'
import type { NewWebhook, Webhooks as Store, Webhook, WebhookChange } from '../storage/webhooks.ts'
import { bodyOf } from './body.ts'
import type { Meant } from './events.ts'
import { typed } from './feed.ts'
import { type Linked, newSecret, opens, rotationMs } from './signature.ts'

export interface WebhookPorts {
  webhooks: Store
  events: Pick<Events, 'after' | 'head'>
  meant: Meant
  message(messageId: string): Promise<Message | undefined>
  clock: Clock
}

/** Where a replay begins: with an event, or with what happened since then (Unix ms). With `dry_run` it is only told of. */
export type ReplayFrom = EventStart & { dry_run?: boolean }

/** What a try by hand came to. */
export const WebhookTest = Type.Object({
  success: flag('Whether it was answered with 2xx.'),
  status: optional(integer('HTTP status of the answer; absent without one.')),
  took_ms: integer('Milliseconds.'),
  detail: optional(text('What went wrong.')),
  code: FailureCode,
})
export type WebhookTest = Static<typeof WebhookTest>

const mostWebhooks = 100
/** Characters of an address as it is stored: one that is not ASCII takes nine in place of one. */
const longestUrl = 2000
/** Characters of the name of a header; of all headers of one endpoint, names and values; of those of all endpoints. */
const headerNameLength = 100
const ownHeadersLength = 16 * 1024
const allHeaders = 512 * 1024
/** Events are counted in so many pages at most. */
const countedPages = 20
const pageEvents = 1000
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
/** Set by svc, or by the connection. */
const ownHeaders =
  /^(host|connection|keep-alive|transfer-encoding|te|trailer|upgrade|expect|content-(length|type|encoding)|accept-encoding|webhook-.*)$/i

/** Loaded on use: what speaks HTTP to them is 5 ms and 4 MB of a start. */
const receivers = () => import('./attempt.ts')

export class Webhooks {
  readonly #ports: WebhookPorts
  #adding: Promise<unknown> = Promise.resolve()

  constructor(ports: WebhookPorts) {
    this.#ports = ports
  }

  /** All of them, oldest first. */
  async list(): Promise<WebhookEndpoint[]> {
    const now = this.#ports.clock.now()
    return (await this.#ports.webhooks.list()).map(webhook => shownOf(webhook, now))
  }

  /** @throws SvcError `not_found`, as all below but `add` */
  async get(id: string): Promise<WebhookEndpoint> {
    return shownOf(await this.#webhook(id), this.#ports.clock.now())
  }

  /**
   * Adds an endpoint, which gets what happens from now on. The answer shows the secret this once.
   *
   * @throws SvcError `invalid_arguments`, also for a user's name that nobody has; `session_not_found`; `forbidden` for an
   *   address in a private network without `allow_private`
   */
  async add(given: NewWebhookInput): Promise<AddedWebhook> {
    const { events, clock } = this.#ports
    const { allow_private = false, replies = false, headers = {}, types = [] } = given
    checkHeaders(headers)
    const { checkedUrl } = await receivers()
    const url = await checkedUrl(given.url, allow_private)
    if (url.length > longestUrl)
      throw badArgument('url', `expected at most ${longestUrl} characters once it is encoded`, {
        details: { characters: url.length },
      })
    const { session, user } = await this.#ports.meant(given)
    const secret = newSecret()
    const id = `wh_${randomBytes(8).toString('hex')}`
    const webhook = {
      ...{ id, url, types: [...new Set(types)], session, user, headers, secrets: [{ secret }] },
      ...{ link_key: randomBytes(32).toString('base64'), allow_private, replies },
      ...{ created_at: clock.now(), position: await events.head() },
    }
    // One after the other: each counts what the one before added.
    const adding = this.#adding.then(() => this.#add(webhook))
    this.#adding = adding.catch(() => {})
    await adding
    return { ...(await this.get(id)), secret }
  }

  async #add(webhook: NewWebhook): Promise<void> {
    const { webhooks } = this.#ports
    const all = await webhooks.list()
    const hint = 'Remove one that is not needed any more.'
    if (all.length >= mostWebhooks)
      throw badArgument('url', `there are ${mostWebhooks} webhooks already, which is the most`, {
        details: { most: mostWebhooks },
        hint,
      })
    const characters = [webhook, ...all].reduce((sum, { headers }) => sum + lengthOf(headers), 0)
    if (characters > allHeaders)
      throw badArgument('headers', `those of all webhooks are more than ${allHeaders} characters together`, {
        details: { most: allHeaders },
        hint,
      })
    await webhooks.add(webhook)
  }

  /** Stops deliveries for now. */
  async pause(id: string): Promise<WebhookEndpoint> {
    await this.#change(id, { paused: true })
    return this.get(id)
  }

  /** Goes on from where it was, and tries at once what failed; also with one that svc switched off. */
  async resume(id: string): Promise<WebhookEndpoint> {
    const { disabled } = await this.#webhook(id)
    const on = { disabled: undefined, failing_since: undefined, last_error: undefined }
    const fresh = disabled && { ...on, last_error_code: undefined }
    await this.#change(id, { paused: false, ...fresh })
    return this.get(id)
  }

  /** A new secret; for a day deliveries are signed with that of before too. */
  async rotate(id: string): Promise<AddedWebhook> {
    const secret = newSecret()
    const until = this.#ports.clock.now() + rotationMs
    await this.#change(id, { rotation: { secret, until } })
    return { ...(await this.get(id)), secret }
  }

  /**
   * Delivers everything again from there on, with the ids that it had, and says how much that is.
   *
   * @throws SvcError `not_found`, `invalid_arguments`
   */
  async replay(id: string, from: ReplayFrom): Promise<ReplayedWebhook> {
    const webhook = await this.#webhook(id)
    const { position, replayed = position } = webhook
    const start = await this.#start(from)
    const earlier = placeOf(start) < placeOf(position) ? start : position
    const until = placeOf(replayed) > placeOf(position) ? replayed : position
    const replay = await this.#between(start, until, webhook)
    if (!from.dry_run) await this.#ports.webhooks.rewind(id, earlier, until)
    return { ...(await this.get(id)), replay }
  }

  async #start(from: ReplayFrom): Promise<string> {
    const { events } = this.#ports
    const start = 'since' in from ? await events.head(from.since) : placeBefore(from.event)
    const { gone } = await events.after(start, { limit: 1 }).catch(error => {
      throw isSvcError(error) ? renamed(error, problem => ({ ...problem, field: 'from' })) : error
    })
    if (!gone) return start
    throw badArgument(
      'from',
      'the log has no events of then: they are not kept any more, or are yet to come',
      {
        hint: 'Name another time or event.',
      },
    )
  }

  /** What an endpoint wants of the events after `start`, up to `end`. */
  async #between(
    start: string,
    end: string,
    { session, types, user }: Webhook,
  ): Promise<ReplayedWebhook['replay']> {
    const wanted = { limit: pageEvents, session, user, ...typed(types) }
    const found = { events: 0, events_is_lower_bound: false, since: undefined as number | undefined }
    const turn = turns(this.#ports.clock)
    let cursor = start
    for (let pages = 0; placeOf(cursor) < placeOf(end); pages++) {
      if (pages === countedPages) return { ...found, events_is_lower_bound: true }
      await turn()
      const page = await this.#ports.events.after(cursor, wanted)
      const given = page.events.filter(event => placeOf(event.cursor) <= placeOf(end))
      found.events += given.length
      found.since ??= given[0]?.at
      if (page.cursor === cursor) break
      cursor = page.cursor
    }
    return found
  }

  /** With all that is kept of it. */
  async remove(id: string): Promise<{ success: true; id: string }> {
    if (!(await this.#ports.webhooks.remove(id))) throw noSuch()
    return { success: true, id }
  }

  /** The newest tries, newest first. */
  async log(id: string, { limit = 50, outcome }: WebhookLogQuery = {}): Promise<WebhookDelivery[]> {
    await this.#webhook(id)
    return (await this.#ports.webhooks.progress.tries(id, limit, outcome)).map(defined)
  }

  /** Delivers an event of type `webhook.test` now, from this process, whether the endpoint is on or not. */
  async test(id: string, signal: AbortSignal): Promise<WebhookTest> {
    const webhook = await this.#webhook(id)
    const { clock, webhooks } = this.#ports
    const event = `test-${randomBytes(8).toString('hex')}`
    const [type, at] = ['webhook.test', clock.now()] as const
    const data = { webhook: id, text: 'A test of svc.' }
    const body = bodyOf({ id: event, type, at, data }, undefined)
    const { deliver, posterTo } = await receivers()
    const poster = posterTo(webhook)
    const beganAt = clock.monotonic()
    try {
      const sent = { ...webhook, replies: false }
      const { status, detail, code } = await deliver(poster, sent, { id: event, body }, signal)
      const success = detail === undefined
      const found = { status, took_ms: Math.round(clock.monotonic() - beganAt), detail, code }
      const outcome = success ? 'done' : 'failed'
      // It was delivered, or not, also where the store cannot note it.
      await webhooks.progress.tried(id, { at, event, type, outcome, ...found }).catch(() => {})
      return defined({ success, ...found })
    } finally {
      poster.close()
    }
  }

  /** Whether a link of a delivery leads there now. */
  async opens(to: Linked, expires: string, signature: string): Promise<boolean> {
    const webhook = await this.#ports.webhooks.get(to.webhook)
    return webhook !== undefined && opens(webhook.link_key, to, expires, signature, this.#ports.clock.now())
  }

  /** What a link to a whole message opens. @throws SvcError `message_not_found` */
  async message(messageId: string): Promise<Message> {
    const found = await this.#ports.message(messageId)
    if (found) return found
    throw new SvcError('message_not_found', 'the message is not kept any more')
  }

  async #change(id: string, change: WebhookChange): Promise<void> {
    if (!(await this.#ports.webhooks.change(id, change))) throw noSuch()
  }

  async #webhook(id: string): Promise<Webhook> {
    const found = await this.#ports.webhooks.get(id)
    if (!found) throw noSuch()
    return found
  }
}

const noSuch = () =>
  new SvcError('not_found', 'no webhook has this id', { next: { action: 'see', what: 'webhooks' } })

function checkHeaders(headers: Readonly<Record<string, string>>): void {
  const entries = Object.entries(headers)
  if (entries.length > 20) throw badArgument('headers', 'more than 20')
  if (lengthOf(headers) > ownHeadersLength)
    throw badArgument('headers', `expected at most ${ownHeadersLength} characters, names and values together`)
  for (const [name, value] of entries) {
    if (name.length > headerNameLength)
      throw badArgument('headers', `a name is longer than ${headerNameLength} characters`)
    if (!headerName.test(name)) throw badArgument('headers', 'a name is not one of HTTP')
    if (ownHeaders.test(name)) throw badArgument('headers', `${name.toLowerCase()} is set by svc itself`)
    // Printable ASCII and spaces: all that every receiver reads alike.
    if (!/^[\x20-\x7e]*$/.test(value))
      throw badArgument('headers', `expected printable ASCII as the value of ${name}`)
  }
}

const lengthOf = (headers: Readonly<Record<string, string>>): number =>
  Object.entries(headers).reduce((sum, [name, value]) => sum + name.length + value.length, 0)

/** Secrets are not in it. */
export function shownOf(webhook: Webhook, now: number): WebhookEndpoint {
  const { id, url, types, session, user, headers, allow_private, replies, created_at, tries } = webhook
  const { disabled, paused, failing_since, last_error, last_error_code, last_success_at, secrets } = webhook
  const { next_try_at = 0 } = webhook
  const old = secrets.find(({ until }) => until !== undefined && until > now)
  return {
    ...{ id, url, types: [...types] as WebhookEndpoint['types'] },
    ...(session !== undefined && { session }),
    ...(user !== undefined && { user }),
    headers: Object.fromEntries(Object.keys(headers).map(name => [name, '***'])),
    ...{ allow_private, replies },
    status: disabled ? 'disabled' : paused ? 'paused' : failing_since === undefined ? 'active' : 'failing',
    ...(disabled && { disabled_reason: disabled.reason, disabled_at: disabled.at }),
    ...(disabled?.code && { disabled_code: disabled.code }),
    created_at,
    ...(last_success_at !== undefined && { last_success_at }),
    ...(failing_since !== undefined && { failing_since }),
    ...(last_error !== undefined && { last_error }),
    ...(last_error_code && { last_error_code }),
    // A time that is over says nothing: the try is under way.
    ...(!disabled && !paused && next_try_at > now && { next_try_at }),
    ...(old?.until !== undefined && { rotating_until: old.until }),
    tries: { ...tries },
  }
}
