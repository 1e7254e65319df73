/**
 * A second engine, as simple as the interfaces allow: it shows that they ask for nothing that only SQLite has. Everything lies
 * in arrays and is walked through.
 */
import { badArgument } from '../../src/model/error.ts'
import type { SentStatus } from '../../src/model/message.ts'
import { nameKeyOf } from '../../src/model/user-name.ts'
import type { Clock } from '../../src/platform/clock.ts'
import { ClockTrust } from '../../src/storage/clock-trust.ts'
import { batchPartOf, type JudgedMessage, judgeMessages } from '../../src/storage/deduplication.ts'
import { cursorNumberOf } from '../../src/storage/events.ts'
import type {
  HistoryFilter,
  ImportedMessage,
  ReadFilter,
  ReceivedMessage,
  StoredMessage,
} from '../../src/storage/messages.ts'
import type { Ingested } from '../../src/storage/storage.ts'
import * as contract from '../../src/storage/store.ts'
import { memoryEvents, memoryWebhooks, pruneEvents } from './memory-events.ts'
import { memoryAudit, memoryBackups, memoryKeys } from './memory-keys.ts'
import { MemoryOutbox } from './memory-outbox.ts'
import { memoryPeople } from './memory-people.ts'
import {
  type Consumer,
  closed,
  isIn,
  isOf,
  type Leased,
  type Row,
  type Tables,
  verbs,
  wellFormed,
} from './memory-tables.ts'
import { formsOf } from './support.ts'

const leaseMs = 30_000
const dayMs = 24 * 60 * 60_000

export class MemoryStore implements contract.Store {
  readonly durable = false
  readonly #db: Tables
  readonly #clock: Clock
  readonly #keep: { maxAgeDays: number; maxCount: number }
  readonly #trust: ClockTrust
  readonly #outbox: MemoryOutbox
  #closed = false
  readonly outbox: contract.Store['outbox']
  readonly events: contract.Store['events']
  readonly webhooks: contract.Store['webhooks']
  readonly keys: contract.Store['keys']
  readonly audit: contract.Store['audit']
  readonly backups: contract.Store['backups']
  readonly people: contract.Store['people']
  /** Agents are tested on the real engines alone. */
  readonly agents = {} as contract.Store['agents']

  constructor(db: Tables, clock: Clock, keep: { maxAgeDays: number; maxCount: number }) {
    this.#db = db
    this.#clock = clock
    this.#keep = keep
    this.#trust = new ClockTrust(clock, db.rows.at(-1)?.stored_at)
    this.#outbox = new MemoryOutbox(db, clock)
    this.outbox = this.#verbs(this.#outbox)
    this.events = this.#verbs(memoryEvents(db, clock))
    this.webhooks = this.#verbs(memoryWebhooks(db))
    this.keys = this.#verbs(memoryKeys(db, clock))
    this.audit = this.#verbs(memoryAudit(db, clock))
    this.backups = this.#verbs(memoryBackups())
    this.people = this.#verbs(memoryPeople(db))
  }

  #verbs<T extends object>(part: T): T {
    return verbs(part, () => this.#closed)
  }

  #shown({ hash: _, stored_at: _at, user, ...row }: Row): StoredMessage {
    const named = this.#db.names.find(isOf(row.session, user))
    const key = this.#db.keyOf(row.sent_by)
    return {
      ...row,
      peer: user,
      ...(named && { user_name: named.name }),
      ...(key && { sent_by_name: key.name }),
    }
  }

  /** The first of these that fit. */
  #page(rows: readonly Row[], { limit = rows.length, characters }: Partial<ReadFilter>): StoredMessage[] {
    let left = characters ?? Number.POSITIVE_INFINITY
    const cut = rows.slice(0, limit).findIndex(({ raw }, nth) => {
      left -= raw.length
      return nth > 0 && left < 0
    })
    return rows.slice(0, cut === -1 ? limit : cut).map(row => this.#shown(row))
  }

  #rows(
    { direction, scope, session }: Pick<ReadFilter, 'direction' | 'scope' | 'session'>,
    after = 0,
  ): Row[] {
    const isWanted = (row: Row) => direction === undefined || (row.direction === direction && !row.past)
    return this.#db.rows
      .filter(row => row.id > after && isWanted(row))
      .filter(isOf(session))
      .filter(isIn(scope))
  }

  #arrived(bot_id: string, message_id: string, one: ReceivedMessage, hash?: string) {
    const { from_user, msg_type, raw, text, timestamp } = one
    const row = { message_id, bot_id, direction: 'received' as const, from_user, user: from_user, hash }
    return { ...row, msg_type, raw, timestamp, text: wellFormed(text), stored_at: this.#clock.now() }
  }

  /** Of each message what is to be stored; undefined when it is there already. */
  #judged(bot: string, batch: readonly ReceivedMessage[]) {
    const under = (id: string) => {
      const row = this.#db.called(id)
      return row && { botId: row.bot_id, sent: row.direction === 'sent', hash: row.hash ?? '' }
    }
    const copies = (botId: string, { hash, message }: JudgedMessage, since: number) => {
      const like = (row: Row) => row.timestamp === message.timestamp && row.hash === hash && !row.past
      const own = this.#db.rows.filter(row => like(row) && row.bot_id === botId && row.stored_at > since)
      return own.filter(row => row.user === message.from_user).map(row => row.message_id)
    }
    return judgeMessages(
      { findById: under, findCopies: copies },
      bot,
      batchPartOf(batch),
      this.#clock.now(),
    ).map(({ hash, id, message, verdict }) =>
      verdict === 'known' || verdict === 'repeat' ? undefined : this.#arrived(bot, id, message, hash),
    )
  }

  #past(one: ImportedMessage): Omit<Row, 'id'> | undefined {
    const { bot_id, derived_id, direction, message_id = `local:${derived_id}`, session } = one
    if (direction === 'received') {
      const [row] = this.#judged(bot_id, [one])
      return row && { ...row, session, past: true }
    }
    const row = { ...this.#arrived(bot_id, message_id, one), session, direction }
    return this.#db.called(message_id) ? undefined : { ...row, status: 'accepted', from_user: bot_id }
  }

  /** The messages of a polled batch. @returns their row ids */
  receive(session: string, botId: string, batch: readonly ReceivedMessage[]): Ingested['rows'] {
    if (this.#closed) throw closed()
    return this.#judged(botId, batch).map((row, nth) => {
      if (!row) return 'duplicate'
      const at = batch[nth]!.written_at
      const lane = at === undefined ? undefined : this.#db.lane(session, row.user)
      if (lane && (lane.counter.received_at ?? Number.NEGATIVE_INFINITY) < at!)
        lane.counter = { ...lane.counter, received_at: at, used: 0 }
      return this.#db.insert({ ...row, session }).id
    })
  }

  readonly intake = this.#verbs<contract.Intake>({
    count: async () => this.#db.rows.length,
    has: async batch => batch.map(one => !this.#past(one)),
    add: async batch =>
      batch.filter(one => {
        const row = this.#past(one)
        return row && this.#db.insert(row)
      }).length,
  })

  readonly log = this.#verbs<contract.MessageLog>({
    getHead: async () => this.#db.last.row,
    wait: async (seen, ms, signal) => {
      const longestMs = this.#db.leased.length > 0 ? Math.min(ms, 1000) : ms
      if (!signal.aborted && this.#db.last.row <= seen) await this.#db.sleep(longestMs, signal)
    },
    listAfter: async (id, wanted) => this.#page(this.#rows(wanted, id), wanted),
    getByIds: async (ids, characters, scope) =>
      this.#page(ids.flatMap(id => this.#db.row(id) ?? []).filter(isIn(scope)), { characters }),
    getByMessageIds: async (ids, characters, scope) => {
      const found = ids.filter(id => [this.#db.called(id)].some(row => row && isIn(scope)(row)))
      const rows = this.#page(
        found.map(id => this.#db.called(id)!),
        { characters },
      )
      const cut = found[rows.length]
      return { rows, rest: cut === undefined ? [] : ids.slice(ids.indexOf(cut)) }
    },
    findRange: async ({ since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY }) => {
      const ids = this.#rows({})
        .filter(({ timestamp }) => timestamp >= since && timestamp < until)
        .map(({ id }) => id)
      return { low: Math.min(...ids), high: Math.max(...ids) }
    },
    search: async (filter, signal) => {
      await new Promise(resolve => setImmediate(resolve))
      signal?.throwIfAborted()
      if ((filter.text_contains?.length ?? 0) > 10_000)
        throw badArgument('text_contains', 'expected at most 10000 characters')
      const all = this.#rows(filterOf(filter)).filter(finds(filter))
      const before = all.filter(row => row.id < (filter.before ?? Number.POSITIVE_INFINITY)).reverse()
      const rows = this.#page(before.slice(filter.offset), filter)
      const next = before.length > filter.offset + rows.length ? rows.at(-1)?.id : undefined
      return {
        rows,
        total: Math.min(all.length, 10_000),
        total_is_lower_bound: all.length > 10_000,
        ...(next !== undefined && { next_before: next }),
      }
    },
  })

  #consumer(name: string): Consumer {
    const start = contract.startsAtFirst(name) ? 0 : this.#db.last.row
    return this.#db.consumers.find(one => one.name === name) ?? { name, start, given: new Set() }
  }

  /** It reads now: the last of them. */
  #reads(own: Consumer): void {
    this.#db.consumers = [...this.#db.consumers.filter(({ name }) => name !== own.name), own]
  }

  #received = ({ start }: Consumer, wanted: Narrowed = {}) =>
    this.#rows({ ...filterOf(wanted), direction: 'received' }, start)

  /** What it was never given. */
  #fresh = (own: Consumer, wanted?: Narrowed) =>
    this.#received(own, wanted).filter(({ id }) => !(own.done ?? own.given).has(id))

  /** Passes what is not in the scope: up to the last of a page that is full, else everything. */
  #pass(own: Consumer, page: readonly StoredMessage[], { limit, scope }: ReadFilter): void {
    const last = page.length < limit ? Number.POSITIVE_INFINITY : page.at(-1)!.id
    const foreign = this.#fresh(own).filter(row => row.id <= last && !isIn(scope)(row))
    for (const { id } of foreign) own.given.add(id)
  }

  #isLapsed = ({ row, until }: Leased) => {
    const left = until - this.#clock.now()
    return (left <= 0 || left > 2 * leaseMs) && this.#db.row(row) !== undefined
  }

  /** What it is given again. */
  #again(consumer: string, wanted: Narrowed): Row[] {
    const lapsed = this.#db.leased.filter(one => one.consumer === consumer && this.#isLapsed(one))
    return this.#rows(filterOf(wanted)).filter(({ id }) => lapsed.some(({ row }) => row === id))
  }

  readonly consumers = this.#verbs<contract.Consumers>({
    register: async consumer => {
      if (contract.startsAtFirst(consumer) || this.#db.consumers.some(({ name }) => name === consumer)) return
      const given = this.#db.consumers.map(one => Math.max(0, ...one.given))
      this.#reads({ name: consumer, start: Math.max(0, ...given), given: new Set() })
    },
    claim: async (consumer, wanted) => {
      const own = this.#consumer(consumer)
      if (own.done) throw badArgument('ack', 'missing')
      this.#reads(own)
      const again = this.#again(consumer, wanted)
      const rows = this.#page(again.length > 0 ? again : this.#fresh(own, wanted), wanted)
      if (again.length === 0 && wanted.session === undefined) this.#pass(own, rows, wanted)
      if (rows.length === 0) return undefined
      const ids = new Set(rows.map(({ id }) => id))
      const isMine = (one: Leased) => one.consumer === consumer && ids.has(one.row)
      const before = this.#db.leased.filter(isMine)
      const lease = ++this.#db.last.lease
      const until = this.#clock.now() + leaseMs
      this.#db.leased = this.#db.leased.filter(one => !isMine(one))
      this.#db.leased.push(...rows.map(({ id: row }) => ({ consumer, row, lease, until })))
      own.given = own.given.union(ids)
      return { lease, rows, redelivered: new Set(before.filter(one => !one.unseen).map(({ row }) => row)) }
    },
    giveBack: async ({ lease, redelivered }, from) => {
      for (const one of this.#db.leased.filter(one => one.lease === lease && one.row >= from))
        Object.assign(one, { lease: 0, until: 0, unseen: !redelivered.has(one.row) })
      this.#db.wake()
    },
    ack: async lease => {
      this.#db.leased = this.#db.leased.filter(one => one.lease !== lease)
    },
    nack: async lease => {
      for (const one of this.#db.leased) if (one.lease === lease) one.until = 0
      this.#db.wake()
    },
    renew: async lease => {
      for (const one of this.#db.leased) if (one.lease === lease) one.until = this.#clock.now() + leaseMs
    },
  })

  readonly acknowledgements = this.#verbs<contract.Acknowledgements>({
    readAfter: async (consumer, ack, wanted) => {
      const own = this.#consumer(consumer)
      const leased = this.#db.leased.filter(one => one.consumer === consumer).map(({ row }) => row)
      const done = own.done ?? own.given.difference(new Set(leased))
      const all = this.#received(own, wanted)
      const upTo = all.filter(({ id }) => id <= ack).map(({ id }) => id)
      if (ack > Math.max(0, ...own.given) || upTo.some(id => !own.given.has(id)))
        throw badArgument('ack', 'expected at most the last that was handed out')
      this.#reads(Object.assign(own, { done: done.union(new Set(upTo)) }))
      this.#db.leased = this.#db.leased.filter(one => one.consumer !== consumer)
      const rows = this.#page(this.#fresh(own, wanted), wanted)
      return { rows, redelivered: own.given.intersection(new Set(rows.map(({ id }) => id))) }
    },
    markHandedOut: async (consumer, upTo, session) => {
      const own = this.#consumer(consumer)
      for (const { id } of this.#received(own, { session })) if (id <= upTo) own.given.add(id)
    },
  })

  readonly backlog: contract.Backlog = this.#verbs<contract.Backlog>({
    countWaiting: async (from, { limit, ...wanted }) => {
      const found =
        typeof from === 'number'
          ? this.#rows({ ...wanted, direction: 'received' }, from)
          : [...this.#again(from, wanted), ...this.#fresh(this.#consumer(from), wanted)]
      return Math.min(limit, found.length)
    },
    listLags: async most =>
      this.#db.consumers.slice(-most).map(own => ({ consumer: own.name, messages: this.#fresh(own).length })),
    countEvents: async cursor => (await this.events.listAfter(cursor, { limit: Infinity })).events.length,
    listReaderLags: async most => {
      const all = [...this.#db.readers]
        .filter(([, { cursor }]) => cursor !== 'lost-0')
        .sort(([, a], [, b]) => cursorNumberOf(b.cursor) - cursorNumberOf(a.cursor))
        .slice(0, most)
      return Promise.all(
        all.map(async ([reader, { cursor }]) => ({ reader, events: await this.backlog.countEvents(cursor) })),
      )
    },
    findConsumersToRedeliver: async () =>
      new Set(this.#db.leased.filter(this.#isLapsed).map(({ consumer }) => consumer)),
    listRecent: async (since, { limit, ...wanted }) =>
      this.#rows(wanted)
        .filter(row => row.stored_at >= since)
        .map(({ id }) => id)
        .slice(-limit),
  })

  #thread(
    user: string,
    session: string | undefined,
    { reader, scope }: Pick<contract.ThreadQuery, 'reader' | 'scope'>,
  ): contract.Thread | undefined {
    const rows = this.#db.rows.filter(isOf(session, user)).filter(isIn(scope)).reverse()
    const [last] = rows
    if (!last) return undefined
    const read = this.#mark(last.session, user, reader)?.upTo ?? 0
    const own = rows.slice(0, 100).filter(isOf(last.session))
    const isTaken = (row: Row) => row.status === 'accepted' || row.status === 'suspect'
    const seen = own.findIndex(row => row.past || isTaken(row) || row.id <= Math.abs(read))
    const refused = rows.every(row => row.status === 'refused')
    const since = seen === -1 ? own : own.slice(0, seen)
    const marked = read < 0 && seen !== -1 && own[seen]!.id <= -read ? 1 : 0
    const unread = since.filter(row => row.direction === 'received').length + marked
    return { user, last: this.#shown(last), unread, refused }
  }

  #mark(session: string, user: string, reader: string | undefined) {
    return this.#db.marks.filter(isOf(session, user)).find(mark => mark.reader === reader)
  }

  readonly conversations = this.#verbs<contract.ConversationStore>({
    listThreads: async ({ before = Infinity, limit, session, sessions, user, ...whose }) => {
      const isVisible = (row: Row) => whose.scope?.users?.includes(row.user) !== false
      const newest = [...new Map(this.#db.rows.filter(isVisible).map(row => [row.user, row.id]))]
        .filter(([peer, id]) => (user === undefined ? peer !== '' && id < before : peer === user))
        .sort(([, a], [, b]) => b - a)
        .slice(0, limit)
      const asked = newest.flatMap(([peer]) =>
        (sessions?.get(peer) ?? [session]).map(name => ({ peer, name })),
      )
      const threads = asked.flatMap(({ name, peer }) => this.#thread(peer, name, whose) ?? [])
      const isEnd = user !== undefined || newest.length < limit
      return { threads, ...(!isEnd && { before: newest.at(-1)?.[1] }) }
    },
    markRead: async (session, user, upTo, reader) => {
      const before = this.#mark(session, user, reader)
      const mark = before ?? { session, user, upTo: 0, reader }
      const head = this.#db.last.row
      mark.upTo = upTo === undefined ? -head : Math.max(Math.abs(mark.upTo), Math.min(upTo, head))
      if (!before) this.#db.marks.push(mark)
    },
    listOpen: async () =>
      this.#db.entries
        .flatMap(({ parts }) => parts.filter(({ status }) => ['asked', 'queued', 'sending'].includes(status)))
        .flatMap(({ message }) => this.#db.row(message) ?? [])
        .map(({ id, status, reason_code }) => ({ id, status: status as SentStatus, reason_code })),
    countMessages: async (since, spanMs, scope) => {
      const isOut = ({ direction, status }: Row) =>
        direction === 'sent' && !['refused', 'queued', 'sending'].includes(String(status))
      const spans = Map.groupBy(this.#db.rows.filter(isIn(scope)), row =>
        Math.floor((row.timestamp - since) / spanMs),
      )
      return [...spans]
        .filter(([span]) => span >= 0)
        .map(([span, rows]) => ({
          span,
          sent: rows.filter(isOut).length,
          received: rows.filter(row => row.direction === 'received').length,
        }))
    },
    sessionsOf: async user => {
      const newest = this.#db.rows.filter(isOf(undefined, user)).slice(-30)
      const received = newest.filter(row => row.direction === 'received' && !row.past)
      const named = this.#db.names.filter(isOf(undefined, user))
      return [...new Set([...received, ...named].map(({ session }) => session))]
    },
    countSuspects: async since => {
      const found = this.#db.rows.filter(row => row.status === 'suspect' && row.timestamp >= since)
      return new Map([...Map.groupBy(found, row => row.session)].map(([name, rows]) => [name, rows.length]))
    },
  })

  readonly names = this.#verbs<contract.UserNameStore>({
    list: async session =>
      new Map(this.#db.names.filter(isOf(session)).map(({ user, name }) => [user, name])),
    find: async name =>
      this.#db.names
        .filter(one => nameKeyOf(one.name) === nameKeyOf(name))
        .map(({ session, user }) => ({ session, user_id: user })),
    set: async (session, user, name) => {
      const others = this.#db.names.filter(one => !isOf(session, user)(one))
      const isTaken = (one: { name: string }) => name !== undefined && nameKeyOf(one.name) === nameKeyOf(name)
      if (others.filter(isOf(session)).some(isTaken))
        throw badArgument('name', 'another user of this session has this name')
      this.#db.names = name === undefined ? others : [...others, { session, user, name }]
    },
  })

  readonly maintenance: contract.StoreMaintenance = {
    checkWritable: async () => (this.#closed ? closed() : undefined),
    isClockTrusted: async () => this.#trust.isTrusted,
    prune: async () => {
      const { maxAgeDays, maxCount } = this.#keep
      const { isTrusted } = this.#trust
      if (isTrusted) this.#outbox.prune()
      const oldest = isTrusted && maxAgeDays > 0 ? this.#clock.now() - maxAgeDays * dayMs : 0
      const first = maxCount > 0 ? this.#db.last.row - maxCount : 0
      const stays = this.#db.rows.filter(row => row.id > first && row.stored_at >= oldest)
      const isLess = stays.length < this.#db.rows.length
      this.#db.rows = stays
      if (isLess) pruneEvents(this.#db)
    },
  }

  close(): void {
    this.#closed = true
    this.#db.wake()
  }
}

type Narrowed = Pick<ReadFilter, 'scope' | 'session'>
const filterOf = ({ scope, session }: Narrowed): Narrowed => ({ scope, session })

const lower = (text: string) => wellFormed(text).replace(/[A-Z]/g, letter => letter.toLowerCase())

function kindsIn(raw: string): string[] {
  try {
    const { item_list }: { item_list?: object[] } = JSON.parse(raw)
    return (item_list ?? []).flatMap(item => Object.keys(item))
  } catch {
    return []
  }
}

const finds = (filter: HistoryFilter) => {
  const needles = formsOf(filter.text_contains ?? '').map(lower)
  const { bot_id, direction, has_kind, msg_type, since = Number.NEGATIVE_INFINITY, user_id } = filter
  return (row: Row) =>
    (user_id ?? row.user) === row.user &&
    (bot_id ?? row.bot_id) === row.bot_id &&
    (direction ?? row.direction) === row.direction &&
    (msg_type ?? row.msg_type) === row.msg_type &&
    row.timestamp >= since &&
    row.timestamp < (filter.until ?? Number.POSITIVE_INFINITY) &&
    needles.some(needle => lower(row.text).includes(needle)) &&
    (!has_kind || row.msg_type === has_kind || kindsIn(row.raw).includes(`${has_kind.toLowerCase()}_item`))
}
