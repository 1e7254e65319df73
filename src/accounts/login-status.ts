/** The status of a login, as callers receive it. */
import type { LoginNotice, LoginState, LoginStatus } from '../model/login.ts'
import { withoutUndefined } from '../platform/fields.ts'
import type { StoredLogin } from '../storage/logins.ts'

/**
 * Returns the status of a login for callers.
 *
 * @param sandboxed true if the phone is the simulated one
 */
export async function toLoginStatus(login: StoredLogin, sandboxed: boolean): Promise<LoginStatus> {
  const { bot_id, code, notice, problem, qr, session } = login
  // After digits are sent, still asking for them would mean that they are wrong. That is unknown until
  // WeChat answers.
  const digitsSent = login.status === 'need_verifycode' && code !== undefined
  const status = digitsSent ? 'scaned' : login.status
  const text = problem ?? (notice && noticeTexts[notice]) ?? statusTexts[status]
  const message =
    status === 'already_bound' && sandboxed
      ? `${text} ${anotherPersonText}`
      : digitsSent
        ? codeSentText
        : text
  const code_shown = qr && { qr_url: qr.qrUrl, qr_text: await drawQr(qr.qrUrl) }
  return withoutUndefined({ status, session, ...code_shown, bot_id, notice, message })
}

const statusTexts: Record<LoginState, string> = {
  waiting: 'Scan the QR code with WeChat on the phone, then call login again with the same session_name.',
  scaned: 'Scanned. Confirm on the phone, then call login again with the same session_name.',
  need_verifycode: 'The phone shows a number. Call login again with it as verify_code.',
  verify_code_blocked: 'Too many wrong numbers. Call login to start again with a new QR code.',
  expired: 'The QR code expired. Call login to start again with a new one.',
  already_bound: 'The scanned account is connected here already, under another session; nothing was changed.',
  confirmed: 'Connected. Let the user write to the bot first, then call recv to read it.',
}

const renewed = 'The QR code was renewed. Scan this one with WeChat on the phone, then call login again.'

const noticeTexts: Record<LoginNotice, string> = {
  already_connected: 'This session is connected. Pass force to log it in again with a new QR code.',
  wrong_code: 'The number was wrong. Call login again with the one the phone shows now.',
  renewed,
  renewed_after_wrong_codes: renewed,
  called_off: 'The login was called off. Call login to start again.',
  failed: 'The login could not be finished; the log has the details. Call login to start again.',
}

/** Returns the status for a connected session, for which no login was started. */
export const alreadyConnectedStatus = (session: string, bot_id: string): LoginStatus => ({
  status: 'confirmed',
  session,
  bot_id,
  notice: 'already_connected',
  message: noticeTexts.already_connected,
})

const codeSentText =
  'The number was sent. Call login again with the same session_name, to learn whether it was right.'

const anotherPersonText =
  'In the sandbox: press Add under People on the phone, call login again, and scan as that person.'

/** The package is loaded on first use: most processes never draw a code. */
async function drawQr(content: string): Promise<string> {
  const { toString: draw } = await import('qrcode')
  return draw(content, { type: 'utf8', errorCorrectionLevel: 'L' })
}
