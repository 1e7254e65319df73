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
import { noSealer, type Sealer } from '../../platform/sealing.ts'
import { type Database, findDatabaseError, openDatabase, switchToWal } from '../../platform/sqlite.ts'
import { storeErrorOf } from '../../platform/system-error.ts'
import type { AgentStore } from '../agents.ts'
import type { AuditStore } from '../audit.ts'
import type { BackupStore } from '../backups.ts'
import { ClockTrust } from '../clock-trust.ts'
import type { EventLog } from '../events.ts'
import type { KeyStore } from '../keys.ts'
import { createAgents } from '../nouns/agents.ts'
import { createAudit } from '../nouns/audit.ts'
import { createBacklog } from '../nouns/backlog.ts'
import { createBackups } from '../nouns/backups.ts'
import { createEvents } from '../nouns/events.ts'
import { readWaiting } from '../nouns/inspection.ts'
import { openKeys } from '../nouns/keys.ts'
import { createUserNames } from '../nouns/user-names.ts'
import { openWebhooks } from '../nouns/webhooks.ts'
import type { OutboxStore } from '../outbox.ts'
import type { PeopleStore } from '../people.ts'
import { openNoun, type Runner } from '../routine.ts'
import type * as contract from '../store.ts'
import type { WebhookStore } from '../webhooks.ts'
import { SqliteAcknowledgements } from './acknowledgements.ts'
import { ChangeNotifier, CommitQueue } from './commits.ts'
import { SqliteConsumers } from './consumers.ts'
import { SqliteContextArchive } from './context-archive.ts'
import { SqliteConversations } from './conversations.ts'
import { ProcessOwner, type SqliteContext } from './engine-part.ts'
import { SqliteOutboxEntries } from './entries.ts'
import { createLogSql } from './events.ts'
import { SqliteHistory } from './history.ts'
import { SqliteImportedMessages } from './imported-messages.ts'
import { type FileContexts, SqliteOutboxLanes } from './lanes.ts'
import { SqliteMessages } from './messages.ts'
import { migrate, rejectOtherForm } from './migrations.ts'
import { SqliteRenames, SqliteUserNames } from './names.ts'
import { OpenedStoreFile } from './opened-file.ts'
import { SqliteOutbox, type SqliteOutboxParts } from './outbox.ts'
import { SqliteOutboxPlans } from './outbox-plans.ts'
import { eraseInSteps, SqlitePeople } from './people.ts'
import { findLastSign, pruneStep, shrinkStep } from './prune.ts'
import { createNounContext, drive } from './routines.ts'
import { scrubFile } from './scrub.ts'
import { SqliteWebhookProgress } from './webhook-progress.ts'
import { type AsyncMethods, bindMethods, type StrictMethods, type WriteModes } from './write-modes.ts'

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
  /** Seals secrets. By default they stay as they are. */
  sealer?: Sealer
  /** The contexts in the session files; without it only the contexts in the log exist. */
  fileContexts?: FileContexts
  /** How long a write waits for a write of another process. Default: 2 s. */
  busyMs?: number
}

/** While rows are leased, waits end after this time. */
const checkLeasesMs = 1000
/** Maximum number of steps of one prune, each of some hundred rows or pages. */
const pruneSteps = 20_000
/** How long a writer waits for another process; it blocks this process meanwhile. */
const defaultBusyMs = 2000

/**
 * Methods of the log that the engine needs in addition, to change log and session folders together
 * (`open.ts`).
 */
export interface LogInternals {
  readonly durable: boolean
  readonly contexts: AsyncMethods<
    SqliteContextArchive,
    'save' | 'find' | 'list' | 'listLanes' | 'count' | 'findSessions' | 'drop' | 'withdraw' | 'forget'
  >
  readonly names: AsyncMethods<SqliteUserNames, 'listChangedSince' | 'listAll'>
  readonly intake: AsyncMethods<SqliteMessages, 'insertReceived'>
  readonly maintenance: AsyncMethods<
    SqliteRenames,
    'intendRename' | 'listIntendedRenames' | 'renameSession' | 'respellSession'
  > & {
    /** Writes what waits, ends waits, and releases everything. Safe to call twice. */
    close(): Promise<void>
  }
}

export class SqliteStore implements contract.Store, LogInternals {
  readonly durable: boolean
  readonly intake: StrictMethods<contract.Intake & LogInternals['intake']>
  readonly log: StrictMethods<contract.MessageLog>
  readonly events: StrictMethods<EventLog>
  readonly consumers: StrictMethods<contract.Consumers>
  readonly acknowledgements: StrictMethods<contract.Acknowledgements>
  readonly backlog: StrictMethods<contract.Backlog>
  readonly conversations: StrictMethods<contract.ConversationStore>
  readonly names: StrictMethods<contract.UserNameStore & LogInternals['names']>
  readonly contexts: LogInternals['contexts']
  readonly outbox: StrictMethods<OutboxStore>
  readonly webhooks: StrictMethods<WebhookStore>
  readonly keys: StrictMethods<KeyStore>
  readonly audit: StrictMethods<AuditStore>
  readonly backups: StrictMethods<BackupStore>
  readonly people: StrictMethods<PeopleStore>
  readonly agents: StrictMethods<AgentStore>
  readonly maintenance: StrictMethods<contract.StoreMaintenance & LogInternals['maintenance']>
  readonly #db: Database
  readonly #messages: SqliteMessages
  /** Removes entries of the outbox that answer for nothing any more. */
  readonly #pruneOutbox: () => Promise<void>
  readonly #writes: CommitQueue
  readonly #options: StoreOptions
  readonly #clockTrust: ClockTrust
  readonly #file: OpenedStoreFile
  readonly #changes: ChangeNotifier
  /** The last operation failed, and no batch was stored since. */
  #isFailing = false
  /** The error from a damaged page: no later success clears it. */
  #damage: SvcError | undefined
  /** The clock was not trusted at the last prune. */
  #wasDoubted = false
  #isClosed = false
  readonly #modes: WriteModes = {
    plain: work => this.#runGuarded(work),
    relaxed: work => this.#runGuarded(() => this.#runRelaxed(work)),
    redelivery: work => {
      const result = this.#runGuarded(() => this.#runRelaxed(work))
      this.#changes.notify()
      return result
    },
    light: work => this.#runNotifying(() => this.#runRelaxed(() => this.#db.transaction(work))),
    write: work => this.#write(work),
    intake: work => this.#runIntake(work),
  }

  private constructor(db: Database, options: StoreOptions) {
    const { clock, log, path, sealer = noSealer } = options
    this.#db = db
    this.#options = options
    this.durable = path !== inMemory
    this.#file = new OpenedStoreFile(path, clock)
    this.#changes = new ChangeNotifier(db, log, () => this.#file.isLost)
    this.#messages = new SqliteMessages(db, clock, log, sealer)
    this.#clockTrust = new ClockTrust(clock, findLastSign(db, clock.now()))
    this.#writes = new CommitQueue(db)
    const messages = this.#messages
    const ground = { db, messages, clock, sealer, owner: new ProcessOwner() }
    const consumers = new SqliteConsumers(ground)
    const webhooks = new SqliteWebhookProgress(db, ground.owner)
    const past = new SqliteImportedMessages(ground)
    const acknowledgements = new SqliteAcknowledgements(ground, consumers)
    const archive = new SqliteContextArchive(ground)
    const conversations = new SqliteConversations(ground)
    const names = new SqliteUserNames(ground)
    const { intake, plain, redelivery, relaxed, write } = this.#modes
    this.intake = {
      ...bindMethods(intake, messages, 'insertReceived'),
      ...bindMethods(intake, past, 'add'),
      ...bindMethods(plain, past, 'count', 'has'),
    }
    this.log = this.#openLog(ground, consumers)
    this.consumers = {
      ...bindMethods(relaxed, consumers, 'register', 'claim', 'ack', 'renew', 'recordHandOut'),
      ...bindMethods(redelivery, consumers, 'giveBack', 'nack'),
    }
    this.acknowledgements = {
      ...bindMethods(relaxed, acknowledgements, 'readAfter'),
      ...bindMethods(write, acknowledgements, 'markHandedOut'),
    }
    const waiting = {
      ...bindMethods(plain, consumers, 'countWaiting', 'findConsumersToRedeliver'),
      ...bindMethods(plain, messages, 'listRecent'),
    }
    this.conversations = {
      ...bindMethods(plain, conversations, 'listThreads', 'countMessages', 'countSuspects'),
      ...bindMethods(plain, names, 'sessionsOf', 'listAlike'),
      ...bindMethods(relaxed, conversations, 'markRead'),
    }
    this.contexts = {
      ...bindMethods(write, archive, 'save'),
      ...bindMethods(
        plain,
        archive,
        'find',
        'list',
        'listLanes',
        'count',
        'findSessions',
        'withdraw',
        'forget',
      ),
      ...bindMethods(relaxed, archive, 'drop'),
    }
    const lanes = new SqliteOutboxLanes(ground, this.#options.fileContexts ?? (() => new Map()))
    const entries = new SqliteOutboxEntries(ground, lanes)
    const plans = new SqliteOutboxPlans(ground, entries)
    const { prune, ...outbox } = this.#openOutbox(ground, { lanes, entries, plans })
    this.outbox = outbox
    this.#pruneOutbox = prune
    const nouns = createNounContext(ground, plans)
    const run: Runner = async (mode, begin) =>
      this.#modes[mode === 'news' ? 'intake' : mode](() =>
        mode === 'plain' || mode === 'relaxed'
          ? drive(db, begin())
          : db.transaction(() => drive(db, begin())),
      )
    const logSql = createLogSql(ground)
    const events = createEvents(nouns, logSql)
    this.events = {
      ...openNoun(events, run),
      wait: async (seen, ms, signal) => {
        const isThere = signal.aborted || this.#runGuarded(() => drive(db, events.verbs.getHead())) !== seen
        if (!isThere) await this.#changes.wait(signal, ms)
      },
    }
    this.backlog = { ...waiting, ...openNoun(createBacklog(nouns, logSql, events), run) }
    this.audit = openNoun(createAudit(nouns), run)
    this.names = {
      ...openNoun(createUserNames(nouns), run),
      ...bindMethods(plain, names, 'listAll', 'listChangedSince'),
    }
    this.webhooks = openWebhooks(nouns, run, {
      ...bindMethods(plain, webhooks, 'takeOver', 'listTries'),
      ...bindMethods(this.#modes.light, webhooks, 'save', 'addTry'),
    })
    this.keys = { ...openKeys(nouns, run), shareUse: async () => [] }
    this.backups = openNoun(createBackups(nouns), run)
    this.people = this.#openPeople(new SqlitePeople(ground, plans))
    this.agents = openNoun(createAgents(nouns), run)
    this.maintenance = this.#openMaintenance(new SqliteRenames(ground, webhooks))
  }

  #openLog(ground: SqliteContext, consumers: SqliteConsumers): StrictMethods<contract.MessageLog> {
    const { messages } = ground
    const history = new SqliteHistory(ground)
    return {
      ...bindMethods(this.#modes.plain, messages, 'getHead', 'listAfter', 'getByIds', 'getByMessageIds'),
      wait: async (seen, ms, signal) => {
        if (signal.aborted || this.#runGuarded(() => messages.getHead()) > seen) return
        const longestMs = this.#runGuarded(() => consumers.hasLease()) ? Math.min(ms, checkLeasesMs) : ms
        await this.#changes.wait(signal, longestMs)
      },
      search: (filter, signal) => this.#runLong(() => history.findPage(filter, signal)),
      findRange: range => this.#runLong(() => history.findRange(range)),
    }
  }

  #openOutbox(
    ground: SqliteContext,
    parts: SqliteOutboxParts,
  ): StrictMethods<OutboxStore & { prune(): Promise<void> }> {
    const { entries, lanes } = parts
    const outbox = new SqliteOutbox(ground, parts, this.#clockTrust)
    const { light, plain, write } = this.#modes
    return {
      ...bindMethods(
        write,
        outbox,
        'enqueue',
        'approve',
        'begin',
        'settle',
        'end',
        'expire',
        'prune',
        'reap',
      ),
      ...bindMethods(write, lanes, 'holdBack'),
      ...bindMethods(plain, entries, 'getEntry', 'list', 'fileOf', 'listFiles'),
      ...bindMethods(plain, lanes, 'listWaiting', 'getCounters', 'checkAdmission'),
      ...bindMethods(light, outbox, 'claim', 'renew'),
      ...bindMethods(light, lanes, 'release'),
      getDepth: async () => this.#runGuarded(() => drive(ground.db, readWaiting())),
      findByKey: async key =>
        this.#runGuarded(() => outbox.hasKey(key)) ? this.#write(() => outbox.findByKey(key)) : undefined,
    }
  }

  #openPeople(people: SqlitePeople): StrictMethods<PeopleStore> {
    return {
      ...bindMethods(this.#modes.plain, people, 'hashOf', 'listFiles', 'countErasures'),
      ...bindMethods(this.#modes.intake, people, 'begin'),
      erase: user => eraseInSteps(people, user, work => this.#runIntake(work)),
      scrub: async () => {
        if (this.durable) await scrubFile(this.#options.path)
      },
      listRemains: async () => [],
    }
  }

  #openMaintenance(
    renames: SqliteRenames,
  ): StrictMethods<contract.StoreMaintenance & LogInternals['maintenance']> {
    return {
      checkWritable: async () => this.#checkWritable(),
      isClockTrusted: async () => this.#clockTrust.isTrusted,
      prune: signal => this.#prune(signal),
      ...bindMethods(
        this.#modes.plain,
        renames,
        ...(['intendRename', 'listIntendedRenames', 'renameSession', 'respellSession'] as const),
      ),
      close: async () => this.#close(),
    }
  }

  /**
   * Opens the store, and creates it if needed.
   *
   * @throws SvcError `store_unavailable`: not a database, damaged, of a newer version, not writable
   */
  static async open(options: StoreOptions): Promise<SqliteStore> {
    const { path, busyMs = defaultBusyMs } = options
    const openMs = busyMs * 5
    let db: Database | undefined
    try {
      if (path !== inMemory) await rejectOtherForm(path)
      db = await openDatabase(path)
      if (path !== inMemory) chmodSync(path, 0o600)
      db.exec(`PRAGMA busy_timeout = ${openMs}`)
      // Only for a new file: for an existing one this pragma would write.
      if (db.get`PRAGMA page_count`?.page_count === 0) db.exec('PRAGMA auto_vacuum = INCREMENTAL')
      await switchToWal(db, openMs)
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
      throw storeErrorOf(await findDatabaseError(path, error), 'messages.db cannot be opened')
    }
  }

  async #prune(signal?: AbortSignal): Promise<void> {
    const { clock, log, maxAgeDays, maxCount } = this.#options
    const trusted = this.#clockTrust.isTrusted
    const rules = { now: clock.now(), trusted, maxAgeDays, maxCount, log, warned: new Set<string>() }
    if (trusted) await this.#pruneOutbox()
    else if (!this.#wasDoubted)
      log.warn('the clock jumped, or svc did not run for long: nothing is removed for its age for a day')
    this.#wasDoubted = !trusted
    const steps = [() => pruneStep(this.#db, rules), () => shrinkStep(this.#db)]
    for (const step of steps) {
      for (let count = 0; count < pruneSteps && !signal?.aborted; count++) {
        if (!this.#runGuarded(step)) break
        await clock.sleep(5, signal)
      }
    }
  }

  #checkWritable(): SvcError | undefined {
    if (this.#damage) return this.#damage
    try {
      this.#file.rejectLostNow()
      this.#db.exec('PRAGMA busy_timeout = 0')
      try {
        this.#db.transaction(() => {
          // After a failure an empty transaction proves nothing: a full disk fails only when a page is
          // written.
          if (this.#isFailing) this.#db.exec(`PRAGMA user_version = ${this.#readSchemaVersion()}`)
        })
      } finally {
        this.#db.exec(`PRAGMA busy_timeout = ${this.#options.busyMs ?? defaultBusyMs}`)
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
    if (this.#isClosed) return
    this.#writes.flush()
    this.#isClosed = true
    this.#changes.notify()
    this.#db.close()
  }

  #readSchemaVersion(): number {
    return Number(this.#db.get`PRAGMA user_version`?.user_version)
  }

  /** Runs `work` without waiting for the disk. Data that a power cut loses is only read again. */
  #runRelaxed<T>(work: () => T): T {
    this.#db.exec('PRAGMA synchronous = NORMAL')
    try {
      return work()
    } finally {
      this.#db.exec('PRAGMA synchronous = FULL')
    }
  }

  #runIntake<T>(work: () => T): T {
    const result = this.#runGuarded(() => {
      this.#file.rejectLostNow()
      return work()
    })
    this.#isFailing = false
    this.#changes.notify()
    return result
  }

  /** Runs `work` in the next transaction, which is on the disk when this resolves. */
  async #write<T>(work: () => T): Promise<T> {
    const before = this.#messages.sentChanges
    this.#runGuarded(() => this.#file.rejectLostNow())
    try {
      return await this.#writes.write(work)
    } catch (error) {
      throw this.#errorOf(error)
    } finally {
      if (this.#messages.sentChanges !== before) this.#changes.notify()
    }
  }

  /** Also notifies waiting callers of changes to sent messages: they are events, though not for consumers. */
  #runNotifying<T>(work: () => T): T {
    const before = this.#messages.sentChanges
    const result = this.#runGuarded(work)
    if (this.#messages.sentChanges !== before) this.#changes.notify()
    return result
  }

  #runGuarded<T>(work: () => T): T {
    if (this.#isClosed) throw new SvcError('shutting_down', 'the message store is closed')
    try {
      this.#file.rejectLost()
      return work()
    } catch (error) {
      throw this.#errorOf(error)
    }
  }

  /** Runs work that yields to the event loop. */
  async #runLong<T>(work: () => Promise<T>): Promise<T> {
    try {
      this.#file.rejectLost()
      return await work()
    } catch (error) {
      throw this.#errorOf(error)
    }
  }

  /** Converts an error for callers. */
  #errorOf(error: unknown): unknown {
    if (error instanceof SvcError) return error
    if (this.#isClosed) return new SvcError('shutting_down', 'the message store is closed', { cause: error })
    const svcError = storeErrorOf(error, 'the message store does not work at the moment')
    if (svcError instanceof SvcError) this.#isFailing = true
    if (svcError instanceof SvcError && /^SQLITE_(CORRUPT|NOTADB)/.test(errorCodeOf(error) ?? ''))
      this.#damage = svcError
    return svcError
  }
}
