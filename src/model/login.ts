/** QR logins: what callers see of one, and what is needed to poll upstream. */
import { type Static, Type } from '@sinclair/typebox'
import { oneOf, optional, text } from './shapes.ts'

export const LoginState = oneOf([
  'waiting',
  'scaned',
  'confirmed',
  'expired',
  'need_verifycode',
  'verify_code_blocked',
  'already_bound',
])
export type LoginState = Static<typeof LoginState>

export const LoginNotice = oneOf(
  ['already_connected', 'wrong_code', 'renewed', 'renewed_after_wrong_codes', 'called_off', 'failed'],
  'What just happened, where the status does not say it.',
)
export type LoginNotice = Static<typeof LoginNotice>

export const LoginStatus = Type.Object({
  status: LoginState,
  session: Type.String(),
  qr_url: optional.text('The text to show as a QR code.'),
  qr_text: optional.text('The QR code drawn with text, scannable in a terminal.'),
  qr_svg: optional.text('The QR code as an SVG image.'),
  qr_png: optional.text('The QR code as a PNG image, in base64.'),
  bot_id: optional(Type.String()),
  notice: optional(LoginNotice),
  message: text('What to do next.'),
})
export type LoginStatus = Static<typeof LoginStatus>

/** A login as the panel sees it. */
export type LoginFlow = LoginStatus & {
  login_id: string
  /** Increases with each change. */
  revision: number
}

export interface LoginRequest {
  /** '' is the session `default`. Without it: the session of the only login in progress, else `default`. */
  session_name?: string | undefined
  /** Longest wait in seconds for a change. */
  timeout: number
  force: boolean
  verify_code?: string
}

/** A running QR login, with what is needed to poll it. Anybody who has it can take over the login. */
export interface QrLogin {
  /** The key to poll with. */
  qrcode: string
  /** The text to draw as a QR code. */
  qrUrl: string
  /** The host to poll when upstream has moved this login; otherwise it is the login host. */
  host?: string
  /** QR codes used up before this one. */
  renewals: number
  /** The last state reported by upstream. */
  state: LoginState
  /** Whether the phone shows digits that upstream waits for. */
  needsCode: boolean
}
