/** Keys in their public form. */
import { type Static, Type } from '@sinclair/typebox'
import { grantableRights, presets } from './access.ts'
import { bounded, closed, flag, integer, oneOf, optional, text } from './shapes.ts'

/** Presets and rights. `draft` is both, and means the preset. */
const canWords = [...new Set([...Object.keys(presets), ...grantableRights])]

const KeyLimitsShape = closed({
  calls_per_second: optional.between(1, 100_000, 'Maximum number of calls per second.'),
  open: optional.between(1, 100_000, 'Maximum number of long polls and streams at a time.'),
  bytes_per_day: optional.between(1, Number.MAX_SAFE_INTEGER, 'Maximum bytes of uploads and media per day.'),
})

/** Input for a new key. */
export const NewKeyInput = closed({
  name: bounded(
    64,
    'Name for people: what the key is for. No two keys in use that you see have the same name.',
    {
      examples: ['support-bot'],
    },
  ),
  can: optional(
    Type.Array(oneOf(canWords), {
      maxItems: 50,
      description: `What the key may do. read: receive, history, media, sessions, users, events. draft: read, and send what a person approves. reply: read, and send. operate: reply, and the outbox, names of users, typing, check, set_default. all: everything. Or single rights: ${grantableRights.join(', ')}.`,
      examples: [['read']],
    }),
  ),
  tools: optional(
    Type.Array(bounded(64), {
      maxItems: 20,
      description: 'Tools that the key may call in addition, by name.',
      examples: [['recv', 'send']],
    }),
  ),
  sessions: optional(
    Type.Array(bounded(200), {
      maxItems: 1000,
      description:
        'Only these sessions. The key is bound to each session and the person who scanned: it follows a rename and a new login of this person, and does not open to another person under the same name.',
    }),
  ),
  users: optional(
    Type.Array(bounded(512), { maxItems: 1000, description: 'Only these users, by id or name.' }),
  ),
  topics: optional(
    Type.Array(bounded(64), {
      maxItems: 1000,
      description: 'The topics that it may notify, by name; with the right notify.',
      examples: [['home']],
    }),
  ),
  limits: optional(KeyLimitsShape),
  expires_at: optional.between(
    0,
    Number.MAX_SAFE_INTEGER,
    'Unix milliseconds: the key ends then. Default: never.',
  ),
})
export type NewKeyInput = Static<typeof NewKeyInput>

/** A key, without its secret. */
export const Key = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    can: Type.Array(Type.String(), { description: 'Presets and rights, as they were chosen.' }),
    tools: optional(Type.Array(Type.String())),
    sessions: optional(
      Type.Array(
        Type.Object({
          bot_id: Type.String(),
          session: optional.text('Its name now; absent if the account is logged out.'),
        }),
        {
          description:
            'Only the accounts of these people in these sessions, each with one of its logins. Absent: all.',
        },
      ),
    ),
    users: optional(Type.Array(Type.String(), { description: 'Only these users. Absent: all.' })),
    topics: optional(
      Type.Array(Type.String(), { description: 'Only these topics, with the right notify. Absent: all.' }),
    ),
    limits: optional(KeyLimitsShape),
    status: oneOf(['active', 'expired', 'revoked']),
    created_at: integer('Unix milliseconds.'),
    made_by: text('Who made it: owner, key:<id>, panel or panel:<id of the key>.'),
    expires_at: optional.integer('Unix milliseconds.'),
    revoked_at: optional.integer('Unix milliseconds.'),
    rotating_until: optional.integer(
      'Unix milliseconds: until then the secret before the rotation is accepted too.',
    ),
    last_used_at: optional.integer('Unix milliseconds, at most a minute off.'),
    last_address: optional.text('Address of the last caller.'),
  },
  { description: 'A key.' },
)
export type Key = Static<typeof Key>

export const AddedKey = Type.Object({
  ...Key.properties,
  key: text('The key itself: send it as bearer token. Shown only this once.'),
})
export type AddedKey = Static<typeof AddedKey>

export const RevokedKeys = Type.Object({
  success: flag('True.'),
  revoked: Type.Array(Type.String(), {
    description: 'Ids of the keys that have ended with this call: the key, and the keys that it made.',
  }),
})
export type RevokedKeys = Static<typeof RevokedKeys>

/** What a caller may do. */
export const Me = Type.Object({
  principal: text('owner, key:<id>, panel, panel:<id of the key>, or stdio.'),
  name: optional.text('Name of the key.'),
  rights: Type.Array(Type.String(), { description: 'Rights of this caller.' }),
  tools: Type.Array(Type.String(), { description: 'Tools that this caller may call.' }),
  sessions: Key.properties.sessions,
  users: Key.properties.users,
  topics: Key.properties.topics,
  limits: Key.properties.limits,
  left: optional(
    Type.Object(
      {
        calls_per_second: optional.integer('Calls that may be made now.'),
        open: optional.integer('Long polls and streams that may be opened.'),
        bytes_per_day: optional.integer('Bytes left today.'),
      },
      { description: 'What is left of the limits. A key shares its limits with the keys that it made.' },
    ),
  ),
  expires_at: Key.properties.expires_at,
})
export type Me = Static<typeof Me>

/** What a page of the panel tells of its caller. */
export type PageCaller = Pick<Me, 'principal' | 'rights' | 'tools'>
