/**
 * Which node delivers for which endpoint. `webhook.deliverer` is the node that does: only itself gives an endpoint up while it
 * lives and polls.
 */
import { sql } from '../../platform/sql.ts'
import type { EngineContext } from './part.ts'

/** Rendezvous hashing over the nodes that poll: as one comes or goes, few endpoints change hands. */
export async function takeOver(
  { db }: Pick<EngineContext, 'db'>,
  held?: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const me = db.node
  const starts = held === undefined
  const rows = await db.all<{ id: string; own: boolean; changed: boolean }>(sql`WITH
      living AS (SELECT id FROM node WHERE polls AND lease_until > clock_timestamp() UNION SELECT ${me}),
      due AS MATERIALIZED (SELECT w.id, w.deliverer,
          (SELECT l.id FROM living l ORDER BY md5(l.id || ' ' || w.id) DESC LIMIT 1) = ${me} AS is_mine,
          w.deliverer IS NOT DISTINCT FROM ${me} AS is_held,
          w.deliverer IS NOT NULL AND w.deliverer IN (SELECT id FROM living) AS is_taken FROM webhook w),
      changed AS (UPDATE webhook w SET deliverer = CASE WHEN d.is_mine THEN ${me} END,
          epoch = epoch + CASE WHEN d.is_mine AND NOT d.is_held THEN 1 ELSE 0 END,
          next_try_at = CASE WHEN NOT d.is_mine THEN w.next_try_at END
        FROM due d WHERE w.id = d.id AND w.deliverer IS NOT DISTINCT FROM d.deliverer AND CASE
          WHEN NOT d.is_held THEN d.is_mine AND NOT d.is_taken
          WHEN d.is_mine THEN ${starts}::boolean AND w.next_try_at IS NOT NULL
          ELSE w.id <> ALL (${[...(held ?? [])]}::text[]) END
        RETURNING w.id)
      SELECT d.id, d.is_mine AND (d.is_held OR c.id IS NOT NULL) AS own, c.id IS NOT NULL AS changed
      FROM due d LEFT JOIN changed c USING (id)`)
  if (rows.some(({ changed }) => changed)) await db.barrier()
  return new Set(rows.filter(({ own }) => own).map(({ id }) => id))
}
