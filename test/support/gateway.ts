/** A real gateway on a temporary folder against the simulated WeChat, for one test. */

import { Database } from 'bun:sqlite'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Config } from '../../src/config.ts'
import { readConfig } from '../../src/config.ts'
import { openGateway, type RunningGateway } from '../../src/gateway/gateway.ts'
import { type Call, directCall } from '../../src/model/call.ts'
import type { Message, RecvRequest, SendResult } from '../../src/model/message.ts'
import { type Counter, countNow, type UserContext } from '../../src/model/session.ts'
import { openLock } from '../../src/platform/lock.ts'
import { createLog, silentLog } from '../../src/platform/log.ts'
import type { SendRequest } from '../../src/send/plan.ts'
import { type FileState, openState } from '../../src/storage/sqlite/state/state.ts'
import { type TestClock, testClock } from './clock.ts'
import { type TestSandbox, type TestSandboxOptions, withSandbox } from './sandbox.ts'
import { until } from './until.ts'

export interface TestGatewayOptions {
  /** A sandbox of the test's; one of our own, stopped at the end, otherwise. */
  sandbox?: TestSandbox
  switches?: TestSandboxOptions['switches']
  /** An existing data directory; a temporary one, removed at the end, otherwise. */
  dir?: string
  config?: Partial<Config>
  /** Sessions to connect before it starts, the first of the sandbox's first user, each other of one of its own; 'default' by default. */
  sessions?: string[]
  /** False: opened, not started. */
  start?: boolean
  /** False: the log is kept in memory. */
  store?: false
  clock?: TestClock
}

export interface TestGateway extends AsyncDisposable {
  readonly gateway: RunningGateway
  readonly sandbox: TestSandbox
  readonly clock: TestClock
  readonly config: Config
  readonly dir: string
  readonly mediaRoot: string
  /** Everything logged, a line each. */
  readonly lines: string[]
  /** The session files as another process has them: own locks, own memory. */
  readonly other: FileState
  /** By session name, what it was connected with. */
  readonly bots: ReadonlyMap<string, TestBot>
  /** A session without a QR code: as a login in another process leaves it. `user`: of an existing user. */
  connect(name: string, user?: string): Promise<TestBot>
  /** Another process on the same directory; by the same clock, if no other is given. */
  beside(options?: TestGatewayOptions): Promise<TestGateway>
  /** Answers of recv, settled as written. */
  recv(request?: Partial<RecvRequest>, signal?: AbortSignal): Promise<Message[]>
  /** recv until `count` messages have come. */
  receive(count: number, request?: Partial<RecvRequest>): Promise<Message[]>
  send(request: Partial<SendRequest>, call?: Partial<Call>): Promise<SendResult>
  /** Waits until `look` gives something; it is asked again at every line of the log and every few milliseconds. */
  until<T>(what: string, look: () => T | undefined | false | Promise<T | undefined | false>): Promise<T>
  /** The same, by a clock that goes on: what svc looks for every second, or more often, it looks for at once. */
  soon<T>(what: string, look: () => T | undefined | false | Promise<T | undefined | false>): Promise<T>
  /** Lets time pass in steps; what falls due at one is begun before the next. */
  pass(ms: number): Promise<void>
  /** Waits for `work` while a second passes in 50 ms. */
  hurry<T>(work: Promise<T>): Promise<T>
  /** Closes it where upstream may not answer: of the clock no more passes than a farewell is given. */
  closeUnheard(): Promise<void>
  /** What is known of the user whom a session was connected with: the answers used, as the store counts them. */
  right(session?: string): Promise<UserContext | undefined>
  /** Waits until `used` messages to the first user went out or wait for their slot, and the first of these has one. */
  setApart(used: number): Promise<void>
  /** Requests of this endpoint so far. */
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

/** The answers to a user, as the store counts them. */
function countOf(dir: string, session: string, user: string): Counter | undefined {
  using db = new Database(join(dir, 'messages.db'), { readonly: true })
  const row = db
    .query<{ received_at: number | null; used: number }, [string, string]>(
      `SELECT received_at, used FROM outbox_lane JOIN session ON session.key = outbox_lane.session
       WHERE name = ? AND peer = ?`,
    )
    .get(session, user)
  return row
    ? { used: row.used, ...(row.received_at !== null && { received_at: row.received_at }) }
    : undefined
}

/** How many messages have a slot and wait for it: one after this time, where it is given. */
export const slotsIn = (dir: string, after = 0): number =>
  outboxOf(dir).filter(({ slot }) => slot !== null && slot > after).length

/** How many messages of calls under way have not gone out. */
export const pendingIn = (dir: string): number => outboxOf(dir).filter(({ mode }) => mode === 'fail').length

/** Messages of calls under way that have not gone out, and such as wait for their slot. */
function outboxOf(dir: string): { slot: number | null; mode: string }[] {
  using db = new Database(join(dir, 'messages.db'), { readonly: true })
  return db
    .query<{ slot: number | null; mode: string }, []>(
      `SELECT slot, mode FROM outbox_part JOIN outbox ON outbox.id = entry
       WHERE status = 'queued' AND (mode = 'fail' OR slot IS NOT NULL) ORDER BY outbox_part.id`,
    )
    .all()
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
  })
  const lock = await openLock(join(dir, '.data.lock'))
  const other = openState({ dir, lock, log: silentLog })
  const bots = new Map<string, TestBot>()

  const test: TestGateway = {
    ...{ gateway, sandbox, clock, config, dir, lines, other, bots },
    mediaRoot: join(dir, 'media'),
    async connect(name, user) {
      const bot = sandbox.bot(user ?? (bots.size === 0 ? undefined : await sandbox.addUser(name)))
      // One after the other, however fast: they are listed by their age.
      const created_at = clock.now() + bots.size
      await other.sessions.save(name, { ...bot, cursor: '', created_at })
      bots.set(name, bot)
      return bot
    },
    beside: more => withGateway({ sandbox, dir, clock, sessions: [], ...more }),
    async recv(request = {}, signal) {
      const call = directCall(signal ? { signal } : {})
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
        { ...directCall(), ...call },
      ),
    until: (what, look) => until(what, withinMs, look, () => lines.join('')),
    soon: (what, look) =>
      test.until(what, async () => {
        const found = await look()
        if (!found) clock.wake(1000)
        return found
      }),
    async pass(ms) {
      for (let passed = 0; passed < ms; passed += stepMs) {
        clock.advance(stepMs)
        await new Promise(resolve => setTimeout(resolve, 5))
      }
    },
    async hurry(work) {
      let isOver = false
      const over = () => {
        isOver = true
      }
      work.then(over, over)
      await test.until('it is over', () => {
        clock.advance(stepMs)
        return isOver
      })
      return work
    },
    async closeUnheard() {
      const said = test.requests('notifystop')
      let isClosed = false
      const closing = gateway.close().then(() => {
        isClosed = true
      })
      await test.until('it says farewell', () => test.requests('notifystop') > said)
      // A farewell that is cut off is given up later.
      for (const ms of [1500, 1000]) clock.advance(ms)
      // Requests have deadlines of the system's clock besides, which are longer.
      await until('it is closed', 4000, () => isClosed)
      await closing
    },
    async right(session = [...bots.keys()][0] ?? 'default') {
      const user = bots.get(session)?.user_id ?? ''
      const context = await other.contexts.find(session, user)
      return context && { ...context, used: countNow(context, countOf(dir, session, user), clock.now()).used }
    },
    async setApart(used) {
      await test.until(`${used} set apart`, async () => {
        const waits = outboxOf(dir)
        const first = waits.every(({ slot }, nth) => nth > 0 || slot !== null)
        return first && ((await test.right())?.used ?? 0) + waits.length === used
      })
      await new Promise(resolve => setImmediate(resolve))
    },
    requests: endpoint => sandbox.world.core.stats.requests[endpoint] ?? 0,
    async [Symbol.asyncDispose]() {
      await gateway.close()
      await lock.close()
      if (!options.sandbox) await sandbox[Symbol.asyncDispose]()
      if (!options.dir) await rm(dir, { recursive: true, force: true })
    },
  }
  for (const name of options.sessions ?? ['default']) await test.connect(name)
  if (options.start !== false) await gateway.start()
  return test
}
