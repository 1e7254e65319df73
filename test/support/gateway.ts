/** A real gateway on a temporary folder with the simulated WeChat, for one test. */

import { Database } from 'bun:sqlite'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Config } from '../../src/config.ts'
import { readConfig } from '../../src/config.ts'
import { openGateway, type RunningGateway } from '../../src/gateway/gateway.ts'
import { type Call, createDirectCall } from '../../src/model/call.ts'
import type { Message, RecvRequest, SendResult } from '../../src/model/message.ts'
import { type Counter, currentCounterOf, type UserContext } from '../../src/model/session.ts'
import { openLock } from '../../src/platform/lock.ts'
import { createLog, silentLog } from '../../src/platform/log.ts'
import { constantSql } from '../../src/platform/sql.ts'
import type { SendRequest } from '../../src/send/plan.ts'
import type { StoredLogin } from '../../src/storage/logins.ts'
import { type FileState, openState } from '../../src/storage/sqlite/state/state.ts'
import type { State } from '../../src/storage/state.ts'
import { type TestClock, testClock } from './clock.ts'
import { type TestSandbox, type TestSandboxOptions, withSandbox } from './sandbox.ts'
import {
  connectionTo,
  dropStoreOf,
  isOnPostgres,
  letStoreAnswer,
  openSharedStorage,
  storeOf,
} from './shared-store.ts'
import { until } from './until.ts'

export interface TestGatewayOptions {
  /** Sandbox to use; default: a new one, stopped at the end. */
  sandbox?: TestSandbox
  switches?: TestSandboxOptions['switches']
  /** Existing data directory; default: a temporary one, removed at the end. */
  dir?: string
  config?: Partial<Config>
  /**
   * Sessions to connect before the start; default: 'default'. The first belongs to the sandbox's first
   * user, each other one to a new user.
   */
  sessions?: string[]
  /** False: the gateway is opened, but not started. */
  start?: boolean
  /** False: the message log is in memory. */
  store?: false
  clock?: TestClock
  /** Program and first arguments of svc, which makes backups. */
  ownCommand?: readonly string[]
}

export interface TestGateway extends AsyncDisposable {
  readonly gateway: RunningGateway
  readonly sandbox: TestSandbox
  readonly clock: TestClock
  readonly config: Config
  readonly dir: string
  readonly mediaRoot: string
  /** All log lines. */
  readonly lines: string[]
  /** The session files as another process sees them, with its own locks and memory. */
  readonly other: FileState
  /** Credentials of each connected session, by name. */
  readonly bots: ReadonlyMap<string, TestBot>
  /**
   * Stores a session without a QR code, as a login in another process does. `user`: an existing user;
   * default: see `sessions`.
   */
  connect(name: string, user?: string): Promise<TestBot>
  /** Opens another gateway on the same directory, as another process; default: with the same clock. */
  beside(options?: TestGatewayOptions): Promise<TestGateway>
  /** Calls recv, and confirms that its answer was delivered. */
  recv(request?: Partial<RecvRequest>, signal?: AbortSignal): Promise<Message[]>
  /** Calls recv until `count` messages have come. */
  receive(count: number, request?: Partial<RecvRequest>): Promise<Message[]>
  send(request: Partial<SendRequest>, call?: Partial<Call>): Promise<SendResult>
  /** Waits until `look` returns something. It is called every few milliseconds. */
  until<T>(what: string, look: () => T | undefined | false | Promise<T | undefined | false>): Promise<T>
  /**
   * Like `until`, but skips pauses of up to a second, so that what svc does every second happens
   * immediately.
   */
  soon<T>(what: string, look: () => T | undefined | false | Promise<T | undefined | false>): Promise<T>
  /** Lets time pass in steps. Work that is due at one step starts before the next step. */
  pass(ms: number): Promise<void>
  /** Waits for `work`, and lets a second pass every 50 ms. */
  hurry<T>(work: Promise<T>): Promise<T>
  /**
   * Closes the gateway if WeChat may not answer. Advances the clock only by the time limit of the final
   * notifystop calls.
   */
  closeUnheard(): Promise<void>
  /**
   * Returns what is known of the user who logged the session in, with the used answers as the store counts
   * them.
   */
  right(session?: string): Promise<UserContext | undefined>
  /**
   * Waits until `used` messages to the first user were sent or are waiting, and the first waiting one has a
   * slot.
   */
  setApart(used: number): Promise<void>
  /** Returns the number of requests to this endpoint so far. */
  requests(endpoint: string): number
}

export interface TestBot {
  bot_id: string
  token: string
  user_id: string
  base_url: string
}

const withinMs = 30_000
const stepMs = 100

/** Reads from the store of a data directory. */
export async function rowsIn<R extends object>(dir: string, query: string): Promise<R[]> {
  if (isOnPostgres) return (await connectionTo(dir)).all<R>(constantSql(query))
  using db = new Database(join(dir, 'messages.db'), { readonly: true })
  return db.query<R, []>(query).all()
}

/** Reads what the store has of a login, but for what has columns of its own. */
export async function loginIn(dir: string, session: string): Promise<Partial<StoredLogin>> {
  const rows = await rowsIn<{ name_key: string; data: string }>(dir, 'SELECT name_key, data FROM login_flow')
  return JSON.parse(rows.find(({ name_key }) => name_key === session)?.data ?? '{}')
}

/** Changes the store of a data directory behind svc. */
export async function changeIn(dir: string, statement: string): Promise<void> {
  if (isOnPostgres) return void (await (await connectionTo(dir)).run(constantSql(statement)))
  using db = new Database(join(dir, 'messages.db'))
  db.run(statement)
}

/** Reads the answer counter of a user from the store. */
async function countOf(dir: string, session: string, user: string): Promise<Counter | undefined> {
  const rows = await rowsIn<{ name: string; peer: string; received_at?: number | null; used: number }>(
    dir,
    `SELECT name, peer, received_at, used FROM outbox_lane JOIN session ON session.key = outbox_lane.session`,
  )
  const row = rows.find(({ name, peer }) => name === session && peer === user)
  return (
    row && { used: row.used, ...(typeof row.received_at === 'number' && { received_at: row.received_at }) }
  )
}

/** Counts the messages that wait for their slot; only slots later than `after` if given. */
export const slotsIn = async (dir: string, after = 0): Promise<number> =>
  (await outboxOf(dir)).filter(({ slot }) => slot > after).length

/** Counts the messages of calls in progress that were not sent yet. */
export const pendingIn = async (dir: string): Promise<number> =>
  (await outboxOf(dir)).filter(({ mode }) => mode === 'fail').length

/** Reads the queued messages of calls in progress, and those with a slot. */
const outboxOf = (dir: string) =>
  rowsIn<{ slot: number; mode: string }>(
    dir,
    `SELECT coalesce(slot, 0) AS slot, mode FROM outbox_part JOIN outbox ON outbox.id = entry
     WHERE status = 'queued' AND (mode = 'fail' OR slot IS NOT NULL) ORDER BY outbox_part.id`,
  )

/** The sessions as another process has them. */
export async function openOther(
  dir: string,
  clock: TestClock,
): Promise<{ state: FileState; close(): Promise<void> }> {
  if (isOnPostgres) {
    const storage = await openSharedStorage(dir, clock)
    // What only session files have is not there.
    return { state: storage.state as State & FileState, close: () => storage.close() }
  }
  return await openFiles(dir)
}

/** The session files of a data directory as another process has them. */
export async function openFiles(dir: string): Promise<{ state: FileState; close(): Promise<void> }> {
  const lock = await openLock(join(dir, '.data.lock'))
  return { state: openState({ dir, lock, log: silentLog }), close: () => lock.close() }
}

export async function withGateway(options: TestGatewayOptions = {}): Promise<TestGateway> {
  const sandbox =
    options.sandbox ?? (await withSandbox({ ...(options.switches && { switches: options.switches }) }))
  const dir = options.dir ?? (await realpath(await mkdtemp(join(tmpdir(), 'svc-gateway-'))))
  const clock = options.clock ?? testClock()
  const config: Config = Object.freeze({
    ...readConfig({ 'base-path': dir }, {}),
    basePath: dir,
    mediaRoot: join(dir, 'media'),
    pace: 'off',
    ...(await storeOf(dir)),
    ...options.config,
  })
  const lines: string[] = []
  const gateway = await openGateway({
    config,
    log: createLog('DEBUG', line => void lines.push(line)),
    version: '0.0.0',
    sandboxUrl: sandbox.url,
    clock,
    ...(options.store === false && { store: false }),
    ...(options.ownCommand && { ownCommand: options.ownCommand }),
  })
  const { state: other, close: closeOther } = await openOther(dir, clock)
  const bots = new Map<string, TestBot>()

  const test: TestGateway = {
    gateway,
    sandbox,
    clock,
    config,
    dir,
    lines,
    other,
    bots,
    mediaRoot: join(dir, 'media'),
    async connect(name, user) {
      const bot = sandbox.bot(user ?? (bots.size === 0 ? undefined : await sandbox.addUser(name)))
      // Ages must differ, since sessions are listed by age.
      const created_at = clock.now() + bots.size
      await other.sessions.save(name, { ...bot, cursor: '', created_at })
      bots.set(name, bot)
      return bot
    },
    beside: more => withGateway({ sandbox, dir, clock, sessions: [], ...more }),
    async recv(request = {}, signal) {
      const call = createDirectCall(signal ? { signal } : {})
      const messages = await gateway.inbox.recv(
        { timeout: 30, limit: 100, consumer: 'default', ...request },
        call,
      )
      call.done(true)
      return messages
    },
    async receive(count, request) {
      const all: Message[] = []
      for (let tries = 0; all.length < count && tries < count + 20; tries++) {
        const some = await test.recv(request)
        if (some.length === 0) break
        all.push(...some)
      }
      return all
    },
    send: (request, call) =>
      gateway.sender.send(
        { to: [...bots.values()][0]?.user_id ?? '', media: [], ...request },
        { ...createDirectCall(), ...call },
      ),
    until: (what, look) => until(what, withinMs, look, () => lines.join('')),
    soon: (what, look) =>
      test.until(what, async () => {
        const found = await look()
        if (!found) await letStoreAnswer(dir)
        if (!found) clock.wake(1000)
        return found
      }),
    async pass(ms) {
      for (let passed = 0; passed < ms; passed += stepMs) {
        clock.advance(stepMs)
        await letStoreAnswer(dir)
        await new Promise(resolve => setTimeout(resolve, 5))
      }
    },
    async hurry(work) {
      let isOver = false
      const over = () => {
        isOver = true
      }
      work.then(over, over)
      await test.until('it is over', async () => {
        await letStoreAnswer(dir)
        clock.advance(stepMs)
        return isOver
      })
      return work
    },
    async closeUnheard() {
      const before = test.requests('notifystop')
      let isClosed = false
      const closing = gateway.close().then(() => {
        isClosed = true
      })
      await test.until('notifystop is called', () => test.requests('notifystop') > before)
      // A notifystop that is cut off times out later.
      for (const ms of [1500, 1000]) clock.advance(ms)
      // Requests also have longer deadlines by the system's clock.
      await until('it is closed', 4000, () => isClosed)
      await closing
    },
    async right(session = [...bots.keys()][0] ?? 'default') {
      const user = bots.get(session)?.user_id ?? ''
      const context = await other.contexts.find(session, user)
      return (
        context && {
          ...context,
          used: currentCounterOf(context, await countOf(dir, session, user), clock.now()).used,
        }
      )
    },
    async setApart(used) {
      await test.until(`${used} set apart`, async () => {
        const waits = await outboxOf(dir)
        const first = waits.every(({ slot }, nth) => nth > 0 || slot > 0)
        return first && ((await test.right())?.used ?? 0) + waits.length === used
      })
      await new Promise(resolve => setImmediate(resolve))
    },
    requests: endpoint => sandbox.world.core.stats.requests[endpoint] ?? 0,
    async [Symbol.asyncDispose]() {
      await gateway.close()
      await closeOther()
      if (!options.sandbox) await sandbox[Symbol.asyncDispose]()
      if (options.dir) return
      await dropStoreOf(dir)
      await rm(dir, { recursive: true, force: true })
    },
  }
  for (const name of options.sessions ?? ['default']) await test.connect(name)
  if (options.start !== false) await gateway.start()
  return test
}
