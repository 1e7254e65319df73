/**
 * The database as all nodes share it. Statements commit without waiting for the disk or a standby
 * (`synchronous_commit = off`), so that no lock is held for a round trip of theirs. A write counts after a barrier.
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
import { RoomPart } from '../../platform/runtime.ts'
import { noSql, type Sql, sql } from '../../platform/sql.ts'
import { Tasks } from '../../platform/tasks.ts'
import { BarrierLoop } from './barrier.ts'
import { type Horizon, PgChanges } from './changes.ts'
import { placeOf, storeErrorOf } from './errors.ts'
import { rejectCopy } from './requirements.ts'

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
export const answerMs = 8000
/** SQLSTATE of a full disk, and for how long it counts. */
const diskFull = '53100'
const fullForMs = 10_000
export interface DatabaseOptions {
  url: PgOptions['url']
  clock: Clock
  log: Log
  /** Where work in the background is registered. */
  tasks?: Tasks | undefined
  /** Id of this process. */
  node: string
  /** Whether the database may be a copy of another one. */
  mayBeCopy?: boolean
}

/** Why statements fail. */
interface Faults {
  /** Why the last one failed; undefined after one that worked. */
  last?: SvcError | undefined
  /** The last time that the disk of the database was full. Statements that need no more room still work then. */
  full?: { error: SvcError; at: number }
  /** Why this program must not use the store any more. */
  refusal?: SvcError
}

export class PgDatabase extends RoomPart<DatabaseOptions> implements PgQueries {
  readonly tasks = this.ports.tasks ?? new Tasks(this.ports.clock)
  /** Id of the store that is open. */
  #storeId: string | undefined
  #isFollowing = false
  readonly #faults: Faults = {}
  #isClosed = false
  #pool = this.#createPool()
  readonly #barriers = new BarrierLoop({
    connect: () => connectPg(this.#connectionOptions({ synchronous_commit: 'on' })),
    node: this.node,
    clock: this.ports.clock,
    passed: (row, place) => this.#changes.passed(row, place),
    // A connection to the server that was replaced may still work there.
    serverRunEnded: () => {
      void this.#pool.close()
      this.#pool = this.#createPool()
    },
  })
  readonly #changes: PgChanges = new PgChanges({
    ...this.ports,
    tasks: this.tasks,
    queries: this,
    runQuietly: statement => this.#pool.run(statement),
    connect: answerMs => connectPg({ ...this.#connectionOptions({}), answerMs }),
  })

  #createPool(): PgPool {
    return createPgPool(this.#connectionOptions({ synchronous_commit: 'off' }), poolSize)
  }

  get node(): string {
    return this.ports.node
  }

  /** Without user and password. The address that is known now: it may change. */
  get address(): string {
    return placeOf(this.ports.url)
  }

  #connectionOptions(settings: PgOptions['settings']): PgOptions {
    const { mayBeCopy, url } = this.ports
    // On every connection: the address may lead to another server at any time.
    return {
      url,
      name: 'svc',
      answerMs,
      settings: settings ?? {},
      ...(!mayBeCopy && { opened: (queries: PgQueries) => this.#checkStore(queries) }),
    }
  }

  /** Rejects a copy, and any store but the one that this process knows. */
  async #checkStore(queries: PgQueries): Promise<void> {
    const id = await rejectCopy(queries)
    // A store gets its id while it is made, or filled.
    if (!this.#isFollowing || this.#storeId === undefined) this.#storeId = id
    if (id === this.#storeId) return
    throw new SvcError('store_unavailable', 'the address of the database leads to another store', {
      hint: 'Correct the address; or, if svc should use that store, start svc again.',
      details: { store_id: id },
    })
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
    this.#changes.start()
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** @throws SvcError `shutting_down` */
  assertOpen(): void {
    if (this.isClosed) throw new SvcError('shutting_down', 'the message store is closed')
  }

  /** Why statements fail at the moment. */
  get failure(): SvcError | undefined {
    return this.#faults.refusal ?? this.#faults.last
  }

  /** Lets all statements fail from now on: this program must not use the store. */
  refuse(why: SvcError): void {
    this.#faults.refusal = why
    this.#changes.wakeAll()
  }

  /** Why a statement failed a moment ago, if the disk of the database was full. */
  get full(): SvcError | undefined {
    const { error, at = Number.NEGATIVE_INFINITY } = this.#faults.full ?? {}
    return this.ports.clock.monotonic() - at < fullForMs ? error : undefined
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
    const now = sql`SELECT set_config('svc.now', ${String(this.ports.clock.now())}, true)`
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
    return this.#changes.horizon
  }

  /** Same as `PgChanges.wait`, and so are the next two. */
  wait(isOver: (horizon: Horizon) => boolean, ms: number, signal: AbortSignal): Promise<void> {
    return this.#changes.wait(isOver, ms, signal)
  }

  touch(): Promise<void> {
    return this.#changes.touch()
  }

  look(): Promise<void> {
    return this.#changes.look()
  }

  async #guard<T>(work: () => Promise<T>): Promise<T> {
    this.assertOpen()
    if (this.#faults.refusal) throw this.#faults.refusal
    try {
      const result = await work()
      this.#faults.last = undefined
      return result
    } catch (error) {
      if (this.isClosed && error instanceof PgConnectionError)
        throw new SvcError('shutting_down', 'the message store is closed', { cause: error })
      const made = storeErrorOf(error, this.#isFollowing ? undefined : this.address)
      if (made instanceof SvcError && made.code === 'store_unavailable') {
        this.#faults.last = made
        if (sqlStateOf(made.cause) === diskFull)
          this.#faults.full = { error: made, at: this.ports.clock.monotonic() }
      }
      throw made
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async close(): Promise<void> {
    if (this.isClosed) return
    this.#isClosed = true
    await this.#changes.close()
    this.#barriers.close()
    await this.#pool.close()
  }
}
