/**
 * The outbox as senders use it: flat, asynchronous verbs. What must outlive a power cut shares its commit with the
 * writes of others.
 */
import type { Counter } from '../../model/session.ts'
import type { Outbox, OutboxParts } from './outbox.ts'
import type { Entry } from './outbox-model.ts'

interface Doing {
  read<T>(work: () => T): T
  /** A transaction that does not wait for the disk: what a power cut takes of it costs a wait. */
  light<T>(work: () => T): T
  /** In the next transaction; on the disk when it resolves. */
  write<T>(work: () => T): Promise<T>
}

type How = <T>(work: () => T) => T | Promise<T>

export type OutboxVerbs = ReturnType<typeof outboxVerbs>

export function outboxVerbs(
  outbox: Outbox,
  { ends, entries, lanes }: OutboxParts,
  { read, light, write }: Doing,
) {
  const verb =
    <A extends unknown[], R>(how: How, does: (...args: A) => R) =>
    async (...args: A): Promise<R> =>
      how(() => does(...args))
  return {
    enqueue: verb(write, outbox.enqueue.bind(outbox)),
    approve: verb(write, outbox.approve.bind(outbox)),
    begin: verb(write, outbox.begin.bind(outbox)),
    settle: verb(write, outbox.settle.bind(outbox)),
    end: verb(write, ends.end.bind(ends)),
    refuse: verb(write, outbox.refuse.bind(outbox)),
    expire: verb(write, ends.expire.bind(ends)),
    prune: verb(write, ends.prune.bind(ends)),
    verdict: verb(read, outbox.verdict.bind(outbox)),
    next: verb(read, outbox.next.bind(outbox)),
    renew: verb(light, ends.renew.bind(ends)),
    entry: verb(read, entries.get.bind(entries)),
    list: verb(read, entries.list.bind(entries)),
    files: verb(read, entries.files.bind(entries)),
    lane: verb(read, lanes.get.bind(lanes)),
    /** The lanes in which something waits for its user. */
    lanes: verb(read, lanes.waiting.bind(lanes)),
    claim: verb(light, lanes.claim.bind(lanes)),
    release: verb(light, lanes.release.bind(lanes)),
    later: verb(light, lanes.later.bind(lanes)),
    /** What is counted of a session's users, or of one of them. */
    counters: (session: string, user?: string): Map<string, Counter> =>
      read(() => lanes.counters(session, user)),
    /** As `OutboxEnds.reap`. Looking takes no write lock: there are hardly ever any. */
    async reap(before: number): Promise<number> {
      const { parts, calls } = read(() => ends.orphans(before))
      return parts.length + calls.length === 0 ? 0 : write(() => ends.reap(before))
    },
    /** As `OutboxEnds.keyed`. */
    keyed: async (key: string): Promise<Entry | undefined> =>
      read(() => ends.hasKey(key)) ? write(() => ends.keyed(key)) : undefined,
  }
}
