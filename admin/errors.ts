/**
 * Errors of the API in the viewer's language. Known codes have our own texts; for the rest the detail is
 * shown.
 */
import type { NameProblem } from '../src/model/session.ts'
import { ApiError, type Session } from './api.ts'
import { isEnglish, isolated, type TextKey, t } from './i18n.ts'
import { status } from './live.ts'
import { rightName } from './rights.ts'
import { left } from './times.ts'

const codes: Readonly<Record<string, TextKey>> = {
  unreachable: 'error.unreachable',
  interrupted: 'error.interrupted',
  unauthorized: 'error.unauthorized',
  session_exists: 'error.session_exists',
  session_not_found: 'error.session_not_found',
  not_connected: 'error.not_connected',
  window_closed: 'error.window_closed',
  quota_exhausted: 'error.quota_exhausted',
  session_expired: 'error.session_expired',
  rate_limited: 'error.rate_limited',
  payload_too_large: 'error.payload_too_large',
  media_expired: 'error.media_expired',
  upstream_error: 'error.upstream_error',
  upstream_timeout: 'error.upstream_timeout',
  store_unavailable: 'error.store_unavailable',
  shutting_down: 'error.shutting_down',
}

/** Codes whose message from the service says more than our text. English readers get that message. */
const roughly: Readonly<Record<string, TextKey>> = {
  text_too_long: 'error.text_too_long',
  forbidden: 'error.forbidden',
  not_found: 'error.not_found',
  message_not_found: 'error.not_found',
  no_media: 'error.no_media',
  internal: 'error.internal',
}

const keyOf = (code: string): TextKey | undefined => codes[code] ?? (isEnglish() ? undefined : roughly[code])

/** Why an account cannot have this name. */
const names: Readonly<Record<NameProblem, TextKey>> = {
  too_long: 'sessions.name_too_long',
  dot: 'sessions.name_dot',
  characters: 'sessions.name_characters',
  reserved: 'sessions.name_reserved',
}

/** What is wrong with a person's input, by the argument that holds it. */
const inputErrors: Readonly<Record<string, TextKey>> = {
  url: 'webhooks.url_bad',
  headers: 'webhooks.headers_rejected',
  from: 'webhooks.replay_gone',
  media: 'error.file_bad',
  can: 'access.rights_bad',
  users: 'access.users_bad',
  agent: 'invite.agent_bad',
  time_zone: 'topics.zone_bad',
}

/** Returns why a name was rejected; '' for other errors. */
export function nameReason(error: unknown): string {
  const why = error instanceof ApiError ? error.details.session_name : undefined
  return why === undefined ? '' : t(names[why])
}

/**
 * Returns why a call was rejected, for readers of other languages. Mistakes that no person can make at the
 * panel keep the service's own words.
 */
function rejectionText({ details: { errors = [], most }, message }: ApiError): string {
  if (most !== undefined) return t('webhooks.most', { most })
  const [field = ''] = /^\w+/.exec(errors[0]?.field ?? '') ?? []
  return inputErrors[field] ? t(inputErrors[field]) : message
}

const waitOf = (seconds = 0): string => (seconds < 60 ? t('chat.seconds', { seconds }) : left(seconds * 1000))

/**
 * Returns the texts to show for an error. `hint` is the service's advice in English if we have no text of
 * our own.
 */
export function errorText(error: unknown): { title: string; hint: string } {
  if (!(error instanceof ApiError)) return { title: t('error.unexpected'), hint: String(error) }
  const { right } = error.details
  if (right !== undefined) return { title: t('error.no_right', { right: rightName(right) }), hint: '' }
  if (error.details.why === 'no_key') return { title: t('invite.no_key'), hint: '' }
  const isPace = error.details.why === 'pace'
  const key = isPace ? 'error.pace' : keyOf(error.code)
  const inSandbox = isPace && status.value?.sandbox_phone !== undefined
  if (key)
    return {
      title: t(key, { time: waitOf(error.retryAfter) }),
      hint: inSandbox ? t('error.pace_sandbox') : '',
    }
  return isEnglish()
    ? { title: error.message, hint: error.hint }
    : { title: t('error.rejected'), hint: nameReason(error) || rejectionText(error) }
}

/** Our text for an error code; '' if only the service's words explain it. */
export function whyOf(code: string): string {
  const key = keyOf(code)
  return key ? t(key, { time: waitOf() }) : ''
}

/** Returns why the polls of an account fail, with the words of WeChat or the system; '' while they work. */
export function pollProblem({
  poll_error,
  poll_error_code: code = '',
  poll_error_quote: words,
}: Session): string {
  if (poll_error === undefined) return ''
  // For English readers the service's own words say more.
  const error = isEnglish() ? '' : code === 'upstream_error' ? t('overview.poll_upstream') : whyOf(code)
  if (error === '') return t('overview.silent_error', { error: isolated(poll_error) })
  return words === undefined
    ? t('overview.silent_error', { error })
    : t('overview.silent_error_said', { error, words: isolated(words) })
}

const deliveries: Readonly<Record<string, TextKey>> = {
  redirect: 'webhooks.why_redirect',
  timeout: 'webhooks.why_timeout',
  forbidden: 'webhooks.why_forbidden',
  unreachable: 'webhooks.why_unreachable',
  reply_not_sent: 'webhooks.why_reply',
  gone: 'webhooks.why_gone',
  given_up: 'webhooks.why_given_up',
}

/**
 * Returns why a delivery failed or an endpoint is off. English readers, and unknown codes, get the
 * service's own words.
 */
export function deliveryProblem(code = '', words = ''): string {
  const key = isEnglish() ? undefined : deliveries[code]
  return key ? t(key) : isolated(words)
}

/** Whether a message may have been sent, because no answer came. @param code of its error */
export const isDoubtfulCode = (code = ''): boolean => code === 'unreachable' || code === 'interrupted'

/** Codes whose text of ours says the same as the service's own words. */
const alike = new Set(['rate_limited', 'quota_exhausted'])

/**
 * Returns the service's own words about a failed send. If the reader does not read English, or the panel's
 * text says the same, returns only the words of WeChat.
 */
export const ownWords = (code: string, reason: string, quote = ''): string =>
  isEnglish() && !alike.has(code) ? reason : quote && t('delivery.said', { words: quote })
