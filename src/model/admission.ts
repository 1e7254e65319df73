/**
 * Decides whether a message may go to a user now. This is the only place that decides by window, quota, pace
 * and refusals. Pure: it takes facts and rules and returns a verdict. The engine of the store calls it in the
 * transaction that begins a message, so that all processes obey it (`storage/outbox.ts` describes the facts).
 */

/** The pace of sending: `perSecond` in one session, `perWindow` to one user within any `windowMs`. */
export interface PaceRules {
  readonly perSecond: number
  readonly perWindow: number
  readonly windowMs: number
}

export interface SendRules {
  /** Answers per message of the user. */
  readonly quota: number
  /** How long after the user's last message the bot may answer. */
  readonly windowMs: number
  readonly pace: PaceRules | 'off'
  /** The longest wait of a message for its slot. */
  readonly patienceMs: number
}

/** A pause after a refusal that the counters do not explain. Times in Unix ms. */
export interface Hold {
  /** When the user had last written at that time; 0 for never. */
  readonly since: number
  /** No message goes before this time, unless the user writes. */
  readonly until: number
  /** Refusals in a row. */
  readonly count: number
}

/** What is known about one user of one session. Times in Unix ms. */
export interface SendFacts {
  readonly now: number
  /** When the user last wrote. */
  readonly receivedAt?: number | undefined
  /** Answers used since then. */
  readonly used: number
  /** Messages before this one; `unslotted` of them have no slot yet. */
  readonly ahead: { readonly messages: number; readonly unslotted: number }
  readonly hold?: Hold | undefined
  /** Taken slots: the newest one of the session, and the newest ones of the user, oldest first. */
  readonly slots: { readonly last?: number | undefined; readonly user: readonly number[] }
  /** The slot that this message already has. */
  readonly slot?: number | undefined
}

/** No messages before this one, for `SendFacts.ahead`. */
export const noneAhead = { messages: 0, unslotted: 0 }

export type ClosedVerdict =
  | { readonly go: 'no'; readonly why: 'window'; readonly idleMs: number }
  | { readonly go: 'no'; readonly why: 'quota'; readonly left: number }
  | { readonly go: 'no'; readonly why: 'pace' | 'held' | 'never_wrote'; readonly waitMs: number }

export type Verdict =
  /** Take `slot` together with the message. */
  | { readonly go: 'now'; readonly slot?: number | undefined }
  /** The message may go at the time of `slot`. Take the slot now. */
  | { readonly go: 'later'; readonly slot: number }
  | ClosedVerdict

/**
 * A slot is missed this long after its time: the machine stood still, and all waiting messages wake up at
 * once.
 */
const missedMs = 1000
const firstHoldMs = 30 * 60_000
const longestHoldMs = 6 * 60 * 60_000

/**
 * Decides whether `count` messages may go one after the other. The slot in the verdict is that of the first
 * one.
 */
export function admit(facts: SendFacts, count: number, rules: SendRules): Verdict {
  const { now, receivedAt, used, ahead } = facts
  if (receivedAt !== undefined && now - receivedAt >= rules.windowMs)
    return { go: 'no', why: 'window', idleMs: now - receivedAt }
  const left = Math.max(0, rules.quota - used - ahead.messages)
  if (count > left) return { go: 'no', why: 'quota', left }
  const hold = activeHoldOf(facts)
  if (hold) return { go: 'no', why: hold.since === 0 ? 'never_wrote' : 'held', waitMs: hold.until - now }
  return admitByPace(facts, count, rules)
}

/**
 * Returns the hold if it still counts: the user has not written since. A hold that ends too far in the future
 * was set when the clock was wrong, and does not count.
 */
function activeHoldOf({ now, receivedAt, hold }: SendFacts): Hold | undefined {
  if (!hold || now >= hold.until || hold.until - now > longestHoldMs) return undefined
  return (receivedAt ?? 0) > hold.since ? undefined : hold
}

function admitByPace(facts: SendFacts, count: number, { pace, patienceMs }: SendRules): Verdict {
  const { now, receivedAt, ahead, slot } = facts
  if (pace === 'off') return { go: 'now' }
  if (slot !== undefined && isDue(slot, now)) return { go: 'now', slot }
  const user = [...facts.slots.user]
  let last = facts.slots.last
  let first = now
  let before = now
  for (let nth = 0; nth < ahead.unslotted + count; nth++) {
    const at = nextSlot(pace, now, last, user)
    // Earlier messages already have permission to go.
    if (nth >= ahead.unslotted) {
      if (at - before > patienceMs) {
        // A user who has never written cannot be answered then either.
        const why = receivedAt === undefined ? 'never_wrote' : 'pace'
        if (slot === undefined) return { go: 'no', why, waitMs: at - now }
        // The message had a slot and missed it, so it is not rejected now.
        return { go: 'later', slot: now + patienceMs }
      }
      if (nth === ahead.unslotted) first = at
      before = at
    }
    last = at
    user.push(at)
  }
  return first <= now ? { go: 'now', slot: now } : { go: 'later', slot: first }
}

/** Returns whether a session whose newest slot is at `last` has no free slot within the patience. */
export const isFull = (last = 0, now: number, { pace, patienceMs }: SendRules): boolean =>
  pace !== 'off' && last + 1000 / pace.perSecond - now > patienceMs

/** Returns whether a slot's time has come and is not missed. */
export const isDue = (slot: number, now: number): boolean => now >= slot && now - slot < missedMs

function nextSlot(pace: PaceRules, now: number, last: number | undefined, user: readonly number[]): number {
  const blocking = user.at(-pace.perWindow)
  return Math.max(
    now,
    last === undefined ? now : last + 1000 / pace.perSecond,
    blocking === undefined ? now : blocking + pace.windowMs,
  )
}

/**
 * Returns the probable cause of a refusal (-2), a code that WeChat uses for many causes (protocol notes 5.2).
 * `used` includes the refused message.
 */
export function causeOfRefusal(
  { now, receivedAt, used }: Pick<SendFacts, 'now' | 'receivedAt' | 'used'>,
  { quota, windowMs }: SendRules,
): 'never_wrote' | 'window' | 'quota' | 'unexplained' {
  if (receivedAt === undefined) return 'never_wrote'
  if (now - receivedAt >= windowMs) return 'window'
  return used >= quota ? 'quota' : 'unexplained'
}

/** Returns the hold after a refusal that usually ends with the user's next message. */
export const holdUntilWritten = ({ now, receivedAt = 0 }: Pick<SendFacts, 'now' | 'receivedAt'>): Hold => ({
  since: Math.min(receivedAt, now),
  until: now + longestHoldMs,
  count: 0,
})

/**
 * Returns the hold after a refusal that window and quota do not explain. svc obeys it, but not forever. The
 * hold doubles with each refusal, until the user writes.
 *
 * @param tries how often this message was refused before
 * @returns `hold`, and `giveUp`: the message was refused again right after the user wrote, so the next
 *   message may be tried
 */
export function holdAfterRefusal(
  { now, receivedAt = 0, hold }: Pick<SendFacts, 'now' | 'receivedAt' | 'hold'>,
  tries: number,
): { giveUp: boolean; hold: Hold } {
  const hasWritten = hold !== undefined && receivedAt > hold.since
  // A message time in the future comes from a clock that has been set back since.
  const since = Math.min(receivedAt, now)
  if (hasWritten && tries > 0) return { giveUp: true, hold: { since, until: now, count: 0 } }
  const count = hasWritten ? 0 : (hold?.count ?? 0)
  const holdMs = Math.min(firstHoldMs * 2 ** count, longestHoldMs)
  return { giveUp: false, hold: { since, until: now + holdMs, count: count + 1 } }
}
