/**
 * The database as all nodes share it: statements, the barrier after which a write counts, and what wakes those that
 * wait for changes.
 *
 * Statements commit without waiting for the disk or a standby (`synchronous_commit = off`), so that no lock is held for a
 * round trip of theirs. A write counts after a barrier: a synchronous commit on a connection of its own, one at a time,
 * which proves all commits before it durable, since the log of the server has one order. Writes that wait share one.
 */

import { SvcError } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'
import type { Log } from '../../platform/log.ts'
import {
  connectPg,
  type PgConnection,
  PgConnectionError,
  type PgOptions,
  type PgQueries,
  sqlStateOf,
} from '../../platform/postgres.ts'
import { createPgPool, type PgPool } from '../../platform/postgres-pool.ts'
import { noSql, prepared, type Sql, sql } from '../../platform/sql.ts'
import { connectionHint, placeOf, storeErrorOf } from './errors.ts'
import { rejectCopy } from './requirements.ts'

/** How far the log is durable: the last row id, the last place in the event log, and a count of other changes. */
export interface Horizon {
  row: number
  place: number
  touched: number
}

/** Statements, as an attempt of `PgDatabase.retry` uses them. */
export interface Attempt extends PgQueries {
  /** Put it at the end of a SELECT of the rows that the attempt rests on: after lost attempts it locks them. */
  readonly lock: Sql
}

/** Statements that lost against another writer: a guard, a deadlock, or a row that another one added first. */
const conflicts = new Set(['40001', '40P01', '23505'])
/** Number of attempts that lock no rows. The attempts after them lock the rows that they read. */
const freeAttempts = 3
const mostAttempts = 20
/** Connections for statements. One more each is for barriers, leases and notifications: at most ten for a node. */
const poolSize = { usual: 4, prepared: 3 }
/** Longest wait for an answer of the database. */
const answerMs = 8000
/** How often the horizon is read, since a notification may be lost. */
const lookEveryMs = 1000
/** As long as no notification of this process has come back, it is read more often. */
const lookWithoutEchoMs = 500
/** How often the connection for notifications is tried, and how long its answer may take. */
const beatEveryMs = 2000
const beatAnswerMs = 1500
const channel = 'svc'
/** Shortest time between two notifications of a process: each one wakes every node. */
const notifyEveryMs = 5
/** SQLSTATE of a full disk, and for how long it counts. */
const diskFull = '53100'
const fullForMs = 10_000
/** The server gave up the wait for its standby: the commit may be lost in a failover. */
const waitGivenUp = '01000'

export interface DatabaseOptions {
  url: PgOptions['url']
  clock: Clock
  log: Log
  /** Id of this process. */
  node: string
  /** Whether the database may be a copy of another one. */
  mayBeCopy?: boolean
}

export class PgDatabase implements PgQueries {
  readonly node: string
  /** Without user and password. */
  readonly address: string
  #pool: PgPool
  readonly #options: DatabaseOptions
  readonly #barriers: BarrierLoop
  readonly #closing = new AbortController()
  readonly #waiting = new Set<() => void>()
  #horizon: Horizon = { row: 0, place: 0, touched: 0 }
  #listening: Promise<void> = Promise.resolve()
  #hasEcho = false
  #isFollowing = false
  /** Why the last statement failed; undefined after one that worked. */
  #failure: SvcError | undefined
  /** The last time that the disk of the database was full. Statements that need no more room still work then. */
  #full: { error: SvcError; at: number } | undefined
  /** Why this program must not use the store any more. */
  #refusal: SvcError | undefined

  constructor(options: DatabaseOptions) {
    this.#options = options
    this.node = options.node
    this.address = placeOf(options.url)
    this.#pool = this.#createPool()
    this.#barriers = new BarrierLoop({
      connect: () => connectPg(this.#connectionOptions({ synchronous_commit: 'on' })),
      node: this.node,
      clock: options.clock,
      passed: async (row, place) => {
        this.#advance({ ...this.#horizon, row, place })
        await this.#notifyOthers()
      },
      // A connection to the server that was replaced may still work there.
      serverRunEnded: () => {
        void this.#pool.close()
        this.#pool = this.#createPool()
      },
    })
  }

  #createPool(): PgPool {
    return createPgPool(this.#connectionOptions({ synchronous_commit: 'off' }), poolSize)
  }

  #connectionOptions(settings: PgOptions['settings']): PgOptions {
    const { mayBeCopy, url } = this.#options
    // On every connection: the address may lead to another server at any time.
    return { url, name: 'svc', answerMs, settings: settings ?? {}, ...(!mayBeCopy && { opened: rejectCopy }) }
  }

  /**
   * Opens a connection of its own, for the lease of the node. Its commits are synchronous.
   *
   * @param withinMs longest wait for an answer
   */
  connect(withinMs: number): Promise<PgConnection> {
    return connectPg({ ...this.#connectionOptions({ synchronous_commit: 'on' }), answerMs: withinMs })
  }

  /** Runs work that uses a connection of its own. Its errors become errors for callers. */
  guarded<T>(work: () => Promise<T>): Promise<T> {
    return this.#guard(work)
  }

  /** Starts to follow the changes of other processes. */
  async start(): Promise<void> {
    await this.look()
    this.#isFollowing = true
    this.#listening = Promise.all([this.#keepListening(), this.#keepLooking()]).then(() => {})
  }

  get isClosed(): boolean {
    return this.#closing.signal.aborted
  }

  /** @throws SvcError `shutting_down` */
  assertOpen(): void {
    if (this.isClosed) throw new SvcError('shutting_down', 'the message store is closed')
  }

  /** Why statements fail at the moment. */
  get failure(): SvcError | undefined {
    return this.#refusal ?? this.#failure
  }

  /** Lets all statements fail from now on: this program must not use the store. */
  refuse(why: SvcError): void {
    this.#refusal = why
    this.wakeAll()
  }

  /** Why a statement failed a moment ago, if the disk of the database was full. */
  get full(): SvcError | undefined {
    const { error, at = Number.NEGATIVE_INFINITY } = this.#full ?? {}
    return this.#options.clock.monotonic() - at < fullForMs ? error : undefined
  }

  /** How long the last barrier took, and when it ended, by the monotonic clock. */
  get lastBarrier(): { tookMs: number; at: number } {
    return this.#barriers.last
  }

  all<R extends object>(statement: Sql): Promise<R[]> {
    return this.#guard(() => this.#pool.all<R>(statement))
  }

  get<R extends object>(statement: Sql): Promise<R | undefined> {
    return this.#guard(() => this.#pool.get<R>(statement))
  }

  one<R extends object>(statement: Sql): Promise<R> {
    return this.#guard(() => this.#pool.one<R>(statement))
  }

  run(statement: Sql): Promise<number> {
    return this.#guard(() => this.#pool.run(statement))
  }

  /**
   * Runs statements in one request and one transaction, by the time of the program's clock. Statements that lock rows
   * of lanes, entries and sessions come first, those that append to the log or change the status of a message last.
   *
   * @returns the rows of each statement
   */
  script(statements: readonly Sql[]): Promise<Record<string, unknown>[][]> {
    return this.#guard(() => this.#script(this.#pool, statements))
  }

  async #script(queries: PgQueries, statements: readonly Sql[]): Promise<Record<string, unknown>[][]> {
    if (statements.length === 0) return []
    const now = sql`SELECT set_config('svc.now', ${String(this.#options.clock.now())}, true)`
    return (await queries.script([now, ...statements])).slice(1)
  }

  /**
   * Runs an attempt that reads, decides, and writes with one script, whose guards (`expect`) fail if what it read has
   * changed. A lost attempt is repeated; after three, the next one locks the rows that it reads.
   */
  async retry<T>(attempt: (queries: Attempt) => Promise<T>): Promise<T> {
    for (let lost = 0; ; lost++) {
      try {
        if (lost < freeAttempts) return await this.#guard(() => attempt(this.#attempt(this.#pool, noSql)))
        return await this.#guard(() =>
          this.#pool.transaction(queries => attempt(this.#attempt(queries, sql` FOR UPDATE`))),
        )
      } catch (error) {
        const state = sqlStateOf(error)
        if (state === undefined || !conflicts.has(state) || lost >= mostAttempts) throw error
      }
    }
  }

  #attempt(queries: PgQueries, lock: Sql): Attempt {
    return {
      all: statement => queries.all(statement),
      get: statement => queries.get(statement),
      one: statement => queries.one(statement),
      run: statement => queries.run(statement),
      script: statements => this.#script(queries, statements),
      lock,
    }
  }

  /** Counts the runs of the server: a crash, or a standby that takes over, begins another one. */
  get serverRun(): number {
    return this.#barriers.serverRun
  }

  /**
   * Resolves when everything that was committed in this run of the server is durable, and readers may see it.
   *
   * @param since the run in which it was begun
   * @throws SvcError `store_unavailable` if that run is over: what was not durable then is lost
   */
  barrier(since: number = this.serverRun): Promise<void> {
    return this.#guard(() => this.#barriers.pass(since))
  }

  /** Runs a write, then a barrier: what it committed is durable when this resolves, and readers may see it. */
  async durably<T>(work: () => Promise<T>): Promise<T> {
    const since = this.serverRun
    const result = await work()
    await this.barrier(since)
    return result
  }

  get horizon(): Horizon {
    return this.#horizon
  }

  /**
   * Resolves with the next change of any process, when `ms` have passed or the signal aborts. At once if `isOver`
   * returns true for the horizon as this process knows it.
   */
  wait(isOver: (horizon: Horizon) => boolean, ms: number, signal: AbortSignal): Promise<void> {
    return new Promise(resolve => {
      if (signal.aborted || this.isClosed || isOver(this.#horizon)) return resolve()
      const done = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        this.#waiting.delete(done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      signal.addEventListener('abort', done, { once: true })
      this.#waiting.add(done)
    })
  }

  /** Wakes those who wait, in all processes: something changed that is neither a row nor an event. */
  async touch(): Promise<void> {
    await this.run(sql`SELECT nextval('touched')`)
    await this.look()
    await this.#notifyOthers()
  }

  /** Reads the horizon. */
  async look(): Promise<void> {
    const found =
      await this.one<Horizon>(sql`SELECT coalesce(max(upto), 0) AS row, coalesce(max(place), 0) AS place,
      (SELECT last_value + is_called::integer FROM touched) AS touched FROM durable`)
    this.#advance(found)
  }

  #advance(found: Horizon): void {
    const before = this.#horizon
    this.#horizon = {
      row: Math.max(before.row, found.row),
      place: Math.max(before.place, found.place),
      touched: Math.max(before.touched, found.touched),
    }
    const { row, place, touched } = this.#horizon
    if (row !== before.row || place !== before.place || touched !== before.touched) this.wakeAll()
  }

  /** Ends the waits of this process. */
  wakeAll(): void {
    for (const wake of [...this.#waiting]) wake()
  }

  #notification: { again: boolean } | undefined

  /** One at a time, alone in its transaction: a NOTIFY that waits for a standby would block those of others. */
  async #notifyOthers(): Promise<void> {
    if (this.#notification) {
      this.#notification.again = true
      return
    }
    this.#notification = { again: true }
    while (this.#notification.again && !this.isClosed) {
      this.#notification.again = false
      const { row, place, touched } = this.#horizon
      const payload = JSON.stringify({ node: this.node, row, place, touched })
      // A notification only saves time: the others look by themselves.
      await this.#pool.run(prepared(sql`SELECT pg_notify(${channel}, ${payload})`)).catch(() => {})
      if (this.#notification.again) await this.#options.clock.sleep(notifyEveryMs, this.#closing.signal)
    }
    this.#notification = undefined
  }

  #onNotification(payload: string): void {
    try {
      const { node, row, place, touched } = JSON.parse(payload) as Horizon & { node: string }
      if (node === this.node) this.#hasEcho = true
      if ([row, place, touched].every(Number.isSafeInteger)) this.#advance({ row, place, touched })
    } catch {
      // Not of svc.
    }
  }

  async #keepListening(): Promise<void> {
    const { signal } = this.#closing
    const { clock, log } = this.#options
    while (!signal.aborted) {
      let connection: PgConnection | undefined
      try {
        connection = await connectPg({ ...this.#connectionOptions({}), answerMs: beatAnswerMs })
        await connection.listen(channel, payload => this.#onNotification(payload))
        await this.#notifyOthers()
        while (!signal.aborted && !connection.lost.aborted) {
          await clock.sleep(beatEveryMs, AbortSignal.any([signal, connection.lost]))
          if (!signal.aborted) await connection.run(sql`SELECT 1`)
        }
      } catch (error) {
        if (!signal.aborted) log.debug('the connection for notifications broke', { error })
      } finally {
        this.#hasEcho = false
        connection?.destroy()
      }
      await clock.sleep(lookWithoutEchoMs, signal)
    }
  }

  async #keepLooking(): Promise<void> {
    const { signal } = this.#closing
    const { clock } = this.#options
    while (!signal.aborted) {
      await clock.sleep(this.#hasEcho ? lookEveryMs : lookWithoutEchoMs, signal)
      // The failure is known to `failure`, and the next look may work.
      if (!signal.aborted) await this.look().catch(() => {})
    }
  }

  async #guard<T>(work: () => Promise<T>): Promise<T> {
    this.assertOpen()
    if (this.#refusal) throw this.#refusal
    try {
      const result = await work()
      this.#failure = undefined
      return result
    } catch (error) {
      if (this.isClosed && error instanceof PgConnectionError)
        throw new SvcError('shutting_down', 'the message store is closed', { cause: error })
      const made = storeErrorOf(error, this.#isFollowing ? undefined : this.address)
      if (made instanceof SvcError && made.code === 'store_unavailable') {
        this.#failure = made
        if (sqlStateOf(made.cause) === diskFull)
          this.#full = { error: made, at: this.#options.clock.monotonic() }
      }
      throw made
    }
  }

  async close(): Promise<void> {
    if (this.isClosed) return
    this.#closing.abort()
    this.wakeAll()
    await this.#listening
    this.#barriers.close()
    await this.#pool.close()
  }
}

interface BarrierPorts {
  connect(): Promise<PgConnection>
  clock: Pick<Clock, 'monotonic'>
  node: string
  passed(row: number, place: number): Promise<void>
  serverRunEnded(): void
}

/** Makes commits durable, one barrier at a time. A barrier counts for the calls that came before it began. */
class BarrierLoop {
  readonly #ports: BarrierPorts
  #connection: PgConnection | undefined
  #waiting: (PromiseWithResolvers<void> & { since: number })[] = []
  #isRunning = false
  #isClosed = false
  last = { tookMs: 0, at: Number.NEGATIVE_INFINITY }
  #serverRun: { nth: number; id: string } | undefined
  /** The server reported, during a barrier, that it did not wait for its standby. */
  #wasGivenUp = false

  constructor(ports: BarrierPorts) {
    this.#ports = ports
  }

  get serverRun(): number {
    return this.#serverRun?.nth ?? 1
  }

  pass(since: number): Promise<void> {
    const passed = Promise.withResolvers<void>()
    this.#waiting.push({ ...passed, since })
    if (!this.#isRunning) void this.#run()
    return passed.promise
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    while (this.#waiting.length > 0) {
      const ended = this.#waiting.splice(0)
      const { clock } = this.#ports
      const begun = clock.monotonic()
      try {
        const { row, place } = await this.#commit()
        const at = clock.monotonic()
        this.last = { tookMs: at - begun, at }
        for (const { resolve, reject, since } of ended) {
          if (since === this.serverRun) resolve()
          else reject(lostError())
        }
        void this.#ports.passed(row, place)
      } catch (error) {
        // Those that came meanwhile have waited too. With a database that does not answer they would wait twice.
        for (const { reject } of [...ended, ...this.#waiting.splice(0)]) reject(error)
      }
    }
    this.#isRunning = false
  }

  async #commit(): Promise<{ row: number; place: number }> {
    if (!this.#connection || this.#connection.lost.aborted) this.#connection = await this.#connect()
    this.#wasGivenUp = false
    const found = await this.#connection.get<{
      row: number
      place: number
    }>(
      prepared(sql`INSERT INTO durable AS d (node, upto, place)
        SELECT ${this.#ports.node}, last, place FROM head
        ON CONFLICT (node) DO UPDATE SET upto = excluded.upto, place = excluded.place
        RETURNING d.upto AS row, d.place`),
    )
    if (this.#wasGivenUp || !found)
      throw new SvcError('store_unavailable', 'the database did not wait for its standby', {
        hint: connectionHint,
      })
    return found
  }

  /** A connection does not outlive the run of the server that it belongs to. */
  async #connect(): Promise<PgConnection> {
    const connection = await this.#ports.connect()
    connection.onNotice(code => {
      if (code === waitGivenUp) this.#wasGivenUp = true
    })
    try {
      const [, [found]] = (await connection.script([
        // The trigger on head names the run.
        sql`UPDATE head SET revision = revision + 1 WHERE NOT EXISTS (SELECT FROM server_run)`,
        sql`SELECT id::text FROM server_run`,
      ])) as [unknown, [{ id: string }]]
      // Else the connection would stay open, and the pool would be replaced by one that nobody closes.
      if (this.#isClosed) throw new PgConnectionError('the store is closed')
      const before = this.#serverRun
      if (before?.id === found.id) return connection
      this.#serverRun = { id: found.id, nth: before ? before.nth + 1 : 1 }
      if (before) this.#ports.serverRunEnded()
      return connection
    } catch (error) {
      connection.destroy()
      throw error
    }
  }

  close(): void {
    this.#isClosed = true
    this.#connection?.destroy()
  }
}

const lostError = (): SvcError =>
  new SvcError(
    'store_unavailable',
    'the database crashed, or a standby took over, before the write was durable',
    {
      hint: connectionHint,
    },
  )
