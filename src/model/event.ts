/** Events in their public form: for the event stream, webhooks and the library. */
import { type Static, type TSchema, Type } from '@sinclair/typebox'
import type { Right } from './access.ts'
import { AuditLine } from './audit.ts'
import { Message } from './message.ts'
import { Session } from './session.ts'
import { closed, integer, oneOf, optional, text } from './shapes.ts'

export const eventTypes = [
  'message.received',
  'message.status',
  'session.status',
  'session.muted',
  'session.joined',
  'endpoint.disabled',
  'audit.line',
  'backup.failed',
] as const

/**
 * The types that a reader gets only if it names them, and the right that it needs for each. A type that is added later
 * belongs here: a webhook that names no types still gets what it got when it was added.
 */
const namedTypes: Readonly<Record<string, Right>> = {
  'session.joined': 'sessions',
  'audit.line': 'audit',
  'backup.failed': 'backup',
}
export const isNamedOnly = (type: string): boolean => Object.hasOwn(namedTypes, type)
export const rightsForTypes = (types: readonly string[] = []): Right[] =>
  types.flatMap(type => namedTypes[type] ?? [])

/** A change of a session's state. */
export const SessionChange = Type.Object(
  {
    ...Session.properties,
    change: oneOf(['connected', 'expired', 'lapsed', 'disconnected', 'logged_out', 'renamed']),
    previous_name: optional.text('The old name of a renamed session.'),
  },
  { description: 'The session as it is now.' },
)
export type SessionChange = Static<typeof SessionChange>

/** A session whose account WeChat may have muted, or no longer mutes. */
const MutedSession = Type.Object(Session.properties, {
  description: 'The session as it is now. Without muted_since, the account is no longer muted.',
})

const JoinedSession = Type.Object(
  {
    name: text('Name of the session.'),
    bot_id: Type.String(),
    user_id: optional.text('The person who joined.'),
    invitation: text('Id of the invitation.'),
    invitation_name: Type.String(),
  },
  { description: 'The account of a person who joined by an invitation.' },
)
export type JoinedSession = Static<typeof JoinedSession>

/** Why a webhook endpoint was switched off. */
export const WebhookEnding = oneOf(
  ['gone', 'given_up', 'key_revoked'],
  'gone: the endpoint answered with 410. given_up: no delivery succeeded for 5 days. key_revoked: the key that added it was revoked, or has expired. Absent in records from older versions.',
)
export type WebhookEnding = Static<typeof WebhookEnding>

const DisabledEndpoint = Type.Object(
  {
    id: Type.String(),
    url: Type.String(),
    reason: text('Why svc switched it off.'),
    reason_code: optional(WebhookEnding),
  },
  {
    description: 'A webhook endpoint that failed for too long, reported that it is gone, or whose key ended.',
  },
)

const defineEvent = <T extends string, D extends TSchema>(type: T, description: string, data: D) =>
  Type.Object(
    {
      id: text('Its position in the event log: to continue reading after it, and to recognise repeats.'),
      type: Type.Literal(type),
      timestamp: Type.String({
        format: 'date-time',
        description: 'When the event was recorded, as ISO 8601.',
      }),
      data,
    },
    { title: type, description },
  )

/** The event schemas by type. */
export const Events = {
  'message.received': defineEvent('message.received', 'A message was received and stored.', Message),
  'message.status': defineEvent(
    'message.status',
    'The status of a sent message changed: it waits (queued), was accepted, is suspect, was refused, or is unknown. A cancelled, declined or expired message is refused, and reason_code gives the cause.',
    Message,
  ),
  'session.status': defineEvent(
    'session.status',
    'A session connected, expired, lapsed, became unusable (disconnected), was logged out or was renamed.',
    SessionChange,
  ),
  'session.muted': defineEvent(
    'session.muted',
    'WeChat may have muted the account of a session (it accepts messages without an id, or refuses files while texts go), or it no longer mutes it.',
    MutedSession,
  ),
  'session.joined': defineEvent(
    'session.joined',
    'A person joined by an invitation, and has an account now. Only for readers that name this type and have the right "sessions".',
    JoinedSession,
  ),
  'endpoint.disabled': defineEvent(
    'endpoint.disabled',
    'A webhook endpoint was switched off.',
    DisabledEndpoint,
  ),
  'audit.line': defineEvent(
    'audit.line',
    'A call that changed something ended, or a call was denied to a key. Only for readers that name this type and have the right "audit". Sends have message.status.',
    AuditLine,
  ),
  'backup.failed': defineEvent(
    'backup.failed',
    'A backup by schedule was not made. Only for readers that name this type and have the right "backup".',
    Type.Object({
      folder: text('Folder of the schedule.'),
      at: integer('Unix milliseconds.'),
      error: text('Why.'),
    }),
  ),
}

/** The delivery of a manual webhook test; not an event of the log. */
export const WebhookTestEvent = defineEvent(
  'webhook.test',
  'A person tests whether the endpoint answers.',
  Type.Object({ webhook: text('Id of the endpoint.'), text: Type.String() }),
)

export const Event = Type.Union(Object.values(Events))

/** An event. `data` is a Message, a SessionChange, a JoinedSession, an endpoint, a line of the audit log, or a failed backup. */
export type Event = {
  [T in keyof typeof Events]: Static<(typeof Events)[T]>
}[keyof typeof Events]

/** Filters of an event stream. */
export const EventQuery = closed({
  types: optional(
    Type.String({
      maxLength: 200,
      examples: ['message.received,session.status'],
      description: `Types of events, separated by commas; all but session.joined, audit.line and backup.failed by default. The types are ${eventTypes.join(', ')}.`,
    }),
  ),
  session: optional.bounded(200, 'Only events of this session.'),
  user: optional.bounded(
    512,
    'Only messages from and to this user: the id, or the name that people here gave.',
  ),
})
