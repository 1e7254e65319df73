/** Lines of the audit log, in the public form. */
import { type Static, Type } from '@sinclair/typebox'
import { integer, oneOf, optional, text } from './shapes.ts'

export const AuditLine = Type.Object(
  {
    id: integer('Grows from line to line; numbers may be missing.'),
    at: integer('Unix milliseconds: when the call came.'),
    principal: text(
      'The caller: owner, key:<id>, panel, panel:<id of the key>, stdio, topic, question, webhook:<id>, or open for calls without a token that is valid.',
    ),
    name: optional.text('Name of the key of the caller.'),
    operation: text('Name of the operation.'),
    subject: optional.text('What it was about: a session, user, message, webhook or key.'),
    outcome: optional.text(
      'done, denied, or the code of the error. Of a send: the status of its message. Absent while the call runs, or if its process died.',
    ),
    address: optional.text(
      "The caller's address. For a program on this machine the user of the system: cli:<user> for the command line, library:<user>, stdio:<user>, service:<user>.",
    ),
    request_id: optional.text(
      'Id of the HTTP request, as the header X-Request-Id and the lines of the log have it.',
    ),
    count: optional.integer('Number of calls, for a line about several.'),
    messages: optional(Type.Array(Type.Integer(), { description: 'Row ids of what was sent, or decided.' })),
    draft_by: optional.text('Who wrote the messages that an approval, a refusal or a cancellation decided.'),
    draft_by_name: optional.text('Name of the key in draft_by.'),
    changed: optional.oneOf(['text'], 'What the approver changed before the message was sent.'),
  },
  { description: 'A call that changed or sent something, or that was denied. Never its content.' },
)
export type AuditLine = Static<typeof AuditLine>

/** What the log calls changes of a whole store that no operation makes: commands make them, while no process has it open. */
export const storeChanges = [
  'encrypt_secrets',
  'rotate_secrets',
  'decrypt_secrets',
  'move_store',
  'adopt_store',
  'set_store_aside',
  'restore',
  // A process began to keep messages or lines for longer, or not as long.
  'set_retention',
] as const
export type StoreChange = (typeof storeChanges)[number]

/** Outcomes in groups, for a filter. */
export const AuditOutcome = oneOf(
  ['done', 'open', 'denied', 'failed'],
  'Only calls that ended so: done (of a send: accepted), denied, failed (an error code; of a send: refused, suspect or unknown). open: they still run, their message waits, or their process died.',
)
export type AuditOutcome = Static<typeof AuditOutcome>
