/** The outbox of the engine in memory. */
import {
  admit,
  isDue,
  isFull,
  type SendFacts,
  type SendRules,
  type Verdict,
} from '../../src/model/admission.ts'
import { SvcError } from '../../src/model/error.ts'
import { type Counter, currentCounterOf } from '../../src/model/session.ts'
import type { Clock } from '../../src/platform/clock.ts'
import type { SentMessage } from '../../src/storage/messages.ts'
import * as contract from '../../src/storage/outbox.ts'
import { approvalReasonOf, stoppedBeforeSend, stoppedDuringSend } from '../../src/storage/outbox.ts'
import { type Entry, isOf, type Lane, type Part, type Row, type Tables, wellFormed } from './memory-tables.ts'

const dayMs = 24 * 60 * 60_000
const [queueMs, callMs, leaseMs] = [7 * dayMs, 10 * 60_000, 60_000]
const reasons = ['reason', 'reason_code', 'reason_quote'] as const
const isOpen = ({ status }: Part) => ['asked', 'queued', 'sending'].includes(status)
/** It waits for its user, as whoever holds the lane may send it. */
const isInLane = ({ message, status }: Part) => status === 'queued' && message !== undefined
const isCall = ({ message, status }: Part) => status === 'queued' && message === undefined
const filesOf = (parts: readonly contract.EntryPart[]) => parts.flatMap(({ file }) => file ?? [])

/** The part, and its row, wait for a person's approval from now on. */
function askPart(db: Tables, part: Part, now: number): void {
  const lane = db.lanes.find(({ id }) => id === part.lane)
  const nth = db.slots.findIndex(one => lane && isOf(lane.session, lane.user)(one) && one.at === part.slot)
  if (part.slot !== undefined && nth >= 0) db.slots.splice(nth, 1)
  delete part.slot
  part.status = 'asked'
  const row = db.row(part.message)
  if (!row) return
  const { detail: reason, code: reason_code, quote } = approvalReasonOf(part.file)
  Object.assign(row, { reason, reason_code, ...(quote && { reason_quote: quote }) })
  const { id: message, session, status, user } = row
  db.happened({ type: 'message.status', at: now, message, session, user, status, hidden: false })
}

/** The entry waits for a person's approval from now on. */
export function askAgain(db: Tables, entry: Entry, until: number, now: number): void {
  delete entry.approved_by
  Object.assign(entry, { asked: 'queue', expires_at: Math.min(entry.expires_at, until) })
  for (const part of entry.parts) if (part.status === 'queued') askPart(db, part, now)
}

export class MemoryOutbox
  implements contract.OutboxCalls, contract.OutboxLanes, contract.OutboxEntries, contract.OutboxMaintenance
{
  readonly #db: Tables
  readonly #clock: Clock
  /** This process, as it were. */
  readonly #me = {}

  constructor(db: Tables, clock: Clock) {
    this.#db = db
    this.#clock = clock
  }

  #parts = (wanted: (part: Part) => boolean) => this.#db.entries.flatMap(({ parts }) => parts).filter(wanted)
  #entry = (id?: number) => this.#db.entries.find(one => one.id === id)
  #laneOf = (id?: number) => this.#db.lanes.find(one => one.id === id)

  /** Slots that count, as the admission asks for them. */
  #slots(session: string, user: string, { pace, patienceMs }: SendRules): SendFacts['slots'] {
    if (pace === 'off') return { user: [] }
    const now = this.#clock.now()
    const counted = this.#db.slots.filter(isOf(session)).filter(({ at }) => at <= now + patienceMs)
    const own = counted.filter(one => one.user === user && one.at > now - pace.windowMs).map(({ at }) => at)
    const kept = Number.isFinite(pace.perWindow) ? own.sort((a, b) => a - b).slice(-pace.perWindow) : []
    return { ...(counted.length > 0 && { last: Math.max(...counted.map(({ at }) => at)) }), user: kept }
  }

  #take({ session, user }: Lane, at: number | undefined, { pace, patienceMs }: SendRules): void {
    if (at === undefined || pace === 'off') return
    const latest = this.#clock.now() + patienceMs
    const isLate = (one: { session: string; at: number }) => isOf(session)(one) && one.at > latest
    this.#db.slots = [...this.#db.slots.filter(one => !isLate(one)), { session, user, at }]
  }

  #giveBack({ session, user }: Lane, at: number | undefined): void {
    const nth = this.#db.slots.findIndex(one => isOf(session, user)(one) && one.at === at)
    if (nth >= 0) this.#db.slots.splice(nth, 1)
  }

  #context = ({ session, user }: Lane) => this.#db.contexts.find(isOf(session, user))?.context

  #counted(lane: Lane): Counter {
    return currentCounterOf(this.#context(lane) ?? { used: 0 }, lane.counter, this.#clock.now())
  }

  #shown(lane: Lane): contract.OutboxLane {
    const busy = this.#isTaken(lane) || lane.owner === this.#me
    return { ...lane, counter: this.#counted(lane), token: this.#context(lane)?.token, busy }
  }

  #facts(lane: Lane, rules: SendRules, ahead: Part[], slot?: number): SendFacts {
    const now = this.#clock.now()
    const { received_at, used } = this.#counted(lane)
    const unslotted = ahead.filter(part => part.slot === undefined).length
    return {
      now,
      receivedAt: received_at,
      used,
      ahead: { messages: ahead.length, unslotted },
      hold: lane.hold,
      slots: this.#slots(lane.session, lane.user, rules),
      slot,
    }
  }

  #ahead = ({ id }: Lane) => this.#parts(part => part.lane === id && isCall(part))

  #count(lane: Lane): Counter {
    const before = this.#counted(lane)
    const counter = { ...before, used: before.used + 1 }
    lane.counter = { ...counter, last_sent_at: this.#clock.now() }
    return counter
  }

  /** The part's row in the log says this from now on. */
  #write(part: Part, { session, user }: Lane, message: SentMessage, status: 'queued' | 'sending'): Row {
    const { client_id, to_user: _, ...said } = message
    const { botId: bot_id } = part
    const ids = { message_id: `local:${client_id}`, bot_id, from_user: bot_id }
    const content = { ...said, ...ids, status, text: wellFormed(said.text) }
    const own = { session, user, direction: 'sent', stored_at: this.#clock.now() } as const
    const row = this.#db.row(part.message) ?? this.#sent(part, { ...content, ...own })
    for (const field of [...reasons, 'sent_with'] as const) delete row[field]
    part.message = row.id
    this.#tell(Object.assign(row, content))
    return row
  }

  /** A new row, with its line of the audit log. */
  #sent({ maker: { made_by, address } }: Part, content: Omit<Row, 'id'>): Row {
    const row = this.#db.insert({ ...content, sent_by: made_by })
    const { id: message, session, stored_at: at, user } = row
    const line = { id: ++this.#db.last.audit, at, principal: made_by, operation: 'send', message }
    this.#db.audit.push({ ...line, subject: `${session} ${user}`, ...(address !== undefined && { address }) })
    return row
  }

  #tell({ id: message, bot_id: bot, session, status, user }: Row): void {
    const line = this.#db.audit.find(one => one.message === message)
    if (line && status) line.outcome = status
    const event = { type: 'message.status', message, session, user, bot, status } as const
    this.#db.happened({ ...event, at: this.#clock.now(), hidden: status === 'sending' })
  }

  #settleRow(id: number | undefined, status: Row['status'], error?: contract.EndReason): void {
    const row = this.#db.row(id)
    if (!row) return
    const isNews = row.status !== status || row.reason_code !== error?.code
    for (const field of reasons) delete row[field]
    const { code: reason_code, detail: reason, quote } = error ?? {}
    Object.assign(row, {
      status,
      ...(error && { reason, reason_code }),
      ...(quote && { reason_quote: quote }),
    })
    if (isNews) this.#tell(row)
  }

  /** The part and its row. */
  #end(part: Part, status: contract.Settlement['status'], error?: contract.EndReason): void {
    this.#settleRow(part.message, status, error)
    delete part.error
    Object.assign(part, { status, ...(error && { error }) })
  }

  #begun(lane: Lane, parts: Part[], slot: number | undefined): contract.BegunMessage {
    for (const part of parts) {
      delete part.slot
      Object.assign(part, { status: 'sending', beganAt: this.#clock.now() })
    }
    if (slot !== undefined) parts[0]!.slot = slot
    const { message: row = 0, tries } = parts[0]!
    return {
      lane: lane.id,
      parts: parts.map(({ id }) => id),
      row,
      counter: this.#count(lane),
      tries,
      ...(lane.hold && { hold: lane.hold }),
      ...(slot !== undefined && { slot }),
      token: this.#context(lane)?.token,
    }
  }

  #written(given: contract.NewEntry, lane: Lane): Entry {
    const { address, asked, bot_id: botId, content = '', key, made_by, mode, parts } = given
    const maker = { made_by, ...(address !== undefined && { address }) }
    const [id, created_at] = [++this.#db.last.entry, this.#clock.now()]
    const expires_at = created_at + (asked ? dayMs : mode === 'fail' ? callMs : queueMs)
    const fresh = { id, content, created_at, expires_at, ended: false, owner: this.#me, parts: [] }
    const maker_name = this.#db.keyOf(made_by)?.name
    const entry: Entry = {
      ...given,
      ...fresh,
      ...(key !== undefined && { keyed: true }),
      ...(maker_name !== undefined && { made_by_name: maker_name }),
    }
    for (const [nth, { kind, waiting }] of parts.entries()) {
      const { msg_type = 'TEXT', raw = '', text = '' } = waiting?.message ?? {}
      const own = { id: id * 1000 + nth, entry: id, lane: lane.id, botId, kind, msg_type, text, raw, maker }
      const file = waiting?.file && { file: waiting.file }
      const part: Part = { ...own, ...file, status: asked ? 'asked' : 'queued', tries: 0, beganAt: 0 }
      entry.parts.push(part)
      if (!waiting) continue
      const { code, detail, quote } = approvalReasonOf(waiting.file)
      const reason = asked && { reason_code: code, reason: detail, ...(quote && { reason_quote: quote }) }
      Object.assign(this.#write(part, lane, waiting.message, 'queued'), reason)
    }
    this.#db.entries.push(entry)
    return entry
  }

  async enqueue(
    entry: contract.NewEntry,
    rules: SendRules,
    first?: SentMessage,
  ): Promise<contract.EnqueueResult> {
    const { asked, mode, parts, session, user } = entry
    const known = entry.key === undefined ? undefined : this.#keyed(entry.key)
    if (known) return { state: 'known', entry: known }
    const lane = this.#db.lane(session, user)
    const waits = this.#db.entries.filter(one => one.mode === 'queue' && !one.ended)
    const unsent = waits.flatMap(one => one.parts).filter(part => part.lane === lane.id && isOpen(part))
    const behind = mode === 'fail' ? 0 : unsent.filter(({ status }) => status !== 'asked').length
    const asks = asked ? waits.filter(isOf(session)).filter(one => one.asked).length : 0
    if (behind + parts.length > 1000 || asks >= 100)
      throw new SvcError('quota_exhausted', 'too much waits already')
    const verdict: Verdict | 'behind' =
      behind > 0 ? 'behind' : admit(this.#facts(lane, rules, this.#ahead(lane)), parts.length, rules)
    if (mode === 'fail' && verdict !== 'behind' && verdict.go === 'no') return { state: 'closed', verdict }
    const written = this.#written(entry, lane)
    const result = { state: 'new', lane: lane.id, verdict, entry: written } as const
    if (!first || verdict === 'behind' || verdict.go !== 'now') return result
    this.#take(lane, verdict.slot, rules)
    const part = written.parts[0]!
    this.#write(part, lane, first, 'sending')
    return { ...result, begun: this.#begun(lane, [part], verdict.slot) }
  }

  #keyed(key: string): Entry | undefined {
    const now = this.#clock.now()
    const entry = this.#db.entries.find(one => one.key === key)
    if (entry?.mode === 'fail' && !entry.ended && entry.expires_at <= now) this.#die(entry)
    if (!entry || !this.#db.entries.includes(entry)) return undefined
    const called = entry.mode === 'fail' ? entry.endedAt : entry.created_at
    if (called === undefined || now - called < dayMs) return entry
    if (entry.mode === 'queue') this.#forgetKey(entry)
    else this.#remove(entry)
    return undefined
  }

  async checkAdmission(session: string, user: string, count: number, rules: SendRules) {
    return this.#verdict(session, user, count, rules)
  }

  #verdict(session: string, user: string, count: number, rules: SendRules): Verdict {
    const lane = this.#db.lane(session, user)
    return admit(this.#facts(lane, rules, this.#ahead(lane)), count, rules)
  }

  async begin(
    ids: readonly number[],
    botId: string,
    rules: SendRules,
    message: SentMessage,
  ): Promise<contract.BeginResult> {
    const parts = ids.flatMap(id => this.#parts(part => part.id === id))
    const entry = this.#entry(parts[0]?.entry)
    const lane = this.#laneOf(parts[0]?.lane)
    if (!entry || !lane || parts.length < ids.length || parts.some(({ status }) => status !== 'queued'))
      return { go: 'gone' }
    const isOurs = entry.mode === 'fail' ? entry.owner === this.#me : this.#claims(lane)
    if (!isOurs) return { go: 'gone' }
    const isOver = (maker: string) =>
      this.#db.keys.some(key => key.id === maker.split(':')[1] && key.revoked_at !== undefined)
    const unapproved = this.#db.entries.filter(
      ({ approved_by, id, made_by = '', mode }) =>
        mode === 'queue' &&
        !approved_by &&
        made_by.includes(':') &&
        parts.some(part => part.entry === id && (part.botId !== botId || isOver(made_by))),
    )
    const now = this.#clock.now()
    for (const one of unapproved) askAgain(this.#db, one, now + dayMs, now)
    if (unapproved.length > 0) return { go: 'gone' }
    for (const part of parts.slice(1)) {
      this.#giveBack(lane, part.slot)
      delete part.slot
    }
    const { slot } = parts[0]!
    const due = slot !== undefined && isDue(slot, this.#clock.now())
    if (!due) this.#giveBack(lane, slot)
    const verdict = admit(this.#facts(lane, rules, [], slot), 1, rules)
    const kept = due && verdict.go === 'now'
    if (due && !kept) this.#giveBack(lane, slot)
    if (verdict.go !== 'no' && !kept) this.#take(lane, verdict.slot, rules)
    if (verdict.go !== 'now') {
      parts[0]!.slot = verdict.go === 'later' ? verdict.slot : undefined
      return verdict
    }
    for (const [nth, part] of parts.entries()) {
      const { raw, text } = part
      const own = nth === 0 ? message : { ...message, client_id: `${message.client_id}+${nth}`, text, raw }
      part.botId = botId
      const row = this.#write(part, lane, own, 'sending')
      if (nth > 0) row.sent_with = `local:${message.client_id}`
    }
    return { go: 'begun', begun: this.#begun(lane, parts, verdict.slot) }
  }

  async settle(
    begun: contract.BegunMessage,
    settlement: contract.Settlement,
  ): Promise<contract.SettleResult> {
    const { status, message_id, error, rest, hold, spent, unseen } = settlement
    const found = this.#parts(part => begun.parts.includes(part.id))
    const parts = found.filter(part => part.status === 'sending')
    const lane = this.#laneOf(begun.lane)!
    // Also where it was taken for abandoned meanwhile.
    const row = this.#db.row(begun.row)
    if (status !== 'queued') this.#settleRow(begun.row, status, error)
    if (row && message_id !== undefined && !this.#db.called(message_id)) row.message_id = message_id
    for (const part of parts) {
      if (status === 'queued') this.#requeue(part, lane, settlement)
      else this.#end(Object.assign(part, { message_id }), status, error)
      const joined = part.message === begun.row ? undefined : this.#db.row(part.message)
      if (joined && row && status !== 'queued') joined.sent_with = row.message_id
    }
    if (!spent) {
      if (unseen) this.#giveBack(lane, begun.slot)
      if (lane.counter.received_at === begun.counter.received_at)
        lane.counter = { ...begun.counter, used: Math.max(0, lane.counter.used - 1) }
    }
    if (hold !== undefined) lane.hold = hold ?? undefined
    const files = status === 'queued' ? [] : filesOf(parts)
    const entries = this.#db.entries.filter(one => found.some(part => part.entry === one.id))
    if (rest && entries[0]) files.push(...filesOf(this.#endWaiting(entries[0], rest)))
    return { entries: entries.map(entry => this.#close(entry)), files }
  }

  #requeue(part: Part, lane: Lane, { error, spent }: contract.Settlement): void {
    const { id, msg_type, raw, text } = part
    const message = { client_id: `queued-${id}`, to_user: lane.user, timestamp: this.#clock.now(), msg_type }
    this.#write(part, lane, { ...message, raw, text }, 'queued')
    Object.assign(part, { status: 'queued', error, slot: undefined, tries: part.tries + (spent ? 1 : 0) })
    if (this.#entry(part.entry)?.asked) askPart(this.#db, part, this.#clock.now())
  }

  #endWaiting(entry: Entry, reason: contract.EndReason): Part[] {
    const waiting = entry.parts.filter(({ status }) => status === 'queued' || status === 'asked')
    for (const part of waiting) {
      this.#giveBack(this.#laneOf(part.lane)!, part.slot)
      this.#end(part, 'refused', reason)
    }
    return structuredClone(waiting)
  }

  #remove(entry: Entry): void {
    this.#db.entries = this.#db.entries.filter(one => one !== entry)
  }

  #forgetKey(entry: Entry): void {
    delete entry.key
    delete entry.keyed
  }

  /** One of which nothing waits has ended: it goes, unless somebody may ask for it. @returns it as it was then */
  #close(entry: Entry): contract.StoredEntry {
    if (entry.ended || entry.parts.some(isOpen)) return entry
    const { counter } = this.#laneOf(entry.parts[0]?.lane)!
    Object.assign(entry, { ended: true, endedAt: this.#clock.now(), counter })
    delete entry.asked
    const shown = structuredClone(entry)
    const sentNothing = entry.parts.every(({ status }) => status === 'refused')
    if (entry.mode === 'fail' && (!entry.keyed || sentNothing)) this.#remove(entry)
    for (const part of entry.parts) Object.assign(part, { text: '', raw: '', file: undefined })
    return shown
  }

  #die(entry: Entry): void {
    for (const part of entry.parts)
      if (part.status === 'sending') this.#end(part, 'unknown', stoppedDuringSend)
    this.#endWaiting(entry, stoppedBeforeSend)
    this.#close(entry)
  }

  async end(
    id: number,
    reason: contract.EndReason,
    { only, by }: { only?: contract.SendMode; by?: string } = {},
  ): Promise<contract.EndedEntry | undefined> {
    const entry = this.#entry(id)
    if (!entry || (only && (entry.mode !== only || entry.ended))) return undefined
    const ended = this.#endWaiting(entry, reason)
    if (by !== undefined && ended.length > 0) entry.ended_by = by
    return { entry: this.#close(entry), ended: ended.length, files: filesOf(ended) }
  }

  async approve(
    id: number,
    rules: SendRules,
    by: string,
    edited?: contract.EditedText,
  ): Promise<contract.ApproveResult | undefined> {
    const entry = this.#entry(id)
    if (!entry?.asked || entry.expires_at <= this.#clock.now()) return undefined
    const waiting = entry.parts.filter(({ status }) => status === 'asked')
    const verdict = this.#verdict(entry.session, entry.user, waiting.length, rules)
    if (entry.asked === 'fail' && verdict.go === 'no') return { state: 'closed', verdict }
    if (entry.asked === 'queue') entry.expires_at = entry.created_at + queueMs
    delete entry.asked
    entry.approved_by = by
    for (const part of waiting) {
      const isEdited = edited !== undefined && part.kind === 'text'
      if (isEdited) Object.assign(part, edited)
      if (isEdited) Object.assign(this.#db.row(part.message) ?? {}, edited, { text: wellFormed(edited.text) })
      this.#end(part, 'queued')
    }
    return { state: 'approved', lane: entry.parts[0]!.lane }
  }

  async listWaiting(rules: SendRules, some?: contract.LaneFilter) {
    const { events, lanes: all, last } = this.#db
    const touched = events.filter(
      ({ place, status }) =>
        some?.since !== undefined && place > some.since && /^(queued|refused)$/.test(status ?? ''),
    )
    const isWanted = ({ id, session, user }: Lane) =>
      !some ||
      some.ids?.includes(id) ||
      (some.of && isOf(some.of.session)({ session }) && some.of.users.includes(user)) ||
      touched.some(isOf(session, user))
    const waits = all.filter(isWanted).flatMap(lane => {
      const [first] = this.#parts(part => part.lane === lane.id && isInLane(part))
      return first ? { lane: this.#shown(lane), first, facts: this.#facts(lane, rules, [], first.slot) } : []
    })
    const given = new Map<string, number>()
    const lanes = waits
      .toSorted((a, b) => a.first.id - b.first.id)
      .map(({ lane, first, facts }) => {
        const last = given.get(lane.session) ?? facts.slots.last
        const verdict = admit({ ...facts, slots: { ...facts.slots, last } }, 1, rules)
        const isPaced = verdict.go === 'no' && verdict.why === 'pace'
        if (verdict.go !== 'no' && verdict.slot !== undefined && first.slot === undefined && !lane.busy)
          given.set(lane.session, verdict.slot)
        return { ...lane, verdict, crowded: isPaced && isFull(last, facts.now, rules) }
      })
    return { lanes, revision: last.place }
  }
  getEntry = async (id: number, sight?: contract.EntrySight) => {
    const entry = this.#entry(id)
    return entry && this.#isInSight(entry, sight) ? entry : undefined
  }
  findByKey = async (key: string) => this.#keyed(key)
  async claim(id: number) {
    const lane = this.#laneOf(id)
    if (!lane || !this.#claims(lane)) return undefined
    const parts = this.#parts(part => part.lane === id && isInLane(part)).slice(0, 100)
    return { ...this.#shown(lane), parts }
  }
  fileOf = async (row: number, sight?: contract.EntrySight) => {
    const [part] = this.#parts(one => one.message === row && /^(asked|queued)$/.test(one.status))
    const entry = this.#entry(part?.entry)
    return entry && this.#isInSight(entry, sight) ? part?.file : undefined
  }
  #isInSight({ id, made_by, user }: contract.StoredEntry, sight: contract.EntrySight = {}): boolean {
    const bot = this.#parts(({ entry }) => entry === id)[0]?.botId
    return contract.isInSight(sight, { made_by, user, bot })
  }
  listFiles = async () => filesOf(this.#parts(isOpen)).map(({ name }) => name)

  #claims(lane: Lane | undefined): boolean {
    if (!lane || this.#isTaken(lane)) return false
    Object.assign(lane, { owner: this.#me, until: this.#clock.now() + leaseMs })
    return true
  }

  #isTaken({ owner, until }: Lane): boolean {
    const left = until - this.#clock.now()
    return owner !== undefined && owner !== this.#me && left > 0 && left <= 2 * leaseMs
  }

  async release(id: number) {
    const lane = this.#laneOf(id)
    if (lane?.owner === this.#me) delete lane.owner
  }

  async holdBack(id: number, { hold, pause, refused = [] }: contract.HoldBack) {
    for (const part of this.#parts(one => refused.includes(one.id))) part.tries += 1
    Object.assign(this.#laneOf(id) ?? {}, hold && { hold }, pause)
  }

  async list({
    user_id,
    session,
    sight,
  }: {
    user_id?: string
    session?: string
    sight?: contract.EntrySight
  } = {}) {
    return this.#waiting()
      .filter(entry => this.#isInSight(entry, sight))
      .filter(({ asked, expires_at }) => !asked || expires_at > this.#clock.now())
      .filter(isOf(session, user_id))
  }

  #waiting() {
    return this.#db.entries.filter(one => one.mode === 'queue' && !one.ended)
  }

  async getDepth() {
    const waiting = await this.list()
    const messages = waiting.flatMap(({ parts }) => parts).filter(({ status }) => status === 'queued').length
    return { messages, ...(waiting[0] && { oldest_at: waiting[0].created_at }) }
  }

  async getCounters(session: string, user?: string) {
    const { contexts, lanes } = this.#db
    const users = [...lanes, ...contexts].filter(isOf(session, user)).map(one => one.user)
    return new Map(users.map(one => [one, this.#counted(this.#db.lane(session, one))]))
  }

  async renew(id: number) {
    const entry = this.#entry(id)
    if (entry?.mode === 'fail') entry.expires_at = this.#clock.now() + callMs
  }

  async expire(reason: contract.EndReason, unasked: contract.EndReason) {
    const over = this.#waiting().filter(({ expires_at }) => expires_at <= this.#clock.now())
    const ended = await Promise.all(over.map(one => this.end(one.id, one.asked ? unasked : reason)))
    return ended.filter(one => one !== undefined).filter(one => one.ended > 0)
  }

  async reap(before: number) {
    const lost = this.#parts(part => part.status === 'sending' && part.beganAt < before)
    for (const part of lost) this.#end(part, 'unknown', stoppedDuringSend)
    for (const part of lost) this.#close(this.#entry(part.entry)!)
    for (const entry of this.#db.entries.filter(one => one.mode === 'fail' && !one.ended))
      if (before > 0 && entry.expires_at <= this.#clock.now()) this.#die(entry)
    return lost.length
  }

  prune(): void {
    const now = this.#clock.now()
    for (const entry of this.#db.entries)
      if (entry.mode === 'queue' && entry.created_at <= now - dayMs) this.#forgetKey(entry)
    const stays = ({ created_at, endedAt = now, ended, keyed, mode }: Entry) =>
      !ended || (mode === 'queue' ? created_at > now - queueMs : keyed && endedAt > now - dayMs)
    this.#db.entries = this.#db.entries.filter(stays)
  }
}
