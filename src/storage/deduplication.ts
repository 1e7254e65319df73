/**
 * Which messages of a batch are new. An id is stored once; and upstream is known to deliver a message again within
 * seconds under another id (protocol notes 2.4).
 *
 * Under a new id two messages count as one only if sender, create time and content all match, the create time is no
 * whole second, and the second came in a later batch within 15 s. A clock that counts whole seconds says the same of two
 * messages that a user wrote one after the other, and a message shown twice costs less than a lost one. Equal messages in
 * one batch are all real: a batch that holds two of which one is stored brings one more. The log itself is asked, so a
 * restart or another process in between changes nothing.
 */
import type { ReceivedMessage } from './messages.ts'

const repeatMs = 15_000
/** 72 bits of the content's hash are kept. */
const hashLength = 12

/** A message and what to do with it: `renamed` ones are stored under an id of their own. */
export interface Arrived {
  message: ReceivedMessage
  verdict: 'new' | 'known' | 'repeat' | 'renamed'
  /** To be stored under. */
  id: string
  hash: string
}

/** A message of the log: sent ones have no hash. */
export interface Known {
  botId: string
  sent: boolean
  hash: string
}

/** What the judge asks of the log. */
export interface Stored {
  /** The message of that id. */
  under(id: string): Known | undefined
  /** The ids of messages of that bot that were polled and stored after `since` with this sender, time and content. */
  copies(botId: string, arrived: Arrived, since: number): string[]
}

/** A batch, or a part of one. */
export interface Part {
  messages: readonly ReceivedMessage[]
  /** The ids of the whole batch: what is stored under one of them is no earlier message. */
  ids: ReadonlySet<string>
  /** Of the whole batch, by sender, time and content: earlier messages for which no repeat was found yet. */
  left: Map<string, number>
}

/** A batch as one part; the messages without an id have one by which equal ones are told apart. */
export function partOf(batch: readonly ReceivedMessage[]): Part {
  const ordinals = new Map<string, number>()
  const messages = batch.map(message => {
    if (message.message_id !== undefined) return message
    const ordinal = (ordinals.get(message.derived_id) ?? 0) + 1
    ordinals.set(message.derived_id, ordinal)
    return ordinal === 1 ? message : { ...message, derived_id: `${message.derived_id}-${ordinal}` }
  })
  return { messages, ids: new Set(messages.map(idOf)), left: new Map() }
}

const idOf = ({ derived_id, message_id }: ReceivedMessage): string => message_id?.toWellFormed() ?? derived_id

/**
 * Judges a part. To be called inside the transaction that stores it. Pure: an engine that cannot look up in the call notes
 * what it is asked, and calls again once it knows that.
 */
export function judgedOf(
  stored: Stored,
  botId: string,
  { messages, ids, left }: Part,
  now: number,
): Arrived[] {
  const list = messages.map(
    (message): Arrived => ({
      message,
      verdict: 'new',
      id: idOf(message),
      hash: message.contentHash.slice(0, hashLength),
    }),
  )
  const fresh = new Map<string, Known>()
  for (const one of list) {
    const known = stored.under(one.id)
    if (known && isSame(known, botId, one)) {
      one.verdict = 'known'
      continue
    }
    const taken = known ?? fresh.get(one.id)
    if (taken && isSame(taken, botId, one)) one.verdict = 'known'
    else if (taken) {
      one.id = `${botId}:${one.id}`
      one.verdict = fresh.has(one.id) || stored.under(one.id) ? 'known' : 'renamed'
    }
    if (one.verdict !== 'known') fresh.set(one.id, { botId, sent: false, hash: one.hash })
  }
  // Two equal ones of this batch are not repeats of each other, whichever of them is stored already.
  const isOwn = (id: string) =>
    ids.has(id) || (id.startsWith(`${botId}:`) && ids.has(id.slice(botId.length + 1)))
  for (const one of list) {
    const { message } = one
    if (one.verdict !== 'new' || message.message_id === undefined || !isFinelyTimed(message)) continue
    const key = keyOf(one)
    const copies = left.get(key) ?? stored.copies(botId, one, now - repeatMs).filter(id => !isOwn(id)).length
    if (copies > 0) one.verdict = 'repeat'
    left.set(key, copies - 1)
  }
  return list
}

/** Another bot's other message, or one of ours that was sent, is another message under the same id. */
const isSame = (known: Known, botId: string, one: Arrived) =>
  !known.sent && (known.botId === botId || known.hash === one.hash)

/** Whether the create time tells two messages of one second apart. */
const isFinelyTimed = ({ timed, timestamp }: ReceivedMessage) => timed && timestamp % 1000 !== 0

const keyOf = ({ message, hash }: Arrived) => `${message.timestamp} ${hash} ${message.from_user}`
