/** Rows of the outbox: a call of send is an entry with a part per message. */
import type { MediaKind, MessageKind, SentStatus } from '../model/message.ts'
import type { Next } from '../model/next-step.ts'
import type { Counter } from '../model/session.ts'
import type { Clock } from '../platform/clock.ts'
import type { Database, Row } from '../platform/sqlite.ts'
import type { Lanes } from './lanes.ts'
import type { Messages } from './messages.ts'
import type { Slots } from './slots.ts'

/** A file of ours that a part is sent from. */
export interface KeptFile {
  /** Its name in the folder of kept files. */
  name: string
  file_name: string
  size: number
  /** Lower-case hex. */
  md5: string
}

/** `fail`: to be sent by the process whose caller waits, or not at all. `queue`: may wait for the user. */
export type SendMode = 'fail' | 'queue'

/** Why a part was not sent, or is in doubt: an error's fields. */
export interface EndReason {
  code: string
  detail: string
  /** As the error was made: the field it is about, and what to do next. */
  field?: string
  hint?: string
  next?: Next
  retry_after?: number
}

export interface EntryPart {
  id: number
  entry: number
  lane: number
  kind: 'text' | MediaKind
  msg_type: MessageKind
  status: SentStatus
  /** How often upstream has refused it. */
  tries: number
  /** Row id in the log; absent before a part of mode `fail` is on its way. */
  message?: number
  message_id?: string
  error?: EndReason
  /** When it may go by the pace (Unix ms). */
  slot?: number
  text: string
  file?: KeptFile
  raw: string
}

export interface Entry {
  id: number
  session: string
  user: string
  mode: SendMode
  /** What is sent, as the caller of `enqueue` put it. */
  content: string
  /** It answers for a key. */
  keyed?: true
  /** Unix ms. */
  created_at: number
  expires_at: number
  /** No part waits or is on its way. */
  ended: boolean
  /** The count of answers when it ended. */
  counter?: Counter
  /** The result of a call of version 0.1, as JSON. */
  answer?: string
  parts: EntryPart[]
}

export class Entries {
  readonly #db: Database
  readonly #clock: Clock
  readonly #messages: Messages
  readonly #lanes: Lanes
  readonly #slots: Slots

  constructor(db: Database, clock: Clock, messages: Messages, lanes: Lanes, slots: Slots) {
    this.#db = db
    this.#clock = clock
    this.#messages = messages
    this.#lanes = lanes
    this.#slots = slots
  }

  get(id: number): Entry | undefined {
    const row = this.#db.get`SELECT o.*, s.name, l.peer
      FROM outbox o LEFT JOIN outbox_lane l ON l.id = o.lane
      LEFT JOIN session s ON s.key = l.session WHERE o.id = ${id}`
    return row && entryOf(row, this.#parts(id))
  }

  part(id: number): EntryPart | undefined {
    const row = this.#db.get`SELECT * FROM outbox_part WHERE id = ${id}`
    return row && partOf(row)
  }

  #parts(entry: number): EntryPart[] {
    return this.#db.all`SELECT * FROM outbox_part WHERE entry = ${entry} ORDER BY id`.map(partOf)
  }

  /** What waits for users, oldest first. */
  list(filter: { user_id?: string; session?: string } = {}): Entry[] {
    const keys = filter.session === undefined ? undefined : this.#messages.sessionKeys(filter.session)
    return this.#db.all`SELECT o.id, l.session, l.peer FROM outbox o JOIN outbox_lane l ON l.id = o.lane
      WHERE o.mode = 'queue' AND o.ended_at IS NULL ORDER BY o.id`
      .filter(row => filter.user_id === undefined || row.peer === filter.user_id)
      .filter(row => keys === undefined || keys.includes(Number(row.session)))
      .flatMap(row => this.get(Number(row.id)) ?? [])
  }

  /** What waits for the user of a lane, in its order, the first `limit` of it. */
  waiting(lane: number, limit: number): EntryPart[] {
    return this.#db.all`SELECT p.* FROM outbox_part p JOIN outbox o ON o.id = p.entry
      WHERE p.lane = ${lane} AND p.status = 'queued' AND o.mode = 'queue' ORDER BY p.id LIMIT ${limit}`.map(
      partOf,
    )
  }

  /** How many messages wait for the user of a lane, or are on their way from there. */
  unsent(lane: number): number {
    const row = this.#db.get`SELECT count(*) AS n FROM outbox o JOIN outbox_part p ON p.entry = o.id
      WHERE o.lane = ${lane} AND o.mode = 'queue' AND o.ended_at IS NULL
      AND p.status IN ('queued', 'sending')`
    return Number(row?.n)
  }

  endPart(id: number, status: SentStatus, error?: EndReason, messageId?: string): void {
    this.#db.run`UPDATE outbox_part SET status = ${status}, error = ${error ? JSON.stringify(error) : null},
      message_id = ${messageId ?? null} WHERE id = ${id}`
  }

  /** Ends the parts that wait; what is on its way goes its way. @returns those */
  endWaiting(entry: number, reason: EndReason): EntryPart[] {
    const waiting = this.#parts(entry).filter(part => part.status === 'queued')
    for (const part of waiting) {
      if (part.message !== undefined)
        this.#messages.settleSent(part.message, { status: 'refused', reason: reason.detail })
      const lane = part.slot === undefined ? undefined : this.#lanes.get(part.lane)
      if (lane) this.#slots.giveBack(this.#messages.keyOf(lane.session), lane.user, part.slot!)
      this.endPart(part.id, 'refused', reason)
    }
    return waiting
  }

  /**
   * An entry of which nothing waits has ended: it goes, unless it answers for a key.
   *
   * @param count the answers to its user, if that is known
   * @returns it as it stands
   */
  close(id: number, count?: Counter): Entry | undefined {
    const entry = this.get(id)
    if (!entry || entry.ended) return entry
    if (entry.parts.some(({ status }) => status === 'queued' || status === 'sending')) return entry
    const counter = count ?? this.#lanes.get(entry.parts[0]?.lane ?? 0)?.counter
    const sentNothing = entry.mode === 'fail' && entry.parts.every(({ status }) => status === 'refused')
    if (!entry.keyed || sentNothing) this.remove(id)
    else {
      this.#db.run`UPDATE outbox SET ended_at = ${this.#clock.now()}, used = ${counter?.used ?? 0},
        received_at = ${counter?.received_at ?? null} WHERE id = ${id}`
      this.#db.run`UPDATE outbox_part SET file = NULL, text = '""', raw = '' WHERE entry = ${id}`
    }
    return { ...entry, ended: true, ...(counter && { counter }) }
  }

  remove(id: number): void {
    this.#db.run`DELETE FROM outbox_part WHERE entry = ${id}`
    this.#db.run`DELETE FROM outbox WHERE id = ${id}`
  }

  /** Names of the kept files that are still needed. */
  files(): string[] {
    return this.#db.all`SELECT file FROM outbox_part WHERE file IS NOT NULL
      AND status IN ('queued', 'sending')`.map(row => (JSON.parse(String(row.file)) as KeptFile).name)
  }
}

function entryOf(row: Row, parts: EntryPart[]): Entry {
  const ended = row.ended_at !== null
  return {
    ...{ id: Number(row.id), session: String(row.name ?? ''), user: String(row.peer ?? '') },
    mode: row.mode as SendMode,
    content: String(row.content ?? ''),
    ...(row.key !== null && { keyed: true }),
    ...{ created_at: Number(row.created_at), expires_at: Number(row.expires_at), ended, parts },
    ...(ended && {
      counter: {
        used: Number(row.used),
        ...(row.received_at !== null && { received_at: Number(row.received_at) }),
      },
    }),
    ...(row.answer !== null && { answer: String(row.answer) }),
  }
}

export function partOf(row: Row): EntryPart {
  return {
    ...{ id: Number(row.id), entry: Number(row.entry), lane: Number(row.lane) },
    kind: row.kind as EntryPart['kind'],
    msg_type: row.msg_type as MessageKind,
    status: row.status as SentStatus,
    tries: Number(row.tries),
    ...(row.message !== null && { message: Number(row.message) }),
    ...(row.message_id !== null && { message_id: String(row.message_id) }),
    ...(row.error !== null && { error: JSON.parse(String(row.error)) as EndReason }),
    ...(row.slot !== null && { slot: Number(row.slot) }),
    text: JSON.parse(String(row.text)) as string,
    ...(row.file !== null && { file: JSON.parse(String(row.file)) as KeptFile }),
    raw: String(row.raw),
  }
}
