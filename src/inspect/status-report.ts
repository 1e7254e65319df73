/** A data directory at a glance, for `svc status`: who polls, which sessions are connected, what waits. */

import { dataFiles } from '../model/data-files.ts'
import { type MutedBecause, mutedOf } from '../model/session.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { Polling, SeenSession, WebhookTrouble } from '../storage/sight.ts'
import { newerStore } from './advised-commands.ts'
import { lookAtDirectory, sightOf } from './data-directory.ts'
import { notedAddresses } from './healthz.ts'

export interface SessionReport {
  name: string
  status: SeenSession['status']
  connected: boolean
  is_default: boolean
  /** Its files are there and the system refuses to show them: `trouble` says why. */
  unreadable?: true
  bot_id?: string
  user_id?: string
  /** Unix ms, like every time here. */
  created_at?: number
  expired_at?: number
  lapsed_at?: number
  /** Since when its polls fail, and what the last one failed of; while somebody polls. */
  failing_since?: number
  poll_error?: string
  user_count: number
  /** Messages of the last 24 h that may not have been shown, where there are any. */
  suspect_count?: number
  /** Since when WeChat may have muted the account. */
  muted_since?: number
  muted_because?: MutedBecause
}

export interface StatusReport {
  /** There is a session, every one is connected, and somebody polls with success. */
  ok: boolean
  version: string
  base_path: string
  /** Whether the directory is a sandbox's. */
  sandbox: boolean
  polling: {
    /** Whether some process polls; one that is stalled does not. */
    active: boolean
    /** A process holds the poll lock and shows no life. */
    stalled: boolean
    pid?: number
    since?: number
  }
  /** Where a service listens, the process that polls before others: `unix:<path>` of a socket. */
  service_url?: string
  /** The process that listens there. */
  service_pid?: number
  session_count: number
  connected_count: number
  /** The default one first, then the oldest first. */
  sessions: SessionReport[]
  /** Absent without a store, or when it cannot be read: then `trouble` says why. */
  store?: { messages: number; size_bytes: number }
  /** As `svc outbox` lists them, each of one or more messages. */
  outbox: { sends: number; messages: number; users: number; oldest_at?: number }
  /** Sends that wait for a person's yes, as `svc approvals` lists them. */
  approvals: number
  /** Webhooks that do not work, where there are any. */
  webhooks?: WebhookTrouble[]
  /** What could not be read. */
  trouble: string[]
}

/** Looks, takes no lock for longer than a moment, changes nothing; what cannot be read is told, not thrown. */
export async function readStatus(options: {
  basePath: string
  /** Whether svc is to use the directory with --sandbox. */
  sandbox?: boolean
  version: string
  clock?: Clock
}): Promise<StatusReport> {
  const { basePath, sandbox = false, version, clock = systemClock } = options
  const trouble: string[] = []
  const told = (what: string) => (error: unknown) => {
    trouble.push(`${what}: ${reasonOf(error)}`)
    return undefined
  }
  const directory = await lookAtDirectory(basePath, sandbox)
  if (directory.state === 'unreadable') told(basePath)(directory.error)
  const stored = sightOf(basePath)
  const [polling, sight, seen, noted] = await Promise.all([
    stored.polling(clock).catch(told(dataFiles.pollLock)),
    stored.sessions().catch(told('sessions')),
    stored.store().catch(told(dataFiles.store)),
    notedAddresses(basePath),
  ])
  if (seen && seen.form > seen.newest) trouble.push(newerStore(seen))
  // Of its messages nothing is known.
  const store = seen && seen.form > seen.newest ? undefined : seen
  const polls = polledBy(polling)
  const service = noted.find(({ pid }) => pid === polls.pid) ?? noted[0]
  const sessions = (sight?.sessions ?? []).map((session, at): SessionReport => {
    const { name, status, bot, users } = session
    const unreadable = session.trouble?.kind === 'unreadable'
    if (session.trouble?.kind === 'unreadable') told(name)(session.trouble.error)
    return {
      ...{ name, status, connected: status === 'connected' || status === 'lapsed', is_default: at === 0 },
      ...(unreadable && { unreadable }),
      ...{ bot_id: bot?.bot_id, created_at: bot?.created_at, user_id: bot?.user_id },
      ...{ expired_at: bot?.expired_at, lapsed_at: bot?.lapsed_at },
      ...(polls.active && { failing_since: bot?.failing_since, poll_error: bot?.poll_error }),
      user_count: users.size,
      suspect_count: store?.suspects.get(name),
      ...mutedOf(bot ?? {}),
    }
  })
  const connected = sessions.filter(session => session.connected).length
  const failing = sessions.some(session => session.failing_since !== undefined)
  const { sends = 0, messages = 0, users = 0, oldestAt } = store?.outbox ?? {}
  return {
    ok: polls.active && sessions.length > 0 && connected === sessions.length && !failing,
    ...{ version, base_path: basePath, sandbox: directory.isSandbox, polling: polls },
    ...(service && { service_url: service.url, service_pid: service.pid }),
    ...{ session_count: sessions.length, connected_count: connected, sessions },
    store: store && { messages: store.messages, size_bytes: store.sizeBytes + store.walBytes },
    outbox: { sends, messages, users, oldest_at: oldestAt },
    approvals: store?.asked ?? 0,
    ...(store?.webhooks && { webhooks: store.webhooks }),
    trouble,
  }
}

function polledBy(polling: Polling | undefined): StatusReport['polling'] {
  if (!polling?.held) return { active: false, stalled: false }
  const { stalled, pid, since } = polling
  return { active: !stalled, stalled, pid, since }
}
