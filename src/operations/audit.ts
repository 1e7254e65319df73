/** The operation that reads the audit log. */
import { Type } from '@sinclair/typebox'
import type { Gateway } from '../gateway/gateway-api.ts'
import { AuditLine, AuditOutcome } from '../model/audit.ts'
import { badArgument } from '../model/error.ts'
import { mostOnPage } from '../model/page.ts'
import { owner } from '../model/principal.ts'
import { closed, optional } from '../model/shapes.ts'
import { isUserId } from '../model/user-id.ts'
import { exampleUser } from './example-values.ts'
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
    key: optional.bounded(64, 'Only calls with this key, by its id, or with all keys that had this name.', {
      examples: ['support-bot'],
    }),
    principal: optional.bounded(
      64,
      'Only calls of this caller: owner, panel, stdio, topic, question, key:<id>, panel:<id>, webhook:<id>, open.',
    ),
    operation: optional.bounded(
      500,
      'Only calls of this operation, or of several with commas between them.',
      {
        examples: ['send', 'login,logout'],
      },
    ),
    outcome: optional(AuditOutcome),
    session: optional.bounded(200, 'Only calls about this session.'),
    user: optional.bounded(
      512,
      'Only calls about this user, by id or name; for an erased one what stands in its place.',
    ),
    message: optional(
      RowId('Only calls about this message: who drafted, changed, approved, sent or refused it.'),
    ),
    address: optional.bounded(200, 'Only calls from this address.', { examples: ['10.0.0.7', 'cli:alice'] }),
    request_id: optional.bounded(64, 'Only the call of this HTTP request, by its id.'),
    since: optional(
      Time('Only calls since this time (inclusive): Unix milliseconds or ISO 8601, no zone = UTC.'),
    ),
    until: optional(Time('Only calls before this time.')),
    before: optional(RowId('Only lines before this id.')),
    after: optional(RowId('Only lines after this id, oldest first.')),
    limit: optional.between(1, 1000, 'Maximum number of lines to return.', { default: 100 }),
  }),
  output: Type.Array(AuditLine, { description: 'Newest first; with after oldest first.' }),
  errors: ['not_found', 'session_not_found'],
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
          request_id: '0b6e5d9e-8e0b-4f0e-9f0c-3c1c5a0c8d11',
        },
      ],
    },
    {
      summary: 'What became of a message',
      input: { message: 43, limit: 2 },
      output: [
        {
          id: 73,
          at: 1767225660000,
          principal: 'owner',
          operation: 'approve_outbox',
          subject: `default ${exampleUser}`,
          outcome: 'done',
          messages: [43],
          draft_by: 'key:ab12cd34',
          draft_by_name: 'support-bot',
          changed: 'text',
        },
        {
          id: 72,
          at: 1767225600000,
          principal: 'key:ab12cd34',
          name: 'support-bot',
          operation: 'send',
          subject: `default ${exampleUser}`,
          outcome: 'accepted',
          messages: [43],
        },
      ],
    },
  ],
  rest: { route: 'GET /audit', tag: 'service' },
  cli: {
    path: ['audit'],
    names: { request_id: 'request' },
    short: { limit: 'n', user: 'u', session: 's' },
    examples: [
      ['svc audit -n 20', 'The newest 20 calls'],
      ['svc audit --key support-bot --since 1d', 'What a key did in the last 24 hours'],
      ['svc audit --outcome denied', 'What keys tried and may not do'],
      ['svc audit --message 43', 'Who drafted, approved and sent a message'],
    ],
  },
  check({ key, principal, since, until }) {
    if (key !== undefined && principal !== undefined) throw badArgument('principal', 'expected without key')
    if (since !== undefined && until !== undefined && since > until)
      throw badArgument('until', 'expected a time after since')
  },
  async run(
    { audit, events, keys },
    { key, principal, operation, session, user, limit = 100, ...filter },
    { signal },
  ) {
    const ids = key === undefined ? [] : await findKeys(keys, key)
    const principals = ids.flatMap(id => [`key:${id}`, `panel:${id}`])
    const isName = user !== undefined && !isUserId(user) && !user.startsWith('user:')
    const found = isName ? (await events.resolveFilter({ user })).user : user
    const wanted = {
      ...filter,
      principals: principal === undefined ? (key === undefined ? undefined : principals) : [principal],
      operations: operation?.split(','),
      subjects: [session, found].filter(word => word !== undefined),
      limit,
    }
    const lines = await audit.list(wanted, signal)
    // A session that is gone has lines; a misspelt one is an error.
    if (lines.length === 0) await events.resolveFilter({ session })
    return lines
  },
})

/** Returns the ids of all keys with an id or a name. The right "audit" is for the whole service, so any key can be named. */
async function findKeys(keys: Gateway['keys'], idOrName: string): Promise<string[]> {
  const all = await keys.list(owner, { limit: mostOnPage })
  const named = all.filter(({ name }) => name === idOrName).map(({ id }) => id)
  return named.length > 0 ? named : [(await keys.get(idOrName, owner)).id]
}
