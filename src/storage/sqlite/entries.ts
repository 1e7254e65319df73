/** Rows of the outbox: a call of send is an entry with a part per message. */
import type { SentStatus } from '../../model/message.ts'
import type { Counter } from '../../model/session.ts'
import type { Row } from '../../platform/sqlite.ts'
import type { EndReason, Entry, EntryPart, KeptFile, Lane, NewEntry, SendMode } from '../outbox.ts'
import { EnginePart, type Ground } from './engine-part.ts'
import type { Lanes } from './lanes.ts'
import type { Slots } from './slots.ts'

/** What waits has waited long enough after this. */
export const queueLifeMs = 7 * 24 * 60 * 60_000
/** A person has this long to say yes to one that waits for that. */
const askLifeMs = 24 * 60 * 60_000
/** A call that has shown no progress for so long is over, where its process cannot be asked. */
export const callLifeMs = 10 * 60_000

/** Whoever looks at it sees where a file comes from, whatever it is called. */
const asksFirst = (file?: KeptFile): EndReason => ({
  code: 'approval',
  detail: `waits for a person to say yes${file?.source ? `; the file is from ${file.source}` : ''}`,
  ...(file?.source && { quote: file.source }),
})

/** More parts than an entry can have. */
const partsPerEntry = 1000
/** The parts of an entry lie side by side, in its order: so no index is needed to find them. */
const partId = (entry: number, nth: number): number => entry * partsPerEntry + nth

/** The files of these parts. */
export const filesOf = (parts: readonly EntryPart[]): KeptFile[] => parts.flatMap(part => part.file ?? [])

export class Entries extends EnginePart {
  readonly #lanes: Lanes
  readonly #slots: Slots

  constructor(ground: Ground, lanes: Lanes, slots: Slots) {
    super(ground)
    this.#lanes = lanes
    this.#slots = slots
  }

  entry(id: number): Entry | undefined {
    const row = this.db.get<EntryRow>`SELECT o.*, s.name, l.peer
      FROM outbox o LEFT JOIN outbox_lane l ON l.id = o.lane
      LEFT JOIN session s ON s.key = l.session WHERE o.id = ${id}`
    return row && entryOf(row, this.#parts(id))
  }

  part(id: number): EntryPart | undefined {
    const row = this.db.get<PartRow>`SELECT * FROM outbox_part WHERE id = ${id}`
    return row && partOf(row)
  }

  #parts(entry: number): EntryPart[] {
    return this.db.all<PartRow>`SELECT * FROM outbox_part
      WHERE id >= ${partId(entry, 0)} AND id < ${partId(entry + 1, 0)} ORDER BY id`.map(partOf)
  }

  /**
   * Writes a call down. Inside a transaction.
   *
   * @param begun where its first part is on its way with that: its row in the log, and its slot
   */
  insert(
    { asked, bot_id, mode, key, content = '', parts }: NewEntry,
    session: number,
    lane: Lane,
    begun?: { row: number; slot?: number },
  ): Entry {
    const owner = mode === 'fail' ? this.owner.name : null
    const created_at = this.clock.now()
    const expires_at = created_at + (asked ? askLifeMs : mode === 'fail' ? callLifeMs : queueLifeMs)
    const { lastInsertRowid: id } = this.db.run`INSERT INTO outbox (lane, mode, owner, key, content,
      created_at, expires_at, asked)
      VALUES (${lane.id}, ${mode}, ${owner}, ${key ?? null}, ${content}, ${created_at}, ${expires_at},
      ${asked ?? null})`
    const written = parts.map(({ kind, waiting }, nth): EntryPart => {
      const first = nth === 0 ? begun : undefined
      const waits = { status: 'queued', ...(asked && { error: asksFirst(waiting?.file) }) } as const
      const message =
        first?.row ?? (waiting && this.messages.insertOut(session, bot_id, waiting.message, waits))
      const { msg_type = 'TEXT', text = '', raw = '' } = waiting?.message ?? {}
      const part: EntryPart = {
        ...{ id: partId(id, nth), entry: id, lane: lane.id, kind, msg_type, tries: 0, text, raw },
        status: first ? 'sending' : asked ? 'asked' : 'queued',
        ...(message !== undefined && { message }),
        ...(first?.slot !== undefined && { slot: first.slot }),
        ...(waiting?.file && { file: waiting.file }),
      }
      // Text as JSON: SQLite keeps neither NUL nor lone surrogates.
      this.db.run`INSERT INTO outbox_part (id, entry, lane, kind, msg_type, status, message, slot, owner,
        began_at, file, text, raw)
        VALUES (${part.id}, ${id}, ${lane.id}, ${kind}, ${msg_type}, ${part.status}, ${message ?? null},
        ${first?.slot ?? null}, ${first ? owner : null}, ${first ? created_at : null},
        ${waiting?.file ? JSON.stringify(waiting.file) : null}, ${JSON.stringify(text)}, ${raw})`
      return part
    })
    const { session: name, user } = lane
    return {
      ...{ id, session: name, user, mode, content, created_at, expires_at, ended: false },
      ...(asked && { asked }),
      parts: written,
    }
  }

  /** A person said yes: it waits its turn as others do from here on. */
  approve({ id, asked, created_at, expires_at, parts }: Entry): void {
    const until = asked === 'queue' ? created_at + queueLifeMs : expires_at
    this.db.run`UPDATE outbox SET asked = NULL, expires_at = ${until} WHERE id = ${id}`
    for (const part of parts) {
      this.db.run`UPDATE outbox_part SET status = 'queued' WHERE id = ${part.id}`
      if (part.message !== undefined) this.messages.settleSent(part.message, { status: 'queued' })
    }
  }

  /** How many sends of a session wait for a person's yes. */
  asked(session: number): number {
    const row = this.db.get`SELECT count(DISTINCT entry) AS n FROM outbox_part WHERE status = 'asked'
      AND lane IN (SELECT id FROM outbox_lane WHERE session = ${session})`
    return Number(row?.n)
  }

  /** A part is on its way from here on, with that row in the log. */
  begin(id: number, { row, slot }: { row: number; slot?: number }): void {
    this.db.run`UPDATE outbox_part SET status = 'sending', message = ${row}, slot = ${slot ?? null},
      owner = ${this.owner.name}, began_at = ${this.clock.now()} WHERE id = ${id}`
  }

  /** What waits for users, oldest first. */
  list(filter: { user_id?: string; session?: string } = {}): Entry[] {
    const keys = filter.session === undefined ? undefined : this.messages.sessionKeys(filter.session)
    return this.db.all`SELECT o.id, l.session, l.peer FROM outbox o JOIN outbox_lane l ON l.id = o.lane
      WHERE o.mode = 'queue' AND o.ended_at IS NULL ORDER BY o.id`
      .filter(row => filter.user_id === undefined || row.peer === filter.user_id)
      .filter(row => keys === undefined || keys.includes(Number(row.session)))
      .flatMap(row => this.entry(Number(row.id)) ?? [])
  }

  depth(): { messages: number; oldest_at?: number } {
    const messages = this.db.get`SELECT count(*) AS n FROM outbox_part
      WHERE status = 'queued' AND message IS NOT NULL`
    const oldest = this.db
      .get`SELECT min(created_at) AS at FROM outbox WHERE mode = 'queue' AND ended_at IS NULL`
    return {
      messages: Number(messages?.n),
      ...(typeof oldest?.at === 'number' && { oldest_at: oldest.at }),
    }
  }

  /** What waits for the user of a lane, in its order, the first `limit` of it. */
  waiting(lane: number, limit: number): EntryPart[] {
    return this.db.all<PartRow>`SELECT * FROM outbox_part
      WHERE lane = ${lane} AND status = 'queued' AND message IS NOT NULL ORDER BY id LIMIT ${limit}`.map(
      partOf,
    )
  }

  /** How many messages wait for the user of a lane, or are on their way from there. */
  unsent(lane: number): number {
    const row = this.db.get`SELECT count(*) AS n FROM outbox o
      JOIN outbox_part p ON p.id >= o.id * ${partsPerEntry} AND p.id < (o.id + 1) * ${partsPerEntry}
      WHERE o.lane = ${lane} AND o.mode = 'queue' AND o.ended_at IS NULL
      AND p.status IN ('queued', 'sending')`
    return Number(row?.n)
  }

  endPart(id: number, status: SentStatus, error?: EndReason, messageId?: string): void {
    this.db.run`UPDATE outbox_part SET status = ${status}, error = ${error ? JSON.stringify(error) : null},
      message_id = ${messageId ?? null} WHERE id = ${id}`
  }

  /** Ends the parts that wait; what is on its way goes its way. @returns those */
  endWaiting(entry: number, reason: EndReason): EntryPart[] {
    const waiting = this.#parts(entry).filter(({ status }) => status === 'queued' || status === 'asked')
    for (const part of waiting) {
      if (part.message !== undefined)
        this.messages.settleSent(part.message, { status: 'refused', error: reason })
      const lane = part.slot === undefined ? undefined : this.#lanes.lane(part.lane)
      if (lane && part.slot !== undefined)
        this.#slots.giveBack(this.messages.keyOf(lane.session), lane.user, part.slot)
      this.endPart(part.id, 'refused', reason)
    }
    return waiting
  }

  /**
   * An entry of which nothing waits has ended: it goes, unless it answers for a key, or was queued and may be asked for.
   *
   * @param count the answers to its user, if that is known
   * @returns it as it stands
   */
  close(id: number, count?: Counter): Entry | undefined {
    const entry = this.entry(id)
    if (!entry || entry.ended) return entry
    if (entry.parts.some(({ status }) => open.has(status))) return entry
    const counter = count ?? this.#lanes.lane(entry.parts[0]?.lane ?? 0)?.counter
    const sentNothing = entry.parts.every(({ status }) => status === 'refused')
    if (entry.mode === 'fail' && (!entry.keyed || sentNothing)) this.remove(id)
    else {
      this.db.run`UPDATE outbox SET ended_at = ${this.clock.now()}, used = ${counter?.used ?? 0},
        received_at = ${counter?.received_at ?? null} WHERE id = ${id}`
      this.db.run`UPDATE outbox_part SET file = NULL, text = '""', raw = ''
        WHERE id >= ${partId(id, 0)} AND id < ${partId(id + 1, 0)}`
    }
    return { ...entry, ended: true, ...(counter && { counter }) }
  }

  remove(id: number): void {
    this.db.run`DELETE FROM outbox_part WHERE id >= ${partId(id, 0)} AND id < ${partId(id + 1, 0)}`
    this.db.run`DELETE FROM outbox WHERE id = ${id}`
  }

  /** Names of the kept files that are still needed. */
  files(): string[] {
    const rows = this.db.all<{ file: string }>`SELECT file FROM outbox_part WHERE file IS NOT NULL
      AND status IN ('asked', 'queued', 'sending')`
    return rows.map(({ file }): KeptFile => JSON.parse(file)).map(({ name }) => name)
  }
}

/** Nothing has become of these yet. */
const open: ReadonlySet<EntryPart['status']> = new Set(['asked', 'queued', 'sending'])

type EntryRow = Row & { mode: SendMode; asked: SendMode | null }

function entryOf(row: EntryRow, parts: EntryPart[]): Entry {
  const ended = row.ended_at !== null
  return {
    ...{ id: Number(row.id), session: String(row.name ?? ''), user: String(row.peer ?? '') },
    mode: row.mode,
    content: String(row.content ?? ''),
    ...(row.key !== null && { keyed: true }),
    ...(row.asked !== null && !ended && { asked: row.asked }),
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

/** `error` and `file` are JSON. */
export type PartRow = Row & Pick<EntryPart, 'kind' | 'msg_type' | 'status'>

export function partOf(row: PartRow): EntryPart {
  const error: EndReason | null = row.error === null ? null : JSON.parse(String(row.error))
  const file: KeptFile | null = row.file === null ? null : JSON.parse(String(row.file))
  return {
    ...{ id: Number(row.id), entry: Number(row.entry), lane: Number(row.lane) },
    kind: row.kind,
    msg_type: row.msg_type,
    status: row.status,
    tries: Number(row.tries),
    ...(row.message !== null && { message: Number(row.message) }),
    ...(row.message_id !== null && { message_id: String(row.message_id) }),
    ...(error && { error }),
    ...(row.slot !== null && { slot: Number(row.slot) }),
    text: JSON.parse(String(row.text)),
    ...(file && { file }),
    raw: String(row.raw),
  }
}
