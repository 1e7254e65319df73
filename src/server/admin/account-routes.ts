/** The panel's accounts: who there is, logging in by QR, and the changes one may make. */

import type { Static } from '@sinclair/typebox'
import type { Elysia } from 'elysia'
import type { Gateway } from '../../gateway/gateway-api.ts'
import type { LoginFlow } from '../../model/login.ts'
import { SessionCheck } from '../../model/session.ts'
import { closed } from '../../model/shapes.ts'
import { jsonRoutes, type RouteContext } from '../route.ts'
import * as bodies from './bodies.ts'

/** What the panel's routes work with. */
export type PanelContext = RouteContext

export interface AccountViews {
  status(): Promise<bodies.Status>
  sessions(): Promise<Static<typeof bodies.Sessions>>
}

const loginErrors = ['upstream_error', 'upstream_timeout', 'not_found'] as const

/** Adds /api/status and /api/sessions with all below it. */
export function addAccountRoutes(app: Elysia, context: PanelContext, views: AccountViews): void {
  const add = jsonRoutes(app, context, 'accounts')
  jsonRoutes(app, context, 'panel')('GET /api/status', 'status', {
    summary: 'How the service is',
    description:
      'Version, accounts, who polls, whether the store works, and where things lie. Takes no lock.',
    answer: bodies.Status,
    run: () => views.status(),
  })
  add('GET /api/sessions', 'sessions', {
    summary: 'All sessions with their users',
    description:
      'Each with everybody who wrote to it and what is left of the right to answer. Takes no lock.',
    answer: bodies.Sessions,
    run: () => views.sessions(),
  })
  addLoginRoutes(app, context)
  addSessionRoutes(app, context)
}

/** Adds /api/sessions/login with all below it. */
function addLoginRoutes(app: Elysia, context: PanelContext): void {
  const { logins } = context.gateway
  const add = jsonRoutes(app, context, 'accounts')
  add('POST /api/sessions/login', 'start_login', {
    summary: 'Start a login by QR code',
    description:
      'Answers with the QR code at once. A login of that session that is under way is joined. Of a connected session without force: confirmed, and nothing is started.',
    body: bodies.LoginBody,
    answer: bodies.Login,
    errors: loginErrors,
    run: async ({ body, signal }) => shown(await logins.begin(body.name ?? '', body.force ?? false, signal)),
  })
  add('GET /api/sessions/login/status', 'login_status', {
    summary: 'Follow a login',
    description: 'Returns when the status changes, or after timeout.',
    query: bodies.LoginQuery,
    answer: bodies.Login,
    errors: loginErrors,
    run: async ({ query, signal }) =>
      shown(
        await logins.follow(
          { login_id: query.login_id, session: query.session, seen: query.seen },
          (query.timeout ?? 0) * 1000,
          signal,
        ),
      ),
  })
  add('POST /api/sessions/login/code', 'login_code', {
    summary: 'Give the digits that the phone shows',
    description: 'Answers with what became of them: wrong_code as notice, or the next status.',
    body: bodies.CodeBody,
    answer: bodies.Login,
    errors: loginErrors,
    run: async ({ body, signal }) => shown(await logins.giveCode(body.login_id, body.verify_code, signal)),
  })
  add('POST /api/sessions/login/cancel', 'cancel_login', {
    summary: 'Call a login off',
    description:
      'One that was confirmed on the phone this moment goes on; success is false then, and when there is none.',
    body: bodies.CancelBody,
    answer: bodies.Success,
    run: async ({ body }) => ({ success: await cancelled(logins, body) }),
  })
}

async function cancelled(
  logins: Gateway['logins'],
  { login_id, left }: Static<typeof bodies.CancelBody>,
): Promise<boolean> {
  if (!left) return logins.callOff(login_id)
  // It ends by itself when the service stops.
  void logins.leave(login_id).catch(() => {})
  return true
}

/** Adds what lies below /api/sessions/{name}. */
function addSessionRoutes(app: Elysia, context: PanelContext): void {
  const { accounts } = context.gateway
  const add = jsonRoutes(app, context, 'accounts')
  add('POST /api/sessions/:name/check', 'check', {
    summary: 'Ask WeChat whether a session works',
    description: 'Takes some seconds. One that is expired and works again is healed.',
    params: bodies.SessionPath,
    body: closed({}),
    answer: SessionCheck,
    errors: ['session_not_found', 'not_connected'],
    run: ({ params }) => accounts.check(params.name),
  })
  add('POST /api/sessions/:name/logout', 'logout', {
    summary: 'Log a session out',
    description: 'Deletes its credentials; its messages stay.',
    params: bodies.SessionPath,
    body: closed({}),
    answer: bodies.Success,
    errors: ['session_not_found'],
    run: async ({ params }) => ({ success: (await accounts.logout(params.name)).success }),
  })
  add('POST /api/sessions/:name/rename', 'rename', {
    summary: 'Rename a session',
    description: 'Its messages move along. A login of it that is under way ends.',
    params: bodies.SessionPath,
    body: bodies.RenameBody,
    answer: bodies.Renamed,
    errors: ['session_not_found', 'session_exists'],
    run: async ({ params, body }) => {
      const { success, new_name } = await accounts.rename(params.name, body.new_name)
      return { success, name: new_name }
    },
  })
  add('POST /api/sessions/:name/default', 'set_default', {
    summary: 'Make a session the default one',
    description: 'It is the one that calls without a session name mean.',
    params: bodies.SessionPath,
    body: closed({}),
    answer: bodies.DefaultSet,
    errors: ['session_not_found'],
    run: ({ params }) => accounts.setDefault(params.name),
  })
}

/** A login with its QR code drawn. */
async function shown(flow: LoginFlow): Promise<bodies.Login> {
  if (flow.qr_url === undefined) return flow
  // Loaded on use: logins are rare.
  const { toString: draw } = await import('qrcode')
  const qr_svg = await draw(flow.qr_url, { type: 'svg', errorCorrectionLevel: 'L', margin: 2 })
  return { ...flow, qr_svg }
}
