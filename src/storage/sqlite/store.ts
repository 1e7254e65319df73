/**
 * The store on one machine: one SQLite file in WAL mode, shared by several processes. A method does its work
 * synchronously within the call. What must not be lost (received and sent rows) is committed with
 * synchronous=FULL; positions of readers are not.
 */
import { chmodSync } from 'node:fs'
import { SvcError } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'
import { errorCodeOf, makePrivate } from '../../platform/files.ts'
import type { Log } from '../../platform/log.ts'
import { type Database, databaseError, openDatabase } from '../../platform/sqlite.ts'
import { unavailable } from '../../platform/system-error.ts'
import { ClockTrust } from '../clock-trust.ts'
import type { Events as EventLogContract } from '../events.ts'
import type { Outbox as OutboxContract } from '../outbox.ts'
import type * as contract from '../store.ts'
import type { Webhooks as WebhooksContract } from '../webhooks.ts'
import { Acknowledgements } from './acknowledgements.ts'
import { ChangeNotifier, CommitQueue } from './commits.ts'
import { Consumers } from './consumers.ts'
import { Conversations } from './conversations.ts'
import { type Ground, Owner } from './engine-part.ts'
import { Entries } from './entries.ts'
import { Events } from './events.ts'
import { History } from './history.ts'
import { Past } from './imported-messages.ts'
import { Archive, type FiledContexts, Lanes, PaceSlots } from './lanes.ts'
import { Messages } from './messages.ts'
import { migrate, refuseNewer } from './migrations.ts'
import { Renames, UserNames } from './names.ts'
import { OpenedFile } from './opened-file.ts'
import { Outbox } from './outbox.ts'
import { OutboxEnds } from './outbox-ends.ts'
import { lastSign, pruneStep, shrinkStep } from './prune.ts'
import { type Strict, type Verbs, verbs, type Ways } from './ways.ts'
import { Webhooks } from './webhooks.ts'

/** Path of a log that only this process has and that ends with it. */
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
  /** The contexts in the session files; without it only the contexts in the log exist. */
  filed?: FiledContexts
  /** How long a write waits for a write of another process. Default: 2 s. */
  busyMs?: number
}

/** While rows are leased, waits end after this time. */
const lookAtLeasesMs = 1000
/** Maximum number of steps of one prune, each of some hundred rows or pages. */
const pruneSteps = 20_000
/** How long a writer waits for another process; it blocks this process meanwhile. */
const usualBusyMs = 2000

/**
 * Methods of the log that the engine needs in addition, to change log and session folders together
 * (`open.ts`).
 */
export interface LogHalf {
  readonly durable: boolean
  readonly contexts: Verbs<
    Archive,
    'keep' | 'find' | 'of' | 'lanes' | 'count' | 'knowing' | 'drop' | 'withdraw' | 'forget'
  >
  readonly names: Verbs<UserNames, 'changedSince' | 'ofAll'>
  readonly intake: Verbs<Messages, 'insertReceived'>
  readonly upkeep: Verbs<Renames, 'intendRename' | 'intendedRenames' | 'renameSession'> & {
    /** Writes what waits, ends waits, and releases everything. Safe to call twice. */
    close(): Promise<void>
  }
}

export class SqliteStore implements contract.Store, LogHalf {
  readonly durable: boolean
  readonly intake: Strict<contract.Intake & LogHalf['intake']>
  readonly log: Strict<contract.MessageLog>
  readonly events: Strict<EventLogContract>
  readonly consumers: Strict<contract.Consumers>
  readonly acknowledgements: Strict<contract.Acknowledgements>
  readonly backlog: Strict<contract.Backlog>
  readonly conversations: Strict<contract.Conversations>
  readonly names: Strict<contract.Names & LogHalf['names']>
  readonly contexts: LogHalf['contexts']
  readonly outbox: Strict<OutboxContract>
  readonly webhooks: Strict<WebhooksContract>
  readonly upkeep: Strict<contract.Upkeep & LogHalf['upkeep']>
  readonly #db: Database
  readonly #messages: Messages
  /** Removes entries of the outbox that answer for nothing any more. */
  readonly #pruneOutbox: () => Promise<void>
  readonly #writes: CommitQueue
  readonly #options: StoreOptions
  readonly #calendar: ClockTrust
  readonly #file: OpenedFile
  readonly #changes: ChangeNotifier
  /** The last operation failed, and no batch was stored since. */
  #failing = false
  /** The error from a damaged page: no later success clears it. */
  #damage: SvcError | undefined
  /** The clock was not trusted at the last prune. */
  #doubted = false
  #closed = false
  readonly #ways: Ways = {
    plain: work => this.#guarded(work),
    relaxed: work => this.#guarded(() => this.#relaxed(work)),
    redelivery: work => {
      const result = this.#guarded(() => this.#relaxed(work))
      this.#changes.wake()
      return result
    },
    light: work => this.#runNotifying(() => this.#relaxed(() => this.#db.transaction(work))),
    write: work => this.#write(work),
    intake: work => this.#taken(work),
  }

  private constructor(db: Database, options: StoreOptions) {
    const { clock, log, path } = options
    this.#db = db
    this.#options = options
    this.durable = path !== inMemory
    this.#file = new OpenedFile(path, clock)
    this.#changes = new ChangeNotifier(db, log, () => this.#file.lost)
    this.#messages = new Messages(db, clock, log)
    this.#calendar = new ClockTrust(clock, lastSign(db, clock.now()))
    this.#writes = new CommitQueue(db)
    const messages = this.#messages
    const ground = { db, messages, clock, owner: new Owner() }
    const consumers = new Consumers(ground)
    const events = new Events(ground)
    const webhooks = new Webhooks(db, ground.owner)
    const past = new Past(ground)
    const acknowledgements = new Acknowledgements(ground, consumers)
    const archive = new Archive(ground)
    const conversations = new Conversations(ground)
    const names = new UserNames(ground)
    const { intake, plain, redelivery, relaxed, write } = this.#ways
    this.intake = {
      ...verbs(intake, messages, 'insertReceived'),
      ...verbs(intake, past, 'add'),
      ...verbs(plain, past, 'count', 'has'),
    }
    this.log = this.#openLog(ground, consumers)
    this.events = this.#openEvents(events)
    this.consumers = {
      ...verbs(relaxed, consumers, 'begin', 'claim', 'ack', 'renew'),
      ...verbs(redelivery, consumers, 'giveBack', 'nack'),
    }
    this.acknowledgements = {
      ...verbs(relaxed, acknowledgements, 'after'),
      ...verbs(write, acknowledgements, 'handedOut'),
    }
    this.backlog = {
      ...verbs(plain, consumers, 'waiting', 'lags', 'lapsed'),
      ...verbs(plain, messages, 'recent'),
      ...verbs(plain, events, 'readers'),
      events: async cursor => this.#guarded(() => events.countAfter(cursor)),
    }
    this.conversations = {
      ...verbs(plain, conversations, 'threads', 'open', 'counts', 'suspects'),
      ...verbs(plain, names, 'sessionsOf'),
      ...verbs(relaxed, conversations, 'markRead'),
    }
    this.names = verbs(plain, names, 'of', 'ofAll', 'changedSince', 'called', 'set')
    this.contexts = {
      ...verbs(write, archive, 'keep'),
      ...verbs(plain, archive, 'find', 'of', 'lanes', 'count', 'knowing', 'withdraw', 'forget'),
      ...verbs(relaxed, archive, 'drop'),
    }
    const { prune, ...outbox } = this.#openOutbox(ground)
    this.outbox = outbox
    this.#pruneOutbox = prune
    this.webhooks = this.#openWebhooks(webhooks)
    this.upkeep = this.#openUpkeep(new Renames(ground, webhooks))
  }

  #openLog(ground: Ground, consumers: Consumers): Strict<contract.MessageLog> {
    const { messages } = ground
    const history = new History(ground)
    return {
      ...verbs(this.#ways.plain, messages, 'head', 'after', 'byIds', 'byMessageIds'),
      wait: async (seen, ms, signal) => {
        if (signal.aborted || this.#guarded(() => messages.head()) > seen) return
        const longestMs = this.#guarded(() => consumers.anyLease()) ? Math.min(ms, lookAtLeasesMs) : ms
        await this.#changes.wait(signal, longestMs)
      },
      history: async (filter, signal) => {
        try {
          this.#file.refuseLost()
          return await history.page(filter, signal)
        } catch (error) {
          throw this.#errorOf(error)
        }
      },
    }
  }

  #openEvents(events: Events): Strict<EventLogContract> {
    const { intake, plain, relaxed } = this.#ways
    return {
      ...verbs(plain, events, 'head', 'after', 'position'),
      ...verbs(intake, events, 'append'),
      ...verbs(relaxed, events, 'move'),
      wait: async (seen, ms, signal) => {
        const isThere = signal.aborted || this.#guarded(() => events.head()) !== seen
        if (!isThere) await this.#changes.wait(signal, ms)
      },
    }
  }

  #openOutbox(ground: Ground): Strict<OutboxContract & { prune(): Promise<void> }> {
    const slots = new PaceSlots(ground)
    const lanes = new Lanes(ground, slots, this.#options.filed ?? (() => new Map()))
    const entries = new Entries(ground, lanes, slots)
    const ends = new OutboxEnds(ground, entries, this.#calendar)
    const outbox = new Outbox(ground, { lanes, slots, entries, ends })
    const { light, plain, write } = this.#ways
    return {
      ...verbs(write, outbox, 'enqueue', 'approve', 'begin', 'settle', 'holdBack'),
      ...verbs(write, ends, 'end', 'expire', 'prune', 'reap'),
      ...verbs(plain, outbox, 'verdict'),
      ...verbs(plain, entries, 'entry', 'list', 'depth', 'fileOf', 'files'),
      ...verbs(plain, lanes, 'waiting', 'counters'),
      ...verbs(light, outbox, 'claim'),
      ...verbs(light, lanes, 'release'),
      ...verbs(light, ends, 'renew'),
      keyed: async key =>
        this.#guarded(() => ends.hasKey(key)) ? this.#write(() => ends.keyed(key)) : undefined,
    }
  }

  #openWebhooks(webhooks: Webhooks): Strict<WebhooksContract> {
    const { intake, light, plain } = this.#ways
    return {
      ...verbs(plain, webhooks, 'list', 'get'),
      ...verbs(intake, webhooks, 'add', 'change', 'rewind', 'remove'),
      progress: {
        ...verbs(plain, webhooks, 'takeOver', 'lanes', 'tries'),
        ...verbs(light, webhooks, 'keep', 'tried'),
      },
    }
  }

  #openUpkeep(renames: Renames): Strict<contract.Upkeep & LogHalf['upkeep']> {
    return {
      trouble: async () => this.#trouble(),
      trustsClock: async () => this.#calendar.trusted,
      prune: signal => this.#prune(signal),
      ...verbs(this.#ways.plain, renames, 'intendRename', 'intendedRenames', 'renameSession'),
      close: async () => this.#close(),
    }
  }

  /**
   * Opens the store, and creates it if needed.
   *
   * @throws SvcError `store_unavailable`: not a database, damaged, of a newer version, not writable
   */
  static async open(options: StoreOptions): Promise<SqliteStore> {
    const { path, busyMs = usualBusyMs } = options
    let db: Database | undefined
    try {
      if (path !== inMemory) await refuseNewer(path)
      db = await openDatabase(path)
      if (path !== inMemory) chmodSync(path, 0o600)
      db.exec(`PRAGMA busy_timeout = ${busyMs * 5}`)
      // Only for a new file: for an existing one this pragma would write.
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
      return new SqliteStore(db, options)
    } catch (error) {
      db?.close()
      if (error instanceof SvcError) throw error
      throw unavailable(await databaseError(path, error), 'messages.db cannot be opened')
    }
  }

  async #prune(signal?: AbortSignal): Promise<void> {
    const { clock, log, maxAgeDays, maxCount } = this.#options
    const trusted = this.#calendar.trusted
    const rules = { now: clock.now(), trusted, maxAgeDays, maxCount, log, warned: new Set<string>() }
    if (trusted) await this.#pruneOutbox()
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

  #trouble(): SvcError | undefined {
    if (this.#damage) return this.#damage
    try {
      this.#file.refuseLostNow()
      this.#db.exec('PRAGMA busy_timeout = 0')
      try {
        this.#db.transaction(() => {
          // After a failure an empty transaction proves nothing: a full disk fails only when a page is
          // written.
          if (this.#failing) this.#db.exec(`PRAGMA user_version = ${this.#form()}`)
        })
      } finally {
        this.#db.exec(`PRAGMA busy_timeout = ${this.#options.busyMs ?? usualBusyMs}`)
      }
      return undefined
    } catch (error) {
      // Another process writes at this moment: the store works.
      if (errorCodeOf(error)?.startsWith('SQLITE_BUSY')) return undefined
      const svcError = this.#errorOf(error)
      return svcError instanceof SvcError
        ? svcError
        : new SvcError('store_unavailable', 'the message store does not work', { cause: error })
    }
  }

  #close(): void {
    if (this.#closed) return
    this.#writes.flush()
    this.#closed = true
    this.#changes.wake()
    this.#db.close()
  }

  #form(): number {
    return Number(this.#db.get`PRAGMA user_version`?.user_version)
  }

  /** Runs `work` without waiting for the disk. Data that a power cut loses is only read again. */
  #relaxed<T>(work: () => T): T {
    this.#db.exec('PRAGMA synchronous = NORMAL')
    try {
      return work()
    } finally {
      this.#db.exec('PRAGMA synchronous = FULL')
    }
  }

  #taken<T>(work: () => T): T {
    const result = this.#guarded(() => {
      this.#file.refuseLostNow()
      return work()
    })
    this.#failing = false
    this.#changes.wake()
    return result
  }

  /** Runs `work` in the next transaction, which is on the disk when this resolves. */
  async #write<T>(work: () => T): Promise<T> {
    const before = this.#messages.sentChanges
    this.#guarded(() => this.#file.refuseLostNow())
    try {
      return await this.#writes.write(work)
    } catch (error) {
      throw this.#errorOf(error)
    } finally {
      if (this.#messages.sentChanges !== before) this.#changes.wake()
    }
  }

  /** Also notifies waiting callers of changes to sent messages: they are events, though not for consumers. */
  #runNotifying<T>(work: () => T): T {
    const before = this.#messages.sentChanges
    const result = this.#guarded(work)
    if (this.#messages.sentChanges !== before) this.#changes.wake()
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

  /** Converts an error for callers. */
  #errorOf(error: unknown): unknown {
    if (error instanceof SvcError) return error
    if (this.#closed) return new SvcError('shutting_down', 'the message store is closed', { cause: error })
    const svcError = unavailable(error, 'the message store does not work at the moment')
    if (svcError instanceof SvcError) this.#failing = true
    if (svcError instanceof SvcError && /^SQLITE_(CORRUPT|NOTADB)/.test(errorCodeOf(error) ?? ''))
      this.#damage = svcError
    return svcError
  }
}
