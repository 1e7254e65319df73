/** Sessions (messaging accounts), their credentials, and the right to answer a user. */

import { type Static, Type } from '@sinclair/typebox'
import { isReservedName } from './data-files.ts'
import { SvcError, type SvcErrorOptions } from './error.ts'
import { bounded, closed, flag, integer, oneOf, optional, text } from './shapes.ts'

export const SessionStatus = oneOf(
  ['connected', 'expired', 'lapsed', 'disconnected', 'logging_in'],
  'expired: WeChat no longer accepts the token; it is tried again by itself, and a new login heals it. lapsed: WeChat answers and may bring no messages any more; polling and sends go on. disconnected: its files cannot be used, see the log.',
)
export type SessionStatus = Static<typeof SessionStatus>

/** What a muted account is known by (protocol notes 5.7). */
export const MutedBecause = oneOf(
  ['no_ids', 'uploads_refused'],
  'no_ids: WeChat used to give ids to what this session sends, and accepts it without one now. uploads_refused: WeChat refuses files while texts go.',
)
export type MutedBecause = Static<typeof MutedBecause>

/** An account that used to get ids counts as muted after this many messages in a row without one. */
export const mutedAfter = 5

/** A session as the doors show it. */
export const Session = Type.Object({
  name: Type.String(),
  bot_id: optional(Type.String()),
  user_id: optional(text('The WeChat user who scanned.')),
  connected: flag('Whether messages are sent through it: true of one that is connected or lapsed.'),
  status: SessionStatus,
  is_default: Type.Boolean(),
  created_at: optional(integer('Unix milliseconds.')),
  last_poll_at: optional(integer('Unix milliseconds of the last answer to a poll.')),
  failing_since: optional(
    integer('Unix milliseconds since when its polls fail, once that lasts for 30 s; absent while they work.'),
  ),
  poll_error: optional(text('What the last of those polls failed of.')),
  poll_error_code: optional(text('The error code of that.')),
  poll_error_quote: optional(
    text(
      "Words of it that are not svc's own: what WeChat said, the HTTP status, or the system's error code.",
    ),
  ),
  user_count: integer('Users who have written to this session.'),
  suspect_count: optional(
    integer(
      'Messages of the last 24 hours that WeChat accepted without an id: they may not have been shown. Absent when there is none.',
    ),
  ),
  muted_since: optional(
    integer('Unix milliseconds since when WeChat may have muted this account; absent while it has not.'),
  ),
  muted_because: optional(MutedBecause),
})
export type Session = Static<typeof Session>

/** A session that brings no messages, or may bring none: what recv says beside its messages. */
export interface SilentSession {
  readonly name: string
  readonly status: 'expired' | 'lapsed' | 'disconnected'
  /** Of a disconnected one whose files the system refuses to show. */
  readonly why?: string
}

/** A user of a session as the doors show it: whether the bot may answer, how often and until when. */
export const SessionUser = Type.Object({
  user_id: Type.String(),
  name: optional(text('What people here call the user; send takes it as `to`.')),
  first_seen: optional(integer('Unix milliseconds.')),
  last_received: optional(integer('Unix milliseconds of the newest message from the user.')),
  last_sent: optional(integer('Unix milliseconds of the last answer.')),
  window_expires_at: optional(integer('Unix milliseconds until when the bot may answer.')),
  remaining: integer('Answers left until the user writes again; 0 once the window is closed.'),
})
export type SessionUser = Static<typeof SessionUser>

/** The same, with the session. */
export const KnownUser = Type.Object({ session: Type.String(), ...SessionUser.properties })
export type KnownUser = Static<typeof KnownUser>

/** One who has just been given a name. */
export const NamedUser = Type.Object({
  ...KnownUser.properties,
  namesakes: optional(
    Type.Array(Type.Object({ session: Type.String(), user_id: Type.String() }), {
      description:
        'Users of other sessions who have this name too, 5 at most: from now on who takes it says of which session, or gives the id. Absent when there are none.',
    }),
  ),
})
export type NamedUser = Static<typeof NamedUser>

const user = 'A user id, or the name of one user.'

/** Which of them are listed. */
export const UserFilter = closed({
  session: optional(bounded(200, 'Only users of this session.')),
  user_id: optional(bounded(512, user)),
})
export type UserFilter = Static<typeof UserFilter>

/** Who is called what from now on. */
export const NameRequest = closed({
  user_id: bounded(512, user, { examples: ['o9cq80x1y2z3@im.wechat'] }),
  name: Type.String({
    maxLength: 1000,
    description:
      'At most 64 characters without "@", as no other user of the session is called. An empty text takes the name away.',
    examples: ['Mum'],
  }),
  session: optional(bounded(200, 'Of this session; without it of the one that the user wrote to last.')),
})
export type NameRequest = Static<typeof NameRequest>

/** A session with everybody who has written to it, who wrote last first. */
export type SessionWithUsers = Session & { users: SessionUser[] }

/** Credentials and cursor of a session: the content of `<session>/token.json`. Never leaves through any surface. */
export interface BotInfo {
  bot_id: string
  token: string
  base_url: string
  /** The WeChat user who scanned the QR code. */
  user_id?: string
  /** Upstream's opaque position; '' on first contact. */
  cursor: string
  /** Unix ms of the login. */
  created_at: number
  /** Unix ms since when getupdates refuses the token (-14); an answer or a new login clears it. */
  expired_at?: number
  /** Unix ms since when upstream answers with neither messages nor a cursor. */
  lapsed_at?: number
  /** Unix ms since when somebody wants to know what getupdates says; whoever polls asks, and removes it. */
  check_at?: number
  /** Unix ms since when it is known to answer idle polls with `msgs` and a cursor: an answer without them says something. */
  idle_at?: number
  /** Unix ms: as WeChat was asked for last, it had answered with neither messages nor a cursor. */
  bare_at?: number
  /** Unix ms since when its polls fail, and what the last one failed of. */
  failing_since?: number
  poll_error?: string
  /** Its error code, and what of it WeChat or the system said. */
  poll_error_code?: string
  poll_error_quote?: string
  /** Unix ms since when it is known to get ids for what it sends. */
  ids_at?: number
  /** Unix ms of the first upload that WeChat refused since the last one that it took. */
  upload_refused_at?: number
  /** Unix ms since when WeChat may have muted it, and what that is known by. */
  muted_at?: number
  muted_because?: string
}

/** The times that polling and sending set and clear. */
export const markedTimes = [
  'expired_at',
  'lapsed_at',
  'check_at',
  'idle_at',
  'bare_at',
  'failing_since',
  'ids_at',
  'upload_refused_at',
  'muted_at',
] as const
/** The texts that they do. */
export const markedTexts = ['poll_error', 'poll_error_code', 'poll_error_quote', 'muted_because'] as const
/** What polling and sending set and clear; a new login brings none of them. */
export const marks = [...markedTimes, ...markedTexts] as const
export type Marks = { [K in (typeof marks)[number]]?: BotInfo[K] | undefined }

/**
 * The fields of a login with these marks: times that do not stand yet and a text are set, what is undefined goes.
 *
 * @returns undefined when nothing changes
 */
export function marked<Fields extends Marks | Record<string, unknown>>(
  fields: Fields,
  wanted: Marks,
): Fields | undefined {
  const before = fields as Record<string, unknown>
  const changes = Object.entries(wanted).filter(([mark, value]) =>
    typeof value === 'string'
      ? before[mark] !== value
      : (before[mark] === undefined) !== (value === undefined),
  )
  return changes.length === 0 ? undefined : { ...fields, ...Object.fromEntries(changes) }
}

/** How a login is, by its marks. */
export const standingOf = (bot: Marks): 'connected' | 'expired' | 'lapsed' =>
  bot.expired_at !== undefined ? 'expired' : bot.lapsed_at !== undefined ? 'lapsed' : 'connected'

/**
 * What a new login takes over from the one before it: the account is muted, not the login (protocol notes 5.7).
 *
 * @returns nothing where another WeChat user scanned
 */
export function takenOver(before: BotInfo | undefined, { user_id }: Pick<BotInfo, 'user_id'>): Marks {
  if (!before || user_id === undefined || before.user_id !== user_id) return {}
  const { ids_at, upload_refused_at, muted_at, muted_because } = before
  return { ids_at, upload_refused_at, muted_at, muted_because }
}

/** What to do about it, by what others report. */
export const mutedAdvice =
  'Ask a user whether messages arrive. If not: another WeChat account worked for others; a new login of the same one did not. One account recovered after three weeks.'

/** How the doors show that an account is muted. */
export const mutedOf = ({
  muted_at,
  muted_because,
}: Marks): Pick<Session, 'muted_since' | 'muted_because'> =>
  muted_at === undefined
    ? {}
    : {
        muted_since: muted_at,
        muted_because: muted_because === 'uploads_refused' ? 'uploads_refused' : 'no_ids',
      }

/** What getupdates said of a session when it was asked. */
export const SessionCheck = Type.Object({
  session: Type.String(),
  status: SessionStatus,
  answered: flag(
    'False: WeChat gave no clear answer in time. None came, or one with neither messages nor a cursor, as of a session that brings no messages any more; status is the one known before.',
  ),
  poll_error: optional(text('What its polls have been failing of for 30 s or more.')),
})
export type SessionCheck = Static<typeof SessionCheck>

/** What `<session>/contexts.json` keeps of one user. Never leaves through any surface as it is. */
export interface UserContext {
  /** The newest context token; answers carry it. Absent after a login of another bot until the user writes. */
  token?: string
  /** Unix ms when the newest inbound message was received: the window counts from here. */
  received_at?: number
  /** Answers used since then; the store counts them, a file of version 0.1 says where it begins. */
  used: number
  /** Unix ms of the last send, counted likewise. */
  last_sent_at?: number
  /** Unix ms. */
  first_seen: number
}

/** One inbound message's effect: the user wrote, and this token answers. */
export interface Inbound {
  user_id: string
  token?: string
  /** Unix ms when the user wrote: by upstream's clock where it says so, and never later than now. */
  received_at: number
  /** It was stored before and comes again without a time, so that it looks new: its token is taken, the window stays as it was. */
  again?: true
}

/**
 * What is known of a user after a message. The same message again, after a crash or from upstream, changes nothing: a window
 * opens and a count begins anew only with a message later than all before.
 *
 * @param now Unix ms by the clock that dated them
 * @returns undefined when nothing changes
 */
export function contextAfter(
  before: UserContext | undefined,
  { token, received_at, again }: Inbound,
  now: number,
): UserContext | undefined {
  // A time in the future was noted by a clock that was set back since: it says nothing.
  const noted = before?.received_at
  const last = noted !== undefined && noted > now + clockSkewMs ? undefined : noted
  if (last !== undefined && last > received_at) return undefined
  const same = last !== undefined && (again || last === received_at)
  const kept = token ?? before?.token
  if (same && kept === before?.token) return undefined
  return {
    ...before,
    ...(kept !== undefined && { token: kept }),
    received_at: same ? last : received_at,
    used: same ? before!.used : 0,
    first_seen: before?.first_seen || received_at,
  }
}

/** Whether the user has written; an attempt to send to somebody else leaves a trace in the file too. */
export const hasWritten = ({ received_at, token }: UserContext): boolean =>
  received_at !== undefined || token !== undefined

/** Answers to a user, as the store counts them: those after the message of `received_at`. */
export interface Counter {
  received_at?: number
  used: number
  last_sent_at?: number
}

/** Clocks of processes and machines differ by as much. */
export const clockSkewMs = 60_000

/** The count that holds now: a newer message of the user begins a new one. `now` in Unix ms. */
export function countNow(context: Counter, counter: Counter | undefined, now: number): Counter {
  const { received_at, used } = context
  const counted = counter?.received_at
  // Whoever asks has not heard of the newest message yet. A count of the future was made by a clock that was set back.
  const newer = counted !== undefined && counted > (received_at ?? 0) && counted <= now + clockSkewMs
  const current = counter && (newer || counted === received_at) ? counter : { received_at, used }
  const last_sent_at = counter?.last_sent_at ?? context.last_sent_at
  return { received_at: current.received_at, used: current.used, last_sent_at }
}

/** Upstream accepts answers for about this long after a user's last message (protocol notes 5.1). */
export const windowMs = 24 * 60 * 60 * 1000
/** Upstream accepts about this many sends per inbound message (protocol notes 5.1). */
export const quotaPerInbound = 10

/** What is left of the right to answer a user at `now`, by our own counters: nothing once the window is closed. */
export function rightToAnswer(
  { received_at, used }: Counter,
  now: number,
): { remaining: number; window_expires_at?: number } {
  if (received_at === undefined) return { remaining: Math.max(0, quotaPerInbound - used) }
  const closesAt = received_at + windowMs
  return { remaining: closesAt <= now ? 0 : Math.max(0, quotaPerInbound - used), window_expires_at: closesAt }
}

/** The session that the empty name means. */
export const defaultSessionName = 'default'

const pattern = /^[\p{L}\p{M}\p{N}_-][\p{L}\p{M}\p{N}._-]*$/u

/** Why a name cannot be one, for programs; `details.session_name` of the error. */
export type NameProblem = 'too_long' | 'dot' | 'characters' | 'reserved'

/**
 * The one form of a session name: NFC, 1–64 characters and at most 200 bytes of letters of any script, digits, `.`, `_`, `-`,
 * without a leading or trailing dot. The empty name is `default`.
 *
 * @throws SvcError `invalid_arguments`
 */
export function sessionName(input: string): string {
  const name = normalized(input)
  if (name === '') return defaultSessionName
  const bad = (session_name: NameProblem, why: string) =>
    new SvcError('invalid_arguments', `the session name ${why}`, {
      details: { session_name },
      hint: 'Use 1 to 64 letters (any script), digits, ".", "_" or "-", not starting or ending with a dot.',
    })
  if ([...name].length > 64) throw bad('too_long', 'is longer than 64 characters')
  if (new TextEncoder().encode(name).length > 200) throw bad('too_long', 'is longer than 200 bytes')
  if (name.startsWith('.')) throw bad('dot', 'starts with a dot')
  if (name.endsWith('.')) throw bad('dot', 'ends with a dot, which some file systems drop')
  if (!pattern.test(name))
    throw bad('characters', 'has a character that is not a letter, digit, ".", "_" or "-"')
  if (isReservedName(name)) throw bad('reserved', 'is reserved')
  return name
}

/** Nothing is known of a session of that name. */
export const sessionNotFound = (name: string, options?: SvcErrorOptions): SvcError =>
  new SvcError('session_not_found', `there is no session named "${name}"`, options)

/** It has no login to send or to ask with. */
export const notConnected = (session: string): SvcError =>
  new SvcError('not_connected', `session "${session}" is not connected`, {
    next: { action: 'login', session },
  })

/** Two names that a case-insensitive file system would confuse have the same key. */
export const sessionKey = (name: string): string => normalized(name).toLowerCase()

// 64 characters never have more code units, and to normalise a run of accents takes time with its square (40,000: 17 s).
const normalized = (name: string): string => (name.length > 300 ? name : name.normalize('NFC'))
