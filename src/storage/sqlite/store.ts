/**
 * The message log: rows in, rows out; knows no network. One SQLite file in WAL, shared by several processes.
 *
 * What must not be lost (received and sent rows) is committed with synchronous=FULL; positions of readers need not
 * be, since losing one means reading again.
 */
import { chmodSync } from 'node:fs'
import { SvcError } from '../../model/error.ts'
import type { UserContext } from '../../model/session.ts'
import type { Clock } from '../../platform/clock.ts'
import { errorCodeOf, makePrivate } from '../../platform/files.ts'
import type { Log } from '../../platform/log.ts'
import { type Database, openDatabase } from '../../platform/sqlite.ts'
import { unavailable } from '../../platform/system-error.ts'
import { Archive } from './archive.ts'
import { Commits } from './change-notifier.ts'
import { ClockTrust } from './clock-trust.ts'
import { CommitQueue } from './commit-queue.ts'
import { type Claim, Consumers } from './consumers.ts'
import { Conversations } from './conversations.ts'
import { Entries } from './entries.ts'
import { History, type HistoryFilter, type HistoryRows } from './history.ts'
import { Past } from './imported-messages.ts'
import { Lanes } from './lanes.ts'
import { type Fits, Messages, type ReceivedMessage, type StoredMessage, type Wanted } from './messages.ts'
import { migrate, refuseNewer } from './migrations.ts'
import { OpenedFile } from './opened-file.ts'
import { Outbox } from './outbox.ts'
import { OutboxEnds } from './outbox-ends.ts'
import { type OutboxVerbs, outboxVerbs } from './outbox-verbs.ts'
import { Owner } from './owner.ts'
import { lastSign, pruneStep, shrinkStep } from './prune.ts'
import { Slots } from './slots.ts'
import { UserNames } from './user-names.ts'

export type { Claim } from './consumers.ts'
export type { HistoryFilter, HistoryRows } from './history.ts'
export type { PastMessage } from './imported-messages.ts'
export type { Lane } from './lanes.ts'
export { type ReceivedMessage, type SentMessage, type StoredMessage, within } from './messages.ts'
export type {
  Begun,
  EndReason,
  Enqueued,
  Entry,
  EntryPart,
  KeptFile,
  NewPart,
  SendMode,
  Settlement,
  Terms,
} from './outbox-model.ts'
export type { OutboxVerbs } from './outbox-verbs.ts'

/** The path of a log that only this process has, gone with it. */
export const inMemory = ':memory:'

export interface StoreOptions {
  /** A file, or `inMemory`. */
  path: string
  clock: Clock
  log: Log
  /** 0: no limit. */
  maxAgeDays: number
  /** 0: no limit. */
  maxCount: number
}

/** While rows are leased, whoever waits looks again after this. */
const lookAtLeasesMs = 1000
/** Steps of one prune at most, each of some hundred rows or pages. */
const pruneSteps = 20_000
/** A writer waits this long for another process; it blocks everything here meanwhile. */
const busyMs = 2000

export class Store {
  readonly #db: Database
  readonly #messages: Messages
  readonly #consumers: Consumers
  readonly #history: History
  readonly #conversations: Conversations
  /** Calls of send, and what is counted of the users they go to. */
  readonly outbox: OutboxVerbs
  readonly #past: Past
  readonly #writes: CommitQueue
  readonly #archive: Archive
  readonly #names: UserNames
  readonly #options: StoreOptions
  readonly #calendar: ClockTrust
  readonly #file: OpenedFile
  readonly #commits: Commits
  /** The last try to work failed, and no batch was stored since. */
  #failing = false
  /** What a page told that cannot be read: no later success heals that. */
  #damage: SvcError | undefined
  /** The clock was not trusted when rows were pruned last. */
  #doubted = false
  #closed = false
  /** Row ids of what cannot be shown, as told. */
  readonly #unreadable = new Set<number>()

  private constructor(db: Database, options: StoreOptions) {
    this.#db = db
    this.#options = options
    this.#file = new OpenedFile(options.path, options.clock)
    this.#commits = new Commits(db, options.log, () => this.#file.lost)
    const owner = new Owner()
    const { clock } = options
    this.#messages = new Messages(db, clock, options.log)
    this.#consumers = new Consumers(db, this.#messages, clock, owner)
    this.#history = new History(db, this.#messages, clock)
    this.#conversations = new Conversations(db, this.#messages)
    this.#past = new Past(db, this.#messages, clock)
    this.#calendar = new ClockTrust(clock, lastSign(db, clock.now()))
    this.#writes = new CommitQueue(db)
    this.#archive = new Archive(db, this.#messages)
    this.#names = new UserNames(db, this.#messages)
    this.outbox = this.#openOutbox(owner)
  }

  #openOutbox(owner: Owner): OutboxVerbs {
    const db = this.#db
    const { clock } = this.#options
    const messages = this.#messages
    const slots = new Slots(db, clock)
    const lanes = new Lanes(db, messages, clock, owner)
    const entries = new Entries(db, { clock, messages, lanes, slots, owner })
    const ends = new OutboxEnds(db, { messages, entries, owner, clock, calendar: this.#calendar })
    const parts = { messages, lanes, slots, entries, ends }
    return outboxVerbs(new Outbox(db, parts, clock, owner), parts, {
      read: work => this.#guarded(work),
      light: work => this.#told(() => this.#relaxed(() => db.transaction(work))),
      write: work => this.#write(work),
    })
  }

  /**
   * Opens (and creates) the store.
   *
   * @throws SvcError `store_unavailable`: not a database, damaged, of a newer version, not writable
   */
  static async open(options: StoreOptions): Promise<Store> {
    const { path } = options
    let db: Database | undefined
    try {
      if (path !== inMemory) await refuseNewer(path)
      db = await openDatabase(path)
      if (path !== inMemory) chmodSync(path, 0o600)
      db.exec(`PRAGMA busy_timeout = ${busyMs * 5}`)
      // Of a new file only: of another it is a write.
      if (db.get`PRAGMA page_count`?.page_count === 0) db.exec('PRAGMA auto_vacuum = INCREMENTAL')
      db.exec('PRAGMA journal_mode = WAL')
      db.exec('PRAGMA synchronous = FULL')
      db.exec('PRAGMA temp_store = MEMORY')
      db.exec('PRAGMA cache_size = -16000')
      db.exec('PRAGMA wal_autocheckpoint = 2000')
      db.exec('PRAGMA journal_size_limit = 67108864')
      migrate(db)
      db.exec(`PRAGMA busy_timeout = ${busyMs}`)
      for (const suffix of path === inMemory ? [] : ['-wal', '-shm']) await makePrivate(`${path}${suffix}`)
      return new Store(db, options)
    } catch (error) {
      db?.close()
      if (error instanceof SvcError) throw error
      throw unavailable(error, 'messages.db cannot be opened')
    }
  }

  /**
   * Stores a polled batch in one durable transaction, each message once.
   *
   * @returns for each message its row id, or `duplicate`
   */
  insertReceived(
    session: string,
    botId: string,
    batch: readonly ReceivedMessage[],
  ): (number | 'duplicate')[] {
    const results = this.#guarded(() => {
      this.#file.refuseLostNow()
      return this.#messages.insertReceived(session, botId, batch)
    })
    this.#failing = false
    this.#commits.wake()
    return results
  }

  /** What other programs received and sent before: history that no reader is given. */
  past<T>(work: (past: Past) => T): T {
    return this.#guarded(() => {
      this.#file.refuseLostNow()
      return work(this.#past)
    })
  }

  /** Contexts of users who wrote long ago; on the disk when it resolves. */
  keepContexts(session: string, users: ReadonlyMap<string, UserContext>): Promise<void> {
    return this.#write(() => this.#archive.keep(session, users))
  }

  /** Those. */
  archive<T>(work: (archive: Archive) => T): T {
    return this.#guarded(() => work(this.#archive))
  }

  /** What people call the users. */
  names<T>(work: (names: UserNames) => T): T {
    return this.#guarded(() => work(this.#names))
  }

  /** Whether what is stored outlives this process. */
  get durable(): boolean {
    return this.#options.path !== inMemory
  }

  /** Rows after a row id, oldest first. */
  after(id: number, options: Wanted): StoredMessage[] {
    return this.#guarded(() => this.#messages.after(id, options))
  }

  /** Ids of rows stored since then (Unix ms), oldest first; the newest of them when they are more than `limit`. */
  recent(since: number, options: Omit<Wanted, 'fits'>): number[] {
    return this.#guarded(() => this.#messages.recent(since, options))
  }

  /** Rows of these ids, up to the first that does not fit. */
  read(ids: readonly number[], fits?: Fits): StoredMessage[] {
    return this.#guarded(() => this.#messages.read(ids, fits))
  }

  byId(id: number): StoredMessage | undefined {
    return this.#guarded(() => this.#messages.byId(id))
  }

  /** The log seen by users. What is noted there need not wait for the disk. */
  conversations<T>(work: (conversations: Conversations) => T): T {
    return this.#guarded(() => this.#relaxed(() => work(this.#conversations)))
  }

  /** What a row holds cannot be shown: told once, however often it is looked at. */
  unreadable({ id, session, message_id }: StoredMessage, error: unknown): void {
    if (this.#unreadable.has(id)) return
    this.#unreadable.add(id)
    this.#options.log.error('a stored message cannot be read', { session, id, message_id, error })
  }

  /** The sessions of the newest messages that a user wrote. */
  writtenTo(user: string): readonly string[] {
    return this.#guarded(() => this.#messages.writtenTo(user))
  }

  byMessageId(messageId: string): StoredMessage | undefined {
    return this.#guarded(() => this.#messages.byMessageId(messageId))
  }

  /**
   * Newest first, by row id. Long searches make way for other work every few milliseconds. A page ends before the first
   * row that does not fit, and `next_before` leads to it.
   *
   * @throws SvcError `invalid_arguments` for a needle that is too long, `store_unavailable`; the signal's reason
   */
  async history(filter: HistoryFilter, signal?: AbortSignal, fits?: Fits): Promise<HistoryRows> {
    try {
      this.#file.refuseLost()
      return await this.#history.page(filter, signal, fits)
    } catch (error) {
      throw this.#errorOf(error)
    }
  }

  /** Row id of the newest row; 0 when there is none. */
  lastId(): number {
    return this.#guarded(() => this.#messages.lastId())
  }

  /** The rows of a session follow its new name. */
  renameSession(oldName: string, newName: string): void {
    this.#guarded(() => this.#messages.renameSession(oldName, newName))
  }

  /** The next received rows of a consumer, leased to the caller until `confirm` or `abandon`. */
  claim(consumer: string, options: Omit<Wanted, 'direction'>): Claim | undefined {
    return this.#guarded(() => this.#relaxed(() => this.#consumers.claim(consumer, options)))
  }

  /** How many received rows wait for a consumer, or follow a row, counted up to `limit`. */
  waiting(from: string | number, options: Pick<Wanted, 'limit' | 'session'>): number {
    return this.#guarded(() =>
      typeof from === 'string'
        ? this.#consumers.waiting(from, options)
        : this.#messages.idsFrom(from, { ...options, direction: 'received' }).length,
    )
  }

  /** Consumers that `claim` gives something again, since a lease lapsed. */
  lapsedConsumers(): ReadonlySet<string> {
    return this.#guarded(() => this.#consumers.lapsed())
  }

  /** The rows of a lease have reached their reader. */
  confirm(lease: number): void {
    this.#guarded(() => this.#relaxed(() => this.#consumers.confirm(lease)))
  }

  /** The rows of a lease may not have reached their reader: they come again, marked. */
  abandon(lease: number): void {
    this.#guarded(() => this.#relaxed(() => this.#consumers.abandon(lease)))
    this.#commits.wake()
  }

  /** The reader of a lease is still at it: it lapses later. */
  renew(lease: number): void {
    this.#guarded(() => this.#relaxed(() => this.#consumers.renew(lease)))
  }

  /**
   * Resolves when there is a row after `seen`, something was committed here or by another process, `ms` have passed or
   * the signal aborts; when the file is lost; and every second while rows are leased, since a lease lapses, and an owner
   * dies, without a word.
   */
  waitForChange(signal: AbortSignal, ms: number, seen: number): Promise<void> {
    if (signal.aborted || this.lastId() > seen) return Promise.resolve()
    const longestMs = this.#guarded(() => this.#consumers.anyLease()) ? Math.min(ms, lookAtLeasesMs) : ms
    return this.#commits.wait(signal, longestMs)
  }

  /** Whether the clock may decide that something is too old to be kept: not within a day after it jumped. */
  get trustsClock(): boolean {
    return this.#calendar.trusted
  }

  /** Removes what retention no longer keeps, in small steps with pauses between them. */
  async prune(signal?: AbortSignal): Promise<void> {
    const { clock, log, maxAgeDays, maxCount } = this.#options
    const trusted = this.trustsClock
    const rules = { now: clock.now(), trusted, maxAgeDays, maxCount, log, warned: new Set<string>() }
    if (trusted) await this.outbox.prune()
    else if (!this.#doubted)
      log.warn('the clock jumped, or svc did not run for long: nothing is removed for its age for a day')
    this.#doubted = !trusted
    const steps = [() => pruneStep(this.#db, rules), () => shrinkStep(this.#db)]
    for (const step of steps) {
      for (let count = 0; count < pruneSteps && !signal?.aborted; count++) {
        if (!this.#guarded(step)) break
        await clock.sleep(5, signal)
      }
    }
  }

  /** Why the store cannot be written to now, as callers are told; undefined when it can. */
  trouble(): SvcError | undefined {
    if (this.#damage) return this.#damage
    try {
      this.#file.refuseLostNow()
      this.#db.exec('PRAGMA busy_timeout = 0')
      try {
        this.#db.transaction(() => {
          // After a failure an empty transaction proves nothing: a full disk is met by the first page that is written.
          if (this.#failing) this.#db.exec(`PRAGMA user_version = ${this.#form()}`)
        })
      } finally {
        this.#db.exec(`PRAGMA busy_timeout = ${busyMs}`)
      }
      return undefined
    } catch (error) {
      // Somebody else writes at this moment: it works.
      if (errorCodeOf(error)?.startsWith('SQLITE_BUSY')) return undefined
      const told = this.#errorOf(error)
      return told instanceof SvcError
        ? told
        : new SvcError('store_unavailable', 'the message store does not work', { cause: error })
    }
  }

  /** Ends waits and closes the file; every later call throws `shutting_down`. */
  close(): void {
    this.#writes.flush()
    this.#closed = true
    this.#commits.wake()
    this.#db.close()
  }

  #form(): number {
    return Number(this.#db.get`PRAGMA user_version`?.user_version)
  }

  /** Without waiting for the disk: what is lost by a power cut is only read again. */
  #relaxed<T>(work: () => T): T {
    this.#db.exec('PRAGMA synchronous = NORMAL')
    try {
      return work()
    } finally {
      this.#db.exec('PRAGMA synchronous = FULL')
    }
  }

  /** In the next transaction, which is on the disk when this resolves. */
  async #write<T>(work: () => T): Promise<T> {
    const before = this.#messages.sentChanges
    this.#guarded(() => this.#file.refuseLostNow())
    try {
      return await this.#writes.write(work)
    } catch (error) {
      throw this.#errorOf(error)
    } finally {
      if (this.#messages.sentChanges !== before) this.#commits.wake()
    }
  }

  /** Whoever waits hears of sent messages too: they are news, though not for readers. */
  #told<T>(work: () => T): T {
    const before = this.#messages.sentChanges
    const result = this.#guarded(work)
    if (this.#messages.sentChanges !== before) this.#commits.wake()
    return result
  }

  #guarded<T>(work: () => T): T {
    if (this.#closed) throw new SvcError('shutting_down', 'the message store is closed')
    try {
      this.#file.refuseLost()
      return work()
    } catch (error) {
      throw this.#errorOf(error)
    }
  }

  /** The error as callers are told of it. */
  #errorOf(error: unknown): unknown {
    if (error instanceof SvcError) return error
    if (this.#closed) return new SvcError('shutting_down', 'the message store is closed', { cause: error })
    const told = unavailable(error, 'the message store does not work at the moment')
    if (told instanceof SvcError) this.#failing = true
    if (told instanceof SvcError && /^SQLITE_(CORRUPT|NOTADB)/.test(errorCodeOf(error) ?? ''))
      this.#damage = told
    return told
  }
}
