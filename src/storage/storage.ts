/** All that svc keeps, as an engine gives it: the interfaces of this folder, and the one verb that joins log and state. */
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
   * Takes in what a poll brought: stores the messages, each once, in their order; then what they say of those who wrote
   * (`contextAfter`); then moves the cursor. Durable. A later step never comes without the earlier ones, so a crash between
   * leaves the cursor behind, never ahead, and the same batch again completes it. A batch that was rejected may be given
   * again too, also under another name of its session: what was stored of it counts as new as long as `messages` is the
   * same array.
   *
   * **Once:** an id is stored once; under a new id a message counts as delivered again if sender, content and a create time
   * with parts of a second match one that was stored within the last 15 s, in an earlier batch. With a new message the
   * count of answers to its user begins anew at its `written_at`, unless a later one began it already; that stands in the
   * same write as the message.
   *
   * **Fence:** `session`, `token` and `cursorFrom` say whose batch it is. Of a session that was logged out, renamed, logged
   * in anew or polled by another process meanwhile only the messages are stored, since upstream may not send them again;
   * contexts, marks and cursor stay as they are.
   */
  ingest(batch: PolledBatch): Promise<Ingested>

  /** Gives everything back, the store first. Safe to call twice. */
  close(): Promise<void>
}

export interface PolledBatch {
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
  /** Unix ms by the clock that dated the messages. */
  now: number
}

export interface Ingested {
  /** For each message its row id, or `duplicate`. */
  rows: readonly (number | 'duplicate')[]
  /** `gone`: the fence is not the session's any more. */
  cursor: 'moved' | 'gone'
}
