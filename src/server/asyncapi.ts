/**
 * The AsyncAPI document: the events of `GET /events` and of webhooks. It is made from the same schemas as the
 * tools and the OpenAPI document.
 */
import { Events, WebhookTestEvent } from '../model/event.ts'
import { followEvents } from '../operations/events.ts'
import { toJsonSchema } from '../operations/schema.ts'
import type { DocumentOptions } from './document.ts'

/** An event of the stream that is not in the event log. */
const goneEvent = {
  name: 'gone',
  title: 'gone',
  summary: 'Events are lost',
  description:
    'An SSE event named `gone`, without an id: events after `after` are lost. Retention removed them, or the id belongs to another data directory. The oldest stored event comes next.',
  payload: {
    type: 'object',
    required: ['after'],
    properties: { after: { type: 'string', description: 'The id from which the reader continued.' } },
  },
}

/** Creates the AsyncAPI document. */
export function createAsyncApiDocument({ version, tokenRequired }: DocumentOptions): object {
  const types = [...Object.keys(Events), goneEvent.name]
  const delivered = { ...Events, 'webhook.test': WebhookTestEvent }
  const ref = (path: string, type: string) => ({ $ref: `#/${path}/${type}` })
  return {
    asyncapi: '3.1.0',
    info: {
      title: 'svc',
      version,
      description:
        'Everything that happens to the WeChat bot accounts of svc, as server-sent events in one order.',
      contact: { name: 'svc' },
      license: { name: 'MIT', url: 'https://opensource.org/license/mit' },
      tags: [{ name: 'events', description: 'Events, each once per reader.' }],
    },
    servers: {
      service: {
        host: '{address}',
        protocol: 'http',
        description: 'This service.',
        variables: { address: { default: '127.0.0.1:8000', description: 'Where it listens.' } },
        ...(tokenRequired && { security: [ref('components/securitySchemes', 'bearer')] }),
      },
      receiver: {
        host: '{address}',
        protocol: 'https',
        description: 'Your program that receives webhooks.',
        variables: { address: { default: 'example.com', description: 'Host of the URL that was added.' } },
      },
    },
    defaultContentType: 'application/json',
    channels: {
      events: {
        address: followEvents.rest?.route.slice('GET '.length),
        servers: [ref('servers', 'service')],
        title: 'Event stream',
        description:
          'Server-sent events over HTTP: `id` is the position of the event, `data` the payload as JSON. Only `gone` has an event name; for the others the payload contains the type. Continue with Last-Event-ID or ?after=. If the service needs a token, send it in the Authorization header. A browser cannot send it for an EventSource: POST /events/link creates a link that opens one stream.',
        messages: Object.fromEntries(types.map(type => [type, ref('components/messages', type)])),
      },
      webhooks: {
        address: null,
        servers: [ref('servers', 'receiver')],
        title: 'Webhooks',
        description:
          'A POST to each URL that was added by `svc webhook add` or `POST /webhooks`, signed by Standard Webhooks 1.0.0.',
        messages: Object.fromEntries(
          Object.keys(delivered).map(type => [type, ref('components/messages', type)]),
        ),
      },
    },
    operations: {
      follow_events: {
        action: 'send',
        title: followEvents.title,
        description: followEvents.description,
        channel: { $ref: '#/channels/events' },
        messages: types.map(type => ref('channels/events/messages', type)),
      },
      deliver_events: {
        action: 'send',
        title: 'Deliver events to a URL',
        description: 'Each event is delivered until the receiver answers with 2xx.',
        channel: { $ref: '#/channels/webhooks' },
        messages: Object.keys(delivered).map(type => ref('channels/webhooks/messages', type)),
      },
    },
    components: {
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'A key, or the master token of the service, if it needs one.',
        },
      },
      messages: {
        ...Object.fromEntries(
          Object.entries(delivered).map(([type, schema]) => [
            type,
            { name: type, title: type, summary: schema.description, payload: toJsonSchema(schema) },
          ]),
        ),
        [goneEvent.name]: goneEvent,
      },
    },
  }
}
