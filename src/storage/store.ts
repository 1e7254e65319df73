/**
 * The message store: the interfaces that an engine implements. Each room gets only the interfaces that it
 * needs.
 *
 * Rules for every method in this folder that does not say otherwise:
 * - **Asynchronous and flat.** Arguments and results are data; no callback runs inside a transaction. The
 *   numbers that a rule needs are passed with the call (pace, quota) or when the engine is opened
 *   (retention). The rule is a pure function that the engine calls in its transaction: `admit` and
 *   `currentCounterOf` (sends), `nextContextOf` and `withMarks` (polled batches), `sessionKeyOf` and
 *   `nameKeyOf` (comparison of names).
 * - **Order.** The log has one order. Row ids grow, stay below 2^53, may have gaps, and are never reused. No
 *   id becomes visible after a higher one. A call that starts after another one resolved comes after it in
 *   the order.
 * - **Atomic.** What a call writes becomes visible to all processes at once, at the latest when the call
 *   resolves. A process that is killed leaves all of it or nothing.
 * - **Durable.** A write survives a power cut from the moment when the call resolves, and a row from the
 *   moment when it is visible. A method marked "not durable" may lose its write when the machine, or the
 *   database behind the engine, crashes. Then rows are read again and waits start again; nothing is sent
 *   twice.
 * - **Processes.** What belongs to a process that died is free immediately if the engine can detect the
 *   death, otherwise when its time is over: rows after 30 s, lanes after a minute, calls of send after 10
 *   minutes. No rule needs to know it sooner.
 * - **Errors.** A method rejects with SvcError `store_unavailable` if the engine does not work at the moment:
 *   nothing was written, and the call may be repeated. An engine that loses the answer to a commit rejects
 *   with the same error although the write may have succeeded. Callers handle that case: a message whose
 *   `begin` was rejected is not sent, and ends as `unknown`; claimed rows are claimed again; `append` with
 *   `seen` compares again; a send without a key may be queued twice if it is repeated. After `close` the
 *   methods of `Store` reject with `shutting_down`, waits end, and nothing calls other methods. Further
 *   errors are named at the methods.
 * - **A row for itself.** A method with RowsFailedError changes many rows that have nothing to do with each other. A row that
 *   cannot be changed is in the error, and all others are changed.
 * - **Names of sessions.** Filters compare names by `sessionKeyOf` and select all sessions with that name
 *   (`ReadFilter`). Methods that write or count for one session take its name as `SessionStore` spells it.
 * - **Times and sizes.** Times are Unix ms by the clock that the engine was opened with. Characters are
 *   UTF-16 code units. A `limit` is 1 or more; a list without one returns everything.
 * - **Text** is returned as it was stored, including `raw` and `data`. `EntryPart.text` may have U+0000 and
 *   lone surrogates. In `StoredMessage.text`, which is for searching, and in `message_id`, U+FFFD may replace
 *   them. No other text has lone surrogates. U+0000 occurs at most in the id of a user or in a key: an engine
 *   that cannot store it there escapes it.
 */
import type { Scope } from '../model/access.ts'
import type { SvcError } from '../model/error.ts'
import type { AgentStore } from './agents.ts'
import type { AskStore } from './asks.ts'
import type { AuditStore, NewAuditLine } from './audit.ts'
import type { BackupStore } from './backups.ts'
import type { EventLog } from './events.ts'
import type { InvitationStore } from './invitations.ts'
import type { KeyStore } from './keys.ts'
import type { HistoryFilter, HistoryRows, ImportedMessage, ReadFilter, StoredMessage } from './messages.ts'
import type { OutboxStore } from './outbox.ts'
import type { PeopleStore } from './people.ts'
import type { RelayStore } from './relays.ts'
import type { TopicStore } from './topics.ts'
import type { WebhookStore } from './webhooks.ts'

export interface Store {
  /** Whether the stored data outlives this process. */
  readonly durable: boolean
  readonly intake: Intake
  readonly log: MessageLog
  readonly events: EventLog
  readonly consumers: Consumers
  readonly acknowledgements: Acknowledgements
  readonly backlog: Backlog
  readonly conversations: ConversationStore
  readonly names: UserNameStore
  readonly outbox: OutboxStore
  readonly webhooks: WebhookStore
  readonly keys: KeyStore
  readonly invitations: InvitationStore
  readonly audit: AuditStore
  readonly backups: BackupStore
  readonly people: PeopleStore
  readonly agents: AgentStore
  readonly asks: AskStore
  readonly topics: TopicStore
  readonly relays: RelayStore
  readonly maintenance: StoreMaintenance
}

/** Imports messages of other programs. For polled messages see `Storage.ingest`. */
export interface Intake {
  /** Returns the number of rows in the log, of any kind. */
  count(): Promise<number>

  /**
   * Returns for each message whether `add` would skip it: a received message by the rules of `ingest`, a
   * sent message by its id only.
   */
  has(batch: readonly ImportedMessage[]): Promise<boolean[]>

  /**
   * Adds messages of another program that are not in the log yet, each as a batch of its own. A received
   * message gets `past`; a sent one gets status `accepted`; a message without an id gets `local:` and the
   * `derived_id`. Imported messages are part of the history: `search`, `Thread.last`, `countMessages`, the
   * list of users, and `listAfter` and `listRecent` without a direction return them. They are not news: no
   * consumer receives one, none is unread or counted as waiting, and none restarts an answer counter. They
   * count as stored now, so retention keeps them as long as any other message of today.
   *
   * @returns how many were new
   */
  add(batch: readonly ImportedMessage[]): Promise<number>
}

/** Read access to the log. No method here writes. */
export interface MessageLog {
  /** Returns the row id of the newest row; 0 if there is none. */
  getHead(): Promise<number>

  /**
   * Resolves when there is a row after `seen`; when a row's status, an event or an endpoint was written since
   * the call, or rows are redelivered (in this process immediately, by another process within a second); when
   * `ms` have passed, the signal aborts or the store closes. While rows of a consumer are leased it resolves
   * every second, since a lease expires without a signal. May resolve without a reason: check again.
   */
  wait(seen: number, ms: number, signal: AbortSignal): Promise<void>

  /** Returns the rows after a row id, oldest first. */
  listAfter(id: number, wanted: ReadFilter): Promise<StoredMessage[]>

  /**
   * Returns the rows of these ids, in the order of `ids`; unknown ids are skipped.
   *
   * @param characters same as `ReadFilter.characters`
   * @param scope ids of other messages are unknown
   */
  getByIds(ids: readonly number[], characters?: number, scope?: Scope): Promise<StoredMessage[]>

  /**
   * Like `getByIds`, by `message_id`.
   *
   * @returns `rest`: the ids, in order, that were not read because `characters` was reached
   */
  getByMessageIds(
    ids: readonly string[],
    characters?: number,
    scope?: Scope,
  ): Promise<{ rows: StoredMessage[]; rest: readonly string[] }>

  /**
   * A page of the rows that match a filter, newest first by row id. A long search yields to other work of
   * this process.
   *
   * @throws SvcError `invalid_arguments` for a search text of more than 10,000 characters; the signal's
   *   reason
   */
  search(filter: HistoryFilter, signal?: AbortSignal): Promise<HistoryRows>

  /**
   * Returns the lowest and highest id of the rows in a time range (Unix ms, `since` inclusive, `until` exclusive).
   * Rows between them may be outside the range, as a message may arrive late. `low` > `high` if there are none.
   */
  findRange(range: { since?: number | undefined; until?: number | undefined }): Promise<{
    low: number
    high: number
  }>
}

/** Rows that were delivered to a consumer. */
export interface ConsumerClaim {
  lease: number
  /** Oldest first, at least one. Either all are redelivered or all are new. */
  rows: StoredMessage[]
  /** Ids of the rows that were delivered before. */
  redelivered: ReadonlySet<number>
}

/** A row that a program has leased. */
export interface LeasedRow {
  lease: number
  /** Id of the row. */
  id: number
  /** Whether it was delivered before. */
  redelivered: boolean
}

/** Whether a consumer is named `default`, or `<key id>/default` for a key: it starts at the first row. */
export const startsAtFirst = (consumer: string): boolean => /^(\w+\/)?default$/.test(consumer)

/** How often rows are written to readers that never confirm them, before they count as read. */
export const maxHandOuts = 3

/**
 * Named readers of the log. Each has its own position, which never expires. Names are case-sensitive.
 *
 * Claimed rows are leased. Acknowledging a lease removes it. If the lease was given up, was not renewed for
 * 30 s, or its process died, its rows are claimed again, before newer rows. So no row is lost, and parallel
 * calls of one consumer, in any processes, never get the same row. An expired lease may be acknowledged or
 * renewed until its rows are claimed again. After that, and after its removal, both do nothing.
 *
 * No method here is durable: after a power cut a position may be an older one, and rows come again.
 */
export interface Consumers {
  /**
   * Claims the next received rows. The first claim of a new name puts it at the end of the log; a name that
   * `startsAtFirst`, at the start. With a session: only rows of that session, which a claim without a session
   * does not return again. With a scope and no session, the position also passes the rows that are not in it.
   *
   * A new name may have no place (`maxReaders`): then the name of the same key that was idle for `liveMs` and longest gives
   * its place, and is new again. The same holds for `register` and `readAfter`.
   *
   * @returns undefined if there is none
   * @throws SvcError `invalid_arguments` for a consumer that acknowledges; `rate_limited` if there is no place
   */
  claim(consumer: string, wanted: Omit<ReadFilter, 'direction'>): Promise<ConsumerClaim | undefined>

  /**
   * Gives a new name its position, if it has none: after all rows that any reader has received; `atEnd`: where its first
   * claim would put it; `after`: after this row.
   */
  register(consumer: string, options?: { atEnd?: boolean; after?: number | undefined }): Promise<void>

  /**
   * Returns the rows of a claim from that id on, because the reader did not see them: they are delivered
   * again, and are in `redelivered` only if they are in `redelivered` of this claim. The rows before that id
   * stay leased.
   */
  giveBack(claim: Pick<ConsumerClaim, 'lease' | 'redelivered'>, from: number): Promise<void>

  /** Acknowledges a lease: its rows reached the reader. */
  ack(lease: number): Promise<void>

  /**
   * Gives up a lease: its rows may not have reached the reader. They are delivered again, in `redelivered`.
   */
  nack(lease: number): Promise<void>

  /**
   * Records that the rows of a lease were written to a reader that has to confirm them. At the third time without
   * a confirmation (`maxHandOuts`) they count as read: the lease is acknowledged.
   *
   * @returns whether they count as read now
   */
  recordHandOut(lease: number): Promise<boolean>

  /** Renews a lease: it expires 30 s from now. */
  renew(lease: number): Promise<void>

  /**
   * Leases rows to a program, oldest first, each by itself: `renewLeases` and `settleLeases` of any process take the lease,
   * which outlives this one. It lasts 45 s. Rows are the same as those of `claim`, but while a row of a person (session and
   * user) is leased or claimed, no other one of that person is leased: it waits, and those of others go on. At most
   * `maxLeases` are open.
   *
   * @returns none if there is none
   * @throws as `claim`
   */
  lease(
    consumer: string,
    wanted: Omit<ReadFilter, 'direction' | 'characters'>,
  ): Promise<{ rows: LeasedRow[]; expiresAt: number }>

  /** Renews those of these leases (one or more) of programs that are not over: they expire 45 s from now. `leases`: these. */
  renewLeases(consumer: string, leases: readonly number[]): Promise<{ leases: number[]; expiresAt: number }>

  /**
   * Ends those of these leases of programs that are not over, and returns them. read: the rows are done. unread: they
   * are delivered again. unseen: the same, since the program did not see them.
   */
  settleLeases(
    consumer: string,
    leases: readonly number[],
    as: 'read' | 'unread' | 'unseen',
  ): Promise<number[]>

  /**
   * Removes a consumer with its position and its leases. Its name is then a new one. `KeyStore` does so with the
   * consumers of a key that is revoked, and refuses new ones of that key.
   *
   * @returns whether there was one
   */
  remove(consumer: string): Promise<boolean>
}

/**
 * Consumers whose reader acknowledges what it has processed. Nothing else moves their position: rows that
 * were delivered and not acknowledged are returned again, by every call.
 */
export interface Acknowledgements {
  /**
   * Acknowledges everything up to the row `ack`, then returns the rows after it. A lower row than before
   * changes nothing. With a session both concern that session only. The first call turns the consumer into an
   * acknowledging one permanently and ends its leases: it starts where `claim` would, or before the oldest
   * row that was leased. `limit` may be 0. Not durable.
   *
   * @returns `redelivered`: ids of rows that were delivered before
   * @throws SvcError `invalid_arguments` for a row beyond the delivered rows, with this session or without
   *   one
   */
  readAfter(
    consumer: string,
    ack: number,
    wanted: Omit<ReadFilter, 'direction'>,
  ): Promise<Pick<ConsumerClaim, 'rows' | 'redelivered'>>

  /**
   * Records that the rows of `readAfter` up to that id were delivered: the reader may acknowledge them from
   * now on.
   */
  markHandedOut(consumer: string, upTo: number, session?: string): Promise<void>
}

/** How far a consumer is behind. */
export interface ConsumerLag {
  consumer: string
  /** Received rows that were never delivered to it, or that it has not acknowledged. */
  messages: number
  /** When it last read, Unix ms, precise to an hour. */
  seen_at: number
  /** Whether only acknowledgements move it. */
  acknowledges: boolean
}

/** Counts of unread rows. No method here writes. */
export interface Backlog {
  /**
   * Counts rows, up to `limit`. For a consumer name: the rows that its claims would return, for a new name as
   * if it started now; for an acknowledging consumer, the rows that it has not acknowledged. For a row id:
   * the received rows after it.
   */
  countWaiting(
    from: string | number,
    wanted: Pick<ReadFilter, 'limit' | 'session' | 'scope'>,
  ): Promise<number>

  /**
   * Returns the `most` consumers that read last, those of keys after all others, in no order.
   *
   * @param which `since` (Unix ms): only those that read since then; `of`: only those of this key
   */
  listLags(most: number, which?: { since?: number; of?: string | undefined }): Promise<ConsumerLag[]>

  /** Returns the number of published events after a cursor of `EventLog`. */
  countEvents(cursor: string): Promise<number>

  /**
   * Returns the number of published events after the position of each named reader of `EventLog`. If there
   * are more than `most` readers: of those that read last, those of keys after all others.
   */
  listReaderLags(most: number): Promise<{ reader: string; events: number }[]>

  /** Returns the consumers to which `claim` redelivers rows. */
  findConsumersToRedeliver(): Promise<ReadonlySet<string>>

  /**
   * Returns the ids of rows stored since then (Unix ms), oldest first; the newest ones if there are more
   * than `limit`.
   */
  listRecent(since: number, wanted: Omit<ReadFilter, 'characters'>): Promise<number[]>
}

/** Summary of the log for a user in one session, or in several. */
export interface Thread {
  user: string
  /** Newest message. */
  last: StoredMessage
  /**
   * Number of unread messages in the session of `last`: received after the newest message to the user that
   * WeChat accepted, and not marked as read. Counted among the newest 100 messages of the selected sessions.
   */
  unread: number
  /**
   * True if every selected message is a send that was refused: the user wrote nothing, and nothing was sent
   * or waits.
   */
  refused: boolean
}

/** Selects conversations. */
export interface ThreadQuery {
  /** Only messages of this session, or with this user. Default: all. */
  session?: string | undefined
  user?: string | undefined
  /** Only users whose newest message, in any session, has a lower row id. */
  before?: number | undefined
  /** Maximum number of users. */
  limit: number
  /**
   * By user, the sessions that get one thread each. Any other user gets one thread, of all selected sessions.
   */
  sessions?: ReadonlyMap<string, readonly string[]>
  /** Only messages of these accounts and users: the others end no unread messages and are counted nowhere. */
  scope?: Scope | undefined
  /** The person whose marks count: the id of a key. Without it, the marks that all other persons share. */
  reader?: string | undefined
}

/** The log grouped by user: newest message and unread count. */
export interface ConversationStore {
  /**
   * Lists the threads of users, the user with the newest message first. The user '' is left out.
   *
   * @returns `before`: pass it for the next page; absent at the end
   */
  listThreads(page: ThreadQuery): Promise<{ threads: Thread[]; before?: number | undefined }>

  /**
   * Returns the sessions in which the user has a name, or wrote any of the newest 30 messages with that
   * user.
   */
  sessionsOf(user: string): Promise<readonly string[]>

  /** Returns the users who wrote, in any session, and whose ids are this one except for capitals. */
  listAlike(user: string): Promise<readonly string[]>

  /**
   * Marks everything up to that row as read; a lower row than before changes nothing. Without a row, counts
   * one more message as unread, until a row is passed or WeChat accepts a later answer. Not durable. Does nothing for a
   * user without a message in the session.
   *
   * @param reader same as `ThreadQuery.reader`
   */
  markRead(session: string, peer: string, upTo?: number, reader?: string): Promise<void>

  /**
   * Counts messages by their `timestamp`, in spans of equal length starting at `since` (Unix ms), numbered
   * from 0; empty spans are left out. `sent` does not count messages that were refused, wait, or are being
   * sent.
   */
  countMessages(
    since: number,
    spanMs: number,
    scope?: Scope,
  ): Promise<{ span: number; received: number; sent: number }[]>

  /**
   * Returns the number of `suspect` messages with a `timestamp` since then (Unix ms), by name of the session.
   * Sessions without such messages are not in it. What another process wrote may count up to a second later.
   */
  countSuspects(since: number): Promise<ReadonlyMap<string, number>>
}

/**
 * Names that people gave to the users of a session; they stay when the session is logged out. Names of users
 * are compared by `nameKeyOf`.
 */
export interface UserNameStore {
  /** Returns the names of a session's users, by user id. */
  list(session: string): Promise<ReadonlyMap<string, string>>

  /** Returns the users with that name, each with the session. */
  find(name: string): Promise<{ session: string; user_id: string }[]>

  /**
   * Names a user of a session, in the form of `normalizeUserName`, or removes the name if it is undefined.
   * The session need not exist.
   *
   * @param seen the users that the caller sees; all if absent. Another user may have the name, so that the error does not tell
   *   that somebody has it
   * @throws SvcError `invalid_arguments` if another user of the session, whom the caller sees, has that name
   */
  set(session: string, user: string, name: string | undefined, seen?: readonly string[]): Promise<void>
}

/** Rows that are removed because they are over, or changed: `nouns/old-rows.ts` has when that is. */
export type OldKind =
  | ('line' | 'turn' | 'question' | 'key' | 'invitation' | 'session')
  | ('send' | 'key of send' | 'notice' | 'bulletin' | 'answer')

/** Maintenance of the engine, and its state. */
export interface StoreMaintenance {
  /**
   * Returns why the store cannot be written now, as an error for callers (`shutting_down` once closed);
   * undefined if it can. Never rejects.
   */
  checkWritable(): Promise<SvcError | undefined>

  /**
   * Whether the clock may decide that something is too old to be kept: not until svc has run for a day
   * after it jumped, in this process or while none ran (`ClockTrust`).
   */
  isClockTrusted(): Promise<boolean>

  /** Adds a line to the audit log if its subject differs from the one of the call before, of any process. */
  noteRetention(line: NewAuditLine): Promise<void>

  /** Stores what is known of the clock, for the next start. Call it every minute. Not durable. */
  noteClock(): Promise<void>

  /**
   * Removes expired data (README, "Retention"), oldest first, in steps that do not delay writers. Every
   * process may call it at any time. Consumers that lose unread messages are named in the log of the process.
   *
   * @returns how many such messages were removed, counted for each consumer
   * @throws RowsFailedError with that
   */
  prune(signal?: AbortSignal): Promise<number>

  /**
   * Removes some rows of a kind that were over before a time. Not durable.
   *
   * @param before Unix ms; of notices, bulletins and sends, which have a time of their own after their end: now
   * @param kept ids of those that stay
   * @returns whether there may be more
   * @throws RowsFailedError with that
   */
  removeOld(kind: OldKind, before: number, kept?: readonly string[]): Promise<boolean>

  /**
   * Gives space that `prune` freed back to the file system, in such steps, if no server of the engine does that.
   *
   * @throws SvcError if another program keeps the files large
   */
  shrink(signal?: AbortSignal): Promise<void>
}
