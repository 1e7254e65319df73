/** A receiver of webhooks: where it may be, and delivery of one event: a POST that is signed, and what its answer means. */
import { badArgument, isSvcError, SvcError } from '../model/error.ts'
import { addPrivate, type WebhookFailure } from '../model/webhook.ts'
import { isReachableAddress } from '../platform/address.ts'
import { systemClock } from '../platform/clock.ts'
import { Poster, TimedOut } from '../platform/post.ts'
import { checkedAddresses } from '../platform/public-fetch.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { Webhook } from '../storage/webhooks.ts'
import { retryAfterOf, verdictOf } from './schedule.ts'
import { signed } from './signature.ts'

/** A receiver has so long to answer. */
const answerMs = 20_000
/** So much of an answer is read where it may be a reply. */
const answerBytes = 128 * 1024

/** What became of one try. */
export interface Tried {
  status?: number
  retryAfterMs?: number
  /** What went wrong. */
  detail?: string
  code?: WebhookFailure
  /** The answer, where it may be a reply. */
  text?: string
}

/** Connections to it. */
export const posterTo = ({ url, allow_private }: Pick<Webhook, 'url' | 'allow_private'>): Poster =>
  new Poster(url, { allowPrivate: allow_private, timeoutMs: answerMs })

/** Delivers one event now. Never rejects but with the signal's reason. */
export async function deliver(
  poster: Poster,
  { headers, replies, secrets }: Pick<Webhook, 'headers' | 'replies' | 'secrets'>,
  { id, body }: { id: string; body: string },
  signal: AbortSignal,
): Promise<Tried> {
  // Not the sandbox's, which its phone moves: the receiver compares it with a clock of its own.
  const now = systemClock.now()
  try {
    const { status, retryAfter, text } = await poster.post(
      {
        'user-agent': 'svc',
        ...headers,
        'content-type': 'application/json',
        ...signed(id, body, secrets, now),
      },
      body,
      signal,
      replies ? answerBytes : 0,
    )
    if (verdictOf(status).done) return { status, text }
    return { status, text, ...failureOf(status), retryAfterMs: retryAfterOf(retryAfter, now) }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof TimedOut) return { detail: error.message, code: 'timeout' }
    const code = isSvcError(error, 'forbidden') ? 'forbidden' : 'unreachable'
    return { detail: isSvcError(error) ? error.message : reasonOf(error), code }
  }
}

const failureOf = (status: number): Pick<Tried, 'detail' | 'code'> =>
  status >= 300 && status < 400
    ? { detail: `HTTP ${status}: redirects are not followed`, code: 'redirect' }
    : { detail: `HTTP ${status}`, code: 'http_status' }

/** The text of `{"reply": {"text": …}}`. */
export function replyOf(answer: string): string | undefined {
  try {
    const text: unknown = JSON.parse(answer)?.reply?.text
    return typeof text === 'string' && text !== '' ? text : undefined
  } catch {
    return undefined
  }
}

/** The address as it is kept. @throws SvcError `invalid_arguments`, `forbidden` */
export async function checkedUrl(text: string, allowPrivate: boolean): Promise<string> {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
    throw badArgument('url', 'expected an http or https address')
  if (url.username || url.password)
    throw badArgument('url', 'carries a user name or password', {
      hint: 'Give it as a header: Authorization.',
    })
  url.hash = ''
  try {
    const check = allowPrivate ? { mayReach: isReachableAddress } : {}
    await checkedAddresses(url, check, AbortSignal.timeout(10_000))
  } catch (error) {
    // A name that cannot be looked up now may be known later.
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
