/** Operations for invitations: those of the people who invite, and those of the page behind the link. */
import { Type } from '@sinclair/typebox'
import { waitOf } from '../model/call.ts'
import {
  AddedInvitation,
  defaultLifetimeMs,
  defaultTurnsPerDay,
  Invitation,
  InvitationView,
  NewInvitationInput,
} from '../model/invitation.ts'
import { owner } from '../model/principal.ts'
import { bounded, closed, optional, seconds } from '../model/shapes.ts'
import { defineOperation } from './operation.ts'
import { drawQrSvg } from './qr.ts'

const id = 'inv_3f1c9a0b2d4e'
const InvitationInput = closed({
  id: bounded(64, 'Id of an invitation, or the name of an active one.', { examples: [id] }),
})

const exampleInvitation = {
  id,
  name: 'mum',
  status: 'active' as const,
  max_uses: 1,
  used: 0,
  sessions: [],
  agent: 'home',
  trusted: false,
  turns_per_day: defaultTurnsPerDay,
  created_at: 1767225600000,
  made_by: 'owner',
  expires_at: 1767225600000 + defaultLifetimeMs,
}

export const listInvitations = defineOperation({
  name: 'list_invitations',
  title: 'List invitations and who joined by them',
  effect: 'read',
  right: 'invitations',
  description:
    'Lists the invitations, oldest first, also those that have ended: how many people joined by each, and which accounts they are. A caller with a key sees only those that it made. Secrets are not shown.',
  output: Type.Array(Invitation),
  examples: [{ summary: 'One invitation', output: [exampleInvitation] }],
  rest: { route: 'GET /invitations', tag: 'invitations' },
  cli: { path: ['invite'], alias: 'list', examples: [['svc invite', 'Every invitation']] },
  run: ({ invitations }, _input, { by }) => invitations.list(by),
})

export const addInvitation = defineOperation({
  name: 'add_invitation',
  title: 'Invite people to log in by themselves',
  effect: 'write',
  right: 'invitations',
  subject: [],
  description:
    'Makes a link. Whoever opens it gets a QR code of their own, and scans it with WeChat: that person is a guest with an account of the given name. Only the named agent answers guests, in a folder of their own and in a sandbox unless `trusted` is set. The agent asks guests nothing. Only this answer contains the link. An invitation that a key made ends with the key.',
  input: NewInvitationInput,
  output: AddedInvitation,
  examples: [
    {
      summary: 'One person',
      input: { name: 'mum', agent: 'home' },
      output: {
        ...exampleInvitation,
        agent_runs: true,
        link: `https://svc.example.com/invite#${'Zm9vYmFy'.repeat(5)}xyz`,
      },
    },
  ],
  furtherRights: ({ topic, trusted }) => [
    ...(trusted ? (['agents'] as const) : []),
    ...(topic === undefined ? [] : (['topics'] as const)),
  ],
  rest: { route: 'POST /invitations', tag: 'invitations' },
  cli: {
    path: ['invite', 'add'],
    names: { expires_at: 'expires', inviter: 'from' },
    help: { expires_at: 'Nobody joins after this time: a span such as 7d, or a date. Default: 7d.' },
    examples: [
      ['svc invite add mum --agent home', 'A link for one person, whom the agent "home" answers'],
      ['svc invite add shop --max-uses 200 --expires 90d', 'One link for many: shop-1, shop-2 …'],
    ],
  },
  positionals: ['name'],
  async run({ invitations }, input, { by }) {
    const added = await invitations.add(by, input)
    return added.note === undefined ? { ...added, qr_svg: await drawQrSvg(added.link) } : added
  },
})

export const revokeInvitation = defineOperation({
  name: 'revoke_invitation',
  title: 'End an invitation',
  effect: 'destroy',
  right: 'invitations',
  description:
    'Ends an invitation: nobody joins by it any more, also not by a code that is shown already. The accounts that joined by it stay.',
  input: InvitationInput,
  output: Invitation,
  errors: ['not_found'],
  examples: [
    {
      summary: 'Revoked',
      input: { id },
      output: { ...exampleInvitation, status: 'revoked', revoked_at: 1767225660000 },
    },
  ],
  rest: { route: 'DELETE /invitations/{id}', tag: 'invitations' },
  cli: {
    path: ['invite', 'revoke'],
    async question({ invitations }, input) {
      const named = (await invitations.list(owner)).filter(one =>
        [one.id, one.name].includes(String(input.id)),
      )
      return `Revoke the invitation ${named.map(({ name, id }) => `${name} (${id})`).join(', ') || input.id}?`
    },
    examples: [['svc invite revoke mum', 'The account that joined by it stays']],
  },
  run: ({ invitations }, input, { by }) => invitations.revoke(by, input.id),
})

const visit = {
  secret: bounded(200, 'The secret of the link.', { examples: ['Zm9v'] }),
  browser: Type.String({ maxLength: 100, description: 'The cookie of the browser; "" without one.' }),
}
const pageErrors = ['not_found', 'rate_limited', 'upstream_error', 'upstream_timeout'] as const

/** Returns what the page shows, with its QR code as an image. */
async function withPicture(shown: Promise<InvitationView>): Promise<InvitationView> {
  const view = await shown
  return view.qr_url === undefined ? view : { ...view, qr_svg: await drawQrSvg(view.qr_url) }
}

export const lookAtInvitation = defineOperation({
  name: 'look_at_invitation',
  title: 'Show a visitor the invitation behind a link',
  effect: 'read',
  right: 'shared',
  description: 'Returns when the login of this browser changes, at the latest after timeout. Starts nothing.',
  input: closed({
    ...visit,
    seen: optional.integer('The revision that the page has.'),
    timeout: optional(seconds(25, 0, 'Longest wait in seconds for a change.')),
  }),
  output: InvitationView,
  errors: pageErrors,
  run: ({ invitations }, { seen = 0, timeout = 0, ...from }, call) =>
    withPicture(invitations.look(from, seen, waitOf(call, timeout) * 1000, call.signal)),
})

/** Its line in the audit log is written with the credentials of the person who joins. */
export const joinByInvitation = defineOperation({
  name: 'join_by_invitation',
  title: 'Start the login of a visitor',
  effect: 'write',
  audited: false,
  right: 'shared',
  description: 'Shows a QR code to this browser alone, unless all uses that are left are being used.',
  input: closed(visit),
  output: InvitationView,
  errors: pageErrors,
  run: ({ invitations }, input, { address }) => withPicture(invitations.join({ ...input, address })),
})

export const giveInvitedCode = defineOperation({
  name: 'give_invited_code',
  title: 'Give the digits that the phone of a visitor shows',
  effect: 'write',
  audited: false,
  right: 'shared',
  description: 'Answers when WeChat has checked them.',
  input: closed({ ...visit, verify_code: bounded(32, 'The digits.', { examples: ['42'] }) }),
  output: InvitationView,
  errors: pageErrors,
  run: ({ invitations }, { verify_code, ...from }, { signal }) =>
    withPicture(invitations.giveCode(from, verify_code, signal)),
})
