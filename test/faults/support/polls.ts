/** The polls of a cluster, as the simulated WeChat saw them, and whether their nodes had the right to them. */
import type { RequestInterceptor } from '../../../src/sandbox/core.ts'

/** Time within which a server surely notices that a client has left, on a machine that is busy. */
const noticedMs = 500
/** Time within which a node that is no longer suspended has ended its polls, on such a machine. */
const wokenMs = 2000

export interface Poll {
  /** The client version that the node reports. */
  channelVersion: string
  bot: string
  /** Unix ms. */
  begun: number
  /** Unix ms; absent while it is held. */
  ended?: number
  /** Texts that the answer had. */
  texts: string[]
}

/** A change that a trigger noted. Times are Unix ms by the clock of the database, which is that of the test. */
export interface LeaseChange {
  at: number
  node: string
  /** `host:pid`. */
  name: string
  /** Absent: the row was removed. */
  until?: number
}
export interface OwnerChange {
  at: number
  bot: string
  node?: string
}

export class PollRecord {
  readonly polls: Poll[] = []

  /** Wraps an interceptor so that polls are recorded. */
  readonly around =
    (between: RequestInterceptor): RequestInterceptor =>
    async (request, honest) => {
      const { body, bot, endpoint } = request
      if (endpoint !== 'getupdates' || bot === undefined) return between(request, honest)
      const channelVersion = /"channel_version":"([^"]*)"/.exec(body)?.[1] ?? ''
      const poll: Poll = { channelVersion, bot, begun: Date.now(), texts: [] }
      this.polls.push(poll)
      const answer = await between(request, honest)
      poll.ended = Date.now()
      if (!answer) return answer
      const text = await answer.text()
      poll.texts = [...text.matchAll(/"text":"([^"]*)"/g)].map(found => found[1]!)
      return new Response(text, answer)
    }
}

/** From when to when a node was suspended, Unix ms. */
export interface Span {
  channelVersion: string
  from: number
  to: number
}

interface Rights {
  polls: readonly Poll[]
  leases: readonly LeaseChange[]
  owners: readonly OwnerChange[]
  /** Process id of each node, by what it reports. */
  pids: ReadonlyMap<string, number>
}

/** Judges the beginning of each poll. Changes are in the order in which they were made. */
export function judgeBegins({ polls, leases, owners, pids }: Rights): string[] {
  const leasesOf = Map.groupBy(leases, ({ name }) => Number(name.split(':').at(-1)))
  const ownersOf = Map.groupBy(owners, ({ bot }) => bot)
  const newest = <T extends { at: number }>(changes: readonly T[] = [], at: number) =>
    changes.findLast(change => change.at <= at)
  return polls.flatMap(({ begun, bot, channelVersion }) => {
    const pid = pids.get(channelVersion)
    const own = leasesOf.get(pid ?? 0) ?? []
    const lease = newest(own, begun)
    const owner = newest(ownersOf.get(bot), begun)
    const what = `${channelVersion} began a poll of ${bot} at ${begun}`
    if (!lease || lease.until === undefined || lease.until <= begun)
      return [`${what}: its lease had ended ${begun - (lease?.until ?? lease?.at ?? 0)} ms before`]
    if (owner?.node !== lease.node)
      return [
        `${what}: ${owner?.node ?? 'nobody'} had the account for ${begun - (owner?.at ?? 0)} ms, not ${lease.node}`,
      ]
    return []
  })
}

export interface Overlaps {
  /** In words. */
  forbidden: string[]
  /** Number of polls that a suspended node could not end. */
  ofSuspended: number
}

/** Finds polls of one bot that were held at the same time. A suspended node cannot end its own. */
export function findOverlaps(polls: readonly Poll[], suspended: readonly Span[], now: number): Overlaps {
  const forbidden: string[] = []
  let ofSuspended = 0
  for (const [bot, own] of Map.groupBy(polls, poll => poll.bot)) {
    const inOrder = own.toSorted((one, other) => one.begun - other.begun)
    for (const [nth, poll] of inOrder.entries()) {
      const endedAt = poll.ended ?? now
      for (const later of inOrder.slice(nth + 1)) {
        if (later.begun >= endedAt - noticedMs) break
        const overlapEnd = Math.min(endedAt, later.ended ?? now)
        const wasSuspended = suspended.some(
          ({ channelVersion, from, to }) =>
            channelVersion === poll.channelVersion && from <= later.begun && overlapEnd <= to + wokenMs,
        )
        if (wasSuspended) ofSuspended++
        else
          forbidden.push(
            `${poll.channelVersion} and ${later.channelVersion} polled ${bot} at once for ${overlapEnd - later.begun} ms, from ${later.begun} on`,
          )
      }
    }
  }
  return { forbidden, ofSuspended }
}
