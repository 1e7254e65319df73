/** What happens, as a stream: where it begins, and whom it concerns. */
import { type Static, Type } from '@sinclair/typebox'
import type { ChangeListener } from '../gateway/changes.ts'
import type { Gateway } from '../gateway/gateway-api.ts'
import { isSvcError, renamed } from '../model/error.ts'
import { EventQuery } from '../model/event.ts'
import { bounded, closed, optional } from '../model/shapes.ts'
import { typesOf } from '../push/events.ts'
import { operation } from './operation.ts'
import { parseTime } from './schema.ts'

const Stream = closed({
  ...EventQuery.properties,
  after: optional(
    bounded(
      64,
      'Id of an event, or a time (Unix milliseconds or ISO 8601): what came after it; 0: from the beginning. Without: from now on.',
    ),
  ),
  consumer: optional(
    bounded(
      64,
      'A name under which svc keeps the place: a new one begins now; it moves when the reader connects again with the id that it has seen.',
    ),
  ),
})

/** Opens the stream: each door reads it in its own way. A cursor that is invalid is refused here, before it begins. */
async function openEvents(
  { changes, events }: Pick<Gateway, 'changes' | 'events'>,
  { types, session, user, after, consumer }: Static<typeof Stream>,
) {
  const wanted = await events.wanted({ ...typesOf(types), session, user })
  const time = after === undefined ? undefined : parseTime(after)
  /** Where the stream begins. */
  const cursor = await events.begin(time === undefined ? after : await events.head(time), consumer)
  /** The wanted events after a cursor; `turn` as of `EventReader.page`. */
  const page = (from: string, limit: number, turn?: () => Promise<void>) =>
    events.page(from, { ...wanted, limit }, turn)
  /** Notes that the reader, if it has a name, is still there. */
  const seen = async () => consumer && events.seen(consumer)
  /** The wanted events one by one, as of `EventReader.follow`. */
  const follow = (signal: AbortSignal, options: Parameters<typeof events.follow>[3]) =>
    events.follow(cursor, wanted, signal, options)
  /** Each event that happens from now on, wanted or not, as of `Changes.subscribe`. */
  const subscribe = (listener: Pick<ChangeListener, 'event' | 'reached'>) => changes.subscribe(listener)
  await page(cursor, 1)
  return { wanted, consumer, cursor, page, seen, follow, subscribe }
}

export type OpenedEvents = Awaited<ReturnType<typeof openEvents>>

export const followEvents = operation({
  name: 'follow_events',
  title: 'Follow everything that happens',
  effect: 'read',
  right: 'events',
  description:
    'Server-sent events, in one order, from now on or from where a reader was: the `id` of each is its place, and a client sends the last one again as Last-Event-ID. A browser, which sends no token, takes a link of POST /events/link. `data` is one JSON object: `{id, type, timestamp, data}`; /asyncapi.json describes each type. A comment comes at least every 8 seconds. An event named `gone` says that some are lost, since retention took them, or the id is of another data directory; the oldest that is kept comes next. A reader that does not read is cut off, and reads on when it connects again. At least once: know a repeat by its id.',
  input: closed({
    ...Stream.properties,
    last_event_id: optional(
      bounded(64, 'As after, which it goes before: a client that connects again sends it.'),
    ),
  }),
  output: Type.Unsafe<OpenedEvents>({ type: 'string' }),
  errors: ['session_not_found', 'rate_limited', 'store_unavailable'],
  rest: {
    place: 'GET /events',
    tag: 'messages',
    headers: { last_event_id: 'Last-Event-ID' },
    // A look at the headers moves no reader.
    notByHead: ['consumer'],
    ownQuery: {
      link: bounded(64, 'Of POST /events/link: it takes the place of the token and of all other parameters.'),
    },
    answers: 'events',
  },
  async run(gateway, { last_event_id, ...input }) {
    if (last_event_id === undefined) return openEvents(gateway, input)
    return openEvents(gateway, { ...input, after: last_event_id }).catch(error => {
      throw isSvcError(error)
        ? renamed(error, one => (one.field === 'after' ? { ...one, field: 'last_event_id' } : one))
        : error
    })
  },
})

export const linkEvents = operation({
  name: 'link_events',
  title: 'Make a link for EventSource',
  effect: 'write',
  right: 'events',
  description:
    'A browser cannot send the token with an EventSource. This link needs none: it opens one stream, once, within 60 seconds, with the parameters given here. A page of this origin gives `url` to an EventSource. An EventSource that lost its connection tries the same link again, which is then forbidden: close it at its first error, and make a new link with `after`: the id of the last event, else the `after` of this answer.',
  input: Stream,
  output: Type.Object({
    url: Type.String({ description: 'Path and query, for an EventSource of a page of this origin.' }),
    after: Type.String({
      description:
        'Where the stream begins. Give it to the next link if this stream ends before its first event.',
    }),
    expires_at: Type.Integer({ description: 'Unix ms. A stream that was opened before stays open.' }),
  }),
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
  rest: { place: 'POST /events/link', tag: 'messages' },
  async run(gateway, input, call) {
    const { cursor } = await openEvents(gateway, input)
    const after = cursor || '0'
    const link = call.linkEvents?.({ ...input, after })
    if (!link) throw new Error('this door makes no links')
    return { ...link, after }
  },
})

export const followChanges = operation({
  name: 'follow_changes',
  title: 'Follow messages, marks and sessions as they change',
  effect: 'read',
  right: 'history',
  description: 'For doors that show what is there now: what happened before is not told.',
  input: closed({}),
  output: Type.Unsafe<Gateway['changes']>({ type: 'object' }),
  run: async ({ changes }) => changes,
})
