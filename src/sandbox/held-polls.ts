/**
 * Counts how many polls of one bot are held at once, for tests.
 *
 * A client that leaves one poll and begins another does nothing wrong, but the two things travel on two connections and
 * may be heard of in the other order, milliseconds apart. So an older poll counts beside a newer one once it is answered,
 * or when it is still there after a moment.
 */
import type { Core } from './core.ts'

/** A client that has left is heard of within this. */
const leavingMs = 200
/** A process that stood still reads what came meanwhile before this is over. */
const listenMs = 50

interface Held {
  /** The most that were held during its life. */
  most: number
}

export class HeldPolls {
  readonly #core: Core
  readonly #held = new Map<string, Set<Held>>()

  constructor(core: Core) {
    this.#core = core
  }

  /** A poll begins. @returns to be told when it ends: with an answer, or since its client left */
  begin(botId: string): (how: 'answered' | 'left') => void {
    const held = this.#held.get(botId) ?? new Set<Held>()
    this.#held.set(botId, held)
    const older = [...held]
    const own: Held = { most: 1 }
    held.add(own)
    for (const one of older) one.most = Math.max(one.most, held.size)
    this.#core.stats.polls_now++
    this.#note(botId, 1)
    if (older.length > 0) void this.#later(() => older.filter(one => held.has(one)).length + 1, botId)
    return how => {
      this.#core.stats.polls_now--
      held.delete(own)
      if (held.size === 0 && this.#held.get(botId) === held) this.#held.delete(botId)
      if (how === 'answered') this.#note(botId, own.most)
    }
  }

  async #later(count: () => number, botId: string): Promise<void> {
    const { clock, closing } = this.#core
    await clock.sleep(leavingMs, closing)
    await clock.sleep(listenMs, closing)
    if (!closing.aborted) this.#note(botId, count())
  }

  #note(botId: string, atOnce: number): void {
    const { polls_at_once } = this.#core.stats
    polls_at_once[botId] = Math.max(polls_at_once[botId] ?? 0, atOnce)
  }
}
