/** Webhook endpoints and their deliveries, in the public form. */
import { type Static, Type } from '@sinclair/typebox'
import { eventTypes, WebhookEnding } from './event.ts'
import type { NextStep } from './next-step.ts'
import { bounded, closed, flag, integer, oneOf, optional, text } from './shapes.ts'

/** The event types that an endpoint can receive. */
const WebhookEventType = oneOf(eventTypes)

/** An object whose values are strings, with any keys. */
const textRecord = (description: string, maxLength?: number) =>
  Type.Unsafe<Record<string, string>>({
    type: 'object',
    description,
    additionalProperties: { type: 'string', ...(maxLength && { maxLength }) },
  })

const failures = ['http_status', 'redirect', 'timeout', 'forbidden', 'unreachable'] as const
/** Why a delivery failed. */
export type WebhookFailure = (typeof failures)[number]
const failureDescription =
  'A code for programs. http_status: the answer was not 2xx. redirect: the answer was a redirect, which svc does not follow. timeout: no answer in time. forbidden: the address is not allowed. unreachable: no connection.'
const absentInOldRecords = 'Absent in records from older versions.'
const FailureCode = optional.oneOf(failures, `${failureDescription} ${absentInOldRecords}`)

export const WebhookEndpoint = Type.Object(
  {
    id: Type.String(),
    url: Type.String(),
    types: Type.Array(WebhookEventType, {
      description: 'Empty: all but session.joined, audit.line and backup.failed.',
    }),
    session: optional.text('Only events of this session.'),
    user: optional.text('Only messages from and to this user.'),
    headers: textRecord('Sent with each delivery. The values are secret and never shown.'),
    allow_private: flag('Whether it may be in a private network or on the machine of svc.'),
    replies: flag('Whether a text in its answer is sent to the user who wrote.'),
    status: oneOf(
      ['active', 'failing', 'paused', 'disabled'],
      'failing: no delivery succeeds at the moment, and svc tries again. paused: a person paused it. disabled: svc switched it off; resume switches it on.',
    ),
    disabled_reason: optional.text('Why it was switched off.'),
    disabled_code: optional(WebhookEnding),
    disabled_at: optional.integer('Unix milliseconds.'),
    created_at: integer('Unix milliseconds.'),
    made_by: optional.text(
      'The key that added it: key:<id>, or panel:<id> for a sign-in with that key. Absent: no key did.',
    ),
    last_success_at: optional.integer(
      'Unix milliseconds: when an event was delivered last. Tests do not count.',
    ),
    failing_since: optional.integer('Unix milliseconds: no delivery has succeeded since then.'),
    last_error: optional.text('The last failure.'),
    last_error_code: FailureCode,
    next_try_at: optional.integer('Unix milliseconds: after a failure, the latest time of the next attempt.'),
    rotating_until: optional.integer(
      'Unix milliseconds: until then deliveries are also signed with the previous secret.',
    ),
    expires_at: optional.integer(
      'Unix milliseconds: it is a subscription of an MCP client, and ends then unless the client renews it. Absent for other endpoints.',
    ),
    tries: Type.Object(
      { done: Type.Integer(), failed: Type.Integer(), gave_up: Type.Integer() },
      {
        description: 'Deliveries so far, including tests. gave_up: events that failed for the last time.',
      },
    ),
  },
  { description: 'A webhook endpoint.' },
)
export type WebhookEndpoint = Static<typeof WebhookEndpoint>

export const AddedWebhook = Type.Object({
  ...WebhookEndpoint.properties,
  secret: text('Deliveries are signed with it, as in Standard Webhooks. Shown only this once.'),
})
export type AddedWebhook = Static<typeof AddedWebhook>

/** Result of a delivery that a person asked for. */
export const WebhookTest = Type.Object({
  success: flag('Whether it was answered with 2xx.'),
  status: optional.integer('HTTP status of the answer; absent without one.'),
  took_ms: integer('Milliseconds.'),
  detail: optional.text('What went wrong.'),
  code: FailureCode,
})
export type WebhookTest = Static<typeof WebhookTest>

/** An endpoint that was moved back in the event log, and the events that it will get again. */
export const ReplayedWebhook = Type.Object({
  ...WebhookEndpoint.properties,
  replay: Type.Object({
    events: integer(
      'Events from the new position to the old one. It gets all of them, including those from before it was added.',
    ),
    events_is_lower_bound: flag('True when there are more than events.'),
    since: optional.integer('Unix milliseconds: when the first of them happened.'),
    result: optional(Type.Object(WebhookTest.properties, { description: 'With only: how it went.' })),
  }),
})
export type ReplayedWebhook = Static<typeof ReplayedWebhook>

/** Where to start in the event log: at an event, or at a time (Unix ms). */
export type EventStart = { since: number } | { event: string }

/** Parses the start in the event log. @param time the text read as a time (Unix ms), if it is one */
export function parseEventStart(text: string, time: number | undefined): EventStart | undefined {
  if (time !== undefined) return { since: time }
  return /^\w+-\d+$/.test(text) ? { event: text } : undefined
}

export const WebhookDelivery = Type.Object(
  {
    at: integer('Unix milliseconds.'),
    event: text('Id of the event: the header webhook-id.'),
    type: Type.String(),
    outcome: oneOf(
      ['done', 'failed', 'gave_up'],
      'failed: svc tries it again, unless a person sent it: a test, or a replay of it alone. gave_up: it failed for the last time; replay sends it again.',
    ),
    status: optional.integer('HTTP status of the answer; absent without one.'),
    took_ms: Type.Integer(),
    detail: optional.text('What went wrong.'),
    code: optional.oneOf(
      [...failures, 'reply_not_sent'],
      `${failureDescription} reply_not_sent: the delivery succeeded, but its reply could not be sent. ${absentInOldRecords}`,
    ),
    response: optional.text(
      'With event: the first 2048 bytes of the answer as text, with *** for the values of the endpoint’s headers. Kept as long as messages are, at most 30 days.',
    ),
    payload: optional(
      Type.Unsafe<object>({
        type: 'object',
        description:
          'With event, in the newest attempt: the body, without its links, while svc has the event.',
      }),
    ),
    next_try_at: optional.integer(
      'With event, in the newest attempt: when svc tries it again at the latest, in Unix milliseconds.',
    ),
  },
  { description: 'One attempt to deliver an event.' },
)
export type WebhookDelivery = Static<typeof WebhookDelivery>

export const NewWebhookInput = closed({
  url: bounded(2000, 'An http or https address.', { examples: ['https://example.com/hook'] }),
  types: optional(
    Type.Array(WebhookEventType, {
      description:
        'Which events; all but session.joined, audit.line and backup.failed by default. These need the rights "sessions", "audit" and "backup".',
      maxItems: 20,
    }),
  ),
  session: optional.bounded(200, 'Only events of this session.'),
  user: optional.bounded(
    512,
    'Only messages from and to this user: the id, or the name that people here gave.',
  ),
  headers: optional(
    textRecord(
      'Headers to send with each delivery, such as Authorization: at most 20, names of up to 100 characters, 16,384 characters in total.',
      4000,
    ),
  ),
  allow_private: optional.flag(
    'Allow an address in a private network. Not possible over HTTP: use the command line or the library.',
  ),
  replies: optional.flag('Send the text of its answer {"reply": {"text": …}} to the user who wrote.'),
})
export type NewWebhookInput = Static<typeof NewWebhookInput>

/** How to add an endpoint in a private network. */
export const addPrivate: NextStep = { action: 'run', command: ['webhook', 'add', '<url>', '--allow-private'] }

export const WebhookLogQuery = closed({
  limit: optional.between(1, 1000, 'Most attempts to return.', { default: 50 }),
  outcome: optional.oneOf(['done', 'failed', 'gave_up']),
  event: optional.bounded(64, 'Only attempts to deliver this event, with more about each.'),
})
export type WebhookLogQuery = Static<typeof WebhookLogQuery>
