/**
 * Calls of send, from the first word on disk to the last: each is an entry, whether it goes at once or waits for its
 * user.
 *
 * An entry of mode `fail` belongs to the process that its caller waits in: nobody else sends it, and it ends with its
 * owner. One of mode `queue` goes out from whichever process holds its lane. A part is `sending` before the network
 * hears of it; when its sender dies then, it is unknown and never begun again.
 *
 * Every method that writes is to be called inside a transaction.
 */
import {
  admit,
  type Closed,
  type Hold,
  isDue,
  type SendFacts,
  type SendRules,
  type Verdict,
} from '../model/admission.ts'
import { SvcError } from '../model/error.ts'
import type { SentStatus } from '../model/message.ts'
import { type Counter, countNow } from '../model/session.ts'
import type { Clock } from '../platform/clock.ts'
import type { Database } from '../platform/sqlite.ts'
import type { ClockTrust } from './clock-trust.ts'
import {
  type EndReason,
  Entries,
  type Entry,
  type EntryPart,
  type KeptFile,
  partOf,
  type SendMode,
} from './entries.ts'
import { type Lane, Lanes } from './lanes.ts'
import type { Messages, SentMessage } from './messages.ts'
import type { Owner } from './owner.ts'
import { Slots } from './slots.ts'

export interface NewEntry {
  session: string
  bot_id: string
  user: string
  mode: SendMode
  key?: string
  content?: string
  parts: readonly NewPart[]
}

/** One message of a new entry. */
export interface NewPart {
  kind: EntryPart['kind']
  /** Of one that may wait: all that its sender, whoever that is, needs. */
  waiting?: { file?: KeptFile; message: SentMessage }
}

/** The right to answer a user as its sender knows it, and the rules it keeps. */
export interface Terms {
  context: Counter
  rules: SendRules
}

/** A message that may be out from now on. */
export interface Begun {
  lane: number
  /** Ids of the parts that go as this message. */
  parts: number[]
  /** Row id in the log. */
  row: number
  /** With this message counted. */
  counter: Counter
  hold?: Hold
  tries: number
  slot?: number
}

export type Enqueued =
  /** `behind`: others wait for that user already. */
  | { state: 'new'; entry: Entry; lane: number; verdict: Verdict | 'behind'; begun?: Begun }
  /** Nothing was written. */
  | { state: 'closed'; verdict: Closed }
  /** An earlier call has the key. */
  | { state: 'known'; entry: Entry }

/** `gone`: not ours to send any more, since it ended or another process has the lane. */
export type Began = { go: 'begun'; begun: Begun } | { go: 'gone' } | Exclude<Verdict, { go: 'now' }>

/** What became of a message that was begun. */
export interface Settlement {
  /** `queued`: it certainly did not go out, and waits again. */
  status: SentStatus
  message_id?: string
  error?: EndReason
  /** Whether it may have cost an answer. */
  spent: boolean
  /** WeChat saw nothing of it. */
  unseen?: boolean
  /** The other parts of its entry end so. */
  rest?: EndReason
  /** The lane's hold from now on; null ends it. */
  hold?: Hold | null
}

/** What waits has waited long enough after this. */
const queueLifeMs = 7 * 24 * 60 * 60_000
/** A call that has shown no progress for so long is over, where its process cannot be asked. */
const callLifeMs = 10 * 60_000
/** A key is known for this long after its call. */
const keyLifeMs = 24 * 60 * 60_000
/** Messages that may wait for one user. */
const laneLimit = 1000
/** Parts looked at for one message to send. */
const lookahead = 100

const stoppedBefore: EndReason = { code: 'shutting_down', detail: 'svc was stopped before it was sent' }
const stoppedWhile: EndReason = {
  code: 'upstream_error',
  detail: 'svc was stopped while it was sent; it may have arrived',
  hint: 'Do not send it again before you know: ask the user, or look at the phone.',
}

interface Tools {
  messages: Messages
  clock: Clock
  owner: Owner
  calendar: ClockTrust
}

export class Outbox {
  readonly lanes: Lanes
  readonly entries: Entries
  readonly #db: Database
  readonly #tools: Tools
  readonly #slots: Slots

  constructor(db: Database, tools: Tools) {
    const { clock, messages, owner } = tools
    this.#db = db
    this.#tools = tools
    this.#slots = new Slots(db, clock)
    this.lanes = new Lanes(db, messages, clock, owner)
    this.entries = new Entries(db, clock, messages, this.lanes, this.#slots)
  }

  /**
   * Writes a call down, unless its key is taken or, with mode `fail`, admission says no. Where it may go now its first
   * part begins as `first`, if that is given.
   *
   * @throws SvcError `quota_exhausted` when too much waits for that user already
   */
  enqueue(entry: NewEntry, terms: Terms, first?: SentMessage): Enqueued {
    const { messages } = this.#tools
    const { mode, parts } = entry
    const known = entry.key === undefined ? undefined : this.keyed(entry.key)
    if (known) return { state: 'known', entry: known }
    const session = messages.keyOf(entry.session)
    const lane = this.lanes.of(session, entry.user)
    const behind = mode === 'queue' ? this.entries.unsent(lane.id) : 0
    if (behind + parts.length > laneLimit) throw tooMany(behind)
    const facts = this.#facts(lane, session, terms, this.#ahead(lane.id))
    const verdict: Verdict | 'behind' = behind > 0 ? 'behind' : admit(facts, parts.length, terms.rules)
    if (mode === 'fail' && verdict !== 'behind' && verdict.go === 'no') return { state: 'closed', verdict }
    const written = this.#insert(entry, session, lane)
    const result = { state: 'new' as const, entry: written, lane: lane.id, verdict }
    if (first === undefined || verdict === 'behind' || verdict.go !== 'now') return result
    if (verdict.slot !== undefined) this.#slots.take(session, lane.user, verdict.slot, terms.rules)
    const begun = this.#begin(lane, session, written.parts.slice(0, 1), {
      ...{ botId: entry.bot_id, terms, message: first },
      ...(verdict.slot !== undefined && { slot: verdict.slot }),
    })
    return { ...result, begun }
  }

  #insert({ bot_id, mode, key, content = '', parts }: NewEntry, session: number, lane: Lane): Entry {
    const { clock, messages, owner } = this.#tools
    const created_at = clock.now()
    const expires_at = created_at + (mode === 'fail' ? callLifeMs : queueLifeMs)
    const { lastInsertRowid: id } = this.#db.run`INSERT INTO outbox (lane, mode, owner, key, content,
      created_at, expires_at)
      VALUES (${lane.id}, ${mode}, ${mode === 'fail' ? owner.name : null}, ${key ?? null}, ${content},
      ${created_at}, ${expires_at})`
    const written = parts.map(({ kind, waiting }): EntryPart => {
      const message = waiting && messages.insertOut(session, bot_id, waiting.message, 'queued')
      const { msg_type = 'TEXT', text = '', raw = '' } = waiting?.message ?? {}
      // Text as JSON: SQLite keeps neither NUL nor lone surrogates.
      const { lastInsertRowid } = this.#db.run`INSERT INTO outbox_part (entry, lane, kind, msg_type, status,
        message, file, text, raw)
        VALUES (${id}, ${lane.id}, ${kind}, ${msg_type}, 'queued', ${message ?? null},
        ${waiting?.file ? JSON.stringify(waiting.file) : null}, ${JSON.stringify(text)}, ${raw})`
      return {
        ...{ id: lastInsertRowid, entry: id, lane: lane.id, kind, msg_type, status: 'queued', tries: 0 },
        ...{ text, raw },
        ...(message !== undefined && { message }),
        ...(waiting?.file && { file: waiting.file }),
      }
    })
    const { session: name, user } = lane
    return {
      ...{ id, session: name, user, mode, content, created_at, expires_at, ended: false },
      parts: written,
    }
  }

  /** Whether a message to that user may go now; nothing is taken, and nothing written. */
  verdict(session: string, user: string, count: number, terms: Terms): Verdict {
    const { messages } = this.#tools
    const key = messages.knownKey(session)
    const lane = key === undefined ? undefined : this.lanes.find(key, user)
    const ahead = lane ? this.#ahead(lane.id) : nobody
    return admit(this.#facts(lane ?? { user }, key, terms, ahead), count, terms.rules)
  }

  /** From here on these parts may have gone out, as one message; if admission says so. `later`: the slot is taken. */
  begin(ids: readonly number[], botId: string, terms: Terms, message: SentMessage): Began {
    const { messages, owner } = this.#tools
    const parts = ids.flatMap(id => this.entries.part(id) ?? [])
    const entry = parts[0] && this.#db.get`SELECT mode, owner FROM outbox WHERE id = ${parts[0].entry}`
    const lane = parts[0] && this.lanes.get(parts[0].lane)
    const waits = parts.length === ids.length && parts.every(({ status }) => status === 'queued')
    if (!entry || !lane || !waits) return { go: 'gone' }
    if (entry.mode === 'fail' ? entry.owner !== owner.name : !this.lanes.claim(lane.id)) return { go: 'gone' }
    const session = messages.keyOf(lane.session)
    const slot = parts[0]!.slot
    const due = slot !== undefined && isDue(slot, this.#tools.clock.now())
    // A slot that was missed is in nobody's way.
    if (slot !== undefined && !due) this.#slots.giveBack(session, lane.user, slot)
    const verdict = admit(this.#facts(lane, session, terms, nobody, slot), 1, terms.rules)
    const kept = due && verdict.go === 'now'
    if (due && !kept) this.#slots.giveBack(session, lane.user, slot)
    if (verdict.go === 'no') return verdict
    if (verdict.slot !== undefined && !kept) this.#slots.take(session, lane.user, verdict.slot, terms.rules)
    if (verdict.go === 'later') {
      this.#db.run`UPDATE outbox_part SET slot = ${verdict.slot} WHERE id = ${ids[0]!}`
      return verdict
    }
    const how = { botId, terms, message, ...(verdict.slot !== undefined && { slot: verdict.slot }) }
    return { go: 'begun', begun: this.#begin(lane, session, parts, how) }
  }

  #begin(
    lane: Lane,
    session: number,
    parts: readonly EntryPart[],
    { botId, terms, message, slot }: { botId: string; terms: Terms; message: SentMessage; slot?: number },
  ): Begun {
    const { clock, messages, owner } = this.#tools
    const now = clock.now()
    const before = countNow(terms.context, lane.counter, now)
    const counter = { ...before, used: before.used + 1 }
    this.lanes.count(lane.id, counter)
    const rows = parts.map((part, nth) => {
      // The first one's row becomes the message as it goes out; the others say which one that is.
      const own: SentMessage =
        nth === 0
          ? message
          : { ...message, client_id: `${message.client_id}+${nth}`, text: part.text, raw: part.raw }
      // Retention may have taken the row.
      const known = part.message !== undefined && messages.rewrite(part.message, botId, own, 'sending')
      const row = known ? part.message! : messages.insertOut(session, botId, own, 'sending')
      if (nth > 0) messages.noteCarrier(row, `local:${message.client_id}`)
      this.#db.run`UPDATE outbox_part SET status = 'sending', message = ${row},
        slot = ${nth === 0 ? (slot ?? null) : null}, owner = ${owner.name}, began_at = ${now}
        WHERE id = ${part.id}`
      return row
    })
    return {
      ...{ lane: lane.id, parts: parts.map(({ id }) => id), row: rows[0]!, counter },
      ...(lane.hold && { hold: lane.hold }),
      tries: parts[0]!.tries,
      ...(slot !== undefined && { slot }),
    }
  }

  /** @returns the entries of the message's parts as they stand then, and files that nobody needs any more */
  settle(begun: Begun, settlement: Settlement): Settled {
    const { messages } = this.#tools
    const { status, message_id, error, rest, hold } = settlement
    const found = begun.parts.flatMap(id => this.entries.part(id) ?? [])
    // Taken for abandoned meanwhile: the caller has been told so.
    const parts = found.filter(part => part.status === 'sending')
    if (status !== 'queued') {
      const settled = { status, ...(error && { reason: error.detail }) }
      messages.settleSent(begun.row, {
        ...settled,
        ...(message_id !== undefined && { messageId: message_id }),
      })
      for (const part of parts.slice(1)) {
        messages.settleSent(part.message!, settled)
        if (message_id !== undefined) messages.noteCarrier(part.message!, message_id)
      }
    }
    for (const part of parts) {
      if (status === 'queued') this.#requeue(part, settlement)
      else this.entries.endPart(part.id, status, error, message_id)
    }
    const counter = this.#settleLane(begun, settlement)
    if (hold !== undefined) this.lanes.hold(begun.lane, hold ?? undefined)
    const files = status === 'queued' ? [] : filesOf(parts)
    if (rest && found[0]) files.push(...filesOf(this.entries.endWaiting(found[0].entry, rest)))
    const ids = [...new Set(found.map(part => part.entry))]
    return { entries: ids.flatMap(id => this.entries.close(id, counter) ?? []), files }
  }

  #settleLane(begun: Begun, { spent, unseen }: Settlement): Counter | undefined {
    const { clock, messages } = this.#tools
    if (spent) return this.lanes.sent(begun.lane, clock.now())
    const lane = this.lanes.get(begun.lane)
    if (!lane) return undefined
    if (unseen && begun.slot !== undefined)
      this.#slots.giveBack(messages.keyOf(lane.session), lane.user, begun.slot)
    // The user wrote meanwhile, which began a new count.
    if (lane.counter.received_at !== begun.counter.received_at) return lane.counter
    const counter = { ...lane.counter, used: Math.max(0, lane.counter.used - 1) }
    this.lanes.count(lane.id, counter)
    return counter
  }

  #requeue(part: EntryPart, { spent, error }: Settlement): void {
    const { clock, messages } = this.#tools
    messages.rewind(part.message!, {
      ...{ client_id: `queued-${part.id}`, text: part.text, timestamp: clock.now(), raw: part.raw },
    })
    this.#db.run`UPDATE outbox_part SET status = 'queued', owner = NULL, slot = NULL,
      tries = tries + ${spent ? 1 : 0}, error = ${error ? JSON.stringify(error) : null}
      WHERE id = ${part.id}`
  }

  /** Parts that wait were refused before they were on their way. */
  refuse(ids: readonly number[], lane: number, hold: Hold): void {
    for (const id of ids) this.#db.run`UPDATE outbox_part SET tries = tries + 1 WHERE id = ${id}`
    this.lanes.hold(lane, hold)
  }

  /**
   * Ends what waits of an entry; what is on its way goes its way.
   *
   * @param only an entry of another mode is no such entry
   * @returns the entry as it stands then, how many messages that were and their files; undefined when there is no such
   *   entry
   */
  end(id: number, reason: EndReason, only?: SendMode): EndedEntry | undefined {
    const found = this.entries.get(id)
    if (!found || (only !== undefined && (found.mode !== only || found.ended))) return undefined
    const ended = this.entries.endWaiting(id, reason)
    return { entry: this.entries.close(id)!, ended: ended.length, files: filesOf(ended) }
  }

  /** Ends what has waited too long. */
  expire(reason: EndReason): EndedEntry[] {
    return this.#db.all`SELECT id FROM outbox WHERE expires_at <= ${this.#tools.clock.now()}
      AND mode = 'queue' AND ended_at IS NULL ORDER BY id`
      .flatMap(({ id }) => this.end(Number(id), reason) ?? [])
      .filter(({ ended }) => ended > 0)
  }

  /** What waits for the user of a lane and may go as one message, and what is behind it. */
  next(lane: number): EntryPart[] {
    return this.entries.waiting(lane, lookahead)
  }

  /** The call still makes progress. */
  renew(id: number): void {
    this.#db.run`UPDATE outbox SET expires_at = ${this.#tools.clock.now() + callLifeMs} WHERE id = ${id}
      AND mode = 'fail'`
  }

  hasKey(key: string): boolean {
    return this.#db.get`SELECT 1 AS found FROM outbox WHERE key = ${key}` !== undefined
  }

  /** The entry that answers for a key. A call that died is told of first; a key whose day is over is free. */
  keyed(key: string): Entry | undefined {
    const { calendar, clock, owner } = this.#tools
    const find = () => this.#db.get`SELECT * FROM outbox WHERE key = ${key}`
    let row = find()
    if (!row) return undefined
    // A clock that was set ahead must not make a call that is repeated send twice.
    const now = calendar.trusted ? clock.now() : Number.NEGATIVE_INFINITY
    if (row.mode === 'fail' && row.ended_at === null) {
      const over = Number(row.expires_at) <= now || owner.isDead(String(row.owner))
      if (over) this.#die(Number(row.id))
      row = over ? find() : row
    }
    if (!row) return undefined
    const id = Number(row.id)
    const called = row.mode === 'fail' ? row.ended_at : row.created_at
    if (called === null || now - Number(called) < keyLifeMs) return this.entries.get(id)
    if (row.ended_at === null) this.#db.run`UPDATE outbox SET key = NULL WHERE id = ${id}`
    else this.entries.remove(id)
    return undefined
  }

  /** Removes what answers for nothing any more. */
  prune(): void {
    const before = this.#tools.clock.now() - keyLifeMs
    this.#db.run`UPDATE outbox SET key = NULL WHERE mode = 'queue' AND created_at <= ${before}`
    const over = this.#db.all`SELECT id FROM outbox WHERE ended_at IS NOT NULL
      AND (key IS NULL OR ended_at <= ${before})`
    for (const { id } of over) this.entries.remove(Number(id))
  }

  /** Messages on their way since before `before` (Unix ms), or of a process that died, and calls that are over so. */
  orphans(before: number): { parts: EntryPart[]; calls: number[] } {
    const { owner } = this.#tools
    const isDead = (row: { owner?: unknown }) => owner.isDead(String(row.owner))
    return {
      parts: this.#db.all`SELECT * FROM outbox_part WHERE status = 'sending'`
        .filter(row => Number(row.began_at) < before || isDead(row))
        .map(partOf),
      calls: this.#db.all`SELECT id, owner, expires_at FROM outbox WHERE mode = 'fail' AND ended_at IS NULL`
        // One that stands still counts for the quota of others; where the clock may be believed it is over.
        .filter(row => isDead(row) || (before > 0 && Number(row.expires_at) <= this.#tools.clock.now()))
        .map(({ id }) => Number(id)),
    }
  }

  /** Tells the fate of those. @returns how many messages are unknown now */
  reap(before: number): number {
    const { parts, calls } = this.orphans(before)
    for (const part of parts) this.#unknown(part)
    for (const id of new Set(parts.map(({ entry }) => entry))) this.entries.close(id)
    for (const id of calls) this.#die(id)
    return parts.length
  }

  #unknown(part: EntryPart): void {
    this.#tools.messages.settleSent(part.message!, { status: 'unknown', reason: stoppedWhile.detail })
    this.entries.endPart(part.id, 'unknown', stoppedWhile)
  }

  /** A call of mode `fail` whose process is gone: what it was sending is unknown, the rest is never sent. */
  #die(id: number): void {
    for (const part of this.entries.get(id)?.parts ?? []) if (part.status === 'sending') this.#unknown(part)
    this.entries.endWaiting(id, stoppedBefore)
    this.entries.close(id)
  }

  /** Messages of mode `fail` that wait for their moment; those of dead processes never will. */
  #ahead(lane: number): SendFacts['ahead'] {
    const rows = this.#db.all`SELECT o.id, o.owner, p.slot
      FROM outbox_part p JOIN outbox o ON o.id = p.entry
      WHERE p.lane = ${lane} AND p.status = 'queued' AND o.mode = 'fail'`.filter(
      row => !this.#tools.owner.isDead(String(row.owner)),
    )
    return { messages: rows.length, unslotted: rows.filter(row => row.slot === null).length }
  }

  #facts(
    lane: Partial<Lane> & { user: string },
    session: number | undefined,
    { context, rules }: Terms,
    ahead: SendFacts['ahead'],
    slot?: number,
  ): SendFacts {
    const now = this.#tools.clock.now()
    const { received_at, used } = countNow(context, lane.counter, now)
    const slots = this.#slots.taken(session, lane.user, rules)
    return { now, receivedAt: received_at, used, ahead, hold: lane.hold, slots, slot }
  }
}

export interface Settled {
  entries: Entry[]
  files: KeptFile[]
}

export interface EndedEntry {
  entry: Entry
  /** How many messages were ended. */
  ended: number
  /** Nobody needs these any more. */
  files: KeptFile[]
}

const nobody = { messages: 0, unslotted: 0 }

const filesOf = (parts: readonly EntryPart[]): KeptFile[] => parts.flatMap(part => part.file ?? [])

const tooMany = (waiting: number) =>
  new SvcError('quota_exhausted', `${waiting} messages wait for this user already`, {
    hint: 'Stop sending; wait until the user writes, or cancel some of them.',
    next: { action: 'see', what: 'outbox' },
  })
