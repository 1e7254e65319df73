/** Notices to a user during a turn: that it takes long, and that a further message waits. Each is sent at most once. */
import type { StoredTurn } from '../index.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import { followSignal } from '../platform/signals.ts'
import { type AnswerDelivery, keyOf } from './delivery.ts'

/** After this time without a message to the user, in milliseconds. */
const slowMs = 60_000
/** A message that waits for less than this time gets no notice, in milliseconds. */
const behindMs = 15_000

const lookEveryMs = 1000

/**
 * slow: it still works. behind: a message waits behind it. asking: a message waits, and so does a question of the agent.
 * starting: its program does not answer yet.
 */
export type TurnNotice = 'slow' | 'behind' | 'asking' | 'starting'

/** The notices that are not needed any more after one. */
const included: Readonly<Record<TurnNotice, readonly TurnNotice[]>> = {
  slow: [],
  starting: [],
  behind: ['slow'],
  asking: ['behind'],
}

export class TurnNotices {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #beganAt: number
  /** Since when the user has heard nothing. */
  #quietSince: number
  /** Since when a message waits about which the user got no notice. */
  #waitingSince: number | undefined
  readonly #sent = new Set<TurnNotice>()
  /** Questions that are open. */
  #asking = 0
  #isStarting = false

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
    this.#beganAt = clock.monotonic()
    this.#quietSince = this.#beganAt
  }

  get minutes(): number {
    return Math.round((this.#clock.monotonic() - this.#beganAt) / 60_000)
  }

  /** A message waits behind the turn. */
  noteWaiting(): void {
    this.#waitingSince ??= this.#clock.monotonic()
  }

  /** The program of the agent does not answer yet. */
  noteStarting(): void {
    this.#isStarting = true
  }

  /** While a question is open, the user knows why nothing comes, but not what becomes of a further message. */
  async whileAsking<T>(answer: Promise<T>): Promise<T> {
    this.#asking += 1
    try {
      return await answer
    } finally {
      this.#asking -= 1
      this.#quietSince = this.#clock.monotonic()
    }
  }

  /** Returns the notice that is due now in a turn. It counts as sent. */
  take({ source }: Pick<StoredTurn, 'source'>): TurnNotice | undefined {
    const now = this.#clock.monotonic()
    if (this.#asking > 0) return this.#waitingSince === undefined ? undefined : this.#takeOnce('asking')
    if (source !== 'message') return undefined
    if (this.#isStarting && !this.#sent.has('starting')) return this.#takeOnce('starting')
    if (now - (this.#waitingSince ?? now) >= behindMs) return this.#takeOnce('behind')
    return now - this.#quietSince >= slowMs ? this.#takeOnce('slow') : undefined
  }

  #takeOnce(notice: TurnNotice): TurnNotice | undefined {
    this.#waitingSince = undefined
    if (this.#sent.has(notice)) return undefined
    for (const one of [notice, ...included[notice]]) this.#sent.add(one)
    return notice
  }
}

/** Tells the user of a turn what `notices` say, if answers are left. Ends with the returned object. */
export function tellMeanwhile(
  turn: StoredTurn,
  notices: TurnNotices,
  { clock, delivery, log }: { clock: Clock; delivery: Pick<AnswerDelivery, 'hasRoom' | 'tell'>; log: Log },
  signal: AbortSignal,
): AsyncDisposable {
  const ended = new AbortController()
  const unlink = followSignal(signal, ended)
  const tell = async () => {
    for (; !ended.signal.aborted; await clock.sleep(lookEveryMs, ended.signal)) {
      const notice = notices.take(turn)
      if (notice && (await delivery.hasRoom(turn)))
        await delivery.tell(turn, texts => texts[notice](notices.minutes), `${keyOf(turn)}:${notice}`)
    }
  }
  const told = tell().catch(error => log.warn('user of an agent not told', { turn: turn.id, error }))
  return {
    [Symbol.asyncDispose]: async () => {
      ended.abort()
      unlink()
      await told
    },
  }
}
