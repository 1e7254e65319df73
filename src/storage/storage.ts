/**
 * All that svc stores, as an engine provides it: the interfaces of this folder, and `ingest`, which joins
 * message log and state. The rules for every method are in `store.ts`.
 */
import type { NodeInfo, Replication } from '../model/nodes.ts'
import type { Marks } from '../model/session.ts'
import type { Leases } from './leases.ts'
import type { PolledMessage } from './messages.ts'
import type { State } from './state.ts'
import type { Store } from './store.ts'

export interface Storage {
  readonly state: State
  readonly store: Store
  readonly leases: Leases
  /** This process among the nodes that share the store; absent on an engine for one machine. */
  readonly node?: Node

  /**
   * Stores what a poll brought, in three steps:
   * 1. The messages, each once and in order, with their events and answer counters.
   * 2. What the messages say about their senders: `nextContextOf` with `written_at` of a new message, else
   *   with `repeated`.
   * 3. Marks and cursor.
   * Each step is atomic, except that the messages of a large batch appear part by part. Only this method may
   * reject (or its process be killed) after the first or the second step. The cursor is then behind, never
   * ahead. The same batch, passed again, completes it, also under another name of its session.
   *
   * **Retries:** every try has the `id` of the batch. The process that tried before answers with the row ids
   * of its earlier tries: it does not count these as duplicates. It may forget them when the cursor has
   * moved, when no session has the token, or when a batch with another `id` comes for that token.
   *
   * **Duplicates:** `deduplication.ts` decides. A message id is stored once. A message of another bot with
   * the same id is stored under `<bot>:<id>`. A message with a new id is a duplicate if bot, sender, content
   * and a time with fractions of a second match a message that was polled and stored within the last 15 s by
   * the engine's clock, in an earlier batch. The new id is not remembered.
   *
   * **Counters:** a new message restarts the counter of its user at `written_at`, unless that message or a
   * later one restarted it already. `last_sent_at` stays. If the session has another bot by the end, the
   * message restarts no counter.
   *
   * **Readers first:** a reader needs only the first step. It gets a message as soon as the message is
   * stored, and may answer immediately. So the write that stores a message also stores what it says about its
   * user: from then on `ContextStore.find` returns it in every process. `listUsers` and `countWriters` may
   * return it only after the second step. The result `gone` takes it back. The second step starts after
   * waiting readers in this process had time to take the message.
   *
   * **Fence:** the batch belongs to a session with that name and token whose cursor is `cursorFrom`, or
   * `cursorTo` after an earlier try. If there is no such session (after a logout, a rename, a new login or a
   * poll of another process), only the first step is done, under the given name, since upstream may not send
   * the messages again. The result is `gone`.
   */
  ingest(batch: PolledBatch): Promise<Ingested>

  /** Closes everything, the store first. Safe to call twice. */
  close(): Promise<void>
}

export interface Node {
  /** Time in ms until the lease of this process is over, by its own clocks; 0 when it is over. */
  readonly leaseLeftMs: number
  /** How long the last commit took to be durable. */
  readonly commitMs: number
  /** How far the clock of the database is ahead of this machine's, as the last renewal of the lease found. */
  readonly clockOffsetMs: number
  /** Returns the nodes, this one first. */
  list(): Promise<NodeInfo[]>
  /** Returns what is known about the standbys of the database. */
  readReplication(): Promise<Replication>
  /** Shows others where this process answers, and lets them know whether it wants the same token. */
  setUrl(url: string, token?: string): void
}

export interface PolledBatch {
  /** Id of the batch: the same in each try to store it. No other batch has it. */
  id: string
  session: string
  /** Token that the batch was polled with, and the bot of that token. */
  token: string
  botId: string
  /** Cursor that the batch was polled with, and the cursor that came with it. */
  cursorFrom: string
  cursorTo: string
  messages: readonly PolledMessage[]
  /** Marks of the session, same as in `PolledSessions.mark`. */
  marks?: Marks | undefined
  /** Arrival of the batch in Unix ms, by the clock that dated the messages. */
  now: number
}

export interface Ingested {
  /** Row id of each message, or `duplicate`. */
  rows: readonly (number | 'duplicate')[]
  /** `gone`: the session no longer matches the fence. */
  cursor: 'moved' | 'gone'
}
