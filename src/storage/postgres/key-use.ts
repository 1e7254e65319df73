/** What the processes that share a store use of the limits of keys. */
import { toJsonb } from '../../platform/postgres-values.ts'
import { constantSql, sql } from '../../platform/sql.ts'
import type { KeyStore, KeyUse } from '../keys.ts'
import type { PgDatabase } from './database.ts'

export const createShareUse =
  (db: PgDatabase): KeyStore['shareUse'] =>
  own => {
    const isToday = constantSql(`day_began > clock_timestamp() - interval '1 day'`)
    return db.all<KeyUse>(sql`WITH own AS (
        INSERT INTO key_use (key, node, calls, open, bytes, day_began)
          SELECT o.key, ${db.node}, o.calls, o.open, o.bytes, clock_timestamp() - o."dayAgeMs" * interval '1 ms'
          FROM jsonb_to_recordset(${toJsonb(own)}::jsonb)
            AS o(key text, calls double precision, open bigint, bytes bigint, "dayAgeMs" bigint) ORDER BY o.key
        ON CONFLICT (key, node) DO UPDATE SET calls = excluded.calls, open = excluded.open, bytes = excluded.bytes,
          day_began = excluded.day_began),
      old AS (DELETE FROM key_use WHERE NOT ${isToday} AND NOT lives(node))
      SELECT key, coalesce(sum(calls) FILTER (WHERE lives(node)), 0)::double precision AS calls,
        coalesce(sum(open) FILTER (WHERE lives(node)), 0)::bigint AS open,
        coalesce(sum(bytes) FILTER (WHERE ${isToday}), 0)::bigint AS bytes,
        coalesce(max(extract(epoch FROM clock_timestamp() - day_began) * 1000) FILTER (WHERE ${isToday}), 0)::bigint AS "dayAgeMs"
      FROM key_use WHERE key = ANY (${own.map(({ key }) => key)}::text[]) AND node <> ${db.node} GROUP BY key`)
  }
