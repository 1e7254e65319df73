/** Checks a store on PostgreSQL: the database, its standbys, and the nodes that share it. */
import { type Finding, type Found, finding, listFindings } from '../inspect/finding.ts'
import { SvcError } from '../model/error.ts'
import type { Replication } from '../model/nodes.ts'
import { formatBytes, formatCount, formatDuration, formatList } from '../platform/format.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { ClusterState } from '../storage/inspection.ts'
import { type DoctorContext, describeIdle } from './finding.ts'

/** Result of reading the cluster, or why it could not be read. */
export type ClusterReading = { state: ClusterState | undefined } | { error: unknown }

type Tables = NonNullable<ClusterState['tables']>

/** A clock that differs by more makes answer windows and expiries differ between nodes. */
const clockWarnMs = 2000
/** A standby that is farther behind delays what waits for it, and loses more when it takes over. */
const lagWarnMs = 5000
/** Connections that a node opens: for statements, barriers, its lease and notifications. */
const connectionsPerNode = 11
/** Messages that the search index may lack for a moment. */
const unindexedWarn = 20_000
/** Rows that a busy moment leaves unconfirmed. */
const unconfirmedWarn = 5000

/** Reports the state of the cluster; nothing if the store is in a data directory. */
export function examineCluster(context: DoctorContext, reading: ClusterReading): Found {
  if ('error' in reading) return describeFailure(reading.error)
  const { state } = reading
  if (!state) return undefined
  const found = [
    checkServer(state),
    checkClock(state),
    checkConnections(state),
    state.transactions.map(describeTransaction),
  ]
  const { faults, tables } = state
  if (faults.length > 0) return found
  if (!tables) return [found, finding.note('tables', 'there are no tables of svc yet', 'svc openapi')]
  return [found, checkReplication(tables.replication), checkNodes(tables, context), checkProgress(tables)]
}

function describeFailure(error: unknown): Finding {
  const fix = error instanceof SvcError ? error.hint : 'Check the address in --store-url-file.'
  return finding.error('database', reasonOf(error), fix)
}

function checkServer({ address, faults, fullPageWrites, sizeBytes, version }: ClusterState): Found {
  const found = listFindings(
    faults.map(({ check, fix, problem }) => finding.error(check, problem, fix)),
    !fullPageWrites &&
      finding.warning(
        'fsync',
        'full_page_writes is off: a crash may damage data, unless the file system writes whole pages',
        'Set full_page_writes = on.',
      ),
  )
  return found.length > 0
    ? found
    : finding.ok('database', `PostgreSQL ${version} at ${address}, ${formatBytes(sizeBytes)}`)
}

function checkClock({ clockOffsetMs }: ClusterState): Finding {
  const size = Math.abs(clockOffsetMs)
  if (size < clockWarnMs) return finding.ok('clock', 'this clock agrees with the database’s')
  return finding.warning(
    'clock',
    `the clock of the database is ${formatDuration(size)} ${clockOffsetMs > 0 ? 'ahead of' : 'behind'} this machine’s`,
    'Let all machines of the cluster follow one time server.',
  )
}

function checkConnections({ connections, mostConnections }: ClusterState): Finding {
  const left = mostConnections - connections
  const what = `${connections} of ${mostConnections} connections of the database are used`
  return left < connectionsPerNode
    ? finding.warning(
        'connections',
        `${what}: too few are left for another node`,
        `Raise max_connections: a node takes up to ${connectionsPerNode}.`,
      )
    : finding.ok('connections', what)
}

function describeTransaction(transaction: ClusterState['transactions'][number]): Finding {
  const { ageMs, blocksMs, name, pid, role, state } = transaction
  const who = `process ${pid} of the database (${[name || 'without a name', `role ${role}`].join(', ')})`
  const fix = `If it should not go on: SELECT pg_terminate_backend(${pid})`
  const age = ageMs === undefined ? '' : ` for ${formatDuration(ageMs)}`
  if (blocksMs !== undefined)
    return finding.error(
      'blocked',
      `${who} has held a lock that others wait for, for ${formatDuration(blocksMs)}`,
      fix,
    )
  return finding.warning(
    'transaction',
    `${who} has a transaction open${age}${state ? `, ${state}` : ''}: dead rows cannot be removed`,
    fix,
  )
}

function checkReplication({ can_read, standbys, synchronous_standby_names: names }: Replication): Found {
  const listed = standbys.map(({ lag_ms, name, state, sync_state }) =>
    [
      name || 'a standby',
      state,
      sync_state,
      lag_ms === undefined ? undefined : `${formatDuration(lag_ms)} behind`,
    ]
      .filter(part => part !== undefined)
      .join(' '),
  )
  const hasSynchronous = standbys.some(({ sync_state }) => sync_state === 'sync' || sync_state === 'quorum')
  const isLate = standbys.some(({ lag_ms = 0 }) => lag_ms > lagWarnMs)
  return [
    names === ''
      ? finding.warning(
          'synchronous',
          'synchronous_standby_names is empty, so no commit waits for a standby: if the primary is lost, the last messages that svc confirmed are lost with it, and a send may be repeated',
          'Name a standby in synchronous_standby_names. It is not needed if the storage itself is replicated synchronously, as some providers do.',
        )
      : can_read && !hasSynchronous
        ? finding.error(
            'synchronous',
            `commits wait for a standby (${names}), and none is connected: svc can store nothing`,
            'Start the standby again, or correct synchronous_standby_names.',
          )
        : finding.ok('synchronous', `commits wait for a standby: ${names}`),
    isLate
      ? finding.warning(
          'standbys',
          `a standby is late: ${formatList(listed)}`,
          'Check its disk and its network; a failover to it loses what it lacks.',
        )
      : listed.length > 0 && finding.ok('standbys', formatList(listed)),
    !can_read &&
      finding.note(
        'standbys',
        'the role of svc may not see how far standbys are',
        'GRANT pg_read_all_stats TO the role of svc, if doctor should see it.',
      ),
  ]
}

function checkNodes({ differences, nodes, unpolled }: Tables, context: DoctorContext): Found {
  const living = nodes.filter(({ lease_left_ms }) => lease_left_ms > 0)
  const polling = living.filter(({ polls }) => polls)
  return [
    polling.map(({ accounts, name, url, version }) =>
      finding.ok(
        'node',
        `${name} polls ${formatCount(accounts, 'session')}, svc ${version}${url === undefined ? '' : `, ${url}`}`,
      ),
    ),
    nodes
      .filter(node => !living.includes(node))
      .map(({ lease_left_ms, name }) =>
        finding.warning(
          'node',
          `${name} has not answered for ${formatDuration(-lease_left_ms)}: it died, or cannot reach the database`,
          'Look at its log. The others poll its sessions, and soon forget it.',
        ),
      ),
    polling.length === 0
      ? describeIdle(context, { check: 'node', severity: 'error', what: 'no node polls' })
      : unpolled > 0 &&
        finding.warning(
          'accounts',
          `no node polls ${formatCount(unpolled, 'session')} at this moment`,
          'After a change of nodes this takes up to ten seconds. If it lasts, read the logs of the nodes.',
        ),
    polling.length === 1 &&
      finding.note('node', 'if this only node dies, nothing is received', 'Start a second one.'),
    // Nodes of two versions work together during an upgrade.
    differences.map(({ check, fix, problem }) =>
      (check === 'versions' ? finding.note : finding.warning)(check, problem, fix),
    ),
  ]
}

function checkProgress({ moved_to, replication, unindexed }: Tables): Found {
  const { unconfirmed_rows } = replication
  return [
    moved_to !== undefined &&
      finding.error(
        'moved',
        `the store was moved to ${moved_to}`,
        'Use the store there. This one no longer changes.',
      ),
    unconfirmed_rows > unconfirmedWarn
      ? finding.warning(
          'durable',
          `${formatCount(unconfirmed_rows, 'message')} are stored and not yet known to be durable: readers wait for them`,
          'Commits are slow: check the disk of the database, and its synchronous standby.',
        )
      : finding.ok('durable', 'readers see everything that is stored'),
    unindexed > unindexedWarn
      ? finding.warning(
          'search',
          `the search index lacks ${unindexed >= 100_000 ? '100,000 messages or more' : formatCount(unindexed, 'message')}: searches are slow`,
          'Nodes add them in the background. If the number grows, read their logs.',
        )
      : finding.ok('search', 'the search index is up to date'),
  ]
}
