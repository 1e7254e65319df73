/**
 * Manages webhook endpoints: add, change, remove, test, replay. Every process that uses the data directory
 * can do this. The process that polls WeChat delivers.
 */

import { maySend, type Scope } from '../model/access.ts'
import { badArgument, isSvcError, SvcError, withFieldNames } from '../model/error.ts'
import type { Message } from '../model/message.ts'
import { toOccurrence } from '../model/occurrence.ts'
import { formatPrincipal, keyIdOf, type Principal, parsePrincipal, scopeOf } from '../model/principal.ts'
import { shares } from '../model/shares.ts'
import type {
  AddedWebhook,
  EventStart,
  NewWebhookInput,
  ReplayedWebhook,
  WebhookDelivery,
  WebhookEndpoint,
  WebhookLogQuery,
  WebhookTest,
} from '../model/webhook.ts'
import { type Clock, createYield } from '../platform/clock.ts'
import { withoutUndefined } from '../platform/fields.ts'
import { formatCount } from '../platform/format.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import type { Log } from '../platform/log.ts'
import { createMutex } from '../platform/one-at-a-time.ts'
import { RoomPart } from '../platform/runtime.ts'
import { cursorBefore, cursorNumberOf, type EventLog } from '../storage/events.ts'
import { endedMakerError, findTooMany, keyOfMaker, type MadeKey } from '../storage/keys.ts'
import {
  isSubscribed,
  type NewWebhook,
  type WebhookStore as Store,
  type Webhook,
  type WebhookChange,
} from '../storage/webhooks.ts'
import { bodyOf, type OutgoingEvent, type WrittenEvent } from './body.ts'
import type { WebhookSenderPorts } from './courier.ts'
import type { ResolveTarget } from './events.ts'
import { type Feed, typeFilterOf } from './feed.ts'
import { createSecret, isLinkValid, type LinkTarget, rotationMs } from './signature.ts'

export interface WebhookPorts {
  webhooks: Store
  events: Pick<EventLog, 'listAfter' | 'getHead'>
  resolveTarget: ResolveTarget
  getMessage(messageId: string, scope?: Scope): Promise<Message | undefined>
  feed: Pick<Feed, 'readAfter'>
  createLinks: WebhookSenderPorts['createLinks']
  /** Whether a key has ended, by its id. */
  isKeyOver(id: string): Promise<boolean>
  listKeys(): Promise<readonly MadeKey[]>
  clock: Clock
  log: Log
  /** Aborts when the gateway closes. */
  closing: AbortSignal
}

/**
 * Start of a replay: an event, or a time (Unix ms). With `dry_run`, the events are only counted; with `only`, the event alone is
 * delivered.
 */
export type ReplayFrom = EventStart & { dry_run?: boolean; only?: boolean }

/** Maximum characters of a URL as it is stored. Encoding turns one non-ASCII character into nine. */
const maxUrlLength = 2000
/** Maximum characters of a header's name. */
const maxHeaderNameLength = 100
/** Maximum characters of all headers of one endpoint, names and values. */
const maxHeadersLength = 16 * 1024
/** The type of a delivery that is no event of the log. */
const webhookTest = 'webhook.test'
/** Maximum pages that are read to count events. */
const maxCountedPages = 20
const countPageSize = 1000
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
/** Headers that svc or the HTTP connection sets. */
const reservedHeaders =
  /^(host|connection|keep-alive|transfer-encoding|te|trailer|upgrade|expect|content-(length|type|encoding)|accept-encoding|webhook-.*)$/i

/** Loaded on first use: the HTTP client costs 5 ms and 4 MB at start. */
const loadAttempt = () => import('./attempt.ts')

/** The webhook endpoints of a data directory. A key manages only those that it added. */
export class Webhooks extends RoomPart<WebhookPorts> {
  readonly #addAlone = createMutex()

  /** Lists all endpoints, oldest first. */
  async list(by: Principal): Promise<WebhookEndpoint[]> {
    const now = this.ports.clock.now()
    const all = await this.ports.webhooks.list()
    return all
      .filter(webhook => isManagedBy(webhook, by) && isSubscribed(webhook, now))
      .map(webhook => toEndpoint(webhook, now))
  }

  /** Returns one endpoint. @throws SvcError `not_found`, like all methods below except `add` */
  async get(by: Principal, id: string): Promise<WebhookEndpoint> {
    return toEndpoint(await this.#getStored(by, id), this.ports.clock.now())
  }

  /**
   * Adds an endpoint. It receives the events from now on. Only this answer contains the secret. An endpoint
   * that a key adds is limited by the grant of the key, and ends with the key.
   *
   * @throws SvcError `invalid_arguments`, also for a user name that nobody has; `session_not_found`;
   *   `forbidden` for an address in a private network without `allow_private`, and for `replies` of a caller
   *   that may not send
   */
  async add(by: Principal, input: NewWebhookInput): Promise<AddedWebhook> {
    const { events, clock } = this.ports
    const { allow_private = false, replies = false, headers = {}, types = [] } = input
    if (replies && by.grant && !maySend(by.grant))
      throw new SvcError('forbidden', 'replies needs the right "send" or "draft"', {
        hint: 'Ask the owner of the service for a key with that right.',
        details: { right: 'send' },
      })
    checkHeaders(headers)
    const { checkUrl } = await loadAttempt()
    const url = await checkUrl(input.url, allow_private)
    if (url.length > maxUrlLength)
      throw badArgument('url', `expected at most ${maxUrlLength} characters once it is encoded`, {
        details: { characters: url.length },
      })
    const { session, user } = await this.ports.resolveTarget({ ...input, scope: scopeOf(by) })
    const secret = createSecret()
    const id = `wh_${randomBytes(8).toString('hex')}`
    const webhook: NewWebhook = {
      id,
      url,
      types: [...new Set(types)],
      session,
      user,
      headers,
      secrets: [{ secret }],
      link_key: randomBytes(32).toString('base64'),
      allow_private,
      replies,
      made_by: formatPrincipal(by),
      ...(by.grant && { grant: by.grant }),
      created_at: clock.now(),
      position: await events.getHead(),
    }
    await this.store(webhook)
    return { ...(await this.get(by, id)), secret }
  }

  /**
   * Stores a new endpoint within the bounds of its maker.
   *
   * @param check rejects by itself
   * @throws SvcError `invalid_arguments`
   */
  async store(webhook: NewWebhook, check = async () => {}): Promise<void> {
    // Runs one after another, so that each counts the endpoints added before.
    await this.#addAlone(async () => {
      await check()
      await this.#store(webhook)
    })
  }

  async #store(webhook: NewWebhook): Promise<void> {
    const { webhooks } = this.ports
    const all = await webhooks.list()
    const hint = 'Remove a webhook that you no longer need.'
    const keys = await this.ports.listKeys()
    const { headers, made_by } = webhook
    const most = findTooMany(shares.webhooks, keys, all, made_by)
    if (most !== undefined)
      throw badArgument('url', `there are ${most} webhooks already, which is the maximum`, {
        details: { most },
        hint,
      })
    const lengths = all.map(one => ({ made_by: one.made_by, count: lengthOf(one.headers) }))
    const length = lengthOf(headers)
    const characters = length > 0 && findTooMany(shares.webhookHeaders, keys, lengths, made_by, length)
    if (typeof characters === 'number')
      throw badArgument('headers', `${formatCount(characters, 'character')} of headers are stored already`, {
        details: { characters, most: shares.webhookHeaders.most },
        hint,
      })
    // Refused if the key has ended since the call began: finding the address takes a while.
    await webhooks.add(webhook)
  }

  async #isOfEndedKey({ made_by = '' }: NewWebhook): Promise<boolean> {
    const id = keyOfMaker(made_by)
    return id !== undefined && (await this.ports.isKeyOver(id))
  }

  /** Stops deliveries until `resume`. */
  async pause(by: Principal, id: string): Promise<WebhookEndpoint> {
    await this.#changeStored(by, id, { paused: true })
    return this.get(by, id)
  }

  /**
   * Continues a paused or switched-off endpoint from its position. Events that failed are retried
   * immediately.
   *
   * @throws SvcError `forbidden` if the key that added it has ended
   */
  async resume(by: Principal, id: string): Promise<WebhookEndpoint> {
    const webhook = await this.#getStored(by, id)
    if (await this.#isOfEndedKey(webhook)) throw endedMakerError()
    const { disabled } = webhook
    const on = { disabled: undefined, failing_since: undefined, last_error: undefined }
    const fresh = disabled && { ...on, last_error_code: undefined }
    await this.#changeStored(by, id, { paused: false, ...fresh })
    return this.get(by, id)
  }

  /** Creates a new secret. For a day, deliveries are signed with the previous one too. */
  async rotate(by: Principal, id: string): Promise<AddedWebhook> {
    rejectSubscription(await this.#getStored(by, id))
    const secret = createSecret()
    const until = this.ports.clock.now() + rotationMs
    await this.#changeStored(by, id, { rotation: { secret, until } })
    return { ...(await this.get(by, id)), secret }
  }

  /**
   * Delivers all events again from `from` on, with their original ids. The answer contains their number.
   *
   * @throws SvcError `not_found`, `invalid_arguments`; with `only` also `forbidden`
   */
  async replay(
    by: Principal,
    id: string,
    from: ReplayFrom,
    signal: AbortSignal = this.ports.closing,
  ): Promise<ReplayedWebhook> {
    const webhook = await this.#getStored(by, id)
    if (from.only) {
      const replay = await this.#replayOne(webhook, from, signal)
      return { ...(await this.get(by, id)), replay }
    }
    const { position, replayed = position } = webhook
    const start = await this.#resolveStart(from)
    const earlier = cursorNumberOf(start) < cursorNumberOf(position) ? start : position
    const until = cursorNumberOf(replayed) > cursorNumberOf(position) ? replayed : position
    const replay = await this.#countEvents(start, until, webhook)
    if (!from.dry_run) await this.ports.webhooks.rewind(id, earlier, until)
    return { ...(await this.get(by, id)), replay }
  }

  /** Delivers one event again now, from this process, also if the endpoint is off. */
  async #replayOne(
    webhook: Webhook,
    from: ReplayFrom,
    signal: AbortSignal,
  ): Promise<ReplayedWebhook['replay']> {
    rejectSubscription(webhook)
    if (await this.#isOfEndedKey(webhook)) throw endedMakerError()
    if (!('event' in from)) throw badArgument('from', 'expected the id of an event, with only')
    await this.#resolveStart(from)
    const event = await this.#readEvent(webhook, from.event)
    if (!event) throw badArgument('from', 'the log has no such event for this webhook')
    const replay = { events: 1, events_is_lower_bound: false, since: event.at }
    if (from.dry_run) return replay
    return { ...replay, result: await this.#deliverNow(webhook, event, signal, webhook.epoch) }
  }

  /** Returns an event that the endpoint gets; undefined if it is no longer stored. */
  async #readEvent(webhook: Webhook, event: string): Promise<OutgoingEvent | undefined> {
    const [found] = (await this.ports.feed.readAfter(cursorBefore(event), webhook, 1)).events
    const data = found?.id === event ? await found.data() : undefined
    return data && { ...found!, data }
  }

  async #resolveStart(from: ReplayFrom): Promise<string> {
    const { events } = this.ports
    const start = 'since' in from ? await events.getHead(from.since) : cursorBefore(from.event)
    const { gone } = await events.listAfter(start, { limit: 1 }).catch(error => {
      throw isSvcError(error) ? withFieldNames(error, problem => ({ ...problem, field: 'from' })) : error
    })
    if (!gone) return start
    throw badArgument('from', 'the log has no events of that time: they were removed, or are in the future', {
      hint: 'Name another time or event.',
    })
  }

  /** Counts the events for an endpoint after the cursor `start`, up to `end`. */
  async #countEvents(
    start: string,
    end: string,
    { session, types, user, grant: scope }: Webhook,
  ): Promise<ReplayedWebhook['replay']> {
    const filter = { limit: countPageSize, session, user, scope, ...typeFilterOf(types) }
    const found = { events: 0, events_is_lower_bound: false, since: undefined as number | undefined }
    const turn = createYield(this.ports.clock)
    let cursor = start
    for (let pages = 0; cursorNumberOf(cursor) < cursorNumberOf(end); pages++) {
      if (pages === maxCountedPages) return { ...found, events_is_lower_bound: true }
      await turn()
      const page = await this.ports.events.listAfter(cursor, filter)
      const counted = page.events.filter(event => cursorNumberOf(event.cursor) <= cursorNumberOf(end))
      found.events += counted.length
      found.since ??= counted[0]?.at
      if (page.cursor === cursor) break
      cursor = page.cursor
    }
    return found
  }

  /**
   * Removes an endpoint and all its data. The receiver of a subscription gets one last message, and its client cannot
   * make it again before it would have ended.
   */
  async remove(by: Principal, id: string): Promise<{ success: true; id: string }> {
    const { closing, log, webhooks } = this.ports
    const webhook = await this.#getStored(by, id)
    if (!(await webhooks.remove(id))) throw notFoundError()
    if (webhook.subscription) {
      await webhooks.add({ ...webhook, secrets: [] })
      const { sendTerminated } = await import('./envelopes.ts')
      void sendTerminated(webhook, { closing, log })
    }
    return { success: true, id }
  }

  /** Lists delivery attempts, newest first. */
  async listAttempts(
    by: Principal,
    id: string,
    { limit = 50, outcome, event }: WebhookLogQuery = {},
  ): Promise<WebhookDelivery[]> {
    const webhook = await this.#getStored(by, id)
    const all = await this.ports.webhooks.progress.listTries(id, limit, outcome, event)
    const [newest, ...rest] = all.map(({ answer: response, ...one }) =>
      withoutUndefined({ ...one, response }),
    )
    if (!newest || event === undefined || newest.type === webhookTest) return newest ? [newest, ...rest] : []
    const { disabled, next_try_at = 0, paused, subscription } = webhook
    const read = await this.#readEvent(webhook, event)
    const form = subscription && ((written: WrittenEvent) => toOccurrence(written, event))
    const lanes = await this.ports.webhooks.progress.listLanes(id)
    const trouble = lanes.find(lane => lane.trouble?.event === event)?.trouble
    return [
      {
        ...newest,
        ...(read && { payload: JSON.parse(bodyOf(read, undefined, form)) }),
        ...(trouble && !disabled && !paused && { next_try_at: Math.max(trouble.retry_at, next_try_at) }),
      },
      ...rest,
    ]
  }

  /** Delivers an event `webhook.test` now, from this process, also if the endpoint is off. */
  async sendTest(by: Principal, id: string, signal: AbortSignal): Promise<WebhookTest> {
    const webhook = await this.#getStored(by, id)
    rejectSubscription(webhook)
    const event = `test-${randomBytes(8).toString('hex')}`
    const data = { webhook: id, text: 'A test of svc.' }
    const test = { id: event, type: webhookTest, at: this.ports.clock.now(), data }
    return this.#deliverNow(webhook, test, signal)
  }

  /** @param epoch as for `addTry` */
  async #deliverNow(
    webhook: Webhook,
    outgoing: OutgoingEvent,
    signal: AbortSignal,
    epoch?: number,
  ): Promise<WebhookTest> {
    const { clock, createLinks, webhooks } = this.ports
    const { id: event, type } = outgoing
    const body = bodyOf(outgoing, createLinks(webhook))
    const { postEvent, createPoster } = await loadAttempt()
    using poster = createPoster(webhook)
    const at = clock.now()
    const beganAt = clock.monotonic()
    const sent = { ...webhook, replies: false }
    const { status, detail, code, answer } = await postEvent(poster, sent, { id: event, body }, signal)
    const success = detail === undefined
    const found = { status, took_ms: Math.round(clock.monotonic() - beganAt), detail, code }
    const outcome = success ? 'done' : 'failed'
    const attempt = { at, event, type, outcome, ...found, answer } as const
    // The result counts even if the store cannot record it.
    await webhooks.progress.addTry(webhook.id, attempt, epoch).catch(() => {})
    return withoutUndefined({ success, ...found })
  }

  /** Whether a link in a delivery is valid for a target now. It ends with the key that added the webhook. */
  async isLinkValid(to: LinkTarget, expires: string, signature: string): Promise<boolean> {
    const { clock, webhooks } = this.ports
    const webhook = await webhooks.get(to.webhook)
    return (
      webhook !== undefined &&
      isLinkValid(webhook.link_key, to, expires, signature, clock.now()) &&
      !(await this.#isOfEndedKey(webhook))
    )
  }

  /** Returns the whole message for a link. @throws SvcError `message_not_found` */
  async getMessage(messageId: string): Promise<Message> {
    const found = await this.ports.getMessage(messageId)
    if (found) return found
    throw new SvcError('message_not_found', 'the message is no longer stored')
  }

  async #changeStored(by: Principal, id: string, change: WebhookChange): Promise<void> {
    if (by.grant) await this.#getStored(by, id)
    if (!(await this.ports.webhooks.change(id, change))) throw notFoundError()
  }

  async #getStored(by: Principal, id: string): Promise<Webhook> {
    const found = await this.ports.webhooks.get(id)
    if (!found || !isManagedBy(found, by) || !isSubscribed(found, this.ports.clock.now()))
      throw notFoundError()
    return found
  }
}

/** Whether a caller may see and change an endpoint. A caller without a key may change all. */
const isManagedBy = ({ made_by = '' }: Webhook, by: Principal): boolean =>
  by.grant === undefined || parsePrincipal(made_by).id === keyIdOf(by)

/** @throws SvcError `forbidden` */
function rejectSubscription({ subscription }: Webhook): void {
  if (subscription)
    throw new SvcError('forbidden', 'it is a subscription of an MCP client, which has the secret', {
      hint: 'Pause it, or remove it.',
    })
}

const notFoundError = () =>
  new SvcError('not_found', 'no webhook has this id', { next: { action: 'see', what: 'webhooks' } })

function checkHeaders(headers: Readonly<Record<string, string>>): void {
  const entries = Object.entries(headers)
  if (entries.length > 20) throw badArgument('headers', 'more than 20')
  if (lengthOf(headers) > maxHeadersLength)
    throw badArgument('headers', `expected at most ${maxHeadersLength} characters, names and values together`)
  for (const [name, value] of entries) {
    if (name.length > maxHeaderNameLength)
      throw badArgument('headers', `a name is longer than ${maxHeaderNameLength} characters`)
    if (!headerName.test(name)) throw badArgument('headers', 'a name is not a valid HTTP header name')
    if (reservedHeaders.test(name)) throw badArgument('headers', `${name.toLowerCase()} is set by svc itself`)
    // Only printable ASCII and spaces are read the same by every receiver.
    if (!/^[\x20-\x7e]*$/.test(value))
      throw badArgument('headers', `expected printable ASCII as the value of ${name}`)
  }
}

const lengthOf = (headers: Readonly<Record<string, string>>): number =>
  Object.entries(headers).reduce((sum, [name, value]) => sum + name.length + value.length, 0)

/** Converts a stored endpoint to its public form, without secrets. @param now Unix ms */
function toEndpoint(webhook: Webhook, now: number): WebhookEndpoint {
  const { id, url, types, session, user, headers, allow_private, replies, created_at, tries } = webhook
  const { disabled, paused, failing_since, last_error, last_error_code, last_success_at, secrets } = webhook
  const { expires_at, made_by = '', next_try_at = 0 } = webhook
  const isOfKey = parsePrincipal(made_by).id !== undefined
  const old = secrets.find(({ until }) => until !== undefined && until > now)
  return {
    id,
    url,
    types: [...types] as WebhookEndpoint['types'],
    ...(session !== undefined && { session }),
    ...(user !== undefined && { user }),
    headers: Object.fromEntries(Object.keys(headers).map(name => [name, '***'])),
    allow_private,
    replies,
    status: disabled ? 'disabled' : paused ? 'paused' : failing_since === undefined ? 'active' : 'failing',
    ...(disabled && { disabled_reason: disabled.reason, disabled_at: disabled.at }),
    ...(disabled?.code && { disabled_code: disabled.code }),
    created_at,
    ...(isOfKey && { made_by }),
    ...(last_success_at !== undefined && { last_success_at }),
    ...(failing_since !== undefined && { failing_since }),
    ...(last_error !== undefined && { last_error }),
    ...(last_error_code && { last_error_code }),
    // A time in the past is left out: that attempt is running.
    ...(!disabled && !paused && next_try_at > now && { next_try_at }),
    ...(old?.until !== undefined && { rotating_until: old.until }),
    ...(expires_at !== undefined && { expires_at }),
    tries: { ...tries },
  }
}
