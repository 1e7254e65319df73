/** What senders and the outbox say to each other. */
import type { Closed, Hold, SendRules, Verdict } from '../../model/admission.ts'
import type { MediaKind, MessageKind, SentStatus } from '../../model/message.ts'
import type { Next } from '../../model/next-step.ts'
import type { Counter } from '../../model/session.ts'
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
