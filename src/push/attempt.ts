/**
 * One delivery attempt to a webhook receiver: checks its URL, posts a signed event and interprets the
 * answer.
 */
import { Buffer } from 'node:buffer'
import { badArgument, isSvcError, SvcError } from '../model/error.ts'
import { addPrivate, type WebhookFailure } from '../model/webhook.ts'
import { isReachableAddress } from '../platform/address.ts'
import { systemClock } from '../platform/clock.ts'
import { parseFields } from '../platform/fields.ts'
import { errorCodeOf } from '../platform/files.ts'
import { Poster, TimedOut } from '../platform/post.ts'
import { checkAddresses } from '../platform/public-fetch.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { Webhook } from '../storage/webhooks.ts'
import { meaningOf, retryAfterOf } from './schedule.ts'
import { createSignatureHeaders } from './signature.ts'

/** Time limit for the receiver's answer. */
const answerTimeoutMs = 20_000
/** Maximum bytes to read of an answer that may contain a reply. */
const maxReplyAnswerBytes = 128 * 1024
/** Bytes to keep of an answer, and to read of it: a secret that lies across the first limit is still found. */
const excerptBytes = 2048
const glanceBytes = 8192

/** Result of one delivery attempt. A delivery that succeeded has no `detail`. */
export interface WebhookAttemptResult {
  /** HTTP status, if there was an answer. */
  status?: number
  /** The receiver's `Retry-After`, in ms. */
  retryAfterMs?: number
  /** Error message for people. */
  detail?: string
  code?: WebhookFailure
  /** True if nothing was sent, because nobody took the connection. */
  notSent?: boolean
  /** The body of the answer, if it may contain a reply. */
  text?: string
  /** The beginning of the answer, as from `excerptOf`. */
  answer?: string | undefined
}

/** Creates the HTTP client for one receiver; it keeps connections open. */
export const createPoster = ({
  url,
  allow_private,
  subscription,
}: Pick<Webhook, 'url' | 'allow_private' | 'subscription'>): Poster =>
  new Poster(url, {
    timeoutMs: answerTimeoutMs,
    allowPrivate: allow_private,
    ...(subscription?.ca && { ca: subscription.ca }),
  })

/**
 * Posts one event now. Delivery errors are in the result.
 *
 * @throws only the signal's reason
 */
export async function postEvent(
  poster: Poster,
  webhook: Pick<Webhook, 'headers' | 'replies' | 'secrets'>,
  { id, body }: { id: string; body: string },
  signal: AbortSignal,
): Promise<WebhookAttemptResult> {
  const { headers, replies, secrets } = webhook
  // Not the sandbox's clock, which its phone can change: the receiver compares the time with its own clock.
  const now = systemClock.now()
  try {
    const { status, retryAfter, text } = await poster.post(
      {
        'user-agent': 'svc',
        ...headers,
        'content-type': 'application/json',
        ...createSignatureHeaders(id, body, secrets, now),
      },
      body,
      signal,
      replies ? maxReplyAnswerBytes : 0,
      glanceBytes,
    )
    const answer = excerptOf(text, webhook)
    if (meaningOf(status).done) return { status, answer, ...(replies && { text }) }
    return { status, answer, ...httpFailureOf(status), retryAfterMs: retryAfterOf(retryAfter, now) }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof TimedOut) return { detail: error.message, code: 'timeout' }
    const code = isSvcError(error, 'forbidden') ? 'forbidden' : 'unreachable'
    const notSent = unconnected.has(errorCodeOf(error) ?? '')
    return { detail: isSvcError(error) ? error.message : reasonOf(error), code, notSent }
  }
}

/** Codes of errors that come before the first byte is sent. */
const unconnected: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
])

const httpFailureOf = (status: number): Pick<WebhookAttemptResult, 'detail' | 'code'> =>
  status >= 300 && status < 400
    ? { detail: `HTTP ${status}: redirects are not followed`, code: 'redirect' }
    : { detail: `HTTP ${status}`, code: 'http_status' }

/**
 * Returns the beginning of an answer: without control characters, and without what the endpoint's headers and secrets
 * contain, in case the receiver repeats them. Undefined for an empty answer.
 */
export function excerptOf(
  answer: string | undefined,
  { headers, secrets }: Pick<Webhook, 'headers' | 'secrets'>,
): string | undefined {
  const values = [...Object.values(headers), ...secrets.map(({ secret }) => secret)]
  const hidden = values.flatMap(value => {
    // The name of a scheme, as in "Bearer abc", is no secret.
    const bare = value.replace(/^\w+ +/, '')
    return [value, bare, ...bare.split(/[\s;,]+/), ...bare.split(/[\s;,]+\w+=|^\w+=/)]
  })
  let text =
    answer
      ?.slice(0, glanceBytes)
      .replace(/\r\n?/g, '\n')
      .replace(/[^\P{Cc}\t\n]/gu, '') ?? ''
  for (const word of [...new Set(hidden)].sort((one, other) => other.length - one.length)) {
    const inJson = JSON.stringify(word).slice(1, -1)
    const forms = [word, inJson, inJson.replaceAll('/', '\\/'), encodeURIComponent(word)]
    if (word.length >= minHiddenLength) for (const form of forms) text = text.replaceAll(form, '***')
  }
  // What is left of a character that the limit splits stays in the decoder.
  const bytes = Buffer.from(text).subarray(0, excerptBytes)
  return new TextDecoder().decode(bytes, { stream: true }) || undefined
}
/** Shorter values occur in any text. */
const minHiddenLength = 4

/** Returns the text of `{"reply": {"text": …}}`, or why the answer cannot be read; neither for an answer without a reply. */
export function replyOf(answer: string): { text?: string; problem?: string } {
  const json = answer.replace(/^\ufeff/, '').trimStart()
  if (!json.startsWith('{'))
    return answer.includes('\ufffd') ? { problem: 'the answer is compressed, or not in UTF-8' } : {}
  const fields = parseFields(json)
  if (!fields) return { problem: 'the answer is not JSON, or longer than 128 KiB' }
  const text = (fields.reply as { text?: unknown } | null | undefined)?.text
  if (fields.reply === undefined || fields.reply === null || text === '') return {}
  return typeof text === 'string' ? { text } : { problem: 'reply.text is not a text' }
}

/**
 * Checks a receiver's URL. Returns it in the form that is stored.
 *
 * @throws SvcError `invalid_arguments`, `forbidden`
 */
export async function checkUrl(text: string, allowPrivate: boolean): Promise<string> {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
    throw badArgument('url', 'expected an http or https URL')
  if (url.username || url.password)
    throw badArgument('url', 'contains a user name or password', {
      hint: 'Send them in a header: Authorization.',
    })
  url.hash = ''
  try {
    const check = allowPrivate ? { mayReach: isReachableAddress } : {}
    await checkAddresses(url, check, AbortSignal.timeout(10_000))
  } catch (error) {
    // A host name that DNS does not resolve now may resolve later.
    if (!isSvcError(error, 'forbidden')) return url.href
    throw new SvcError(
      'forbidden',
      `${url.hostname} does not lead to ${allowPrivate ? 'an address that may be reached' : 'a public address'}`,
      allowPrivate
        ? { hint: 'Link-local addresses and metadata services are never reached.' }
        : { hint: 'Is the receiver in your own network?', next: addPrivate },
    )
  }
  return url.href
}
