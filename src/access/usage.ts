/**
 * What the callers of a key, and of the keys that it made, have used of its limits: calls per second, long polls and
 * streams, bytes. Each process counts its own calls in memory. The nodes of a database report their counts to each
 * other every second.
 */
import type { Grant, KeyLimits } from '../model/access.ts'
import { SvcError } from '../model/error.ts'
import type { Principal } from '../model/principal.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import { formatCount } from '../platform/format.ts'
import type { KeyUse } from '../storage/keys.ts'

const dayMs = 24 * 60 * 60_000

const below = ', with the keys that it made,'

const nothing: Omit<KeyUse, 'key'> = { calls: 0, open: 0, bytes: 0, dayAgeMs: 0 }

/** What is left of each limit. */
type Left = { -readonly [limit in keyof KeyLimits]: number }

export class KeyUsage {
  readonly #limits: KeyLimits
  readonly #clock: Clock
  /** This key, the key that made it, and so on. Each counts what the keys that it made use. */
  readonly #chain: readonly KeyUsage[]
  /** Calls that were left at `#countedAt`. It fills up to the limit within a second. */
  #calls: number
  #countedAt: number
  #open = 0
  #bytes = 0
  #dayBeganAt: number
  /** Calls since the last report, including those that were rejected, and the time of that report. */
  readonly #asked: { calls: number; since: number }
  /** `own`: our last report. `known`: our report before it. `others`: the sum of other processes. */
  readonly #shared = { own: nothing, known: nothing, others: nothing }

  /** @param above the usage of the key that made this one */
  constructor(limits: KeyLimits, clock: Clock = systemClock, above?: KeyUsage) {
    this.#limits = limits
    this.#clock = clock
    this.#chain = [this, ...(above ? above.#chain : [])]
    this.#calls = limits.calls_per_second ?? 0
    this.#countedAt = clock.monotonic()
    this.#asked = { calls: 0, since: this.#countedAt }
    this.#dayBeganAt = this.#countedAt
  }

  /** Counts a call. @returns the error for a call that exceeds the rate */
  countCall(): SvcError | undefined {
    const errors = this.#chain.flatMap(usage => usage.#askForCall() ?? [])
    // Reports the longest wait: after a shorter one, the call would be rejected again.
    if (errors.length > 0) return errors.toSorted((a, b) => b.retryAfter! - a.retryAfter!)[0]
    for (const usage of this.#chain) usage.#calls--
    return undefined
  }

  #askForCall(): SvcError | undefined {
    const { calls_per_second: limit } = this.#limits
    this.#asked.calls++
    if (limit === undefined) return undefined
    const rate = this.#refill(limit)
    if (this.#calls >= 1) return undefined
    return new SvcError('rate_limited', `This key${below} may make ${formatCount(limit, 'call')} a second`, {
      retryAfter: (1 - this.#calls) / rate,
      hint: 'Repeat the call after the time in retry_after.',
    })
  }

  /** @returns the rate at which calls become possible */
  #refill(limit: number): number {
    const now = this.#clock.monotonic()
    const rate = this.#shareOf(limit)
    this.#calls = Math.min(Math.max(1, rate), this.#calls + ((now - this.#countedAt) / 1000) * rate)
    this.#countedAt = now
    return rate
  }

  /**
   * Returns the rate that the other processes leave. If all together ask for more than the limit, each gets its
   * share.
   */
  #shareOf(limit: number): number {
    const others = this.#shared.others.calls
    const own = Math.max(1, this.#shared.own.calls)
    return others === 0 ? limit : Math.max(limit - others, (limit * own) / (own + others))
  }

  /** Counts a long poll or stream until the returned function is called. @throws SvcError `rate_limited` */
  beginWait(): () => void {
    for (const usage of this.#chain) usage.#admitWait()
    for (const usage of this.#chain) usage.#open++
    let isOver = false
    return () => {
      if (!isOver) for (const usage of this.#chain) usage.#open--
      isOver = true
    }
  }

  #admitWait(): void {
    const most = this.#limits.open
    if (most !== undefined && this.#open + this.#shared.others.open >= most)
      throw new SvcError(
        'rate_limited',
        `This key${below} may have ${formatCount(most, 'long poll or stream', 'long polls and streams')} at a time`,
        { retryAfter: 1, hint: 'End one of them first.' },
      )
  }

  /** Counts bytes of an upload or of media. @throws SvcError `rate_limited` */
  countBytes(count: number): void {
    this.admitBytes(count)
    for (const usage of this.#chain) usage.#bytes += count
  }

  /** Checks whether `count` more bytes are within the limit. @throws SvcError `rate_limited` if not */
  admitBytes(count: number): void {
    for (const usage of this.#chain) usage.#admitBytes(count)
  }

  #admitBytes(count: number): void {
    const { bytes_per_day: most } = this.#limits
    if (most === undefined) return
    const now = this.#clock.monotonic()
    this.#followDay(now)
    if (this.#bytes + this.#shared.others.bytes + count > most)
      throw new SvcError('rate_limited', `This key${below} may transfer ${most} bytes per day`, {
        retryAfter: Math.ceil((this.#dayBeganAt + dayMs - now) / 1000),
        hint: 'Repeat the call after the time in retry_after.',
      })
  }

  #followDay(now: number): void {
    if (now - this.#dayBeganAt < dayMs) return
    this.#dayBeganAt = now
    this.#bytes = 0
    this.#shared.others = { ...this.#shared.others, bytes: 0 }
  }

  /** What is left of the limits of this key alone. */
  #left(): Left {
    const { calls_per_second: rate, open, bytes_per_day: bytes } = this.#limits
    this.#followDay(this.#clock.monotonic())
    if (rate !== undefined) this.#refill(rate)
    return {
      ...(rate !== undefined && { calls_per_second: Math.floor(this.#calls) }),
      ...(open !== undefined && { open: Math.max(0, open - this.#open - this.#shared.others.open) }),
      ...(bytes !== undefined && {
        bytes_per_day: Math.max(0, bytes - this.#bytes - this.#shared.others.bytes),
      }),
    }
  }

  /** What is left of each limit of this key, and of the keys above it that share theirs. */
  left(): Left {
    const least: Left = {}
    for (const usage of this.#chain)
      for (const [limit, left] of Object.entries(usage.#left()) as [keyof Left, number][])
        least[limit] = Math.min(least[limit] ?? left, left)
    return least
  }

  /** Says in the headers of an answer how many calls are left. */
  describeIn(headers: Headers): void {
    const limited = this.#chain.filter(usage => usage.#limits.calls_per_second !== undefined)
    if (limited.length === 0) return
    const rate = Math.min(...limited.map(usage => usage.#limits.calls_per_second!))
    const left = Math.floor(Math.min(...limited.map(usage => usage.#calls)))
    headers.append('ratelimit-policy', `"key";q=${rate};w=1`)
    headers.append('ratelimit', `"key";r=${left};t=1`)
  }

  /** Returns our usage for the other processes; undefined if the key is not in use and they know that already. */
  report(): Omit<KeyUse, 'key'> | undefined {
    const now = this.#clock.monotonic()
    this.#followDay(now)
    const seconds = Math.max(0.001, (now - this.#asked.since) / 1000)
    const dayAgeMs = Math.round(now - this.#dayBeganAt)
    const own = { calls: this.#asked.calls / seconds, open: this.#open, bytes: this.#bytes, dayAgeMs }
    Object.assign(this.#asked, { calls: 0, since: now })
    this.#shared.own = own
    const isInUse = Object.values(this.#shared).some(({ calls, open }) => calls > 0 || open > 0)
    return isInUse || own.bytes !== this.#shared.known.bytes ? own : undefined
  }

  /** Stores the usage of the other processes. The shared day starts at the earliest start among all processes. */
  noteOthers(others: Omit<KeyUse, 'key'> = nothing): void {
    this.#shared.known = this.#shared.own
    this.#shared.others = others
    this.#dayBeganAt = Math.min(this.#dayBeganAt, this.#clock.monotonic() - others.dayAgeMs)
  }
}

/** By grant: programs that use the key, and people who signed in with it, share its limits. */
const usages = new WeakMap<Grant, KeyUsage>()

/** By the grant of a key that another key made: the grant of the topmost key above it. */
const tops = new WeakMap<Grant, Grant>()

/** Returns the grant of the topmost key above a grant. Callers with the same one count together. */
export const topOf = (grant: Grant): Grant => tops.get(grant) ?? grant

/** Notes the grant of a key. Its callers count for the keys above it too. @param maker the grant of its maker */
export function linkGrant(grant: Grant, maker: Grant | undefined): void {
  if (maker) tops.set(grant, topOf(maker))
  const above = maker && usageOf({ grant: maker })
  if (above) usages.set(grant, new KeyUsage(grant.limits ?? {}, systemClock, above))
}

/** Notes that a grant was replaced. What was used with the old one counts for the new one. */
export function replaceGrant(before: Grant, grant: Grant): void {
  tops.set(grant, topOf(before))
  const usage = usages.get(before)
  if (usage) usages.set(grant, usage)
}

/** Returns what the callers with the key of a principal have used; undefined without limits. */
export function usageOf(by: Pick<Principal, 'grant'> | undefined): KeyUsage | undefined {
  if (!by?.grant) return undefined
  const known = usages.get(by.grant)
  if (known || by.grant.limits === undefined) return known
  const usage = new KeyUsage(by.grant.limits)
  usages.set(by.grant, usage)
  return usage
}
