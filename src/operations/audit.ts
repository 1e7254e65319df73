/** The operation that reads the audit log. */
import { Type } from '@sinclair/typebox'
import { AuditLine, AuditOutcome } from '../model/audit.ts'
import { badArgument } from '../model/error.ts'
import { owner } from '../model/principal.ts'
import { between, bounded, closed, optional } from '../model/shapes.ts'
import { defineOperation } from './operation.ts'
import { RowId, Time } from './schema.ts'

export const listAudit = defineOperation({
  name: 'list_audit',
  title: 'Show who changed or sent what',
  effect: 'read',
  right: 'audit',
  description:
    'Lists the calls that changed or sent something, and those that were denied to a key, newest first. A line never has the content of a call. Calls that only read have no line. Lines are kept for 90 days unless configured.',
  input: closed({
    key: optional(bounded(64, 'Only calls with this key, by its id or name.', { examples: ['support-bot'] })),
    principal: optional(
      bounded(
        64,
        'Only calls of this caller: owner, panel, stdio, key:<id>, panel:<id>, webhook:<id>, open.',
      ),
    ),
    operation: optional(
      bounded(500, 'Only calls of this operation, or of several with commas between them.', {
        examples: ['send', 'login,logout'],
      }),
    ),
    outcome: optional(AuditOutcome),
    since: optional(
      Time('Only calls since this time (inclusive): Unix milliseconds or ISO 8601, no zone = UTC.'),
    ),
    before: optional(RowId('Only lines before this id.')),
    after: optional(RowId('Only lines after this id, oldest first.')),
    limit: optional(between(1, 1000, 'Maximum number of lines to return.', { default: 100 })),
  }),
  output: Type.Array(AuditLine, { description: 'Newest first; with after oldest first.' }),
  errors: ['not_found', 'store_unavailable'],
  examples: [
    {
      summary: 'The newest call',
      input: { limit: 1 },
      output: [
        {
          id: 71,
          at: 1767225600000,
          principal: 'key:ab12cd34',
          name: 'support-bot',
          operation: 'logout',
          subject: 'work',
          outcome: 'done',
          address: '10.0.0.7',
        },
      ],
    },
  ],
  rest: { route: 'GET /audit', tag: 'service' },
  cli: {
    path: ['audit'],
    short: { limit: 'n' },
    examples: [
      ['svc audit -n 20', 'The newest 20 calls'],
      ['svc audit --key support-bot --since 1d', 'What a key did in the last 24 hours'],
      ['svc audit --outcome denied', 'What keys tried and may not do'],
    ],
  },
  check({ key, principal }) {
    if (key !== undefined && principal !== undefined) throw badArgument('principal', 'expected without key')
  },
  async run({ audit, keys }, { key, principal, operation, limit = 100, ...filter }) {
    // The right "audit" is for the whole service, so any key can be named.
    const id = key === undefined ? undefined : (await keys.get(key, owner)).id
    const principals =
      id !== undefined ? [`key:${id}`, `panel:${id}`] : principal === undefined ? undefined : [principal]
    return audit.list({ ...filter, principals, operations: operation?.split(','), limit })
  },
})
