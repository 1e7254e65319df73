/** The limits of keys, at the doors: what ends with a key, and what counts for it (`access/usage.ts`). */
import { usageOf } from '../access/usage.ts'
import type { SvcError } from '../model/error.ts'
import type { Principal } from '../model/principal.ts'
import { followSignal, waitForAbort } from '../platform/signals.ts'

/** Answers a call if it is within the rate of its key. The headers say what is left. */
export function answerWithinRate(
  by: Principal,
  answer: () => Response | Promise<Response>,
  reject: (error: SvcError) => Response,
): Response | Promise<Response> {
  const usage = usageOf(by)
  if (!usage) return answer()
  const error = usage.countCall()
  const describe = (response: Response) => {
    usage.describeIn(response.headers)
    return response
  }
  if (error) return describe(reject(error))
  const response = answer()
  return response instanceof Promise ? response.then(describe) : describe(response)
}

/**
 * Returns an answer whose body ends when the key of its caller ends, and counts for that key.
 *
 * @throws SvcError `rate_limited` if the body exceeds what the key may transfer
 */
export async function bindToKey(answer: Response, by: Principal): Promise<Response> {
  const { body, headers, status } = answer
  if (!by.ended || by.grant === undefined || !body) return answer
  const usage = usageOf(by)
  const reader = body.getReader()
  try {
    usage?.admitBytes(Number(headers.get('content-length') ?? 1))
  } catch (error) {
    await reader.cancel(error)
    throw error
  }
  const stop = new AbortController()
  const unfollow = followSignal(by.ended, stop)
  const stopped = waitForAbort(stop.signal).then(() => {
    throw stop.signal.reason
  })
  // The key may end before anything is read.
  stopped.catch(() => {})
  const bound = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          // In a race, bytes that are there already would win.
          stop.signal.throwIfAborted()
          const { done, value } = await Promise.race([reader.read(), stopped])
          usage?.countBytes(value?.length ?? 0)
          if (!done) return controller.enqueue(value)
          unfollow()
          controller.close()
        } catch (error) {
          unfollow()
          controller.error(error)
          reader.cancel(error).catch(() => {})
        }
      },
      cancel(reason) {
        unfollow()
        return reader.cancel(reason)
      },
    },
    { highWaterMark: 0 },
  )
  return new Response(bound, { status, headers })
}
