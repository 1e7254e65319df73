/**
 * Ends entries of the outbox without sending them: their process died, they waited too long, or they are no
 * longer needed.
 */
import { changeApart, doneApart, type RowFailure } from '../../platform/apart.ts'
import { sql } from '../../platform/sql.ts'
import type { EndedEntry, EndReason, ExpiryReasons, SendMode, StoredEntry } from '../outbox.ts'
import { callLifeMs } from '../outbox-limits.ts'
import { end, endOrphan, expire, isCallOver, isKeyFree, type KeyFacts } from '../rules/outbox-ends.ts'
import { type EntryFacts, OutboxPlan } from '../rules/outbox-plan.ts'
import type { Attempt } from './database.ts'
import type { PgEntries } from './entries.ts'
import type { PgLane, PgLanes } from './lanes.ts'
import { type PgPlan, writePlan } from './outbox-plans.ts'
import { LinkedPgPart } from './part.ts'

/** An entry that may have to be ended. */
interface Orphan {
  id: number
  /** Its parts that are being sent, and will not be settled. */
  parts: number[]
  /** Its caller waits no more. */
  is_over: boolean
}

type CallRow = KeyFacts & { id: number }
type Entry = Pick<StoredEntry, 'id'>

const nameOf = ({ id }: Entry): string => `send ${id}`

/** Changes entries one after the other: each has a transaction of its own. */
async function eachApart<E extends Entry>(
  entries: readonly E[],
  change: (entry: E) => Promise<unknown>,
): Promise<RowFailure[]> {
  const failures: RowFailure[] = []
  for (const entry of entries) failures.push(...(await changeApart([entry], nameOf, () => change(entry))))
  return failures
}

export class PgOutboxEnds extends LinkedPgPart<{ lanes: PgLanes; entries: PgEntries }> {
  /** Reads an entry, lets `decide` change it, and writes that. */
  change<T>(
    id: number,
    decide: (found: EntryFacts<PgLane>, plan: PgPlan) => T | undefined,
  ): Promise<T | undefined> {
    return this.db.retry(async (queries: Attempt) => {
      await this.ports.lanes.lock(queries, sql`l.id = (SELECT lane FROM outbox WHERE id = ${id})`)
      const [found] = await this.ports.entries.load(queries, sql`e.id = ${id}`)
      if (!found) return undefined
      const plan: PgPlan = new OutboxPlan(this.clock.now())
      const result = decide(found, plan)
      if (plan.isEmpty) return result
      if (found.lane) plan.relyOn(found.lane)
      await writePlan(queries, plan)
      return result
    })
  }

  end(
    id: number,
    reason: EndReason,
    { only, by }: { only?: SendMode; by?: string } = {},
  ): Promise<EndedEntry | undefined> {
    return this.durably(() => this.change(id, (found, plan) => end(found, reason, { only, by }, plan)))
  }

  async expire(reasons?: ExpiryReasons): Promise<EndedEntry[]> {
    const found = await this.db.all<{ id: number }>(sql`SELECT id FROM outbox
      WHERE expires_at <= ${this.clock.now()} AND mode = 'queue' AND ended_at IS NULL ORDER BY id`)
    const ended: EndedEntry[] = []
    const failures = await eachApart(found, async ({ id }) => {
      const one = await this.durably(() => this.change(id, (entry, plan) => expire(entry, reasons, plan)))
      if (one && (one.ended > 0 || one.isLetGo)) ended.push(one)
    })
    return doneApart(failures, ended)
  }

  async renew(id: number): Promise<void> {
    await this.db.run(sql`UPDATE outbox SET expires_at = ${this.clock.now() + callLifeMs}
      WHERE id = ${id} AND mode = 'fail'`)
  }

  /**
   * Finds the entry that answers for a key. A call that died is ended first; a key older than a day is free.
   */
  async findByKey(key: string): Promise<StoredEntry | undefined> {
    const find = () =>
      this.db.get<CallRow>(sql`SELECT id, mode, created_at, expires_at, ended_at,
        (owner IS NOT NULL AND owner <> ${this.owner} AND NOT lives(owner)) AS "isDead" FROM outbox WHERE key = ${key}`)
    let row = await find()
    if (!row) return undefined
    // A clock that was set ahead must not make a repeated call send twice.
    const now = this.clockTrust.isTrusted ? this.clock.now() : Number.NEGATIVE_INFINITY
    return await this.durably(async () => {
      if (row && isCallOver(row, now)) {
        await this.#endOrphan({ id: row.id, parts: [], is_over: true })
        row = await find()
      }
      if (!row) return undefined
      const { id } = row
      if (!isKeyFree(row, now)) return await this.ports.entries.getEntry(id)
      if (row.mode === 'queue')
        await this.db.run(sql`UPDATE outbox SET key = NULL WHERE id = ${id} AND key = ${key}`)
      else await this.change(id, (_found, plan) => void plan.removed.push(id))
      return undefined
    })
  }

  /**
   * Returns entries with messages in flight that began before `before` (Unix ms) or whose process died, and calls that are
   * over for these reasons; also what this process wrote though it got no answer, by the first part.
   */
  #findOrphans(before: number, begun: readonly number[]): Promise<Orphan[]> {
    const isDead = sql`(owner IS NOT NULL AND owner <> ${this.owner} AND NOT lives(owner))`
    // A call whose process hangs would block its user's answers: past its deadline it is over, if the clock is trusted.
    const deadline = before > 0 ? this.clock.now() : 0
    return this.db.all<Orphan>(sql`WITH parts AS (SELECT entry, id FROM outbox_part
        WHERE status = 'sending' AND (coalesce(began_at, 0) < ${before} OR ${isDead})),
      -- A call that is not over has a part in flight, or a part that waits and has no message yet.
      calls AS (SELECT id FROM outbox WHERE mode = 'fail' AND ended_at IS NULL
        AND (expires_at <= ${deadline} OR ${isDead})
        AND id IN (SELECT entry FROM outbox_part WHERE status = 'sending'
          UNION SELECT entry FROM outbox_part WHERE status = 'queued' AND message IS NULL))
      SELECT entry AS id, array_agg(id) FILTER (WHERE id IS NOT NULL) AS parts, bool_or(is_over) AS is_over
        FROM (SELECT entry, id, false AS is_over FROM parts UNION ALL SELECT id, NULL, true FROM calls
          UNION ALL SELECT p.entry, p.id, e.mode = 'fail' FROM outbox_part p JOIN outbox e ON e.id = p.entry
            WHERE p.id = ANY (${begun}::bigint[]) AND e.ended_at IS NULL
              AND (e.owner = ${this.owner} OR (p.status = 'sending' AND p.owner = ${this.owner}))) found
        GROUP BY entry ORDER BY entry`)
  }

  /**
   * Ends what `#findOrphans` finds: parts in flight become unknown, waiting parts are refused. @returns how
   * many messages became unknown
   *
   * @param begun parts that began without the knowledge of this process, or did not
   */
  async reap(before: number, begun: readonly number[] = []): Promise<number> {
    const orphans = await this.#findOrphans(before, begun)
    if (orphans.length === 0) return 0
    let unknown = 0
    const failures = await this.durably(() =>
      eachApart(orphans, async orphan => {
        unknown += await this.#endOrphan(orphan)
      }),
    )
    return doneApart(failures, unknown)
  }

  async #endOrphan({ id, parts, is_over: isOver }: Orphan): Promise<number> {
    const ended = await this.change(id, (found, plan) =>
      endOrphan(found, { lost: parts ?? [], isOver }, plan),
    )
    return ended ?? 0
  }
}
