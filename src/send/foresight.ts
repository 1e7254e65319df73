/** Whether messages may go, asked ahead: nothing is taken, nothing is written. The store asks again as it begins them. */
import { admit, nobody, type SendRules } from '../model/admission.ts'
import type { Waiting } from '../model/message.ts'
import { type BotInfo, countNow, rightToAnswer } from '../model/session.ts'
import { turns } from '../platform/clock.ts'
import type { Runtime } from '../platform/runtime.ts'
import type { Entry, Lane, WaitingLane } from '../storage/outbox.ts'
import { botOf, type SendPorts, termsOf } from './delivery-attempt.ts'

/** A pause longer than this was set by a clock that has been set back since. */
const longestPauseMs = 10 * 60_000

export class Foresight {
  /** Sessions in which some found no slot at the last look: those that come free are given out by looks alone. */
  readonly crowded = new Set<string>()
  readonly #ports: SendPorts
  readonly #runtime: Runtime

  constructor(ports: SendPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
  }

  /** What is left of the right to answer a user. */
  async right(session: string, user: string): Promise<ReturnType<typeof rightToAnswer>> {
    const { context } = await termsOf(this.#ports, session, user)
    const counters = await this.#ports.store.outbox.counters(session, user)
    const now = this.#runtime.clock.now()
    return rightToAnswer(countNow(context, counters.get(user), now), now)
  }

  /**
   * Tells whether what waits in a lane may go now, as of the facts that came with it. Ask it about the lanes one after the
   * other, in their order: no more may go of a session than there are slots.
   */
  judge(): (lane: WaitingLane) => Promise<boolean> {
    const { clock } = this.#runtime
    const { rules, state } = this.#ports
    const bots = new Map<string, BotInfo | undefined>()
    const taken = new Map<string, number>()
    const turn = turns(clock)
    return async lane => {
      const { counter, hold, session, slot, user } = lane
      await turn()
      const now = clock.now()
      if (isPaused(lane, now)) return false
      if (!bots.has(session)) bots.set(session, await botOf(state, session))
      if (!bots.get(session)) return false
      const { context } = await termsOf(this.#ports, session, user)
      const { received_at: receivedAt, used } = countNow(context, counter, now)
      const slots = { ...lane.slots, last: taken.get(session) ?? lane.slots.last }
      const verdict = admit({ now, receivedAt, used, ahead: nobody, hold, slots, slot }, 1, rules)
      if (verdict.go === 'no') {
        if (verdict.why === 'pace' && isFull(slots.last, now, rules)) this.crowded.add(session)
        return false
      }
      if (slot === undefined && verdict.slot !== undefined) taken.set(session, verdict.slot)
      return true
    }
  }

  /** What holds an entry of mode `queue` back. */
  async waiting({ asked, session, user, parts }: Entry): Promise<Waiting> {
    const { state, store } = this.#ports
    if (asked) return { waits_for: 'approval' }
    const next = parts.find(({ status }) => status === 'queued')
    if (!next) return {}
    if (!(await botOf(state, session))) return { waits_for: 'login' }
    const terms = await termsOf(this.#ports, session, user)
    const verdict = await store.outbox.verdict(session, user, 1, terms)
    const lane = await store.outbox.lane(next.lane)
    const now = this.#runtime.clock.now()
    if (verdict.go === 'no') {
      if (verdict.why === 'window' || verdict.why === 'quota') return { waits_for: 'user' }
      const waits_for = verdict.why === 'pace' ? 'pace' : verdict.why === 'held' ? 'refusal' : 'user'
      return { waits_for, not_before: Math.ceil(now + verdict.waitMs) }
    }
    // The slot that it has, as long as there is a pace; the verdict is of a message behind it.
    const slot = verdict.slot && (next.slot ?? verdict.slot)
    if (slot !== undefined && slot > now) return { waits_for: 'pace', not_before: Math.ceil(slot) }
    if (lane && isPaused(lane, now)) return { waits_for: 'retry', not_before: lane.not_before }
    return lane?.busy ? { waits_for: 'busy' } : {}
  }
}

/** Whether what waits in a lane is not to be tried yet, after trouble on the way. */
export const isPaused = ({ not_before }: Lane, now: number): boolean =>
  not_before > now && not_before - now <= longestPauseMs

/** Whether a session has no slot to give that is near enough. */
const isFull = (last = 0, now: number, { pace, patienceMs }: SendRules): boolean =>
  pace !== 'off' && last + 1000 / pace.perSecond - now > patienceMs
