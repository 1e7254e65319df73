/** The list of conversations, as messages, marks and accounts change it. */
import type { ConversationMark } from '../src/model/conversation.ts'
import type { Conversation, Message, SessionUser } from './api.ts'

export type ReadMark = Required<ConversationMark>
export type UnreadMark = Omit<ConversationMark, 'up_to'>

/** By `talkKey`, the newest last. */
export type Talks = Map<string, Conversation>
export const talkKey = (session: string, userId: string): string => `${session}\n${userId}`

export const peerOf = (message: Message): string =>
  message.direction === 'received' ? message.from_user : message.to_user

export const talksOf = (all: readonly Conversation[]): Talks =>
  new Map(all.toReversed().map(one => [talkKey(one.session, one.user_id), one]))

/** More unread messages are not counted. */
const mostUnread = 100

/** Messages that were received since the service was asked for the list: the ids of the newest of each conversation. */
const received = new Map<string, { after: number; ids: number[] }>()

/** The list is an answer of the service now. */
export const forgetReceived = (): void => received.clear()

/**
 * Shows a message in the list; the same message once more changes nothing.
 *
 * @param isUser whether the service knows the other side as a user
 * @returns whether only the service can say what the list is now
 */
export function listMessage(talks: Talks, message: Message, isUser: boolean): boolean {
  const userId = peerOf(message)
  const { session } = message
  const key = talkKey(session, userId)
  const known = talks.get(key)
  // The list shows the newest message. This one is older, and was settled.
  if (known && known.last_message.id > message.id) return false
  // The service knows whether there is anything but refused sends.
  if (message.status === 'refused' && !isUser) return true
  const counts = known?.last_message.id !== message.id && message.direction === 'received'
  if (counts) noteReceived(key, known?.last_message.id ?? 0, message.id)
  const isTaken = message.status === 'accepted' || message.status === 'suspect'
  talks.delete(key)
  talks.set(key, {
    ...(known ?? { session, user_id: userId, unread: 0 }),
    last_message: message,
    // An answer that WeChat took ends unread; one that it refused does not.
    unread: isTaken ? 0 : Math.min(mostUnread, (known?.unread ?? 0) + Number(counts)),
  })
  return false
}

function noteReceived(key: string, after: number, id: number): void {
  const known = received.get(key)
  if (!known) received.set(key, { after, ids: [id] })
  else if (known.ids.push(id) > mostUnread) known.ids.shift()
}

/**
 * Somebody looked at a conversation, here or in another panel.
 *
 * @returns whether only the service can say how many messages are unread now
 */
export function markTalkRead(talks: Talks, { session, user_id, up_to }: ReadMark): boolean {
  const key = talkKey(session, user_id)
  const known = talks.get(key)
  if (!known || known.unread === 0) return false
  const { after, ids } = received.get(key) ?? { after: known.last_message.id, ids: [] }
  if (up_to < after) return true
  const unread = Math.min(known.unread, ids.filter(id => id > up_to).length)
  talks.set(key, { ...known, unread })
  return false
}

/** Somebody wants to come back to a conversation. */
export function markTalkUnread(talks: Talks, { session, user_id }: UnreadMark): void {
  const key = talkKey(session, user_id)
  const known = talks.get(key)
  if (known?.unread === 0) talks.set(key, { ...known, unread: 1 })
}

/** The windows and answers left of the users, as far as the conversations show them. */
export function withRights(
  all: readonly Conversation[],
  userOf: (session: string, userId: string) => SessionUser | undefined,
): readonly Conversation[] {
  return all.map(one => {
    const user = userOf(one.session, one.user_id)
    if (!user) return one
    const { window_expires_at, remaining } = user
    return window_expires_at === one.window_expires_at && remaining === one.remaining
      ? one
      : { ...one, remaining, ...(window_expires_at !== undefined && { window_expires_at }) }
  })
}
