/** Limits of keys: calls per second, long polls and streams, bytes. Counted in memory, in each process. */
import type { Grant, KeyLimits } from '../model/access.ts'
import { SvcError } from '../model/error.ts'
import type { Principal } from '../model/principal.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import { followSignal, waitForAbort } from '../platform/signals.ts'

const dayMs = 24 * 60 * 60_000

/** What the callers with one key have used of its limits. */
export class KeyUsage {
  readonly #limits: KeyLimits
  readonly #clock: Clock
  /** Calls that may be made at `#countedAt`; it grows to the limit within a second. */
  #calls: number
  #countedAt: number
  #open = 0
  #bytes = 0
  #dayBeganAt: number

  constructor(limits: KeyLimits, clock: Clock = systemClock) {
    this.#limits = limits
    this.#clock = clock
    this.#calls = limits.calls_per_second ?? 0
    this.#countedAt = clock.monotonic()
    this.#dayBeganAt = this.#countedAt
  }

  /** Counts a call. @returns the error for a call that exceeds the rate */
  countCall(): SvcError | undefined {
    const { calls_per_second: rate } = this.#limits
    if (rate === undefined) return undefined
    const now = this.#clock.monotonic()
    this.#calls = Math.min(rate, this.#calls + ((now - this.#countedAt) / 1000) * rate)
    this.#countedAt = now
    if (this.#calls < 1)
      return new SvcError('rate_limited', `This key may make ${rate} calls per second`, {
        retryAfter: (1 - this.#calls) / rate,
        hint: 'Repeat the call after the time in retry_after.',
      })
    this.#calls--
    return undefined
  }

  /** Counts a long poll or stream until the returned function is called. @throws SvcError `rate_limited` */
  beginWait(): () => void {
    const most = this.#limits.open
    if (most !== undefined && this.#open >= most)
      throw new SvcError('rate_limited', `This key may have ${most} long polls and streams at a time`, {
        retryAfter: 1,
        hint: 'End one of them first.',
      })
    this.#open++
    let isOver = false
    return () => {
      if (!isOver) this.#open--
      isOver = true
    }
  }

  /** Counts bytes of an upload or of media. @throws SvcError `rate_limited` */
  countBytes(count: number): void {
    this.admitBytes(count)
    this.#bytes += count
  }

  /** Checks whether `count` more bytes are within the limit. @throws SvcError `rate_limited` if not */
  admitBytes(count: number): void {
    const { bytes_per_day: most } = this.#limits
    if (most === undefined) return
    const now = this.#clock.monotonic()
    if (now - this.#dayBeganAt >= dayMs) {
      this.#dayBeganAt = now
      this.#bytes = 0
    }
    if (this.#bytes + count > most)
      throw new SvcError('rate_limited', `This key may transfer ${most} bytes per day`, {
        retryAfter: Math.ceil((this.#dayBeganAt + dayMs - now) / 1000),
        hint: 'Repeat the call after the time in retry_after.',
      })
  }

  /** Says in the headers of an answer how many calls are left. */
  describeIn(headers: Headers): void {
    const { calls_per_second: rate } = this.#limits
    if (rate === undefined) return
    const left = Math.floor(this.#calls)
    headers.append('ratelimit-policy', `"key";q=${rate};w=1`)
    headers.append('ratelimit', `"key";r=${left};t=1`)
  }
}

/** By grant: the programs with a key, and the people who signed in with it, share its limits. */
const usages = new WeakMap<Grant, KeyUsage>()

/** Returns what the callers with the key of a principal have used; undefined without limits. */
export function usageOf(by: Principal | undefined): KeyUsage | undefined {
  if (by?.grant?.limits === undefined) return undefined
  const usage = usages.get(by.grant) ?? new KeyUsage(by.grant.limits)
  usages.set(by.grant, usage)
  return usage
}

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
