/**
 * What decisions about the outbox know, and what they want written. An engine reads the facts, lets one or more decisions
 * collect a plan, and writes it in one transaction. The facts change with the plan, so that what is decided next sees it.
 */
import type { SendRules } from '../../model/admission.ts'
import type { SentStatus } from '../../model/message.ts'
import type { Counter } from '../../model/session.ts'
import type { SentMessage } from '../messages.ts'
import type { EndReason, EntryPart, NewEntry, OutboxLane, StoredEntry } from '../outbox.ts'
import { slotsEndBefore } from '../outbox-limits.ts'
import { toSearchableText } from '../search-text.ts'

/** A lane as it was read. Engines add what they need to write it. */
export interface LaneFacts extends OutboxLane {
  /** The process that has the lane. */
  owner?: string
  /** Unix ms. */
  lease_until: number
  /** Another process has the lane, and may still send from it. */
  isTaken: boolean
}

/** An entry with all its parts. */
export interface EntryFacts<L extends LaneFacts = LaneFacts> {
  entry: StoredEntry
  lane?: L
}

/** Taken slots that count now, newest first; a few more if some of them may be given back first. */
export interface SlotFacts {
  session: number[]
  user: number[]
}

/** Who sends a part, and since when. */
export interface PartSender {
  owner?: string
  began_at?: number
}

type Changed<T> = { [K in keyof T]?: T[K] | undefined }

/** The slots of a session: one is taken, after those up to `old` and later than `late` are removed; or given back. */
export type SlotChange<L> =
  | { lane: L; taken: number; old: number; late: number }
  | { lane: L; given_back: number }

/** Why a message was not sent, as columns. */
interface Reason {
  reason?: string | undefined
  reason_code?: string | undefined
  reason_quote?: string | undefined
}

/** What a row of the log gets. */
export interface RowChange extends Reason {
  id: number
  status: SentStatus
  /** If another row has it already, the local id stays. */
  upstream_id?: string | undefined
  /** Row of the message that it was joined to. */
  carrier?: number
  /** Its text, if it begins, waits again, or was edited. `is_new_text`: the row may have had another. */
  text?: string
  raw?: string
  is_new_text?: boolean
  /** Its id, if it begins or waits again; with it `sent_with` is set. */
  local_id?: string
  timestamp?: number
  sent_with?: string | undefined
  /** Its account, if it begins: there must be such a row. */
  bot_id?: string
  must?: boolean
}

/** A message to add to the log. */
export interface NewMessage {
  botId: string
  message: SentMessage
  status: SentStatus
  error?: EndReason | undefined
  sentWith?: string | undefined
  sentBy?: string | undefined
}

/** Columns of its row, but for those that the engine knows. */
const rowOf = ({ botId, message, status, error, sentWith, sentBy }: NewMessage, now: number) => ({
  message_id: `local:${message.client_id}`,
  sent: 1,
  status,
  bot_id: botId,
  peer: message.to_user,
  msg_type: message.msg_type,
  timestamp: message.timestamp,
  stored_at: now,
  text: toSearchableText(message.text),
  raw: message.raw,
  ...reasonOf(error),
  sent_with: sentWith,
  sent_by: sentBy,
})

export type NewRow = ReturnType<typeof rowOf>

const reasonOf = (error: EndReason | undefined): Reason => ({
  reason: error?.detail,
  reason_code: error?.code,
  reason_quote: error?.quote,
})

export type EntryChange = Changed<
  Pick<StoredEntry, 'asked' | 'send_at' | 'approved_by' | 'expires_at' | 'ended_by'>
>

/** A stored entry with what only its row has. */
export type NewEntryRow = Pick<NewEntry, 'key' | 'origin'> & {
  entry: StoredEntry
  lane: number
  owner?: string
}

export interface EndedRow {
  id: number
  at: number
  used: number
  received_at?: number
  /** Its parts have content, which is removed. */
  has_content: boolean
}

/** A part as it is from now on. */
export interface PartChange {
  part: EntryPart
  sender?: PartSender
  isRewritten?: boolean
}

const addOnce = <T>(list: T[], one: T): void => {
  if (!list.includes(one)) list.push(one)
}

export class OutboxPlan<L extends LaneFacts = LaneFacts> {
  /** Unix ms. */
  readonly now: number
  /** Lanes that the plan rests on; those whose own row changes; those of sessions whose slots or approvals it rests on. */
  readonly lanes: L[] = []
  readonly changedLanes: L[] = []
  readonly booked: L[] = []
  readonly slots: SlotChange<L>[] = []
  readonly newEntries: NewEntryRow[] = []
  readonly newParts: { part: EntryPart; sender: PartSender }[] = []
  readonly entries: { id: number; changed: EntryChange }[] = []
  readonly parts: PartChange[] = []
  readonly ended: EndedRow[] = []
  readonly removed: number[] = []
  readonly rows: RowChange[] = []
  readonly newRows: { row: NewRow; lane: L; part: EntryPart }[] = []

  constructor(now: number) {
    this.now = now
  }

  get isEmpty(): boolean {
    const { booked, ended, entries, lanes, newEntries, newRows, parts, removed, rows, slots } = this
    const all = [lanes, booked, slots, newEntries, entries, parts, ended, removed, rows, newRows]
    return all.every(({ length }) => length === 0)
  }

  /** The plan holds only while the lane is as it was read. */
  relyOn(lane: L): void {
    addOnce(this.lanes, lane)
  }

  changeLane(lane: L, changed: Changed<Pick<LaneFacts, 'counter' | 'hold' | 'owner' | 'lease_until'>>): void {
    Object.assign(lane, changed)
    this.relyOn(lane)
    addOnce(this.changedLanes, lane)
  }

  /** Counts one more answer. @returns the counter, with the time of the answer before it */
  countAnswer(lane: L): Counter {
    const counter = { ...lane.counter, used: lane.counter.used + 1 }
    this.changeLane(lane, { counter: { ...counter, last_sent_at: this.now } })
    return counter
  }

  /** The plan holds only while nothing was booked for the session since it was read. */
  relyOnSession(lane: L): void {
    addOnce(this.booked, lane)
  }

  takeSlot(lane: L, taken: number, { pace, patienceMs }: SendRules): void {
    if (pace === 'off') return
    this.relyOnSession(lane)
    this.slots.push({ lane, taken, old: slotsEndBefore(this.now, pace), late: this.now + patienceMs })
  }

  /** Gives back a slot in which nothing was sent. Later slots stay where they are. */
  giveBack(lane: L | undefined, given_back: number | undefined): void {
    if (lane && given_back !== undefined) this.slots.push({ lane, given_back })
  }

  changeEntry(entry: StoredEntry, changed: EntryChange): void {
    Object.assign(entry, changed)
    this.entries.push({ id: entry.id, changed })
  }

  /** @param sender absent: it stays */
  changePart(part: EntryPart, changed: Changed<EntryPart>, sender?: PartSender): void {
    Object.assign(part, changed)
    const known = this.parts.find(one => one.part.id === part.id)
    const change: PartChange = known ?? { part }
    if (!known) this.parts.push(change)
    if (sender) change.sender = sender
    if (changed.text !== undefined) change.isRewritten = true
  }

  /** @param more `text` as it was enqueued */
  changeRow(
    id: number | undefined,
    status: SentStatus,
    error?: EndReason,
    more: Omit<RowChange, 'id' | 'status' | keyof Reason> = {},
  ): void {
    if (id === undefined) return
    const row: RowChange = Object.assign({ id, status, ...reasonOf(error) }, more)
    if (row.text !== undefined) row.text = toSearchableText(row.text)
    this.rows.push(row)
  }

  /** Adds the row of a part, which knows it when the plan is written. */
  addRow(lane: L, part: EntryPart, message: NewMessage): void {
    this.newRows.push({ row: rowOf(message, this.now), lane, part })
  }
}
