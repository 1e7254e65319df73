/**
 * Predicts what queued sends wait for, without changing anything. The store checks again when they begin.
 */
import type { Waiting } from '../model/message.ts'
import type { BotInfo } from '../model/session.ts'
import type { OutboxLane, StoredEntry, WaitingLane } from '../storage/outbox.ts'
import type { Store } from '../storage/store.ts'
import { botOf, type SendPorts } from './delivery-attempt.ts'

/** A longer pause was set by a clock that has been set back since; it is ignored. */
const maxPauseMs = 10 * 60_000

/**
 * Returns for each of these entries of mode `queue` what it waits for; an empty object for an ended one.
 * `now` is in Unix ms.
 */
export async function explainWaits(
  { rules, state, store }: Pick<SendPorts, 'rules' | 'state'> & { store: Pick<Store, 'outbox'> },
  entries: readonly StoredEntry[],
  now: number,
): Promise<Waiting[]> {
  const ids = entries.flatMap(({ parts }) => parts.find(({ status }) => status === 'queued')?.lane ?? [])
  const { lanes } = await store.outbox.listWaiting(rules, { ids: [...new Set(ids)] })
  const bots = new Map<string, BotInfo | undefined>()
  for (const { session } of lanes) if (!bots.has(session)) bots.set(session, await botOf(state, session))
  const known = new Map(lanes.map(lane => [lane.id, lane]))
  return entries.map(({ asked, parts, send_at }): Waiting => {
    if (asked) return { waits_for: 'approval' }
    if (send_at !== undefined) return { waits_for: 'time', not_before: send_at }
    const next = parts.find(({ status }) => status === 'queued')
    const lane = next && known.get(next.lane)
    if (!lane) return {}
    return bots.get(lane.session) ? explainWait(lane, next.slot, now) : { waits_for: 'login' }
  })
}

/** @param own the slot that the message already has */
function explainWait(lane: WaitingLane, own: number | undefined, now: number): Waiting {
  const { busy, not_before, verdict } = lane
  if (verdict.go === 'no') {
    if (verdict.why === 'window' || verdict.why === 'quota') return { waits_for: 'user' }
    const waits_for = verdict.why === 'pace' ? 'pace' : verdict.why === 'held' ? 'refusal' : 'user'
    return { waits_for, not_before: Math.ceil(now + verdict.waitMs) }
  }
  const slot = verdict.slot && (own ?? verdict.slot)
  if (slot !== undefined && slot > now) return { waits_for: 'pace', not_before: Math.ceil(slot) }
  if (isPaused(lane, now)) return { waits_for: 'retry', not_before }
  return busy ? { waits_for: 'busy' } : {}
}

/** Returns whether a lane pauses after a connection or upload error. */
export const isPaused = ({ not_before }: OutboxLane, now: number): boolean =>
  not_before > now && not_before - now <= maxPauseMs
