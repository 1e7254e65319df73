/**
 * Named readers of the log. The decisions are in functions of the database (`claim_rows`), so that a claim holds its
 * consumer for no round trip. A position moves when rows are delivered; unconfirmed rows are stored in a lease.
 */
import { prepared, sql } from '../../platform/sql.ts'
import type { ReadFilter } from '../messages.ts'
import { missingAckError, neverSeen, programLeaseMs } from '../nouns/readers.ts'
import {
  type ConsumerClaim,
  type Consumers,
  type LeasedRow,
  type MessageLog,
  startsAtFirst,
} from '../store.ts'
import { LinkedPgPart, narrowedBy } from './part.ts'
import { horizon } from './tables.ts'

/** What `claim_rows` returns. `again`: the rows that were delivered before. */
interface Claimed {
  claim?: number
  taken?: number[]
  again?: number[]
  acknowledges: boolean
}

export class PgConsumers
  extends LinkedPgPart<{ log: Pick<MessageLog, 'getByIds'> }>
  implements Pick<Consumers, 'claim' | 'lease' | 'register' | 'giveBack'>
{
  async claim(
    consumer: string,
    { characters, limit, ...narrowed }: Omit<ReadFilter, 'direction'>,
  ): Promise<ConsumerClaim | undefined> {
    const { claim, taken, again, acknowledges } = await this.db.one<Claimed>(
      prepared(sql`SELECT * FROM claim_rows(
      ${consumer}, ${startsAtFirst(consumer)}, ${this.clock.now()}, ${this.owner}, ${limit}, ${characters},
      ${narrowedBy(narrowed)})`),
    )
    if (acknowledges) throw missingAckError(consumer)
    if (claim === undefined || taken === undefined) return undefined
    const rows = await this.ports.log.getByIds(taken)
    if (rows.length > 0) return { lease: claim, rows, redelivered: new Set(again) }
    // Retention removed them at this moment.
    await this.db.run(sql`DELETE FROM lease WHERE id = ${claim}`)
    return undefined
  }

  async lease(
    consumer: string,
    { limit, ...narrowed }: Omit<ReadFilter, 'direction' | 'characters'>,
  ): Promise<{ rows: LeasedRow[]; expiresAt: number }> {
    const now = this.clock.now()
    const found = await this.db.one<{
      leases?: number[]
      taken?: number[]
      again: number[]
      acknowledges: boolean
    }>(
      prepared(sql`SELECT * FROM lease_rows(${consumer}, ${startsAtFirst(consumer)}, ${now}, ${this.owner}, ${limit},
        ${narrowedBy(narrowed)})`),
    )
    if (found.acknowledges) throw missingAckError(consumer)
    const { again, leases = [], taken = [] } = found
    const rows = leases.map((lease, nth) => ({
      lease,
      id: taken[nth]!,
      redelivered: again.includes(taken[nth]!),
    }))
    return { rows, expiresAt: now + programLeaseMs }
  }

  async register(
    consumer: string,
    { atEnd = false, after }: { atEnd?: boolean; after?: number } = {},
  ): Promise<void> {
    await this.db.run(sql`SELECT locked_consumer(${consumer},
      CASE WHEN ${after !== undefined} THEN ${after ?? 0}::bigint WHEN ${startsAtFirst(consumer)} THEN 0
        WHEN ${atEnd} THEN ${horizon} ELSE coalesce((SELECT max(position) FROM consumer), 0) END, ${this.clock.now()})
      WHERE NOT EXISTS (SELECT 1 FROM consumer WHERE name = ${consumer})`)
  }

  async giveBack(
    { lease, redelivered }: Pick<ConsumerClaim, 'lease' | 'redelivered'>,
    from: number,
  ): Promise<void> {
    await this.db.run(sql`WITH given AS (SELECT * FROM lease WHERE id = ${lease} FOR UPDATE),
      back AS (INSERT INTO lease (consumer, ids, owner, expires_at, hand_outs)
        SELECT given.consumer, array_agg(one ORDER BY one), given.owner, expiry, min(given.hand_outs) FROM given CROSS JOIN unnest(given.ids) AS one
          CROSS JOIN LATERAL (SELECT CASE WHEN one = ANY (${[...redelivered]}::bigint[]) THEN 0 ELSE ${neverSeen} END AS expiry) e
          WHERE one >= ${from} GROUP BY given.consumer, given.owner, expiry),
      emptied AS (DELETE FROM lease USING given WHERE lease.id = given.id AND ${from} <= given.ids[1])
      UPDATE lease SET ids = ARRAY(SELECT one FROM unnest(given.ids) AS one WHERE one < ${from} ORDER BY one) FROM given
        WHERE lease.id = given.id AND ${from} > given.ids[1]`)
    await this.db.touch()
  }
}
