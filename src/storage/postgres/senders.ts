/**
 * What arriving messages say about their senders: the counters of their answers, and the right to answer. A lane has both,
 * with one time, `received_at`. Where a batch restarts the counter only, a lane that ContextStore does not know stays
 * without `first_seen`.
 */
import { clockSkewMs, type Inbound, nextContextOf } from '../../model/session.ts'
import type { Sealer } from '../../platform/sealing.ts'
import type { PolledMessage } from '../messages.ts'
import { mapContextToken } from '../sealed-places.ts'
import type { PolledBatch } from '../storage.ts'

/** A batch for a session. */
interface Written {
  batch: PolledBatch
  key: number
}

/** A lane, as it is read and as it will be. Without `id` it is new. */
export interface SenderLane {
  id?: number
  version?: string
  session: number
  peer: string
  token?: string | undefined
  received_at?: number | undefined
  first_seen?: number | undefined
  used: number
}

/** Notes what the messages say about their senders. @returns whether anything changed */
export function updateContexts(
  { batch, key }: Written,
  lanes: SenderLanes,
  areNew: readonly boolean[],
  { seal }: Sealer,
): boolean {
  let changed = false
  for (const [nth, message] of batch.messages.entries()) {
    if (!message.from_user) continue
    const said = inboundOf(message, areNew[nth]!)
    const token = said.token && mapContextToken(said.token, said.user_id, seal)
    const lane = lanes.of(key, said.user_id)
    const before = contextOf(lane) ?? lanes.takeLowercased(key, said.user_id)
    const after = nextContextOf(before, { ...said, ...(token && { token }) }, batch.now)
    if (!after) continue
    changed = true
    // The counter may have restarted by this message, or by a later one, before the context was known.
    const counted = before ? undefined : countedSince(lane, after.received_at!, batch.now)
    lanes.change({ ...lane, ...after, ...counted })
  }
  return changed
}

/** Restarts the counters of the users who wrote. */
export function updateCounters(
  { batch, key }: Written,
  lanes: SenderLanes,
  areNew: readonly boolean[],
): void {
  for (const [nth, { from_user, written_at: at }] of batch.messages.entries()) {
    if (!from_user || !areNew[nth] || at === undefined) continue
    const lane = lanes.of(key, from_user)
    if (!countedSince(lane, at, batch.now)) lanes.change({ ...lane, received_at: at, used: 0 })
  }
}

/** The counter of a lane, if a message restarted it that is not earlier than `at`. */
function countedSince({ received_at, used }: SenderLane, at: number, now: number) {
  // A time in the future comes from a clock that has been set back since.
  const isValid =
    received_at !== undefined && received_at >= at && received_at <= Math.max(at, now + clockSkewMs)
  return isValid ? { received_at, used } : undefined
}

const contextOf = ({ token, received_at, first_seen, used }: SenderLane) =>
  first_seen === undefined
    ? undefined
    : {
        ...(token !== undefined && { token }),
        ...(received_at !== undefined && { received_at }),
        first_seen,
        used,
      }

function inboundOf(
  { from_user, contextToken, repeated, written_at }: PolledMessage,
  isNew: boolean,
): Inbound {
  const wrote = isNew && written_at !== undefined ? { received_at: written_at } : repeated
  return { user_id: from_user, ...(contextToken && { token: contextToken }), ...wrote }
}

/** The lanes of the senders of a group, by session key and user. */
export class SenderLanes {
  readonly #lanes = new Map<string, SenderLane>()
  readonly #changed = new Set<string>()

  constructor(rows: readonly SenderLane[]) {
    for (const row of rows) this.#lanes.set(nameOf(row), row)
  }

  of(session: number, peer: string): SenderLane {
    return this.#lanes.get(nameOf({ session, peer })) ?? { session, peer, used: 0 }
  }

  change(lane: SenderLane): void {
    this.#lanes.set(nameOf(lane), lane)
    this.#changed.add(nameOf(lane))
  }

  /**
   * Takes the context of a user that was imported from a program with lower-case ids (protocol notes 5.6): a
   * token without a time. With the first message of the user it moves to the real id.
   */
  takeLowercased(session: number, peer: string): ReturnType<typeof contextOf> {
    const lane = this.of(session, peer.toLowerCase())
    const brought = contextOf(lane)
    if (brought?.token === undefined || brought.received_at !== undefined) return undefined
    this.change({ ...lane, token: undefined, first_seen: undefined })
    return brought
  }

  /** What has changed here: lanes that are written if no other writer has changed them, and new ones. */
  changes(): { lanes: SenderLane[]; new_lanes: SenderLane[] } {
    const changed = [...this.#changed].map(name => this.#lanes.get(name)!)
    return {
      lanes: changed.filter(({ id }) => id !== undefined),
      new_lanes: changed.filter(({ id }) => id === undefined),
    }
  }
}

const nameOf = ({ session, peer }: Pick<SenderLane, 'session' | 'peer'>) => `${session} ${peer}`
