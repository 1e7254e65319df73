/** The panel's accounts: who there is, logging in by QR, and the changes one may make. */

import type { Static } from '@sinclair/typebox'
import type { Elysia } from 'elysia'
import type { PanelGateway } from '../../gateway/gateway-api.ts'
import { type LoginFlow, SessionCheck } from '../../model/session.ts'
import { closed } from '../../model/shapes.ts'
import { addJsonRoute } from '../json-route.ts'
import type { RouteContext } from '../route.ts'
import {
  CancelBody,
  CodeBody,
  DefaultSet,
  Login,
  LoginBody,
  LoginQuery,
  RenameBody,
  Renamed,
  SessionPath,
  Sessions,
  Status,
  Success,
} from './bodies.ts'

/** What the panel's routes work with. */
export type PanelContext = RouteContext & { readonly gateway: PanelGateway }

export interface AccountViews {
  status(): Promise<Status>
  sessions(): Promise<{ sessions: object[] }>
}

const loginErrors = ['upstream_error', 'upstream_timeout', 'not_found'] as const

/** Adds /api/status and /api/sessions with all below it. */
export function addAccountRoutes(app: Elysia, context: PanelContext, views: AccountViews): void {
  addJsonRoute(app, context, {
    method: 'get',
    path: '/api/status',
    operationId: 'status',
    summary: 'How the service is',
    description:
      'Version, accounts, who polls, whether the store works, and where things lie. Takes no lock.',
    tag: 'panel',
    answer: Status,
    run: () => views.status(),
  })
  addJsonRoute(app, context, {
    method: 'get',
    path: '/api/sessions',
    operationId: 'sessions',
    summary: 'All sessions with their users',
    description:
      'Each with everybody who wrote to it and what is left of the right to answer. Takes no lock.',
    tag: 'accounts',
    answer: Sessions,
    run: () => views.sessions() as Promise<never>,
  })
  addLoginRoutes(app, context)
  addSessionRoutes(app, context)
}

/** Adds /api/sessions/login with all below it. */
function addLoginRoutes(app: Elysia, context: PanelContext): void {
  const { logins } = context.gateway
  addJsonRoute(app, context, {
    method: 'post',
    path: '/api/sessions/login',
    operationId: 'start_login',
    summary: 'Start a login by QR code',
    description:
      'Answers with the QR code at once. A login of that session that is under way is joined. Of a connected session without force: confirmed, and nothing is started.',
    tag: 'accounts',
    body: LoginBody,
    answer: Login,
    errors: loginErrors,
    run: async ({ body, signal }) => shown(await logins.begin(body.name ?? '', body.force ?? false, signal)),
  })
  addJsonRoute(app, context, {
    method: 'get',
    path: '/api/sessions/login/status',
    operationId: 'login_status',
    summary: 'Follow a login',
    description: 'Returns when the status changes, or after timeout.',
    tag: 'accounts',
    query: LoginQuery,
    answer: Login,
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
  addJsonRoute(app, context, {
    method: 'post',
    path: '/api/sessions/login/code',
    operationId: 'login_code',
    summary: 'Give the digits that the phone shows',
    description: 'Answers with what became of them: wrong_code as notice, or the next status.',
    tag: 'accounts',
    body: CodeBody,
    answer: Login,
    errors: loginErrors,
    run: async ({ body, signal }) => shown(await logins.giveCode(body.login_id, body.verify_code, signal)),
  })
  addJsonRoute(app, context, {
    method: 'post',
    path: '/api/sessions/login/cancel',
    operationId: 'cancel_login',
    summary: 'Call a login off',
    description:
      'One that was confirmed on the phone this moment goes on; success is false then, and when there is none.',
    tag: 'accounts',
    body: CancelBody,
    answer: Success,
    run: async ({ body }) => ({ success: cancelled(logins, body) }),
  })
}

function cancelled(logins: PanelGateway['logins'], { login_id, left }: Static<typeof CancelBody>): boolean {
  if (!left) return logins.callOff(login_id)
  // It ends by itself when the service stops.
  void logins.leave(login_id).catch(() => {})
  return true
}

/** Adds what lies below /api/sessions/{name}. */
function addSessionRoutes(app: Elysia, context: PanelContext): void {
  const { accounts } = context.gateway
  addJsonRoute(app, context, {
    method: 'post',
    path: '/api/sessions/:name/check',
    operationId: 'check',
    summary: 'Ask WeChat whether a session works',
    description: 'Takes some seconds. One that is expired and works again is healed.',
    tag: 'accounts',
    params: SessionPath,
    body: closed({}),
    answer: SessionCheck,
    errors: ['session_not_found', 'not_connected'],
    run: ({ params }) => accounts.check(params.name),
  })
  addJsonRoute(app, context, {
    method: 'post',
    path: '/api/sessions/:name/logout',
    operationId: 'logout',
    summary: 'Log a session out',
    description: 'Deletes its credentials; its messages stay.',
    tag: 'accounts',
    params: SessionPath,
    body: closed({}),
    answer: Success,
    errors: ['session_not_found'],
    run: async ({ params }) => ({ success: (await accounts.logout(params.name)).success }),
  })
  addJsonRoute(app, context, {
    method: 'post',
    path: '/api/sessions/:name/rename',
    operationId: 'rename',
    summary: 'Rename a session',
    description: 'Its messages move along. A login of it that is under way ends.',
    tag: 'accounts',
    params: SessionPath,
    body: RenameBody,
    answer: Renamed,
    errors: ['session_not_found', 'session_exists'],
    run: async ({ params, body }) => {
      const { success, new_name } = await accounts.rename(params.name, body.new_name)
      return { success, name: new_name }
    },
  })
  addJsonRoute(app, context, {
    method: 'post',
    path: '/api/sessions/:name/default',
    operationId: 'set_default',
    summary: 'Make a session the default one',
    description: 'It is the one that calls without a session name mean.',
    tag: 'accounts',
    params: SessionPath,
    body: closed({}),
    answer: DefaultSet,
    errors: ['session_not_found'],
    run: ({ params }) => accounts.setDefault(params.name),
  })
}

/** A login with its QR code drawn. */
async function shown(flow: LoginFlow): Promise<Login> {
  if (flow.qr_url === undefined) return flow
  // Loaded on use: logins are rare.
  const { toString: draw } = await import('qrcode')
  const qr_svg = await draw(flow.qr_url, { type: 'svg', errorCorrectionLevel: 'L', margin: 2 })
  return { ...flow, qr_svg }
}
