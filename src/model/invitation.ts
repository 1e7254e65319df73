/** Invitations in their public form. */
import { type Static, Type } from '@sinclair/typebox'
import { LoginState } from './login.ts'
import { bounded, closed, integer, oneOf, optional, text } from './shapes.ts'

export const InvitationStatus = oneOf(
  ['active', 'used', 'expired', 'revoked'],
  'used: all uses are taken. Only an active one lets people in.',
)
export type InvitationStatus = Static<typeof InvitationStatus>

export const defaultTurnsPerDay = 20
export const defaultLifetimeMs = 7 * 24 * 60 * 60_000

/** Input for a new invitation. */
export const NewInvitationInput = closed({
  name: bounded(60, 'Name of the account that the person gets, such as mum; several get shop-1, shop-2 ….', {
    examples: ['mum'],
  }),
  max_uses: optional.between(1, 1000, 'Maximum number of people who may join by it.', { default: 1 }),
  expires_at: optional.between(
    0,
    Number.MAX_SAFE_INTEGER,
    'Unix milliseconds: nobody joins after that. Default: in 7 days.',
  ),
  agent: optional.bounded(
    50,
    'Name of the agent that answers these people, as its `--name`. Without it, nobody answers.',
    {
      examples: ['home'],
    },
  ),
  trusted: optional.flag(
    'The agent works for these people without a sandbox. It needs the right "agents". Default: false.',
  ),
  turns_per_day: optional.between(
    1,
    10_000,
    'Maximum number of turns with the agent in 24 hours, for each person.',
    {
      default: defaultTurnsPerDay,
    },
  ),
  topic: optional.bounded(
    58,
    'Each person who joins becomes one of the people of this topic. If there is none, the person gets one of this name, with a number where several may join. It needs the right "topics".',
    { examples: ['home'] },
  ),
  inviter: optional.bounded(
    60,
    'Who invites, as the page says it. Default: the name of the key, else the address of the service.',
    {
      examples: ['Anna'],
    },
  ),
})
export type NewInvitationInput = Static<typeof NewInvitationInput>

export const Invitation = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    status: InvitationStatus,
    max_uses: integer('Maximum number of people.'),
    used: integer('Number of people who joined.'),
    sessions: Type.Array(Type.String(), { description: 'The accounts that joined by it, and are here.' }),
    agent: optional(Type.String()),
    trusted: Type.Boolean(),
    turns_per_day: Type.Integer(),
    inviter: optional(Type.String()),
    topic: optional(Type.String()),
    created_at: integer('Unix milliseconds.'),
    made_by: text('Who made it: owner, key:<id>, panel or panel:<id of the key>.'),
    expires_at: integer('Unix milliseconds.'),
    revoked_at: optional.integer('Unix milliseconds.'),
  },
  { description: 'An invitation, without its secret.' },
)
export type Invitation = Static<typeof Invitation>

export const AddedInvitation = Type.Object({
  ...Invitation.properties,
  link: text(
    'Send it to the person. What stands behind # is the secret: shown only this once. Without an address of the service, only the path.',
  ),
  qr_svg: optional.text('The QR code of the link as an SVG image, if others can open it.'),
  note: optional.text('Why others may not be able to open the link, and what to do.'),
  agent_runs: optional.flag('Whether the named agent runs now. Nobody answers the guests while it does not.'),
})
export type AddedInvitation = Static<typeof AddedInvitation>

/** Path of the page behind the link. */
export const invitationPath = '/invite'

/** What the page of an invitation shows to its visitor. */
export const InvitationView = Type.Object({
  state: oneOf(
    ['ready', 'wait', 'login', 'over', 'late'],
    'ready: a login may begin. wait: all uses that are left are being used at this moment. login: `status` says how far it is. over: the invitation has ended. late: it ended before the person confirmed.',
  ),
  inviter: optional(Type.String()),
  status: optional(LoginState),
  wrong_code: optional.flag('The digits were wrong.'),
  has_more: optional.flag('This person is done, and another one may join in the same browser.'),
  revision: optional.integer('Pass it as `seen` to the next call.'),
  qr_url: optional.text('What the QR code says: an address to open on the phone itself.'),
  qr_svg: optional.text('The QR code as an SVG image.'),
  phone_url: optional.text('In the sandbox: the simulated phone, which scans the code.'),
})
export type InvitationView = Static<typeof InvitationView>
