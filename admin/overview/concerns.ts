/** What is not well, judged from what the service says: the worst first. Pure, so that it can be tried without a page. */
import type { Conversation, OutboxEntry, SessionWithUsers, Status } from '../api.ts'

export type Concern =
  | { kind: 'store'; path: string }
  /** Another process keeps polling to itself and shows no life. */
  | { kind: 'stalled'; pid?: number }
  | { kind: 'expired' | 'damaged' | 'lapsed'; session: string }
  /** Connected, and WeChat has not answered for long, or polls fail: the last one of `error`. */
  | { kind: 'silent'; sessions: readonly string[]; since?: number; path: string; error?: string }
  /** WeChat took messages of the last day and gave them no id. */
  | { kind: 'suspect'; session: string; count: number }
  /** Somebody waits, and soon nobody may answer. */
  | { kind: 'closing'; conversation: Conversation; closesAt: number }
  | { kind: 'outbox'; entries: readonly OutboxEntry[] }

export interface Sight {
  status: Status
  sessions: readonly SessionWithUsers[]
  conversations: readonly Conversation[]
  outbox: readonly OutboxEntry[]
  /** Unix ms. */
  now: number
}

/** A poll is answered within 40 s, whether there is something or not; some misses in a row are no news yet. */
export const silentMs = 3 * 60_000
/** A window that closes within this is worth a word. */
const closingMs = 3 * 60 * 60_000

/** Connected accounts that WeChat has not answered for long. Of what another process polls, only failures are known here. */
export function silentOnes({ status, sessions, now }: Omit<Sight, 'conversations' | 'outbox'>) {
  const isKnown = status.role === 'poller' && now - status.started_at >= silentMs
  return sessions.filter(
    ({ connected, failing_since, last_poll_at, created_at }) =>
      connected &&
      (failing_since !== undefined ||
        (isKnown && now - Math.max(last_poll_at ?? status.started_at, created_at ?? 0) > silentMs)),
  )
}

/** Everything worth attention. */
export function concernsOf(sight: Sight): Concern[] {
  const { status, sessions, conversations, outbox, now } = sight
  const found: Concern[] = []
  const path = status.base_path
  if (status.store === 'unavailable') found.push({ kind: 'store', path })
  if (status.stalled) {
    found.push({ kind: 'stalled', ...(status.poller_pid !== undefined && { pid: status.poller_pid }) })
  }
  for (const { name, status: state } of sessions) {
    if (state === 'expired') found.push({ kind: 'expired', session: name })
    if (state === 'disconnected') found.push({ kind: 'damaged', session: name })
    if (state === 'lapsed') found.push({ kind: 'lapsed', session: name })
  }
  const silent = silentOnes(sight)
  if (silent.length > 0) {
    const error = silent.find(({ poll_error }) => poll_error !== undefined)?.poll_error
    const polls = silent.flatMap(({ last_poll_at }) => (last_poll_at === undefined ? [] : [last_poll_at]))
    found.push({
      kind: 'silent',
      path,
      sessions: silent.map(({ name }) => name),
      ...(polls.length > 0 && { since: Math.max(...polls) }),
      ...(error !== undefined && { error }),
    })
  }
  for (const { name, suspect_count: count = 0 } of sessions)
    if (count > 0) found.push({ kind: 'suspect', session: name, count })
  const connected = new Set(sessions.filter(one => one.connected).map(({ name }) => name))
  const closing = conversations.flatMap(conversation => {
    const { last_message, window_expires_at: closesAt, remaining = 0, session } = conversation
    const waits = last_message.direction === 'received' && remaining > 0 && connected.has(session)
    if (!waits || closesAt === undefined || closesAt <= now || closesAt - now > closingMs) return []
    return [{ kind: 'closing' as const, conversation, closesAt }]
  })
  found.push(...closing.sort((one, other) => one.closesAt - other.closesAt))
  if (outbox.length > 0) found.push({ kind: 'outbox', entries: outbox })
  return found
}

/** Whether an account needs somebody, is on its way, or is well. */
export type Wellness = 'bad' | 'silent' | 'lapsed' | 'pending' | 'well'

export function wellnessOf({ status }: SessionWithUsers, isSilent: boolean): Wellness {
  if (status === 'expired' || status === 'disconnected') return 'bad'
  if (status === 'logging_in') return 'pending'
  if (status === 'lapsed') return 'lapsed'
  return isSilent ? 'silent' : 'well'
}
