/**
 * A second engine, as simple as the interfaces allow: it shows that they ask for nothing that only SQLite has. Everything lies in
 * arrays and is walked through; several stores over one `Tables` are as several processes.
 */
import { badArgument, SvcError } from '../../src/model/error.ts'
import type { SentStatus } from '../../src/model/message.ts'
import { sessionKey } from '../../src/model/session.ts'
import { nameKey } from '../../src/model/user-name.ts'
import type { Clock } from '../../src/platform/clock.ts'
import type {
  HistoryFilter,
  PastMessage,
  ReceivedMessage,
  StoredMessage,
  Wanted,
} from '../../src/storage/messages.ts'
import type * as face from '../../src/storage/store.ts'
import { type Happened, MemoryEvents } from './memory-events.ts'
import { MemoryOutbox, type OutboxTables } from './memory-outbox.ts'
import { MemoryWebhooks, webhookTables } from './memory-webhooks.ts'
import type { EngineStore } from './support.ts'

/** A session by the name it has now; rows know theirs by this. */
export interface SessionName {
  name: string
}
export type Row = Omit<StoredMessage, 'session' | 'user_name'> & {
  session: SessionName
  peer: string
  stored_at: number
  hash?: string
}
interface Lease {
  consumer: string
  ids: number[]
  expires_at: number
  unseen?: boolean
}

interface Place {
  position: number
  handedOut: number
}

export class Tables implements OutboxTables {
  rows: Row[] = []
  lastId = 0
  readonly sessions: SessionName[] = []
  readonly consumers = new Map<string, { position: number; ahead: Map<SessionName, number> }>()
  /** Of consumers that acknowledge: of all sessions, and of each that was read alone. */
  readonly acknowledged = new Map<string, Map<SessionName | 'all', Place>>()
  readonly leases = new Map<number, Lease>()
  leaseId = 0
  names: { session: SessionName; user: string; name: string }[] = []
  readonly marks = new Map<SessionName, Map<string, number>>()
  readonly outbox: OutboxTables['outbox'] = { entries: [], lanes: [], slots: [], last: 0 }
  readonly webhooks = webhookTables()
  readonly waiting = new Set<() => void>()
  /** Each with its place, which is counted on for ever. */
  events: Happened[] = []
  eventsGone = 0
  readonly positions = new Map<string, string>()
  readonly times = new Map<number, Row[]>()
  readonly #ids = new Map<string, Row>()

  wake(): void {
    for (const end of [...this.waiting]) end()
  }

  /** Until `wake`. */
  sleep(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise<void>(resolve => {
      const end = () => {
        clearTimeout(timer)
        this.waiting.delete(end)
        signal.removeEventListener('abort', end)
        resolve()
      }
      const timer = setTimeout(end, ms)
      this.waiting.add(end)
      signal.addEventListener('abort', end)
    })
  }

  /** Those that have or had that name. */
  named(name: string): SessionName[] {
    return this.sessions.filter(one => sessionKey(one.name) === sessionKey(name))
  }

  known(name: string): SessionName | undefined {
    return this.sessions.findLast(one => one.name === name)
  }

  session(name: string): SessionName {
    const known = this.known(name) ?? { name }
    if (!this.sessions.includes(known)) this.sessions.push(known)
    return known
  }

  insert(row: Omit<Row, 'id'>): Row {
    const whole = { ...row, id: ++this.lastId }
    this.rows.push(whole)
    this.times.set(row.timestamp, [...(this.times.get(row.timestamp) ?? []), whole])
    if (row.direction === 'received') {
      const imported = row.past && { imported: true as const }
      this.happened({ type: 'message.received', at: row.stored_at, message: whole.id, ...imported })
    }
    return this.call(whole, row.message_id)
  }

  get lastEvent(): number {
    return Math.max(this.events.at(-1)?.place ?? 0, this.eventsGone)
  }

  happened(event: Omit<Happened, 'place' | 'newest'>): void {
    this.events.push({ ...event, place: this.lastEvent + 1, newest: this.lastId })
  }

  /** A row goes by that id from now on. */
  call(row: Row, id: string): Row {
    this.#ids.delete(row.message_id)
    this.#ids.set(id, row)
    return Object.assign(row, { message_id: id })
  }

  find(id: string): Row | undefined {
    const row = this.#ids.get(id)
    // Retention may have taken it.
    return row && row.id >= (this.rows[0]?.id ?? 0) && this.rows.length > 0 ? row : undefined
  }
}

const leaseMs = 30_000
const dayMs = 24 * 60 * 60_000

/** Texts are kept as what can be searched. */
export const wellFormed = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd')

export class MemoryStore implements face.Store {
  readonly durable = false
  readonly outbox: MemoryOutbox
  readonly webhooks: MemoryWebhooks
  readonly events: MemoryEvents
  readonly #tables: Tables
  readonly #clock: Clock
  readonly #keep: { maxAgeDays: number; maxCount: number }
  /** The clocks as they were looked at last, and until when (monotonic) a jump of them is held against them. */
  readonly #seen = { now: 0, monotonic: 0, doubtedUntil: Number.NEGATIVE_INFINITY }
  #closed = false

  constructor(tables: Tables, clock: Clock, keep: { maxAgeDays: number; maxCount: number }) {
    this.#tables = tables
    this.#clock = clock
    this.#keep = keep
    this.outbox = new MemoryOutbox(tables, clock, () => this.#open())
    this.webhooks = new MemoryWebhooks(() => this.#open())
    this.events = new MemoryEvents(clock, () => this.#open())
    const last = tables.rows.findLast(row => row.stored_at <= clock.now())
    Object.assign(this.#seen, { now: clock.now(), monotonic: clock.monotonic() })
    if (last && clock.now() - last.stored_at > 7 * dayMs) this.#seen.doubtedUntil = clock.monotonic() + dayMs
  }

  #open(): Tables {
    if (this.#closed) throw new SvcError('shutting_down', 'the message store is closed')
    return this.#tables
  }

  /** Another bot: nothing is counted of its answers, and no lane of it is held. */
  forget(session: string): void {
    const known = this.#open().known(session)
    if (known) this.outbox.forget(known)
  }

  #trusted(): boolean {
    const before = { ...this.#seen }
    const [now, monotonic] = [this.#clock.now(), this.#clock.monotonic()]
    const jumpMs = Math.abs(now - before.now - (monotonic - before.monotonic))
    const doubtedUntil = jumpMs > dayMs ? monotonic + dayMs : before.doubtedUntil
    Object.assign(this.#seen, { now, monotonic, doubtedUntil })
    return monotonic >= doubtedUntil
  }

  #shown(row: Row): StoredMessage {
    const { session, peer, stored_at: _, hash: _hash, ...rest } = row
    const named = this.#tables.names.find(one => one.session === session && one.user === peer)
    return { ...rest, session: session.name, ...(named && { user_name: named.name }) }
  }

  /** The first of these that fit. */
  #page(rows: readonly Row[], { limit = rows.length, characters }: Partial<Wanted>): StoredMessage[] {
    let left = characters ?? Number.POSITIVE_INFINITY
    const cut = rows.slice(0, limit).findIndex(({ raw }, nth) => {
      left -= raw.length
      return nth > 0 && left < 0
    })
    return rows.slice(0, cut === -1 ? limit : cut).map(row => this.#shown(row))
  }

  #rows({ direction, session }: Pick<Wanted, 'direction' | 'session'>, after = 0): Row[] {
    const { rows } = this.#open()
    const among = session === undefined ? undefined : this.#tables.named(session)
    return rows.filter(
      row =>
        row.id > after &&
        (direction === undefined || (row.direction === direction && !row.past)) &&
        (!among || among.includes(row.session)),
    )
  }

  #find = (id: string) => this.#tables.find(id)

  /** What to do with each of a batch: the id to store it under, or nothing. */
  #judged(botId: string, batch: readonly ReceivedMessage[]): (string | undefined)[] {
    const ordinals = new Map<string, number>()
    const same = (row: Row, hash: string) =>
      (row.direction === 'received' || row.past) && (row.bot_id === botId || row.hash === hash)
    const fresh = new Map<string, Row | { bot_id: string; hash: string }>()
    const again: ReceivedMessage[] = []
    const ids = batch.map(one => {
      const nth = (ordinals.get(one.derived_id) ?? 0) + 1
      if (one.message_id === undefined) ordinals.set(one.derived_id, nth)
      const id = one.message_id?.toWellFormed() ?? (nth === 1 ? one.derived_id : `${one.derived_id}-${nth}`)
      const stored = this.#find(id)
      if (stored && same(stored, one.contentHash)) {
        again.push(one)
        return undefined
      }
      const taken = stored ? `${botId}:${id}` : id
      if (this.#find(taken) || fresh.has(taken)) return undefined
      fresh.set(taken, { bot_id: botId, hash: one.contentHash })
      return taken
    })
    const like = (one: ReceivedMessage) => `${one.timestamp} ${one.contentHash} ${one.from_user}`
    const left = new Map<string, number>()
    return ids.map((id, nth) => {
      const one = batch[nth]!
      if (id === undefined || id !== one.message_id || !one.timed || one.timestamp % 1000 === 0) return id
      const copies = (this.#tables.times.get(one.timestamp) ?? []).filter(
        row =>
          row.direction === 'received' &&
          !row.past &&
          row.bot_id === botId &&
          row.stored_at > this.#clock.now() - 15_000 &&
          `${row.timestamp} ${row.hash} ${row.peer}` === like(one),
      ).length
      const before = again.filter(other => like(other) === like(one)).length
      const open = left.get(like(one)) ?? (copies > 0 ? copies - before : 0)
      left.set(like(one), open - 1)
      return open > 0 ? undefined : id
    })
  }

  #received(session: string, botId: string, one: ReceivedMessage, id: string, past?: true): Row {
    const { from_user, msg_type, timestamp, raw, contentHash: hash } = one
    return this.#tables.insert({
      ...{ message_id: id, session: this.#tables.session(session), bot_id: botId, direction: 'received' },
      ...{ from_user, peer: from_user, msg_type, timestamp, raw, hash, stored_at: this.#clock.now() },
      ...{ text: wellFormed(one.text), ...(past && { past }) },
    })
  }

  readonly intake: EngineStore['intake'] = {
    insertReceived: async (session, botId, batch) => {
      const tables = this.#open()
      const ids = this.#judged(botId, batch)
      const results = batch.map((one, nth) => {
        const id = ids[nth]
        if (id === undefined) return 'duplicate' as const
        const row = this.#received(session, botId, one, id)
        if (one.written_at !== undefined) this.outbox.wrote(row.session, row.peer, one.written_at)
        return row.id
      })
      tables.wake()
      return results
    },
    count: async () => this.#open().rows.length,
    known: async batch => batch.map(one => this.#placeOf(one) === undefined),
    add: async batch => {
      let added = 0
      for (const one of batch) {
        const id = this.#placeOf(one)
        if (id === undefined) continue
        added += 1
        const row = this.#received(one.session, one.bot_id, one, id, true)
        if (one.direction === 'sent')
          Object.assign(row, { direction: 'sent', status: 'accepted', past: undefined })
        if (one.direction === 'sent') row.from_user = one.bot_id
      }
      this.#open().wake()
      return added
    },
  }

  #placeOf(one: PastMessage): string | undefined {
    if (one.direction === 'received') return this.#judged(one.bot_id, [one])[0]
    const id = one.message_id ?? `local:${one.derived_id}`
    return this.#find(id) ? undefined : id
  }

  readonly log: face.MessageLog = {
    head: async () => this.#open().lastId,
    wait: async (seen, ms, signal) => {
      const { lastId, leases } = this.#open()
      if (!signal.aborted && lastId <= seen)
        await this.#open().sleep(leases.size > 0 ? Math.min(ms, 1000) : ms, signal)
    },
    after: async (id, wanted) => this.#page(this.#rows(wanted, id), wanted),
    byIds: async (ids, characters) => {
      const { rows } = this.#open()
      return this.#page(
        ids.flatMap(id => rows.find(row => row.id === id) ?? []),
        { characters },
      )
    },
    byMessageIds: async (ids, characters) => {
      const found = ids.filter(id => this.#find(id))
      const rows = this.#page(
        found.map(id => this.#find(id)!),
        { characters },
      )
      const cut = found[rows.length]
      return { rows, rest: cut === undefined ? [] : ids.slice(ids.indexOf(cut)) }
    },
    history: async (filter, signal) => {
      await new Promise(resolve => setImmediate(resolve))
      signal?.throwIfAborted()
      if ((filter.text_contains?.length ?? 0) > 10_000)
        throw badArgument('text_contains', 'expected at most 10000 characters')
      const needle = lower(filter.text_contains ?? '')
      const all = this.#rows(filter.session === undefined ? {} : { session: filter.session }).filter(row =>
        finds(filter, needle, row),
      )
      const before = all.filter(row => row.id < (filter.before ?? Number.POSITIVE_INFINITY)).reverse()
      const rows = this.#page(before.slice(filter.offset), filter)
      const next = before.length > filter.offset + rows.length ? rows.at(-1)?.id : undefined
      return {
        ...{ rows, total: Math.min(all.length, 10_000), total_is_lower_bound: all.length > 10_000 },
        ...(next !== undefined && { next_before: next }),
      }
    },
  }

  #lapsed = ({ expires_at }: Lease) => {
    const left = expires_at - this.#clock.now()
    return left <= 0 || left > 2 * leaseMs
  }

  /** Rows that were never handed out to a consumer. */
  #fresh(consumer: string, wanted: Pick<Wanted, 'session'>): Row[] {
    const known = this.#tables.consumers.get(consumer)
    const position = known?.position ?? (consumer === 'default' ? 0 : this.#tables.lastId)
    return this.#rows({ ...wanted, direction: 'received' }, position).filter(
      row => row.id > (known?.ahead.get(row.session) ?? 0),
    )
  }

  #again(consumer: string, session: string | undefined): { row: Row; lease: Lease; id: number }[] {
    const among = session === undefined ? undefined : this.#tables.named(session)
    const found = [...this.#tables.leases].filter(([, one]) => one.consumer === consumer && this.#lapsed(one))
    return found.flatMap(([id, lease]) =>
      lease.ids.flatMap(wanted => {
        const row = this.#tables.rows.find(one => one.id === wanted)
        return row && (!among || among.includes(row.session)) ? { row, lease, id } : []
      }),
    )
  }

  #lease(lease: Lease): number {
    this.#tables.leases.set(++this.#tables.leaseId, lease)
    return this.#tables.leaseId
  }

  #left(id: number, ids: number[]): void {
    const lease = this.#tables.leases.get(id)
    if (ids.length === 0) this.#tables.leases.delete(id)
    else if (lease) lease.ids = ids
  }

  #consumer(name: string) {
    const { consumers, lastId } = this.#tables
    const ahead = new Map<SessionName, number>()
    const own = consumers.get(name) ?? { position: name === 'default' ? 0 : lastId, ahead }
    consumers.set(name, own)
    return own
  }

  readonly consumers: face.Consumers = {
    claim: async (consumer, { session, ...wanted }) => {
      const tables = this.#open()
      if (tables.acknowledged.has(consumer)) throw badArgument('ack', 'missing')
      const own = this.#consumer(consumer)
      const again = this.#again(consumer, session)
      const all = again.length > 0 ? again.map(({ row }) => row) : this.#fresh(consumer, { session })
      const rows = this.#page(all, wanted).sort((a, b) => a.id - b.id)
      if (rows.length === 0) return undefined
      const ids = rows.map(row => row.id)
      const redelivered = new Set(
        again.filter(({ row, lease }) => ids.includes(row.id) && !lease.unseen).map(({ row }) => row.id),
      )
      for (const { id, lease } of again)
        this.#left(
          id,
          lease.ids.filter(one => !ids.includes(one)),
        )
      if (again.length === 0 && session !== undefined)
        for (const row of all.slice(0, rows.length)) own.ahead.set(row.session, row.id)
      else if (again.length === 0) own.position = rows.length === all.length ? tables.lastId : ids.at(-1)!
      const lease = { consumer, ids, expires_at: this.#clock.now() + leaseMs }
      return { lease: this.#lease(lease), rows, redelivered }
    },
    giveBack: async ({ lease: id, redelivered }, from) => {
      const lease = this.#open().leases.get(id)
      if (!lease) return
      const { consumer, ids } = lease
      this.#left(
        id,
        ids.filter(one => one < from),
      )
      for (const seen of [true, false]) {
        const back = ids.filter(one => one >= from && redelivered.has(one) === seen)
        if (back.length > 0) this.#lease({ consumer, ids: back, expires_at: 0, unseen: !seen })
      }
      this.#tables.wake()
    },
    ack: async lease => void this.#open().leases.delete(lease),
    nack: async id => {
      const lease = this.#open().leases.get(id)
      if (lease) lease.expires_at = 0
      this.#tables.wake()
    },
    renew: async id => {
      const lease = this.#open().leases.get(id)
      if (lease) lease.expires_at = this.#clock.now() + leaseMs
    },
  }

  readonly acknowledgements: face.Acknowledgements = {
    after: async (consumer, ack, { session, ...wanted }) => {
      const places = this.#places(consumer)
      const known = (key: SessionName | 'all', what: keyof Place) =>
        Math.max(places.get(key)?.[what] ?? 0, places.get('all')![what])
      const keys = this.#keys(session)
      const reached = keys.filter(key => ack <= known(key, 'handedOut'))
      if (reached.length === 0 && ack > 0)
        throw badArgument('ack', 'expected at most the last that was handed out')
      this.#tables.acknowledged.set(consumer, places)
      for (const key of reached)
        places.set(key, {
          position: Math.max(known(key, 'position'), ack),
          handedOut: known(key, 'handedOut'),
        })
      const own = this.#consumer(consumer)
      if (session === undefined) own.position = Math.max(own.position, ack)
      const rows = this.#rows({ session, direction: 'received' }).filter(
        row => row.id > known(row.session, 'position'),
      )
      const redelivered = rows.filter(row => row.id <= known(row.session, 'handedOut')).map(({ id }) => id)
      for (const [id, lease] of this.#tables.leases)
        if (lease.consumer === consumer) this.#tables.leases.delete(id)
      return { rows: this.#page(rows, wanted), redelivered: new Set(redelivered) }
    },
    handedOut: async (consumer, upTo, session) => {
      const places = this.#places(consumer)
      for (const key of this.#keys(session)) {
        const { position, handedOut } = places.get(key) ?? { position: 0, handedOut: 0 }
        places.set(key, { position, handedOut: Math.max(handedOut, upTo) })
      }
    },
  }

  #keys(session: string | undefined): (SessionName | 'all')[] {
    return session === undefined ? ['all'] : this.#open().named(session)
  }

  /** As they are, or as they are when the consumer begins. */
  #places(consumer: string): Map<SessionName | 'all', Place> {
    const { acknowledged, consumers, leases } = this.#open()
    const found = acknowledged.get(consumer)
    if (found) return found
    const isNew = !consumers.has(consumer)
    const { position, ahead } = this.#consumer(consumer)
    if (isNew) consumers.delete(consumer)
    const open = [...leases.values()].filter(lease => lease.consumer === consumer).flatMap(({ ids }) => ids)
    const place = (at: number): Place => ({
      position: Math.min(at, ...open.map(id => id - 1)),
      handedOut: isNew ? 0 : at,
    })
    return new Map<SessionName | 'all', Place>([
      ['all', place(position)],
      ...[...ahead].map(([key, at]): [SessionName, Place] => [key, place(at)]),
    ])
  }

  readonly backlog: face.Backlog = {
    waiting: async (from, { limit, session }) => {
      const where = session === undefined ? {} : { session }
      const found =
        typeof from === 'number'
          ? this.#rows({ ...where, direction: 'received' }, from).length
          : this.#again(from, session).length + this.#fresh(from, where).length
      return Math.min(limit, found)
    },
    lags: async most =>
      [...this.#open().consumers].slice(-most).map(([consumer, { position }]) => ({
        consumer,
        messages: this.#rows({ direction: 'received' }, position).length,
      })),
    lapsed: async () =>
      new Set([...this.#open().leases.values()].filter(this.#lapsed).map(({ consumer }) => consumer)),
    recent: async (since, { limit, ...wanted }) =>
      this.#rows(wanted)
        .filter(row => row.stored_at >= since)
        .map(row => row.id)
        .slice(-limit),
  }

  readonly conversations: face.Conversations = {
    peers: async (after, limit) => {
      const newest = new Map(this.#open().rows.map(row => [row.peer, row.id]))
      return [...newest]
        .map(([peer, id]) => ({ peer, newest: id }))
        .filter(({ peer }) => after === undefined || peer > after)
        .sort((a, b) => (a.peer < b.peer ? -1 : 1))
        .slice(0, limit)
    },
    thread: async (peer, session) => {
      const rows = this.#rows(session === undefined ? {} : { session })
        .filter(row => row.peer === peer)
        .reverse()
      const [last] = rows
      if (!last) return undefined
      const read = this.#tables.marks.get(last.session)?.get(peer) ?? 0
      const own = rows.slice(0, 100).filter(row => row.session === last.session)
      const seen = own.findIndex(row => row.direction === 'sent' || row.past || row.id <= read)
      const refused = rows.every(row => row.status === 'refused')
      return { last: this.#shown(last), unread: seen === -1 ? own.length : seen, refused }
    },
    markRead: async (session, peer, upTo) => {
      const { lastId, marks } = this.#open()
      for (const one of this.#tables.named(session)) {
        const of = marks.get(one) ?? new Map<string, number>()
        marks.set(one, of.set(peer, Math.max(of.get(peer) ?? 0, Math.min(upTo, lastId))))
      }
    },
    open: async () =>
      this.outbox
        .open()
        .flatMap(id => this.#tables.rows.find(row => row.id === id) ?? [])
        .map(({ id, status, reason_code }) => ({ id, status: status as SentStatus, reason_code })),
    counts: async (since, spanMs) => {
      const spans = Map.groupBy(
        this.#open().rows.filter(row => row.timestamp >= since),
        row => Math.floor((row.timestamp - since) / spanMs),
      )
      return [...spans].map(([span, rows]) => ({
        span,
        received: rows.filter(row => row.direction === 'received').length,
        sent: rows.filter(
          row => row.direction === 'sent' && !['refused', 'queued', 'sending'].includes(row.status ?? ''),
        ).length,
      }))
    },
    writtenTo: async user => {
      const newest = this.#open()
        .rows.filter(row => row.peer === user)
        .slice(-30)
      const received = newest.filter(row => row.direction === 'received' && !row.past)
      return [...new Set(received.map(({ session }) => session.name))]
    },
    suspects: async since => {
      const found = this.#open().rows.filter(row => row.status === 'suspect' && row.timestamp >= since)
      return new Map(
        [...Map.groupBy(found, row => row.session.name)].map(([name, rows]) => [name, rows.length]),
      )
    },
  }

  readonly names: face.Names = {
    of: async session => {
      const among = this.#open().named(session)
      return new Map(
        this.#tables.names.filter(one => among.includes(one.session)).map(one => [one.user, one.name]),
      )
    },
    called: async name =>
      this.#open()
        .names.filter(one => nameKey(one.name) === nameKey(name))
        .map(one => ({ session: one.session.name, user_id: one.user })),
    naming: async user => [
      ...new Set(
        this.#open()
          .names.filter(one => one.user === user)
          .map(one => one.session.name),
      ),
    ],
    set: async (session, user, name) => {
      const tables = this.#open()
      tables.session(session)
      const among = tables.named(session)
      const others = tables.names.filter(one => !(one.user === user && among.includes(one.session)))
      const isTaken = (one: (typeof others)[number]) =>
        among.includes(one.session) && nameKey(one.name) === nameKey(name!)
      if (name !== undefined && others.some(isTaken))
        throw badArgument('name', 'another user of this session has this name')
      tables.names =
        name === undefined ? others : [...others, ...among.map(one => ({ session: one, user, name }))]
    },
  }

  readonly upkeep: EngineStore['upkeep'] = {
    trouble: async () =>
      this.#closed ? new SvcError('shutting_down', 'the message store is closed') : undefined,
    trustsClock: async () => this.#trusted(),
    prune: async () => {
      const { maxAgeDays, maxCount } = this.#keep
      const tables = this.#open()
      const trusted = this.#trusted()
      if (trusted) await this.outbox.prune()
      const oldest = this.#clock.now() - maxAgeDays * 24 * 60 * 60_000
      const stays = (row: Row) =>
        (maxCount === 0 || row.id > tables.lastId - maxCount) &&
        !(trusted && maxAgeDays > 0 && row.stored_at < oldest)
      tables.rows = tables.rows.filter(stays)
      this.events.prune()
    },
    renameSession: async (oldName, newName) => {
      for (const one of this.#open().sessions) if (one.name === oldName) one.name = newName
      this.webhooks.renameSession(oldName, newName)
    },
    close: async () => {
      this.#closed = true
      this.#tables.wake()
    },
  }
}

const lower = (text: string) => wellFormed(text).replace(/[A-Z]/g, letter => letter.toLowerCase())
const texts = new WeakMap<Row, { text: string; lowered: string }>()

function lowered(row: Row): string {
  const kept = texts.get(row)
  if (kept?.text === row.text) return kept.lowered
  texts.set(row, { text: row.text, lowered: lower(row.text) })
  return lower(row.text)
}

function finds(filter: HistoryFilter, needle: string, row: Row): boolean {
  const kinds = () => {
    try {
      const items = (JSON.parse(row.raw) as { item_list?: object[] }).item_list ?? []
      return items.flatMap(item => Object.keys(item))
    } catch {
      return []
    }
  }
  return (
    (filter.user_id === undefined || row.peer === filter.user_id) &&
    (filter.bot_id === undefined || row.bot_id === filter.bot_id) &&
    (filter.direction === undefined || row.direction === filter.direction) &&
    (filter.msg_type === undefined || row.msg_type === filter.msg_type) &&
    (filter.since === undefined || row.timestamp >= filter.since) &&
    (filter.until === undefined || row.timestamp < filter.until) &&
    (needle === '' || lowered(row).includes(needle)) &&
    (filter.has_kind === undefined ||
      row.msg_type === filter.has_kind ||
      kinds().includes(`${filter.has_kind.toLowerCase()}_item`))
  )
}
