/** Operations for the event stream: open it, make a link to it, and follow changes. */
import { type Static, Type } from '@sinclair/typebox'
import type { ChangeListener } from '../gateway/changes.ts'
import type { Gateway } from '../gateway/gateway-api.ts'
import { isSvcError, withFieldNames } from '../model/error.ts'
import { EventQuery, rightsForTypes } from '../model/event.ts'
import { bounded, closed, optional } from '../model/shapes.ts'
import { type PublicEvent, parseTypes } from '../push/events.ts'
import { defineOperation } from './operation.ts'
import { parseTime } from './schema.ts'

const StreamInput = closed({
  ...EventQuery.properties,
  after: optional.bounded(
    64,
    'Id of an event, or a time (Unix milliseconds or ISO 8601): only events after it. 0: all stored events. Without it: events from now on.',
  ),
  consumer: optional.bounded(
    64,
    'Name under which svc keeps the position. A new name starts now. The position moves when the reader connects again with the id of its last event.',
  ),
})

const furtherRights = ({ types }: Static<typeof StreamInput>) => rightsForTypes(parseTypes(types).types)

/** Opens the stream, which each door reads by itself. @throws SvcError for an invalid cursor */
async function openEvents(
  { changes, events }: Pick<Gateway, 'changes' | 'events'>,
  { types, session, user, after, consumer }: Static<typeof StreamInput>,
) {
  const resolved = await events.resolveFilter({ ...parseTypes(types), session, user })
  /** `bot`: the account of the session. */
  const wanted: typeof resolved & Pick<PublicEvent, 'bot'> = resolved
  const named = wanted.session === undefined ? undefined : events.followSession(wanted.session)
  const time = after === undefined ? undefined : parseTime(after)
  /** Cursor at which the stream starts. */
  const cursor = await events.startReader(time === undefined ? after : await events.getHead(time), consumer)
  /**
   * Returns the matching events after a cursor, those of the session under the name that it has now. `turn` is that of
   * `EventReader.readPage`.
   */
  const page = async (from: string, limit: number, turn?: () => Promise<void>) => {
    Object.assign(wanted, await named?.())
    return events.readPage(from, { ...wanted, limit }, turn)
  }
  /** Records that the reader is still active, if it has a consumer name. */
  const seen = async () => consumer && events.markActive(consumer)
  /** Iterates over the matching events, same as `EventReader.follow`. */
  const follow = (signal: AbortSignal, options: Parameters<typeof events.follow>[3]) =>
    events.follow(cursor, wanted, signal, options)
  /** Subscribes to all events from now on that the caller may see, same as `Changes.subscribe`. */
  const subscribe = (listener: Pick<ChangeListener, 'event' | 'reached'>) => changes.subscribe(listener)
  const getHead = (before?: number) => events.getHead(before)
  const wait = (from: string, signal: AbortSignal) => events.wait(from, signal)
  await page(cursor, 1)
  return { wanted, consumer, cursor, page, seen, follow, subscribe, getHead, wait }
}

export type OpenedEvents = Awaited<ReturnType<typeof openEvents>>

export const followEvents = defineOperation({
  name: 'follow_events',
  title: 'Follow everything that happens',
  effect: 'read',
  right: 'events',
  description:
    'Server-sent events in one order, from now on or from the position of the reader. The `id` of an event is its position; a client that connects again sends the last id as Last-Event-ID. A browser, which sends no token, uses a link of POST /events/link. `data` is one JSON object: `{id, type, timestamp, data}`; /asyncapi.json describes each type. A comment comes at least every 8 seconds. An event named `gone` means that events are lost, because retention deleted them or the id is of another data directory; the oldest stored event comes next. A client that does not read is disconnected, and can continue when it connects again. Each event comes at least once: a repeated event has the same id.',
  input: closed({
    ...StreamInput.properties,
    last_event_id: optional.bounded(
      64,
      'Same as `after`, and takes precedence over it. A client that connects again sends it.',
    ),
  }),
  output: Type.Unsafe<OpenedEvents>({ type: 'string' }),
  errors: ['session_not_found', 'rate_limited'],
  rest: {
    route: 'GET /events',
    tag: 'messages',
    headers: { last_event_id: 'Last-Event-ID' },
    // A HEAD request moves no consumer.
    ignoredByHead: ['consumer'],
    ownQuery: {
      link: bounded(64, 'Link of POST /events/link. It replaces the token and all other parameters.'),
    },
    answerKind: 'events',
  },
  furtherRights,
  async run(gateway, { last_event_id, ...input }) {
    if (last_event_id === undefined) return openEvents(gateway, input)
    return openEvents(gateway, { ...input, after: last_event_id }).catch(error => {
      throw isSvcError(error)
        ? withFieldNames(error, problem =>
            problem.field === 'after' ? { ...problem, field: 'last_event_id' } : problem,
          )
        : error
    })
  },
})

export const linkEvents = defineOperation({
  name: 'link_events',
  title: 'Make a link for EventSource',
  effect: 'write',
  right: 'events',
  description:
    'A browser cannot send the token with an EventSource. This link needs no token: it opens one stream, once, within 60 seconds, with the parameters of this call. A page of this origin passes `url` to an EventSource. After a lost connection an EventSource tries the same link again, which is then forbidden. So close it at its first error, and make a new link with `after`: the id of the last event, or the `after` of this answer if there was none.',
  input: StreamInput,
  output: Type.Object({
    url: Type.String({ description: 'Path and query, for an EventSource of a page of this origin.' }),
    after: Type.String({
      description:
        'Position at which the stream starts. Pass it to the next link if this stream ends before its first event.',
    }),
    expires_at: Type.Integer({
      description: 'Until when the link can be used, in Unix milliseconds. An open stream stays open.',
    }),
  }),
  errors: ['session_not_found', 'rate_limited'],
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
  rest: { route: 'POST /events/link', tag: 'messages' },
  furtherRights,
  async run(gateway, input, call) {
    const { cursor } = await openEvents(gateway, input)
    const after = cursor || '0'
    const link = await call.linkEvents?.({ ...input, after })
    if (!link) throw new Error('this door makes no links')
    return { ...link, after }
  },
})

export const followChanges = defineOperation({
  name: 'follow_changes',
  title: 'Follow messages, marks and sessions as they change',
  effect: 'read',
  right: 'history',
  description: 'For doors that need only changes from now on.',
  output: Type.Unsafe<Gateway['changes']>({ type: 'object' }),
  run: async ({ changes }) => changes,
})
