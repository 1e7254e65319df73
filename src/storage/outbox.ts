/**
 * The outbox: calls of send, from the first word on disk to the last. Each is an entry with a part per message, whether it goes
 * at once or waits for its user.
 *
 * An entry of mode `fail` belongs to the process that its caller waits in: nobody else sends it, and it ends with its owner.
 * One of mode `queue` goes out from whichever process holds its lane. A part is `sending` before the network hears of it; when
 * its sender dies then, it is unknown and never begun again.
 *
 * Verbs are as those of `Store`. Where nothing else is said, what they write is durable, and shares its way to the disk with
 * the writes of others.
 */
import type { Closed, Hold, SendRules, Verdict } from '../model/admission.ts'
import type { MediaKind, MessageKind, SentStatus } from '../model/message.ts'
import type { Next } from '../model/next-step.ts'
import type { Counter } from '../model/session.ts'
import type { SentMessage } from './messages.ts'

/** A file of ours that a part is sent from. */
export interface KeptFile {
  /** Its name in the folder of kept files. */
  name: string
  file_name: string
  size: number
  /** Lower-case hex. */
  md5: string
  /** Where it was taken from, as the caller named it: of one that waits for a person's yes. */
  source?: string
}

/** `fail`: to be sent by the process whose caller waits, or not at all. `queue`: may wait for the user. */
export type SendMode = 'fail' | 'queue'

/** Why a part was not sent, or is in doubt: an error's fields. */
export interface EndReason {
  code: string
  detail: string
  /** As the error was made: the field it is about, and what to do next. */
  field?: string
  hint?: string
  next?: Next
  retry_after?: number
}

export interface EntryPart {
  id: number
  entry: number
  lane: number
  kind: 'text' | MediaKind
  msg_type: MessageKind
  /** `asked`: a person has to say yes first. */
  status: SentStatus | 'asked'
  /** How often upstream has refused it. */
  tries: number
  /** Row id in the log; absent before a part of mode `fail` is on its way. */
  message?: number
  message_id?: string
  error?: EndReason
  /** When it may go by the pace (Unix ms). */
  slot?: number
  text: string
  file?: KeptFile
  raw: string
}

export interface Entry {
  id: number
  session: string
  user: string
  mode: SendMode
  /** It waits for a person's yes (mode `queue`): what it does then where it may not go. */
  asked?: SendMode
  /** What is sent, as the caller of `enqueue` put it. */
  content: string
  /** It answers for a key. */
  keyed?: true
  /** Unix ms. */
  created_at: number
  expires_at: number
  /** No part waits or is on its way. */
  ended: boolean
  /** The count of answers when it ended. */
  counter?: Counter
  /** The result of a call of version 0.1, as JSON. */
  answer?: string
  parts: EntryPart[]
}

export interface NewEntry {
  session: string
  bot_id: string
  user: string
  mode: SendMode
  asked?: SendMode
  key?: string
  content?: string
  parts: readonly NewPart[]
}

/** One message of a new entry. */
export interface NewPart {
  kind: EntryPart['kind']
  /** Of one that may wait: all that its sender, whoever that is, needs. */
  waiting?: { file?: KeptFile; message: SentMessage }
}

/** The right to answer a user as its sender knows it, and the rules it keeps. */
export interface Terms {
  context: Counter
  rules: SendRules
}

/** A message that may be out from now on. */
export interface Begun {
  lane: number
  /** Ids of the parts that go as this message. */
  parts: number[]
  /** Row id in the log. */
  row: number
  /** With this message counted. */
  counter: Counter
  hold?: Hold
  tries: number
  slot?: number
}

export type Enqueued =
  /** `behind`: others wait for that user already. */
  | { state: 'new'; entry: Entry; lane: number; verdict: Verdict | 'behind'; begun?: Begun }
  /** Nothing was written. */
  | { state: 'closed'; verdict: Closed }
  /** An earlier call has the key. */
  | { state: 'known'; entry: Entry }

/** `closed`: it may not go now, and goes on waiting for a yes. */
export type Approved = { state: 'closed'; verdict: Closed } | { state: 'approved'; lane: number }

/** `gone`: not ours to send any more, since it ended or another process has the lane. */
export type Began = { go: 'begun'; begun: Begun } | { go: 'gone' } | Exclude<Verdict, { go: 'now' }>

/** What became of a message that was begun. */
export interface Settlement {
  /** `queued`: it certainly did not go out, and waits again. */
  status: SentStatus
  message_id?: string
  error?: EndReason
  /** Whether it may have cost an answer. */
  spent: boolean
  /** WeChat saw nothing of it. */
  unseen?: boolean
  /** The other parts of its entry end so. */
  rest?: EndReason
  /** The lane's hold from now on; null ends it. */
  hold?: Hold | null
}

export interface Settled {
  entries: Entry[]
  files: KeptFile[]
}

export interface EndedEntry {
  entry: Entry
  /** How many messages were ended. */
  ended: number
  /** Nobody needs these any more. */
  files: KeptFile[]
}

/** What is known of sending to one user of one session. */
export interface Lane {
  id: number
  session: string
  user: string
  counter: Counter
  hold?: Hold
  /** Unix ms: after trouble on the way, what waits is not tried before. */
  not_before: number
  failures: number
}

/** The way of a call: written down, begun message by message, settled, ended. */
export interface Calls {
  /**
   * Writes a call down, unless its key is taken or, with mode `fail`, admission says no. Where it may go now its first part
   * begins as `first`, if that is given, in the same write.
   *
   * @throws SvcError `quota_exhausted` when 1,000 messages wait for that user already, or 100 sends of the session for
   *   a yes
   */
  enqueue(entry: NewEntry, terms: Terms, first?: SentMessage): Promise<Enqueued>

  /** The entry that answers for a key: for a day. A call whose process died is ended first. */
  keyed(key: string): Promise<Entry | undefined>

  /** Whether `count` messages to that user may go now; nothing is taken, and nothing written. */
  verdict(session: string, user: string, count: number, terms: Terms): Promise<Verdict>

  /**
   * From here on these parts may have gone out, as one message; if admission says so by what is counted at this moment: of
   * several that begin at once, in whatever processes, no more begin than may. `later`: the slot is taken.
   */
  begin(ids: readonly number[], botId: string, terms: Terms, message: SentMessage): Promise<Began>

  /** @returns the entries of the message's parts as they stand then, and files that nobody needs any more */
  settle(begun: Begun, settlement: Settlement): Promise<Settled>

  /**
   * Ends what waits of an entry; what is on its way goes its way.
   *
   * @param only an entry of another mode is no such entry
   * @returns undefined when there is no such entry
   */
  end(id: number, reason: EndReason, only?: SendMode): Promise<EndedEntry | undefined>
}

/** Lanes, and what waits in them. A lane is one process's while it sends, by a lease of a minute; that is not durable. */
export interface Lanes {
  /** The lanes in which something waits for its user. */
  lanes(): Promise<Lane[]>

  lane(id: number): Promise<Lane | undefined>

  /** The first of what waits for the user of a lane, in its order: up to 100 parts. */
  next(lane: number): Promise<EntryPart[]>

  /** Takes a lane, or keeps it. @returns false while another process that lives has it */
  claim(lane: number): Promise<boolean>

  release(lane: number): Promise<void>

  /** What waits is not tried before `notBefore` (Unix ms). Not durable. */
  later(lane: number, notBefore: number, failures: number): Promise<void>
}

/** Entries, looked at. */
export interface Entries {
  entry(id: number): Promise<Entry | undefined>

  /** What waits for users, oldest first. */
  list(filter?: { user_id?: string; session?: string }): Promise<Entry[]>

  /** How many messages wait for users, and since when (Unix ms) the oldest call of them. */
  depth(): Promise<{ messages: number; oldest_at?: number }>

  /** What is counted of a session's users, or of one of them. */
  counters(session: string, user?: string): Promise<ReadonlyMap<string, Counter>>

  /** Names of the kept files that are still needed. */
  files(): Promise<string[]>
}

/** What becomes of calls while nobody sends them. */
export interface OutboxCare {
  /**
   * A person says yes to a send that waits for that: admission is judged now.
   *
   * @returns undefined when nothing of that id waits for a yes
   */
  approve(id: number, terms: Terms): Promise<Approved | undefined>

  /** The call still makes progress. Not durable. */
  renew(id: number): Promise<void>

  /** These parts, which wait, were refused before they were on their way; the lane is held. */
  refuse(ids: readonly number[], lane: number, hold: Hold): Promise<void>

  /** Ends what has waited too long: a week for its user, or a day for a person's yes, which ends with `unasked`. */
  expire(reason: EndReason, unasked: EndReason): Promise<EndedEntry[]>

  /**
   * Messages on their way since before `before` (Unix ms; 0: whatever the time), or of a process that died, are unknown from
   * now on; calls of dead processes end. @returns how many messages are unknown now
   */
  reap(before: number): Promise<number>

  /** Removes what answers for nothing any more. */
  prune(): Promise<void>
}

export type Outbox = Calls & Lanes & Entries & OutboxCare
