/**
 * Retention, and the state of the engine. Removal goes in small steps, oldest rows first, each a transaction of its own. If
 * another process removes at this moment, this one does nothing.
 */
import { SvcError } from '../../model/error.ts'
import { type PgQueries, sqlStateOf } from '../../platform/postgres.ts'
import { sql } from '../../platform/sql.ts'
import { type DatedRow, dayMs, findRemoved, liveMs, type RetentionRules } from '../retention.ts'
import type { StoreMaintenance } from '../store.ts'
import { connectionHint } from './errors.ts'
import { type EngineContext, PgPart } from './part.ts'
import { faultError, findFaults } from './requirements.ts'
import { placesPerMessage } from './tables.ts'

/** Rows per step: a writer waits for tens of milliseconds at most. */
const stepRows = 300
/** Maximum number of steps of one prune, and the pause after one, so that writers come in between. */
const [maxSteps, pauseMs] = [20_000, 5]
/** Longest wait of `checkWritable`: `svc health` waits 2 s for everything. */
const checkMs = 1500
/** A barrier that takes longer is slow. */
const slowMs = 500
/** Held during a step. Only svc takes this advisory lock. */
const pruneLock = 0x737665

/** What retention keeps; 0: no limit. */
export interface Retention {
  maxAgeDays: number
  maxCount: number
}

interface MaintenancePorts {
  retention: Retention
  /** Removes what other parts keep for a time. Called only if the clock is trusted. */
  pruneOthers(signal?: AbortSignal): Promise<void>
}

export class PgMaintenance extends PgPart implements StoreMaintenance {
  readonly #ports: MaintenancePorts
  /** The clock was not trusted at the last prune. */
  #wasDoubted = false

  constructor(context: EngineContext, ports: MaintenancePorts) {
    super(context)
    this.#ports = ports
  }

  async isClockTrusted(): Promise<boolean> {
    return this.clockTrust.isTrusted
  }

  /**
   * A barrier writes, and waits for the disk and the standby, as every other write does. That the role may write into one
   * table does not say that it may write into all.
   */
  async checkWritable(): Promise<SvcError | undefined> {
    const { full } = this.db
    if (full) return full
    const over = new AbortController()
    const passed = this.db
      .barrier()
      .then(async () => faultError(await findFaults(this.db)))
      .catch((error: unknown) =>
        error instanceof SvcError
          ? error
          : new SvcError('store_unavailable', 'the message store does not work', { cause: error }),
      )
    const late = this.clock.sleep(checkMs, over.signal).then(() =>
      this.#isSlow
        ? undefined
        : (this.db.failure ??
          new SvcError('store_unavailable', 'the database does not answer, or its standby does not', {
            hint: connectionHint,
          })),
    )
    try {
      return await Promise.race([passed, late])
    } finally {
      over.abort()
    }
  }

  /** Barriers take long, and still pass. */
  get #isSlow(): boolean {
    const { at, tookMs } = this.db.lastBarrier
    return tookMs > slowMs && this.clock.monotonic() - at < 3 * checkMs
  }

  async prune(signal?: AbortSignal): Promise<void> {
    const { pruneOthers, retention } = this.#ports
    const trusted = this.clockTrust.isTrusted
    if (trusted) await pruneOthers(signal)
    else if (!this.#wasDoubted)
      this.log.warn('the clock jumped, or svc did not run for long: nothing is removed for its age for a day')
    this.#wasDoubted = !trusted
    const rules = { ...retention, now: this.clock.now(), trusted }
    const warned = new Set<string>()
    let after: number | undefined = 0
    for (let count = 0; count < maxSteps && !signal?.aborted; count++) {
      after = await this.#pruneStep(after, rules, warned)
      if (after === undefined) break
      await this.clock.sleep(pauseMs, signal)
    }
  }

  /**
   * Removes up to one step of rows.
   *
   * @param after all rows up to this one are removed already
   * @returns the last removed row, if there may be more to remove
   */
  async #pruneStep(
    after: number,
    rules: Omit<RetentionRules, 'last'>,
    warned: Set<string>,
  ): Promise<number | undefined> {
    const [last, found] = await Promise.all([
      this.#lastWithoutGaps(rules.maxCount),
      this.db.all<DatedRow>(sql`SELECT id, stored_at AS "storedAt" FROM message WHERE id > ${after}
        ORDER BY id LIMIT ${stepRows}`),
    ])
    const next = await this.db.get<Pick<DatedRow, 'storedAt'>>(sql`SELECT stored_at AS "storedAt" FROM message
      WHERE id > ${found.at(-1)?.id ?? 0} AND stored_at <= ${rules.now + dayMs} ORDER BY id LIMIT 1`)
    const { end, isKept } = findRemoved(found, { ...rules, last }, () => next)
    if (end === undefined) return undefined
    await this.#warnReaders(end, rules, warned)
    await this.#warnSenders(end, warned)
    return (await this.#remove(after, end)) && !isKept ? end : undefined
  }

  /** Returns the last row id less the gaps among the newest rows: so `maxCount` rows have ids beyond that many less. */
  async #lastWithoutGaps(maxCount: number): Promise<number> {
    const [[newest], gaps] = (await this.db.script([
      sql`SELECT coalesce(max(id), 0) AS last FROM message`,
      sql`SELECT after + size AS upto, size FROM gap ORDER BY after DESC`,
    ])) as [[{ last: number }], { upto: number; size: number }[]]
    return gaps.reduce((last, { upto, size }) => (last - maxCount < upto ? last - size : last), newest.last)
  }

  /** Removes the rows after one, up to another one. @returns false if another process removes rows at this moment */
  async #remove(after: number, end: number): Promise<boolean> {
    try {
      await this.db.script([
        sql`SELECT expect(pg_try_advisory_xact_lock(${pruneLock}))`,
        sql`DELETE FROM gram WHERE id > ${after} AND id <= ${end}`,
        sql`DELETE FROM message WHERE id > ${after} AND id <= ${end}`,
        // The newest event of each type of each session stays.
        sql`DELETE FROM event e WHERE e.place < ${end * placesPerMessage} AND (e.session IS NULL OR EXISTS
          (SELECT 1 FROM event newer WHERE newer.session = e.session AND newer.place > e.place AND newer.type = e.type))`,
      ])
      return true
    } catch (error) {
      if (sqlStateOf(error) === '40001') return false
      throw error
    }
  }

  /** Warns once about each consumer that loses unread messages. */
  async #warnReaders(
    end: number,
    { now, trusted }: Pick<RetentionRules, 'now' | 'trusted'>,
    warned: Set<string>,
  ): Promise<void> {
    const lagging = await this.db.all<{
      consumer: string
      position: number
    }>(sql`SELECT c.name AS consumer, c.position
      FROM consumer c WHERE c.seen_at > ${trusted ? now - liveMs : 0} AND c.position < ${end}
      AND c.name <> ALL (${[...warned]}::text[]) AND EXISTS (SELECT 1 FROM message m
        WHERE m.id > c.position AND m.id <= ${end} AND m.sent = 0 AND NOT EXISTS (SELECT 1 FROM consumer_ahead a
          WHERE a.consumer = c.name AND a.session = m.session AND a.position >= m.id))`)
    for (const { consumer, position } of lagging) {
      warned.add(consumer)
      this.log.warn('retention removes messages that a consumer has not read', { consumer, position })
    }
  }

  /** Messages in the outbox are complete there and are still sent: only their row is missing until then. */
  async #warnSenders(end: number, warned: Set<string>): Promise<void> {
    const waiting = await this.db.all<{ outbox: number; messages: number }>(sql`SELECT entry AS outbox,
      count(*) AS messages FROM outbox_part WHERE message <= ${end} AND status = 'queued' GROUP BY entry`)
    for (const found of waiting) {
      const entry = `outbox ${found.outbox}`
      if (warned.has(entry)) continue
      warned.add(entry)
      this.log.warn('retention removes unsent messages from the history; they stay in the outbox', {
        ...found,
      })
    }
  }
}

/**
 * Returns the time of the newest row or reader activity (Unix ms) that is not in the future; undefined if
 * there is none.
 */
export async function findLastSign(queries: PgQueries, now: number): Promise<number | undefined> {
  const { at } = await queries.one<{ at?: number }>(sql`SELECT max(at) AS at FROM (
    (SELECT stored_at AS at FROM message ORDER BY id DESC LIMIT 1) UNION ALL SELECT max(seen_at) FROM consumer
    ) signs WHERE at <= ${now + dayMs}`)
  return at
}
