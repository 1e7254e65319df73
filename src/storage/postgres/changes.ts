/** Follows the changes of all processes: how far the log is durable, and what wakes those that wait for changes. */

import type { Clock } from '../../platform/clock.ts'
import type { Log } from '../../platform/log.ts'
import type { PgConnection, PgQueries } from '../../platform/postgres.ts'
import { RoomPart } from '../../platform/runtime.ts'
import { linkSignals } from '../../platform/signals.ts'
import { prepared, type Sql, sql } from '../../platform/sql.ts'
import type { Repetition, Tasks } from '../../platform/tasks.ts'

/** How far the log is durable: the last row id, the last place in the event log, and a count of other changes. */
export interface Horizon {
  row: number
  place: number
  touched: number
}

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

interface ChangePorts {
  clock: Clock
  log: Log
  tasks: Tasks
  /** Id of this process. */
  node: string
  /** Rejects like any statement of the store. */
  queries: Pick<PgQueries, 'one' | 'run'>
  /** Same, but its failure is no fault of the store. */
  runQuietly(statement: Sql): Promise<unknown>
  /** @param answerMs longest wait for an answer */
  connect(answerMs: number): Promise<PgConnection>
}

export class PgChanges extends RoomPart<ChangePorts> {
  readonly #closing = new AbortController()
  readonly #waiting = new Set<() => void>()
  #horizon: Horizon = { row: 0, place: 0, touched: 0 }
  #following: Promise<unknown> = Promise.resolve()
  #hasEcho = false
  #notification: { again: boolean } | undefined

  /** Starts to follow the changes of other processes. */
  start(): void {
    this.#following = Promise.all([this.#keepListening(), this.#keepLooking().done])
  }

  /** Ends the waits, and resolves when nothing is followed any more. */
  async close(): Promise<void> {
    this.#closing.abort()
    this.wakeAll()
    await this.#following
  }

  get horizon(): Horizon {
    return this.#horizon
  }

  /** What a barrier made durable. */
  async passed(row: number, place: number): Promise<void> {
    this.#advance({ ...this.#horizon, row, place })
    await this.#notifyOthers()
  }

  /**
   * Resolves with the next change of any process, when `ms` have passed or the signal aborts. At once if `isOver`
   * returns true for the horizon as this process knows it.
   */
  wait(isOver: (horizon: Horizon) => boolean, ms: number, signal: AbortSignal): Promise<void> {
    return new Promise(resolve => {
      if (signal.aborted || this.#closing.signal.aborted || isOver(this.#horizon)) return resolve()
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
    await this.ports.queries.run(sql`SELECT nextval('touched')`)
    await this.look()
    await this.#notifyOthers()
  }

  /** Reads the horizon. */
  async look(): Promise<void> {
    const found =
      await this.ports.queries.one<Horizon>(sql`SELECT coalesce(max(upto), 0) AS row, coalesce(max(place), 0) AS place,
      (SELECT last_value + CASE WHEN is_called THEN 1 ELSE 0 END FROM touched) AS touched FROM durable`)
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

  /** One at a time, alone in its transaction: a NOTIFY that waits for a standby would block those of others. */
  async #notifyOthers(): Promise<void> {
    if (this.#notification) {
      this.#notification.again = true
      return
    }
    this.#notification = { again: true }
    const { clock, node, runQuietly } = this.ports
    while (this.#notification.again && !this.#closing.signal.aborted) {
      this.#notification.again = false
      const { row, place, touched } = this.#horizon
      const payload = JSON.stringify({ node, row, place, touched })
      // A notification only saves time: the others look by themselves.
      await runQuietly(prepared(sql`SELECT pg_notify(${channel}, ${payload})`)).catch(() => {})
      if (this.#notification.again) await clock.sleep(notifyEveryMs, this.#closing.signal)
    }
    this.#notification = undefined
  }

  #onNotification(payload: string): void {
    try {
      const { node, row, place, touched } = JSON.parse(payload) as Horizon & { node: string }
      if (node === this.ports.node) this.#hasEcho = true
      if ([row, place, touched].every(Number.isSafeInteger)) this.#advance({ row, place, touched })
    } catch {
      // Not of svc.
    }
  }

  async #keepListening(): Promise<void> {
    const { signal } = this.#closing
    const { clock, log, tasks } = this.ports
    let connection: PgConnection | undefined
    const end = () => {
      this.#hasEcho = false
      connection?.destroy()
      connection = undefined
    }
    const failure = 'the connection for notifications broke'
    const retryMs = () => lookWithoutEchoMs
    const wait = async (ms: number, either: AbortSignal) => {
      using sooner = linkSignals(either, connection?.lost)
      await clock.sleep(ms, sooner.signal)
    }
    const options = { name: 'notifications', everyMs: beatEveryMs, retryMs, failure, log, signal, wait }
    const { done } = tasks.repeat(options, async () => {
      try {
        if (connection) await connection.run(sql`SELECT 1`)
        else connection = await this.#listen()
      } catch (error) {
        end()
        throw error
      }
    })
    await done
    end()
  }

  async #listen(): Promise<PgConnection> {
    const connection = await this.ports.connect(beatAnswerMs)
    try {
      await connection.listen(channel, payload => this.#onNotification(payload))
      await this.#notifyOthers()
      return connection
    } catch (error) {
      connection.destroy()
      throw error
    }
  }

  #keepLooking(): Repetition {
    const { signal } = this.#closing
    const { log, tasks } = this.ports
    const failure = 'changes of other processes are not seen'
    const often = { everyMs: lookEveryMs, firstMs: lookWithoutEchoMs, log, signal }
    return tasks.repeat({ ...often, name: 'store_watch', failure }, async () => {
      await this.look()
      return this.#hasEcho ? lookEveryMs : lookWithoutEchoMs
    })
  }
}
