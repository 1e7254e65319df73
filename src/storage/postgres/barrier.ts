/**
 * The barrier after which a write counts: a synchronous commit on a connection of its own, one at a time, which proves all
 * commits before it durable, since the log of the server has one order. Writes that wait share one.
 */

import { SvcError } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'
import { type PgConnection, PgConnectionError } from '../../platform/postgres.ts'
import { RoomPart } from '../../platform/runtime.ts'
import { prepared, sql } from '../../platform/sql.ts'
import { connectionHint } from './errors.ts'

/** The server gave up the wait for its standby: the commit may be lost in a failover. */
const waitGivenUp = '01000'

interface BarrierPorts {
  connect(): Promise<PgConnection>
  clock: Pick<Clock, 'monotonic'>
  node: string
  passed(row: number, place: number): Promise<void>
  serverRunEnded(): void
}

/** Makes commits durable, one barrier at a time. A barrier counts for the calls that came before it began. */
export class BarrierLoop extends RoomPart<BarrierPorts> {
  #connection: PgConnection | undefined
  #waiting: (PromiseWithResolvers<void> & { since: number })[] = []
  #isRunning = false
  #isClosed = false
  last = { tookMs: 0, at: Number.NEGATIVE_INFINITY }
  #serverRun: { nth: number; id: string } | undefined
  /** The server reported, during a barrier, that it did not wait for its standby. */
  #wasGivenUp = false

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
      const { clock } = this.ports
      const begun = clock.monotonic()
      try {
        const { row, place } = await this.#commit()
        const at = clock.monotonic()
        this.last = { tookMs: at - begun, at }
        for (const { resolve, reject, since } of ended) {
          if (since === this.serverRun) resolve()
          else reject(lostError())
        }
        void this.ports.passed(row, place)
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
        SELECT ${this.ports.node}, last, place FROM head
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
    const connection = await this.ports.connect()
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
      if (before) this.ports.serverRunEnded()
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
