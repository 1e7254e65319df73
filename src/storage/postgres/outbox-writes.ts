/**
 * Collects what decisions write to lanes, entries, parts and their rows in the log, and writes it with one script of few
 * statements. Lanes, entries and parts change in memory too, so that what is decided next sees it.
 */
import type { SendRules } from '../../model/admission.ts'
import type { SentStatus } from '../../model/message.ts'
import type { Counter } from '../../model/session.ts'
import { prepared, type Sql, sql, toJsonb } from '../../platform/postgres.ts'
import type { SentMessage } from '../messages.ts'
import {
  approvalReasonOf,
  type EditedText,
  type EndReason,
  type EntryPart,
  type StoredEntry,
} from '../outbox.ts'
import { oldSlotsAt, openStatuses } from '../outbox-rules.ts'
import { toSearchableText } from '../search-text.ts'
import type { Attempt } from './database.ts'
import type { LaneRow, LoadedEntry } from './entry-rows.ts'
import { reindex } from './grams.ts'
import { counterOf } from './lanes.ts'

/** What a sent message's row gets from its settlement. */
interface RowResult {
  status: SentStatus
  error?: EndReason | undefined
  messageId?: string | undefined
  /** Row of the message that it was joined to. */
  carrier?: number | undefined
}

/** The content that a row gets when its message begins, or waits again. */
interface Rewrite {
  status: SentStatus
  /** Only for a message that begins. */
  botId?: string
  error?: EndReason | undefined
  /** For a message that goes joined to another: the `message_id` of that one. */
  sentWith?: string | undefined
  /** The row may have another text. */
  isNewText?: boolean
}

/** A row to add for a message from the bot. */
interface NewRow extends Pick<Rewrite, 'status' | 'error' | 'sentWith'> {
  session: number
  botId: string
  message: SentMessage
  sentBy: string | undefined
}

/** Who sends a part, and since when. */
interface Sender {
  owner?: string
  began_at?: number
}

export class OutboxWrites {
  /** Unix ms. */
  readonly now: number
  readonly #lanes = new Map<number, LaneRow>()
  readonly #sessions = new Map<number, object>()
  readonly #slots: object[] = []
  readonly #changes: Sql[] = []
  readonly #entries: object[] = []
  readonly #newParts: { id: number }[] = []
  readonly #parts = new Map<number, { part: EntryPart; sender?: Sender | undefined }>()
  readonly #ended: object[] = []
  readonly #removed: number[] = []
  readonly #rows: object[] = []
  readonly #newRows: { row: NewRow; part: EntryPart }[] = []

  constructor(now: number) {
    this.now = now
  }

  /** Writes the lane as it is in memory. The script fails if anything of the lane was written since it was read. */
  changeLane(row: LaneRow, changed: Partial<LaneRow> = {}): void {
    this.#lanes.set(row.lane_id, Object.assign(row, changed))
  }

  /** Counts one more answer. @returns the counter, with the time of the answer before it */
  countAnswer(lane: LaneRow): Counter {
    const counter = { ...counterOf(lane), used: lane.used + 1 }
    this.changeLane(lane, { used: counter.used, last_sent_at: this.now })
    return counter
  }

  /** The script fails if anything was booked for the session since it was read. */
  book({ session_key: key, session_version: version }: LaneRow): void {
    this.#sessions.set(key, { key, version })
  }

  takeSlot(lane: LaneRow, taken: number, { pace, patienceMs }: SendRules): void {
    if (pace === 'off') return
    this.book(lane)
    const [old, late] = [oldSlotsAt(this.now, pace), this.now + patienceMs]
    this.#slots.push({ session: lane.session_key, peer: lane.peer, taken, old, late })
  }

  /** Gives back a slot in which nothing was sent. Later slots stay where they are. */
  giveBack({ peer, session_key: session }: LaneRow, given_back: number): void {
    this.#slots.push({ session, peer, given_back })
  }

  /** @param entry columns of the table `outbox` */
  addEntry(entry: object): void {
    this.#entries.push(entry)
  }

  /** @param sender only for a part that begins in the same write */
  addPart(part: EntryPart, sender: Sender = {}): void {
    const { file, text } = part
    const columns = { text: JSON.stringify(text), file: file && JSON.stringify(file) }
    this.#newParts.push({ ...part, ...sender, ...columns })
  }

  change(statement: Sql): void {
    this.#changes.push(statement)
  }

  /** @param sender absent: it stays */
  changePart(
    part: EntryPart,
    changed: { [K in keyof EntryPart]?: EntryPart[K] | undefined },
    sender?: Sender,
  ): void {
    Object.assign(part, changed)
    this.#parts.set(part.id, { part, sender: sender ?? this.#parts.get(part.id)?.sender })
  }

  endPart(part: EntryPart, status: SentStatus, error?: EndReason, message_id?: string): void {
    this.changePart(part, { status, error, message_id })
  }

  /** Ends the waiting parts; parts that are being sent continue. @returns the ended parts */
  endWaiting({ entry, lane }: LoadedEntry, reason: EndReason): EntryPart[] {
    const waiting = entry.parts.filter(({ status }) => status === 'queued' || status === 'asked')
    for (const part of waiting) {
      if (part.message !== undefined) this.settleRow(part.message, { status: 'refused', error: reason })
      if (part.slot !== undefined && lane) this.giveBack(lane, part.slot)
      this.endPart(part, 'refused', reason)
    }
    return waiting
  }

  /**
   * Lets an entry that waits for its user wait for a person's approval, until `until` (Unix ms) or its own end. Parts that
   * are being sent continue.
   */
  askAgain({ entry, lane }: LoadedEntry, until: number): void {
    if (lane) this.changeLane(lane)
    this.change(sql`UPDATE outbox SET asked = 'queue', approved_by = NULL, expires_at = least(expires_at, ${until})
      WHERE id = ${entry.id}`)
    for (const part of entry.parts) {
      if (part.status !== 'queued') continue
      if (part.slot !== undefined && lane) this.giveBack(lane, part.slot)
      this.changePart(part, { status: 'asked', slot: undefined })
      if (part.message !== undefined)
        this.settleRow(part.message, { status: 'queued', error: approvalReasonOf(part.file) })
    }
  }

  /**
   * Ends an entry of which nothing waits. Removes it, unless it answers for a key or was queued and may be looked up.
   *
   * @param counter of the user's answers
   * @returns its current state, which what is decided next does not change
   */
  close({ entry, lane }: LoadedEntry, counter: Counter | undefined = lane && counterOf(lane)): StoredEntry {
    if (entry.ended || entry.parts.some(({ status }) => openStatuses.has(status)))
      return structuredClone(entry)
    const { id, keyed, mode, parts } = entry
    const sentNothing = parts.every(({ status }) => status === 'refused')
    if (mode === 'fail' && (!keyed || sentNothing)) this.remove(id)
    else {
      const { used = 0, received_at } = counter ?? {}
      const has_content = parts.some(({ file, raw, text }) => file || raw !== '' || text !== '')
      this.#ended.push({ id, at: this.now, used, received_at, has_content })
    }
    return { ...entry, ended: true, counter } as StoredEntry
  }

  remove(entry: number): void {
    this.#removed.push(entry)
  }

  /** If another row has upstream's id already, the local id stays. */
  settleRow(id: number, { carrier, error, messageId, status }: RowResult, edited?: EditedText): void {
    const content = edited && { text: toSearchableText(edited.text), raw: edited.raw }
    if (content) this.change(reindex(id, content.text))
    this.#rows.push({ id, status, ...reasonOf(error), upstream_id: messageId, carrier, ...content })
  }

  /** Replaces the text of a waiting part. `settleRow` replaces that of its row. */
  rewriteText(part: EntryPart, { raw, text }: EditedText): void {
    Object.assign(part, { raw, text })
    this.change(
      sql`UPDATE outbox_part SET text = ${JSON.stringify(text)}, raw = ${raw} WHERE id = ${part.id}`,
    )
  }

  /** Replaces the content of a sent row. The script fails if there is no such row any more, and its message begins. */
  rewriteRow(
    id: number,
    { client_id, raw, text, timestamp }: Pick<SentMessage, 'client_id' | 'text' | 'timestamp' | 'raw'>,
    { botId, error, isNewText, sentWith, status }: Rewrite,
  ): void {
    if (isNewText) this.change(reindex(id, text))
    this.#rows.push({
      id,
      status,
      ...reasonOf(error),
      local_id: `local:${client_id}`,
      sent_with: sentWith,
      bot_id: botId,
      timestamp,
      text: toSearchableText(text),
      raw,
      must: botId !== undefined,
    })
  }

  /** Adds the row of a part, which knows it after `run`. */
  addRow(row: NewRow, part: EntryPart): void {
    this.#newRows.push({ row, part })
  }

  get isEmpty(): boolean {
    return this.statements().length === 0
  }

  /** Runs the script. */
  async run(queries: Attempt): Promise<void> {
    const statements = this.statements()
    const [write] = statements
    const results =
      write && statements.length === 1
        ? [[await queries.one(prepared(write))]]
        : await queries.script(statements)
    const count = this.#newRows.length
    if (count === 0) return
    const { last } = results.at(-1)![0] as { last: number }
    for (const [nth, { part }] of this.#newRows.entries()) part.message = last - count + 1 + nth
  }

  /** Returns the script. */
  statements(): Sql[] {
    const changed = [...this.#parts.values()].filter(({ part }) => !this.#removed.includes(part.entry))
    const places = new Map(this.#newRows.map(({ part }, nth) => [part.id, nth + 1]))
    const isNew = new Set(this.#newParts.map(({ id }) => id))
    const added = this.#newRows.map(({ row, part: { id } }) =>
      rowOf(row, isNew.has(id) ? undefined : id, this.now),
    )
    const all = {
      sessions: [...this.#sessions.values()],
      lanes: [...this.#lanes.values()].map(laneColumnsOf),
      slots: this.#slots,
      entries: this.#entries,
      new_parts: this.#newParts.map(part => ({ ...part, added: places.get(part.id) })),
      parts: changed.map(partRowOf),
      ended: this.#ended,
      removed: this.#removed,
      rows: this.#rows,
      added,
    }
    const used = Object.entries(all).filter(([, list]) => list.length > 0)
    const asked = toJsonb({ now: this.now, ...Object.fromEntries(used) })
    const write = sql`SELECT write_outbox(${asked}::jsonb) AS last`
    if (this.#changes.length === 0) return used.length === 0 ? [] : [write]
    const [keys, lanes] = [[...this.#sessions.keys()], [...this.#lanes.keys()]]
    return [
      sql`SELECT FROM session WHERE key = ANY (${keys}::bigint[]) ORDER BY key FOR UPDATE`,
      sql`SELECT FROM outbox_lane WHERE id = ANY (${lanes}::bigint[]) ORDER BY id FOR UPDATE`,
      ...this.#changes,
      ...(used.length === 0 ? [] : [write]),
    ]
  }
}

const laneColumnsOf = (row: LaneRow) => ({
  lane_id: row.lane_id,
  lane_version: row.lane_version,
  used: row.used,
  last_sent_at: row.last_sent_at,
  held_at: row.held_at,
  held_until: row.held_until,
  holds: row.holds,
  lane_owner: row.lane_owner,
  lease_until: row.lease_until,
})

const partRowOf = ({ part, sender }: { part: EntryPart; sender?: Sender | undefined }) => ({
  id: part.id,
  status: part.status,
  tries: part.tries,
  message_id: part.message_id,
  error: part.error && JSON.stringify(part.error),
  slot: part.slot,
  has_sender: sender !== undefined,
  ...sender,
})

const reasonOf = (error: EndReason | undefined) => ({
  reason: error?.detail,
  reason_code: error?.code,
  reason_quote: error?.quote,
})

const rowOf = (
  { botId, error, message, sentBy, sentWith, session, status }: NewRow,
  part: number | undefined,
  now: number,
) => ({
  message_id: `local:${message.client_id}`,
  session,
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
  part,
})
