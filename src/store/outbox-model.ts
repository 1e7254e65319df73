/** What senders and the outbox say to each other. */
import type { Closed, Hold, SendRules, Verdict } from '../model/admission.ts'
import type { SentStatus } from '../model/message.ts'
import type { Counter } from '../model/session.ts'
import type { EndReason, Entry, KeptFile } from './entries.ts'

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
