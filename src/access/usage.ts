/**
 * What callers with a key have used of its limits: calls per second, long polls and streams, bytes. Each process counts
 * its own in memory. Where several processes share the store, each knows what the others have used, a second late.
 */
import type { Grant, KeyLimits } from '../model/access.ts'
import { SvcError } from '../model/error.ts'
import type { Principal } from '../model/principal.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import type { KeyUse } from '../storage/keys.ts'

const dayMs = 24 * 60 * 60_000

const nothing: Omit<KeyUse, 'key'> = { calls: 0, open: 0, bytes: 0, dayAgeMs: 0 }

export class KeyUsage {
  readonly #limits: KeyLimits
  readonly #clock: Clock
  /** Calls that may be made at `#countedAt`; it grows to the limit within a second. */
  #calls: number
  #countedAt: number
  #open = 0
  #bytes = 0
  #dayBeganAt: number
  /** Calls since `#reportedAt`, those too that were refused. */
  #asked = 0
  #reportedAt: number
  /** What was last reported, what other processes know of that, and what they reported. */
  #own = nothing
  #known = nothing
  #others = nothing

  constructor(limits: KeyLimits, clock: Clock = systemClock) {
    this.#limits = limits
    this.#clock = clock
    this.#calls = limits.calls_per_second ?? 0
    this.#countedAt = clock.monotonic()
    this.#reportedAt = this.#countedAt
    this.#dayBeganAt = this.#countedAt
  }

  /** Counts a call. @returns the error for a call that exceeds the rate */
  countCall(): SvcError | undefined {
    const { calls_per_second: limit } = this.#limits
    this.#asked++
    if (limit === undefined) return undefined
    const now = this.#clock.monotonic()
    const rate = this.#shareOf(limit)
    this.#calls = Math.min(Math.max(1, rate), this.#calls + ((now - this.#countedAt) / 1000) * rate)
    this.#countedAt = now
    if (this.#calls < 1)
      return new SvcError('rate_limited', `This key may make ${limit} calls per second`, {
        retryAfter: (1 - this.#calls) / rate,
        hint: 'Repeat the call after the time in retry_after.',
      })
    this.#calls--
    return undefined
  }

  /** What the others leave of the rate. If all together ask for more than that, each gets its part of it. */
  #shareOf(limit: number): number {
    const others = this.#others.calls
    const own = Math.max(1, this.#own.calls)
    return others === 0 ? limit : Math.max(limit - others, (limit * own) / (own + others))
  }

  /** Counts a long poll or stream until the returned function is called. @throws SvcError `rate_limited` */
  beginWait(): () => void {
    const most = this.#limits.open
    if (most !== undefined && this.#open + this.#others.open >= most)
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
    this.#followDay(now)
    if (this.#bytes + this.#others.bytes + count > most)
      throw new SvcError('rate_limited', `This key may transfer ${most} bytes per day`, {
        retryAfter: Math.ceil((this.#dayBeganAt + dayMs - now) / 1000),
        hint: 'Repeat the call after the time in retry_after.',
      })
  }

  #followDay(now: number): void {
    if (now - this.#dayBeganAt < dayMs) return
    this.#dayBeganAt = now
    this.#bytes = 0
    this.#others = { ...this.#others, bytes: 0 }
  }

  /** Says in the headers of an answer how many calls are left. */
  describeIn(headers: Headers): void {
    const { calls_per_second: rate } = this.#limits
    if (rate === undefined) return
    const left = Math.floor(this.#calls)
    headers.append('ratelimit-policy', `"key";q=${rate};w=1`)
    headers.append('ratelimit', `"key";r=${left};t=1`)
  }

  /** Returns what was used, for other processes; undefined if nobody uses the key and they know that. */
  report(): Omit<KeyUse, 'key'> | undefined {
    const now = this.#clock.monotonic()
    this.#followDay(now)
    const seconds = Math.max(0.001, (now - this.#reportedAt) / 1000)
    const dayAgeMs = Math.round(now - this.#dayBeganAt)
    this.#own = { calls: this.#asked / seconds, open: this.#open, bytes: this.#bytes, dayAgeMs }
    this.#asked = 0
    this.#reportedAt = now
    const isInUse = [this.#own, this.#known, this.#others].some(({ calls, open }) => calls > 0 || open > 0)
    return isInUse || this.#bytes !== this.#known.bytes ? this.#own : undefined
  }

  /** Takes what other processes reported, who know the last report now. The day of all begins with the first of them. */
  noteOthers(others: Omit<KeyUse, 'key'> = nothing): void {
    this.#known = this.#own
    this.#others = others
    this.#dayBeganAt = Math.min(this.#dayBeganAt, this.#clock.monotonic() - others.dayAgeMs)
  }
}

/** By grant: the programs with a key, and the people who signed in with it, share its limits. */
const usages = new WeakMap<Grant, KeyUsage>()

/** Returns what the callers with the key of a principal have used; undefined without limits. */
export function usageOf(by: Pick<Principal, 'grant'> | undefined): KeyUsage | undefined {
  if (by?.grant?.limits === undefined) return undefined
  const usage = usages.get(by.grant) ?? new KeyUsage(by.grant.limits)
  usages.set(by.grant, usage)
  return usage
}
