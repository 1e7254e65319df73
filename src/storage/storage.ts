/**
 * All that svc keeps, as an engine gives it: the interfaces of this folder, and the one verb that joins log and state. What is
 * true of every verb stands in `store.ts`.
 */
import type { Marks } from '../model/session.ts'
import type { Leases } from './leases.ts'
import type { PolledMessage } from './messages.ts'
import type { State } from './state.ts'
import type { Store } from './store.ts'

export interface Storage {
  readonly state: State
  readonly store: Store
  readonly leases: Leases

  /**
   * Takes in what a poll brought, in three steps, each whole, but for the messages of a large batch, which appear part by part: the
   * messages, each once, in their order, with their events and counts of answers; then what they say of those who wrote (`contextAfter`, with `written_at` of a new message, else with
   * `repeated`); then marks and cursor. This verb alone may reject, or its process be killed, after the first or the second
   * step: the cursor is behind then, never ahead, and the same batch again completes it, also under another name of its session.
   *
   * **Again:** a try has the `id` of the batch. The process that tried before answers with the rows of its earlier tries: these
   * are not duplicates to it. It may forget them when the cursor has moved, when no session has the token, and when a batch
   * with another `id` comes for that token.
   *
   * **Once:** `deduplication.ts` judges. An id is stored once; the message of another bot under the same id goes by
   * `<bot>:<id>`. Under a new id a message came before if bot, sender, content and a time with parts of a second match one that
   * was polled and stored within the last 15 s by the engine's clock, in an earlier batch; the new id is not remembered.
   *
   * **Counts:** with a new message the counter of its user begins anew at `written_at`, unless that message or a later one began
   * it; `last_sent_at` stays. Where the session has another bot by the end, the message begins no count.
   *
   * **Readers first:** a reader needs the first step alone. It is given a message as soon as that is stored, and may answer at
   * once. So the write that stores a message also stores what it says of its user: from then on `Contexts.find` tells it in every
   * process. `of` and `writers` may tell it after the second step. `gone` takes it back. The second step begins after the readers
   * that wait in this process had time to take the message.
   *
   * **Fence:** the batch belongs to a session of that name and token whose cursor is `cursorFrom`, or `cursorTo` by an earlier
   * try. Where there is none, as after a logout, a rename, a new login or a poll of another process, only the first step is done,
   * under the name given, since upstream may not send the messages again: `gone`.
   */
  ingest(batch: PolledBatch): Promise<Ingested>

  /** Gives everything back, the store first. Safe to call twice. */
  close(): Promise<void>
}

export interface PolledBatch {
  /** The same in each try to take this batch in; that of no other batch. */
  id: string
  session: string
  /** The token it was polled with, and the bot it belongs to. */
  token: string
  botId: string
  /** The cursor it was polled with, and the one that came with it. */
  cursorFrom: string
  cursorTo: string
  messages: readonly PolledMessage[]
  /** As of `Sessions.mark`. */
  marks?: Marks | undefined
  /** Unix ms when the batch came, by the clock that dated the messages. */
  now: number
}

export interface Ingested {
  /** For each message its row id, or `duplicate`. */
  rows: readonly (number | 'duplicate')[]
  /** `gone`: the fence is not the session's any more. */
  cursor: 'moved' | 'gone'
}
