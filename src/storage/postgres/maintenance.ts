/** The state of the engine, and where its log ends for retention. */
import { SvcError } from '../../model/error.ts'
import { constantSql, sql } from '../../platform/sql.ts'
import type { NewAuditLine } from '../audit.ts'
import { noteClock, noteRetention } from '../nouns/retention.ts'
import { dayMs } from '../retention.ts'
import { type Routine, readAll, readFirst } from '../routine.ts'
import type { StoreMaintenance } from '../store.ts'
import { drive } from './drive.ts'
import { connectionHint } from './errors.ts'
import { LinkedPgPart } from './part.ts'
import { faultError, findFaults } from './requirements.ts'
import { createNounContext, createRunner, postgresDialect } from './routines.ts'

export const storeTable = constantSql('meta')
/** Longest wait of `checkWritable`: `svc health` waits 2 s for everything. */
const checkMs = 1500
/** A barrier that takes longer is slow. */
const slowMs = 500

export class PgMaintenance
  extends LinkedPgPart<Pick<StoreMaintenance, 'prune' | 'removeOld'>>
  implements StoreMaintenance
{
  readonly prune = this.ports.prune
  readonly removeOld = this.ports.removeOld

  async noteRetention(line: NewAuditLine): Promise<void> {
    const nouns = createNounContext(this)
    await createRunner(this.db)('write', () => noteRetention(nouns, storeTable, line))
  }

  async noteClock(): Promise<void> {
    await drive(this.db, noteClock(this.clockTrust, postgresDialect, storeTable))
  }

  async shrink(): Promise<void> {}

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
}

/** Returns the last row id less the gaps among the newest rows: so `maxCount` rows have ids beyond that many less. */
export function* findLastWithoutGaps(maxCount: number): Routine<number> {
  const newest = yield* readFirst<{ last: number }>(sql`SELECT coalesce(max(id), 0) AS last FROM message`)
  const gaps = yield* readAll<{ upto: number; size: number }>(
    sql`SELECT after + size AS upto, size FROM gap ORDER BY after DESC`,
  )
  return gaps.reduce((last, { upto, size }) => (last - maxCount < upto ? last - size : last), newest!.last)
}

/**
 * Gaps before the oldest message; what nodes counted of keys that have ended; and the rows that say that a session is gone,
 * which every node has read for long.
 */
export const leftovers = [
  constantSql(
    `DELETE FROM gap WHERE after + size < coalesce((SELECT min(id) FROM message), (SELECT last + 1 FROM head))`,
  ),
  constantSql(`DELETE FROM key_use u WHERE day_began < clock_timestamp() - interval '2 days'
    AND NOT EXISTS (SELECT FROM access_key k WHERE k.id = u.key AND k.revoked_at IS NULL)`),
  constantSql(
    `DELETE FROM account WHERE bot_id IS NULL AND node IS NULL AND created_at < now_ms() - ${30 * dayMs}`,
  ),
]
