/**
 * What ends a call of send, or lets it wait for a person, without sending it; decided from facts alone. `../outbox.ts` has
 * the rules of each.
 */
import type { SendRules } from '../../model/admission.ts'
import type { Counter } from '../../model/session.ts'
import {
  type ApproveResult,
  approvalReasonOf,
  type EditedText,
  type EndedEntry,
  type EndReason,
  type EntryPart,
  type ExpiryReasons,
  type KeptFile,
  type SendMode,
  type StoredEntry,
  stoppedBeforeSend,
  stoppedDuringSend,
  timeReasonOf,
} from '../outbox.ts'
import { filesOf, keyLifeMs, openStatuses, queueLifeMs } from '../outbox-limits.ts'
import { type AheadFacts, checkAdmission } from './admission.ts'
import type { EntryFacts, LaneFacts, OutboxPlan, SlotFacts } from './outbox-plan.ts'

/** Ends the waiting parts; parts that are being sent continue. @returns the ended parts */
export function endWaiting<L extends LaneFacts>(
  { entry, lane }: EntryFacts<L>,
  reason: EndReason,
  plan: OutboxPlan<L>,
): EntryPart[] {
  const waiting = entry.parts.filter(({ status }) => status === 'queued' || status === 'asked')
  for (const part of waiting) {
    plan.changeRow(part.message, 'refused', reason)
    plan.giveBack(lane, part.slot)
    plan.changePart(part, { status: 'refused', error: reason, message_id: undefined })
  }
  return waiting
}

/**
 * Lets an entry that waits for its user wait for a person's approval, until `until` (Unix ms) or its own end. Parts that
 * are being sent continue.
 */
export function askAgain<L extends LaneFacts>(
  { entry, lane }: EntryFacts<L>,
  until: number,
  plan: OutboxPlan<L>,
): void {
  if (lane) plan.relyOn(lane)
  const expires_at = entry.send_at === undefined ? Math.min(entry.expires_at, until) : until
  plan.changeEntry(entry, { asked: 'queue', approved_by: undefined, expires_at })
  for (const part of entry.parts.filter(({ status }) => status === 'queued' || status === 'asked')) {
    plan.giveBack(lane, part.slot)
    plan.changePart(part, { status: 'asked', slot: undefined })
    plan.changeRow(part.message, 'queued', approvalReasonOf(part.file))
  }
}

/**
 * Ends an entry of which nothing waits. Removes it, unless it answers for a key or was queued and may be looked up.
 *
 * @param counter of the user's answers
 * @returns its current state, which what is decided next does not change
 */
export function close<L extends LaneFacts>(
  { entry, lane }: EntryFacts<L>,
  plan: OutboxPlan<L>,
  counter: Counter | undefined = lane?.counter,
): StoredEntry {
  if (entry.ended || entry.parts.some(({ status }) => openStatuses.has(status)))
    return { ...entry, parts: entry.parts.map(part => ({ ...part })) }
  const { id, keyed, mode, parts } = entry
  const sentNothing = parts.every(({ status }) => status === 'refused')
  if (mode === 'fail' && (!keyed || sentNothing)) plan.removed.push(id)
  else {
    const has_content = parts.some(({ file, raw, text }) => file || raw !== '' || text !== '')
    const { used = 0, received_at } = counter ?? {}
    plan.ended.push({ id, at: plan.now, used, received_at, has_content })
  }
  return { ...entry, ended: true, counter }
}

export function end<L extends LaneFacts>(
  found: EntryFacts<L>,
  reason: EndReason,
  { only, by }: { only?: SendMode; by?: string },
  plan: OutboxPlan<L>,
): EndedEntry | undefined {
  const { entry } = found
  if (only !== undefined && (entry.mode !== only || entry.ended)) return undefined
  const ended = endWaiting(found, reason, plan)
  if (by !== undefined && ended.length > 0) plan.changeEntry(entry, { ended_by: by })
  return { entry: close(found, plan), ended: ended.length, files: filesOf(ended) }
}

/**
 * Marks the given parts in flight unknown. If the caller is gone, marks all parts in flight and refuses the waiting ones.
 *
 * @param lost ids of parts that will not be settled
 * @returns how many of these parts became unknown
 */
export function endOrphan<L extends LaneFacts>(
  found: EntryFacts<L>,
  { lost, isOver }: { lost: readonly number[]; isOver: boolean },
  plan: OutboxPlan<L>,
): number {
  const { entry } = found
  if (entry.ended) return 0
  const parts = entry.parts.filter(({ id, status }) => status === 'sending' && (isOver || lost.includes(id)))
  for (const part of parts) {
    plan.changeRow(part.message, 'unknown', stoppedDuringSend)
    plan.changePart(part, { status: 'unknown', error: stoppedDuringSend, message_id: undefined })
  }
  if (isOver) endWaiting(found, stoppedBeforeSend, plan)
  close(found, plan)
  return parts.filter(({ id }) => lost.includes(id)).length
}

/** Why the rows of an entry's messages wait outside its lane; undefined if they do not. */
export const holdReasonOf = (
  { asked, send_at }: Pick<StoredEntry, 'asked' | 'send_at'>,
  file?: KeptFile,
): EndReason | undefined =>
  asked ? approvalReasonOf(file) : send_at === undefined ? undefined : timeReasonOf(send_at)

/** What becomes of an entry at its `expires_at`: one that waits for its time is let go, any other ends. */
export function expire<L extends LaneFacts>(
  found: EntryFacts<L>,
  reasons: ExpiryReasons | undefined,
  plan: OutboxPlan<L>,
): EndedEntry | undefined {
  const { asked, expires_at, send_at } = found.entry
  // Another process may have seen to it.
  if (expires_at > plan.now) return undefined
  if (asked || send_at === undefined)
    return reasons && end(found, asked ? reasons.unasked : reasons.late, { only: 'queue' }, plan)
  letGo(found, send_at, plan)
  return { entry: close(found, plan), ended: 0, files: [], isLetGo: true }
}

/** Lets an entry whose time has come wait in its lane. */
function letGo<L extends LaneFacts>(
  { entry, lane }: EntryFacts<L>,
  sendAt: number,
  plan: OutboxPlan<L>,
): void {
  if (lane) plan.relyOn(lane)
  plan.changeEntry(entry, { send_at: undefined, expires_at: sendAt + queueLifeMs })
  for (const part of entry.parts.filter(({ status }) => status === 'asked')) {
    plan.changePart(part, { status: 'queued' })
    plan.changeRow(part.message, 'queued')
  }
}

/** Whether an entry waits for an approval. */
export const isAsked = ({ asked, expires_at }: StoredEntry, now: number): boolean =>
  asked !== undefined && expires_at > now

/** @returns undefined if it does not wait for an approval, or none of its texts does that is edited */
export function approve<L extends LaneFacts>(
  { entry, lane, slots, ahead }: EntryFacts<L> & { slots: SlotFacts; ahead: AheadFacts },
  { rules, by, edited }: { rules: SendRules; by: string; edited?: EditedText | undefined },
  plan: OutboxPlan<L>,
): ApproveResult | undefined {
  const { asked } = entry
  if (!lane || !isAsked(entry, plan.now)) return undefined
  const waiting = entry.parts.filter(({ status }) => status === 'asked')
  const rewritten = edited && waiting.find(({ kind }) => kind === 'text')
  if (edited && !rewritten) return undefined
  const verdict = checkAdmission(lane, { slots, ahead, now: plan.now }, waiting.length, rules)
  if (asked === 'fail' && verdict.go === 'no') return { state: 'closed', verdict }
  plan.relyOn(lane)
  const send_at = entry.send_at !== undefined && entry.send_at > plan.now ? entry.send_at : undefined
  const waitsFrom = entry.send_at ?? entry.created_at
  const expires_at = send_at ?? (asked === 'queue' ? waitsFrom + queueLifeMs : entry.expires_at)
  plan.changeEntry(entry, { asked: undefined, send_at, expires_at, approved_by: by })
  for (const part of waiting) {
    const text = part === rewritten ? edited : undefined
    plan.changePart(part, { status: send_at === undefined ? 'queued' : 'asked', ...text })
    plan.changeRow(part.message, 'queued', holdReasonOf(entry), text && { ...text, is_new_text: true })
  }
  return { state: 'approved', lane: lane.id }
}

/** An entry with a key, as far as it is asked whether it still answers. */
export interface KeyFacts {
  mode: SendMode
  created_at: number
  expires_at: number
  ended_at?: number
  /** The process in which its caller waits is known to be dead. */
  isDead: boolean
}

/** A call that nobody ends. */
export const isCallOver = ({ mode, ended_at, expires_at, isDead }: KeyFacts, now: number): boolean =>
  mode === 'fail' && ended_at === undefined && (isDead || expires_at <= now)

/** A key is free a day after its call; in mode `fail`, a day after the call's end. */
export function isKeyFree({ mode, created_at, ended_at }: KeyFacts, now: number): boolean {
  const called = mode === 'fail' ? ended_at : created_at
  return called !== undefined && now - called >= keyLifeMs
}
