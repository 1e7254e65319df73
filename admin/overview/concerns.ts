/**
 * The problems to show, from the state of the service, the worst first. Pure functions: tests need no page.
 */

import type { Question } from '../answers.ts'
import type { Answer, Conversation, OutboxEntry, SessionWithUsers, Status } from '../api.ts'
import { healthOf } from '../sessions/health.ts'
import { isFailed, talkKey, waitsSince } from '../talks.ts'
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
  /** Agents ask before they do something. `until`: Unix ms */
  | { kind: 'questions'; count: number; until: number }
  /** The last message to a user failed. */
  | { kind: 'failed'; conversation: Conversation }
  /** A user waits for an answer. `since`: Unix ms */
  | { kind: 'waiting'; conversation: Conversation; since: number }
  /** A user waits for an answer, and the reply window closes soon. */
  | { kind: 'closing'; conversation: Conversation; closesAt: number }
  /** The last backup by schedule failed, or the newest one is old. */
  | { kind: 'backup'; backups: Answer<'get_backups'> }
  /** Sends of agents that wait for a person's approval. */
  | { kind: 'approvals'; entries: readonly OutboxEntry[] }
  /** Other sends that wait. */
  | { kind: 'outbox'; entries: readonly OutboxEntry[] }

export interface Snapshot {
  status: Status
  sessions: readonly SessionWithUsers[]
  conversations: readonly Conversation[]
  outbox: readonly OutboxEntry[]
  questions: readonly Question[]
  webhooks: readonly WebhookEndpoint[]
  backups?: Answer<'get_backups'>
  /** Unix ms. */
  now: number
}

/** Warn when a reply window closes within this time. */
const closingMs = 3 * 60 * 60_000
/** A user who wrote less than this ago does not wait yet. */
const waitingMs = 5 * 60_000

/** Whether a person can do something about it now. */
export const isToDo = ({ kind }: Concern): boolean => kind !== 'suspect' && kind !== 'outbox'

const isInTrouble = ({ failure, newest, every_ms }: Answer<'get_backups'>, now: number): boolean =>
  failure !== undefined || (newest && every_ms ? now - newest.created_at > 2 * every_ms : false)

/** Returns all problems, the most urgent first. */
export function concernsOf(snapshot: Snapshot): Concern[] {
  const { outbox } = snapshot
  const queued = outbox.filter(({ waits_for }) => waits_for !== 'approval')
  return [
    ...ofService(snapshot),
    ...ofPeople(snapshot),
    ...ofAccounts(snapshot),
    ...ofPrograms(snapshot),
    ...(queued.length > 0 ? [{ kind: 'outbox' as const, entries: queued }] : []),
  ]
}

/** What stops everything. */
function ofService({ status }: Snapshot): Concern[] {
  const found: Concern[] = []
  if (status.store === 'unavailable') found.push({ kind: 'store', path: status.base_path })
  if (status.stalled) {
    found.push({ kind: 'stalled', ...(status.poller_pid !== undefined && { pid: status.poller_pid }) })
  }
  if (status.failing_tasks.length > 0) found.push({ kind: 'tasks', tasks: status.failing_tasks })
  return found
}

/** Who waits for this person: agents, drafts, and contacts. */
function ofPeople({ conversations, now, outbox, questions, sessions }: Snapshot): Concern[] {
  const found: Concern[] = []
  const open = questions.filter(({ expires_at }) => expires_at > now)
  const until = Math.min(...open.map(({ expires_at }) => expires_at))
  if (open.length > 0) found.push({ kind: 'questions', count: open.length, until })
  const asked = outbox.filter(({ waits_for }) => waits_for === 'approval')
  if (asked.length > 0) found.push({ kind: 'approvals', entries: asked })
  const drafted = new Set(asked.map(({ session, to_user }) => talkKey(session, to_user)))
  const rest = conversations.filter(({ session, user_id }) => !drafted.has(talkKey(session, user_id)))
  for (const conversation of rest)
    if (isFailed(conversation.last_message)) found.push({ kind: 'failed', conversation })
  const users = new Map(
    sessions
      .filter(({ connected }) => connected)
      .flatMap(({ name, users: all }) => all.map(user => [talkKey(name, user.user_id), user])),
  )
  const waiting = rest.flatMap(conversation => {
    const { remaining = 0, session, user_id, window_expires_at: closesAt = 0 } = conversation
    const user = users.get(talkKey(session, user_id))
    const since = user && waitsSince(conversation, user)
    const mayAnswer = remaining > 0 && closesAt > now
    return since !== undefined && mayAnswer ? [{ conversation, closesAt, since }] : []
  })
  const closing = waiting.filter(({ closesAt }) => closesAt - now <= closingMs)
  for (const { closesAt, conversation } of closing.sort((one, other) => one.closesAt - other.closesAt))
    found.push({ kind: 'closing', conversation, closesAt })
  const long = waiting.filter(({ closesAt, since }) => closesAt - now > closingMs && now - since >= waitingMs)
  for (const { conversation, since } of long.sort((one, other) => one.since - other.since))
    found.push({ kind: 'waiting', conversation, since })
  return found
}

function ofAccounts({ now, sessions, status }: Snapshot): Concern[] {
  const found: Concern[] = []
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
  return found
}

function ofPrograms({ backups, now, webhooks }: Snapshot): Concern[] {
  const found: Concern[] = []
  for (const endpoint of webhooks) {
    const { status: state } = endpoint
    if (state === 'failing' || state === 'disabled') found.push({ kind: 'webhook', endpoint, status: state })
  }
  if (backups && isInTrouble(backups, now)) found.push({ kind: 'backup', backups })
  return found
}

/** Returns the matters: concerns of one kind together, in the order in which their first ones come. */
export function mattersOf(concerns: readonly Concern[]): Concern[][] {
  // A damaged account needs the same as an expired one.
  const matters = Map.groupBy(concerns, ({ kind }) => (kind === 'damaged' ? 'expired' : kind))
  return [...matters.values()]
}
