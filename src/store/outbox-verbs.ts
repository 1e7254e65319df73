/**
 * The outbox as senders use it: flat, asynchronous verbs. What must outlive a power cut shares its commit with the
 * writes of others.
 */
import type { Hold, Verdict } from '../model/admission.ts'
import type { Counter } from '../model/session.ts'
import type { EndReason, Entry, EntryPart, SendMode } from './entries.ts'
import type { Lane } from './lanes.ts'
import type { SentMessage } from './messages.ts'
import type {
  Began,
  Begun,
  EndedEntry,
  Enqueued,
  NewEntry,
  Outbox,
  Settled,
  Settlement,
  Terms,
} from './outbox.ts'

interface Doing {
  read<T>(work: () => T): T
  /** A transaction that does not wait for the disk: what a power cut takes of it costs a wait. */
  light<T>(work: () => T): T
  /** In the next transaction; on the disk when it resolves. */
  write<T>(work: () => T): Promise<T>
}

export class OutboxVerbs {
  readonly #outbox: Outbox
  readonly #do: Doing

  constructor(outbox: Outbox, doing: Doing) {
    this.#outbox = outbox
    this.#do = doing
  }

  /** As `Outbox.enqueue`. */
  enqueue(entry: NewEntry, terms: Terms, first?: SentMessage): Promise<Enqueued> {
    return this.#do.write(() => this.#outbox.enqueue(entry, terms, first))
  }

  /** As `Outbox.begin`. */
  begin(parts: readonly number[], botId: string, terms: Terms, message: SentMessage): Promise<Began> {
    return this.#do.write(() => this.#outbox.begin(parts, botId, terms, message))
  }

  /** As `Outbox.settle`. */
  settle(begun: Begun, settlement: Settlement): Promise<Settled> {
    return this.#do.write(() => this.#outbox.settle(begun, settlement))
  }

  /** As `Outbox.end`. */
  end(id: number, reason: EndReason, only?: SendMode): Promise<EndedEntry | undefined> {
    return this.#do.write(() => this.#outbox.end(id, reason, only))
  }

  expire(reason: EndReason): Promise<EndedEntry[]> {
    return this.#do.write(() => this.#outbox.expire(reason))
  }

  /** WeChat refused parts before they were on their way. */
  refuse(parts: readonly number[], lane: number, hold: Hold): Promise<void> {
    return this.#do.write(() => this.#outbox.refuse(parts, lane, hold))
  }

  /** As `Outbox.reap`. */
  async reap(before: number): Promise<number> {
    // Looking takes no write lock: there are hardly ever any.
    const { parts, calls } = this.#do.read(() => this.#outbox.orphans(before))
    if (parts.length + calls.length === 0) return 0
    return this.#do.write(() => this.#outbox.reap(before))
  }

  prune(): Promise<void> {
    return this.#do.write(() => this.#outbox.prune())
  }

  /** The entry that answers for a key, if there is one. */
  async keyed(key: string): Promise<Entry | undefined> {
    return this.#do.read(() => this.#outbox.hasKey(key))
      ? this.#do.write(() => this.#outbox.keyed(key))
      : undefined
  }

  async verdict(session: string, user: string, count: number, terms: Terms): Promise<Verdict> {
    return this.#do.read(() => this.#outbox.verdict(session, user, count, terms))
  }

  async entry(id: number): Promise<Entry | undefined> {
    return this.#do.read(() => this.#outbox.entries.get(id))
  }

  async list(filter?: { user_id?: string; session?: string }): Promise<Entry[]> {
    return this.#do.read(() => this.#outbox.entries.list(filter))
  }

  /** Names of the kept files that are still needed. */
  async files(): Promise<string[]> {
    return this.#do.read(() => this.#outbox.entries.files())
  }

  /** What waits for the user of a lane, in its order, as far as one message may need to look. */
  async next(lane: number): Promise<EntryPart[]> {
    return this.#do.read(() => this.#outbox.next(lane))
  }

  /** The lanes in which something waits for its user. */
  async lanes(): Promise<Lane[]> {
    return this.#do.read(() => this.#outbox.lanes.waiting())
  }

  async lane(id: number): Promise<Lane | undefined> {
    return this.#do.read(() => this.#outbox.lanes.get(id))
  }

  /** What is counted of a session's users, or of one of them. */
  counters(session: string, user?: string): Map<string, Counter> {
    return this.#do.read(() => this.#outbox.lanes.counters(session, user))
  }

  /** Takes a lane, or keeps it. @returns false while another process has it */
  async claim(lane: number): Promise<boolean> {
    return this.#do.light(() => this.#outbox.lanes.claim(lane))
  }

  async release(lane: number): Promise<void> {
    this.#do.light(() => this.#outbox.lanes.release(lane))
  }

  /** What waits in a lane is not tried before that (Unix ms). */
  async later(lane: number, notBefore: number, failures: number): Promise<void> {
    this.#do.light(() => this.#outbox.lanes.later(lane, notBefore, failures))
  }

  /** A call of mode `fail` still makes progress. */
  async renew(entry: number): Promise<void> {
    this.#do.light(() => this.#outbox.renew(entry))
  }
}
