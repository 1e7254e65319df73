/** The live state of the service, as signals for the pages. */

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
import { quoted } from './commands.ts'
import { onceAFrame } from './frames.ts'
import { me } from './rights.ts'
import { start } from './service-urls.ts'
import { forgetReceived, listMessage, peerOf, type Talks, talkKey, talksOf, withRights } from './talks.ts'

export const status = signal<Status | undefined>(undefined)
export const sessions = signal<readonly SessionWithUsers[] | undefined>(undefined)
export const conversations = signal<readonly Conversation[] | undefined>(undefined)
/** Whether the connection to the service works. */
export const online = signal(true)
/** Whether the service answered that its store fails, when `online` became false. */
export const storeFails = signal(false)
/** Whether the person must sign in first. */
export const signedOut = signal(start.signed_out)

/** The number of unread messages in all conversations; at most 100 are counted per conversation. */
export const unread = computed(() =>
  (conversations.value ?? []).reduce((sum, { unread: count }) => sum + count, 0),
)

export { peerOf }

const listeners = new Set<(messages: readonly Message[]) => void>()

/** Calls `listener` once per frame with the messages that were stored or settled. @returns stops it */
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

/** Returns the conversation of a session with a user. */
export const conversationOf = (session: string, userId: string): Conversation | undefined =>
  talks.value.get(talkKey(session, userId))

/** A user of a session from the session list, with reply window and answers left. */
export const userOf = (session: string, userId: string): SessionUser | undefined =>
  users.value.get(talkKey(session, userId))

/**
 * Returns the name that people gave a user. For accounts that are logged out it comes from their messages.
 */
export function nameOf(session: string, userId: string): string | undefined {
  const user = userOf(session, userId)
  return user ? user.name : conversationOf(session, userId)?.last_message.user_name
}

/** The change that an event brings. */
export interface News {
  take(talks: Talks): void
  message?: Message
}

/** For each unanswered request, the events since it was sent. */
const unanswered = new Set<News[]>()

/** The most events to draw in one frame. */
const mostAtOnce = 250

/** Runs one step. If it throws, the error is logged and the other steps go on. */
function attempt<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch (error) {
    console.error(error)
    return undefined
  }
}

/**
 * Queues an event, which is parsed in the frame that draws it. A burst thus takes few tasks of many events
 * each.
 */
export const queueEvent = onceAFrame<() => News>(mostAtOnce, some => {
  const news = some.flatMap(read => attempt(read) ?? [])
  for (const events of unanswered) events.push(...news)
  batch(() => {
    applyEvents(news)
    const messages = news.flatMap(({ message }) => message ?? [])
    if (messages.length > 0) for (const listener of listeners) attempt(() => listener(messages))
  })
})

function applyEvents(events: readonly News[]): void {
  const [all, accounts] = [conversations.value, sessions.value]
  const changed = new Map(talks.value)
  for (const { take } of events) attempt(() => take(changed))
  if (!all) return
  const list = [...changed.values()].reverse()
  const isSame = list.length === all.length && list.every((one, nth) => one === all[nth])
  if (!isSame) conversations.value = list
  if (accounts !== sessions.value) showRights()
}

const showRights = (): void => {
  if (conversations.value) conversations.value = withRights(conversations.value, userOf)
}

/**
 * Applies an answer, and then once more the events since its request was sent: the answer may be older than
 * these events.
 */
export async function applyAnswer<T>(asked: Promise<T>, take: (answer: T) => void): Promise<T> {
  const events: News[] = []
  unanswered.add(events)
  try {
    const answer = await asked
    batch(() => {
      take(answer)
      applyEvents(events)
    })
    return answer
  } finally {
    unanswered.delete(events)
  }
}

/** A request that takes longer counts as lost, so that the next one need not wait for it. */
const answerMs = 20_000
/** The running request, and the one after it for all callers that came since it began. */
let asking: Promise<void> | undefined
let asksAgain: Promise<void> | undefined

/**
 * Loads everything again. One request runs at a time. A caller during a request waits for the next one, whose
 * answer is newer than the reason for the call. So answers never cross, and many events do not cause many
 * requests.
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

/** Answers a call for which the caller has no right. */
const withoutRight =
  <T>(answer: T) =>
  (error: unknown): T => {
    if (error instanceof ApiError && error.code === 'forbidden') return answer
    throw error
  }

/** Returns what was known before the store failed. */
function whileStoreFails<T>(error: unknown, known: T | undefined): T {
  if (error instanceof ApiError && error.code === 'store_unavailable' && known !== undefined) return known
  throw error
}

/** If the store fails, the conversations stay as they are and the rest is still updated. */
async function load(): Promise<void> {
  const how = { signal: AbortSignal.timeout(answerMs) }
  const talks = call('list_conversations', {}, how)
    .catch(withoutRight([]))
    .catch(error => whileStoreFails(error, conversations.value ?? []))
  const all = Promise.all([
    call('me', {}, how).catch(error => whileStoreFails(error, me.value)),
    call('status', {}, how).catch(withoutRight(undefined)),
    call('list_accounts', {}, how).catch(withoutRight({ sessions: [] })),
    talks,
  ])
  await applyAnswer(all, ([newMe, newStatus, { sessions: newSessions }, newConversations]) => {
    // What the page holds in memory is of another caller.
    if (sessions.value && me.value?.principal !== newMe.principal) location.reload()
    me.value = newMe
    status.value = newStatus
    sessions.value = newSessions
    conversations.value = newConversations
    forgetReceived()
    signedOut.value = false
    online.value = true
  })
}

/** Sets the accounts, and updates the reply windows of the conversations. */
export function showAccounts(all: readonly SessionWithUsers[]): void {
  batch(() => {
    setAccounts(all)
    showRights()
  })
}

/**
 * Sets the accounts. If one is gone or renamed, or a user is gone, loads everything: the conversations still
 * have them.
 */
export function setAccounts(all: readonly SessionWithUsers[]): void {
  const there = new Map(all.map(account => [account.name, account]))
  const isLost = sessions.value?.some(({ name, user_count }) => {
    const { user_count: left = -1 } = there.get(name) ?? {}
    return left < user_count
  })
  sessions.value = all
  if (isLost) askAgain()
}

/** Called when the service does not answer. Set by `follow`. */
export const onUnheard: { call: (error: unknown) => void } = { call: () => {} }
export const askAgain = (): void => void refresh().catch(error => onUnheard.call(error))

export function setStatus(newStatus: Status): void {
  const isBack = status.value?.store === 'unavailable' && newStatus.store === 'ok'
  status.value = newStatus
  if (isBack) askAgain()
}

export const newsOf = (message: Message): News => ({
  message,
  take: changed =>
    listMessage(changed, message, userOf(message.session, peerOf(message)) !== undefined) && askAgain(),
})

/** Shows a change that was made in this page, before the service sends it. */
export function showChange(take: News['take']): void {
  const news: News = { take }
  for (const events of unanswered) events.push(news)
  batch(() => applyEvents([news]))
}

/** Shows a name that was given in this page. */
export function showName({ session, user_id, name }: KnownUser): void {
  const withName = <T extends object, K extends string>(one: T, key: K): T => {
    const { [key as never]: _, ...rest } = one as T & Record<K, string>
    return { ...rest, ...(name !== undefined && { [key]: name }) } as T
  }
  const named = (user: SessionUser) => (user.user_id === user_id ? withName(user, 'name') : user)
  showChange(changed => {
    sessions.value = sessions.value?.map(one =>
      one.name === session ? { ...one, users: one.users.map(named) } : one,
    )
    const key = talkKey(session, user_id)
    const talk = changed.get(key)
    if (talk) changed.set(key, { ...talk, last_message: withName(talk.last_message, 'user_name') })
  })
}

/** Returns a command of svc with the options that name the data directory of this service. */
export function commandHere(command: string): string {
  const { base_path: path, sandbox_phone } = status.value ?? {}
  const options = (path ? ` -d ${quoted(path)}` : '') + (sandbox_phone ? ' --sandbox' : '')
  return command.replace(/( -- .*)?$/, program => options + program)
}
