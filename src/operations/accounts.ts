/**
 * Operations for accounts in the panel: sessions with their users, the steps of a login, logout and rename.
 */
import { type Static, Type } from '@sinclair/typebox'
import { waitOf } from '../model/call.ts'
import { badArgument } from '../model/error.ts'
import { type LoginFlow, LoginStatus } from '../model/login.ts'
import { normalizeSessionName, Session, SessionUser, sessionKeyOf } from '../model/session.ts'
import { bounded, closed, integer, optional, seconds, text } from '../model/shapes.ts'
import { logout } from './logout.ts'
import { defineOperation } from './operation.ts'
import { drawQrSvg } from './qr.ts'
import { renameSession } from './rename-session.ts'

export const listAccounts = defineOperation({
  name: 'list_accounts',
  title: 'All sessions with their users',
  effect: 'read',
  right: 'users',
  description:
    'Lists each session with the users who wrote to it, and how many answers are left until when. Takes no lock.',
  output: Type.Object({
    sessions: Type.Array(Type.Object({ ...Session.properties, users: Type.Array(SessionUser) })),
  }),
  run: async ({ accounts }) => ({ sessions: await accounts.listWithUsers() }),
})

const LoginStep = Type.Object({
  ...LoginStatus.properties,
  login_id: text('Id of the login; "" if the session is already connected and no login was started.'),
  revision: integer('Number of changes so far; pass it as `seen` to the next call.'),
})
const Done = Type.Object({ success: Type.Boolean() })
const errors = ['upstream_error', 'upstream_timeout', 'not_found'] as const
const login_id = Type.String({
  maxLength: 64,
  description: 'Id of the login, from start_login.',
  examples: ['lg_1f9c'],
})
const sessionName = (description: string) => Type.String({ maxLength: 200, description })

/**
 * Returns the session that an input names, by any of the keys that mean the same.
 *
 * @throws SvcError `invalid_arguments` for two different sessions
 */
function namedSessionOf(names: Readonly<Record<string, string | undefined>>): string | undefined {
  const [first, ...more] = Object.entries(names).filter(([, name]) => name !== undefined)
  const keyOf = (name = '') => sessionKeyOf(normalizeSessionName(name))
  const other = more.find(([, name]) => keyOf(name) !== keyOf(first?.[1]))
  if (other) throw badArgument(other[0], `${first?.[0]} and ${other[0]} are two different sessions`)
  return first?.[1]
}

/** Returns a login step with its QR code as an SVG image. */
async function withQrSvg(step: Promise<LoginFlow>): Promise<Static<typeof LoginStep>> {
  const flow = await step
  return flow.qr_url === undefined ? flow : { ...flow, qr_svg: await drawQrSvg(flow.qr_url) }
}

export const startLogin = defineOperation({
  name: 'start_login',
  title: 'Start a login by QR code',
  effect: 'write',
  right: 'login',
  subject: ['name', 'session_name'],
  description:
    'Answers with the QR code immediately. If a login of that session is in progress, joins it. If the session is connected and force is not set, answers `confirmed` and starts nothing.',
  input: closed({
    session_name: optional(sessionName('Name of the session; "" or absent is the session "default".')),
    name: optional(sessionName('The same as session_name.')),
    force: optional.flag('Log in again although the session is connected.'),
  }),
  output: LoginStep,
  errors: [...errors, 'session_not_found', 'rate_limited', 'forbidden'],
  run: async ({ logins }, { force = false, ...names }, { by, signal }) =>
    withQrSvg(logins.begin(by, namedSessionOf(names) ?? '', force, signal)),
})

export const followLogin = defineOperation({
  name: 'follow_login',
  title: 'Follow a login',
  effect: 'read',
  right: 'login',
  description:
    'Returns when the status changes, at the latest after timeout. Without login_id and name: the login that was started last.',
  input: closed({
    login_id: optional(login_id),
    name: optional(sessionName('In place of login_id: the newest login of this session.')),
    session: optional(sessionName('The same as name.')),
    session_name: optional(sessionName('The same as name.')),
    seen: optional(
      Type.Integer({
        minimum: 0,
        description: 'The revision that the caller already has; a newer one is answered immediately.',
      }),
    ),
    timeout: optional(seconds(30, 0, 'Longest wait in seconds for a change.')),
  }),
  output: LoginStep,
  errors,
  async run({ logins }, { timeout = 0, login_id, seen, ...names }, call) {
    const login = { login_id, seen, session: namedSessionOf(names) }
    return withQrSvg(logins.follow(call.by, login, waitOf(call, timeout) * 1000, call.signal))
  },
})

export const forgetLogin = defineOperation({
  name: 'forget_login',
  title: 'Forget how the last login ended',
  effect: 'write',
  right: 'login',
  description:
    'For a caller who starts a new login. A login that can still be scanned stays. A login ends if its code has expired and no process continues it.',
  input: closed({ session: optional(sessionName('Name of the session; "" or absent means default.')) }),
  output: Done,
  async run({ logins }, { session = '' }, { by }) {
    await logins.forget(by, session)
    return { success: true }
  },
})

export const giveLoginCode = defineOperation({
  name: 'give_login_code',
  title: 'Give the digits that the phone shows',
  effect: 'write',
  right: 'login',
  description: 'Answers with the result: wrong_code as notice, or the next status.',
  input: closed({ login_id, verify_code: bounded(32, 'The digits on the phone.', { examples: ['42'] }) }),
  output: LoginStep,
  errors,
  run: ({ logins }, { login_id, verify_code }, { by, signal }) =>
    withQrSvg(logins.giveCode(by, login_id, verify_code, signal)),
})

export const cancelLogin = defineOperation({
  name: 'cancel_login',
  title: 'Cancel a login',
  effect: 'write',
  right: 'login',
  description:
    'success is false if the login does not exist, or was confirmed on the phone at this moment: then it goes on.',
  input: closed({
    login_id,
    left: optional.flag(
      'The user has left the page: the login ends within a minute, unless somebody follows it or has scanned the code.',
    ),
  }),
  output: Done,
  async run({ logins }, { login_id, left }, { by }) {
    if (!left) return { success: await logins.callOff(by, login_id) }
    // `leave` waits for up to a minute, and ends by itself when the service stops.
    void logins.leave(by, login_id).catch(() => {})
    return { success: true }
  },
})

const Account = closed({ name: bounded(200, 'Name of the session.', { examples: ['work'] }) })

/** Same as `logout`, for the panel's endpoint `POST /sessions/{name}/logout`. */
export const logoutAccount = defineOperation({
  name: 'logout_account',
  title: logout.title,
  effect: logout.effect,
  right: logout.right,
  subject: ['name'],
  description: 'Deletes the credentials of the session; its messages stay.',
  input: Account,
  output: Done,
  errors: logout.errors,
  rest: {
    route: 'POST /sessions/{name}/logout',
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

/** Same as `renameSession`, for the panel's endpoint `POST /sessions/{name}/rename`. */
export const renameAccount = defineOperation({
  name: 'rename_account',
  title: renameSession.title,
  effect: renameSession.effect,
  right: renameSession.right,
  subject: ['name'],
  description: 'The messages stay with the session. A login of it that is in progress ends.',
  input: closed({
    ...Account.properties,
    new_name: bounded(200, 'New name of the session.', { examples: ['shop'] }),
  }),
  output: Type.Object({ ...Done.properties, name: Type.String() }),
  errors: renameSession.errors,
  rest: { route: 'POST /sessions/{name}/rename', tag: 'accounts', operationId: 'rename', panelOnly: true },
  async run({ accounts }, { name, new_name }) {
    const renamed = await accounts.rename(name, new_name)
    return { success: renamed.success, name: renamed.new_name }
  },
})
