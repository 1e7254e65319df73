/**
 * Calls of send: stores each as an entry, begins and settles its messages. Same rules as in `../outbox.ts`.
 *
 * Call every method that writes inside a transaction.
 */
import { isDue, noneAhead, type SendFacts, type SendRules, type Verdict } from '../../model/admission.ts'
import type { Counter } from '../../model/session.ts'
import type { SentMessage } from '../messages.ts'
import {
  type ApproveResult,
  approvalReasonOf,
  type BeginResult,
  type BegunMessage,
  type ClaimedLane,
  type EditedText,
  type EnqueueResult,
  type EntryPart,
  type HoldBack,
  type NewEntry,
  type OutboxLane,
  type SendMode,
  type Settlement,
  type SettleResult,
} from '../outbox.ts'
import {
  askLifeMs,
  begunOf,
  filesOf,
  lookahead,
  rejectTooMany,
  rejectTooManyAsked,
  sentByOf,
} from '../outbox-rules.ts'
import { EnginePart, refuseRevoked, type SqliteContext } from './engine-part.ts'
import { type SqliteOutboxEntries, toJson } from './entries.ts'
import type { SqliteOutboxLanes } from './lanes.ts'
import type { SqliteOutboxEnds } from './outbox-ends.ts'
import type { SqlitePaceSlots } from './pace-slots.ts'

/** Mode of an entry that begins, and the process that owns it. */
interface BeginningEntry {
  mode: SendMode
  owner?: string
  /** Result of `entriesToApprove`, as JSON. */
  unapproved: string
}

/**
 * SQL for the entries of keys, among the parts `?1`, that nobody has approved and that may not go without it:
 * they were queued for another account than `?2`, or after their key had ended.
 */
const entriesToApprove = `SELECT json_group_array(DISTINCT e.id) FROM json_each(?1) j
  JOIN outbox_part p ON p.id = j.value JOIN outbox e ON e.id = p.entry
  LEFT JOIN message m ON m.id = p.message
  LEFT JOIN webhook w ON w.id = substr(e.made_by, 9) AND e.made_by LIKE 'webhook:%'
  LEFT JOIN access_key k
    ON k.id = substr(coalesce(w.made_by, e.made_by), instr(coalesce(w.made_by, e.made_by), ':') + 1)
  WHERE e.mode = 'queue' AND e.approved_by IS NULL AND instr(e.made_by, ':') > 0
  AND (m.bot_id <> ?2 OR k.revoked_at IS NOT NULL)`

/** Parts that the outbox uses. */
export interface SqliteOutboxParts {
  lanes: SqliteOutboxLanes
  slots: SqlitePaceSlots
  entries: SqliteOutboxEntries
  ends: SqliteOutboxEnds
}

export class SqliteOutbox extends EnginePart {
  readonly #parts: SqliteOutboxParts

  constructor(ground: SqliteContext, parts: SqliteOutboxParts) {
    super(ground)
    this.#parts = parts
  }

  /**
   * Same as `OutboxCalls.enqueue`.
   *
   * @throws SvcError `quota_exhausted` if too many messages wait for that user already, or too many sends for
   *   an approval
   */
  enqueue(entry: NewEntry, rules: SendRules, first?: SentMessage): EnqueueResult {
    const { ends, entries, lanes, slots } = this.#parts
    const { messages } = this
    const { mode, parts, bot_id: botId } = entry
    const earlier = entry.key === undefined ? undefined : ends.findByKey(entry.key)
    if (earlier) return { state: 'known', entry: earlier }
    const session = messages.ensureKey(entry.session)
    const lane = lanes.of(session, entry.user)
    const behind = mode === 'queue' ? entries.countUnsent(lane.id) : 0
    rejectTooMany(behind, parts.length)
    if (entry.asked) rejectTooManyAsked(entries.asked(session))
    const verdict: Verdict | 'behind' =
      behind > 0
        ? 'behind'
        : lanes.judge(lane, parts.length, rules, { ahead: this.#countAhead(lane.id) }).verdict
    if (mode === 'fail' && verdict !== 'behind' && verdict.go === 'no') return { state: 'closed', verdict }
    const result = { state: 'new' as const, lane: lane.id, verdict }
    if (first === undefined || verdict === 'behind' || verdict.go !== 'now')
      return { ...result, entry: entries.insert(entry, session, lane) }
    const { slot } = verdict
    if (slot !== undefined) slots.take(session, lane.user, slot, rules)
    const counter = this.#countAnswer(lane)
    const row = messages.insertSent(session, botId, first, { status: 'sending' }, sentByOf(entry))
    const written = entries.insert(entry, session, lane, { row, slot })
    const begun = begunOf(lane, written.parts.slice(0, 1), { row, counter, slot })
    return { ...result, entry: written, begun }
  }

  /**
   * Same as `OutboxMaintenance.approve`: checks admission now.
   *
   * @returns undefined if no entry of that id waits for an approval, or none of its texts does that is edited
   */
  approve(id: number, rules: SendRules, by: string, edited?: EditedText): ApproveResult | undefined {
    const { entries } = this.#parts
    const entry = entries.getEntry(id)
    if (!entry?.asked || entry.expires_at <= this.clock.now()) return undefined
    refuseRevoked(this.db, by)
    const { asked, parts, session, user } = entry
    const waiting = parts.filter(({ status }) => status === 'asked')
    const rewritten = edited && waiting.find(({ kind }) => kind === 'text')
    if (edited && !rewritten) return undefined
    const verdict = this.checkAdmission(session, user, waiting.length, rules)
    if (asked === 'fail' && verdict.go === 'no') return { state: 'closed', verdict }
    if (edited && rewritten) entries.rewriteText(rewritten, edited)
    entries.approve(entry, by)
    return { state: 'approved', lane: parts[0]!.lane }
  }

  /** Whether a message to that user may be sent now. Takes and writes nothing. */
  checkAdmission(session: string, user: string, count: number, rules: SendRules): Verdict {
    const { lanes } = this.#parts
    const lane = lanes.getLane(session, user)
    return lanes.judge(lane, count, rules, { ahead: this.#countAhead(lane.id) }).verdict
  }

  /**
   * Begins these parts as one message, if admission allows it: they may have been sent from here on. `later`:
   * the slot is taken.
   */
  begin(ids: readonly number[], botId: string, rules: SendRules, message: SentMessage): BeginResult {
    const { entries, lanes, slots } = this.#parts
    const { messages } = this
    const parts = ids.flatMap(id => entries.getPart(id) ?? [])
    const entry =
      parts[0] &&
      this.db.get<BeginningEntry>(
        `SELECT mode, owner, (${entriesToApprove}) AS unapproved FROM outbox WHERE id = ?3`,
        ...[JSON.stringify(ids), botId, parts[0].entry],
      )
    const lane = parts[0] && lanes.lane(parts[0].lane)
    const waits = parts.length === ids.length && parts.every(({ status }) => status === 'queued')
    if (!entry || !lane || !waits) return { go: 'gone' }
    if (entry.mode === 'fail' ? entry.owner !== this.owner.name : !lanes.claim(lane.id)) return { go: 'gone' }
    const unapproved: number[] = JSON.parse(entry.unapproved)
    for (const id of unapproved) entries.askAgain(id, this.clock.now() + askLifeMs)
    if (unapproved.length > 0) return { go: 'gone' }
    const session = messages.ensureKey(lane.session)
    for (const { id, slot } of parts.slice(1)) {
      if (slot === undefined) continue
      slots.giveBack(session, lane.user, slot)
      this.db.run`UPDATE outbox_part SET slot = NULL WHERE id = ${id}`
    }
    const slot = parts[0]!.slot
    const due = slot !== undefined && isDue(slot, this.clock.now())
    // Frees a slot that was missed.
    if (slot !== undefined && !due) slots.giveBack(session, lane.user, slot)
    const { verdict } = lanes.judge(lane, 1, rules, { ahead: noneAhead, slot })
    const keepsSlot = due && verdict.go === 'now'
    if (due && !keepsSlot) slots.giveBack(session, lane.user, slot)
    if (verdict.go !== 'no' && verdict.slot !== undefined && !keepsSlot)
      slots.take(session, lane.user, verdict.slot, rules)
    if (verdict.go !== 'now') {
      // A part that kept a slot after giving it back would be sent in a slot of another message.
      const newSlot = verdict.go === 'later' ? verdict.slot : undefined
      if (newSlot !== slot) this.db.run`UPDATE outbox_part SET slot = ${newSlot} WHERE id = ${ids[0]!}`
      return verdict
    }
    const how = { botId, message, slot: verdict.slot }
    return { go: 'begun', begun: this.#begin(lane, session, parts, how) }
  }

  #begin(
    lane: OutboxLane,
    session: number,
    parts: readonly EntryPart[],
    { botId, message, slot }: { botId: string; message: SentMessage; slot?: number },
  ): BegunMessage {
    const { entries } = this.#parts
    const { messages } = this
    const counter = this.#countAnswer(lane)
    const rows: number[] = []
    for (const [nth, part] of parts.entries()) {
      // The row of the first part gets the message as it is sent; the rows of the others name that message.
      const own: SentMessage =
        nth === 0
          ? message
          : { ...message, client_id: `${message.client_id}+${nth}`, text: part.text, raw: part.raw }
      // Retention may have removed the row.
      const isRewritten =
        part.message !== undefined && messages.rewrite(part.message, botId, own, { status: 'sending' })
      const row = isRewritten
        ? part.message!
        : messages.insertSent(session, botId, own, { status: 'sending' }, entries.getSender(part))
      rows.push(row)
      if (nth > 0) messages.noteCarrier(row, rows[0]!)
      entries.begin(part.id, { row, slot: nth === 0 ? slot : undefined })
    }
    return begunOf(lane, parts, { row: rows[0]!, counter, slot })
  }

  /** Counts one more answer. @returns the counter, with the time of the answer before it */
  #countAnswer({ id, counter: before }: OutboxLane): Counter {
    const counter = { ...before, used: before.used + 1 }
    this.#parts.lanes.setCounter(id, { ...counter, last_sent_at: this.clock.now() })
    return counter
  }

  /** @returns the current entries of the message's parts, and files that are no longer needed */
  settle(begun: BegunMessage, settlement: Settlement): SettleResult {
    const { entries, lanes } = this.#parts
    const { messages } = this
    const { status, message_id, error, rest, hold } = settlement
    const ownParts = begun.parts.flatMap(id => entries.getPart(id) ?? [])
    // The other parts were reaped as abandoned since, and their caller was notified.
    const parts = ownParts.filter(part => part.status === 'sending')
    if (status !== 'queued') {
      messages.settleSent(begun.row, { status, error, messageId: message_id })
      for (const part of parts.slice(1)) {
        messages.settleSent(part.message!, { status, error })
        messages.noteCarrier(part.message!, begun.row)
      }
    }
    for (const part of parts) {
      if (status === 'queued') this.#requeue(part, settlement)
      else entries.endPart(part.id, status, error, message_id)
    }
    const counter = this.#settleLane(begun, settlement)
    if (hold !== undefined) lanes.hold(begun.lane, hold ?? undefined)
    const files = status === 'queued' ? [] : filesOf(parts)
    if (rest && ownParts[0]) files.push(...filesOf(entries.endWaiting(ownParts[0].entry, rest)))
    const ids = [...new Set(ownParts.map(part => part.entry))]
    return { entries: ids.flatMap(id => entries.close(id, counter) ?? []), files }
  }

  #settleLane(begun: BegunMessage, { spent, unseen }: Settlement): Counter | undefined {
    const { lanes, slots } = this.#parts
    const { messages } = this
    const lane = lanes.getStored(begun.lane)
    if (spent || !lane) return lane?.counter
    if (unseen && begun.slot !== undefined)
      slots.giveBack(messages.ensureKey(lane.session), lane.user, begun.slot)
    // The user wrote since, which started a new count.
    if (lane.counter.received_at !== begun.counter.received_at) return lane.counter
    const { last_sent_at } = begun.counter
    const counter = { ...lane.counter, used: Math.max(0, lane.counter.used - 1), last_sent_at }
    lanes.setCounter(lane.id, counter)
    return counter
  }

  #requeue(part: EntryPart, { spent, error }: Settlement): void {
    const { messages } = this
    const { entry, file, id, message, raw, text } = part
    // Its key ended while it was being sent.
    const isAsked = this.db.get`SELECT 1 AS found FROM outbox WHERE id = ${entry} AND asked IS NOT NULL`
    const again = { client_id: `queued-${id}`, text, timestamp: this.clock.now(), raw }
    messages.rewind(message!, again, isAsked && approvalReasonOf(file))
    // The slot that it was sent in stays taken.
    this.db.run`UPDATE outbox_part SET status = ${isAsked ? 'asked' : 'queued'}, owner = NULL, slot = NULL,
      tries = tries + ${spent ? 1 : 0}, error = ${toJson(error)} WHERE id = ${id}`
  }

  /** Counts refusals of waiting parts before they began, or delays their tries. */
  holdBack(lane: number, { refused = [], hold, pause }: HoldBack): void {
    const { lanes } = this.#parts
    for (const id of refused) this.db.run`UPDATE outbox_part SET tries = tries + 1 WHERE id = ${id}`
    if (hold) lanes.hold(lane, hold)
    if (pause) lanes.setPause(lane, pause)
  }

  /**
   * Takes a lane, or renews it.
   *
   * @returns the lane with the parts that wait in it; undefined while another process has the lane
   */
  claim(id: number): ClaimedLane | undefined {
    const { entries, lanes } = this.#parts
    const lane = lanes.claim(id) ? lanes.lane(id) : undefined
    return lane && { ...lane, parts: entries.waiting(id, lookahead) }
  }

  /**
   * Counts messages of mode `fail` that wait to be sent. Messages of dead processes do not count, because
   * they are never sent.
   */
  #countAhead(lane: number): SendFacts['ahead'] {
    const rows = this.db.all<{
      owner: string
      slot?: number
    }>`SELECT o.owner, p.slot FROM outbox_part p JOIN outbox o ON o.id = p.entry
      WHERE p.lane = ${lane} AND p.status = 'queued' AND p.message IS NULL`.filter(
      ({ owner }) => !this.owner.isDead(owner),
    )
    return { messages: rows.length, unslotted: rows.filter(({ slot }) => slot === undefined).length }
  }
}
