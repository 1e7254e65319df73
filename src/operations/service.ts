/** Operations about the service: its health, its metrics, and its tools. */
import { Type } from '@sinclair/typebox'
import { Health } from '../gateway/health.ts'
import { errorCodes } from '../model/error.ts'
import { Nodes } from '../model/nodes.ts'
import { oneOf, text } from '../model/shapes.ts'
import { defineOperation, describeFor } from './operation.ts'
import { mayCall } from './rights.ts'
import { tools } from './tools.ts'

export const health = defineOperation({
  name: 'health',
  title: 'Health',
  effect: 'read',
  right: 'health',
  description: '200 while the service works; 503 with the same body while the message store fails.',
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

export const ready = defineOperation({
  name: 'ready',
  title: 'Readiness',
  effect: 'read',
  right: 'health',
  description:
    'Tells a load balancer whether to send calls here: the health, with 503 also while the process was asked to stop and still answers.',
  output: Health,
  rest: {
    route: 'GET /readyz',
    tag: 'service',
    isPublic: true,
    otherStatus: { status: 503, when: ({ draining, store }) => draining === true || store !== 'ok' },
  },
  run: gateway => gateway.health(),
})

const exampleNodes = {
  nodes: [
    {
      id: '6f0c1d52-2f0b-4c55-9a4e-5b8f0c1f6d11',
      name: 'svc-1:12',
      version: '1.0.0',
      url: 'http://10.0.0.11:8000',
      polls: true,
      since: 1767225600000,
      lease_left_ms: 5100,
      accounts: 1,
      sessions: ['work'],
      max_age_days: 30,
      max_count: 100_000,
      is_this: true,
    },
    {
      id: 'c1a5b0de-7c0c-4d7f-8a55-3f2d9a0e7b42',
      name: 'svc-2:12',
      version: '1.0.0',
      url: 'http://10.0.0.12:8000',
      polls: true,
      since: 1767225601000,
      lease_left_ms: 4600,
      accounts: 1,
      sessions: ['sales'],
      max_age_days: 30,
      max_count: 100_000,
      is_this: false,
    },
  ],
  replication: {
    synchronous_standby_names: 'FIRST 1 (standby_1)',
    timeline: '00000001',
    standbys: [{ name: 'standby_1', state: 'streaming', sync_state: 'sync' as const, lag_ms: 3 }],
    can_read: true,
    unconfirmed_rows: 0,
  },
}

export const metrics = defineOperation({
  name: 'metrics',
  title: 'Metrics for Prometheus',
  effect: 'read',
  right: 'metrics',
  description:
    'Counters of the service since its start, and its current state, as text in the Prometheus format.',
  output: Type.String(),
  rest: { route: 'GET /metrics', tag: 'service', isHidden: true, answerKind: 'prometheus' },
  run: ({ metrics }) => metrics.text(),
})

export const listNodes = defineOperation({
  name: 'list_nodes',
  title: 'List the nodes of a cluster, and who polls what',
  effect: 'read',
  right: 'metrics',
  description:
    'Lists the processes that share a store on PostgreSQL, with the sessions that each one polls, and how the database is replicated. The list is empty if the store is in a data directory.',
  output: Nodes,
  examples: [{ summary: 'Two nodes', output: exampleNodes }],
  rest: { route: 'GET /nodes', tag: 'service' },
  cli: {
    path: ['nodes'],
    examples: [['svc nodes --json | jq .nodes[].name', 'for programs']],
  },
  run: gateway => gateway.nodes(),
})

const JsonSchemaObject = Type.Unsafe<object>({ type: 'object', description: 'JSON Schema.' })

/** A tool as its callers see it. */
export const ToolInfo = Type.Object({
  name: Type.String(),
  description: Type.String(),
  effect: oneOf(['read', 'write', 'destroy'], 'read: changes nothing. destroy: takes something away.'),
  path: text('Path to which the arguments are POSTed.'),
  input_schema: JsonSchemaObject,
  output_schema: JsonSchemaObject,
  errors: Type.Array(oneOf(errorCodes)),
})

export const listTools = defineOperation({
  name: 'list_tools',
  title: 'List the tools',
  effect: 'read',
  right: 'tools',
  description:
    'All tools that the caller may call, with their schemas and error codes: enough to build a client from.',
  output: Type.Array(ToolInfo, { description: 'The tools, in the order of the docs.' }),
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
