/**
 * Decides which messages of a batch are new. An id is stored once; and upstream is known to deliver a message
 * again within seconds under another id (protocol notes 2.4).
 *
 * Two messages with different ids count as one only if sender, create time and content all match, the create
 * time is not a whole second, and the second message came in a later batch within 15 s. A clock that counts
 * whole seconds gives the same time to two messages that a user wrote one after the other, and a message
 * shown twice costs less than a lost one. Equal messages in one batch are all real: if one of two equal
 * messages is stored already, the batch brings one more. The log itself is asked, so a restart or another
 * process in between changes nothing.
 */
import type { ReceivedMessage } from './messages.ts'

export const repeatMs = 15_000
/** 72 bits of the content hash are kept. */
const hashLength = 12

/** A message and what to do with it. A `renamed` message is stored under a new id. */
export interface JudgedMessage {
  message: ReceivedMessage
  verdict: 'new' | 'known' | 'repeat' | 'renamed'
  /** The id to store it under. */
  id: string
  hash: string
}

/** A message of the log. Sent messages have an empty hash. */
export interface KnownMessage {
  botId: string
  sent: boolean
  hash: string
}

/** Queries to the log that the decision needs. */
export interface DuplicateLookup {
  /** Finds the message with that id. */
  findById(id: string): KnownMessage | undefined
  /**
   * Returns the ids of messages of that bot that were polled and stored after `since` with this sender,
   * time and content.
   */
  findCopies(botId: string, arrived: JudgedMessage, since: number): string[]
}

/** A batch, or a part of one. */
export interface BatchPart {
  messages: readonly ReceivedMessage[]
  /** The ids of the whole batch: a message stored under one of them is not an earlier message. */
  ids: ReadonlySet<string>
  /**
   * Shared by all parts of a batch. By sender, time and content: the number of earlier messages that were not
   * matched with a repeat yet.
   */
  left: Map<string, number>
}

/** Makes one part of a whole batch. Equal messages without an id get different `derived_id`s. */
export function batchPartOf(batch: readonly ReceivedMessage[]): BatchPart {
  const ordinals = new Map<string, number>()
  const messages = batch.map(message => {
    if (message.message_id !== undefined) return message
    const ordinal = (ordinals.get(message.derived_id) ?? 0) + 1
    ordinals.set(message.derived_id, ordinal)
    return ordinal === 1 ? message : { ...message, derived_id: `${message.derived_id}-${ordinal}` }
  })
  return { messages, ids: new Set(messages.map(messageIdOf)), left: new Map() }
}

const messageIdOf = ({ derived_id, message_id }: ReceivedMessage): string =>
  message_id?.toWellFormed() ?? derived_id

/**
 * Judges a part. Call it inside the transaction that stores the part. Pure: an engine that cannot query
 * during the call notes the queries, and calls it again once it has the answers.
 */
export function judgeMessages(
  stored: DuplicateLookup,
  botId: string,
  { messages, ids, left }: BatchPart,
  now: number,
): JudgedMessage[] {
  const list = messages.map(
    (message): JudgedMessage => ({
      message,
      verdict: 'new',
      id: messageIdOf(message),
      hash: message.contentHash.slice(0, hashLength),
    }),
  )
  const fresh = new Map<string, KnownMessage>()
  for (const judged of list) {
    const known = stored.findById(judged.id)
    if (known && isSameMessage(known, botId, judged)) {
      judged.verdict = 'known'
      continue
    }
    const taken = known ?? fresh.get(judged.id)
    if (taken && isSameMessage(taken, botId, judged)) judged.verdict = 'known'
    else if (taken) {
      judged.id = `${botId}:${judged.id}`
      judged.verdict = fresh.has(judged.id) || stored.findById(judged.id) ? 'known' : 'renamed'
    }
    if (judged.verdict !== 'known') fresh.set(judged.id, { botId, sent: false, hash: judged.hash })
  }
  // Two equal messages of this batch are not repeats of each other, whichever of them is stored already.
  const isOwn = (id: string) =>
    ids.has(id) || (id.startsWith(`${botId}:`) && ids.has(id.slice(botId.length + 1)))
  for (const judged of list) {
    const { message } = judged
    if (judged.verdict !== 'new' || message.message_id === undefined || !isFinelyTimed(message)) continue
    const key = keyOf(judged)
    const copies =
      left.get(key) ?? stored.findCopies(botId, judged, now - repeatMs).filter(id => !isOwn(id)).length
    if (copies > 0) judged.verdict = 'repeat'
    left.set(key, copies - 1)
  }
  return list
}

/** Under the same id, a different message of another bot, or one that was sent, is another message. */
const isSameMessage = (known: KnownMessage, botId: string, judged: JudgedMessage) =>
  !known.sent && (known.botId === botId || known.hash === judged.hash)

/** Whether the create time distinguishes two messages of one second. */
const isFinelyTimed = ({ timed, timestamp }: ReceivedMessage) => timed && timestamp % 1000 !== 0

const keyOf = ({ message, hash }: JudgedMessage) => `${message.timestamp} ${hash} ${message.from_user}`
