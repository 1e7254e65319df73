/**
 * What svc keeps of messages: the interfaces that an engine implements, and that the rooms are given one by one.
 *
 * True of every verb:
 * - **Asynchronous and flat.** Arguments and results are data. No rule of the product runs inside a transaction of the engine;
 *   rules that a verb has to keep (pace, quota, retention) are given to it as numbers.
 * - **Order.** The log has one order: row ids grow, and no id becomes visible after a higher one. A verb that was called
 *   before another one of the same process, and has resolved, comes before it.
 * - **Whole or not at all.** What a verb writes appears as a whole, to this process and to others; a process that is killed
 *   leaves all of it or nothing. Other processes see it at the latest when the verb has resolved, and are woken by it
 *   (`wait`).
 * - **Durable** verbs have reached the disk when they resolve, and outlive a power cut. What a power cut takes of the others
 *   is only read, or waited for, again. Each says which it is.
 * - **Errors.** A verb rejects with SvcError `store_unavailable` where the engine does not work at the moment (nothing was
 *   written then, and the call may be repeated), and `shutting_down` after `close`. Others are named with the verb.
 */
import type { SvcError } from '../model/error.ts'
import type { SentStatus } from '../model/message.ts'
import type { Events } from './events.ts'
import type { HistoryFilter, HistoryRows, PastMessage, StoredMessage, Wanted } from './messages.ts'
import type { Outbox } from './outbox.ts'
import type { Webhooks } from './webhooks.ts'

export interface Store {
  /** Whether what is stored outlives this process. */
  readonly durable: boolean
  readonly intake: Intake
  readonly log: MessageLog
  readonly events: Events
  readonly consumers: Consumers
  readonly acknowledgements: Acknowledgements
  readonly backlog: Backlog
  readonly conversations: Conversations
  readonly names: Names
  readonly outbox: Outbox
  readonly webhooks: Webhooks
  readonly upkeep: Upkeep
}

/** What comes into the log from other programs; for what is polled see `Storage.ingest`. */
export interface Intake {
  /** How many rows the log has, whatever they are. */
  count(): Promise<number>

  /** Of each of these messages of another program whether the log has it, by its id and content. */
  known(batch: readonly PastMessage[]): Promise<boolean[]>

  /**
   * Adds messages of another program that are not there yet, in their order. Durable. They are part of the history alone: no
   * consumer is given one, and a received one bears `past`. They count as stored now, so retention leaves them as long as any
   * other message of today.
   *
   * @returns how many were new
   */
  add(batch: readonly PastMessage[]): Promise<number>
}

/** The log, read. Nothing here writes. */
export interface MessageLog {
  /** Row id of the newest row; 0 when there is none. */
  head(): Promise<number>

  /**
   * Resolves when there is a row after `seen`, something was committed since, here or by another process, `ms` have passed or
   * the signal aborts; at the latest every second while rows of a consumer are leased, since a lease lapses without a word.
   * May resolve for nothing: who waits looks again.
   */
  wait(seen: number, ms: number, signal: AbortSignal): Promise<void>

  /** Rows after a row id, oldest first. */
  after(id: number, wanted: Wanted): Promise<StoredMessage[]>

  /** Rows of these ids, in the order of the ids; those that are not there are passed over. `characters` as of `Wanted`. */
  byIds(ids: readonly number[], characters?: number): Promise<StoredMessage[]>

  /**
   * The same by `message_id`.
   *
   * @returns `rest`: the ids, in their order, that were not looked up for want of room
   */
  byMessageIds(
    ids: readonly string[],
    characters?: number,
  ): Promise<{ rows: StoredMessage[]; rest: readonly string[] }>

  /**
   * A page of what a filter finds, newest first by row id. A long search makes way for other work of this process.
   *
   * @throws SvcError `invalid_arguments` for a needle of more than 10,000 characters; the signal's reason
   */
  history(filter: HistoryFilter, signal?: AbortSignal): Promise<HistoryRows>
}

/** Rows handed to a consumer. */
export interface Claim {
  lease: number
  /** Oldest first; at least one. */
  rows: StoredMessage[]
  /** Row ids that were handed out before. */
  redelivered: ReadonlySet<number>
}

/**
 * Named readers of the log, each with its own position. What is handed out is leased: an acknowledged lease is gone; one that
 * was given up, whose process died, or that was not renewed for 30 s is handed out again, before newer rows. So
 * nothing is lost, and parallel calls of one consumer, in whatever processes, never get the same row. Nothing here is durable:
 * after a power cut rows come again.
 */
export interface Consumers {
  /**
   * The next received rows. A name that is new begins at the end of the log as it is now, `default` at its beginning. With a
   * session the rows of that one alone, and what the consumer read of it is not handed out without one either.
   *
   * @returns undefined when there is none
   * @throws SvcError `invalid_arguments` for a consumer that acknowledges
   */
  claim(consumer: string, wanted: Omit<Wanted, 'direction'>): Promise<Claim | undefined>

  /**
   * The rows of a claim from that id on were shown to nobody this time: they come again, in `redelivered` if they were there
   * before. The others stay leased.
   */
  giveBack(claim: Pick<Claim, 'lease' | 'redelivered'>, from: number): Promise<void>

  /** The rows of a lease have reached their reader. */
  ack(lease: number): Promise<void>

  /** They may not have: they come again, in `redelivered`. */
  nack(lease: number): Promise<void>

  /** The reader is still at it: the lease lapses 30 s from now. */
  renew(lease: number): Promise<void>
}

/**
 * Consumers whose reader acknowledges what it has dealt with. Nothing else moves them: what was handed out and not
 * acknowledged comes again, to every call.
 */
export interface Acknowledgements {
  /**
   * Everything up to the row `ack` is dealt with; a lower row than before moves nothing. Then the rows after it. With a session
   * both are of that one alone. The first call makes the consumer one of this kind: it begins where it is, or before what was
   * handed out and not confirmed.
   *
   * @returns `redelivered`: row ids that were handed out before
   * @throws SvcError `invalid_arguments` for a row beyond what was handed out
   */
  after(
    consumer: string,
    ack: number,
    wanted: Omit<Wanted, 'direction'>,
  ): Promise<Pick<Claim, 'rows' | 'redelivered'>>

  /** The rows up to that id were. Durable: what a reader was given it may always acknowledge. */
  handedOut(consumer: string, upTo: number, session?: string): Promise<void>
}

/** What waits for readers. Nothing here writes. */
export interface Backlog {
  /** How many rows `claim` would give a consumer one after the other, or follow a row id; counted up to `limit`. */
  waiting(from: string | number, wanted: Pick<Wanted, 'limit' | 'session'>): Promise<number>

  /** How many received rows each of the consumers that read last, up to `most`, has not been given. */
  lags(most: number): Promise<{ consumer: string; messages: number }[]>

  /** Consumers that `claim` gives something again, since a lease lapsed. */
  lapsed(): Promise<ReadonlySet<string>>

  /** Ids of rows stored since then (Unix ms), oldest first; the newest of them when they are more than `limit`. */
  recent(since: number, wanted: Omit<Wanted, 'characters'>): Promise<number[]>
}

export interface Thread {
  last: StoredMessage
  /** Received since the last answer, and not marked as read; counted up to 100. */
  unread: number
  /** The user wrote nothing that is kept, and nothing went out or waits: every send was refused. */
  refused: boolean
}

/** The log seen by users: who wrote, the newest message of each, and what nobody has looked at yet. */
export interface Conversations {
  /**
   * Everybody there are messages from or to, each with the row id of the newest of them, in the order of their ids: the
   * first `limit` after `after`.
   */
  peers(after: string | undefined, limit: number): Promise<{ peer: string; newest: number }[]>

  /** The newest of the messages with that user, of one session or of whichever it is. */
  thread(peer: string, session?: string): Promise<Thread | undefined>

  /** The sessions that the user's newest messages went to. */
  writtenTo(user: string): Promise<readonly string[]>

  /** Everything up to that row has been looked at; a lower row than before changes nothing. Not durable. */
  markRead(session: string, peer: string, upTo: number): Promise<void>

  /** Sent messages whose fate is open, waiting or being handed over, and why one waits; of many the newest 1,000. */
  open(): Promise<{ id: number; status: SentStatus; reason_code?: string }[]>

  /**
   * Messages by the time they bear, in spans of equal length from `since` (Unix ms) on; spans without any are left out. Sent is
   * what went out, as far as is known: not what was refused, waits, or is being handed over.
   */
  counts(since: number, spanMs: number): Promise<{ span: number; received: number; sent: number }[]>

  /**
   * By session, how many messages since then (Unix ms) WeChat took without giving them an id, where there are any. What
   * another process wrote may show a second later.
   */
  suspects(since: number): Promise<ReadonlyMap<string, number>>
}

/** What people call the users of a session; kept when it is logged out. */
export interface Names {
  /** By user id, the names of a session's users. */
  of(session: string): Promise<ReadonlyMap<string, string>>

  /** Who is called that, each with the session, ignoring case. */
  called(name: string): Promise<{ session: string; user_id: string }[]>

  /** The sessions in which a user has a name. */
  naming(user: string): Promise<string[]>

  /**
   * Gives a user a name, in the form of `userName`, or takes it away with undefined. Durable.
   *
   * @throws SvcError `invalid_arguments` when another user of the session is called that
   */
  set(session: string, user: string, name: string | undefined): Promise<void>
}

/** What an engine does for itself, and what there is to know of it. */
export interface Upkeep {
  /** Why it cannot be written to now, as callers are told; undefined when it can. Never rejects. */
  trouble(): Promise<SvcError | undefined>

  /** Whether the clock may decide that something is too old to be kept: not within a day after it jumped. */
  trustsClock(): Promise<boolean>

  /**
   * Removes what retention no longer keeps, oldest first, in steps that hold no writer up; and what of the outbox answers for
   * nothing any more. Consumers that lose unread messages are named in the log of the process.
   */
  prune(signal?: AbortSignal): Promise<void>

  /** Writes what waits, ends waits, and gives everything back. Safe to call twice. */
  close(): Promise<void>
}
