/**
 * The QR login as a pure step: what a status reply means for a login under way (protocol notes 2.2). Knows no network
 * and no clock; a driver polls, asks the human, and does what `next` says.
 */

import type { LoginState, QrLogin } from '../model/login.ts'
import { withoutSlashes } from './http.ts'
import type { QrcodeReply, QrcodeStatusReply } from './wire.ts'

/** An expired QR code is replaced this often (the official client stops at 2). */
export const maxRenewals = 3

/** What a confirmed login gives; kept with an empty cursor. */
export interface Credentials {
  bot_id: string
  token: string
  base_url: string
  /** The WeChat user who scanned. */
  user_id?: string
}

interface StepBase {
  flow: QrLogin
  /** For the caller to see. */
  state: LoginState
  /** The verify code in hand is used up: accepted, wrong, or void. */
  dropCode: boolean
  /** True when the code sent with this poll was wrong. */
  wrongCode: boolean
}

/**
 * - poll: ask again; at once when a code is in hand, otherwise after 2 to 3 s
 * - renew: get a new QR code, then `newLogin(qr, flow.renewals)`
 * - done: store the credentials
 * - end: over without new credentials; `problem` says why where the state does not
 */
export type LoginStep =
  | (StepBase & { next: 'poll' | 'renew' })
  | (StepBase & { next: 'done'; credentials: Credentials })
  | (StepBase & { next: 'end'; problem?: string })

/** The flow that begins with a QR code. @param renewals QR codes used up before, from the flow that ended */
export function newLogin(qr: QrcodeReply, renewals = 0): QrLogin {
  return { qrcode: qr.qrcode, qrUrl: qr.qrcode_img_content, renewals, state: 'waiting', needsCode: false }
}

/**
 * @param reply of `getQrcodeStatus`; one that carries an error changes nothing, nor does an unknown status
 * @param context `loginHost`: where logins go, with scheme; `codeSent`: the verify code that went with this poll
 */
export function stepLogin(
  flow: QrLogin,
  reply: QrcodeStatusReply & { error?: unknown },
  context: { loginHost: string; codeSent?: string },
): LoginStep {
  const to = (
    state: LoginState,
    changes: Partial<QrLogin> = {},
    flags: { dropCode?: boolean; wrongCode?: boolean } = {},
  ) => ({
    flow: { ...flow, needsCode: false, ...changes, state },
    state,
    dropCode: flags.dropCode ?? false,
    wrongCode: flags.wrongCode ?? false,
  })
  const unchanged = (): LoginStep => ({ ...to(flow.state, { needsCode: flow.needsCode }), next: 'poll' })
  const renewed = (state: LoginState): LoginStep => {
    const over = flow.renewals >= maxRenewals
    const renewals = over ? flow.renewals : flow.renewals + 1
    return { ...to(state, { renewals }, { dropCode: true }), next: over ? 'end' : 'renew' }
  }

  if (reply.error !== undefined) return unchanged()
  switch (reply.status) {
    case 'wait':
      // Between the digits on the phone and their check upstream may say so too.
      return flow.needsCode ? unchanged() : { ...to('waiting'), next: 'poll' }
    case 'scaned':
      // Also means that the verify code was right.
      return { ...to('scaned', {}, { dropCode: true }), next: 'poll' }
    case 'need_verifycode': {
      // Asked again although a code went along: that code was wrong.
      const wrongCode = context.codeSent !== undefined && context.codeSent !== ''
      const flags = { dropCode: wrongCode, wrongCode }
      return { ...to('need_verifycode', { needsCode: true }, flags), next: 'poll' }
    }
    case 'verify_code_blocked':
      return renewed('verify_code_blocked')
    case 'expired':
      return renewed('expired')
    case 'scaned_but_redirect': {
      const host = redirectedHost(reply.redirect_host, context.loginHost) ?? flow.host
      return { ...to('scaned', { host }, { dropCode: true }), next: 'poll' }
    }
    case 'binded_redirect':
      return { ...to('already_bound', {}, { dropCode: true }), next: 'end' }
    case 'confirmed': {
      const credentials = credentialsOf(reply, context.loginHost)
      if (credentials) return { ...to('confirmed', {}, { dropCode: true }), next: 'done', credentials }
      return { ...to('expired', {}, { dropCode: true }), next: 'end', problem: noCredentials }
    }
    default:
      return unchanged()
  }
}

const noCredentials = 'WeChat confirmed the login but sent no credentials. Call login to start again.'

function credentialsOf(reply: QrcodeStatusReply, loginHost: string): Credentials | undefined {
  const { ilink_bot_id: bot_id, bot_token: token, ilink_user_id: user_id, baseurl } = reply
  if (!bot_id || !token) return undefined
  const credentials = { bot_id, token, base_url: baseUrl(baseurl, loginHost) }
  return user_id ? { ...credentials, user_id } : credentials
}

/** host or host:port, nothing more: no path, no user, no scheme. */
const hostOnly = /^([a-z0-9.-]+|\[[0-9a-f:.]+\])(:\d{1,5})?$/i

/** https is forced, unless logins themselves go to a plain http host: a sandbox on this machine. */
function redirectedHost(host: string | undefined, loginHost: string): string | undefined {
  if (!host || !hostOnly.test(host)) return undefined
  const url = `${isPlain(loginHost) ? 'http' : 'https'}://${host}`
  return URL.canParse(url) ? url : undefined
}

/** The API address of the account; the login host where upstream names none, or one that would send tokens in clear. */
function baseUrl(given: string | undefined, loginHost: string): string {
  const url = URL.parse(given ?? '')
  const usable = url && (url.protocol === 'https:' || (url.protocol === 'http:' && isPlain(loginHost)))
  return withoutSlashes(usable && given ? given : loginHost)
}

const isPlain = (url: string) => /^http:/i.test(url)
