/** Summary of a data directory for `svc status`: who polls, which sessions are connected, what waits. */

import { listNotes } from '../config/notes.ts'
import { dataFiles } from '../model/data-files.ts'
import type { NodeInfo } from '../model/nodes.ts'
import { isConnected, mutedOf, type Session } from '../model/session.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { FailingTask } from '../platform/tasks.ts'
import type { BackupFailure, KnownBackup } from '../storage/backups.ts'
import type { InspectedSession, Polling, StoreStats, WebhookProblem } from '../storage/inspection.ts'
import { explainOtherForm } from './advised-commands.ts'
import {
  explainMark,
  explainUnusable,
  inspectDirectory,
  openInspection,
  readClosedMark,
} from './data-directory.ts'

interface SessionReport extends Omit<Session, 'last_poll_at' | 'poll_error_code' | 'poll_error_quote'> {
  /** Its files exist, but the system denies reading them; `trouble` gives the reason. */
  unreadable?: true
  /** Unix ms, like all times here. `failing_since` and `poll_error` only while a process polls. */
  expired_at?: number
  lapsed_at?: number
}

export interface StatusReport {
  /** True if there are sessions, all are connected, and a process polls without errors. */
  ok: boolean
  version: string
  base_path: string
  /** Address of the database, and the nodes that share it; absent if the store is in the data directory. */
  cluster?: { address: string; nodes: NodeInfo[] }
  /** True if the store could not be read, is elsewhere, or is incomplete; `trouble` says why. What else the report has of it does not count. */
  unread?: true
  /** True if it is a sandbox's directory. */
  sandbox: boolean
  polling: {
    /** True if a process polls; false if it is stalled. */
    active: boolean
    /** True if a process holds the poll lock but shows no activity. */
    stalled: boolean
    pid?: number
    since?: number
  }
  /** URL of a service, preferably of the polling process; `unix:<path>` for a socket. */
  service_url?: string
  /** Process id of that service. */
  service_pid?: number
  session_count: number
  connected_count: number
  /** Default session first, then the oldest first. */
  sessions: SessionReport[]
  /** Absent without a store, or if it cannot be read; `trouble` gives the reason then. */
  store?: { messages: number; size_bytes: number }
  /** Queued sends as `svc outbox` lists them; a send has one or more messages. */
  outbox: { sends: number; messages: number; users: number; oldest_at?: number }
  /** Number of sends that wait for a person's approval, as `svc approvals` lists them. */
  approvals: number
  /** Number of sends that wait for their time; `svc outbox` lists them. */
  planned: number
  /** Work in the background that fails, of all processes of this machine; absent if there is none. */
  failing_tasks?: readonly FailingTask[]
  /** Webhooks that fail; absent if there are none. */
  webhooks?: WebhookProblem[]
  /** The newest backup; absent if none was made. */
  backup?: KnownBackup
  /** Only while the last backup by schedule failed. */
  backup_failure?: BackupFailure
  /** What could not be read, and why. */
  trouble: string[]
}

/**
 * Reads the status. Holds locks only briefly, changes nothing, and reports unreadable parts instead of
 * throwing.
 */
export async function readStatus(options: {
  basePath: string
  /** Address of a store on PostgreSQL. */
  storeUrl?: string | undefined
  /** True if svc runs with --sandbox. */
  sandbox?: boolean
  version: string
  clock?: Clock
}): Promise<StatusReport> {
  const { basePath, sandbox = false, storeUrl, version, clock = systemClock } = options
  const trouble: string[] = []
  const report = (what: string) => (error: unknown) => {
    trouble.push(`${what}: ${reasonOf(error)}`)
    return undefined
  }
  const directory = await inspectDirectory(basePath, sandbox)
  const unusable = explainUnusable(directory)
  if (unusable !== undefined) trouble.push(`${basePath}: ${unusable}`)
  const mark = storeUrl === undefined ? await readClosedMark(basePath).catch(() => undefined) : undefined
  if (mark) trouble.push(explainMark(basePath, mark).problem)
  const stored = await openInspection({ basePath, storeUrl })
  const [polling, inspected, stats, cluster, noted] = await Promise.all([
    stored.checkPolling(clock).catch(storeUrl === undefined ? report(dataFiles.pollLock) : () => undefined),
    stored.listSessions().catch(storeUrl === undefined ? report('sessions') : () => undefined),
    stored.readStoreStats().catch(report(storeUrl === undefined ? dataFiles.store : 'store')),
    stored.readCluster(clock).catch(() => undefined),
    listNotes(basePath),
  ])
  const other = stats && explainOtherForm(stats, storeUrl === undefined ? basePath : undefined)
  if (other) trouble.push(other.what)
  const movedTo = cluster?.tables?.moved_to
  if (movedTo !== undefined) trouble.push(`the store was moved to ${movedTo}`)
  const unread =
    (storeUrl === undefined && unusable !== undefined) ||
    mark !== undefined ||
    movedTo !== undefined ||
    (storeUrl !== undefined && inspected === undefined)
  const store = other ? undefined : stats
  const polls = pollingOf(polling)
  const served = noted.filter(({ url }) => url !== '')
  const service = served.find(({ pid }) => pid === polls.pid) ?? served[0]
  const failingTasks = noted.flatMap(({ failing_tasks = [] }) => failing_tasks)
  const found = inspected?.sessions ?? []
  for (const { name, trouble } of found) if (trouble?.kind === 'unreadable') report(name)(trouble.error)
  const sessions = found.map((session, at) => ({
    ...describeSession(session, polling, store),
    is_default: at === 0,
  }))
  const connected = sessions.filter(session => session.connected).length
  const failing = sessions.some(session => session.failing_since !== undefined)
  const { sends = 0, messages = 0, users = 0, oldestAt } = store?.outbox ?? {}
  return {
    ok: !unread && polls.active && sessions.length > 0 && connected === sessions.length && !failing,
    version,
    base_path: basePath,
    ...(cluster && { cluster: { address: cluster.address, nodes: cluster.tables?.nodes ?? [] } }),
    ...(unread && { unread: true }),
    sandbox: directory.isSandbox,
    polling: polls,
    ...(service && { service_url: service.url, service_pid: service.pid }),
    session_count: sessions.length,
    connected_count: connected,
    sessions,
    store: store && { messages: store.messages, size_bytes: store.sizeBytes + store.walBytes },
    outbox: { sends, messages, users, oldest_at: oldestAt },
    approvals: store?.asked ?? 0,
    planned: store?.planned ?? 0,
    ...(failingTasks.length > 0 && { failing_tasks: failingTasks }),
    ...(store?.webhooks && { webhooks: store.webhooks }),
    backup: store?.backups.newest,
    backup_failure: store?.backups.failure,
    trouble,
  }
}

/** A session, but for whether it is the default one. */
export type DescribedSession = Omit<SessionReport, 'is_default'>

export function describeSession(
  { bot, name, status, trouble, users }: InspectedSession,
  polling: Polling | undefined,
  store: StoreStats | undefined,
): DescribedSession {
  return {
    name,
    status,
    connected: isConnected(status),
    ...(trouble?.kind === 'unreadable' && { unreadable: true }),
    bot_id: bot?.bot_id,
    created_at: bot?.created_at,
    user_id: bot?.user_id,
    expired_at: bot?.expired_at,
    lapsed_at: bot?.lapsed_at,
    ...(pollingOf(polling).active && { failing_since: bot?.failing_since, poll_error: bot?.poll_error }),
    user_count: users.size,
    suspect_count: store?.suspects.get(name),
    ...mutedOf(bot ?? {}),
  }
}

function pollingOf(polling: Polling | undefined): StatusReport['polling'] {
  if (!polling?.held) return { active: false, stalled: false }
  const { stalled, pid, since } = polling
  return { active: !stalled, stalled, pid, since }
}
