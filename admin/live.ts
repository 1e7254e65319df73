/** What the service says as it happens, as signals that the pages read. */
import { batch, computed, signal } from '@preact/signals'
import type { ReadBody } from '../src/server/admin/bodies.ts'
import {
  ApiError,
  api,
  type Conversation,
  type KnownUser,
  type Message,
  type SessionWithUsers,
  type Status,
} from './api.ts'
import { start } from './i18n.ts'
import { heardTime } from './times.ts'
import { set } from './ui/set.ts'

export const status = signal<Status | undefined>(undefined)
export const sessions = signal<readonly SessionWithUsers[] | undefined>(undefined)
export const conversations = signal<readonly Conversation[] | undefined>(undefined)
/** Whether the service is heard right now. */
export const online = signal(true)
/** Signing in is needed first. */
export const signedOut = signal(start.signed_out)

/** Unread messages of all conversations; 99 at most are counted of each. */
export const unread = computed(() =>
  (conversations.value ?? []).reduce((sum, { unread: count }) => sum + count, 0),
)

const listeners = new Set<(message: Message) => void>()

/** Calls `listener` for each message as it is stored or settled. @returns how to stop that */
export function onMessage(listener: (message: Message) => void): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

export const peerOf = (message: Message): string =>
  message.direction === 'received' ? message.from_user : message.to_user

/** A conversation by its two ends. */
export const conversationOf = (session: string, userId: string): Conversation | undefined =>
  conversations.value?.find(one => one.session === session && one.user_id === userId)

/** What people call the users, by session and id; of accounts that are logged out as their messages say. */
const names = computed(() => {
  const known = new Map<string, string | undefined>()
  for (const { session, user_id, last_message } of conversations.value ?? [])
    known.set(`${session}\n${user_id}`, last_message.user_name)
  for (const { name: session, users } of sessions.value ?? [])
    for (const { user_id, name } of users) known.set(`${session}\n${user_id}`, name)
  return known
})

export const nameOf = (session: string, userId: string): string | undefined =>
  names.value.get(`${session}\n${userId}`)

/** Somebody was named here: shown before the service tells of it. */
export function named({ session, user_id, name }: KnownUser): void {
  const withName = <T extends object, K extends string>(one: T, key: K): T => {
    const { [key as never]: _, ...rest } = one as T & Record<K, string>
    return { ...rest, ...(name !== undefined && { [key]: name }) } as T
  }
  batch(() => {
    sessions.value = sessions.value?.map(one =>
      one.name === session
        ? { ...one, users: one.users.map(user => (user.user_id === user_id ? withName(user, 'name') : user)) }
        : one,
    )
    conversations.value = conversations.value?.map(one =>
      one.session === session && one.user_id === user_id
        ? { ...one, last_message: withName(one.last_message, 'user_name') }
        : one,
    )
  })
}

/** Events since each question that has no answer yet. */
const unanswered = new Set<(() => void)[]>()

/** Takes in an event. */
function happened(take: () => void): void {
  for (const events of unanswered) events.push(take)
  take()
}

/** Takes in an answer, and once more the events since it was asked for: it may be older than they. */
export async function answered<T>(asked: Promise<T>, take: (answer: T) => void): Promise<T> {
  const events: (() => void)[] = []
  unanswered.add(events)
  try {
    const answer = await asked
    batch(() => {
      take(answer)
      for (const again of events) again()
    })
    return answer
  } finally {
    unanswered.delete(events)
  }
}

/** An answer that takes longer got lost: the next one must not wait for it. */
const answerMs = 20_000
/** The question that is under way, and the one after it, for all who asked meanwhile. */
let asking: Promise<void> | undefined
let asksAgain: Promise<void> | undefined

/**
 * Loads everything anew. One question at a time: whoever asks during one waits for the next, whose answer is newer than
 * what made them ask. So answers never cross, and a flood of events makes no flood of questions.
 */
export function refresh(): Promise<void> {
  if (!asking) {
    asking = load().finally(() => {
      asking = undefined
    })
    return asking
  }
  asksAgain ??= asking
    .catch(() => {})
    .then(() => {
      asksAgain = undefined
      return refresh()
    })
  return asksAgain
}

/** The conversations in full, unless the store fails: the rest is there all the same. */
async function load(): Promise<void> {
  const givenUp = AbortSignal.timeout(answerMs)
  const talks = api.conversations(givenUp).then(
    answer => answer.conversations,
    error => {
      if (error instanceof ApiError && error.code === 'store_unavailable') return conversations.value ?? []
      throw error
    },
  )
  const all = Promise.all([api.status(givenUp), api.sessions(givenUp), talks])
  await answered(all, ([newStatus, { sessions: newSessions }, newConversations]) => {
    status.value = newStatus
    sessions.value = newSessions
    conversations.value = newConversations
    signedOut.value = false
    online.value = true
  })
}

/** The accounts as they are now. Where one is gone or has another name, the conversations still say the old one. */
export function accountsAre(all: readonly SessionWithUsers[]): void {
  const there = new Set(all.map(({ name }) => name))
  const lost = sessions.value?.some(({ name }) => !there.has(name))
  batch(() => {
    sessions.value = all
    if (conversations.value) conversations.value = withWindows(conversations.value)
  })
  if (lost) void refresh().catch(() => {})
}

/** The user of a session as the session list shows it: window and answers left. */
export const userOf = (session: string, userId: string) =>
  sessions.value?.find(({ name }) => name === session)?.users.find(({ user_id }) => user_id === userId)

/** A message as the list shows it; the same once more changes nothing. */
function listed(message: Message): void {
  const userId = peerOf(message)
  const { session } = message
  const all = conversations.value
  if (!all) return
  const known = conversationOf(session, userId)
  // An older one was settled: the list shows the newest alone.
  if (known && known.last_message.id > message.id) return
  if (message.status === 'refused' && !userOf(session, userId)) {
    // The service knows whether anything but refused sends is there.
    void refresh().catch(() => {})
    return
  }
  const isNew = known?.last_message.id !== message.id
  const counts = isNew && message.direction === 'received'
  const isTaken = message.status === 'accepted' || message.status === 'suspect'
  const updated: Conversation = {
    ...(known ?? { session, user_id: userId, unread: 0 }),
    last_message: message,
    // Who has answered has read: what WeChat did not take is no answer.
    unread: isTaken ? 0 : Math.min(100, (known?.unread ?? 0) + (counts ? 1 : 0)),
  }
  conversations.value = [updated, ...all.filter(one => one !== known)]
}

/** Somebody looked at a conversation, here or elsewhere. */
function wasRead({ session, user_id, up_to }: ReadBody): void {
  const known = conversationOf(session, user_id)
  if (!known || known.unread === 0) return
  if (known.last_message.id <= up_to) {
    conversations.value = conversations.value!.map(one => (one === known ? { ...one, unread: 0 } : one))
  } else void refresh().catch(() => {})
}

/** The windows and quotas of the sessions' users, as far as the conversations show them. */
function withWindows(all: readonly Conversation[]): readonly Conversation[] {
  return all.map(one => {
    const user = userOf(one.session, one.user_id)
    if (!user) return one
    const { window_expires_at, remaining } = user
    return window_expires_at === one.window_expires_at && remaining === one.remaining
      ? one
      : { ...one, remaining, ...(window_expires_at !== undefined && { window_expires_at }) }
  })
}

/**
 * A browser keeps six lines to a host, for all its tabs together: with as many panels open the next one would not even
 * load. So a tab that nobody sees gives its line away when another one asks, and looks now and then instead.
 */
const tabs = new BroadcastChannel('svc.line')
const lookMs = 20_000
/** Before a silence is told (`patienceMs` of app.tsx). */
const againMs = 1000

/**
 * Follows the service until the page goes; asks again by itself when it falls silent.
 *
 * @param refusedMs how long after a refusal
 */
export function follow(refusedMs = 3000): void {
  let source: EventSource | undefined
  /** Of a tab that gave its line away. */
  let looking: ReturnType<typeof setInterval> | undefined
  let again: ReturnType<typeof setTimeout> | undefined
  const open = () => {
    // What was missed meanwhile is caught up with as after any other silence.
    if (looking !== undefined) online.value = false
    clearInterval(looking)
    looking = undefined
    tabs.postMessage('line')
    source?.close()
    source = new EventSource('/api/events')
    source.addEventListener('hello', () => {
      // What happened while nobody listened.
      void refresh().catch(failed)
    })
    source.addEventListener('message', event => {
      const message = JSON.parse(event.data) as Message
      happened(() => listed(message))
      for (const listener of listeners) listener(message)
    })
    source.addEventListener('read', event => {
      const mark = JSON.parse(event.data) as ReadBody
      happened(() => wasRead(mark))
    })
    source.addEventListener('sessions', event => {
      const { sessions: all } = JSON.parse(event.data) as { sessions: SessionWithUsers[] }
      happened(() => accountsAre(all))
    })
    source.addEventListener('names', () => void refresh().catch(failed))
    source.addEventListener('status', event => {
      const before = status.value?.store
      const told = JSON.parse(event.data) as Status
      happened(set(status, told))
      if (before === 'unavailable' && told.store === 'ok') void refresh().catch(failed)
    })
    source.addEventListener('time', event => heardTime((JSON.parse(event.data) as { now: number }).now))
    source.onerror = () => {
      online.value = false
      // The browser tries again after a broken connection, not after a refusal.
      const isRefused = source?.readyState === EventSource.CLOSED
      // Until there is a stream, this is how it was when it was asked for: what comes then is caught up with after it.
      if (isRefused || !status.value) {
        void refresh().then(() => {
          online.value = source?.readyState === EventSource.OPEN
        }, failed)
      }
      if (isRefused) {
        setTimeout(() => signedOut.value || looking !== undefined || open(), refusedMs)
      }
    }
  }
  const failed = (error: unknown) => {
    if (error instanceof ApiError && error.status === 401) {
      source?.close()
      source = undefined
      clearInterval(looking)
      looking = undefined
      return
    }
    online.value = false
    // While the stream goes on, nothing else would ask again.
    clearTimeout(again)
    again = setTimeout(() => {
      if (source?.readyState === EventSource.OPEN) void refresh().catch(failed)
    }, againMs)
  }
  tabs.onmessage = () => {
    if (document.visibilityState === 'visible' || !source) return
    source.close()
    source = undefined
    looking = setInterval(() => void refresh().catch(failed), lookMs)
  }
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible' && looking !== undefined) open()
  })
  reopen = open
  if (!signedOut.value) open()
}

/** Listens anew, after signing in. Set by `follow`. */
let reopen = () => {}
export const listenAgain = (): void => reopen()
