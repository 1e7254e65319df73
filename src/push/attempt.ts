/** Delivery of one event: a POST that is signed, and what its answer means. */
import { isSvcError } from '../model/error.ts'
import { systemClock } from '../platform/clock.ts'
import { type Poster, TimedOut } from '../platform/post.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { Webhook } from '../storage/webhooks.ts'
import { retryAfterOf, verdictOf } from './schedule.ts'
import { signed } from './signature.ts'

/** A receiver has so long to answer. */
export const answerMs = 20_000
/** So much of an answer is read where it may be a reply. */
const answerBytes = 128 * 1024

/** What became of one try. */
export interface Tried {
  status?: number
  retryAfterMs?: number
  /** What went wrong. */
  detail?: string
  /** The answer, where it may be a reply. */
  text?: string
}

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
    const retryAfterMs = retryAfterOf(retryAfter, now)
    const verdict = verdictOf(status)
    return {
      status,
      ...(!verdict.done && { detail: detailOf(status) }),
      ...(!verdict.done && retryAfterMs !== undefined && { retryAfterMs }),
      ...(text !== undefined && { text }),
    }
  } catch (error) {
    signal.throwIfAborted()
    return { detail: error instanceof TimedOut || isSvcError(error) ? error.message : reasonOf(error) }
  }
}

const detailOf = (status: number) =>
  status >= 300 && status < 400 ? `HTTP ${status}: redirects are not followed` : `HTTP ${status}`

/** The text of `{"reply": {"text": …}}`. */
export function replyOf(answer: string): string | undefined {
  try {
    const text: unknown = JSON.parse(answer)?.reply?.text
    return typeof text === 'string' && text !== '' ? text : undefined
  } catch {
    return undefined
  }
}
