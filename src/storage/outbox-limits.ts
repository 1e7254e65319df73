/** Limits and shapes of the outbox that every engine has in common. */
import type { SendRules } from '../model/admission.ts'
import { SvcError } from '../model/error.ts'
import { shares } from '../model/shares.ts'
import { findTooMany, type Made, type MadeKey } from './keys.ts'
import type { BegunMessage, EntryPart, KeptFile, NewEntry, OutboxLane } from './outbox.ts'

/** How long a message may wait for its user. */
export const queueLifeMs = 7 * 24 * 60 * 60_000
/** How long after its call a queued send can be looked up; at least a day after its end. */
export const resultLifeMs = 7 * 24 * 60 * 60_000
/** How long a person may take to approve a send. */
export const askLifeMs = 24 * 60 * 60_000
/** A call without progress for this long is over, if its process cannot be checked. */
export const callLifeMs = 10 * 60_000
/** A key is remembered for this long after its call. */
export const keyLifeMs = 24 * 60 * 60_000
/** A lane is free if its owner gave no sign for this long; sooner if the owner is known to be dead. */
export const laneLeaseMs = 60_000
/** Number of waiting parts read when a lane is claimed. */
export const lookahead = 100

/** More parts than an entry can have. */
export const partsPerEntry = 1000
/** The ids of an entry's parts are consecutive, in order. */
export const partId = (entry: number, nth: number): number => entry * partsPerEntry + nth

/** Statuses of parts without a result yet. */
export const openStatuses: ReadonlySet<EntryPart['status']> = new Set(['asked', 'queued', 'sending'])

/** Returns the files of these parts. */
export const filesOf = (parts: readonly EntryPart[]): KeptFile[] => parts.flatMap(part => part.file ?? [])

/** Whether a new entry waits outside its lane: for an approval, or for its time. */
export const isHeldBack = ({ asked, send_at }: Pick<NewEntry, 'asked' | 'send_at'>): boolean =>
  asked !== undefined || send_at !== undefined

/** Returns when a new entry expires. */
export const expiryOf = (
  {
    asked,
    mode,
    send_at,
    until = Number.POSITIVE_INFINITY,
  }: Pick<NewEntry, 'asked' | 'mode' | 'send_at' | 'until'>,
  createdAt: number,
): number =>
  send_at !== undefined && !asked
    ? send_at
    : Math.min(until, createdAt + (asked ? askLifeMs : mode === 'fail' ? callLifeMs : queueLifeMs))

/** Returns the principal that made a call, and the origin if it is known, as `message.sent_by` has them. */
export const sentByOf = ({
  made_by,
  origin,
}: Pick<Partial<NewEntry>, 'made_by' | 'origin'>): string | undefined =>
  made_by === undefined || origin === undefined ? made_by : `${made_by} ${origin}`

export const begunOf = (
  lane: Pick<OutboxLane, 'id' | 'hold' | 'token'>,
  parts: readonly Pick<EntryPart, 'id' | 'tries'>[],
  { row, counter, slot }: Pick<BegunMessage, 'row' | 'counter' | 'slot'>,
): BegunMessage => ({
  lane: lane.id,
  parts: parts.map(({ id }) => id),
  row,
  counter,
  tries: parts[0]!.tries,
  hold: lane.hold,
  slot,
  token: lane.token,
})

/** Slots are kept at least this long: another process may be configured to look back further. */
const keptMs = 60 * 60_000

/** Returns the time up to which slots may be removed. */
export const slotsEndBefore = (now: number, pace: Exclude<SendRules['pace'], 'off'>): number =>
  now - Math.max(pace.windowMs, keptMs)

/** What bounds a new entry. */
export interface WaitingFacts {
  /** Messages of mode `queue` that wait for the user or are being sent; read for that mode. */
  unsent: Counted[]
  /** Sends of the session that wait for an approval, or for their time; read for such a send. */
  asked: readonly Counted[]
  /** Read if `areKeysNeeded`. */
  keys: readonly MadeKey[]
}
/** How much of a caller there is. */
export type Counted = Required<Made>

export const sumOf = (waiting: readonly Counted[]): number =>
  waiting.reduce((sum, { count }) => sum + count, 0)

/** Whether so much waits that a caller may have its share. @param more messages of new entries */
export const areKeysNeeded = ({ asked, unsent }: Omit<WaitingFacts, 'keys'>, more: number): boolean =>
  sumOf(unsent) + more > shares.waiting.each || (asked.length > 0 && sumOf(asked) >= shares.heldBack.each)

/**
 * @param by who stands behind the new entry
 * @param more its messages
 * @throws SvcError `quota_exhausted` if too many messages would wait for one user
 */
export function rejectTooMany({ keys, unsent }: WaitingFacts, by: string, more: number): void {
  const waiting = findTooMany(shares.waiting, keys, unsent, by, more)
  if (waiting === undefined) return
  throw new SvcError('quota_exhausted', `${waiting} messages wait for this user already`, {
    hint: 'Stop sending; wait until the user writes, or cancel some of them.',
    next: { action: 'see', what: 'outbox' },
  })
}

/** @throws SvcError `quota_exhausted` if too many sends of one session would wait for an approval, or for their time */
export function rejectTooManyAsked({ asked, keys }: WaitingFacts, by: string): void {
  const waiting = findTooMany(shares.heldBack, keys, asked, by)
  if (waiting === undefined) return
  throw new SvcError(
    'quota_exhausted',
    `${waiting} sends of this session wait for a person to say yes, or for their time, already`,
    {
      hint: 'Stop sending, and ask a person to go through them, in the panel or on the command line.',
      next: { action: 'see', what: 'outbox' },
    },
  )
}
