/** Operations about the service: its health, its metrics, and its tools. */
import { Type } from '@sinclair/typebox'
import { Health } from '../gateway/health.ts'
import { errorCodes } from '../model/error.ts'
import { closed, oneOf, text } from '../model/shapes.ts'
import { defineOperation, describeFor } from './operation.ts'
import { mayCall } from './rights.ts'
import { tools } from './tools.ts'

export const health = defineOperation({
  name: 'health',
  title: 'Health',
  effect: 'read',
  right: 'health',
  description: '200 while the service works; 503 with the same body while the message store fails.',
  input: closed({}),
  output: Health,
  rest: {
    route: 'GET /healthz',
    tag: 'service',
    isPublic: true,
    // 503 makes supervisors restart the service. That does not help with an expired account, so it stays 200.
    otherStatus: { status: 503, when: ({ store }) => store !== 'ok' },
  },
  run: gateway => gateway.health(),
})

export const metrics = defineOperation({
  name: 'metrics',
  title: 'Metrics for Prometheus',
  effect: 'read',
  right: 'metrics',
  description:
    'Counters of the service since its start, and its current state, as text in the Prometheus format.',
  input: closed({}),
  output: Type.String(),
  rest: { route: 'GET /metrics', tag: 'service', isHidden: true, answerKind: 'prometheus' },
  run: ({ metrics }) => metrics.text(),
})

const JsonSchemaObject = Type.Unsafe<object>({ type: 'object', description: 'JSON Schema.' })

export const listTools = defineOperation({
  name: 'list_tools',
  title: 'List the tools',
  effect: 'read',
  right: 'tools',
  description:
    'All tools that the caller may call, with their schemas and error codes: enough to build a client from.',
  input: closed({}),
  output: Type.Array(
    Type.Object({
      name: Type.String(),
      description: Type.String(),
      effect: oneOf(['read', 'write', 'destroy'], 'read: changes nothing. destroy: takes something away.'),
      path: text('Path to which the arguments are POSTed.'),
      input_schema: JsonSchemaObject,
      output_schema: JsonSchemaObject,
      errors: Type.Array(oneOf(errorCodes)),
    }),
    { description: 'The tools, in the order of the docs.' },
  ),
  rest: { route: 'GET /tools', tag: 'service' },
  run: async (_gateway, _input, { by }) =>
    tools
      .filter(tool => mayCall(by, tool))
      .map(tool => ({
        name: tool.name,
        description: describeFor(tool, 'remote'),
        effect: tool.effect,
        path: tool.rest.route.slice('POST '.length),
        input_schema: tool.inputSchema,
        output_schema: tool.outputSchema,
        errors: [...tool.errors],
      })),
})
