/**
 * The problems to show, from the state of the service, the worst first. Pure functions: tests need no page.
 */
import type { Answer, Conversation, OutboxEntry, SessionWithUsers, Status } from '../api.ts'
import { healthOf } from '../sessions/health.ts'
import type { WebhookEndpoint } from '../webhooks/endpoints.ts'

export type Concern =
  | { kind: 'store'; path: string }
  /** Another process holds the polling role and does not respond. */
  | { kind: 'stalled'; pid?: number }
  /** Work in the background fails: some is not done. */
  | { kind: 'tasks'; tasks: Status['failing_tasks'] }
  | { kind: 'expired' | 'damaged' | 'lapsed'; session: string }
  /** A login is under way. */
  | { kind: 'pending'; session: string }
  /** The receiver of a webhook accepts no events. */
  | { kind: 'webhook'; endpoint: WebhookEndpoint; status: 'failing' | 'disabled' }
  /** Accounts are connected, but WeChat has not answered for long, or polls fail. */
  | { kind: 'silent'; sessions: readonly SessionWithUsers[] }
  /** WeChat may have muted the account. `since`: Unix ms */
  | { kind: 'muted'; session: string; since: number; because: NonNullable<SessionWithUsers['muted_because']> }
  /** WeChat accepted messages of the last day without giving them an id. */
  | { kind: 'suspect'; session: string; count: number }
  /** A user waits for an answer, and the reply window closes soon. */
  | { kind: 'closing'; conversation: Conversation; closesAt: number }
  /** The last backup by schedule failed, or the newest one is old. */
  | { kind: 'backup'; backups: Answer<'backups'> }
  /** Sends of agents that wait for a person's approval. */
  | { kind: 'approvals'; entries: readonly OutboxEntry[] }
  /** Other sends that wait. */
  | { kind: 'outbox'; entries: readonly OutboxEntry[] }

export interface Snapshot {
  status: Status
  sessions: readonly SessionWithUsers[]
  conversations: readonly Conversation[]
  outbox: readonly OutboxEntry[]
  webhooks: readonly WebhookEndpoint[]
  backups?: Answer<'backups'>
  /** Unix ms. */
  now: number
}

/** Warn when a reply window closes within this time. */
const closingMs = 3 * 60 * 60_000

/** Whether a person can do something about it now. */
export const isToDo = ({ kind }: Concern): boolean => kind !== 'suspect' && kind !== 'outbox'

const isInTrouble = ({ failure, newest, every_ms }: Answer<'backups'>, now: number): boolean =>
  failure !== undefined || (newest && every_ms ? now - newest.created_at > 2 * every_ms : false)

/** Returns all problems, the worst first. */
export function concernsOf(snapshot: Snapshot): Concern[] {
  const { status, sessions, conversations, outbox, webhooks, backups, now } = snapshot
  const found: Concern[] = []
  const path = status.base_path
  if (status.store === 'unavailable') found.push({ kind: 'store', path })
  if (status.stalled) {
    found.push({ kind: 'stalled', ...(status.poller_pid !== undefined && { pid: status.poller_pid }) })
  }
  if (status.failing_tasks.length > 0) found.push({ kind: 'tasks', tasks: status.failing_tasks })
  for (const session of sessions) {
    const kind = healthOf(session, status, now)
    if (kind === 'expired' || kind === 'damaged' || kind === 'lapsed')
      found.push({ kind, session: session.name })
  }
  for (const session of sessions)
    if (healthOf(session, status, now) === 'pending') found.push({ kind: 'pending', session: session.name })
  const silent = sessions.filter(session => healthOf(session, status, now) === 'silent')
  if (silent.length > 0) found.push({ kind: 'silent', sessions: silent })
  for (const { name, muted_since: since, muted_because: because = 'no_ids' } of sessions)
    if (since !== undefined) found.push({ kind: 'muted', session: name, since, because })
  for (const { name, muted_since, suspect_count: count = 0 } of sessions)
    if (count > 0 && muted_since === undefined) found.push({ kind: 'suspect', session: name, count })
  for (const endpoint of webhooks) {
    const { status: state } = endpoint
    if (state === 'failing' || state === 'disabled') found.push({ kind: 'webhook', endpoint, status: state })
  }
  if (backups && isInTrouble(backups, now)) found.push({ kind: 'backup', backups })
  const asked = outbox.filter(({ waits_for }) => waits_for === 'approval')
  if (asked.length > 0) found.push({ kind: 'approvals', entries: asked })
  const connected = new Set(sessions.filter(one => one.connected).map(({ name }) => name))
  const closing = conversations.flatMap(conversation => {
    const { last_message, window_expires_at: closesAt, remaining = 0, session } = conversation
    const { user_id } = conversation
    if (asked.some(one => one.session === session && one.to_user === user_id)) return []
    const waits = last_message.direction === 'received' && remaining > 0 && connected.has(session)
    if (!waits || closesAt === undefined || closesAt <= now || closesAt - now > closingMs) return []
    return [{ kind: 'closing' as const, conversation, closesAt }]
  })
  found.push(...closing.sort((one, other) => one.closesAt - other.closesAt))
  const queued = outbox.filter(({ waits_for }) => waits_for !== 'approval')
  if (queued.length > 0) found.push({ kind: 'outbox', entries: queued })
  return found
}

/** Returns the matters: concerns of one kind together, in the order in which their first ones come. */
export function mattersOf(concerns: readonly Concern[]): Concern[][] {
  // A damaged account needs the same as an expired one.
  const matters = Map.groupBy(concerns, ({ kind }) => (kind === 'damaged' ? 'expired' : kind))
  return [...matters.values()]
}
