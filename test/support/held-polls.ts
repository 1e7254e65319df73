/**
 * Counts how many polls of one bot are held at once.
 *
 * A client that leaves one poll and begins another does nothing wrong, but the two things travel on two connections and
 * may be heard of in the other order, milliseconds apart. So an older poll counts beside a newer one once it is answered,
 * or when it is still there after a moment.
 */
import type { Clock } from '../../src/platform/clock.ts'
import type { Between } from '../../src/sandbox/core.ts'

/** A client that has left is heard of within this. */
const leavingMs = 200
/** A process that stood still reads what came meanwhile before this is over. */
const listenMs = 50

interface Held {
  /** The most that were held during its life. */
  most: number
}

export class HeldPolls {
  /** The most so far, by bot. */
  readonly atOnce: Record<string, number> = {}
  readonly #clock: Clock
  readonly #held = new Map<string, Set<Held>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The same, with its polls counted. */
  readonly around =
    (between: Between): Between =>
    (asked, honest) =>
      between(asked, async () => {
        const end = asked.endpoint === 'getupdates' && asked.bot ? this.#begin(asked.bot) : undefined
        const answer = await honest()
        end?.(answer ? 'answered' : 'left')
        return answer
      })

  /** A poll begins. @returns to be told when it ends: with an answer, or since its client left */
  #begin(bot: string): (how: 'answered' | 'left') => void {
    const held = this.#held.get(bot) ?? new Set<Held>()
    this.#held.set(bot, held)
    const older = [...held]
    const own: Held = { most: 1 }
    held.add(own)
    for (const one of older) one.most = Math.max(one.most, held.size)
    this.#note(bot, 1)
    if (older.length > 0) void this.#later(() => older.filter(one => held.has(one)).length + 1, bot)
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
