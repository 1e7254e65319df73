/** The outbox as senders use it. What must outlive a power cut shares its commit with the writes of others. */
import type { Outbox as OutboxFace } from '../outbox.ts'
import type { Outbox, OutboxParts } from './outbox.ts'
import { verb, type Ways } from './ways.ts'

export function outboxVerbs(
  outbox: Outbox,
  { ends, entries, lanes }: OutboxParts,
  { plain: read, light, write }: Ways,
): OutboxFace {
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
    depth: verb(read, entries.depth.bind(entries)),
    files: verb(read, entries.files.bind(entries)),
    lane: verb(read, lanes.get.bind(lanes)),
    lanes: verb(read, lanes.waiting.bind(lanes)),
    counters: verb(read, lanes.counters.bind(lanes)),
    claim: verb(light, lanes.claim.bind(lanes)),
    release: verb(light, lanes.release.bind(lanes)),
    later: verb(light, lanes.later.bind(lanes)),
    // Looking takes no write lock: there are hardly ever any.
    async reap(before) {
      const { parts, calls } = await read(() => ends.orphans(before))
      return parts.length + calls.length === 0 ? 0 : write(() => ends.reap(before))
    },
    keyed: async key => ((await read(() => ends.hasKey(key))) ? write(() => ends.keyed(key)) : undefined),
  }
}
