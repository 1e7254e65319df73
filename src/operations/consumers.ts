/** Operations for the readers of messages, each with its own position. */
import { Type } from '@sinclair/typebox'
import { ConsumerInfo } from '../model/consumer.ts'
import { closed, flag } from '../model/shapes.ts'
import { defineOperation } from './operation.ts'
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
