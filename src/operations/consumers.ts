/** Operations for the readers of messages, each with its own position. */
import { Type } from '@sinclair/typebox'
import { waitOf } from '../model/call.ts'
import { ConsumerInfo } from '../model/consumer.ts'
import { LeasedMessage } from '../model/message.ts'
import { closed, flag, integer, optional, seconds } from '../model/shapes.ts'
import { exampleReceived } from './example-values.ts'
import { defineOperation } from './operation.ts'
import { Consumer, recv } from './recv.ts'
import { PatternString } from './schema.ts'

export const listConsumers = defineOperation({
  name: 'list_consumers',
  title: 'List the readers of messages, and what each has not read',
  effect: 'read',
  right: 'recv',
  description:
    'Lists the named readers of messages, the one that read last first, and how many messages each has not read: up to 1,000 of them, those of keys after the others. A key sees its own.',
  output: Type.Array(ConsumerInfo, { description: 'The consumers.' }),
  examples: [
    {
      summary: 'One is gone for good',
      output: [
        { name: 'my-bot', unread: 0, last_read_at: 1767225600000, acknowledges: true },
        { name: 'try-1', unread: 4210, last_read_at: 1764547200000, acknowledges: false },
      ],
    },
  ],
  rest: { route: 'GET /consumers', tag: 'messages' },
  cli: {
    path: ['consumers'],
    examples: [['svc consumers', 'Who reads messages, and who is gone']],
  },
  run: ({ consumers }) => consumers.list(),
})

export const removeConsumer = defineOperation({
  name: 'remove_consumer',
  title: 'Remove a consumer',
  effect: 'destroy',
  right: 'recv',
  subject: ['name'],
  description:
    'Removes a named reader of messages with its position, when nobody reads under its name any more. Messages stay. A reader that uses the name later is a new one. A key removes its own consumers; they all go when the key is revoked. The consumer default, which all calls of recv without a name share, cannot be removed: the next of them would get every message again.',
  input: closed({
    name: PatternString(
      '^([0-9a-z]{1,64}/)?[A-Za-z0-9._-]{1,64}$',
      'the name of a consumer, as the list has it',
      'Name of the consumer, as the list has it.',
      { examples: ['try-1'] },
    ),
  }),
  output: Type.Object({ success: flag('True.'), name: Type.String() }),
  errors: ['not_found'],
  examples: [{ summary: 'Removed', input: { name: 'try-1' }, output: { success: true, name: 'try-1' } }],
  rest: { route: 'DELETE /consumers/{name}', tag: 'messages' },
  cli: {
    path: ['consumers', 'remove'],
    examples: [['svc consumers remove try-1', 'It is not waited for any more']],
  },
  async run({ consumers }, { name }) {
    await consumers.remove(name)
    return { success: true, name }
  },
})

/** Leases that one call opens, renews or settles. */
const mostLeases = 100
const consumer = Consumer({ examples: ['my-bot'] })
const leases = Type.Array(Type.Integer({ minimum: 1 }), {
  minItems: 1,
  maxItems: mostLeases,
  description: 'Ids of leases of this consumer.',
  examples: [[17]],
})

export const leaseMessages = defineOperation({
  name: 'lease_messages',
  title: 'Receive messages, each until it is settled',
  effect: 'write',
  audited: false,
  right: 'recv',
  description:
    'Hands out the next messages of a consumer, oldest first, each with a lease of 45 seconds: renew it every 15 seconds while you work, then settle it. What expires is handed out again, marked `redelivered`. While a message of a person (session and user) is open, the next one of that person waits; those of others come. Up to 100 messages are open. If none come in time, it returns an empty array. A consumer that acknowledges by `ack` of recv is refused.',
  input: closed({
    consumer,
    timeout: optional(seconds(300, 5, 'Longest wait for a first message, in seconds.')),
    limit: optional.between(1, mostLeases, 'Most messages to return. Default: 1.'),
    session: recv.input.properties.session,
  }),
  output: Type.Array(LeasedMessage, { description: 'The messages. Empty if none came in time.' }),
  errors: ['session_not_found'],
  examples: [
    {
      summary: 'The next message',
      input: { consumer: 'my-bot', timeout: 30 },
      output: [{ lease: 17, expires_at: 1767225645000, message: exampleReceived }],
    },
  ],
  rest: { route: 'POST /consumers/{consumer}/leases', tag: 'messages' },
  async run({ inbox }, { consumer, limit = 1, session, timeout = 5 }, call) {
    return inbox.lease({ consumer, limit, session, timeout: waitOf(call, timeout) }, call)
  },
})

export const renewLeases = defineOperation({
  name: 'renew_leases',
  title: 'Keep messages longer',
  effect: 'write',
  audited: false,
  right: 'recv',
  description: 'Renews leases: each lasts 45 seconds from now. One that is over is left out of the answer.',
  input: closed({ consumer, leases }),
  output: Type.Object({
    leases: Type.Array(Type.Integer(), { description: 'Those that were renewed.' }),
    expires_at: integer('Unix milliseconds: when they expire.'),
  }),
  examples: [
    {
      summary: 'One is over',
      input: { consumer: 'my-bot', leases: [17, 18] },
      output: { leases: [17], expires_at: 1767225660000 },
    },
  ],
  rest: { route: 'POST /consumers/{consumer}/leases/renew', tag: 'messages' },
  run: ({ inbox }, { consumer, leases }) => inbox.renewLeases(consumer, leases),
})

export const settleLeases = defineOperation({
  name: 'settle_leases',
  title: 'Settle messages: done, or to come again',
  effect: 'write',
  audited: false,
  right: 'recv',
  description:
    'Ends leases. A lease that is over (settled before, or expired and handed out again) is left out of the answer.',
  input: closed({
    consumer,
    leases,
    read: flag('true: the messages are done. false: they come again at once, marked `redelivered`.'),
  }),
  output: Type.Object({
    leases: Type.Array(Type.Integer(), { description: 'Those that this call settled.' }),
  }),
  examples: [
    {
      summary: 'Done',
      input: { consumer: 'my-bot', leases: [17], read: true },
      output: { leases: [17] },
    },
  ],
  rest: { route: 'POST /consumers/{consumer}/leases/settle', tag: 'messages' },
  run: async ({ inbox }, { consumer, leases, read }) => ({
    leases: await inbox.settleLeases(consumer, leases, read),
  }),
})
