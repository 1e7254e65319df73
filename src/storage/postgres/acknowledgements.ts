/** Consumers that acknowledge: the position of each, for all sessions (key 0) and for single sessions. */
import { sqlStateOf } from '../../platform/postgres.ts'
import { sql } from '../../platform/sql.ts'
import type { ReadFilter } from '../messages.ts'
import { notDeliveredError } from '../nouns/readers.ts'
import { type Acknowledgements, type ConsumerClaim, type MessageLog, startsAtFirst } from '../store.ts'
import { LinkedPgPart, narrowedBy } from './part.ts'
import { keysOfName } from './session-keys.ts'

/** The function `acknowledge` fails with it for a row beyond the delivered rows. */
const notDelivered = 'SV001'

export class PgAcknowledgements
  extends LinkedPgPart<{ log: Pick<MessageLog, 'getByIds'> }>
  implements Acknowledgements
{
  async readAfter(
    consumer: string,
    ack: number,
    { characters, limit, ...narrowed }: Omit<ReadFilter, 'direction'>,
  ): Promise<Pick<ConsumerClaim, 'rows' | 'redelivered'>> {
    const found = await this.db
      .all<{ id: number; again: boolean }>(sql`SELECT id, again FROM read_after(${consumer}, ${ack},
        ${startsAtFirst(consumer)}, ${this.clock.now()}, ${limit}, ${narrowedBy(narrowed)})`)
      .catch(error => {
        if (sqlStateOf(error) !== notDelivered) throw error
        throw notDeliveredError()
      })
    const again = found.filter(one => one.again).map(({ id }) => id)
    const rows =
      found.length === 0
        ? []
        : await this.ports.log.getByIds(
            found.map(({ id }) => id),
            characters,
          )
    return { rows, redelivered: new Set(again) }
  }

  async markHandedOut(consumer: string, upTo: number, session?: string): Promise<void> {
    const keys = session === undefined ? sql`ARRAY[0::bigint]` : keysOfName(session)
    await this.durably(() =>
      this.db.run(sql`INSERT INTO acknowledged AS a (consumer, session, position, handed_out)
        SELECT c.name, k.key, 0, ${upTo} FROM consumer c CROSS JOIN unnest(${keys}) k(key)
          WHERE c.name = ${consumer} AND NOT EXISTS (SELECT 1 FROM acknowledged b
            WHERE b.consumer = ${consumer} AND b.session IN (0, k.key) AND b.handed_out >= ${upTo})
        ON CONFLICT (consumer, session) DO UPDATE SET handed_out = greatest(a.handed_out, excluded.handed_out)`),
    )
  }
}
