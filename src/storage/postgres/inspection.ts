/** Read-only inspection of a store on PostgreSQL. It joins no node, and takes no lock. */
import { suspectSpanMs } from '../../model/message.ts'
import { loginStatusOf } from '../../model/session.ts'
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
  WebhookProblem,
} from '../inspection.ts'
import { isUnreleased } from '../unreleased.ts'
import { type AccountRow, accountColumns, recordOf } from './accounts.ts'
import { type ContextRow, contextOf, hasWrittenRow } from './contexts.ts'
import { placeOf, storeErrorOf } from './errors.ts'
import { listNodes, readReplication } from './node-list.ts'
import { faultError, findCopyFault, findFaults } from './requirements.ts'
import { newestForm } from './schema.ts'
import { erasedSession } from './tables.ts'

/** Longest wait for an answer. */
const answerMs = 4000
const failingMs = 60_000
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
        sql`SELECT DISTINCT ON (s.name_key, l.peer) s.name_key, l.peer, l.received_at, l.first_seen, l.used, l.last_sent_at
          FROM outbox_lane l JOIN session s ON s.key = l.session WHERE ${hasWrittenRow}
          ORDER BY s.name_key, l.peer, s.named DESC, s.key DESC`,
      ])) as unknown as [AccountRow[], (ContextRow & { name_key: string })[]]
      const users = Map.groupBy(lanes, ({ name_key }) => name_key)
      return { sessions: accounts.map(row => inspectedOf(row, users.get(row.name_key) ?? [])) }
    })
  }

  readStoreStats(): Promise<StoreStats | undefined> {
    return this.#use(async connected => {
      const connection = working(connected)
      const meta = await readMeta(connection)
      if (!meta) return undefined
      const stats: StoreStats = {
        form: isKnown(meta) ? Math.min(meta.form, newestForm) : meta.form,
        newest: newestForm,
        sizeBytes: meta.size,
        walBytes: 0,
        messages: 0,
        asked: 0,
        outbox: { sends: 0, messages: 0, users: 0 },
        suspects: new Map(),
        backups: {},
      }
      return isKnown(meta) ? { ...stats, ...(await readContents(connection)) } : stats
    })
  }

  readNames(): Promise<KnownNames> {
    return this.#read({ users: [], webhooks: [], keys: [] }, async connection => {
      const [users, webhooks, keys] = await connection.script([
        sql`SELECT DISTINCT n.name, s.name AS session FROM user_name n JOIN session s ON s.key = n.session ORDER BY 1, 2`,
        sql`SELECT id, url FROM webhook ORDER BY created_at`,
        sql`SELECT id, name FROM access_key WHERE revoked_at IS NULL ORDER BY created_at`,
      ])
      return { users, webhooks, keys } as unknown as KnownNames
    })
  }

  readSecrets(): Promise<SecretState> {
    return this.#read<SecretState>({ key: null }, async connection => {
      const { secret_key } = await connection.one<{ secret_key?: string }>(sql`SELECT secret_key FROM meta`)
      return { key: secret_key ?? null }
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
  const error = faultError(faults)
  if (error) throw error
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

function inspectedOf(row: AccountRow, lanes: readonly ContextRow[]): InspectedSession {
  const record = recordOf(row, untouched)
  const bot = record?.bot
  const trouble = record?.unreadable && ({ kind: 'unreadable', error: record.unreadable } as const)
  return {
    name: row.name,
    isDefault: row.chosen,
    status: bot ? loginStatusOf(bot) : 'disconnected',
    ...(bot && { bot }),
    ...(trouble && { trouble }),
    contexts: 'read',
    users: new Map(lanes.map(lane => [lane.peer, contextOf(lane)])),
  }
}

async function readContents(connection: PgConnection): Promise<Partial<StoreStats>> {
  const now = Date.now()
  const [[counts], suspects, webhooks, [newest], [failure], agents] = (await connection.script([
    // The ids have no gaps, but for those of a standby that took over: they jump ahead.
    sql`SELECT (SELECT greatest(0, reltuples)::bigint FROM pg_class WHERE oid = 'message'::regclass) AS estimated,
      (SELECT count(*) FROM (SELECT FROM message WHERE session > ${erasedSession} LIMIT ${countedMessages}) m) AS counted,
      p.*, (SELECT count(DISTINCT entry) FROM outbox_part WHERE status = 'asked') AS asked
      FROM (SELECT count(*) AS messages, count(DISTINCT part.entry) AS sends, count(DISTINCT part.lane) AS users,
          min(o.created_at) AS "oldestAt", min(o.expires_at) AS "firstExpiryAt"
        FROM outbox_part part JOIN outbox o ON o.id = part.entry
        WHERE part.status = 'queued' AND part.message IS NOT NULL) p`,
    sql`SELECT s.name, count(*) AS messages FROM message m JOIN session s ON s.key = m.session
      WHERE m.status = 'suspect' AND m.timestamp >= ${now - suspectSpanMs} GROUP BY s.name`,
    sql`SELECT id, CASE WHEN disabled IS NULL THEN 'failing' ELSE 'disabled' END AS status,
      coalesce(disabled, last_error, '') AS why, CASE WHEN disabled IS NULL THEN failing_since ELSE disabled_at END AS since
      FROM webhook WHERE disabled IS NOT NULL OR (paused = 0 AND failing_since < ${now - failingMs}) ORDER BY created_at`,
    sql`SELECT path, created_at, size, took_ms FROM backup ORDER BY created_at DESC, path LIMIT 1`,
    sql`SELECT at, error FROM backup_failure ORDER BY at DESC LIMIT 1`,
    sql`SELECT agent FROM agent_conversation WHERE session = 0 ORDER BY agent`,
  ])) as [
    [StoreStats['outbox'] & { estimated: number; counted: number; asked: number }],
    { name: string; messages: number }[],
    WebhookProblem[],
    [StoreStats['backups']['newest']],
    [StoreStats['backups']['failure']],
    { agent: string }[],
  ]
  const { asked, counted, estimated, ...outbox } = counts
  return {
    agents: agents.map(({ agent }) => agent),
    messages: counted < countedMessages ? counted : Math.max(counted, estimated),
    asked,
    outbox,
    suspects: new Map(suspects.map(({ name, messages }) => [name, messages])),
    ...(webhooks.length > 0 && { webhooks }),
    backups: { ...(newest && { newest }), ...(failure && { failure }) },
  }
}

/** More messages than this are estimated, since the database would read them all. */
const countedMessages = 100_000

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
  return { nodes: await listNodes(connection), replication: await readReplication(connection), ...state }
}
