/**
 * Every bound that all callers share, and how much of it one caller may take. A caller is a key with the keys that it made
 * (`familyOf`), the signature of a topic, or, without proof of who it is, a network. `half`: a caller alone may take half; beside
 * others it takes at most as much as it leaves free. The owner, who makes the keys, may take the rest.
 * `test/server/shares.test.ts` fails for one that a greedy caller uses up.
 */
interface Share {
  readonly most: number
  readonly each: number
}

const half = (most: number): Share => ({ most, each: most / 2 })
const mebibyte = 1024 * 1024

export const shares = {
  /** Bytes of large bodies in memory, for all services of the process. */
  bodies: half(96 * mebibyte),
  /**
   * The same of callers who have proved nothing, and the number of their bodies that are being read. Without room for one,
   * a body of a network that has more ends.
   */
  unprovenBytes: half(8 * mebibyte),
  unprovenBodies: half(64),
  /** Files that wait for their send; of their bytes, too. */
  uploads: half(1000),
  /** Logins in progress; fewer where the runtime has fewer requests. Invitations have half of them, and each a quarter. */
  codes: half(2000),
  /** Messages that wait for a contact. */
  waiting: half(1000),
  /** Sends of an account that wait for an approval, or for their time. */
  heldBack: half(100),
  /** Notices of a topic that wait for a person, and their bytes. Beyond these, notices are counted by name. */
  notices: half(10_000),
  noticeBytes: half(8 * mebibyte),
  webhooks: half(100),
  /** Characters of the headers of all webhooks, names and values. */
  webhookHeaders: half(512 * 1024),
  topics: half(1000),
  invitations: half(1000),
  /** Exports that are read at the same time in a process: each holds a page of messages and a media file. */
  exports: half(4),
  /** MCP: sessions, streams of the older transport, and questions that wait for a person. */
  mcpSessions: half(3000),
  mcpStreams: half(3000),
  mcpQuestions: half(1000),
  /** Unread bytes of all streams. Beyond it, those that read nothing for longest end: who reads is not disturbed. */
  unread: { most: 64 * mebibyte, each: 64 * mebibyte },
} as const satisfies Record<string, Share>

/** Bounds of which each caller has its own: nobody shares them. */
export const ownBounds = {
  /** Open calls of a key or a network; a key has its long polls and streams besides. */
  openCalls: 200,
  /** Links of event streams. */
  eventLinks: 1000,
  /** Places of named readers. */
  readers: 1000,
} as const

/**
 * Whether a caller would take too much of a bound.
 *
 * @param all what there is
 * @param own what the caller has of it; undefined for the owner
 */
export const takesTooMuch = (
  { most }: Pick<Share, 'most'>,
  all: number,
  own: number | undefined,
  more = 1,
): boolean => all + more > most || (own !== undefined && own + more > most - all - more)

/** What all callers have taken of a bound, of which one has no more than it leaves free. */
export class SharedRoom {
  readonly #share: Share
  readonly #taken = new Map<unknown, number>()
  #total = 0

  constructor(share: Share) {
    this.#share = share
  }

  /**
   * Takes some room for a caller.
   *
   * @param isAlone the room is the caller's alone
   * @returns whether there is that much
   */
  take(caller: unknown, amount: number, isAlone = false): boolean {
    const own = this.#taken.get(caller) ?? 0
    if (takesTooMuch(this.#share, this.#total, isAlone ? undefined : own, amount)) return false
    this.#total += amount
    this.#taken.set(caller, own + amount)
    return true
  }

  /** Returns the caller that has taken most, if that is more than another one has taken. */
  findGreedier(than: unknown): unknown {
    let found = than
    for (const [caller, amount] of this.#taken) if (amount > (this.#taken.get(found) ?? 0)) found = caller
    return found === than ? undefined : found
  }

  giveBack(caller: unknown, amount: number): void {
    const left = (this.#taken.get(caller) ?? 0) - amount
    this.#total -= amount
    if (left > 0) this.#taken.set(caller, left)
    else this.#taken.delete(caller)
  }
}
