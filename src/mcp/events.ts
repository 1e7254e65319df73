/**
 * MCP Events (SEP-3415, `io.modelcontextprotocol/events`): its types, and their delivery by poll and push. Events come
 * through the same operation as those of `GET /events`, so rights, scopes and erasures hold as there.
 */
import { fromJsonSchema, type McpServer, type ServerContext } from '@modelcontextprotocol/server'
import { type Static, Type } from '@sinclair/typebox'
import { isSvcError, SvcError, withFieldNames } from '../model/error.ts'
import { matchesArguments, type SubscriptionArguments, toOccurrence } from '../model/occurrence.ts'
import { bounded, optional } from '../model/shapes.ts'
import { followEvents, type OpenedEvents } from '../operations/events.ts'
import { parse } from '../operations/parse.ts'
import { mayCall } from '../operations/rights.ts'
import { subscribeEvents, unsubscribeEvents } from '../operations/subscriptions.ts'
import type { Tool } from '../operations/tools.ts'
import { type Clock, SharedTurns, systemClock } from '../platform/clock.ts'
import { followSignal, linkSignals } from '../platform/signals.ts'
import { cursorBefore, cursorNumberOf } from '../storage/events.ts'
import { callOperation, type McpContext } from './context.ts'
import {
  argumentsOf,
  type DeliveryMode,
  describeType,
  eventsError,
  type OfferedType,
  offeredTypes,
} from './event-types.ts'
import { acceptingValidator } from './tools.ts'

/** Key of the extension in the capabilities. */
const extension = 'io.modelcontextprotocol/events'
const subscriptionIdKey = 'io.modelcontextprotocol/subscriptionId'
const usualPollMs = 5000
const usualPollEvents = 50
const pageEvents = 100
/** Longest silence of a stream: Bun ends a stream after 10 s. */
const heartbeatMs = 7000
/** A stream that cannot read the log tries again after this time. */
const retryMs = 5000

const SubscriptionParams = Type.Object({
  name: bounded(64),
  arguments: optional(Type.Unsafe<unknown>({})),
  cursor: optional(Type.String({ pattern: String.raw`^\w{1,40}-\d{1,16}$` })),
  maxAgeMs: optional.between(0, Number.MAX_SAFE_INTEGER, 'Milliseconds.'),
})
const PollParams = Type.Object({
  ...SubscriptionParams.properties,
  maxEvents: optional.between(1, Number.MAX_SAFE_INTEGER, 'Most events to return.'),
})

const WebhookParams = Type.Object({
  ...SubscriptionParams.properties,
  delivery: Type.Object({
    mode: optional(Type.String()),
    url: bounded(2000),
    secret: optional.bounded(100),
  }),
  ttlMs: optional(Type.Union([Type.Number(), Type.Null()])),
})

/** Shares the event loop among streams that catch up. */
const turns = new SharedTurns(systemClock)

/** The types of one caller, and how they are delivered to it. */
interface Offer {
  readonly context: McpContext
  readonly types: readonly OfferedType[]
  readonly delivery: readonly DeliveryMode[]
}

/** Answers `events/*`, and advertises the extension, if the caller may see events. */
export function addEvents({ server }: McpServer, context: McpContext, tools: readonly Tool[]): void {
  const types = offeredTypes(context.by, tools)
  if (types.length === 0) return
  const { by, calls, hasToken = false } = context
  // A subscription belongs to a principal, and a caller without a token is nobody.
  const maySubscribe = mayCall(by, subscribeEvents) && (hasToken || by.id !== undefined)
  const delivery: DeliveryMode[] = ['poll']
  if (calls.waitForReader) delivery.push('push')
  if (maySubscribe) delivery.push('webhook')
  const offer: Offer = { context, types, delivery }
  // `events` is how clients that were made for the draft find it.
  const capabilities = { extensions: { [extension]: {} }, events: {} }
  server.registerCapabilities(capabilities)
  const answer = (
    method: string,
    run: (offer: Offer, params: Record<string, unknown>, ctx: ServerContext) => Promise<object>,
  ) =>
    server.setRequestHandler(
      `events/${method}`,
      { params: fromJsonSchema<Record<string, unknown>>({ type: 'object' }, acceptingValidator) },
      async (params, ctx) => {
        const result = await run(offer, withoutNulls(params), ctx).catch(error => {
          throw toEventsError(error)
        })
        return { resultType: 'complete', ...result }
      },
    )
  answer('list', async () => ({ events: types.map(type => describeType(type, delivery)) }))
  answer('poll', poll)
  answer('stream', push)
  answer('subscribe', subscribe)
  answer('unsubscribe', unsubscribe)
}

/** Absent and null mean the same, except in `ttlMs`. */
const withoutNulls = (params: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(Object.entries(params).filter(([name, value]) => value !== null || name === 'ttlMs'))

function toEventsError(error: unknown): unknown {
  if (isSvcError(error, 'forbidden') || isSvcError(error, 'unauthorized'))
    return eventsError('Forbidden', { reason: error.message })
  if (!isSvcError(error)) return error
  const { callback, most } = error.details ?? {}
  if (error.code === 'rate_limited')
    return eventsError('ResourceExhausted', error.details ?? { limit: 'streams' })
  if (callback !== undefined) return eventsError('CallbackEndpointError', { reason: callback })
  if (most !== undefined) return eventsError('ResourceExhausted', { limit: 'webhooks', max: most })
  const named = withFieldNames(error, one => ({ ...one, field: argumentNames[one.field] ?? one.field }))
  const { code, options, problem } = named
  const isUsual = code === 'invalid_arguments' && options.hint === undefined && options.next === undefined
  return isUsual
    ? new SvcError(code, problem, { ...options, hint: 'events/list shows every argument.' })
    : named
}

/** What arguments of events are called, by their names in operations. */
const argumentNames: Readonly<Record<string, string>> = {
  user: 'person',
  session: 'account',
  after: 'cursor',
}

/** Returns the event type and arguments that a subscription names. @throws ProtocolError, SvcError */
function parseSubscription(
  { types, delivery }: Offer,
  { name, arguments: given = {} }: Static<typeof SubscriptionParams>,
  mode: DeliveryMode,
): { type: OfferedType; wanted: SubscriptionArguments } {
  const type = types.find(one => one === name)
  if (!type) throw eventsError('NotFound', { kind: 'event' })
  if (!delivery.includes(mode)) throw eventsError('Unsupported', { feature: 'deliveryMode', value: mode })
  return { type, wanted: parse(argumentsOf(type), given) }
}

/** A subscription at the place where it begins. */
interface Begun {
  readonly opened: OpenedEvents
  readonly wanted: SubscriptionArguments
  readonly cursor: string
  /** Whether `maxAgeMs` skips events. */
  readonly isCut: boolean
}

async function begin(
  offer: Offer,
  params: Static<typeof SubscriptionParams>,
  mode: DeliveryMode,
): Promise<Begun> {
  const { context } = offer
  const { type, wanted } = parseSubscription(offer, params, mode)
  const opened = await callOperation(context, followEvents, {
    types: type,
    session: wanted.account,
    user: wanted.person,
    after: params.cursor,
  })
  const { cursor } = opened
  if (params.cursor === undefined || params.maxAgeMs === undefined)
    return { opened, wanted, cursor, isCut: false }
  const { clock } = await context.gateway
  const floor = await opened.getHead(clock.now() - params.maxAgeMs)
  const isCut = cursorNumberOf(floor) > cursorNumberOf(cursor)
  return { opened, wanted, cursor: isCut ? floor : cursor, isCut }
}

async function poll(offer: Offer, given: Record<string, unknown>): Promise<object> {
  const params = parse(PollParams, given)
  const { opened, wanted, cursor: start, isCut } = await begin(offer, params, 'poll')
  const result = {
    events: [] as object[],
    cursor: start,
    truncated: isCut,
    hasMore: false,
    nextPollMs: usualPollMs,
  }
  if (params.cursor === undefined) return result
  const most = Math.min(params.maxEvents ?? usualPollEvents, pageEvents)
  const page = await opened.page(start, pageEvents, turns.join())
  for (const { event, isThere } of page.events) {
    if (result.events.length === most) break
    result.cursor = event.id
    if (matchesArguments(wanted, event.data) && (await isThere())) result.events.push(toOccurrence(event))
  }
  if (result.cursor === (page.events.at(-1)?.event.id ?? start)) result.cursor = page.cursor
  result.hasMore = cursorNumberOf(result.cursor) < cursorNumberOf(await opened.getHead())
  return { ...result, truncated: isCut || page.gone === true }
}

/** What a stream is written to. */
interface Stream {
  readonly signal: AbortSignal
  readonly clock: Pick<Clock, 'monotonic' | 'sleep'>
  readonly log: McpContext['log']
  /** Sends a notification `notifications/events/<kind>` when the client has read the ones before. */
  send(kind: 'active' | 'event' | 'heartbeat' | 'error', params: object): Promise<void>
}

/** Sends events as notifications until the client cancels, its key ends or the service stops. */
async function push(
  offer: Offer,
  given: Record<string, unknown>,
  { mcpReq, ...ctx }: ServerContext,
): Promise<object> {
  const { by, calls, log } = offer.context
  const begun = await begin(offer, parse(SubscriptionParams, given), 'push')
  using ends = linkSignals(mcpReq.signal, calls.waiting.draining, by.ended)
  const _meta = { [subscriptionIdKey]: mcpReq.id }
  const notify = (kind: string, params: object) =>
    mcpReq.notify({ method: `notifications/events/${kind}`, params: { ...params, _meta } })
  const { clock } = await offer.context.gateway
  const stream: Stream = {
    signal: ends.signal,
    clock,
    log,
    async send(kind, params) {
      await calls.waitForReader?.({ mcpReq, ...ctx }, ends.signal)
      if (!ends.signal.aborted) await notify(kind, params)
    },
  }
  await follow(begun, stream)
  const { code, message, data } = eventsError('Forbidden', { reason: 'Access revoked' })
  if (by.ended?.aborted) await notify('terminated', { error: { code, message, data } })
  return { _meta }
}

/** Sends all events from a place on, until the stream ends. */
async function follow(
  { opened, wanted, isCut, ...begun }: Begun,
  { clock, log, send, signal }: Stream,
): Promise<void> {
  let { cursor } = begun
  let isActive = false
  let sentAt = clock.monotonic()
  const sendNow: Stream['send'] = async (kind, params) => {
    await send(kind, params)
    sentAt = clock.monotonic()
  }
  const turn = turns.join()
  const readOn = async () => {
    const { events, gone, cursor: end } = await opened.page(cursor, pageEvents, turn)
    if (gone) cursor = events[0] ? cursorBefore(events[0].event.id) : end
    if (gone || !isActive)
      await sendNow('active', { cursor, truncated: gone === true || (isCut && !isActive) })
    isActive = true
    for (const { event, isThere } of events) {
      if (matchesArguments(wanted, event.data) && (await isThere()))
        await sendNow('event', toOccurrence(event, event.id))
      if (signal.aborted) return
    }
    const isAtEnd = end === cursor
    cursor = end
    if (isAtEnd) await waitForNews()
    if (!signal.aborted && clock.monotonic() - sentAt >= heartbeatMs) await sendNow('heartbeat', { cursor })
  }
  const waitForNews = async () => {
    const silence = clock.monotonic() - sentAt
    const pause = new AbortController()
    const unfollow = followSignal(signal, pause)
    await Promise.race([
      opened.wait(cursor, pause.signal),
      clock.sleep(Math.max(0, heartbeatMs - silence), pause.signal),
    ]).finally(() => {
      unfollow()
      pause.abort()
    })
  }
  while (!signal.aborted) {
    try {
      await readOn()
    } catch (error) {
      if (signal.aborted) return
      log.warn('an event stream cannot read on', { error })
      // The client keeps its subscription, and the next try may find the log again.
      await sendNow('error', {
        error: { code: -32603, message: isSvcError(error) ? error.message : 'internal error' },
      })
      await clock.sleep(retryMs, signal)
    }
  }
}

/** Returns what identifies a subscription by webhook. @throws ProtocolError, SvcError */
function nameOf(offer: Offer, params: Static<typeof WebhookParams>) {
  const { mode = 'webhook', url } = params.delivery
  if (!offer.delivery.includes('webhook'))
    throw eventsError('Forbidden', { reason: 'This needs a token or key with the right "webhooks"' })
  if (mode !== 'webhook') throw eventsError('Unsupported', { feature: 'deliveryMode', value: mode })
  const { type, wanted } = parseSubscription(offer, params, 'webhook')
  const { account: session, person: user, ...rest } = wanted
  return { ...rest, type, url, session, user }
}

async function subscribe(offer: Offer, given: Record<string, unknown>, ctx: ServerContext): Promise<object> {
  const params = parse(WebhookParams, given)
  const { cursor, delivery, maxAgeMs: max_age_ms, ttlMs: ttl_ms } = params
  const { secret = '' } = delivery
  const input = { ...nameOf(offer, params), secret, cursor, max_age_ms, ttl_ms }
  const made = await callOperation(offer.context, subscribeEvents, input, ctx.mcpReq.signal)
  const timeOf = (ms: number) => new Date(ms).toISOString()
  const { expires_at, status, ...rest } = made
  const { active, error = null, failing_since, last_success_at } = status ?? {}
  return {
    ...rest,
    refreshBefore: timeOf(expires_at),
    ...(status && {
      deliveryStatus: {
        active,
        lastDeliveryAt: last_success_at === undefined ? null : timeOf(last_success_at),
        lastError: error,
        ...(failing_since !== undefined && { failedSince: timeOf(failing_since) }),
      },
    }),
  }
}

async function unsubscribe(offer: Offer, given: Record<string, unknown>): Promise<object> {
  const name = nameOf(offer, parse(WebhookParams, given))
  await callOperation(offer.context, unsubscribeEvents, name).catch(error => {
    throw isSvcError(error, 'not_found') ? eventsError('NotFound', { kind: 'subscription' }) : error
  })
  return {}
}
