/**
 * Whether a message may go to a user now: the one judge of window, quota, pace and refusals. Pure: facts and rules in,
 * a verdict out. The engine of the store asks it in the transaction that takes a message off, so that all processes obey
 * (`storage/outbox.ts` says with which facts).
 */

/** How fast one may send: `perSecond` in a session, `perWindow` to one user in any `windowMs`. */
export interface PaceRules {
  readonly perSecond: number
  readonly perWindow: number
  readonly windowMs: number
}

export interface SendRules {
  /** Answers to one message of the user. */
  readonly quota: number
  /** The user may be answered for so long after they wrote. */
  readonly windowMs: number
  readonly pace: PaceRules | 'off'
  /** A message waits at most so long for its slot. */
  readonly patienceMs: number
}

/** WeChat refused, and the counters do not say why. Times in Unix ms. */
export interface Hold {
  /** When the user had last written then; 0 for never. */
  readonly since: number
  /** Nothing goes before, unless the user writes. */
  readonly until: number
  /** Refusals in a row. */
  readonly count: number
}

/** What is known of one user of one session. Times in Unix ms. */
export interface SendFacts {
  readonly now: number
  /** When the user last wrote. */
  readonly receivedAt?: number | undefined
  /** Answers used since then. */
  readonly used: number
  /** Messages that go first: `unslotted` of them have no slot yet. */
  readonly ahead: { readonly messages: number; readonly unslotted: number }
  readonly hold?: Hold | undefined
  /** Slots taken: the newest one of the session, and the newest ones of the user, oldest first. */
  readonly slots: { readonly last?: number | undefined; readonly user: readonly number[] }
  /** The slot that the message has already. */
  readonly slot?: number | undefined
}

/** As of `SendFacts.ahead`. */
export const nobody = { messages: 0, unslotted: 0 }

export type Closed =
  | { readonly go: 'no'; readonly why: 'window'; readonly idleMs: number }
  | { readonly go: 'no'; readonly why: 'quota'; readonly left: number }
  | { readonly go: 'no'; readonly why: 'pace' | 'held' | 'never_wrote'; readonly waitMs: number }

export type Verdict =
  /** `slot`: to be taken with it. */
  | { readonly go: 'now'; readonly slot?: number | undefined }
  /** At the slot's time, which is to be taken now. */
  | { readonly go: 'later'; readonly slot: number }
  | Closed

/** A slot is missed so long after its time: the machine stood still, and all who waited wake at once. */
const missedMs = 1000
const firstHoldMs = 30 * 60_000
const longestHoldMs = 6 * 60 * 60_000

/** Whether `count` messages may go one after the other; the verdict's slot is that of the first one. */
export function admit(facts: SendFacts, count: number, rules: SendRules): Verdict {
  const { now, receivedAt, used, ahead } = facts
  if (receivedAt !== undefined && now - receivedAt >= rules.windowMs)
    return { go: 'no', why: 'window', idleMs: now - receivedAt }
  const left = Math.max(0, rules.quota - used - ahead.messages)
  if (count > left) return { go: 'no', why: 'quota', left }
  const hold = holdNow(facts)
  if (hold) return { go: 'no', why: hold.since === 0 ? 'never_wrote' : 'held', waitMs: hold.until - now }
  return paced(facts, count, rules)
}

/** A hold that still counts: the user has not written since. One that ends too far off was set by another time of the clock. */
function holdNow({ now, receivedAt, hold }: SendFacts): Hold | undefined {
  if (!hold || now >= hold.until || hold.until - now > longestHoldMs) return undefined
  return (receivedAt ?? 0) > hold.since ? undefined : hold
}

function paced(facts: SendFacts, count: number, { pace, patienceMs }: SendRules): Verdict {
  const { now, receivedAt, ahead, slot } = facts
  if (pace === 'off') return { go: 'now' }
  if (slot !== undefined && isDue(slot, now)) return { go: 'now', slot }
  const user = [...facts.slots.user]
  let last = facts.slots.last
  let first = now
  let before = now
  for (let nth = 0; nth < ahead.unslotted + count; nth++) {
    const at = nextSlot(pace, now, last, user)
    // Those ahead have been told already that they may go.
    if (nth >= ahead.unslotted) {
      if (at - before > patienceMs) {
        // Who has never written cannot be answered then either.
        const why = receivedAt === undefined ? 'never_wrote' : 'pace'
        if (slot === undefined) return { go: 'no', why, waitMs: at - now }
        // It had one and missed it, so it is not refused now.
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

/** Whether a slot is there, and not missed. */
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
 * What stands behind a refusal (-2), which is one code for many causes (protocol notes 5.2). `used` counts the message
 * that was refused.
 */
export function causeOfRefusal(
  { now, receivedAt, used }: Pick<SendFacts, 'now' | 'receivedAt' | 'used'>,
  { quota, windowMs }: SendRules,
): 'never_wrote' | 'window' | 'quota' | 'unexplained' {
  if (receivedAt === undefined) return 'never_wrote'
  if (now - receivedAt >= windowMs) return 'window'
  return used >= quota ? 'quota' : 'unexplained'
}

/** After a refusal that the user's next message most often heals. */
export const untilWritten = ({ now, receivedAt = 0 }: Pick<SendFacts, 'now' | 'receivedAt'>): Hold => ({
  ...{ since: Math.min(receivedAt, now), until: now + longestHoldMs, count: 0 },
})

/**
 * After a refusal that window and quota do not explain: it is believed, but not for ever. The hold doubles with each
 * refusal, until the user writes.
 *
 * @param tries how often this message was refused before
 * @returns the hold; `giveUp`: the message was refused again right after the user wrote, so that the next one may try
 */
export function afterRefusal(
  { now, receivedAt = 0, hold }: Pick<SendFacts, 'now' | 'receivedAt' | 'hold'>,
  tries: number,
): { giveUp: boolean; hold: Hold } {
  const wrote = hold !== undefined && receivedAt > hold.since
  // What the user wrote in the future was dated by a clock that has been set back since.
  const since = Math.min(receivedAt, now)
  if (wrote && tries > 0) return { giveUp: true, hold: { since, until: now, count: 0 } }
  const count = wrote ? 0 : (hold?.count ?? 0)
  const forMs = Math.min(firstHoldMs * 2 ** count, longestHoldMs)
  return { giveUp: false, hold: { since, until: now + forMs, count: count + 1 } }
}
