/**
 * What happens to calls of send and to their messages, decided from facts alone: no database, no clock. `../outbox.ts` has
 * the rules of each.
 *
 * Decisions that add rows return their result as a function: call it when the plan is written and the rows have their ids.
 */
import { isDue, noneAhead, type SendRules, type Verdict } from '../../model/admission.ts'
import type { Counter } from '../../model/session.ts'
import type { SentMessage } from '../messages.ts'
import {
  approvalReasonOf,
  type BeginResult,
  type BegunMessage,
  type EnqueueResult,
  type EntryPart,
  type NewEntry,
  type SendMode,
  type Settlement,
  type SettleResult,
  type StoredEntry,
} from '../outbox.ts'
import {
  askLifeMs,
  begunOf,
  expiryOf,
  filesOf,
  isHeldBack,
  laneLeaseMs,
  partId,
  rejectTooMany,
  rejectTooManyAsked,
  sentByOf,
  sumOf,
  type WaitingFacts,
} from '../outbox-limits.ts'
import { type AheadFacts, checkAdmission, judge } from './admission.ts'
import { askAgain, close, endWaiting, holdReasonOf } from './outbox-ends.ts'
import type { EntryFacts, LaneFacts, OutboxPlan, SlotFacts } from './outbox-plan.ts'

export interface EnqueueFacts<L extends LaneFacts> extends WaitingFacts {
  lane: L
  slots: SlotFacts
  ahead: AheadFacts
}

interface Enqueue {
  entry: NewEntry
  /** Who stands behind it, as `makerOf` of `nouns/keys.ts` has it. */
  maker: string
  /** Its id, or 0: the engine gives it, and the ids of the parts, when it writes them. */
  id: number
  rules: SendRules
  first?: SentMessage | undefined
  /** This process. */
  owner: string
}

/** @throws SvcError `quota_exhausted` */
export function enqueue<L extends LaneFacts>(
  facts: EnqueueFacts<L>,
  call: Enqueue,
  plan: OutboxPlan<L>,
): () => Exclude<EnqueueResult, { state: 'known' }> {
  const { ahead, lane, slots } = facts
  const { entry, first, maker, rules } = call
  const { mode, parts } = entry
  const isHeld = isHeldBack(entry)
  const behind = mode === 'queue' ? sumOf(facts.unsent) : 0
  if (mode === 'queue') rejectTooMany(facts, maker, parts.length)
  if (isHeld) rejectTooManyAsked(facts, maker)
  const verdict: Verdict | 'behind' =
    behind > 0 ? 'behind' : checkAdmission(lane, { slots, ahead, now: plan.now }, parts.length, rules)
  if (mode === 'fail' && verdict !== 'behind' && verdict.go === 'no')
    return () => ({ state: 'closed', verdict })
  plan.relyOn(lane)
  // Others must not add such a send at the same time.
  if (isHeld) plan.relyOnSession(lane)
  const begins = first !== undefined && verdict !== 'behind' && verdict.go === 'now'
  const slot = begins ? verdict.slot : undefined
  if (slot !== undefined) plan.takeSlot(lane, slot, rules)
  const counter = begins ? plan.countAnswer(lane) : undefined
  const stored = insert(lane, call, begins ? { message: first, slot } : undefined, plan)
  // For the calls of the same lane that are decided next.
  const waiting = stored.parts.filter(({ status }) => status === 'queued').length
  if (mode === 'queue') facts.unsent.push({ made_by: maker, count: waiting })
  else ahead.push(...Array.from({ length: waiting }, () => true))
  const result = { state: 'new' as const, entry: stored, lane: lane.id, verdict }
  if (!counter) return () => result
  const { token } = lane
  return () => {
    const own = stored.parts.slice(0, 1)
    const row = own[0]!.message!
    return { ...result, begun: begunOf({ id: lane.id, hold: lane.hold, token }, own, { row, counter, slot }) }
  }
}

/** @param begun its first message, if that begins in the same write, and the slot of it */
function insert<L extends LaneFacts>(
  lane: L,
  { entry, id, owner: self }: Enqueue,
  begun: { message: SentMessage; slot: number | undefined } | undefined,
  plan: OutboxPlan<L>,
): StoredEntry {
  const { asked, bot_id: botId, content = '', key, made_by, mode, origin, send_at } = entry
  const created_at = plan.now
  const owner = mode === 'fail' ? self : undefined
  const stored: StoredEntry = {
    id,
    session: lane.session,
    user: lane.user,
    mode,
    content,
    created_at,
    expires_at: expiryOf(entry, created_at),
    ended: false,
    made_by,
    parts: [],
    ...(asked && { asked }),
    ...(send_at !== undefined && { send_at }),
  }
  plan.newEntries.push({ entry: stored, lane: lane.id, owner, key, origin })
  for (const [nth, { kind, waiting }] of entry.parts.entries()) {
    const first = nth === 0 ? begun : undefined
    const { file, message } = waiting ?? {}
    const part: EntryPart = {
      id: partId(id, nth),
      entry: id,
      lane: lane.id,
      kind,
      msg_type: message?.msg_type ?? 'TEXT',
      tries: 0,
      text: message?.text ?? '',
      raw: message?.raw ?? '',
      status: first ? 'sending' : isHeldBack(entry) ? 'asked' : 'queued',
      ...(first?.slot !== undefined && { slot: first.slot }),
      ...(file && { file }),
    }
    stored.parts.push(part)
    plan.newParts.push({ part, sender: first ? { owner: self, began_at: created_at } : {} })
    const error = first ? undefined : holdReasonOf(stored, file)
    const sent = first?.message ?? message
    const row = { botId, error, sentBy: sentByOf(entry), status: first ? 'sending' : 'queued' } as const
    if (sent) plan.addRow(lane, part, { ...row, message: sent })
  }
  return stored
}

export interface BeginFacts<L extends LaneFacts> {
  lane: L
  mode: SendMode
  /** The process in which the caller waits; only in mode `fail`. */
  owner?: string
  slots: SlotFacts
  /** `hasRow`: retention has not removed its row in the log. */
  parts: readonly { part: EntryPart; hasRow: boolean; sentBy?: string }[]
  /** Entries of keys that may not go without an approval, which nobody gave. */
  unapproved: readonly EntryFacts<L>[]
}

interface Begin {
  count: number
  botId: string
  rules: SendRules
  message: SentMessage
  /** This process. */
  owner: string
}

const gone = { go: 'gone' } as const

export function begin<L extends LaneFacts>(
  facts: BeginFacts<L> | undefined,
  how: Begin,
  plan: OutboxPlan<L>,
): () => BeginResult {
  if (!facts || facts.parts.length !== how.count) return () => gone
  const { lane, mode, parts } = facts
  if (!parts.every(({ part }) => part.status === 'queued')) return () => gone
  if (mode === 'fail' ? facts.owner !== how.owner : lane.isTaken) return () => gone
  if (mode === 'queue') plan.changeLane(lane, { owner: how.owner, lease_until: plan.now + laneLeaseMs })
  for (const entry of facts.unapproved) askAgain(entry, plan.now + askLifeMs, plan)
  if (facts.unapproved.length > 0) return () => gone
  const verdict = takeSlots(facts, how.rules, plan)
  const begun = verdict.go === 'now' ? beginMessage(facts, { ...how, slot: verdict.slot }, plan) : undefined
  if (!plan.isEmpty) plan.relyOn(lane)
  return () => (verdict.go === 'now' ? { go: 'begun', begun: begun!() } : verdict)
}

/** Checks admission with the slots that the parts have, and takes and gives back slots as needed. */
function takeSlots<L extends LaneFacts>(
  { lane, parts, slots }: BeginFacts<L>,
  rules: SendRules,
  plan: OutboxPlan<L>,
): Verdict {
  const [first, ...joined] = parts.map(({ part }) => part) as [EntryPart, ...EntryPart[]]
  const giveBack = (slot: number) => {
    plan.giveBack(lane, slot)
    for (const taken of [slots.session, slots.user]) {
      const at = taken.indexOf(slot)
      if (at >= 0) taken.splice(at, 1)
    }
  }
  for (const part of joined) {
    if (part.slot === undefined) continue
    giveBack(part.slot)
    plan.changePart(part, { slot: undefined })
  }
  const { slot } = first
  const due = slot !== undefined && isDue(slot, plan.now)
  // Frees a slot that was missed.
  if (slot !== undefined && !due) giveBack(slot)
  const { verdict } = judge(lane, { slots, ahead: noneAhead, slot, now: plan.now }, 1, rules)
  const keepsSlot = due && verdict.go === 'now'
  if (due && !keepsSlot) giveBack(slot)
  if (verdict.go !== 'no' && verdict.slot !== undefined && !keepsSlot)
    plan.takeSlot(lane, verdict.slot, rules)
  // A part that kept a slot after giving it back would be sent in a slot of another message.
  const newSlot = verdict.go === 'later' ? verdict.slot : undefined
  if (verdict.go !== 'now' && newSlot !== slot) plan.changePart(first, { slot: newSlot })
  return verdict
}

function beginMessage<L extends LaneFacts>(
  { lane, parts }: BeginFacts<L>,
  { botId, message, owner, slot }: Begin & { slot: number | undefined },
  plan: OutboxPlan<L>,
): () => BegunMessage {
  const counter = plan.countAnswer(lane)
  for (const [nth, { part, hasRow, sentBy }] of parts.entries()) {
    // The row of the first part gets the message as it is sent; the rows of the others name that message.
    const isFirst = nth === 0
    const own: SentMessage = isFirst
      ? message
      : { ...message, client_id: `${message.client_id}+${nth}`, text: part.text, raw: part.raw }
    const sentWith = isFirst ? undefined : `local:${message.client_id}`
    const sender = { owner, began_at: plan.now }
    plan.changePart(part, { status: 'sending', slot: isFirst ? slot : undefined }, sender)
    const { client_id, raw, text, timestamp } = own
    const isNew = text !== part.text
    const sent = { local_id: `local:${client_id}`, timestamp, sent_with: sentWith, bot_id: botId, must: true }
    if (hasRow) plan.changeRow(part.message, 'sending', undefined, { text, raw, is_new_text: isNew, ...sent })
    else plan.addRow(lane, part, { botId, message: own, status: 'sending', sentWith, sentBy })
  }
  const { token } = lane
  const own = parts.map(({ part }) => part)
  return () => begunOf({ id: lane.id, hold: lane.hold, token }, own, { row: own[0]!.message!, counter, slot })
}

export interface SettleFacts<L extends LaneFacts> {
  /** Absent if its session was removed since. */
  lane: L | undefined
  /** Entries of the message's parts that still exist, in the order of the parts. */
  entries: readonly EntryFacts<L>[]
  /** It may have been done before. */
  again?: boolean
}

export function settle<L extends LaneFacts>(
  { again, entries, lane }: SettleFacts<L>,
  begun: BegunMessage,
  settlement: Settlement,
  plan: OutboxPlan<L>,
): SettleResult {
  const { status, message_id, error, rest, hold } = settlement
  const all = new Map(entries.flatMap(({ entry }) => entry.parts).map(part => [part.id, part]))
  const ownParts = begun.parts.flatMap(id => all.get(id) ?? [])
  // The other parts were reaped as abandoned since, and their caller was notified.
  const parts = ownParts.filter(part => part.status === 'sending')
  if (status !== 'queued') {
    plan.changeRow(begun.row, status, error, { upstream_id: message_id })
    for (const part of parts.slice(1)) plan.changeRow(part.message, status, error, { carrier: begun.row })
  }
  // It was done before, or another process took the message for lost: the counter stays.
  if (again && parts.length === 0) return { entries: [], files: [] }
  for (const part of parts) {
    const { entry } = entries.find(one => one.entry.id === part.entry)!
    if (status === 'queued') requeue(part, entry, settlement, plan)
    else plan.changePart(part, { status, error, message_id })
  }
  const counter = lane && settleLane(lane, begun, settlement, plan)
  if (lane && hold !== undefined && (hold || lane.hold)) plan.changeLane(lane, { hold: hold ?? undefined })
  const files = status === 'queued' ? [] : filesOf(parts)
  const first = entries.find(({ entry }) => entry.id === ownParts[0]?.entry)
  if (rest && first) files.push(...filesOf(endWaiting(first, rest, plan)))
  return { entries: entries.map(found => close(found, plan, counter)), files }
}

/** Takes back what a message that used no answer counted. @returns the counter as it is then */
function settleLane<L extends LaneFacts>(
  lane: L,
  begun: BegunMessage,
  { spent, unseen }: Settlement,
  plan: OutboxPlan<L>,
): Counter {
  plan.relyOn(lane)
  if (spent) return lane.counter
  if (unseen) plan.giveBack(lane, begun.slot)
  // If the user wrote since, that started a new count.
  const { received_at, used } = lane.counter
  const { last_sent_at } = begun.counter
  if (received_at === begun.counter.received_at)
    plan.changeLane(lane, { counter: { received_at, used: Math.max(0, used - 1), last_sent_at } })
  return lane.counter
}

function requeue(part: EntryPart, entry: StoredEntry, { error, spent }: Settlement, plan: OutboxPlan): void {
  // Its key ended while it was being sent.
  const isAsked = entry.asked !== undefined
  const { id, raw, text } = part
  const again = { local_id: `local:queued-${id}`, timestamp: plan.now, text, raw, is_new_text: true }
  plan.changeRow(part.message, 'queued', isAsked ? approvalReasonOf(part.file) : undefined, again)
  const tries = part.tries + (spent ? 1 : 0)
  plan.changePart(part, { status: isAsked ? 'asked' : 'queued', tries, error, slot: undefined }, {})
}
