/**
 * The outbox. A call of send is written down as an entry with a part per message (`enqueue`). A message is begun, handed over
 * and settled. The entry ends when no part waits (`asked`, `queued`) or is on its way (`sending`). What is true of every verb
 * stands in `store.ts`; verbs say where they are not durable, and durable ones of several callers may share a commit.
 *
 * - **Who sends.** An entry of mode `fail` belongs to the process that enqueued it: for others its parts are `gone`. It ends
 *   with that process, or 10 minutes after it was enqueued or last renewed. It needs no lane. Parts of mode `queue` go
 *   out from the process that has their lane: `begin` takes it as `claim` does. A part is `sending` before the network hears
 *   of it; when its sender dies then, it is `unknown`, and never begun again.
 * - **Rows of the log.** A part of mode `queue` has its row from `enqueue` on, with status `queued`; while it is `asked` its
 *   reason is `approvalReason`. A part of mode `fail` has its row from when it begins. `begin` puts its message in the row of
 *   the first part. Parts that go joined to it keep `text` and `raw`, and have the client ids `<client_id>+1` and so on;
 *   `sent_with` of their rows is the `message_id` of the first row, also after that changes. A part whose row retention took
 *   begins with a new one. `settle` gives the first row upstream's `message_id`, unless another row has it; the parts bear it
 *   all the same. A settlement `queued` makes each row what its part says, with the client id `queued-<part>`, the time of
 *   the settlement, and no reason. Each new status or reason code of a row is an event.
 * - **Admission.** `enqueue`, `verdict`, `approve`, `begin` and `waiting` ask `admit`; those that write ask it in their write,
 *   so that two sends of a session see each other. The engine reads there what it knows of the user: the context and the
 *   counter, by `countNow`. `ahead` are the parts of mode `fail` of the lane that are `queued` (of processes not known to be
 *   dead); for `begin` and `waiting` nobody is. `slots` are those taken up to `patienceMs` from now (later ones were taken by
 *   a clock that was set back); of the user the newest `perWindow` within `windowMs`.
 * - **Counts.** The counter of a lane rises by one as a message begins, from what `countNow` says. A settlement that is not
 *   `spent` takes that back, and sets `last_sent_at` to that of `Begun.counter`; neither where the user wrote since. A slot
 *   is taken as a message begins, and by a `begin` that answers `later`, for the part. It is given back when the part misses
 *   it by a second or ends before it begins, or when WeChat saw nothing of the message. A part that waits again has none.
 *   `tries` rises with a settlement `queued` that is `spent`, and with `holdBack`.
 */
import type { Closed, Hold, SendRules, Verdict } from '../model/admission.ts'
import type { MediaKind, MessageKind, SentStatus } from '../model/message.ts'
import type { Next } from '../model/next-step.ts'
import type { Counter } from '../model/session.ts'
import type { SentMessage } from './messages.ts'

/** A file of ours that a part is sent from, and no other part. */
export interface KeptFile {
  /** Its id in `MediaPlaces.kept`. */
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
  /** Words of the detail that are not svc's own. */
  quote?: string
}

/** Why a call did not go on whose process died, or stood still too long: of its parts that waited, and of one on its way. */
export const stoppedBefore: EndReason = {
  code: 'shutting_down',
  detail: 'svc was stopped before it was sent',
}
export const stoppedWhile: EndReason = {
  code: 'upstream_error',
  detail: 'svc was stopped while it was sent; it may have arrived',
  hint: 'Do not send it again before you know: ask the user, or look at the phone.',
}

/** Why a part waits that a person has to say yes to. Who looks at it sees where its file comes from, whatever it is called. */
export const approvalReason = (file?: KeptFile): EndReason => ({
  code: 'approval',
  detail: `waits for a person to say yes${file?.source ? `; the file is from ${file.source}` : ''}`,
  ...(file?.source && { quote: file.source }),
})

export interface EntryPart {
  id: number
  entry: number
  lane: number
  kind: 'text' | MediaKind
  /** Of its message; `TEXT` without `waiting`. */
  msg_type: MessageKind
  /** `asked`: a person has to say yes first. */
  status: SentStatus | 'asked'
  /** How often upstream may have refused it. */
  tries: number
  /** Row id in the log; absent before a part of mode `fail` is on its way. */
  message?: number
  /** Upstream's. */
  message_id?: string
  /** Why it was not sent, is in doubt, or waits again. */
  error?: EndReason
  /** When it may go by the pace (Unix ms, and parts of one). */
  slot?: number
  /** As it was enqueued, `raw` and `file` too; '' and absent without `waiting`. Not kept once the entry has ended. */
  text: string
  file?: KeptFile
  raw: string
}

export interface Entry {
  id: number
  session: string
  user: string
  mode: SendMode
  /** It waits for a person's yes (mode `queue`). Where it may not go then, `queue` waits for the user and `fail` for another yes. */
  asked?: SendMode
  /** What is sent, as the caller of `enqueue` put it; '' without. */
  content: string
  /** It has a key, for which it answers. */
  keyed?: true
  created_at: number
  /** 10 minutes after it was enqueued or renewed; of mode `queue` a week after `created_at`, with `asked` a day. */
  expires_at: number
  /** No part waits or is on its way. */
  ended: boolean
  /** Who made the call, who said yes to it, and who took it back, each as `principalText`. Versions before kept none. */
  made_by?: string
  approved_by?: string
  ended_by?: string
  /** The lane's counter when it ended; later perhaps without `last_sent_at`. */
  counter?: Counter
  /** The result of a call of version 0.1, as JSON. */
  answer?: string
  parts: EntryPart[]
}

export interface NewEntry {
  made_by: string
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

/** A message that may be out from now on. */
export interface Begun {
  lane: number
  /** Ids of the parts that go as this message. */
  parts: number[]
  /** Row id in the log. */
  row: number
  /** With this message counted; `last_sent_at` is that of the answer before it. */
  counter: Counter
  hold?: Hold
  /** Of the first part. */
  tries: number
  slot?: number
  /** The newest context token of the user; absent where none is known. */
  token?: string
}

export type Enqueued =
  /**
   * `behind`: the call is of mode `queue`, and other parts of that mode are `queued` or `sending` for that user. It is not
   * judged then. Parts that are `asked` hold nobody up. A call with `asked` is judged in the same way, and waits for its yes
   * whatever the verdict.
   */
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
  /** `queued`: it certainly did not go out, and waits again; of parts of mode `queue` alone. */
  status: SentStatus
  message_id?: string
  error?: EndReason
  /** It may have cost an answer. */
  spent: boolean
  /** WeChat saw nothing of it. It is not `spent` then. */
  unseen?: boolean
  /** The parts that wait of the first part's entry are refused for this. */
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

/** After trouble on the way. */
export interface Pause {
  /** Unix ms: what waits is not tried before. */
  not_before: number
  /** How often that was, one after the other. */
  failures: number
}

/** Why what waits in a lane is not tried for a while. */
export interface HoldBack {
  /** Upstream refused the lane's messages. */
  hold?: Hold
  /** Ids of parts that upstream refused before they began, as they were uploaded. */
  refused?: readonly number[]
  pause?: Pause
}

/** What is known of sending to one user of one session; made with the first call for that user, and kept. */
export interface Lane extends Pause {
  id: number
  session: string
  user: string
  /** What is counted now. */
  counter: Counter
  /** As of `Begun`. */
  token?: string
  hold?: Hold
  /** Whether a process sends what waits there now. */
  busy: boolean
}

/** A lane that this process has. */
export type ClaimedLane = Lane & {
  /** The first 100 parts of mode `queue` that are `queued`, in the order in which they were enqueued. */
  parts: EntryPart[]
}

/** A lane with parts of mode `queue` that are `queued`. */
export type WaitingLane = Lane & {
  /** Whether its first part may go now. The slots that lanes before it in the list would take count as taken; `busy` lanes take none. */
  verdict: Verdict
  /** It may not, since its session has no slot within `patienceMs` (`isFull`). */
  crowded: boolean
}

/** Some lanes: those for which any of this is true. */
export interface LaneFilter {
  ids?: readonly number[]
  /** Lanes of these users. */
  of?: { session: string; users: readonly string[] }
  /** The status of a message became `queued` or `refused` there, after this `revision`. */
  since?: number
}

/** The way of a call: written down, begun message by message, settled, ended. */
export interface Calls {
  /**
   * Writes a call down, unless its key is taken (as of `keyed`, whatever it sends) or, with mode `fail`, admission says no.
   * Where a call of mode `fail` may go now its first part begins as `first`, if that is given, in the same write. Nothing
   * else is taken: no lane, and no slot for a verdict `later`.
   *
   * @throws SvcError `quota_exhausted` when more than 1,000 messages of mode `queue` would wait for that user or be on their
   *   way, but for those that wait for a yes; or when more than 100 sends of the session would wait for that
   */
  enqueue(entry: NewEntry, rules: SendRules, first?: SentMessage): Promise<Enqueued>

  /**
   * The entry that answers for a key, whatever session it is of: for a day after the call, which in mode `fail` counts from
   * its end. A call of mode `fail` of which nothing went out gives its key back as it ends. One whose process died or whose
   * time is over is ended first, as by `reap`. Where the clock is not to be trusted no time is over.
   */
  keyed(key: string): Promise<Entry | undefined>

  /** Whether `count` messages to that user may go now; nothing is taken, and nothing written. */
  verdict(session: string, user: string, count: number, rules: SendRules): Promise<Verdict>

  /**
   * These parts may have gone out from here on, as one message, if admission says `now` of what is counted at this moment: of
   * several that begin at once, in whatever processes, no more begin than may. `later`: the first part has that slot.
   */
  begin(ids: readonly number[], botId: string, rules: SendRules, message: SentMessage): Promise<Began>

  /**
   * To be called once. After `reap` took the message for lost its row, counter and hold still learn what became of it, but a
   * row does not wait again: it stays `unknown`. Its parts and entry stay as they ended.
   *
   * @returns the entries of the message's parts as they stand then, and files that nobody needs any more
   */
  settle(begun: Begun, settlement: Settlement): Promise<Settled>

  /**
   * Refuses the parts of an entry that wait; what is on its way goes its way.
   *
   * @param how `only`: an entry of this mode that has not ended. `by`: who ends it, kept where that refuses any part
   * @returns undefined when there is no such entry
   */
  end(id: number, reason: EndReason, how?: { only?: SendMode; by?: string }): Promise<EndedEntry | undefined>
}

/** Lanes, and what waits in them. A lane is one process's while it sends, for a minute from each `claim`. */
export interface Lanes {
  /**
   * The lanes in which something waits, or some of them, in the order in which the first part of each was enqueued. Nothing is
   * taken, and nothing written. What it costs depends on the lanes that the filter names, never on how many others wait.
   *
   * @returns `revision`: all that was written before this look is in it; the next look may begin `since` there
   */
  waiting(rules: SendRules, some?: LaneFilter): Promise<{ lanes: WaitingLane[]; revision: number }>

  /** Takes a lane, or keeps it. Not durable. @returns undefined while another process has it */
  claim(lane: number): Promise<ClaimedLane | undefined>

  /** Gives a lane back, if it is ours. Not durable. */
  release(lane: number): Promise<void>

  /** What waits in a lane is not tried for a while. */
  holdBack(lane: number, how: HoldBack): Promise<void>
}

/** Entries, looked at. */
export interface Entries {
  entry(id: number): Promise<Entry | undefined>

  /** Entries of mode `queue` that have not ended, oldest first; those that wait for a yes until `expires_at`. */
  list(filter?: { user_id?: string; session?: string }): Promise<Entry[]>

  /** How many parts of mode `queue` are `queued`; and `created_at` of the first of `list`. */
  depth(): Promise<{ messages: number; oldest_at?: number }>

  /** By user, what is counted now of everybody known to a session, or of one of them. */
  counters(session: string, user?: string): Promise<ReadonlyMap<string, Counter>>

  /** The file of a part that is `asked` or `queued`, by its row in the log; undefined for any other row. */
  fileOf(message: number): Promise<KeptFile | undefined>

  /** Names of the kept files of parts that wait or are on their way. */
  files(): Promise<string[]>
}

/** What becomes of calls while nobody sends them. */
export interface OutboxCare {
  /**
   * A person says yes to a send that waits for that: admission is judged now, for all its parts and as by `verdict`. From then
   * on the entry is as any of mode `queue`; one that was to `fail` keeps its day.
   *
   * @param by who says yes, kept with it
   * @returns undefined when nothing of that id waits for a yes, or its `expires_at` is over
   */
  approve(id: number, rules: SendRules, by: string): Promise<Approved | undefined>

  /** The call, of mode `fail`, still makes progress. Not durable. */
  renew(id: number): Promise<void>

  /**
   * Ends the entries of mode `queue` whose time is over, those that wait for a yes for the reason `unasked`. To be called while
   * the clock is to be trusted.
   *
   * @returns those of which something waited
   */
  expire(reason: EndReason, unasked: EndReason): Promise<EndedEntry[]>

  /**
   * Ends what nobody will end. Messages that began before `before` (Unix ms), and those of processes known to be dead, are
   * `unknown` (`stoppedWhile`). Calls of mode `fail` of such processes end, and those whose time is over: what of them waits
   * is refused (`stoppedBefore`). With 0, where the clock is not to be trusted, only processes count.
   *
   * @returns how many parts became `unknown`; their files are left to `MediaPlace.sweep`
   */
  reap(before: number): Promise<number>
}

export type Outbox = Calls & Lanes & Entries & OutboxCare
