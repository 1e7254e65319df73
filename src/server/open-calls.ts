/**
 * The calls that each caller has open, at all doors of the process: from the moment the caller is known until the
 * answer, or until the end of a stream. Whatever one caller opens at once, the calls of others are answered:
 * - In a round of the event loop, a few calls of each caller begin. Its other calls wait for the next rounds.
 *   Otherwise hundreds that come together would all begin before anybody else's call goes on.
 * - A call beyond the bound of its caller is rejected, with its connection, before its body is read.
 *
 * A key counts together with the keys that it made; callers without a key or token count by their address.
 */
import { topOf } from '../access/usage.ts'
import { SvcError } from '../model/error.ts'
import type { Principal } from '../model/principal.ts'
import { ownBounds, type SharedRoom } from '../model/shares.ts'
import { networkOf } from '../platform/address.ts'
import { formatCount } from '../platform/format.ts'
import { RoomPart } from '../platform/runtime.ts'

/**
 * Calls of one caller that begin in a round, and after a round that took longer. Most calls cost the main thread 0.1 to
 * 3 ms, a few of MCP 8 ms; another call goes on once a round.
 */
const [startsPerRound, startsAfterLongRound, longRoundMs] = [8, 2, 15]
/** The bound of a key, besides the long polls and streams of `--max-open`, and of an address. */
const maxOpen = ownBounds.openCalls
/** The bound of the owner, whose programs may have a waiting call for each of some thousand accounts. */
const maxOpenOfOwner = 10_000

/** The open calls of one caller. */
class OpenCalls extends RoomPart<{
  most: number
  /** Called when there is nothing to remember. */
  onIdle?(): void
}> {
  readonly #waiting: (() => void)[] = []
  #open = 0
  /** Calls that have begun in this round. Not 0 until a round in which none begins. */
  #starts = 0
  #maxStarts = startsPerRound
  #roundBeganAt = 0

  /** Returns the error for one more call, if it exceeds the bound. */
  get error(): SvcError | undefined {
    if (this.#open < this.ports.most) return undefined
    return new SvcError('rate_limited', `this caller may have ${formatCount(this.ports.most, 'open call')}`, {
      retryAfter: 1,
      hint: 'End one of them first, or wait for its answer. For a key with more streams: --max-open.',
    })
  }

  /** Counts a call until the returned function is called. */
  hold(): () => void {
    this.#open++
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      this.#open--
      this.#noteIdle()
    }
  }

  #noteIdle(): void {
    if (this.#open === 0 && this.#starts === 0) this.ports.onIdle?.()
  }

  /** Answers a call when it is its turn. */
  answer(answer: () => Response | Promise<Response>): Response | Promise<Response> {
    if (this.#starts >= this.#maxStarts) {
      const release = this.hold()
      const turn = new Promise<void>(resolve => this.#waiting.push(resolve))
      return turn.then(answer).finally(release)
    }
    if (this.#starts === 0) this.#beginRound(startsPerRound)
    this.#starts++
    const answered = answer()
    return answered instanceof Promise ? answered.finally(this.hold()) : answered
  }

  #beginRound(maxStarts: number): void {
    this.#maxStarts = maxStarts
    this.#roundBeganAt = performance.now()
    setImmediate(this.#endRound)
  }

  readonly #endRound = (): void => {
    const isLong = performance.now() - this.#roundBeganAt > longRoundMs
    const most = isLong ? startsAfterLongRound : startsPerRound
    const next = this.#waiting.splice(0, most)
    this.#starts = next.length
    if (next.length > 0) this.#beginRound(most)
    for (const begin of next) begin()
    this.#noteIdle()
  }
}

/** By the topmost grant, else the principal; both live as long as their callers are known. */
const ofCallers = new WeakMap<object, OpenCalls>()
const ofAddresses = new Map<string, OpenCalls>()

/** Returns what a caller is counted by. @param address called for callers who are known by nothing else */
export const countedBy = (by: Principal, address?: () => string | undefined): object | string =>
  by.kind === 'open' ? networkOf(address?.() ?? '') : by.grant ? topOf(by.grant) : by

/** Whether a caller is the owner, who may take the rest of a shared bound. */
export const isOwner = (by: Principal): boolean => by.kind !== 'open' && !by.grant

/**
 * Takes a place of a shared bound. The owner's programs count by their networks: one that forgets what it opened leaves room.
 *
 * @returns a function that gives it back; undefined without a place for this caller
 */
export function takePlace(room: SharedRoom, by: Principal, address: string): (() => void) | undefined {
  const caller = isOwner(by) ? networkOf(address) : countedBy(by, () => address)
  let isTaken = room.take(caller, 1)
  if (!isTaken) return undefined
  return () => {
    if (isTaken) room.giveBack(caller, 1)
    isTaken = false
  }
}

/** Returns the open calls of a caller. @param address as for `countedBy` */
export function openCallsOf(by: Principal, address?: () => string | undefined): OpenCalls {
  const key = countedBy(by, address)
  if (typeof key === 'string') {
    const known =
      ofAddresses.get(key) ?? new OpenCalls({ most: maxOpen, onIdle: () => ofAddresses.delete(key) })
    ofAddresses.set(key, known)
    return known
  }
  const known = ofCallers.get(key)
  if (known) return known
  const open = by.grant && topOf(by.grant).limits?.open
  const calls = new OpenCalls({ most: by.grant ? maxOpen + (open ?? 0) : maxOpenOfOwner })
  ofCallers.set(key, calls)
  return calls
}
