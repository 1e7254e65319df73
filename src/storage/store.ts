/**
 * What svc keeps of messages: the interfaces that an engine implements, and that the rooms are given one by one.
 *
 * True of every verb in this folder that does not say otherwise:
 * - **Asynchronous and flat.** Arguments and results are data; no callback runs inside a transaction. The numbers that a
 *   rule needs come with the verb (pace, quota), or as the engine is opened (retention). The rule is a pure function that
 *   the engine calls in its transaction: `admit` and `countNow` (sends), `contextAfter` and `marked` (polled batches),
 *   `sessionKey` and `nameKey` (by which names are compared).
 * - **Order.** The log has one order. Row ids grow, stay below 2^53, may leave gaps, and are never given twice; no id becomes
 *   visible after a higher one. A verb that is called after another one resolved comes after it.
 * - **Whole or not at all.** What a verb writes appears as a whole, to all processes, at the latest when the verb resolves; a
 *   process that is killed leaves all of it or nothing.
 * - **Durable.** What a verb wrote outlives a power cut from when it resolves, and a row from when it is visible. A verb that
 *   says "not durable" may lose its write when the machine, or the database behind the engine, breaks down: then rows are
 *   read again and waits begin again; nothing is sent twice.
 * - **Processes.** What belongs to a process that died is free at once where the engine can tell that it died, else when its
 *   time is over: rows after 30 s, lanes after a minute, calls of send after 10 minutes. No rule needs to know it sooner.
 * - **Errors.** A verb rejects with SvcError `store_unavailable` where the engine does not work at the moment: nothing was
 *   written, and the call may be repeated. An engine that loses the answer to a commit rejects in the same way although the
 *   write may stand. Callers bear that: a message whose `begin` was rejected is not handed over, and is unknown in the end;
 *   claimed rows come again; `append` with `seen` compares again; a send without a key may wait twice if it is repeated.
 *   After `close` the verbs of `Store` reject with `shutting_down`, waits end, and nobody calls others. More errors stand at the
 *   verbs.
 * - **Names of sessions.** What narrows compares them by `sessionKey` and means all that bear the name (`Wanted`). What writes
 *   or counts for one session is given its name as `Sessions` spells it.
 * - **Times and sizes.** Times are Unix ms by the clock that the engine was opened with. Characters are UTF-16 code units. A
 *   `limit` is 1 or more; a list without one holds all there is.
 * - **Text** comes back as it went in, `raw` and `data` too. U+0000 and lone surrogates may be in `EntryPart.text`; in
 *   `StoredMessage.text`, which is for searching, and in `message_id`, U+FFFD may stand for them. No other text has lone
 *   surrogates, and U+0000 at most in the id of a user or in a key: an engine that cannot keep it there escapes it.
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

  /** Of each of these messages whether `add` would pass it over: by the rules of `ingest`; a sent one by its id alone. */
  has(batch: readonly PastMessage[]): Promise<boolean[]>

  /**
   * Adds messages of another program that are not there yet, each as a batch of its own. A received one bears `past`, a sent
   * one is `accepted`; one without an id is called `local:` and the `derived_id`. They are part of the history: `history`,
   * `peers`, `Thread.last`, `counts`, and `after` and `recent` without a direction show them. They are no news: no consumer is
   * given one, none is unread or `waiting`, and none begins a count of answers. They count as stored now, so retention leaves
   * them as long as any other message of today.
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
   * Resolves when there is a row after `seen`; when a row's status, an event or an endpoint was written since the call, or
   * rows come again, here at once and by another process within a second; when `ms` have passed, the signal aborts or the
   * store closes. While rows of a consumer are leased it resolves every second, since a lease lapses without a word. May
   * resolve for nothing: look again.
   */
  wait(seen: number, ms: number, signal: AbortSignal): Promise<void>

  /** Rows after a row id, oldest first. */
  after(id: number, wanted: Wanted): Promise<StoredMessage[]>

  /** Rows of these ids, in the order given; ids that are not there are passed over. `characters` as of `Wanted`. */
  byIds(ids: readonly number[], characters?: number): Promise<StoredMessage[]>

  /**
   * The same by `message_id`.
   *
   * @returns `rest`: the ids, in their order, that were not looked up since `characters` were reached
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
  /** Oldest first, at least one; either all come again or all are new. */
  rows: StoredMessage[]
  /** Row ids that were handed out before. */
  redelivered: ReadonlySet<number>
}

/**
 * Named readers of the log, each with its own position, which is kept for ever; names are compared with case. What is
 * claimed is leased. An acknowledged lease is gone; rows of one that was given up, whose process died, or that was not
 * renewed for 30 s are claimed again, before newer rows. So nothing is lost, and parallel calls of one consumer, in whatever
 * processes, never get the same row. A lapsed lease may be acknowledged or renewed until its rows are claimed again; of a
 * lease that is gone, or of a row that another claim took from it, nothing happens, and that is no error. Nothing here is
 * durable.
 */
export interface Consumers {
  /**
   * The next received rows. The first claim of a new name puts it at the end of the log, `default` at its beginning. With a
   * session: rows of that one alone, which a claim without a session does not give again.
   *
   * @returns undefined when there is none
   * @throws SvcError `invalid_arguments` for a consumer that acknowledges
   */
  claim(consumer: string, wanted: Omit<Wanted, 'direction'>): Promise<Claim | undefined>

  /** Gives a new name its place, if it has none: after what any reader was given. */
  begin(consumer: string): Promise<void>

  /**
   * The reader was not shown the rows of a claim from that id on: they come again, in `redelivered` only if they stand there
   * in this claim. The rows before stay leased.
   */
  giveBack(claim: Pick<Claim, 'lease' | 'redelivered'>, from: number): Promise<void>

  /** The rows of a lease have reached their reader. */
  ack(lease: number): Promise<void>

  /** The rows of a lease may not have reached their reader: they come again, in `redelivered`. */
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
   * Everything up to the row `ack` is dealt with; a lower row than before moves nothing. Then the rows after it. With a
   * session both are of that one alone. The first call makes the consumer one of this kind for good and ends its leases: it
   * begins where `claim` would, or before the oldest row that was leased. Not durable.
   *
   * @returns `redelivered`: row ids that were handed out before
   * @throws SvcError `invalid_arguments` for a row beyond what was handed out, with this session or without one
   */
  after(
    consumer: string,
    ack: number,
    wanted: Omit<Wanted, 'direction'>,
  ): Promise<Pick<Claim, 'rows' | 'redelivered'>>

  /** The rows of `after` up to that id are given to the reader, which may acknowledge them from now on. */
  handedOut(consumer: string, upTo: number, session?: string): Promise<void>
}

/** What waits for readers. Nothing here writes. */
export interface Backlog {
  /**
   * How many rows a consumer would be given, claim after claim, if it began now where it is new; of one that acknowledges how
   * many it has not acknowledged. Or how many received ones follow a row id. Up to `limit`.
   */
  waiting(from: string | number, wanted: Pick<Wanted, 'limit' | 'session'>): Promise<number>

  /**
   * How many received rows each of the `most` consumers that read last was never given, or has not acknowledged. In no order.
   */
  lags(most: number): Promise<{ consumer: string; messages: number }[]>

  /** How many events that somebody outside is told of follow a cursor of `Events`. */
  events(cursor: string): Promise<number>

  /** The same of the named readers of `Events`; of more than `most` the furthest. */
  readers(most: number): Promise<{ reader: string; events: number }[]>

  /** Consumers that `claim` gives something again. */
  lapsed(): Promise<ReadonlySet<string>>

  /** Ids of rows stored since then (Unix ms), oldest first; of more than `limit` the newest. */
  recent(since: number, wanted: Omit<Wanted, 'characters'>): Promise<number[]>
}

/** What the log has of a user in one session, or in several. */
export interface Thread {
  user: string
  /** The newest message. */
  last: StoredMessage
  /**
   * Messages of the session of `last` that were received after the newest one to the user that WeChat took, and are
   * not marked as read; among the newest 100 of those that were asked for.
   */
  unread: number
  /** Every message that was asked for is a send that was refused: the user wrote nothing, and nothing went out or waits. */
  refused: boolean
}

/** Which conversations are looked at. */
export interface ThreadPage {
  /** Messages of that session alone, and with that user; of all by default. */
  session?: string | undefined
  user?: string | undefined
  /** Users whose newest message, in whatever session, has a lower row id. */
  before?: number | undefined
  /** Users at most. */
  limit: number
  /** By user, sessions with a thread each. Of another user there is one thread, of all sessions that are asked for. */
  sessions?: ReadonlyMap<string, readonly string[]>
}

/** The log seen by users: who wrote, the newest message of each, and what nobody has looked at yet. */
export interface Conversations {
  /**
   * The threads of users, whose newest message is the newest first; '' is nobody.
   *
   * @returns `before`: of the next page; absent at the end
   */
  threads(page: ThreadPage): Promise<{ threads: Thread[]; before?: number | undefined }>

  /** The sessions in which the user has a name, or wrote any of the newest 30 messages with them. */
  sessionsOf(user: string): Promise<readonly string[]>

  /**
   * Everything up to that row has been looked at; a lower row than before changes nothing. Without a row one message more
   * is unread, until a row is given or WeChat takes a later answer. Not durable.
   */
  markRead(session: string, peer: string, upTo?: number): Promise<void>

  /** Sent messages that wait or are being handed over, and why one waits; of many the newest 1,000. In no order. */
  open(): Promise<{ id: number; status: SentStatus; reason_code?: string }[]>

  /**
   * Messages by their `timestamp`, in spans of equal length from `since` (Unix ms) on, which are numbered from 0; spans
   * without any are left out. `sent` leaves out what was refused, waits, or is being handed over.
   */
  counts(since: number, spanMs: number): Promise<{ span: number; received: number; sent: number }[]>

  /**
   * By name of the session, how many `suspect` messages bear a `timestamp` since then (Unix ms), where there are any. What
   * another process wrote may show a second later.
   */
  suspects(since: number): Promise<ReadonlyMap<string, number>>
}

/** What people call the users of a session; kept when it is logged out. Names of users are compared by `nameKey`. */
export interface Names {
  /** By user id, the names of a session's users. */
  of(session: string): Promise<ReadonlyMap<string, string>>

  /** Who is called that, each with the session. */
  called(name: string): Promise<{ session: string; user_id: string }[]>

  /**
   * Gives a user of a session, which need not exist, a name in the form of `userName`, or takes it away with undefined.
   *
   * @throws SvcError `invalid_arguments` when another user of the session is called that
   */
  set(session: string, user: string, name: string | undefined): Promise<void>
}

/** What an engine does for itself, and what there is to know of it. */
export interface Upkeep {
  /** Why it cannot be written to now, as callers are told (`shutting_down` once closed); undefined when it can. Never rejects. */
  trouble(): Promise<SvcError | undefined>

  /**
   * Whether the clock may decide that something is too old to be kept: not within a day after it jumped, in this process or
   * while none ran (`ClockTrust`).
   */
  trustsClock(): Promise<boolean>

  /**
   * Removes what is kept no longer (README, "Retention"), oldest first, in steps that do not hold writers up. Every process
   * may call it at any time. Consumers that lose unread messages are named in the log of the process.
   */
  prune(signal?: AbortSignal): Promise<void>
}
