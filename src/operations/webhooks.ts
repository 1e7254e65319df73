/** Operations for webhook endpoints, to which svc delivers events. */
import { Type } from '@sinclair/typebox'
import { SvcError } from '../model/error.ts'
import { rightsForTypes } from '../model/event.ts'
import { bounded, closed, flag, optional } from '../model/shapes.ts'
import {
  AddedWebhook,
  addPrivate,
  NewWebhookInput,
  ReplayedWebhook,
  WebhookDelivery,
  WebhookEndpoint,
  WebhookLogQuery,
  WebhookTest,
} from '../model/webhook.ts'
import { type CommandShape, defineOperation } from './operation.ts'
import { EventPosition } from './schema.ts'

const id = 'wh_3f1c9a0b2d4e6f80'
const WebhookInput = closed({ id: bounded(64, 'The id of a webhook.', { examples: [id] }) })

const exampleEndpoint = {
  id,
  url: 'https://example.com/hook',
  types: ['message.received' as const],
  headers: { Authorization: '***' },
  allow_private: false,
  replies: false,
  status: 'active' as const,
  created_at: 1767225600000,
  last_success_at: 1767225660000,
  tries: { done: 12, failed: 0, gave_up: 0 },
}
const exampleAdded = { ...exampleEndpoint, secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' }

/** Returns the command of an operation on one endpoint. @param does what the example does */
const endpointCommand = (word: string, does: string): CommandShape => ({
  path: ['webhook', word],
  many: { form: /^wh_/ },
  help: { id: 'Id of the webhook, as svc webhook shows it.' },
  examples: [[`svc webhook ${word} ${id}`, does]],
})

export const listWebhooks = defineOperation({
  name: 'list_webhooks',
  title: 'List webhooks and the state of their deliveries',
  effect: 'read',
  right: 'webhooks',
  description:
    'Lists the endpoints that events are delivered to, oldest first, with the state of each. The process that receives messages also delivers. Secrets are not shown. A key gets only those that it added.',
  output: Type.Array(WebhookEndpoint),
  examples: [{ summary: 'One endpoint', output: [exampleEndpoint] }],
  rest: { route: 'GET /webhooks', tag: 'webhooks' },
  cli: {
    path: ['webhook'],
    alias: 'list',
    examples: [['svc webhook', 'Every endpoint']],
  },
  run: ({ webhooks }, _input, { by }) => webhooks.list(by),
})

export const addWebhook = defineOperation({
  name: 'add_webhook',
  title: 'Deliver events to an address',
  effect: 'write',
  right: 'webhooks',
  // The audit line takes the id from the answer: the input has none.
  subject: [],
  description:
    'Adds an endpoint: events from now on are POSTed to the address. They are signed according to Standard Webhooks 1.0.0 with the secret of the answer; only this answer contains it. Each event is delivered at least once, in order within a conversation; a repeated event has the same header webhook-id. Only 2xx counts as delivered; otherwise svc tries again later. Addresses in private networks need svc webhook add --allow-private on the command line.',
  input: NewWebhookInput,
  output: AddedWebhook,
  errors: ['session_not_found'],
  examples: [
    {
      summary: 'Messages alone',
      input: {
        url: 'https://example.com/hook',
        types: ['message.received'],
        headers: { Authorization: 'Bearer abc' },
      },
      output: exampleAdded,
    },
  ],
  furtherRights: ({ types }) => rightsForTypes(types),
  rest: { route: 'POST /webhooks', tag: 'webhooks' },
  cli: {
    path: ['webhook', 'add'],
    positionals: ['url'],
    short: { session: 's', user: 'u' },
    names: { headers: 'header' },
    help: {
      types: 'Only these events, separated by commas.',
      headers:
        'A header to send along, as in "Authorization: Bearer abc"; its value is never shown again. Repeatable.',
      allow_private: 'Allow an address in your own network or on this machine.',
    },
    examples: [
      ['svc webhook add https://example.com/hook', 'Every event'],
      [
        'svc webhook add http://127.0.0.1:5678/webhook/svc --allow-private --types message.received',
        'To n8n on this machine',
      ],
    ],
  },
  async run({ webhooks }, added, { by, local }) {
    if (added.allow_private && local !== true)
      throw new SvcError('forbidden', 'allow_private cannot be set over HTTP', { next: addPrivate })
    return webhooks.add(by, added)
  },
})

export const getWebhook = defineOperation({
  name: 'get_webhook',
  title: 'Show whether an endpoint works',
  effect: 'read',
  right: 'webhooks',
  description:
    'Shows an endpoint: its status, the events that it gets, how many deliveries succeeded and failed, since when it fails, and why.',
  input: WebhookInput,
  output: WebhookEndpoint,
  errors: ['not_found'],
  examples: [{ summary: 'One endpoint', input: { id }, output: exampleEndpoint }],
  rest: { route: 'GET /webhooks/{id}', tag: 'webhooks' },
  cli: endpointCommand('show', 'Whether it works; if not, since when and why'),
  run: ({ webhooks }, { id }, { by }) => webhooks.get(by, id),
})

export const listWebhookDeliveries = defineOperation({
  name: 'list_webhook_deliveries',
  title: 'List the newest deliveries to an endpoint',
  effect: 'read',
  right: 'webhooks',
  description:
    'Lists the newest deliveries to an endpoint, newest first, with the answer of the receiver. svc keeps the last 100 that succeeded, 200 that failed and 1000 that it gave up. With event: the attempts to deliver it, each with the beginning of the answer, the newest also with what was sent.',
  input: closed({ ...WebhookInput.properties, ...WebhookLogQuery.properties }),
  output: Type.Array(WebhookDelivery),
  errors: ['not_found'],
  examples: [
    {
      summary: 'Two attempts',
      input: { id },
      output: [
        {
          at: 1767225660000,
          event: '9f2c41d07a-43000000',
          type: 'message.received',
          outcome: 'done',
          status: 200,
          took_ms: 41,
        },
        {
          at: 1767225600000,
          event: '9f2c41d07a-43000000',
          type: 'message.received',
          outcome: 'failed',
          status: 503,
          took_ms: 12,
          detail: 'HTTP 503',
          code: 'http_status',
        },
      ],
    },
  ],
  rest: { route: 'GET /webhooks/{id}/deliveries', tag: 'webhooks' },
  cli: {
    ...endpointCommand('log', ''),
    short: { limit: 'n' },
    help: {
      id: 'Id of the webhook, as svc webhook shows it.',
      outcome: 'Only deliveries with this outcome.',
    },
    defaults: { limit: 20 },
    examples: [
      [`svc webhook log ${id} --outcome gave_up`, 'Events that svc gave up'],
      [`svc webhook log ${id} --event 9f2c41d07a-43000000`, 'What was sent, and what the receiver answered'],
    ],
  },
  run: ({ webhooks }, { id, ...query }, { by }) => webhooks.listAttempts(by, id, query),
})

export const removeWebhook = defineOperation({
  name: 'remove_webhook',
  title: 'Remove an endpoint',
  effect: 'destroy',
  right: 'webhooks',
  description: 'Removes an endpoint and its log. Events that were not delivered yet are dropped.',
  input: WebhookInput,
  output: Type.Object({ success: flag('True.'), id: Type.String() }),
  errors: ['not_found'],
  examples: [{ summary: 'Removed', input: { id }, output: { success: true, id } }],
  rest: { route: 'DELETE /webhooks/{id}', tag: 'webhooks' },
  cli: endpointCommand('remove', 'Also removes its log'),
  run: ({ webhooks }, { id }, { by }) => webhooks.remove(by, id),
})

export const testWebhook = defineOperation({
  name: 'test_webhook',
  title: 'Deliver a test now',
  effect: 'write',
  right: 'webhooks',
  description: 'Delivers an event of type webhook.test now, and answers with the result within 20 seconds.',
  input: WebhookInput,
  output: WebhookTest,
  errors: ['not_found'],
  examples: [{ summary: 'It works', input: { id }, output: { success: true, status: 200, took_ms: 41 } }],
  rest: { route: 'POST /webhooks/{id}/test', tag: 'webhooks' },
  cli: {
    ...endpointCommand('test', 'Whether the receiver answers'),
    about: 'The exit status is 1 if it failed.',
  },
  run: ({ webhooks }, { id }, { by, signal }) => webhooks.sendTest(by, id, signal),
})

export const pauseWebhook = defineOperation({
  name: 'pause_webhook',
  title: 'Stop deliveries until the endpoint is resumed',
  effect: 'write',
  right: 'webhooks',
  description:
    'Stops deliveries to an endpoint until it is resumed. Events that happen in the meantime wait.',
  input: WebhookInput,
  output: WebhookEndpoint,
  errors: ['not_found'],
  examples: [{ summary: 'As it is now', input: { id }, output: exampleEndpoint }],
  rest: { route: 'POST /webhooks/{id}/pause', tag: 'webhooks' },
  cli: endpointCommand('pause', 'Later events wait'),
  run: ({ webhooks }, { id }, { by }) => webhooks.pause(by, id),
})

export const resumeWebhook = defineOperation({
  name: 'resume_webhook',
  title: 'Resume an endpoint, and try at once what failed',
  effect: 'write',
  right: 'webhooks',
  description:
    'Resumes deliveries to an endpoint that was paused, or that svc has switched off, with the first event that was not delivered. If an endpoint fails, svc tries it immediately.',
  input: WebhookInput,
  output: WebhookEndpoint,
  errors: ['not_found', 'forbidden'],
  examples: [{ summary: 'As it is now', input: { id }, output: exampleEndpoint }],
  rest: { route: 'POST /webhooks/{id}/resume', tag: 'webhooks' },
  cli: endpointCommand('resume', 'Deliver what waits, then new events'),
  run: ({ webhooks }, { id }, { by }) => webhooks.resume(by, id),
})

export const rotateWebhook = defineOperation({
  name: 'rotate_webhook',
  title: 'Replace the secret of an endpoint',
  effect: 'write',
  right: 'webhooks',
  description:
    'Makes a new secret for an endpoint. Only this answer contains it. For 24 hours, deliveries are also signed with the old secret.',
  input: WebhookInput,
  output: AddedWebhook,
  errors: ['not_found'],
  examples: [{ summary: 'The new secret', input: { id }, output: exampleAdded }],
  rest: { route: 'POST /webhooks/{id}/rotate', tag: 'webhooks' },
  cli: endpointCommand('rotate', 'Make a new secret; it is shown once'),
  run: ({ webhooks }, { id }, { by }) => webhooks.rotate(by, id),
})

export const replayWebhook = defineOperation({
  name: 'replay_webhook',
  title: 'Deliver events again',
  effect: 'write',
  right: 'webhooks',
  description:
    'Delivers again all events since an event or a time, with the same ids. The answer says how many they are. With only: that event alone, now, also if the endpoint is off; a failure is not tried again.',
  input: closed({
    ...WebhookInput.properties,
    from: EventPosition(
      'Where to start: the id of an event, as in the header webhook-id, or a time: ISO 8601, no zone = UTC, or Unix milliseconds.',
    ),
    dry_run: optional.flag('Only count the events that would be delivered again.'),
    only: optional.flag('Deliver this event alone, and wait up to 20 seconds for the answer.'),
  }),
  output: ReplayedWebhook,
  errors: ['not_found', 'forbidden'],
  examples: [
    {
      summary: 'From a time on',
      input: { id, from: '2026-01-31T08:00:00Z' },
      output: {
        ...exampleEndpoint,
        replay: { events: 12, events_is_lower_bound: false, since: 1767225600000 },
      },
    },
  ],
  rest: { route: 'POST /webhooks/{id}/replay', tag: 'webhooks' },
  cli: {
    ...endpointCommand('replay', ''),
    help: {
      id: 'Id of the webhook, as svc webhook shows it.',
      from: 'Id of an event, as svc webhook log shows it, or a time such as 2026-01-31, 1h or yesterday.',
    },
    examples: [
      [`svc webhook replay ${id} --from 1h --dry-run`, 'Count the events first'],
      [`svc webhook replay ${id} --from 1h`, 'Deliver the events of the last hour again'],
      [`svc webhook replay ${id} --from 9f2c41d07a-43000000 --only`, 'Deliver one event again'],
    ],
  },
  run: ({ webhooks }, { id, from, ...how }, { by, signal }) =>
    webhooks.replay(by, id, { ...from, ...how }, signal),
})
