/** The outbox of the engine in memory. */
import {
  admit,
  type Hold,
  isDue,
  type SendFacts,
  type SendRules,
  type Verdict,
} from '../../src/model/admission.ts'
import { SvcError } from '../../src/model/error.ts'
import { type Counter, countNow, sessionKey } from '../../src/model/session.ts'
import type { Clock } from '../../src/platform/clock.ts'
import type { SentMessage } from '../../src/storage/messages.ts'
import type * as face from '../../src/storage/outbox.ts'
import { type Row, type SessionName, type Tables, wellFormed } from './memory-store.ts'

interface Lane extends Omit<face.Lane, 'session'> {
  session: SessionName
  owner?: object
  until: number
}
interface Part extends face.EntryPart {
  botId: string
  owner?: object
  beganAt?: number
}
interface Entry extends Omit<face.Entry, 'parts' | 'session' | 'user' | 'ended'> {
  lane: Lane
  key?: string
  owner: object
  endedAt?: number
  parts: Part[]
}

export interface OutboxTables {
  readonly outbox: {
    entries: Entry[]
    readonly lanes: Lane[]
    slots: { session: SessionName; user: string; at: number }[]
    last: number
  }
}

const dayMs = 24 * 60 * 60_000
const [queueMs, callMs, leaseMs] = [7 * dayMs, 10 * 60_000, 60_000]
const isOpen = ({ status }: face.EntryPart) => ['asked', 'queued', 'sending'].includes(status)
const stopped = { code: 'upstream_error', detail: 'svc was stopped while it was sent' }

export class MemoryOutbox implements face.Calls, face.Lanes, face.Entries, face.OutboxCare {
  readonly #all: Tables
  readonly #clock: Clock
  readonly #open: () => Tables
  /** This process, as it were. */
  readonly #me = {}

  constructor(tables: Tables, clock: Clock, open: () => Tables) {
    this.#all = tables
    this.#clock = clock
    this.#open = open
  }

  get #tables() {
    return this.#open().outbox
  }

  // What the rest of the engine tells and asks.

  wrote(session: SessionName, user: string, at: number): void {
    const lane = this.#tables.lanes.find(one => one.session === session && one.user === user)
    if (lane && (lane.counter.received_at ?? Number.NEGATIVE_INFINITY) < at)
      lane.counter = { ...lane.counter, received_at: at, used: 0 }
  }

  forget(session: SessionName): void {
    for (const lane of this.#tables.lanes)
      if (lane.session === session) {
        Object.assign(lane, { counter: { used: 0 }, not_before: 0, failures: 0 })
        delete lane.hold
      }
  }

  open(): number[] {
    return this.#parts(isOpen).flatMap(part => part.message ?? [])
  }

  #parts(wanted: (part: Part, entry: Entry) => boolean): Part[] {
    return this.#tables.entries.flatMap(entry => entry.parts.filter(part => wanted(part, entry)))
  }

  #row = (part: face.EntryPart): Row | undefined => this.#all.rows.find(row => row.id === part.message)

  #lane(session: SessionName, user: string): Lane {
    const known = this.#tables.lanes.find(one => one.session === session && one.user === user)
    if (known) return known
    const id = this.#tables.lanes.length + 1
    const lane: Lane = { id, session, user, counter: { used: 0 }, not_before: 0, failures: 0, until: 0 }
    this.#tables.lanes.push(lane)
    return lane
  }

  #shownLane({ owner: _, until: _until, session, ...lane }: Lane): face.Lane {
    return structuredClone({ ...lane, session: session.name })
  }

  #shown({ lane, key, owner: _, endedAt, parts, ...entry }: Entry): face.Entry {
    const told = parts.map(({ botId: _bot, owner: _owner, beganAt: _at, ...part }) => part)
    const { asked, counter, ...rest } = entry
    return structuredClone({
      ...{ ...rest, session: lane.session.name, user: lane.user, ended: endedAt !== undefined, parts: told },
      ...(key !== undefined && { keyed: true as const }),
      ...(asked && endedAt === undefined && { asked }),
      ...(endedAt !== undefined && counter && { counter }),
    })
  }

  /** Slots that count, as the admission asks for them. */
  #slots(session: SessionName, user: string, { pace, patienceMs }: SendRules): SendFacts['slots'] {
    if (pace === 'off') return { user: [] }
    const now = this.#clock.now()
    const counted = this.#tables.slots.filter(one => one.session === session && one.at <= now + patienceMs)
    const own = counted.filter(one => one.user === user && one.at > now - pace.windowMs).map(({ at }) => at)
    return {
      ...(counted.length > 0 && { last: Math.max(...counted.map(({ at }) => at)) }),
      user: Number.isFinite(pace.perWindow) ? own.sort((a, b) => a - b).slice(-pace.perWindow) : [],
    }
  }

  #take({ session, user }: Lane, at: number | undefined, { pace, patienceMs }: SendRules): void {
    if (at === undefined || pace === 'off') return
    const now = this.#clock.now()
    this.#tables.slots = this.#tables.slots.filter(
      one => one.session !== session || one.at <= now + patienceMs,
    )
    this.#tables.slots.push({ session, user, at })
  }

  #giveBack({ session, user }: Lane, at: number | undefined): void {
    const nth = this.#tables.slots.findIndex(
      one => one.session === session && one.user === user && one.at === at,
    )
    if (nth >= 0) this.#tables.slots.splice(nth, 1)
  }

  #facts(lane: Lane, { context, rules }: face.Terms, ahead: Part[], slot?: number): SendFacts {
    const now = this.#clock.now()
    const { received_at, used } = countNow(context, lane.counter, now)
    const unslotted = ahead.filter(part => part.slot === undefined).length
    return {
      ...{ now, receivedAt: received_at, used, ahead: { messages: ahead.length, unslotted } },
      ...{ hold: lane.hold, slots: this.#slots(lane.session, lane.user, rules), slot },
    }
  }

  #ahead = (lane: Lane) =>
    this.#parts(part => part.lane === lane.id && part.status === 'queued' && part.message === undefined)

  #count(lane: Lane, { context }: face.Terms): Counter {
    const now = this.#clock.now()
    const before = countNow(context, lane.counter, now)
    const counter = { ...before, used: before.used + 1 }
    lane.counter = { ...counter, last_sent_at: now }
    return counter
  }

  #write(part: Part, lane: Lane, botId: string, message: SentMessage, status: 'queued' | 'sending'): void {
    const { client_id, msg_type, raw, text, timestamp, to_user } = message
    const content = {
      message_id: `local:${client_id}`,
      bot_id: botId,
      status,
      timestamp,
      raw,
      text: wellFormed(text),
    }
    const row = this.#row(part)
    if (row) {
      this.#all.call(row, content.message_id)
      Object.assign(row, content, { from_user: botId })
      for (const field of ['reason', 'reason_code', 'sent_with'] as const) delete row[field]
      this.#changed(row)
      return
    }
    const rest = {
      session: lane.session,
      direction: 'sent',
      from_user: botId,
      peer: to_user,
      msg_type,
    } as const
    const inserted = this.#all.insert({ ...content, ...rest, stored_at: this.#clock.now() })
    part.message = inserted.id
    this.#changed(inserted)
  }

  #changed({ id: message, status }: Row): void {
    this.#all.happened({ type: 'message.status', at: this.#clock.now(), message, status: status! })
  }

  #begun(lane: Lane, parts: Part[], counter: Counter, slot: number | undefined): face.Begun {
    for (const [nth, part] of parts.entries()) {
      Object.assign(part, { status: 'sending', owner: this.#me, beganAt: this.#clock.now() })
      if (nth === 0 && slot !== undefined) part.slot = slot
      else delete part.slot
    }
    this.#all.wake()
    return structuredClone({
      ...{ lane: lane.id, parts: parts.map(({ id }) => id), row: parts[0]!.message!, counter },
      ...{
        tries: parts[0]!.tries,
        ...(lane.hold && { hold: lane.hold }),
        ...(slot !== undefined && { slot }),
      },
    })
  }

  async enqueue(entry: face.NewEntry, terms: face.Terms, first?: SentMessage): Promise<face.Enqueued> {
    const { asked, bot_id: botId, mode, key, content = '', parts, user } = entry
    const known = key === undefined ? undefined : await this.keyed(key)
    if (known) return { state: 'known', entry: known }
    const lane = this.#lane(this.#all.session(entry.session), user)
    const unsent = (part: Part, { mode }: Entry) => part.lane === lane.id && mode === 'queue' && isOpen(part)
    const behind =
      mode === 'queue' ? this.#parts((part, one) => unsent(part, one) && part.status !== 'asked').length : 0
    const waitsForYes = this.#tables.entries.filter(
      one => one.asked && one.endedAt === undefined && one.lane.session === lane.session,
    )
    if (behind + parts.length > 1000 || (asked && waitsForYes.length >= 100))
      throw new SvcError('quota_exhausted', 'too much waits already')
    const verdict: Verdict | 'behind' =
      behind > 0 ? 'behind' : admit(this.#facts(lane, terms, this.#ahead(lane)), parts.length, terms.rules)
    if (mode === 'fail' && verdict !== 'behind' && verdict.go === 'no') return { state: 'closed', verdict }
    const id = ++this.#tables.last
    const now = this.#clock.now()
    const written: Entry = {
      ...{ id, lane, mode, owner: this.#me, content, created_at: now, ...(asked && { asked }) },
      expires_at: now + (asked ? dayMs : mode === 'fail' ? callMs : queueMs),
      ...(key !== undefined && { key }),
      parts: parts.map(({ kind, waiting }, nth): Part => {
        const { msg_type = 'TEXT', text = '', raw = '' } = waiting?.message ?? {}
        const status = asked ? 'asked' : 'queued'
        const part: Part = {
          id: id * 1000 + nth,
          entry: id,
          lane: lane.id,
          kind,
          msg_type,
          status,
          tries: 0,
          text,
          raw,
          botId,
        }
        if (waiting?.file) part.file = waiting.file
        return part
      }),
    }
    this.#tables.entries.push(written)
    const begins = first !== undefined && verdict !== 'behind' && verdict.go === 'now'
    for (const [nth, { waiting }] of parts.entries()) {
      const part = written.parts[nth]!
      const message = begins && nth === 0 ? first : waiting?.message
      if (message) this.#write(part, lane, botId, message, begins && nth === 0 ? 'sending' : 'queued')
      if (asked)
        Object.assign(this.#row(part)!, { reason_code: 'approval', reason: 'waits for a person to say yes' })
    }
    const result = { state: 'new' as const, lane: lane.id, verdict }
    this.#all.wake()
    if (!begins) return { ...result, entry: this.#shown(written) }
    this.#take(lane, verdict.slot, terms.rules)
    const begun = this.#begun(lane, written.parts.slice(0, 1), this.#count(lane, terms), verdict.slot)
    return { ...result, entry: this.#shown(written), begun }
  }

  async keyed(key: string): Promise<face.Entry | undefined> {
    const now = this.#clock.now()
    const entry = this.#tables.entries.find(one => one.key === key)
    if (!entry) return undefined
    if (entry.mode === 'fail' && entry.endedAt === undefined && entry.expires_at <= now) this.#die(entry)
    if (!this.#tables.entries.includes(entry)) return undefined
    const called = entry.mode === 'fail' ? entry.endedAt : entry.created_at
    if (called === undefined || now - called < dayMs) return this.#shown(entry)
    if (entry.mode === 'queue') delete entry.key
    else this.#remove(entry)
    return undefined
  }

  async verdict(session: string, user: string, count: number, terms: face.Terms) {
    const lane = this.#tables.lanes.find(one => one.session.name === session && one.user === user)
    const nobody = { session: this.#all.known(session), user, counter: { used: 0 } } as Lane
    return admit(this.#facts(lane ?? nobody, terms, lane ? this.#ahead(lane) : []), count, terms.rules)
  }

  async begin(
    ids: readonly number[],
    botId: string,
    terms: face.Terms,
    message: SentMessage,
  ): Promise<face.Began> {
    const parts = ids.flatMap(id => this.#parts(part => part.id === id))
    const entry = this.#tables.entries.find(one => one.id === parts[0]?.entry)
    if (!entry || parts.length < ids.length || parts.some(({ status }) => status !== 'queued'))
      return { go: 'gone' }
    const { lane } = entry
    if (entry.mode === 'fail' ? entry.owner !== this.#me : !(await this.claim(lane.id))) return { go: 'gone' }
    const { slot } = parts[0]!
    const due = slot !== undefined && isDue(slot, this.#clock.now())
    if (slot !== undefined && !due) this.#giveBack(lane, slot)
    const verdict = admit(this.#facts(lane, terms, [], slot), 1, terms.rules)
    const kept = due && verdict.go === 'now'
    if (due && !kept) this.#giveBack(lane, slot)
    if (verdict.go === 'no') return verdict
    if (!kept) this.#take(lane, verdict.slot, terms.rules)
    if (verdict.go === 'later') {
      parts[0]!.slot = verdict.slot
      return verdict
    }
    const counter = this.#count(lane, terms)
    for (const [nth, part] of parts.entries()) {
      const { text, raw } = part
      const own = nth === 0 ? message : { ...message, client_id: `${message.client_id}+${nth}`, text, raw }
      this.#write(part, lane, botId, own, 'sending')
      if (nth > 0) this.#row(part)!.sent_with = `local:${message.client_id}`
    }
    return { go: 'begun', begun: this.#begun(lane, parts, counter, verdict.slot) }
  }

  #settleRow(
    id: number | undefined,
    status: Row['status'],
    error?: face.EndReason,
    messageId?: string,
  ): void {
    const row = this.#all.rows.find(one => one.id === id)
    if (!row) return
    const isNews = row.status !== status || row.reason_code !== error?.code
    Object.assign(row, { status, reason: error?.detail, reason_code: error?.code })
    if (!error) for (const field of ['reason', 'reason_code'] as const) delete row[field]
    if (messageId !== undefined && !this.#all.find(messageId)) this.#all.call(row, messageId)
    if (isNews) this.#changed(row)
    this.#all.wake()
  }

  #end(part: Part, status: Part['status'], error?: face.EndReason): void {
    part.status = status
    if (error) part.error = error
    else delete part.error
  }

  async settle(begun: face.Begun, settlement: face.Settlement): Promise<face.Settled> {
    const { status, message_id, error, rest, hold, spent, unseen } = settlement
    const found = this.#parts(part => begun.parts.includes(part.id))
    const parts = found.filter(part => part.status === 'sending')
    const lane = this.#tables.lanes.find(one => one.id === begun.lane)!
    if (status !== 'queued') {
      this.#settleRow(begun.row, status, error, message_id)
      for (const part of parts.slice(1)) this.#settleRow(part.message, status, error)
      for (const part of parts.slice(1)) if (message_id !== undefined) this.#row(part)!.sent_with = message_id
    }
    for (const part of parts) {
      this.#end(part, status, error)
      if (status !== 'queued' && message_id !== undefined) part.message_id = message_id
      if (status !== 'queued') continue
      const { id, kind: _, msg_type, raw, text } = part
      const again = {
        client_id: `queued-${id}`,
        to_user: lane.user,
        timestamp: this.#clock.now(),
        msg_type,
        text,
        raw,
      }
      this.#write(part, lane, part.botId, again, 'queued')
      delete part.slot
      if (spent) part.tries += 1
    }
    if (!spent) {
      if (unseen) this.#giveBack(lane, begun.slot)
      if (lane.counter.received_at === begun.counter.received_at)
        lane.counter = { ...begun.counter, used: Math.max(0, lane.counter.used - 1) }
    }
    if (hold === null) delete lane.hold
    else if (hold) lane.hold = hold
    const files = status === 'queued' ? [] : parts.flatMap(part => part.file ?? [])
    const entries = this.#tables.entries.filter(one => found.some(part => part.entry === one.id))
    if (rest && entries[0]) files.push(...this.#endWaiting(entries[0], rest).flatMap(part => part.file ?? []))
    return { entries: entries.map(entry => this.#close(entry)), files: structuredClone(files) }
  }

  #endWaiting(entry: Entry, reason: face.EndReason): Part[] {
    const waiting = entry.parts.filter(({ status }) => status === 'queued' || status === 'asked')
    for (const part of waiting) {
      this.#settleRow(part.message, 'refused', reason)
      if (part.slot !== undefined) this.#giveBack(entry.lane, part.slot)
      this.#end(part, 'refused', reason)
    }
    return structuredClone(waiting)
  }

  #remove(entry: Entry): void {
    this.#tables.entries = this.#tables.entries.filter(one => one !== entry)
  }

  #close(entry: Entry): face.Entry {
    if (entry.endedAt !== undefined || entry.parts.some(isOpen)) return this.#shown(entry)
    entry.counter = entry.lane.counter
    entry.endedAt = this.#clock.now()
    const shown = this.#shown(entry)
    const { used, received_at } = entry.lane.counter
    entry.counter = { used, ...(received_at !== undefined && { received_at }) }
    const sentNothing = entry.parts.every(({ status }) => status === 'refused')
    if (entry.mode === 'fail' && (entry.key === undefined || sentNothing)) this.#remove(entry)
    for (const part of entry.parts) {
      Object.assign(part, { text: '', raw: '' })
      delete part.file
    }
    return shown
  }

  #die(entry: Entry): void {
    for (const part of entry.parts) if (part.status === 'sending') this.#unknown(part)
    this.#endWaiting(entry, { code: 'shutting_down', detail: 'svc was stopped before it was sent' })
    this.#close(entry)
  }

  #unknown(part: Part): void {
    this.#settleRow(part.message, 'unknown', stopped)
    this.#end(part, 'unknown', stopped)
  }

  async end(id: number, reason: face.EndReason, only?: face.SendMode): Promise<face.EndedEntry | undefined> {
    const entry = this.#tables.entries.find(one => one.id === id)
    if (!entry || (only && (entry.mode !== only || entry.endedAt !== undefined))) return undefined
    const ended = this.#endWaiting(entry, reason)
    return { entry: this.#close(entry), ended: ended.length, files: ended.flatMap(part => part.file ?? []) }
  }

  async approve(id: number, terms: face.Terms): Promise<face.Approved | undefined> {
    const entry = this.#tables.entries.find(one => one.id === id)
    if (!entry?.asked || entry.endedAt !== undefined || entry.expires_at <= this.#clock.now())
      return undefined
    const verdict = await this.verdict(entry.lane.session.name, entry.lane.user, entry.parts.length, terms)
    if (entry.asked === 'fail' && verdict.go === 'no') return { state: 'closed', verdict }
    if (entry.asked === 'queue') entry.expires_at = entry.created_at + queueMs
    delete entry.asked
    for (const part of entry.parts) {
      part.status = 'queued'
      this.#settleRow(part.message, 'queued')
    }
    return { state: 'approved', lane: entry.lane.id }
  }

  async lanes() {
    const waits = ({ id }: Lane) =>
      this.#parts(part => part.lane === id && part.status === 'queued' && part.message !== undefined).length >
      0
    return this.#tables.lanes.filter(waits).map(lane => this.#shownLane(lane))
  }

  async lane(id: number) {
    const lane = this.#tables.lanes.find(one => one.id === id)
    return lane && this.#shownLane(lane)
  }

  async next(lane: number) {
    const waits = (part: Part) => part.lane === lane && part.status === 'queued' && part.message !== undefined
    return structuredClone(
      this.#parts(waits)
        .slice(0, 100)
        .map(({ owner: _, ...part }) => part),
    )
  }

  async claim(id: number) {
    const lane = this.#tables.lanes.find(one => one.id === id)
    const left = (lane?.until ?? 0) - this.#clock.now()
    if (!lane || (lane.owner && lane.owner !== this.#me && left > 0 && left <= 2 * leaseMs)) return false
    Object.assign(lane, { owner: this.#me, until: this.#clock.now() + leaseMs })
    return true
  }

  async release(id: number) {
    const lane = this.#tables.lanes.find(one => one.id === id)
    if (lane?.owner === this.#me) delete lane.owner
  }

  async later(id: number, not_before: number, failures: number) {
    Object.assign(this.#tables.lanes.find(one => one.id === id) ?? {}, { not_before, failures })
  }

  async entry(id: number) {
    const entry = this.#tables.entries.find(one => one.id === id)
    return entry && this.#shown(entry)
  }

  async list({ user_id, session }: { user_id?: string; session?: string } = {}) {
    return this.#tables.entries
      .filter(one => one.mode === 'queue' && one.endedAt === undefined)
      .filter(({ lane }) => user_id === undefined || lane.user === user_id)
      .filter(({ lane }) => session === undefined || sessionKey(lane.session.name) === sessionKey(session))
      .map(entry => this.#shown(entry))
  }

  async depth() {
    const waiting = await this.list()
    const messages = waiting.flatMap(({ parts }) => parts).filter(({ status }) => status === 'queued').length
    const oldest = waiting[0]?.created_at
    return { messages, ...(oldest !== undefined && { oldest_at: oldest }) }
  }

  async counters(session: string, user?: string) {
    const known = this.#all.known(session)
    const own = this.#tables.lanes.filter(
      one => one.session === known && (user === undefined || one.user === user),
    )
    return new Map(own.map(lane => [lane.user, structuredClone(lane.counter)]))
  }

  async files() {
    return this.#parts(isOpen).flatMap(({ file }) => file?.name ?? [])
  }

  async renew(id: number) {
    const entry = this.#tables.entries.find(one => one.id === id)
    if (entry?.mode === 'fail') entry.expires_at = this.#clock.now() + callMs
  }

  async refuse(ids: readonly number[], lane: number, hold: Hold) {
    for (const part of this.#parts(one => ids.includes(one.id))) part.tries += 1
    Object.assign(this.#tables.lanes.find(one => one.id === lane) ?? {}, { hold })
  }

  async expire(reason: face.EndReason, unasked: face.EndReason) {
    const over = this.#tables.entries.filter(
      one => one.mode === 'queue' && one.endedAt === undefined && one.expires_at <= this.#clock.now(),
    )
    const ended = await Promise.all(over.map(one => this.end(one.id, one.asked ? unasked : reason)))
    return ended.filter(one => one !== undefined && one.ended > 0) as face.EndedEntry[]
  }

  async reap(before: number) {
    const lost = this.#parts(part => part.status === 'sending' && (part.beganAt ?? 0) < before)
    for (const part of lost) this.#unknown(part)
    for (const entry of this.#tables.entries.filter(one => lost.some(part => part.entry === one.id)))
      this.#close(entry)
    const now = this.#clock.now()
    for (const entry of this.#tables.entries)
      if (entry.mode === 'fail' && entry.endedAt === undefined && before > 0 && entry.expires_at <= now)
        this.#die(entry)
    return lost.length
  }

  async prune() {
    const now = this.#clock.now()
    for (const entry of this.#tables.entries)
      if (entry.mode === 'queue' && entry.created_at <= now - dayMs) delete entry.key
    const stays = ({ created_at, endedAt, key, mode }: Entry) =>
      endedAt === undefined ||
      (mode === 'queue' ? created_at > now - queueMs : key !== undefined && endedAt > now - dayMs)
    this.#tables.entries = this.#tables.entries.filter(stays)
  }
}
