/** Sessions (messaging accounts), their credentials, and the right to answer a user. */

import { type Static, Type } from '@sinclair/typebox'
import { isReservedName } from './data-files.ts'
import { SvcError, type SvcErrorOptions } from './error.ts'
import { withoutUnseen } from './seen.ts'
import { bounded, closed, flag, integer, oneOf, optional } from './shapes.ts'

export const SessionStatus = oneOf(
  ['connected', 'expired', 'lapsed', 'disconnected', 'logging_in'],
  'expired: WeChat no longer accepts the token; svc tries it again by itself, and a new login fixes it. lapsed: WeChat answers but may no longer bring messages; polling and sending continue. disconnected: its files cannot be used, see the log.',
)
export type SessionStatus = Static<typeof SessionStatus>

/** The sign by which a muted account is recognised (protocol notes 5.7). */
const MutedBecause = oneOf(
  ['no_ids', 'uploads_refused'],
  'no_ids: WeChat used to return ids for the messages of this session, and now accepts them without one. uploads_refused: WeChat refuses files while texts go.',
)

/** An account that used to get ids counts as muted after this many messages in a row without one. */
export const mutedAfter = 5

/** A session in its public form. */
export const Session = Type.Object({
  name: Type.String(),
  bot_id: optional(Type.String()),
  user_id: optional.text('The WeChat user who scanned.'),
  invitation: optional.text('Id of the invitation by which this person joined: a guest.'),
  connected: flag('Whether messages are sent through it: true if it is connected or lapsed.'),
  status: SessionStatus,
  is_default: Type.Boolean(),
  created_at: optional.integer('Unix milliseconds.'),
  last_poll_at: optional.integer('Unix milliseconds of the last answer to a poll.'),
  failing_since: optional.integer(
    'Unix milliseconds since when its polls fail; set after 30 s of failures, absent while they work.',
  ),
  poll_error: optional.text('Why the last of those polls failed.'),
  poll_error_code: optional.text('The error code of that failure.'),
  poll_error_quote: optional.text(
    "The part of it that is not svc's own text: WeChat's message, the HTTP status, or the system's error code.",
  ),
  user_count: integer('Users who have written to this session.'),
  suspect_count: optional.integer(
    'Messages of the last 24 hours that WeChat accepted without an id: they may not have been shown. Absent when there are none.',
  ),
  muted_since: optional.integer(
    'Unix milliseconds since when WeChat may have muted this account; absent while it has not.',
  ),
  muted_because: optional(MutedBecause),
})
export type Session = Static<typeof Session>

/** A session that brings no messages, or may bring none. recv reports it beside the messages. */
export interface SilentSession {
  readonly name: string
  readonly status: 'expired' | 'lapsed' | 'disconnected'
  /** Why a disconnected session's files cannot be read. */
  readonly why?: string
}

/** Whether any session is connected, and the sessions that receive no messages. */
export interface Receiving {
  readonly connected: boolean
  readonly silent: readonly SilentSession[]
}

/** A user of a session in the public form: whether the bot may answer, how often and until when. */
export const SessionUser = Type.Object({
  user_id: Type.String(),
  name: optional.text('The name that people here gave to the user; send accepts it as `to`.'),
  first_seen: optional.integer('Unix milliseconds.'),
  last_received: optional.integer('Unix milliseconds of the newest message from the user.'),
  last_sent: optional.integer('Unix milliseconds of the last answer.'),
  window_expires_at: optional.integer('Unix milliseconds until when the bot may answer.'),
  remaining: integer('Answers left until the user writes again; 0 once the window is closed.'),
})
export type SessionUser = Static<typeof SessionUser>

/** A user with the session. */
export const KnownUser = Type.Object({ session: Type.String(), ...SessionUser.properties })
export type KnownUser = Static<typeof KnownUser>

/** A user who has just been given a name. */
export const NamedUser = Type.Object({
  ...KnownUser.properties,
  namesakes: optional(
    Type.Array(Type.Object({ session: Type.String(), user_id: Type.String() }), {
      description:
        'Users of other sessions who have this name too, at most 5: callers who use the name must now also name the session, or use the id. Absent when there are none.',
    }),
  ),
})
export type NamedUser = Static<typeof NamedUser>

const user = 'A user id, or the name of one user.'

/** Which users to list. */
export const UserFilter = closed({
  session: optional.bounded(200, 'Only users of this session.'),
  user_id: optional.bounded(512, user),
})
export type UserFilter = Static<typeof UserFilter>

/** Gives a name to a user. */
export const NameRequest = closed({
  user_id: bounded(512, user, { examples: ['o9cq80x1y2z3@im.wechat'] }),
  name: Type.String({
    maxLength: 1000,
    description:
      'At most 64 characters without "@", and not the name of another user of the session. An empty text removes the name.',
    examples: ['Mum'],
  }),
  session: optional.bounded(200, 'The session of the user; by default the one that the user wrote to last.'),
})
export type NameRequest = Static<typeof NameRequest>

/** A session with all users who have written to it, the most recent first. */
export type SessionWithUsers = Session & { users: SessionUser[] }

/**
 * Credentials and cursor of a session: the content of `<session>/token.json`. Must never leave svc in any
 * output.
 */
export interface BotInfo {
  bot_id: string
  token: string
  base_url: string
  /** The WeChat user who scanned the QR code. */
  user_id?: string
  /** Id of the invitation by which this person joined: then the person is a guest. */
  invitation?: string
  /** Upstream's opaque position; '' on first contact. */
  cursor: string
  /** Unix ms of the login. */
  created_at: number
  /** Unix ms since when getupdates refuses the token (-14). A successful poll or a new login clears it. */
  expired_at?: number
  /** Unix ms since when upstream answers with neither messages nor a cursor. */
  lapsed_at?: number
  /**
   * Unix ms since when a check by getupdates is requested. The process that polls makes the check and removes
   * this.
   */
  check_at?: number
  /**
   * Unix ms since when idle polls are known to bring `msgs` and a cursor. Then an answer without them means
   * something.
   */
  idle_at?: number
  /** Unix ms of the last request to WeChat, if its answer had neither messages nor a cursor. */
  bare_at?: number
  /** Unix ms since when its polls fail, and why the last one failed. */
  failing_since?: number
  poll_error?: string
  /** The error code, and the part of the error that WeChat or the system said. */
  poll_error_code?: string
  poll_error_quote?: string
  /** Unix ms since when its messages are known to get ids. */
  ids_at?: number
  /** Unix ms of the first refused upload since the last accepted one. */
  upload_refused_at?: number
  /** Unix ms since when WeChat may have muted the account, and by which sign. */
  muted_at?: number
  muted_because?: string
}

/** Fields of times that polling or sending sets, and clears again. */
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
/** Fields of texts of the same kind. */
export const markedTexts = ['poll_error', 'poll_error_code', 'poll_error_quote', 'muted_because'] as const
/** All fields that polling and sending set and clear. A new login has none of them. */
export const marks = [...markedTimes, ...markedTexts] as const
export type Marks = { [K in (typeof marks)[number]]?: BotInfo[K] | undefined }

/**
 * Returns the fields of a login with these marks. A time is set only if it was absent. A text is replaced. An
 * undefined mark removes the field.
 *
 * @returns undefined when nothing changes
 */
export function withMarks<Fields extends Marks | Record<string, unknown>>(
  fields: Fields,
  newMarks: Marks,
): Fields | undefined {
  const before = fields as Record<string, unknown>
  const changes = Object.entries(newMarks).filter(([mark, value]) =>
    typeof value === 'string'
      ? before[mark] !== value
      : (before[mark] === undefined) !== (value === undefined),
  )
  return changes.length === 0 ? undefined : { ...fields, ...Object.fromEntries(changes) }
}

/** Returns the state of a login by its marks. */
export const loginStatusOf = (bot: Marks): 'connected' | 'expired' | 'lapsed' =>
  bot.expired_at !== undefined ? 'expired' : bot.lapsed_at !== undefined ? 'lapsed' : 'connected'

/** Returns the status of a session with this login. Without one, its files cannot be used. */
export const sessionStatusOf = (bot: Marks | undefined): Exclude<SessionStatus, 'logging_in'> =>
  bot ? loginStatusOf(bot) : 'disconnected'

/** Whether messages are sent through a session. */
export const isConnected = (status: SessionStatus): boolean => status === 'connected' || status === 'lapsed'

/**
 * Returns what a new login takes over from the previous one: the marks of a muted account, because the account is muted,
 * not the login (protocol notes 5.7), and whether the person is a guest.
 *
 * @returns nothing when another WeChat user scanned the code
 */
export function inheritedMarksOf(
  before: BotInfo | undefined,
  { user_id }: Pick<BotInfo, 'user_id'>,
): Marks & { invitation?: string | undefined } {
  if (!before || user_id === undefined || before.user_id !== user_id) return {}
  const { ids_at, upload_refused_at, muted_at, muted_because, invitation } = before
  return { ids_at, upload_refused_at, muted_at, muted_because, invitation }
}

/** What to do about a muted account, based on reports. */
export const mutedAdvice =
  'Ask a user whether messages arrive. If not: another WeChat account worked for others; a new login of the same one did not. One account recovered after three weeks.'

/** Returns the public fields of a muted account. */
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

/** The result of a check by getupdates. */
export const SessionCheck = Type.Object({
  session: Type.String(),
  status: SessionStatus,
  answered: flag(
    'False: WeChat gave no clear answer in time. Either none came, or one with neither messages nor a cursor, which is typical of a session that no longer brings messages. Then status is the last known one.',
  ),
  poll_error: optional.text('Why its polls have failed for 30 s or more.'),
})
export type SessionCheck = Static<typeof SessionCheck>

/** What `<session>/contexts.json` keeps about one user. Must never leave svc as it is. */
export interface UserContext {
  /**
   * The newest context token, which answers carry. Absent after a login of another bot, until the user
   * writes.
   */
  token?: string
  /** Unix ms when the newest inbound message was received. The window starts here. */
  received_at?: number
  /**
   * Answers used since then. The store counts them; in a file of version 0.1 this is where the count starts.
   */
  used: number
  /** Unix ms of the last send. The store keeps it too. */
  last_sent_at?: number
  /** Unix ms. */
  first_seen: number
}

/** The effect of one inbound message: the user wrote, and this token answers. */
export interface Inbound {
  user_id: string
  token?: string
  /** Unix ms when the user wrote: by upstream's clock if it sends the time, and never later than now. */
  received_at: number
  /**
   * A stored message that came again without a time, so it looks new. Its token is used, the window does not
   * change.
   */
  again?: true
}

/**
 * Returns a user's context after a message. The same message again, after a crash or from upstream, changes
 * nothing: only a message later than all before opens a new window and starts a new count.
 *
 * @param now Unix ms by the clock that dated the messages
 * @returns undefined when nothing changes
 */
export function nextContextOf(
  before: UserContext | undefined,
  { token, received_at, again }: Inbound,
  now: number,
): UserContext | undefined {
  // A time in the future comes from a clock that has been set back since. Ignore it.
  const notedAt = before?.received_at
  const last = notedAt !== undefined && notedAt > now + clockSkewMs ? undefined : notedAt
  if (last !== undefined && last > received_at) return undefined
  const isSame = last !== undefined && (again || last === received_at)
  const newToken = token ?? before?.token
  if (isSame && newToken === before?.token) return undefined
  return {
    ...before,
    ...(newToken !== undefined && { token: newToken }),
    received_at: isSame ? last : received_at,
    used: isSame ? before!.used : 0,
    first_seen: before?.first_seen || received_at,
  }
}

/**
 * Merges two contexts of one user. The later message counts; of two equally late ones, that of `newer`.
 *
 * @param now the same limit as in `nextContextOf`
 */
export function newestContext(
  older: UserContext | undefined,
  newer: UserContext | undefined,
  now = Number.POSITIVE_INFINITY,
): UserContext | undefined {
  if (!newer || !older || !hasWritten(older)) return newer ?? older
  const { token, received_at } = newer
  // A time in the future comes from a clock that has been set back since.
  if (received_at === undefined || received_at > now + clockSkewMs) return older
  const inbound = { user_id: '', received_at, ...(token !== undefined && { token }) }
  return nextContextOf(older, inbound, now) ?? older
}

/**
 * Returns whether the user has written. The file also has entries for users to whom a send was only tried.
 */
export const hasWritten = ({ received_at, token }: UserContext): boolean =>
  received_at !== undefined || token !== undefined

/** The store's count of answers to a user: those after the message received at `received_at`. */
export interface Counter {
  received_at?: number
  used: number
  last_sent_at?: number
  /** Present while contexts.json may lack the message that this count is about; it decides otherwise. */
  token_at?: number
}

/** Clocks of processes and machines may differ by this much. */
export const clockSkewMs = 60_000

/**
 * Returns the count of answers to a user that is valid now. A newer message of the user starts a new count.
 * Another program may have sent too, and counted in the file. `now` in Unix ms.
 */
export function currentCounterOf(
  context: Counter & Pick<UserContext, 'token'>,
  counter: Counter | undefined,
  now: number,
): Counter {
  const { received_at, used } = context
  const counted = counter?.received_at
  const last_sent_at = Math.max(counter?.last_sent_at ?? 0, context.last_sent_at ?? 0) || undefined
  // A count in the future was made by a clock that was set back since.
  const isLater = counted !== undefined && counted > (received_at ?? 0) && counted <= now + clockSkewMs
  // The file may not have the newest message yet, or a bare token, which says nothing of the time.
  const isBare = received_at === undefined && context.token !== undefined
  if (isLater && (isBare || counter?.token_at !== undefined))
    return { received_at: counted, used: counter!.used, last_sent_at }
  // What was sent since a later message was sent since this one too.
  const isSince = counter !== undefined && (isLater || counted === received_at)
  return { received_at, used: isSince ? Math.max(counter.used, used) : used, last_sent_at }
}

/** Upstream accepts answers for about this long after a user's last message (protocol notes 5.1). */
export const windowMs = 24 * 60 * 60 * 1000
/** Upstream accepts about this many sends per inbound message (protocol notes 5.1). */
export const quotaPerInbound = 10

/** Returns how many answers are left at `now`, by svc's own counters; 0 once the window is closed. */
export function rightToAnswerOf(
  { received_at, used }: Counter,
  now: number,
): { remaining: number; window_expires_at?: number } {
  if (received_at === undefined) return { remaining: Math.max(0, quotaPerInbound - used) }
  const closesAt = received_at + windowMs
  return { remaining: closesAt <= now ? 0 : Math.max(0, quotaPerInbound - used), window_expires_at: closesAt }
}

/** The session that the empty name stands for. */
export const defaultSessionName = 'default'

const pattern = /^[\p{L}\p{M}\p{N}_-][\p{L}\p{M}\p{N}._-]*$/u

/** Why a name is not allowed, as a code for programs; `details.session_name` of the error. */
export type NameProblem = 'too_long' | 'dot' | 'characters' | 'reserved'

/**
 * Normalizes a session name: NFC, 1–64 characters and at most 200 bytes; letters of any script, digits, `.`,
 * `_`, `-`, without a leading or trailing dot. The empty name becomes `default`.
 *
 * @throws SvcError `invalid_arguments`
 */
export function normalizeSessionName(input: string): string {
  const name = normalize(input)
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
  if (!pattern.test(name) || withoutUnseen(name) !== name)
    throw bad('characters', 'has a character that is not a letter, digit, ".", "_" or "-"')
  if (isReservedName(name)) throw bad('reserved', 'is reserved')
  return name
}

/** Returns the error for an unknown session name. */
export const sessionNotFoundError = (name: string, options?: SvcErrorOptions): SvcError =>
  new SvcError('session_not_found', `there is no session named "${name}"`, options)

/** Returns the error for a session without a login to send or poll with. */
export const notConnectedError = (session: string): SvcError =>
  new SvcError('not_connected', `session "${session}" is not connected`, {
    next: { action: 'login', session },
  })

/** Returns the same key for two names that a case-insensitive file system would confuse. */
export const sessionKeyOf = (name: string): string => normalize(name).toLowerCase()

// 300: 64 characters never have more code units. Normalizing a run of accents takes quadratic time (40,000:
// 17 s).
const normalize = (name: string): string => (name.length > 300 ? name : name.normalize('NFC'))
