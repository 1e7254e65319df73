/** Read-only inspection of a store on PostgreSQL. It joins no node, and takes no lock. */
import { sessionStatusOf } from '../../model/session.ts'
import type { Clock } from '../../platform/clock.ts'
import { connectPg, type PgConnection } from '../../platform/postgres.ts'
import { untouched } from '../../platform/sealing.ts'
import { type Sql, sql } from '../../platform/sql.ts'
import type {
  ClusterState,
  DatabaseFault,
  InspectedSession,
  InspectedSessions,
  Inspection,
  KnownNames,
  Polling,
  SecretState,
  StoreStats,
} from '../inspection.ts'
import { noContents, noNames, readContents, readNames } from '../nouns/inspection.ts'
import { isUnreleased } from '../unreleased.ts'
import { type AccountRow, accountColumns, recordOf } from './accounts.ts'
import { hasWrittenRow } from './contexts.ts'
import { drive } from './drive.ts'
import { placeOf, storeErrorOf } from './errors.ts'
import type { KeyState } from './migrate.ts'
import { type ComparedNode, comparedNodes, findDifferences, listNodes, readReplication } from './node-list.ts'
import { findCopyFault, findFaults, rejectFaults } from './requirements.ts'
import { postgresDialect } from './routines.ts'
import { newestForm } from './schema.ts'
import { keyOfNameIn } from './session-keys.ts'
import { erasedSession } from './tables.ts'

/** Longest wait for an answer. */
const answerMs = 4000
/** A transaction that lasts longer is listed. */
const longMs = 30_000
/** Transactions that are listed. */
const listed = 5

export class PgInspection implements Inspection {
  readonly #url: string
  #connecting: Promise<Connected> | undefined
  /** Calls that use the connection, and the end of the last one. */
  #users = 0
  #last: Promise<unknown> = Promise.resolve()

  constructor(url: string) {
    this.#url = url
  }

  /** Runs work on a connection, one after another. It ends with the last of the calls that share it. */
  async #use<T>(work: (connected: Connected) => Promise<T>): Promise<T> {
    this.#users++
    this.#connecting ??= connect(this.#url)
    const connecting = this.#connecting
    const result = this.#last.then(async () => work(await connecting))
    this.#last = result.catch(() => {})
    try {
      return await result
    } catch (error) {
      throw storeErrorOf(error, placeOf(this.#url))
    } finally {
      if (--this.#users === 0) {
        this.#connecting = undefined
        void connecting.then(
          ({ connection }) => connection.destroy(),
          () => {},
        )
      }
    }
  }

  /** Runs work if there are tables that this version can read. */
  #read<T>(absent: T, work: (connection: PgConnection, form: number) => Promise<T>): Promise<T> {
    return this.#use(async connected => {
      const connection = working(connected)
      const found = await readMeta(connection)
      return found && isKnown(found) ? work(connection, found.form) : absent
    })
  }

  listSessions(): Promise<InspectedSessions> {
    return this.#read({ sessions: [] }, async connection => {
      const [accounts, lanes] = (await connection.script([
        sql`SELECT ${accountColumns} FROM account WHERE bot_id IS NOT NULL ORDER BY chosen DESC, created_at, name_key`,
        sql`SELECT a.name_key, l.peer FROM account a JOIN outbox_lane l ON l.session = ${keyOfNameIn(sql`a.name_key`)}
          WHERE a.bot_id IS NOT NULL AND ${hasWrittenRow}`,
      ])) as unknown as [AccountRow[], { name_key: string; peer: string }[]]
      const users = Map.groupBy(lanes, ({ name_key }) => name_key)
      return { sessions: accounts.map(row => inspectedOf(row, users.get(row.name_key) ?? [])) }
    })
  }

  readStoreStats(): Promise<StoreStats | undefined> {
    return this.#use(async connected => {
      const connection = working(connected)
      const meta = await readMeta(connection)
      if (!meta) return undefined
      const isReadable = isKnown(meta)
      return {
        form: isReadable ? Math.min(meta.form, newestForm) : meta.form,
        newest: newestForm,
        sizeBytes: meta.size,
        walBytes: 0,
        ...(isReadable ? await drive(connection, readContents(postgresDialect, counted)) : noContents),
      }
    })
  }

  readNames(): Promise<KnownNames> {
    return this.#read(noNames, connection => drive(connection, readNames()))
  }

  readSecrets(): Promise<SecretState> {
    return this.#read<SecretState>({ key: null }, async connection => {
      const { old_key, secret_key } = await connection.one<KeyState>(
        sql`SELECT secret_key, old_key FROM meta`,
      )
      const key = secret_key ?? null
      return old_key === undefined ? { key } : { from: old_key, to: key }
    })
  }

  checkPolling(_clock: Clock): Promise<Polling> {
    return this.#read<Polling>({ held: false, stalled: false }, async connection => {
      const { since } = await connection.one<{ since?: number }>(sql`SELECT
        (extract(epoch FROM min(started_at)) * 1000)::bigint AS since FROM node
        WHERE polls AND lease_until > clock_timestamp()`)
      return { held: since !== undefined, stalled: false, ...(since !== undefined && { since }) }
    })
  }

  readCluster(clock: Clock): Promise<ClusterState | undefined> {
    return this.#use(async ({ connection, faults }) => {
      const asked = clock.now()
      const [[server], transactions] = (await connection.script([readServer, readTransactions])) as [
        [
          Omit<ClusterState, 'address' | 'faults' | 'tables' | 'transactions' | 'clockOffsetMs'> & {
            now: number
          },
        ],
        ClusterState['transactions'],
      ]
      const { now, ...rest } = server
      const answered = clock.now()
      const meta = faults.length > 0 ? undefined : await readMeta(connection)
      return {
        ...rest,
        address: placeOf(this.#url),
        faults,
        transactions,
        // An answer takes time: the database's clock was read at some moment of it.
        clockOffsetMs: now < asked ? now - asked : Math.max(0, now - answered),
        ...(meta && isKnown(meta) && { tables: await readTables(connection) }),
      }
    })
  }
}

interface Connected {
  connection: PgConnection
  faults: DatabaseFault[]
}

async function connect(url: string): Promise<Connected> {
  const connection = await connectPg({ url, name: 'svc (inspection)', answerMs })
  try {
    await connection.run(sql`SET default_transaction_read_only = on`)
    const copy = await findCopyFault(connection)
    return { connection, faults: [...(copy ? [copy] : []), ...(await findFaults(connection))] }
  } catch (error) {
    connection.destroy()
    throw error
  }
}

/** @throws SvcError `store_unavailable` if no node can work on the database */
function working({ connection, faults }: Connected): PgConnection {
  rejectFaults(faults)
  return connection
}

interface Meta {
  form: number
  min_reader: number
  size: number
}

/** Whether this version can interpret the tables. */
const isKnown = ({ form, min_reader }: Meta): boolean => min_reader <= newestForm && !isUnreleased(form)

async function readMeta(connection: PgConnection): Promise<Meta | undefined> {
  const { there } = await connection.one<{ there: boolean }>(
    sql`SELECT to_regclass('svc.meta') IS NOT NULL AS there`,
  )
  return there
    ? connection.one<Meta>(
        sql`SELECT form, min_reader, pg_database_size(current_database()) AS size FROM meta`,
      )
    : undefined
}

function inspectedOf(row: AccountRow, lanes: readonly { peer: string }[]): InspectedSession {
  const record = recordOf(row, untouched)
  const bot = record?.bot
  const trouble = record?.unreadable && ({ kind: 'unreadable', error: record.unreadable } as const)
  return {
    name: row.name,
    isDefault: row.chosen,
    status: sessionStatusOf(bot),
    ...(bot && { bot }),
    ...(trouble && { trouble }),
    contexts: 'read',
    users: new Set(lanes.map(({ peer }) => peer)),
  }
}

/** More messages than this are estimated, since the database would read them all. */
const countedMessages = 100_000

/** The ids have no gaps, but for those of a standby that took over: they jump ahead. */
const counted = sql`(SELECT CASE WHEN counted < ${countedMessages} THEN counted ELSE greatest(counted,
    (SELECT reltuples::bigint FROM pg_class WHERE oid = 'message'::regclass)) END
  FROM (SELECT count(*) AS counted
    FROM (SELECT FROM message WHERE session > ${erasedSession} LIMIT ${countedMessages}) m) c)`

const readServer: Sql = sql`SELECT current_setting('server_version') AS version,
  current_setting('full_page_writes') = 'on' AS "fullPageWrites",
  (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now,
  pg_database_size(current_database()) AS "sizeBytes",
  (SELECT sum(numbackends) FROM pg_stat_database) AS connections,
  current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint AS "mostConnections"`

/**
 * Transactions that last, or hold what others wait for, as far as the role may see them. In a transaction of another
 * role only its process and its client are seen.
 */
const readTransactions: Sql = sql`WITH blocking AS MATERIALIZED (
    SELECT b.pid, max(extract(epoch FROM clock_timestamp() - w.query_start)) AS blocks
    FROM pg_stat_activity w, unnest(pg_blocking_pids(w.pid)) AS b(pid)
    WHERE w.datname = current_database() AND w.wait_event_type = 'Lock' GROUP BY b.pid)
  SELECT a.pid, coalesce(a.application_name, '') AS name, a.usename AS role, coalesce(a.state, '') AS state,
    (extract(epoch FROM clock_timestamp() - a.xact_start) * 1000)::bigint AS "ageMs",
    (b.blocks * 1000)::bigint AS "blocksMs"
  FROM pg_stat_activity a LEFT JOIN blocking b ON b.pid = a.pid
  WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
    AND (b.pid IS NOT NULL OR a.xact_start < clock_timestamp() - ${`${longMs} ms`}::interval)
  ORDER BY b.blocks DESC NULLS LAST, a.xact_start LIMIT ${listed}`

async function readTables(connection: PgConnection): Promise<NonNullable<ClusterState['tables']>> {
  const state = await connection.one<{ unpolled: number; unindexed: number; moved_to?: string }>(sql`SELECT
      (SELECT count(*) FROM account a WHERE bot_id IS NOT NULL AND NOT EXISTS (SELECT FROM node n
        WHERE n.id = a.node AND n.lease_until > clock_timestamp())) AS unpolled,
      (SELECT count(*) FROM (SELECT FROM message WHERE id > (SELECT upto FROM indexed) LIMIT ${countedMessages}) m) AS unindexed,
      moved_to FROM meta`)
  return {
    nodes: await listNodes(connection),
    differences: findDifferences(await connection.all<ComparedNode>(comparedNodes)),
    replication: await readReplication(connection),
    ...state,
  }
}
