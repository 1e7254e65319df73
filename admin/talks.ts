/** The list of conversations, and how messages and read marks change it. */
import type { ConversationMark } from '../src/model/conversation.ts'
import { isDraft, isLate } from '../src/send/sent-order.ts'
import type { Conversation, Message, SessionUser } from './api.ts'

export { asksFirst, inSentOrder, isDraft } from '../src/send/sent-order.ts'

export type ReadMark = Required<ConversationMark>
export type UnreadMark = Omit<ConversationMark, 'up_to'>

/** Conversations by `talkKey`, the newest last. */
export type Talks = Map<string, Conversation>
export const talkKey = (session: string, userId: string): string => `${session}\n${userId}`

export const peerOf = (message: Message): string =>
  message.direction === 'received' ? message.from_user : message.to_user

export const talksOf = (all: readonly Conversation[]): Talks =>
  new Map(all.toReversed().map(one => [talkKey(one.session, one.user_id), one]))

/** Unread messages of a conversation are counted up to this number. */
const mostUnread = 100

/**
 * Messages received since the service last sent the list, by conversation: the newest ids, and the id of the
 * message before them.
 */
const received = new Map<string, { after: number; ids: number[] }>()

/** Call this when the service has sent a new list. */
export const forgetReceived = (): void => received.clear()

/** Whether a message failed, by itself: nobody cancelled or declined it. */
export const isFailed = ({ status, reason_code: code }: Conversation['last_message']): boolean =>
  status === 'unknown' || (status === 'refused' && code !== 'cancelled' && code !== 'declined')

/**
 * Returns since when a contact waits for an answer (Unix ms): the contact wrote, and since then no answer went out.
 * One that is queued or was refused did not. Undefined for a contact who does not wait.
 */
export function waitsSince(
  { last_message: { direction, status, timestamp } }: Conversation,
  { last_received = 0, last_sent = 0 }: Partial<SessionUser> = {},
): number | undefined {
  if (direction === 'received') return timestamp
  const wentOut = status !== 'queued' && status !== 'refused'
  return !wentOut && last_received > last_sent ? last_received : undefined
}

/**
 * Puts a message into the list. The same message a second time changes nothing.
 *
 * @param isUser whether the service knows the peer as a user
 * @returns whether the list must be loaded again, because only the service knows it now
 */
export function listMessage(talks: Talks, message: Message, isUser: boolean): boolean {
  const userId = peerOf(message)
  const { session } = message
  const key = talkKey(session, userId)
  const known = talks.get(key)
  const isOlder = known !== undefined && known.last_message.id > message.id
  // The list shows the newest message. This one is older and only changed its state, or was sent just now.
  if (isOlder && !isLate(message, known.last_message.timestamp)) return false
  if (known && known.last_message.id !== message.id && isDraft(message)) return false
  // Only the service knows whether the conversation has anything but refused sends.
  if (message.status === 'refused' && !isUser) return true
  const counts = known?.last_message.id !== message.id && message.direction === 'received'
  if (counts) noteReceived(key, known?.last_message.id ?? 0, message.id)
  const isTaken = message.status === 'accepted' || message.status === 'suspect'
  talks.delete(key)
  talks.set(key, {
    ...(known ?? { session, user_id: userId, unread: 0 }),
    last_message: message,
    // An answer that WeChat accepted marks the conversation as read. A refused one does not.
    unread: isTaken && !isOlder ? 0 : Math.min(mostUnread, (known?.unread ?? 0) + Number(counts)),
  })
  return false
}

function noteReceived(key: string, after: number, id: number): void {
  const known = received.get(key)
  if (!known) received.set(key, { after, ids: [id] })
  else if (known.ids.push(id) > mostUnread) known.ids.shift()
}

/**
 * Marks a conversation as read up to a row, by this panel or another one.
 *
 * @returns whether the list must be loaded again, because only the service knows the unread count now
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

/** Marks a conversation as unread. */
export function markTalkUnread(talks: Talks, { session, user_id }: UnreadMark): void {
  const key = talkKey(session, user_id)
  const known = talks.get(key)
  if (known?.unread === 0) talks.set(key, { ...known, unread: 1 })
}

/** Returns the conversations with the reply window and the answers left of each user. */
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
