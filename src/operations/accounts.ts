/** Accounts as a person looks at them, and the steps of a login that a page shows. */
import { type Static, Type } from '@sinclair/typebox'
import { waitOf } from '../model/call.ts'
import { type LoginFlow, LoginStatus } from '../model/login.ts'
import { Session, SessionUser } from '../model/session.ts'
import { bounded, closed, flag, integer, optional, seconds, text } from '../model/shapes.ts'
import { logout } from './logout.ts'
import { operation } from './operation.ts'
import { renameSession } from './rename-session.ts'

export const listAccounts = operation({
  name: 'list_accounts',
  title: 'All sessions with their users',
  effect: 'read',
  right: 'users',
  description: 'Each with everybody who wrote to it and what is left of the right to answer. Takes no lock.',
  input: closed({}),
  output: Type.Object({
    sessions: Type.Array(Type.Object({ ...Session.properties, users: Type.Array(SessionUser) })),
  }),
  run: async ({ accounts }) => ({ sessions: await accounts.withUsers() }),
})

const LoginStep = Type.Object({
  ...LoginStatus.properties,
  login_id: text('"" when the session is connected already and nothing was started.'),
  revision: integer('Counts the changes; pass it on as seen.'),
  qr_svg: optional(text('The QR code as an SVG image.')),
})
const Done = Type.Object({ success: Type.Boolean() })
const errors = ['upstream_error', 'upstream_timeout', 'not_found'] as const
const login_id = Type.String({
  maxLength: 64,
  description: 'From the start of the login.',
  examples: ['lg_1f9c'],
})
const sessionName = (description: string) => Type.String({ maxLength: 200, description })

/** A login with its QR code drawn. */
async function shown(step: Promise<LoginFlow>): Promise<Static<typeof LoginStep>> {
  const flow = await step
  if (flow.qr_url === undefined) return flow
  // Loaded on use: logins are rare.
  const { toString: draw } = await import('qrcode')
  const qr_svg = await draw(flow.qr_url, { type: 'svg', errorCorrectionLevel: 'L', margin: 2 })
  return { ...flow, qr_svg }
}

export const startLogin = operation({
  name: 'start_login',
  title: 'Start a login by QR code',
  effect: 'write',
  right: 'login',
  description:
    'Answers with the QR code at once. A login of that session that is under way is joined. Of a connected session without force: confirmed, and nothing is started.',
  input: closed({
    name: optional(sessionName('Of the session; "" or absent is default.')),
    force: optional(flag('Log in again although it is connected.')),
  }),
  output: LoginStep,
  errors,
  run: ({ logins }, { name = '', force = false }, { signal }) => shown(logins.begin(name, force, signal)),
})

export const followLogin = operation({
  name: 'follow_login',
  title: 'Follow a login',
  effect: 'read',
  right: 'login',
  description: 'Returns when the status changes, or after timeout.',
  input: closed({
    login_id: optional(login_id),
    session: optional(sessionName('Instead of login_id: the newest login of that session.')),
    seen: optional(
      Type.Integer({
        minimum: 0,
        description: 'The revision known already: a newer one is answered at once.',
      }),
    ),
    timeout: optional(seconds(30, 0, 'Longest wait in seconds for a change.')),
  }),
  output: LoginStep,
  errors,
  run: ({ logins }, { timeout = 0, ...which }, call) =>
    shown(logins.follow(which, waitOf(call, timeout) * 1000, call.signal)),
})

export const forgetLogin = operation({
  name: 'forget_login',
  title: 'Forget how the last login ended',
  effect: 'write',
  right: 'login',
  description:
    'For a caller who begins a new login. A login that can still be scanned stays; one whose code has run out, and that no process goes on with, ends.',
  input: closed({ session: optional(sessionName('Of the session; "" or absent is default.')) }),
  output: Done,
  async run({ logins }, { session = '' }) {
    await logins.forget(session)
    return { success: true }
  },
})

export const giveLoginCode = operation({
  name: 'give_login_code',
  title: 'Give the digits that the phone shows',
  effect: 'write',
  right: 'login',
  description: 'Answers with what became of them: wrong_code as notice, or the next status.',
  input: closed({ login_id, verify_code: bounded(32, 'The digits on the phone.', { examples: ['42'] }) }),
  output: LoginStep,
  errors,
  run: ({ logins }, given, { signal }) => shown(logins.giveCode(given.login_id, given.verify_code, signal)),
})

export const cancelLogin = operation({
  name: 'cancel_login',
  title: 'Call a login off',
  effect: 'write',
  right: 'login',
  description:
    'One that was confirmed on the phone this moment goes on; success is false then, and when there is none.',
  input: closed({
    login_id,
    left: optional(
      flag('The page was left: it ends within a minute, unless somebody follows it or has scanned the code.'),
    ),
  }),
  output: Done,
  async run({ logins }, given) {
    if (!given.left) return { success: await logins.callOff(given.login_id) }
    // It ends by itself when the service stops.
    void logins.leave(given.login_id).catch(() => {})
    return { success: true }
  },
})

const Account = closed({ name: bounded(200, 'Of a session.', { examples: ['work'] }) })

/** As the specification has it in the panel. */
export const logoutAccount = operation({
  name: 'logout_account',
  title: logout.title,
  effect: logout.effect,
  right: logout.right,
  description: 'Deletes its credentials; its messages stay.',
  input: Account,
  output: Done,
  errors: logout.errors,
  rest: {
    place: 'POST /sessions/{name}/logout',
    tag: 'accounts',
    operationId: 'logout',
    panelOnly: true,
    body: 'may',
  },
  async run({ accounts }, { name }) {
    const { success } = await accounts.logout(name)
    return { success }
  },
})

/** As the specification has it in the panel. */
export const renameAccount = operation({
  name: 'rename_account',
  title: renameSession.title,
  effect: renameSession.effect,
  right: renameSession.right,
  description: 'Its messages move along. A login of it that is under way ends.',
  input: closed({ ...Account.properties, new_name: bounded(200, 'Its new name.', { examples: ['shop'] }) }),
  output: Type.Object({ ...Done.properties, name: Type.String() }),
  errors: renameSession.errors,
  rest: { place: 'POST /sessions/{name}/rename', tag: 'accounts', operationId: 'rename', panelOnly: true },
  async run({ accounts }, { name, new_name }) {
    const renamed = await accounts.rename(name, new_name)
    return { success: renamed.success, name: renamed.new_name }
  },
})
