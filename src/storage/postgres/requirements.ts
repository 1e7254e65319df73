/** What a database must be for svc. A node does not start on one that is not; doctor lists everything that is wrong. */
import { SvcError } from '../../model/error.ts'
import { formatCount } from '../../platform/format.ts'
import type { PgQueries } from '../../platform/postgres.ts'
import { type Sql, sql } from '../../platform/sql.ts'
import type { DatabaseFault } from '../inspection.ts'

/** Most connections that a node opens. */
const nodeConnections = 10

interface Found {
  version: number
  fsync: boolean
  encoding: string
  standby: boolean
  readOnly: boolean
  reached: boolean
  connections: number
  mayCreate: boolean
  missing: string[]
}

/** What the role may not do with the tables, as in `INSERT ON message`. */
const missingRights: Sql = sql`ARRAY(
  SELECT wanted || ' ON ' || relname FROM pg_class,
    unnest(CASE relkind WHEN 'S' THEN '{USAGE,SELECT}' ELSE '{SELECT,INSERT,UPDATE,DELETE}' END::text[]) wanted
    WHERE relnamespace = to_regnamespace('svc') AND relkind IN ('r', 'S')
      AND NOT CASE relkind WHEN 'S' THEN has_sequence_privilege(oid, wanted) ELSE has_table_privilege(oid, wanted) END
  UNION ALL SELECT 'EXECUTE ON FUNCTION ' || proname FROM pg_proc
    WHERE pronamespace = to_regnamespace('svc') AND NOT has_function_privilege(oid, 'EXECUTE')
  ORDER BY 1 LIMIT 5)`

const readFound: Sql = sql`SELECT current_setting('server_version_num')::bigint AS version,
  current_setting('fsync') = 'on' AS fsync, current_setting('server_encoding') AS encoding,
  pg_is_in_recovery() AS standby,
  (SELECT reset_val = 'on' FROM pg_settings WHERE name = 'default_transaction_read_only') AS "readOnly",
  current_setting('search_path') = 'svc,pg_catalog' AND current_setting('lock_timeout') = '4s' AS reached,
  (SELECT least(current_setting('max_connections')::bigint, nullif(datconnlimit, -1),
      CASE WHEN rolsuper THEN NULL ELSE nullif(rolconnlimit, -1) END)
    FROM pg_database, pg_roles WHERE datname = current_database() AND rolname = current_user) AS connections,
  CASE WHEN to_regnamespace('svc') IS NULL THEN has_database_privilege(current_database(), 'CREATE')
    ELSE to_regclass('svc.meta') IS NOT NULL OR has_schema_privilege(to_regnamespace('svc'), 'CREATE') END AS "mayCreate",
  ${missingRights} AS missing`

/** Returns what is wrong, the worst first. */
export async function findFaults(queries: Pick<PgQueries, 'one'>): Promise<DatabaseFault[]> {
  const { connections, encoding, fsync, mayCreate, missing, reached, readOnly, standby, version } =
    await queries.one<Found & Record<string, unknown>>(readFound)
  const faults: (DatabaseFault | false)[] = [
    version < 140_000 && {
      check: 'version',
      problem: 'the database is older than PostgreSQL 14',
      fix: 'Update it.',
    },
    !reached && {
      check: 'pooler',
      problem:
        'the settings of a connection do not reach the database: a pooler such as PgBouncer is in between',
      fix: 'Give svc the address of PostgreSQL itself: each node has a pool of its own.',
    },
    encoding !== 'UTF8' && {
      check: 'encoding',
      problem: `the database has the encoding ${encoding}, which cannot store every character`,
      fix: "Make another one: CREATE DATABASE … OWNER … ENCODING 'UTF8' TEMPLATE template0.",
      details: { encoding },
    },
    !fsync && {
      check: 'fsync',
      problem: 'the database runs with fsync = off, and would lose what it confirmed',
      fix: 'Set fsync = on.',
    },
    standby && {
      check: 'writable',
      problem: 'the database is a standby: nothing can be written',
      fix: 'Give svc the address of the primary.',
    },
    readOnly && {
      check: 'writable',
      problem: 'default_transaction_read_only is on: nothing can be written',
      fix: 'Set it to off for the server, the database and the role, when the reason for it is gone.',
    },
    connections < nodeConnections && {
      check: 'connections',
      problem: `the database allows ${formatCount(connections, 'connection')}, and a node takes up to ${nodeConnections}`,
      fix: 'Raise max_connections, or the CONNECTION LIMIT of the role or the database.',
      details: { connections },
    },
    !mayCreate && {
      check: 'rights',
      problem: 'the role of svc may not make its tables',
      fix: 'Let it own the database, or make the schema for it: CREATE SCHEMA svc AUTHORIZATION the role.',
      details: { missing: ['CREATE ON SCHEMA svc'] },
    },
    missing.length > 0 && {
      check: 'rights',
      problem: `the role of svc lacks rights: ${missing.join(', ')}`,
      fix: 'GRANT them, or let it own everything in the schema svc.',
      details: { missing },
    },
  ]
  return faults.filter(fault => fault !== false)
}

/** @throws SvcError `store_unavailable` with the first fault */
export function rejectFaults(faults: readonly DatabaseFault[]): void {
  const error = faultError(faults)
  if (error) throw error
}

export const faultError = ([first]: readonly DatabaseFault[]): SvcError | undefined =>
  first &&
  new SvcError('store_unavailable', first.problem, {
    hint: first.fix,
    details: { check: first.check, ...first.details },
  })

/**
 * Returns why nothing may run on the database: it is a copy, such as a dump that was restored elsewhere. Both would take
 * the messages of the same accounts, and send what waits twice.
 */
export const findCopyFault = async (queries: Pick<PgQueries, 'one'>): Promise<DatabaseFault | undefined> =>
  (await findHome(queries)).fault

async function findHome(queries: Pick<PgQueries, 'one'>): Promise<{ fault?: DatabaseFault; id?: string }> {
  const { there } = await queries.one<{ there: boolean }>(
    sql`SELECT to_regclass('svc.meta') IS NOT NULL AS there`,
  )
  if (!there) return {}
  const {
    here,
    home = here,
    store,
  } = await queries.one<{ here: string; home?: string; store: string }>(
    sql`SELECT svc.home() AS here, home, store_id AS store FROM svc.meta`,
  )
  if (home === here) return { id: store }
  const [server, id, table, ...name] = home.split(' ')
  const [hereServer, hereId, hereTable] = here.split(' ')
  const command = 'svc store adopt'
  const original = `the database ${name.join(' ')}`
  const differs =
    server !== hereServer ? 'server' : id === hereId && table === hereTable ? 'name' : 'database'
  const problem = {
    server: `this database is a copy of ${original} on another server, or came here by pg_upgrade`,
    name: `this is ${original} under another name`,
    database: `this database is a copy of ${original}, or was restored from a dump of it`,
  }[differs]
  const fault = {
    check: 'copy',
    problem: `${problem}: nothing polls, sends or delivers here`,
    fix: `Stop every svc on the original for good, then run ${command} here.`,
    details: { original: name.join(' '), differs, command },
  }
  return { fault, id: store }
}

/** @returns the id of the store; undefined while it has no tables. @throws SvcError `store_unavailable` */
export async function rejectCopy(queries: Pick<PgQueries, 'one'>): Promise<string | undefined> {
  const { fault, id } = await findHome(queries)
  rejectFaults(fault ? [fault] : [])
  return id
}
