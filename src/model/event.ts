/** Events as everybody outside is told of them: over the stream, by webhooks, in the library. */
import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { Message } from './message.ts'
import { Session } from './session.ts'
import { bounded, closed, oneOf, optional, text } from './shapes.ts'

export const eventTypes = [
  'message.received',
  'message.status',
  'session.status',
  'session.muted',
  'endpoint.disabled',
] as const

/** What became of a session. */
export const SessionChange = Type.Object(
  {
    ...Session.properties,
    change: oneOf(['connected', 'expired', 'lapsed', 'disconnected', 'logged_out', 'renamed']),
    previous_name: optional(text('Of one that was renamed.')),
  },
  { description: 'The session as it is now.' },
)
export type SessionChange = Static<typeof SessionChange>

/** A session whose account WeChat may have muted, or mutes no longer. */
const MutedSession = Type.Object(Session.properties, {
  description: 'The session as it is now: without muted_since it is over.',
})

/** Why a webhook endpoint was switched off. */
export const WebhookEnding = oneOf(
  ['gone', 'given_up'],
  'gone: it answered with 410. given_up: nothing succeeded for 5 days. Absent of what an older version wrote.',
)
export type WebhookEnding = Static<typeof WebhookEnding>

const DisabledEndpoint = Type.Object(
  {
    ...{ id: Type.String(), url: Type.String(), reason: text('Why svc switched it off.') },
    reason_code: optional(WebhookEnding),
  },
  { description: 'A webhook endpoint that failed for too long, or said that it is gone.' },
)

const eventOf = <T extends string, D extends TSchema>(type: T, description: string, data: D) =>
  Type.Object(
    {
      id: text('Its place in the event log: to read on from, and to know a repeat by.'),
      type: Type.Literal(type),
      timestamp: Type.String({ format: 'date-time', description: 'When it was written down, as ISO 8601.' }),
      data,
    },
    { title: type, description },
  )

/** By type. */
export const Events = {
  'message.received': eventOf('message.received', 'A message was received and stored.', Message),
  'message.status': eventOf(
    'message.status',
    'A sent message waits (queued), was accepted, suspect or refused, or nobody knows (unknown). One that was cancelled or declined, or has expired, is refused, and reason_code says so.',
    Message,
  ),
  'session.status': eventOf(
    'session.status',
    'A session connected, expired, lapsed, cannot be used (disconnected), was logged out or renamed.',
    SessionChange,
  ),
  'session.muted': eventOf(
    'session.muted',
    'WeChat may have muted the account of a session: it accepts messages without an id, or refuses files while texts go. Or it is over.',
    MutedSession,
  ),
  'endpoint.disabled': eventOf('endpoint.disabled', 'A webhook endpoint was switched off.', DisabledEndpoint),
}

/** What a try by hand delivers to a webhook endpoint; not an event of the log. */
export const WebhookTestEvent = eventOf(
  'webhook.test',
  'Somebody tries whether the endpoint answers.',
  Type.Object({ webhook: text('Id of the endpoint.'), text: Type.String() }),
)

export const Event = Type.Union(Object.values(Events))

/** What happened. `data` is a Message, a SessionChange, or an endpoint. */
export type Event = {
  [T in keyof typeof Events]: Static<(typeof Events)[T]>
}[keyof typeof Events]

/** What narrows a stream. */
export const EventQuery = closed({
  types: optional(
    Type.String({
      ...{ maxLength: 200, examples: ['message.received,session.status'] },
      description: `Types of events, separated by commas; all by default. There are ${eventTypes.join(', ')}.`,
    }),
  ),
  session: optional(bounded(200, 'Only events of this session.')),
  user: optional(
    bounded(512, 'Only messages from and to this user: the id, or the name that people here gave.'),
  ),
})
