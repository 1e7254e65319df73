/** `GET /events`: the event log as server-sent events. `POST /events/link`: the same for browsers, which send no token with it. */
import { type Static, Type } from '@sinclair/typebox'
import type { Elysia } from 'elysia'
import { isSvcError, type Problem, renamed, SvcError } from '../model/error.ts'
import { EventQuery } from '../model/event.ts'
import { bounded, closed, optional } from '../model/shapes.ts'
import { parse } from '../operations/parse.ts'
import type { Clock } from '../platform/clock.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import { typesOf } from '../push/events.ts'
import type { WantedEvents } from '../storage/events.ts'
import { prefixOf } from './behind-proxy.ts'
import { EventStreams } from './event-readers.ts'
import { unopenedStream } from './event-stream.ts'
import { isHead, queryOf } from './paths.ts'
import { answered, declared, doorErrors, jsonRoutes, noted, type RouteContext } from './route.ts'

const StreamQuery = closed({
  ...EventQuery.properties,
  after: optional(
    bounded(
      64,
      'Id of an event: what came after it; 0: from the beginning. The header Last-Event-ID goes before. Without: from now on.',
    ),
  ),
  consumer: optional(
    bounded(
      64,
      'A name under which svc keeps the place: a new one begins now; it moves when the reader connects again with the id that it has seen.',
    ),
  ),
})
type StreamQuery = Static<typeof StreamQuery>

/** For the document: it is read by hand. */
const StreamHeaders = Type.Object({
  'Last-Event-ID': optional(
    bounded(64, 'As after, which it goes before: a client that connects again sends it.'),
  ),
})

/** The place of a client that connects again comes in a header. */
const asHeader = (problem: Problem): Problem =>
  problem.field === 'after' ? { ...problem, field: 'Last-Event-ID' } : problem

const LinkedQuery = {
  ...StreamQuery.properties,
  link: optional(
    bounded(64, 'Of POST /events/link: it takes the place of the token and of all other parameters.'),
  ),
}

const LinkBody = closed({
  ...StreamQuery.properties,
  after: optional(
    bounded(64, 'Id of an event: what came after it; 0: from the beginning. Without: from now on.'),
  ),
})

const EventLink = Type.Object({
  url: Type.String({ description: 'Path and query, for an EventSource of a page of this origin.' }),
  after: Type.String({
    description:
      'Where the stream begins. Give it to the next link if this stream ends before its first event.',
  }),
  expires_at: Type.Integer({ description: 'Unix ms. A stream that was opened before stays open.' }),
})

const eventsPath = '/events'
const linkMs = 60_000
const mostLinks = 1000

interface Link {
  query: StreamQuery
  /** Monotonic ms. */
  until: number
}

/**
 * Links that were made and not opened. They are kept by the process that made them: a link opens once, and none outlives a restart.
 */
class EventLinks {
  readonly #clock: Clock
  /** By code, in the order in which they expire. */
  readonly #links = new Map<string, Link>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** @returns the code of a new link @throws SvcError `rate_limited` */
  add(query: StreamQuery): string {
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
    this.#links.set(code, { query, until: now + linkMs })
    return code
  }

  /** What the link stands for, which opens no second time; undefined when it was opened before, or is too old. */
  take(code: string): StreamQuery | undefined {
    const link = this.#links.get(code)
    this.#links.delete(code)
    return link && link.until > this.#clock.monotonic() ? link.query : undefined
  }
}

/** What stands for a request that came by a link: one with the parameters of the link alone. */
export type FollowLink = (request: Request) => Request | SvcError

/** Whether a request asks for events by a link. */
export const isByLink = (request: Request, path: string): boolean =>
  path === eventsPath && request.method === 'GET' && queryOf(request).link !== undefined

/** Adds GET `/events` and POST `/events/link`. */
export function addEventRoutes(app: Elysia, context: RouteContext): FollowLink {
  const { gateway, clock } = context
  const streams = new EventStreams(context)
  const links = new EventLinks(clock)
  /** @throws SvcError for what the stream would be refused for */
  const begin = async (query: StreamQuery, seen: string | undefined) => {
    const { types, session, user, after, consumer } = query
    const who = { ...(session && { session }), ...(user && { user }) }
    const wanted: Omit<WantedEvents, 'limit'> = await gateway.events.wanted({ ...typesOf(types), ...who })
    const cursor = await gateway.events.begin(seen || after, consumer)
    // A cursor that is invalid is refused here, before the stream begins.
    await gateway.events.page(cursor, { ...wanted, limit: 1 })
    return { wanted, cursor, consumer }
  }
  const open = async (request: Request) => {
    const { consumer, ...query } = parse(StreamQuery, queryOf(request))
    const seen = request.headers.get('last-event-id') || undefined
    // A look at the headers moves nobody's place.
    const begun = await begin(isHead(request) ? query : { ...query, consumer }, seen).catch(error => {
      throw seen && isSvcError(error) ? renamed(error, asHeader) : error
    })
    return isHead(request) ? unopenedStream() : streams.open(begun)
  }
  app.get(eventsPath, ({ request }) => answered(context, request, () => open(request), 'follow_events'), {
    parse: 'none',
    query: declared(closed(LinkedQuery)),
    headers: declared(StreamHeaders),
    detail,
  })
  jsonRoutes(app, context, 'messages')(`POST ${eventsPath}/link`, 'link_events', {
    summary: 'Make a link for EventSource',
    description:
      'A browser cannot send the token with an EventSource. This link needs none: it opens one stream, once, within 60 seconds, with the parameters given here. A page of this origin gives `url` to an EventSource. An EventSource that lost its connection tries the same link again, which is then forbidden: close it at its first error, and make a new link with `after`: the id of the last event, else the `after` of this answer.',
    body: LinkBody,
    answer: EventLink,
    errors: ['session_not_found', 'rate_limited', 'store_unavailable'],
    examples: [
      {
        summary: 'Received messages, from now on',
        input: { types: 'message.received' },
        output: {
          url: '/events?link=Jv0xkqYt3mNnqk2cQnqLrXo5pFh1uQ8a',
          after: '9f2c41d07a-43000000',
          expires_at: 1767225660000,
        },
      },
    ],
    async run({ body, request }) {
      const { cursor } = await begin(body, undefined)
      const after = cursor || '0'
      const code = links.add({ ...body, after })
      return {
        url: `${prefixOf(request) ?? ''}${eventsPath}?link=${code}`,
        after,
        expires_at: clock.now() + linkMs,
      }
    },
  })
  return request => {
    const { link, ...others } = queryOf(request)
    if (Object.keys(others).length > 0)
      return new SvcError('invalid_arguments', 'A link takes no other parameters', {
        hint: 'Give them to POST /events/link.',
      })
    const query = links.take(link ?? '')
    if (query === undefined)
      return new SvcError('forbidden', 'This link was opened before, or is older than 60 seconds', {
        hint: 'Make a new one by POST /events/link, with the id of the last event as "after".',
      })
    const { signal, url } = request
    return new Request(`${new URL(eventsPath, url)}?${new URLSearchParams(query)}`, { signal })
  }
}

const detail = {
  operationId: 'follow_events',
  summary: 'Follow everything that happens',
  description:
    'Server-sent events, in one order, from now on or from where a reader was: the `id` of each is its place, and a client sends the last one again as Last-Event-ID. A browser, which sends no token, takes a link of POST /events/link. `data` is one JSON object: `{id, type, timestamp, data}`; /asyncapi.json describes each type. A comment comes at least every 8 seconds. An event named `gone` says that some are lost, since retention took them, or the id is of another data directory; the oldest that is kept comes next. A reader that does not read is cut off, and reads on when it connects again. At least once: know a repeat by its id.',
  tags: ['messages'],
  ...noted({
    errors: [
      'invalid_arguments',
      'session_not_found',
      'rate_limited',
      'store_unavailable',
      'internal',
      ...doorErrors,
    ],
    responses: {
      200: {
        description: 'The stream.',
        content: { 'text/event-stream': { schema: { type: 'string' } } },
      },
    },
  }),
}
