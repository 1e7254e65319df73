/** Operations for subscriptions of MCP Events by webhook. */
import { Type } from '@sinclair/typebox'
import { rightsForTypes } from '../model/event.ts'
import { MessageArguments } from '../model/occurrence.ts'
import { bounded, closed, optional } from '../model/shapes.ts'
import type { SubscriptionState } from '../push/subscriptions.ts'
import { defineOperation } from './operation.ts'

const { account, kinds, person, words } = MessageArguments.properties
const NameInput = closed({
  session: account,
  user: person,
  kinds,
  words,
  type: bounded(64, 'An event type.', { examples: ['message.received'] }),
  url: bounded(2000),
})

export const subscribeEvents = defineOperation({
  name: 'subscribe_events',
  title: 'Make or renew a subscription of MCP Events by webhook',
  effect: 'write',
  right: 'webhooks',
  subject: [],
  description:
    'For the MCP door. The callback is asked whether it wants the events. The subscription ends unless it is renewed by the same call.',
  input: closed({
    ...NameInput.properties,
    secret: bounded(100, 'Signs the deliveries.', { examples: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'] }),
    cursor: optional.bounded(64),
    max_age_ms: optional(Type.Integer({ minimum: 0 })),
    ttl_ms: optional(Type.Union([Type.Number(), Type.Null()])),
  }),
  output: Type.Unsafe<SubscriptionState>({ type: 'object' }),
  errors: ['session_not_found', 'rate_limited'],
  furtherRights: ({ type }) => ['events', ...rightsForTypes([type])],
  run: ({ subscriptions }, input, { by, signal }) => subscriptions.subscribe(by, input, signal),
})

export const unsubscribeEvents = defineOperation({
  name: 'unsubscribe_events',
  title: 'End a subscription of MCP Events',
  effect: 'write',
  right: 'webhooks',
  subject: [],
  description: 'For the MCP door. Nothing more is delivered.',
  input: NameInput,
  output: Type.Object({ id: Type.String() }),
  errors: ['not_found'],
  run: ({ subscriptions }, input, { by }) => subscriptions.unsubscribe(by, input),
})
