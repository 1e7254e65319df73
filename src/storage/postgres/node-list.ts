/** What people see of the nodes, and of the standbys of the database. */
import type { NodeInfo, Replication, StandbyInfo } from '../../model/nodes.ts'
import { formatCount } from '../../platform/format.ts'
import type { Log } from '../../platform/log.ts'
import type { PgQueries } from '../../platform/postgres.ts'
import { type Sql, sql } from '../../platform/sql.ts'
import type { DatabaseFault } from '../inspection.ts'
import type { Retention } from '../nouns/retention.ts'

/** Sessions of a node whose names are listed. */
const namedSessions = 100

/** Returns the processes that poll or listen, this one first. A command that only works for a moment is not one. */
export const listNodes = (queries: PgQueries, own = ''): Promise<NodeInfo[]> =>
  queries.all<NodeInfo>(sql`SELECT n.id, n.name, n.version, n.url, n.polls, n.id = ${own} AS is_this,
      n.max_age_days, n.max_count,
      (extract(epoch FROM n.started_at) * 1000)::bigint AS since,
      (extract(epoch FROM n.lease_until - clock_timestamp()) * 1000)::bigint AS lease_left_ms,
      coalesce(owned.count, 0) AS accounts, coalesce(owned.names, '{}') AS sessions
    FROM node n LEFT JOIN (SELECT node, count(*) AS count, (array_agg(name ORDER BY name))[1:CAST(${namedSessions} AS integer)]
      AS names FROM account WHERE bot_id IS NOT NULL GROUP BY node) owned ON owned.node = n.id
    WHERE n.polls OR n.url IS NOT NULL
    ORDER BY is_this DESC, n.started_at, n.id`)

/** A node as others compare it with theirs. */
export interface ComparedNode extends Retention {
  name: string
  version: string
  /** First the one that seals. */
  keys: string[]
  /** Keyed hash of the token that its callers need. */
  token?: string
}

/** The nodes that poll or listen, and live. */
export const comparedNodes: Sql = sql`SELECT name, version, keys, token,
  max_age_days AS "maxAgeDays", max_count AS "maxCount" FROM node
  WHERE (polls OR url IS NOT NULL) AND lease_until > clock_timestamp() ORDER BY name`

/** Returns how nodes differ where all must be alike. */
export function findDifferences(nodes: readonly ComparedNode[]): DatabaseFault[] {
  const found: DatabaseFault[] = []
  const byVersion = Map.groupBy(nodes, ({ version }) => version)
  if (byVersion.size > 1)
    found.push({
      check: 'versions',
      problem: `the nodes run different versions: ${[...byVersion].map(([version, own]) => `${version} on ${namesOf(own)}`).join('; ')}`,
      fix: 'Finish the upgrade.',
    })
  const byToken = Map.groupBy(
    nodes.filter(({ token }) => token !== undefined),
    ({ token }) => token,
  )
  if (byToken.size > 1)
    found.push({
      check: 'tokens',
      problem: `the nodes have different tokens: one on ${[...byToken.values()].map(namesOf).join('; another on ')}`,
      fix: 'Give all nodes the same --token-file, or none: then svc derives it from the secret key.',
    })
  const byRetention = Map.groupBy(nodes, describeRetention)
  if (byRetention.size > 1)
    found.push({
      check: 'retention',
      problem: `the nodes differ in what they keep, so the largest limits count: ${[...byRetention].map(([kept, own]) => `${kept} on ${namesOf(own)}`).join('; ')}`,
      fix: 'Give all nodes the same --store-max-age-days and --store-max-count.',
    })
  const keys = new Set(nodes.flatMap(node => node.keys))
  for (const key of keys) {
    const lacking = nodes.filter(node => !node.keys.includes(key))
    if (lacking.length > 0)
      found.push({
        check: 'keys',
        problem: `${namesOf(lacking)}: no secret key ${key}, which other nodes have`,
        fix: 'Give it to all with --new-secret-key-file before svc secrets rotate, and take the old one from all after it.',
      })
  }
  return found
}

const describeRetention = ({ maxAgeDays, maxCount }: Retention): string =>
  `${maxAgeDays === 0 ? 'any age' : formatCount(maxAgeDays, 'day')} and ${maxCount === 0 ? 'any number' : formatCount(maxCount, 'message')}`

/** Returns what this node and the others keep, if they differ: no limit is the largest one. */
export async function findRetention(queries: PgQueries, own: Retention): Promise<Retention> {
  const all = [own, ...(await queries.all<ComparedNode>(comparedNodes))]
  const largest = (limits: number[]) => (limits.includes(0) ? 0 : Math.max(...limits))
  return {
    maxAgeDays: largest(all.map(({ maxAgeDays }) => maxAgeDays)),
    maxCount: largest(all.map(({ maxCount }) => maxCount)),
  }
}

/** Returns a function that logs once how nodes differ. */
export function createDifferenceLog(log: Log): (nodes: readonly ComparedNode[]) => void {
  let logged = new Set<string>()
  return nodes => {
    const found = findDifferences(nodes)
    for (const { fix, problem } of found) if (!logged.has(problem)) log.warn(problem, { hint: fix })
    logged = new Set(found.map(({ problem }) => problem))
  }
}

const namesOf = (nodes: readonly ComparedNode[]): string => nodes.map(({ name }) => name).join(', ')

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
