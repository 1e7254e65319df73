/**
 * The store on one machine: one SQLite file in WAL mode, shared by several processes. A method does its work
 * synchronously within the call. What must not be lost (received and sent rows) is committed with
 * synchronous=FULL; positions of readers are not.
 */
import { changeApart, doneApart } from '../../platform/apart.ts'
import type { Clock } from '../../platform/clock.ts'
import type { Log } from '../../platform/log.ts'
import { noSealer, type Sealer } from '../../platform/sealing.ts'
import { constantSql, sql } from '../../platform/sql.ts'
import type { Database } from '../../platform/sqlite.ts'
import type { Tasks } from '../../platform/tasks.ts'
import { ClockTrust } from '../clock-trust.ts'
import type { Joining, JoinOutcome } from '../invitations.ts'
import type { LoginStore } from '../logins.ts'
import { openAgents } from '../nouns/agents.ts'
import { createAsks } from '../nouns/asks.ts'
import { openAudit } from '../nouns/audit.ts'
import { createBacklog } from '../nouns/backlog.ts'
import { createBackups } from '../nouns/backups.ts'
import { createConsumers } from '../nouns/consumers.ts'
import { createEvents } from '../nouns/events.ts'
import { readWaiting } from '../nouns/inspection.ts'
import { createInvitations, createJoin } from '../nouns/invitations.ts'
import { openKeys } from '../nouns/keys.ts'
import { openLogins } from '../nouns/logins.ts'
import { createRemoveOld } from '../nouns/old-rows.ts'
import { openPeople } from '../nouns/people.ts'
import { createRelays } from '../nouns/relays.ts'
import {
  createPrune,
  inSteps,
  noteClock,
  noteRetention,
  type Retention,
  readClock,
} from '../nouns/retention.ts'
import { createScans, type Scans } from '../nouns/scans.ts'
import { createSignIns } from '../nouns/sign-ins.ts'
import { openTopics } from '../nouns/topics.ts'
import { createUserNames } from '../nouns/user-names.ts'
import { openWebhooks } from '../nouns/webhooks.ts'
import type { EndedEntry, ExpiryReasons } from '../outbox.ts'
import { openNoun, type Routine, type Runner, readFirst } from '../routine.ts'
import type { SignInStore } from '../state.ts'
import type * as contract from '../store.ts'
import { SqliteAcknowledgements } from './acknowledgements.ts'
import { SqliteConsumers } from './consumers.ts'
import { SqliteContextArchive } from './context-archive.ts'
import { SqliteConversations } from './conversations.ts'
import { sqliteDialect } from './dialect.ts'
import { ProcessOwner, type SqliteContext } from './engine-part.ts'
import { SqliteOutboxEntries } from './entries.ts'
import { findErased } from './erased-users.ts'
import { createLogSql } from './events.ts'
import { SqliteHistory } from './history.ts'
import { SqliteImportedMessages } from './imported-messages.ts'
import { type FileContexts, SqliteOutboxLanes } from './lanes.ts'
import { SqliteMessages } from './messages.ts'
import { SqliteRenames, SqliteUserNames } from './names.ts'
import { type Orphan, SqliteOutbox, type SqliteOutboxParts } from './outbox.ts'
import { SqliteOutboxPlans } from './outbox-plans.ts'
import { createPeopleParts } from './people.ts'
import { createNounContext, drive } from './routines.ts'
import { scrubFile } from './scrub.ts'
import { checkpoint, shrinkStep } from './shrink.ts'
import { takeOver } from './webhook-progress.ts'
import { inMemory, openStoreFile, SqliteWork } from './work.ts'
import { type AsyncMethods, bindMethods, type StrictMethods } from './write-modes.ts'

export interface StoreOptions extends Retention {
  /** A file, or `inMemory`. */
  path: string
  clock: Clock
  log: Log
  /** Seals secrets. By default they stay as they are. */
  sealer?: Sealer
  /** The contexts in the session files; without it only the contexts in the log exist. */
  fileContexts?: FileContexts
  /** How long a write waits for a write of another process. Default: 2 s. */
  busyMs?: number
  /** Where its work in the background is registered. */
  tasks?: Tasks
}

const storeTable = constantSql('store_id')

/** While rows are leased, waits end after this time. */
const checkLeasesMs = 1000
/** Waits for logins look again after this time. */
const checkLoginsMs = 1000
const never = new AbortController().signal

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
  readonly joins: { join(joining: Joining): Promise<JoinOutcome> }
  readonly scans: Scans
  readonly signIns: SignInStore
  readonly logins: Omit<LoginStore, 'finish'>
  readonly maintenance: AsyncMethods<
    SqliteRenames,
    'intendRename' | 'listIntendedRenames' | 'renameSession' | 'respellSession'
  > & {
    /** Writes what waits, ends waits, and releases everything. Safe to call twice. */
    close(): Promise<void>
  }
}

export type SqliteStore = contract.Store & LogInternals

/** Opens the store, and creates it if needed. @throws same as `openStoreFile` */
export const openSqliteStore = (options: StoreOptions): Promise<SqliteStore> =>
  openStoreFile(options.path, options.busyMs, db => createStore(db, options))

function createStore(db: Database, options: StoreOptions): StrictMethods<SqliteStore> {
  const { clock, log, path, sealer = noSealer } = options
  const messages = new SqliteMessages({ db, clock, log, sealer })
  const work = new SqliteWork({ ...options, db, messages })
  const clockTrust = new ClockTrust(clock, drive(db, readClock(clock.now(), storeTable)))
  const context: SqliteContext = { db, messages, clock, sealer, owner: new ProcessOwner() }
  const lanes = new SqliteOutboxLanes(context, { fileContexts: options.fileContexts ?? (() => new Map()) })
  const entries = new SqliteOutboxEntries(context, { lanes })
  const plans = new SqliteOutboxPlans(context, { entries })
  const outbox = createOutbox(context, work, { lanes, entries, plans, clockTrust })
  const { backlog, consumers, names, ...readers } = createReaders(context, work)
  const run = createRunner(db, work)
  const nouns = createNouns(context, work, plans, run)
  const parts = {
    clock,
    log,
    dialect: sqliteDialect,
    findRetention: async () => options,
    clockTrust,
    textId: constantSql('rowid'),
    store: storeTable,
    leftovers: [],
  }
  const prune = createPrune({ ...parts, findLast }, run)
  const { plain } = work.modes
  let isPinned = false
  return {
    durable: path !== inMemory,
    ...readers,
    outbox,
    ...nouns,
    backlog: { ...backlog, ...nouns.backlog },
    consumers: { ...consumers, ...nouns.consumers },
    names: { ...names, ...nouns.names },
    people: {
      ...nouns.people,
      scrub: async () => {
        if (path !== inMemory) await scrubFile(path)
      },
      listRemains: async () => [],
    },
    maintenance: {
      checkWritable: async () => work.checkWritable(),
      isClockTrusted: async () => clockTrust.isTrusted,
      noteRetention: line =>
        run('light', () => noteRetention(createNounContext(context, plans), storeTable, line)),
      noteClock: () => run('relaxed', () => noteClock(clockTrust, sqliteDialect, storeTable)),
      prune,
      // The number of the next change of a name grows from the highest.
      removeOld: createRemoveOld(
        { clock, dialect: sqliteDialect },
        run,
        sql` AND (users_named IS NULL OR users_named < (SELECT max(users_named) FROM session))`,
      ),
      shrink: async signal => {
        await inSteps(clock, signal, () => work.guard(() => shrinkStep(db)))
        isPinned = work.guard(() => checkpoint(db, isPinned))
      },
      ...bindMethods(
        plain,
        new SqliteRenames(context),
        ...(['intendRename', 'listIntendedRenames', 'renameSession', 'respellSession'] as const),
      ),
      close: async () => work.close(),
    },
  }
}

/** The log, its readers, and what else is read from it. */
function createReaders(context: SqliteContext, work: SqliteWork) {
  const { messages } = context
  const { intake, plain, redelivery, relaxed, write } = work.modes
  const consumers = new SqliteConsumers(context)
  const acknowledgements = new SqliteAcknowledgements(context, { consumers })
  const archive = new SqliteContextArchive(context)
  const conversations = new SqliteConversations(context)
  const history = new SqliteHistory(context)
  const names = new SqliteUserNames(context)
  const past = new SqliteImportedMessages(context)
  const log: StrictMethods<contract.MessageLog> = {
    ...bindMethods(plain, messages, 'getHead', 'listAfter', 'getByIds', 'getByMessageIds'),
    wait: async (seen, ms, signal) => {
      if (signal.aborted || work.guard(() => messages.getHead()) > seen) return
      await work.wait(signal, work.guard(() => consumers.hasLease()) ? Math.min(ms, checkLeasesMs) : ms)
    },
    search: (filter, signal) => work.guardLong(() => history.findPage(filter, signal)),
    findRange: range => work.guardLong(() => history.findRange(range)),
  }
  return {
    log,
    intake: {
      ...bindMethods(intake, messages, 'insertReceived'),
      ...bindMethods(intake, past, 'add'),
      ...bindMethods(plain, past, 'count', 'has'),
    },
    consumers: {
      ...bindMethods(relaxed, consumers, 'register', 'claim', 'lease'),
      ...bindMethods(redelivery, consumers, 'giveBack'),
    },
    acknowledgements: {
      ...bindMethods(relaxed, acknowledgements, 'readAfter'),
      ...bindMethods(write, acknowledgements, 'markHandedOut'),
    },
    backlog: {
      ...bindMethods(plain, consumers, 'countWaiting', 'findConsumersToRedeliver'),
      ...bindMethods(plain, messages, 'listRecent'),
    },
    conversations: {
      ...bindMethods(plain, conversations, 'listThreads', 'countMessages', 'countSuspects'),
      ...bindMethods(plain, names, 'sessionsOf', 'listAlike'),
      ...bindMethods(relaxed, conversations, 'markRead'),
    },
    names: bindMethods(plain, names, 'listAll', 'listChangedSince'),
    contexts: {
      ...bindMethods(write, archive, 'save'),
      ...bindMethods(
        plain,
        archive,
        ...(['find', 'list', 'listLanes', 'count', 'findSessions', 'withdraw', 'forget'] as const),
      ),
      ...bindMethods(relaxed, archive, 'drop'),
    },
  }
}

function createOutbox(context: SqliteContext, work: SqliteWork, parts: SqliteOutboxParts) {
  const { entries, lanes } = parts
  const outbox = new SqliteOutbox(context, parts)
  const { light, plain, write } = work.modes
  const calls = ['enqueue', 'approve', 'begin', 'settle', 'end'] as const
  const list = <T>(read: () => T[]) => work.guard(read)
  const nameOf = (id: number) => `send ${id}`
  return {
    ...bindMethods(write, outbox, ...calls),
    ...bindMethods(write, lanes, 'holdBack'),
    ...bindMethods(plain, entries, 'getEntry', 'list', 'fileOf', 'listFiles'),
    ...bindMethods(plain, lanes, 'listWaiting', 'getCounters', 'checkAdmission'),
    ...bindMethods(light, outbox, 'claim', 'renew'),
    ...bindMethods(light, lanes, 'release'),
    getDepth: async () => work.guard(() => drive(context.db, readWaiting())),
    async expire(reasons?: ExpiryReasons) {
      const ended: EndedEntry[] = []
      const expireThese = async (ids: readonly number[]) =>
        void ended.push(...(await write(() => outbox.expire(ids, reasons))))
      return doneApart(
        await changeApart(
          list(() => outbox.listDue()),
          nameOf,
          expireThese,
        ),
        ended,
      )
    },
    async reap(before: number) {
      let unknown = 0
      const orphans = list(() => outbox.listOrphans(before))
      const reapThese = async (some: readonly Orphan[]) => {
        unknown += await write(() => outbox.reap(some))
      }
      return doneApart(await changeApart(orphans, ({ id }) => nameOf(id), reapThese), unknown)
    },
    findByKey: async (key: string) =>
      work.guard(() => outbox.hasKey(key)) ? write(() => outbox.findByKey(key)) : undefined,
  }
}

/** The highest row id. */
function* findLast(): Routine<number> {
  return (yield* readFirst<{ last?: number }>(sql`SELECT max(id) AS last FROM message`))?.last ?? 0
}

const createRunner =
  (db: Database, { modes }: SqliteWork): Runner =>
  async (mode, begin) => {
    const way = mode === 'news' ? modes.intake : mode === 'touch' ? modes.redelivery : modes[mode]
    const work = () => drive(db, begin())
    return way(mode === 'plain' || mode === 'relaxed' ? work : () => db.transaction(work))
  }

function createNouns(context: SqliteContext, work: SqliteWork, plans: SqliteOutboxPlans, run: Runner) {
  const { db, owner } = context
  const nouns = createNounContext(context, plans)
  const logSql = createLogSql(context)
  const events = createEvents(nouns, logSql)
  return {
    events: {
      ...openNoun(events, run),
      async wait(seen: string, ms: number, signal: AbortSignal) {
        const isThere = signal.aborted || work.guard(() => drive(db, events.verbs.getHead())) !== seen
        if (!isThere) await work.wait(signal, ms)
      },
    },
    backlog: openNoun(createBacklog(nouns, logSql, events), run),
    consumers: openNoun(createConsumers(nouns), run),
    audit: openAudit(nouns, run, 2),
    names: openNoun(createUserNames(nouns), run),
    webhooks: openWebhooks(
      nouns,
      run,
      async held => work.guard(() => takeOver(db, owner.name, held)),
      user => findErased(db, user) !== undefined,
    ),
    keys: { ...openKeys(nouns, run), shareUse: async () => [] },
    invitations: openNoun(createInvitations(nouns), run),
    joins: openNoun(createJoin(nouns), run),
    scans: openNoun(createScans(nouns), run),
    signIns: openNoun(createSignIns(nouns), run),
    logins: openLogins(nouns, run, () => work.wait(never, checkLoginsMs)),
    backups: openNoun(createBackups(nouns), run),
    people: openPeople(nouns, run, createPeopleParts(context)),
    agents: openAgents(nouns, run),
    asks: openNoun(createAsks(nouns), run),
    topics: openTopics(nouns, run),
    relays: openNoun(createRelays(nouns, logSql), run),
  }
}
