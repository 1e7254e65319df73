/**
 * The QR login as a pure step: it decides what a status reply means for a running login (protocol notes 2.2).
 * The step uses no network and no clock. A driver polls, asks the person, and does what `next` says.
 */

import type { LoginState, QrLogin } from '../model/login.ts'
import { withoutSlashes } from './http.ts'
import type { QrcodeReply, QrcodeStatusReply } from './wire.ts'

/** How often an expired QR code is replaced (the official client stops at 2). */
export const maxRenewals = 3

/** The result of a confirmed login; stored with an empty cursor. */
export interface Credentials {
  bot_id: string
  token: string
  base_url: string
  /** The WeChat user who scanned. */
  user_id?: string
}

interface StepBase {
  flow: QrLogin
  /** The state that the caller sees. */
  state: LoginState
  /** Whether the current verify code is used up: accepted, wrong, or void. */
  dropCode: boolean
  /** Whether the code sent with this poll was wrong. */
  wrongCode: boolean
}

/**
 * What to do next:
 * - poll: poll again; at once when there is a verify code, otherwise after 2 to 3 s
 * - renew: request a new QR code, then call `createLogin(qr, flow.renewals)`
 * - done: store the credentials
 * - end: the login ended without new credentials; `problem` gives the reason where the state does not
 */
export type LoginStep =
  | (StepBase & { next: 'poll' | 'renew' })
  | (StepBase & { next: 'done'; credentials: Credentials })
  | (StepBase & { next: 'end'; problem?: string })

/** Starts a login with a QR code. @param renewals QR codes used up so far, from the previous flow */
export function createLogin(qr: QrcodeReply, renewals = 0): QrLogin {
  return { qrcode: qr.qrcode, qrUrl: qr.qrcode_img_content, renewals, state: 'waiting', needsCode: false }
}

/**
 * Computes the next step of a login.
 *
 * @param reply of `getQrcodeStatus`; an error or an unknown status changes nothing
 * @param context `loginHost`: the host of all logins, with scheme; `codeSent`: the verify code sent with this
 *   poll
 */
export function stepLogin(
  flow: QrLogin,
  reply: QrcodeStatusReply & { error?: unknown },
  context: { loginHost: string; codeSent?: string },
): LoginStep {
  const makeStep = (
    state: LoginState,
    changes: Partial<QrLogin> = {},
    flags: { dropCode?: boolean; wrongCode?: boolean } = {},
  ) => ({
    flow: { ...flow, needsCode: false, ...changes, state },
    state,
    dropCode: flags.dropCode ?? false,
    wrongCode: flags.wrongCode ?? false,
  })
  const keepState = (): LoginStep => ({
    ...makeStep(flow.state, { needsCode: flow.needsCode }),
    next: 'poll',
  })
  const renew = (state: LoginState): LoginStep => {
    const isOver = flow.renewals >= maxRenewals
    const renewals = isOver ? flow.renewals : flow.renewals + 1
    return { ...makeStep(state, { renewals }, { dropCode: true }), next: isOver ? 'end' : 'renew' }
  }

  if (reply.error !== undefined) return keepState()
  switch (reply.status) {
    case 'wait':
      // Upstream may also send `wait` after the digits are typed and before they are checked.
      return flow.needsCode ? keepState() : { ...makeStep('waiting'), next: 'poll' }
    case 'scaned':
      // This also means that the verify code was right.
      return { ...makeStep('scaned', {}, { dropCode: true }), next: 'poll' }
    case 'need_verifycode': {
      // If a code was sent, this status means that the code was wrong.
      const wrongCode = context.codeSent !== undefined && context.codeSent !== ''
      const flags = { dropCode: wrongCode, wrongCode }
      return { ...makeStep('need_verifycode', { needsCode: true }, flags), next: 'poll' }
    }
    case 'verify_code_blocked':
      return renew('verify_code_blocked')
    case 'expired':
      return renew('expired')
    case 'scaned_but_redirect': {
      const host = redirectedHostOf(reply.redirect_host, context.loginHost) ?? flow.host
      return { ...makeStep('scaned', { host }, { dropCode: true }), next: 'poll' }
    }
    case 'binded_redirect':
      return { ...makeStep('already_bound', {}, { dropCode: true }), next: 'end' }
    case 'confirmed': {
      const credentials = credentialsOf(reply, context.loginHost)
      if (credentials) return { ...makeStep('confirmed', {}, { dropCode: true }), next: 'done', credentials }
      return { ...makeStep('expired', {}, { dropCode: true }), next: 'end', problem: noCredentials }
    }
    default:
      return keepState()
  }
}

const noCredentials = 'WeChat confirmed the login but sent no credentials. Call login to start again.'

function credentialsOf(reply: QrcodeStatusReply, loginHost: string): Credentials | undefined {
  const { ilink_bot_id: bot_id, bot_token: token, ilink_user_id: user_id, baseurl } = reply
  if (!bot_id || !token) return undefined
  const credentials = { bot_id, token, base_url: baseUrlOf(baseurl, loginHost) }
  return user_id ? { ...credentials, user_id } : credentials
}

/** Matches host or host:port and nothing more: no path, no user, no scheme. */
const hostPattern = /^([a-z0-9.-]+|\[[0-9a-f:.]+\])(:\d{1,5})?$/i

/**
 * Returns the URL of the new host. It uses https, unless logins already use plain http: a sandbox on this
 * machine.
 */
function redirectedHostOf(host: string | undefined, loginHost: string): string | undefined {
  if (!host || !hostPattern.test(host)) return undefined
  const url = `${isPlainHttp(loginHost) ? 'http' : 'https'}://${host}`
  return URL.canParse(url) ? url : undefined
}

/**
 * Returns the account's API URL: the login host where upstream names none, or one that would send tokens
 * unencrypted.
 */
function baseUrlOf(stated: string | undefined, loginHost: string): string {
  const url = URL.parse(stated ?? '')
  const usable = url && (url.protocol === 'https:' || (url.protocol === 'http:' && isPlainHttp(loginHost)))
  return withoutSlashes(usable && stated ? stated : loginHost)
}

const isPlainHttp = (url: string) => /^http:/i.test(url)
