/** The AsyncAPI document: what `GET /events` tells and what webhooks deliver, from the schemas that tools and OpenAPI are made of. */
import { Events, WebhookTestEvent } from '../model/event.ts'
import { followEvents } from '../operations/events.ts'
import { toJsonSchema } from '../operations/schema.ts'
import type { DocumentOptions } from './document.ts'

/** An event of the stream that is none of the log. */
const goneEvent = {
  name: 'gone',
  title: 'gone',
  summary: 'Events are lost',
  description:
    'An SSE event of the name `gone`, without an id: events after `after` are lost, since retention took them, or the id is of another data directory. The oldest that is kept comes next.',
  payload: {
    type: 'object',
    required: ['after'],
    properties: { after: { type: 'string', description: 'The id from which the reader read on.' } },
  },
}

export function asyncApiDocument({ version, tokenRequired }: DocumentOptions): object {
  const types = [...Object.keys(Events), goneEvent.name]
  const delivered = { ...Events, 'webhook.test': WebhookTestEvent }
  const ref = (path: string, type: string) => ({ $ref: `#/${path}/${type}` })
  return {
    asyncapi: '3.1.0',
    info: {
      title: 'svc',
      version,
      description:
        'Everything that happens to the WeChat bot accounts of svc, in one order, as server-sent events.',
      contact: { name: 'svc' },
      license: { name: 'MIT', url: 'https://opensource.org/license/mit' },
      tags: [{ name: 'events', description: 'What happened, once for each reader.' }],
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
        description: 'A program of yours that takes webhooks.',
        variables: { address: { default: 'example.com', description: 'Of the address that was added.' } },
      },
    },
    defaultContentType: 'application/json',
    channels: {
      events: {
        address: followEvents.rest?.place.slice('GET '.length),
        servers: [ref('servers', 'service')],
        title: 'Event stream',
        description:
          'Server-sent events over HTTP: `id` is the place of the event, `data` the payload as JSON. All but `gone` have no event name: the payload tells the type. Last-Event-ID or ?after= reads on. Where a token is needed it goes in the Authorization header; for a browser, which sends none, POST /events/link makes a link that opens one stream.',
        messages: Object.fromEntries(types.map(type => [type, ref('components/messages', type)])),
      },
      webhooks: {
        address: null,
        servers: [ref('servers', 'receiver')],
        title: 'Webhooks',
        description:
          'A POST to each address that was added by `svc webhook add` or `POST /webhooks`, signed by Standard Webhooks 1.0.0.',
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
        title: 'Deliver what happens to an address',
        description: 'Each event, until the receiver answers with 2xx.',
        channel: { $ref: '#/channels/webhooks' },
        messages: Object.keys(delivered).map(type => ref('channels/webhooks/messages', type)),
      },
    },
    components: {
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'The token of the service, where it wants one.',
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
