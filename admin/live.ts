/** What the service says as it happens, as signals that the pages read. */
import { batch, computed, signal } from '@preact/signals'
import {
  ApiError,
  type Conversation,
  call,
  type KnownUser,
  type Message,
  type SessionUser,
  type SessionWithUsers,
  type Status,
} from './api.ts'
import { onceAFrame } from './frames.ts'
import { start } from './service-urls.ts'
import { forgetReceived, listMessage, peerOf, type Talks, talkKey, talksOf, withRights } from './talks.ts'

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

export { peerOf }

const listeners = new Set<(messages: readonly Message[]) => void>()

/** Calls `listener` with the messages that were stored or settled, once a frame. @returns how to stop that */
export function onMessages(listener: (messages: readonly Message[]) => void): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

const talks = computed(() => talksOf(conversations.value ?? []))
const users = computed(() => {
  const known = new Map<string, SessionUser>()
  for (const { name, users: all } of sessions.value ?? [])
    for (const user of all) known.set(talkKey(name, user.user_id), user)
  return known
})

/** A conversation by its two ends. */
export const conversationOf = (session: string, userId: string): Conversation | undefined =>
  talks.value.get(talkKey(session, userId))

/** The user of a session as the session list shows it: window and answers left. */
export const userOf = (session: string, userId: string): SessionUser | undefined =>
  users.value.get(talkKey(session, userId))

/** What people call a user; of accounts that are logged out as their messages say. */
export function nameOf(session: string, userId: string): string | undefined {
  const user = userOf(session, userId)
  return user ? user.name : conversationOf(session, userId)?.last_message.user_name
}

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

/** What an event changes. */
export interface News {
  take(talks: Talks): void
  message?: Message
}

/** Events since each question that has no answer yet. */
const unanswered = new Set<News[]>()

/** Events drawn in one frame at most. */
const mostAtOnce = 250

/** One that fails takes nothing of the others with it. */
function tried<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch (error) {
    console.error(error)
    return undefined
  }
}

/** Takes the text of an event, which is read in the frame that draws it: a burst comes in few tasks, each of many events. */
export const happened = onceAFrame<() => News>(mostAtOnce, some => {
  const news = some.flatMap(read => tried(read) ?? [])
  for (const events of unanswered) events.push(...news)
  batch(() => {
    takeIn(news)
    const messages = news.flatMap(({ message }) => message ?? [])
    if (messages.length > 0) for (const listener of listeners) tried(() => listener(messages))
  })
})

function takeIn(events: readonly News[]): void {
  const [all, accounts] = [conversations.value, sessions.value]
  const changed = new Map(talks.value)
  for (const { take } of events) tried(() => take(changed))
  if (!all) return
  const list = [...changed.values()].reverse()
  const isSame = list.length === all.length && list.every((one, nth) => one === all[nth])
  if (!isSame) conversations.value = list
  if (accounts !== sessions.value) showRights()
}

const showRights = (): void => {
  if (conversations.value) conversations.value = withRights(conversations.value, userOf)
}

/** Takes in an answer, and once more the events since it was asked for: it may be older than they. */
export async function answered<T>(asked: Promise<T>, take: (answer: T) => void): Promise<T> {
  const events: News[] = []
  unanswered.add(events)
  try {
    const answer = await asked
    batch(() => {
      take(answer)
      takeIn(events)
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
  const how = { signal: AbortSignal.timeout(answerMs) }
  const talks = call('list_conversations', {}, how).catch(error => {
    if (error instanceof ApiError && error.code === 'store_unavailable') return conversations.value ?? []
    throw error
  })
  const all = Promise.all([call('status', {}, how), call('list_accounts', {}, how), talks])
  await answered(all, ([newStatus, { sessions: newSessions }, newConversations]) => {
    status.value = newStatus
    sessions.value = newSessions
    conversations.value = newConversations
    forgetReceived()
    signedOut.value = false
    online.value = true
  })
}

/** The accounts as they are now. */
export function accountsAre(all: readonly SessionWithUsers[]): void {
  batch(() => {
    setAccounts(all)
    showRights()
  })
}

/** Where an account is gone or has another name, the conversations still say the old one. */
export function setAccounts(all: readonly SessionWithUsers[]): void {
  const there = new Set(all.map(({ name }) => name))
  const isLost = sessions.value?.some(({ name }) => !there.has(name))
  sessions.value = all
  if (isLost) askAgain()
}

/** Called where the service does not answer. Set by `follow`. */
export const onUnheard: { call: (error: unknown) => void } = { call: () => {} }
export const askAgain = (): void => void refresh().catch(error => onUnheard.call(error))

export function setStatus(told: Status): void {
  const isBack = status.value?.store === 'unavailable' && told.store === 'ok'
  status.value = told
  if (isBack) askAgain()
}

export const newsOf = (message: Message): News => ({
  message,
  take: changed =>
    listMessage(changed, message, userOf(message.session, peerOf(message)) !== undefined) && askAgain(),
})

/** A conversation was marked here: shown before the service tells of it. */
export function marked(mark: (changed: Talks) => void): void {
  const news: News = { take: mark }
  for (const events of unanswered) events.push(news)
  batch(() => takeIn([news]))
}
