/** Webhook endpoints over HTTP, and what links in their deliveries lead to. */
import { type TSchema, Type } from '@sinclair/typebox'
import type { Elysia } from 'elysia'
import { SvcError } from '../model/error.ts'
import { bounded, closed, flag, optional } from '../model/shapes.ts'
import {
  AddedWebhook,
  addPrivate,
  eventStart,
  NewWebhookInput,
  ReplayedWebhook,
  WebhookDelivery,
  WebhookEndpoint,
  WebhookLogQuery,
} from '../model/webhook.ts'
import { parse } from '../operations/parse.ts'
import { asTime, parseTime, Shaped } from '../operations/schema.ts'
import { WebhookTest } from '../push/webhooks.ts'
import { sendMedia } from './media-routes.ts'
import { queryOf } from './paths.ts'
import { answered, decoded, jsonAnswer, jsonRoutes, type RouteContext } from './route.ts'

const WebhookPath = closed({ id: bounded(64, 'The id of a webhook.', { examples: ['wh_3f1c9a0b2d4e6f80'] }) })
const ReplayBody = closed({
  from: Type.String({
    ...{ minLength: 1, maxLength: 64 },
    description:
      'Where to begin: the id of an event, as in the header webhook-id, or a time: ISO 8601, no zone = UTC, or Unix milliseconds.',
    examples: ['2026-01-31T08:00:00Z'],
  }),
  dry_run: optional(flag('Only say what would be delivered again.')),
})
const Removed = Type.Object({ success: flag('True.'), id: Type.String() })

const exampleEndpoint = {
  ...{ id: 'wh_3f1c9a0b2d4e6f80', url: 'https://example.com/hook', types: ['message.received' as const] },
  ...{ headers: { Authorization: '***' }, allow_private: false, replies: false, status: 'active' as const },
  ...{
    created_at: 1767225600000,
    last_success_at: 1767225660000,
    tries: { done: 12, failed: 0, gave_up: 0 },
  },
}
const exampleAdded = { ...exampleEndpoint, secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' }
const example = (summary: string, output: unknown, input?: unknown) => [
  { summary, output, ...(input !== undefined && { input }) },
]

/** Adds /webhooks and what is below it, below `prefix`. */
export function addWebhookRoutes(app: Elysia, context: RouteContext, prefix = ''): void {
  const { webhooks } = context.gateway
  const add = jsonRoutes(app, context, 'webhooks', prefix)
  add('GET /webhooks', 'list_webhooks', {
    summary: 'List webhooks',
    description:
      'Endpoints that events are delivered to, oldest first, and how each does. Secrets are not shown.',
    answer: Type.Array(WebhookEndpoint),
    errors: ['store_unavailable'],
    examples: example('One endpoint', [exampleEndpoint]),
    run: () => webhooks.list(),
  })
  add('POST /webhooks', 'add_webhook', {
    summary: 'Add a webhook',
    description:
      'Events from now on are POSTed to the address, signed by Standard Webhooks 1.0.0 with the secret of the answer, which is shown this once. Each is delivered at least once, in order per conversation; the receiver knows repeats by the header webhook-id. Only 2xx counts as delivered. Addresses in private networks need svc webhook add --allow-private on the command line.',
    body: NewWebhookInput,
    answer: AddedWebhook,
    errors: ['session_not_found', 'store_unavailable'],
    examples: example('Messages alone', exampleAdded, {
      url: 'https://example.com/hook',
      types: ['message.received'],
      headers: { Authorization: 'Bearer abc' },
    }),
    async run({ body }) {
      if (body.allow_private)
        throw new SvcError('forbidden', 'allow_private cannot be set over HTTP', { next: addPrivate })
      return webhooks.add(body)
    },
  })
  lookRoutes(add, webhooks)
  actRoutes(add, webhooks)
}

type Add = ReturnType<typeof jsonRoutes>
type Webhooks = RouteContext['gateway']['webhooks']

/** What each route of one webhook has. */
const of = <A extends TSchema>(answer: A) =>
  ({ params: WebhookPath, answer, errors: ['not_found', 'store_unavailable'] }) as const

function lookRoutes(add: Add, webhooks: Webhooks): void {
  add('GET /webhooks/:id', 'get_webhook', {
    ...of(WebhookEndpoint),
    summary: 'One webhook',
    description: 'How an endpoint does: whether it works, since when not, and why.',
    examples: example('One endpoint', exampleEndpoint),
    run: ({ params }) => webhooks.get(params.id),
  })
  add('GET /webhooks/:id/log', 'webhook_log', {
    ...of(Type.Array(WebhookDelivery)),
    query: WebhookLogQuery,
    summary: 'Tries of a webhook',
    description:
      'The newest tries to deliver, newest first: 100 that succeeded, 200 that failed, 1000 that failed for the last time.',
    examples: example('Two tries', [
      {
        at: 1767225660000,
        event: '9f2c41d07a-43000000',
        type: 'message.received',
        outcome: 'done',
        status: 200,
        took_ms: 41,
      },
      {
        ...{ at: 1767225600000, event: '9f2c41d07a-43000000', type: 'message.received', outcome: 'failed' },
        ...{ status: 503, took_ms: 12, detail: 'HTTP 503', code: 'http_status' },
      },
    ]),
    run: ({ params, query }) => webhooks.log(params.id, query),
  })
}

function actRoutes(add: Add, webhooks: Webhooks): void {
  add('DELETE /webhooks/:id', 'remove_webhook', {
    ...of(Removed),
    summary: 'Remove a webhook',
    description: 'Nothing is delivered to it any more; its log goes with it.',
    examples: example('Removed', { success: true, id: exampleEndpoint.id }),
    run: ({ params }) => webhooks.remove(params.id),
  })
  add('POST /webhooks/:id/test', 'test_webhook', {
    ...of(WebhookTest),
    summary: 'Try a webhook',
    description:
      'Delivers an event of type webhook.test now, and answers with what came of it within 20 seconds.',
    examples: example('It works', { success: true, status: 200, took_ms: 41 }),
    run: ({ params, signal }) => webhooks.test(params.id, signal),
  })
  for (const [word, summary, description] of [
    ['pause', 'Pause a webhook', 'Nothing is delivered until it is resumed; what happens meanwhile waits.'],
    [
      'resume',
      'Resume a webhook',
      'Deliveries go on from where they were, and what failed is tried at once; also of one that svc switched off, or that fails.',
    ],
  ] as const)
    add(`POST /webhooks/:id/${word}`, `${word}_webhook`, {
      ...of(WebhookEndpoint),
      ...{ summary, description, examples: example('As it is now', exampleEndpoint) },
      run: ({ params }) => webhooks[word](params.id),
    })
  add('POST /webhooks/:id/rotate', 'rotate_webhook', {
    ...of(AddedWebhook),
    summary: 'Give a webhook a new secret',
    description:
      'The answer shows it this once. For 24 hours deliveries are signed with the secret of before too.',
    examples: example('The new secret', exampleAdded),
    run: ({ params }) => webhooks.rotate(params.id),
  })
  add('POST /webhooks/:id/replay', 'replay_webhook', {
    ...of(ReplayedWebhook),
    body: ReplayBody,
    summary: 'Deliver events again',
    description:
      'Everything from there on is delivered again, with the ids that it had; the answer says how much that is.',
    examples: example(
      'From a time on',
      { ...exampleEndpoint, replay: { events: 12, events_is_lower_bound: false, since: 1767225600000 } },
      { from: '2026-01-31T08:00:00Z' },
    ),
    run: ({ params, body: { from, ...rest } }) =>
      webhooks.replay(params.id, { ...eventStart(from, parseTime(from), asTime.expected), ...rest }),
  })
}

const SharedPath = closed({
  webhook: bounded(64),
  message_id: bounded(512),
  item: Shaped('^(\\d{1,3}|message)$', 'the number of a file, or message', 'What the link leads to.'),
})
const SharedQuery = closed({
  expires: Shaped(
    '^\\d{1,12}$',
    'a time in seconds since 1970, as in the link',
    'Until when the link works.',
  ),
  signature: bounded(100),
})

/** Whether anybody may ask for this path: its own signature says who may. */
export const isShared = (path: string): boolean => path.startsWith('/shared/')

/** Adds GET /shared/{webhook}/{message_id}/{item}: what a delivery links to. */
export function addSharedRoute(app: Elysia, context: RouteContext): void {
  const { webhooks } = context.gateway
  const serve = async (request: Request, given: Record<string, string>) => {
    const to = parse(SharedPath, decoded(given))
    const { expires, signature } = parse(SharedQuery, queryOf(request))
    if (!(await webhooks.opens(to, expires, signature)))
      throw new SvcError('forbidden', 'this link is wrong, or older than 15 minutes', {
        hint: 'Each delivery brings new links; replay the event for another one.',
      })
    if (to.item !== 'message') return await sendMedia(context.gateway, to, request)
    return new Response(JSON.stringify(await webhooks.message(to.message_id)), jsonAnswer)
  }
  app.get(
    '/shared/:webhook/:message_id/:item',
    ({ request, params }) => answered(context, request, () => serve(request, params)),
    { detail: { hide: true } },
  )
}
