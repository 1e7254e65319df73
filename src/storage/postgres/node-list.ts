/** What people see of the nodes, and of the standbys of the database. */
import type { NodeInfo, Replication, StandbyInfo } from '../../model/nodes.ts'
import type { PgQueries } from '../../platform/postgres.ts'
import { type Sql, sql } from '../../platform/sql.ts'

/** Sessions of a node whose names are listed. */
const namedSessions = 100

/** Returns the processes that poll or listen, this one first. A command that only works for a moment is not one. */
export const listNodes = (queries: PgQueries, own = ''): Promise<NodeInfo[]> =>
  queries.all<NodeInfo>(sql`SELECT n.id, n.name, n.version, n.url, n.polls, n.id = ${own} AS is_this,
      (extract(epoch FROM n.started_at) * 1000)::bigint AS since,
      (extract(epoch FROM n.lease_until - clock_timestamp()) * 1000)::bigint AS lease_left_ms,
      coalesce(owned.count, 0) AS accounts, coalesce(owned.names, '{}') AS sessions
    FROM node n LEFT JOIN (SELECT node, count(*) AS count, (array_agg(name ORDER BY name))[1:${namedSessions}::integer]
      AS names FROM account WHERE bot_id IS NOT NULL GROUP BY node) owned ON owned.node = n.id
    WHERE n.polls OR n.url IS NOT NULL
    ORDER BY is_this DESC, n.started_at, n.id`)

const readSettings: Sql = sql`SELECT current_setting('synchronous_standby_names') AS synchronous_standby_names,
  timeline() AS timeline, pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS can_read,
  greatest(0, (SELECT last FROM head) - (SELECT coalesce(max(upto), 0) FROM durable)) AS unconfirmed_rows`

const readStandbys: Sql = sql`SELECT coalesce(application_name, '') AS name, state, sync_state,
  (extract(epoch FROM flush_lag) * 1000)::bigint AS lag_ms FROM pg_stat_replication ORDER BY application_name, pid`

export async function readReplication(queries: PgQueries): Promise<Replication> {
  const [[settings], standbys] = (await queries.script([readSettings, readStandbys])) as [
    [Omit<Replication, 'standbys'>],
    StandbyInfo[],
  ]
  return { ...settings, standbys }
}
