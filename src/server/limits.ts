/** The limits of callers, at the doors: what ends with a key, and what counts for it (`access/usage.ts`). */
import { usageOf } from '../access/usage.ts'
import type { Principal } from '../model/principal.ts'
import { followSignal, waitForAbort } from '../platform/signals.ts'
import { streamOnDemand } from '../platform/streams.ts'
import { toProblemResponse } from './errors.ts'
import { openCallsOf } from './open-calls.ts'

/**
 * Answers a call if its caller may have one more open, and if it is within the rate of its key. The headers say what is
 * left of the rate.
 *
 * @param address returns the address of the caller
 */
export function answerWithinLimits(
  by: Principal,
  address: () => string | undefined,
  answer: () => Response | Promise<Response>,
): Response | Promise<Response> {
  const calls = openCallsOf(by, address)
  if (calls.error) return toProblemResponse(calls.error, { connection: 'close' })
  return answerWithinRate(by, () => calls.answer(answer))
}

function answerWithinRate(
  by: Principal,
  answer: () => Response | Promise<Response>,
): Response | Promise<Response> {
  const usage = usageOf(by)
  if (!usage) return answer()
  const error = usage.countCall()
  const describe = (response: Response) => {
    usage.describeIn(response.headers)
    return response
  }
  if (error) return describe(toProblemResponse(error))
  const response = answer()
  return response instanceof Promise ? response.then(describe) : describe(response)
}

/** Counts a stream of a caller until the returned function is called. @throws SvcError `rate_limited` */
export function beginStream(by: Principal): () => void {
  const endWait = usageOf(by)?.beginWait()
  const release = openCallsOf(by).hold()
  return () => {
    endWait?.()
    release()
  }
}

/**
 * Returns an answer whose body ends when the key of its caller ends, and counts for that key. That of a caller without
 * key or token counts for the address.
 *
 * @throws SvcError `rate_limited` if the body exceeds what the key may transfer
 */
export async function bindToCaller(
  answer: Response,
  by: Principal,
  address?: () => string | undefined,
): Promise<Response> {
  const { body, headers, status } = answer
  if ((by.grant === undefined && by.kind !== 'open') || !body) return answer
  const usage = usageOf(by)
  const reader = body.getReader()
  try {
    usage?.admitBytes(Number(headers.get('content-length') ?? 1))
  } catch (error) {
    await reader.cancel(error)
    throw error
  }
  const stop = new AbortController()
  const unfollow = by.ended && followSignal(by.ended, stop)
  const release = openCallsOf(by, address).hold()
  const end = () => {
    unfollow?.()
    release()
  }
  const stopped = waitForAbort(stop.signal).then(() => {
    throw stop.signal.reason
  })
  // The key may end before anything is read.
  stopped.catch(() => {})
  const bound = streamOnDemand({
    async pull(controller) {
      try {
        // In a race, bytes that are there already would win.
        stop.signal.throwIfAborted()
        const { done, value } = await Promise.race([reader.read(), stopped])
        usage?.countBytes(value?.length ?? 0)
        if (!done) return controller.enqueue(value)
        end()
        controller.close()
      } catch (error) {
        end()
        controller.error(error)
        reader.cancel(error).catch(() => {})
      }
    },
    cancel(reason) {
      end()
      return reader.cancel(reason)
    },
  })
  return new Response(bound, { status, headers })
}
