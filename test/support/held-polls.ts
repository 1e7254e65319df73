/**
 * Counts how many polls of one bot are held at the same time.
 *
 * A client may leave one poll and begin another, but on two connections the server may notice both in the
 * other order, milliseconds apart. So an older poll counts beside a newer one only when it is answered, or
 * if it is still there after a moment.
 */
import type { Clock } from '../../src/platform/clock.ts'
import type { RequestInterceptor } from '../../src/sandbox/core.ts'

/** Time within which the server notices that a client has left. */
const leavingMs = 200
/** Time after which a process that was suspended has read what arrived. */
const listenMs = 50

interface Held {
  /** Largest number of polls held during this poll's life. */
  most: number
}

export class HeldPolls {
  /** The most polls that were held at the same time so far, by bot. */
  readonly atOnce: Record<string, number> = {}
  readonly #clock: Clock
  readonly #held = new Map<string, Set<Held>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Wraps an interceptor so that polls are counted. */
  readonly around =
    (between: RequestInterceptor): RequestInterceptor =>
    (request, honest) =>
      between(request, async () => {
        const end = request.endpoint === 'getupdates' && request.bot ? this.#begin(request.bot) : undefined
        const answer = await honest()
        end?.(answer ? 'answered' : 'left')
        return answer
      })

  /**
   * Records the start of a poll.
   *
   * @returns call it when the poll ends: with an answer, or because its client left
   */
  #begin(bot: string): (how: 'answered' | 'left') => void {
    const held = this.#held.get(bot) ?? new Set<Held>()
    this.#held.set(bot, held)
    const older = [...held]
    const own: Held = { most: 1 }
    held.add(own)
    for (const poll of older) poll.most = Math.max(poll.most, held.size)
    this.#note(bot, 1)
    if (older.length > 0) void this.#later(() => older.filter(poll => held.has(poll)).length + 1, bot)
    return how => {
      held.delete(own)
      if (how === 'answered') this.#note(bot, own.most)
    }
  }

  async #later(count: () => number, bot: string): Promise<void> {
    await this.#clock.sleep(leavingMs)
    await this.#clock.sleep(listenMs)
    this.#note(bot, count())
  }

  #note(bot: string, atOnce: number): void {
    this.atOnce[bot] = Math.max(this.atOnce[bot] ?? 0, atOnce)
  }
}
