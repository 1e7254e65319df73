/**
 * The outbox. `enqueue` stores a call of send as an entry, with one part for each message. A message is
 * begun, sent and settled. An entry ends when none of its parts waits (`asked`, `queued`) or is being sent
 * (`sending`). The rules for every method are in `store.ts`. Methods that are not durable say so; durable
 * writes of several callers may share a commit.
 *
 * - **Who sends.** An entry of mode `fail` belongs to the process that enqueued it; for other processes its
 *   parts are `gone`. It ends with that process, or 10 minutes after it was enqueued or last renewed. It
 *   needs no lane. Parts of mode `queue` are sent by the process that has their lane: `begin` takes the lane
 *   as `claim` does. A part becomes `sending` before any request is made. If its sender dies then, the part
 *   becomes `unknown`, and is never begun again.
 * - **Rows of the log.** A part of mode `queue` has its row from `enqueue` on, with status `queued`; while
 *   the part is `asked` the reason of the row is `approvalReasonOf`, or `timeReasonOf`. A part of mode `fail` gets its row when
 *   it begins. `begin` writes its message to the row of the first part. Parts that are joined to it keep
 *   their `text` and `raw`, and get the client ids `<client_id>+1` and so on. `sent_with` of their rows is
 *   the `message_id` of the first row, also after that changes. A part whose row was removed by retention
 *   gets a new one when it begins. `settle` gives the first row upstream's `message_id`, unless another row
 *   has it; the parts have it in any case. A settlement `queued` restores each row from its part, with the
 *   client id `queued-<part>`, the time of the settlement, and no reason. Each new status or reason code of a
 *   row is an event.
 * - **Admission.** `enqueue`, `checkAdmission`, `approve`, `begin` and `listWaiting` call `admit`. Methods
 * that write call it in the same write, so that two sends of a session see each other. The engine reads
 * there what it knows about the user: the context, and the counter by `currentCounterOf`. `ahead` are the
 * lane's parts of mode `fail` that are `queued` (of processes not known to be dead); for `begin` and
 * `listWaiting` there are none. `slots` are those taken up to `patienceMs` from now (later ones were taken
 * by a clock that was set back); for the user, the newest `perWindow` within `windowMs`.
 * - **Counts.** The counter of a lane rises by one when a message begins, from the value of
 *   `currentCounterOf`. A settlement that is not `spent` takes that back, and sets `last_sent_at` to the one
 *   in `BegunMessage.counter`; neither happens if the user wrote since. A slot is taken when a message
 *   begins, and by a `begin` that returns `later`, for the part. It is given back if the part misses it by a
 *   second, ends before it begins, or is joined to another part; if a `begin` of the part returns `no`; or
 *   if WeChat never saw the message. A part that waits again has no slot.
 *   `tries` rises with a settlement `queued` that is `spent`, and with `holdBack`.
 */
import { isInScope, type Scope } from '../model/access.ts'
import type { ClosedVerdict, Hold, SendRules, Verdict } from '../model/admission.ts'
import type { MediaKind, MessageKind, SentStatus } from '../model/message.ts'
import type { NextStep } from '../model/next-step.ts'
import type { Counter, UserContext } from '../model/session.ts'
import type { SentMessage } from './messages.ts'

/** A file stored by svc that exactly one part is sent from. */
export interface KeptFile {
  /** Its id in `MediaStores.queued`. */
  name: string
  file_name: string
  size: number
  /** Lower-case hex. */
  md5: string
  /** Source of the file, as the caller named it; for a part that waits for a person's approval. */
  source?: string
}

/** `fail`: is sent by the process whose caller waits, or not at all. `queue`: may wait for the user. */
export type SendMode = 'fail' | 'queue'

/** Why a part was not sent, or why its result is unknown: the fields of an error. */
export interface EndReason {
  code: string
  detail: string
  /** The error's field, and its advice on what to do next. */
  field?: string
  hint?: string
  next?: NextStep
  retry_after?: number
  /** The part of the detail that svc did not write. */
  quote?: string
}

/**
 * The reasons recorded when a call's process died or hung: one for parts that were waiting, one for the part
 * in flight.
 */
export const stoppedBeforeSend: EndReason = {
  code: 'shutting_down',
  detail: 'its process ended, or lost its connection to the store, before it was sent',
}
export const stoppedDuringSend: EndReason = {
  code: 'upstream_error',
  detail: 'its process ended, or lost its connection to the store, while it was sent; it may have arrived',
  hint: 'Do not send it again before you know: ask the user, or look at the phone.',
}

/** Whether a caller may see an entry, by its maker, and by the account and the user of its messages. */
export const isInSight = (
  { scope = {}, made_by }: EntrySight,
  entry: { made_by?: string | undefined; bot?: string | undefined; user?: string | undefined },
): boolean =>
  (made_by === undefined || (entry.made_by !== undefined && made_by.includes(entry.made_by))) &&
  isInScope(scope, entry.bot, entry.user ?? '')

/**
 * Returns why a part waits for a person's approval. The reason names the source of the file, since its file
 * name can be anything.
 */
export const approvalReasonOf = (file?: KeptFile): EndReason => ({
  code: 'approval',
  detail: `waits for a person to say yes${file?.source ? `; the file is from ${file.source}` : ''}`,
  ...(file?.source && { quote: file.source }),
})

/** Why entries of mode `queue` that expired are ended. */
export interface ExpiryReasons {
  late: EndReason
  unasked: EndReason
}

/** The reason of the row of a message that waits for its time (Unix ms). */
export const timeReasonOf = (send_at: number): EndReason => ({
  code: 'time',
  detail: `waits until ${new Date(send_at).toISOString()}`,
})

export interface EntryPart {
  id: number
  entry: number
  lane: number
  kind: 'text' | MediaKind
  /** Type of its message; `TEXT` without `waiting`. */
  msg_type: MessageKind
  /** `asked`: a person must approve it first, or its time has not come. */
  status: SentStatus | 'asked'
  /** How often upstream may have refused it. */
  tries: number
  /** Row id in the log; absent before a part of mode `fail` begins. */
  message?: number
  /** Upstream's. */
  message_id?: string
  /** Why it was not sent, why its result is unknown, or why it waits again. */
  error?: EndReason
  /** Earliest time to send it by the pace (Unix ms, with fractions). */
  slot?: number
  /**
   * `text`, `raw` and `file` as they were enqueued; without `waiting`, '' and absent. Removed when the entry
   * ends.
   */
  text: string
  file?: KeptFile
  raw: string
}

export interface StoredEntry {
  id: number
  session: string
  user: string
  mode: SendMode
  /**
   * Set while the entry waits for a person's approval (mode `queue`). If it may not be sent after the
   * approval, `queue` waits for the user, and `fail` waits for another approval. A part that was being sent
   * when its key ended waits for the approval too if it has to wait again.
   */
  asked?: SendMode
  /** Unix ms: until then it waits, and messages that are sent later overtake it (mode `queue`). */
  send_at?: number
  /** Content of the call, as the caller of `enqueue` passed it; '' by default. */
  content: string
  /** The entry has a key, and answers repeated calls with that key. */
  keyed?: true
  created_at: number
  /**
   * 10 minutes after it was enqueued or renewed. In mode `queue`: a week after `created_at`, with `asked` a
   * day. While it waits for its time, that time; from then on it has a week.
   */
  expires_at: number
  /** No part waits or is being sent. */
  ended: boolean
  /** Principals (as from `formatPrincipal`) that made the call, approved it and cancelled it. */
  made_by?: string
  /** Name of the key that `made_by` acts with. */
  made_by_name?: string
  approved_by?: string
  ended_by?: string
  /** The lane's counter when the entry ended; `last_sent_at` may be absent when it is read later. */
  counter?: Counter
  parts: EntryPart[]
}

export interface NewEntry {
  made_by: string
  /** The id of the request ('' without one), a space, and the address of the call. */
  origin?: string
  session: string
  bot_id: string
  user: string
  mode: SendMode
  asked?: SendMode
  send_at?: number
  /** Unix ms: what still waits then ends. */
  until?: number
  key?: string
  content?: string
  /** What the session knew of the user a moment ago. An engine that keeps that in files does not read them again. */
  known?: UserContext | undefined
  parts: readonly NewPart[]
}

/** One message of a new entry. */
export interface NewPart {
  kind: EntryPart['kind']
  /** Everything that the sending process needs; only for a message that may wait. */
  waiting?: { file?: KeptFile; message: SentMessage }
}

/** A message that may have been sent from now on. */
export interface BegunMessage {
  lane: number
  /** Ids of the parts that are sent as this message. */
  parts: number[]
  /** Row id in the log. */
  row: number
  /** Counter that includes this message; `last_sent_at` is the time of the answer before it. */
  counter: Counter
  hold?: Hold
  /** Tries of the first part. */
  tries: number
  slot?: number
  /** Newest context token of the user; absent if none is known. */
  token?: string
}

export type EnqueueResult =
  /**
   * `behind`: the call is of mode `queue`, and other parts of that mode are `queued` or `sending` for the
   * user. Admission is not checked then. Parts that are `asked` delay no other part. For a call with `asked`
   * admission is checked too; it waits for its approval whatever the verdict is.
   */
  | { state: 'new'; entry: StoredEntry; lane: number; verdict: Verdict | 'behind'; begun?: BegunMessage }
  /** Nothing was written. */
  | { state: 'closed'; verdict: ClosedVerdict }
  /** An earlier call has the key. */
  | { state: 'known'; entry: StoredEntry }

/** `closed`: it may not be sent now, and keeps waiting for an approval. */
export type ApproveResult = { state: 'closed'; verdict: ClosedVerdict } | { state: 'approved'; lane: number }

/** A text that a person changed before the approval. */
export type EditedText = Pick<SentMessage, 'text' | 'raw'>

/** `gone`: this process may not send it any more, since it ended or another process has the lane. */
export type BeginResult =
  | { go: 'begun'; begun: BegunMessage }
  | { go: 'gone' }
  | Exclude<Verdict, { go: 'now' }>

/** The result of a message that was begun. */
export interface Settlement {
  /** `queued`: it was certainly not sent, and waits again; for parts of mode `queue` only. */
  status: SentStatus
  message_id?: string
  error?: EndReason
  /** Whether the message may have used up an answer. */
  spent: boolean
  /** WeChat never saw the message. It is not `spent` then. */
  unseen?: boolean
  /** Refuses the waiting parts of the first part's entry, with this reason. */
  rest?: EndReason
  /** The lane's hold from now on; null ends it. */
  hold?: Hold | null
}

export interface SettleResult {
  entries: StoredEntry[]
  files: KeptFile[]
}

export interface EndedEntry {
  entry: StoredEntry
  /** Number of messages that were ended. */
  ended: number
  /** Files that are no longer needed. */
  files: KeptFile[]
  /** It did not end: its time has come, and it waits in its lane. */
  isLetGo?: true
}

/** Pause after failures. */
interface LanePause {
  /** Unix ms: no try before. */
  not_before: number
  /** Number of failures in a row. */
  failures: number
}

/** Why waiting parts of a lane are not tried for a while. */
export interface HoldBack {
  /** Upstream refused the lane's messages. */
  hold?: Hold
  /** Ids of parts that upstream refused before they began, during their upload. */
  refused?: readonly number[]
  pause?: LanePause
}

/** State of sending to one user of one session. Created with the first call for that user, and kept. */
export interface OutboxLane extends LanePause {
  id: number
  session: string
  user: string
  /** Current counter. */
  counter: Counter
  /** Same as `BegunMessage.token`. */
  token?: string
  hold?: Hold
  /** Whether a process has claimed the lane and is sending its messages now. */
  busy: boolean
}

/** A lane that this process has claimed. */
export type ClaimedLane = OutboxLane & {
  /** The first 100 parts of mode `queue` that are `queued`, in the order in which they were enqueued. */
  parts: EntryPart[]
}

/** A lane with parts of mode `queue` that are `queued`. */
export type WaitingLane = OutboxLane & {
  /**
   * Whether the first part of the lane may be sent now. Slots that earlier lanes of the list would take
   * count as taken; `busy` lanes take none.
   */
  verdict: Verdict
  /** True if that part may not be sent because the session has no slot within `patienceMs` (`isFull`). */
  crowded: boolean
}

/** Selects the lanes for which any of these is true. */
export interface LaneFilter {
  ids?: readonly number[]
  /** Lanes of these users. */
  of?: { session: string; users: readonly string[] }
  /**
   * A `revision` from `listWaiting`: lanes in which a message became `queued` or `refused` after it.
   */
  since?: number
}

/** The steps of a call: enqueue, begin and settle each message, end. */
interface OutboxCalls {
  /**
   * Stores a call, unless its key is taken (as `findByKey` says, whatever the call sends) or, in mode `fail`,
   * admission rejects it. If a call of mode `fail` may be sent now and `first` is given, its first part
   * begins as `first`, in the same write. Nothing else is taken: no lane, and no slot for a verdict `later`.
   *
   * @throws SvcError `quota_exhausted` if more than 1,000 messages of mode `queue` would wait or be in flight
   *   for that user (messages that wait for an approval do not count), or if more than 100 sends of the
   *   session would wait for an approval; for a key with those that share its bounds, if it would have more of
   *   these than it leaves free
   */
  enqueue(entry: NewEntry, rules: SendRules, first?: SentMessage): Promise<EnqueueResult>

  /**
   * Finds the entry that answers for a key, of any session: for a day after the call, in mode `fail` for a
   * day after its end. A call of mode `fail` that sent nothing gives its key back when it ends. A call whose
   * process died or whose time is over is ended first, as by `reap`. While the clock is not trusted no time
   * is over.
   */
  findByKey(key: string): Promise<StoredEntry | undefined>

  /** Whether `count` messages to that user may be sent now. Takes and writes nothing. */
  checkAdmission(session: string, user: string, count: number, rules: SendRules): Promise<Verdict>

  /**
   * Begins these parts: they may have been sent from here on, as one message, if admission returns `now` for
   * the current counts. If several calls begin at once, in any processes, no more begin than admission
   * allows. `later`: the first part has that slot.
   *
   * A queued send of a key goes only from the account that it was queued for, and not after the key has
   * ended. Otherwise nothing begins (`gone`): the entry waits for a person's approval, unless a person has
   * approved it.
   */
  begin(ids: readonly number[], botId: string, rules: SendRules, message: SentMessage): Promise<BeginResult>

  /**
   * Settles a begun message. Call it once. After `reap` took the message for lost, its row, counter and hold
   * are still updated, but a row does not wait again: it stays `unknown`. Its parts and entry stay as they
   * ended.
   *
   * @returns the current entries of the message's parts, and files that are no longer needed
   */
  settle(begun: BegunMessage, settlement: Settlement): Promise<SettleResult>

  /**
   * Refuses the waiting parts of an entry; parts that are being sent continue.
   *
   * @param options `only`: only an entry of this mode that has not ended. `by`: principal that ends it,
   *   stored if any part is refused
   * @returns undefined if there is no such entry
   */
  end(
    id: number,
    reason: EndReason,
    options?: { only?: SendMode; by?: string },
  ): Promise<EndedEntry | undefined>
}

/**
 * Lanes, and what waits in them. A lane belongs to one process while it sends, for a minute from each
 * `claim`.
 */
interface OutboxLanes {
  /**
   * Lists the lanes in which something waits (all, or those of the filter), in the order in which the first
   * part of each was enqueued. Takes and writes nothing. The cost depends on the lanes that the filter
   * selects, never on how many others wait.
   *
   * @returns `revision`: everything written before this call is included; the next call may use it as `since`
   */
  listWaiting(rules: SendRules, some?: LaneFilter): Promise<{ lanes: WaitingLane[]; revision: number }>

  /** Takes a lane, or renews it. Not durable. @returns undefined while another process has it */
  claim(lane: number): Promise<ClaimedLane | undefined>

  /** Gives a lane back, if this process has it. Not durable. */
  release(lane: number): Promise<void>

  /** Delays the next try of the messages that wait in a lane. */
  holdBack(lane: number, how: HoldBack): Promise<void>
}

/** The entries that a caller may see. All others are unknown to it. */
export interface EntrySight {
  /** Only entries of these accounts and users. The account is that of its messages in the log. */
  scope?: Scope
  /** Only entries that one of these principals (as from `formatPrincipal`) made. */
  made_by?: readonly string[]
}

/** What waits for its users: parts of mode `queue` that are `queued`. Not those that wait for an approval. */
export interface WaitingSends {
  sends: number
  messages: number
  users: number
  /** When the oldest of these sends was called; and when the first of them is given up. Unix ms. */
  oldestAt?: number
  firstExpiryAt?: number
}

/** Read access to entries. */
export interface OutboxEntries {
  getEntry(id: number, sight?: EntrySight): Promise<StoredEntry | undefined>

  /**
   * Returns the entries of mode `queue` that have not ended, oldest first. Entries that wait for an approval
   * are in it until `expires_at`.
   */
  list(filter?: { user_id?: string; session?: string; sight?: EntrySight }): Promise<StoredEntry[]>

  getDepth(): Promise<WaitingSends>

  /** Returns the current counters of all users that a session knows, or of one user; by user. */
  getCounters(session: string, user?: string): Promise<ReadonlyMap<string, Counter>>

  /**
   * Returns the file of a part that is `asked` or `queued`, by its row in the log; undefined for any other
   * row.
   */
  fileOf(message: number, sight?: EntrySight): Promise<KeptFile | undefined>

  /** Returns the names of the stored files of parts that wait or are being sent. */
  listFiles(): Promise<string[]>
}

/** What happens to calls while no process sends them. */
interface OutboxMaintenance {
  /**
   * Approves a send that waits for a person's approval. Admission is checked now, for all its parts, as by
   * `checkAdmission`. From then on the entry is like any of mode `queue`; an entry with `asked: 'fail'` keeps
   * its expiry of one day.
   *
   * @param by principal that approves, stored with the entry
   * @param edited replaces the text of the only `asked` part that is a text, and of its row, in the same
   *   write; `content` stays
   * @returns undefined if no entry of that id waits for an approval, its `expires_at` is over, or `edited` has no
   *   text to replace
   * @throws SvcError `unauthorized` if `by` is a key that was revoked
   */
  approve(id: number, rules: SendRules, by: string, edited?: EditedText): Promise<ApproveResult | undefined>

  /** Records that a call of mode `fail` still makes progress. Not durable. */
  renew(id: number): Promise<void>

  /**
   * Lets the entries whose time has come wait in their lanes, and ends the entries of mode `queue` that have expired;
   * those that wait for an approval get the reason `unasked`. Without reasons, for a clock that is not trusted, it ends none.
   *
   * @returns the entries that had a waiting part, and those that were let go
   * @throws RowsFailedError with these
   */
  expire(reasons?: ExpiryReasons): Promise<EndedEntry[]>

  /**
   * Ends what no process will end. Messages that began before `before` (Unix ms), and messages of processes
   * known to be dead, become `unknown` (`stoppedDuringSend`). Calls of mode `fail` end if their process is
   * dead or their time is over: their waiting parts are refused (`stoppedBeforeSend`). With 0, for a clock
   * that is not trusted, only dead processes count.
   *
   * @returns how many parts became `unknown`; their files are left to `MediaStore.sweep`
   * @throws RowsFailedError with that
   */
  reap(before: number): Promise<number>
}

export type OutboxStore = OutboxCalls & OutboxLanes & OutboxEntries & OutboxMaintenance
