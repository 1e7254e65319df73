/**
 * Plans a send: checks the request, splits its text, stages its media, and makes the outbox entry. Does not
 * call WeChat. A message that can never be sent is rejected here.
 */
import { Buffer } from 'node:buffer'
import { createTextItem, createWaitingItem } from '../ilink/encode.ts'
import { grantsUser, isInScope, type Scope } from '../model/access.ts'
import type { Unanswered } from '../model/call.ts'
import { badArgument, SvcError, withFieldNames } from '../model/error.ts'
import type { MediaContent, MediaKind } from '../model/message.ts'
import type { UserWithName } from '../model/next-step.ts'
import { formatPrincipal, onlyDrafts, type Principal } from '../model/principal.ts'
import { type BotInfo, normalizeSessionName, quotaPerInbound, sessionKeyOf } from '../model/session.ts'
import { isIssuedId, isUserId, matchUserId, readUserId } from '../model/user-id.ts'
import type { Clock } from '../platform/clock.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import type { KeptFile, NewEntry, NewPart, SendMode } from '../storage/outbox.ts'
import type { ContextStore, SessionStore } from '../storage/state.ts'
import type { ConversationStore, UserNameStore } from '../storage/store.ts'
import { composeMessage } from './delivery.ts'
import type { MediaFiles, SendCaller, StagedFile } from './media-files.ts'
import { requireVisible } from './problems.ts'
import { splitText, textLimitBytes } from './split.ts'

export interface SendRequest {
  to: string
  text?: string
  media: MediaContent[]
  session?: string
  /**
   * Whether the user sees that the bot is typing. true: from the start; false: never; undefined: if the
   * send takes long. Without anything to send, true shows it for some seconds and false removes it.
   */
  typing?: boolean
  /** What to do if the message may not go now; 'fail' by default. */
  when_closed?: 'fail' | 'queue'
  /** Unix ms: it waits in the outbox until then, and longer if it may not go at that time. */
  send_at?: number
  /** Unix ms: what still waits then is not sent. */
  until?: number
  /**
   * Set if a person has to approve the send first: why nobody did, or that the caller may only draft. It
   * waits in the outbox until then.
   */
  approval?: Unanswered | 'draft'
  /** For 24 h, later calls with the same key and content get the result of the first call. */
  idempotency_key?: string
}

/**
 * One request to WeChat with one item: WeChat does not show messages of mixed items (protocol notes 3.5).
 */
export type SendPiece = { kind: 'text'; text: string } | { kind: MediaKind; file: StagedFile }

/**
 * Returns the request as this caller may make it: a person has to approve the send of a key that only drafts. A lone
 * surrogate in the text becomes U+FFFD, which UTF-8 can carry.
 *
 * @throws SvcError `invalid_arguments` for a text that shows nothing, which would cost an answer
 */
export function limitRequest({ text, ...request }: SendRequest, by: Principal): SendRequest {
  if (text) requireVisible(text)
  return {
    ...request,
    ...(text !== undefined && { text: text.toWellFormed() }),
    ...(onlyDrafts(by) && { approval: 'draft' }),
  }
}

/** Where names are looked up. */
interface NamePorts {
  store: { names: Pick<UserNameStore, 'find'> }
  sessions: Pick<SessionStore, 'list'>
}

/**
 * Finds the users with a name, each once: of the requested session, else of logged-in sessions, else of
 * any.
 */
export async function findBearers(
  { store, sessions }: NamePorts,
  { name, session, scope = {} }: { name: string; session?: string | undefined; scope?: Scope | undefined },
): Promise<{ found: UserWithName[]; isAnyLive: boolean }> {
  const key = session === undefined ? undefined : sessionKeyOf(normalizeSessionName(session))
  const bearers = await store.names.find(name)
  const live = new Set(
    (await sessions.list()).flatMap(({ name, bot }) =>
      bot && isInScope(scope, bot.bot_id) ? [sessionKeyOf(name)] : [],
    ),
  )
  const matches = bearers
    .filter(one => key === undefined || sessionKeyOf(one.session) === key)
    // A session without a login has no account, so only callers with all accounts see it.
    .filter(one => scope.bots === undefined || live.has(sessionKeyOf(one.session)))
    .filter(one => grantsUser(scope, one.user_id))
  const liveMatches = matches.filter(one => live.has(sessionKeyOf(one.session)))
  const byId = new Map((liveMatches.length > 0 ? liveMatches : matches).map(one => [one.user_id, one]))
  return { found: [...byId.values()], isAnyLive: live.size > 0 }
}

/**
 * Returns an id that is in the scope. Reads nothing: to this caller, an id that exists and one that does not
 * are the same.
 *
 * @throws SvcError `invalid_arguments`
 */
export function requireUser(id: string, field: string, scope: Scope = {}): string {
  if (grantsUser(scope, id)) return id
  throw badArgument(field, 'expected one of the users of your key', {
    next: { action: 'see', what: 'users' },
  })
}

/** Where users are looked up. */
interface UserPorts extends NamePorts {
  store: NamePorts['store'] & { conversations: Pick<ConversationStore, 'listAlike' | 'listThreads'> }
  contexts: Pick<ContextStore, 'findKnowing' | 'listUsers'>
}

/**
 * Returns the id that is meant, as `matchUserId`, also one outside the scope. Reads nothing for an id as WeChat
 * issues them.
 */
export async function findUserId(
  { contexts, sessions, store: { conversations } }: UserPorts,
  given: string,
  scope: Scope = {},
  field: string,
): Promise<string> {
  if (isIssuedId(given)) return given
  if ((await contexts.findKnowing(given)).length > 0) return given
  const visible = (await sessions.list()).filter(({ bot }) => isInScope(scope, bot?.bot_id))
  const users = [...(await contexts.listUsers(visible.map(({ name }) => name))).values()].flat()
  const known = new Set(users.map(({ user_id }) => user_id).filter(id => grantsUser(scope, id)))
  // Users who are only in the log: of imported messages, or whose session was logged out.
  for (const user of await conversations.listAlike(readUserId(given, field)))
    if ((await conversations.listThreads({ user, scope, limit: 1 })).threads.length > 0) known.add(user)
  return matchUserId(given, known, field)
}

/** Number of users with the same name that an error lists. */
export const maxBearersListed = 5

/**
 * Resolves an id, or the name of one user, to an id.
 *
 * @throws SvcError `invalid_arguments` for an id outside the scope, and for a name of no user in the scope, or
 *   of several
 */
export async function resolveUserId(
  ports: UserPorts,
  { user, session, scope }: { user: string; session: string | undefined; scope?: Scope | undefined },
  field: string,
): Promise<string> {
  if (isUserId(user)) return requireUser(await findUserId(ports, user, scope, field), field, scope)
  const { found, isAnyLive } = await findBearers(ports, { name: user, session, scope })
  const [only] = found
  if (only === undefined)
    throw badArgument(
      field,
      'expected a user id like <user>@<domain>, or the name of a user: nobody has this name',
      {
        next: isAnyLive ? { action: 'see', what: 'users' } : { action: 'login' },
      },
    )
  if (found.length > 1) {
    const users = found.slice(0, maxBearersListed)
    throw badArgument(field, `expected one user; ${found.length} have this name`, {
      details: { users },
      next: isAnyLive ? { action: 'say which user', users } : { action: 'login' },
    })
  }
  return only.user_id
}

/**
 * Checks a request: its texts, and its media as far as that is free of cost.
 *
 * @returns the texts to send, one per message
 * @throws SvcError `invalid_arguments`, `text_too_long`, and the errors of `MediaFiles.sources.look`
 */
export async function checkRequest(
  request: SendRequest,
  media: MediaFiles,
  caller: SendCaller,
): Promise<string[]> {
  const { text } = request
  const texts = text ? splitOrReject(text) : []
  if (texts.length + request.media.length === 0)
    throw new SvcError('invalid_arguments', 'expected text, media or both')
  for (const [nth, content] of request.media.entries())
    await media.sources.look(content, caller).catch(error => Promise.reject(withMediaIndex(error, nth)))
  return texts
}

/** Splits a text. Rejects one that can never fit into the answers to one message. */
function splitOrReject(text: string): string[] {
  const bytes = Buffer.byteLength(text)
  if (bytes <= textLimitBytes) return [text]
  const parts = bytes > maxTextBytes ? undefined : splitText(text, textLimitBytes, quotaPerInbound)
  if (parts) return parts
  throw tooLongError(`${bytes}`)
}

/** Maximum bytes of text in one call. */
export const maxTextBytes = quotaPerInbound * textLimitBytes

export const tooLongError = (bytes: string): SvcError =>
  new SvcError(
    'text_too_long',
    `the text has ${bytes} bytes and does not fit into ${quotaPerInbound} messages, the most that one call may send, of at most ${textLimitBytes} bytes each`,
  )

/** Stages the media of a request. @throws SvcError as `MediaFiles.stage`; then no file stays open */
export async function stageMedia(
  request: SendRequest,
  media: MediaFiles,
  caller: SendCaller,
): Promise<StagedFile[]> {
  const files: StagedFile[] = []
  try {
    for (const [nth, content] of request.media.entries()) {
      const staging = media.sources.stage(content, caller)
      files.push(await staging.catch(error => Promise.reject(withMediaIndex(error, nth))))
    }
    return files
  } catch (error) {
    await releaseFiles(files)
    throw error
  }
}

export const releaseFiles = (files: readonly StagedFile[]) => Promise.all(files.map(file => file.release()))

/** Adds the index in `media` to an error about a media source. */
const withMediaIndex = (error: unknown, nth: number): unknown =>
  error instanceof SvcError
    ? withFieldNames(error, ({ field, problem }) => ({
        field: field.replace(/^media\b/, `media[${nth}]`),
        problem,
      }))
    : error

/** What the hashes of a request have besides its media. */
const hashed = ({ to, text, session, when_closed, send_at }: SendRequest, media: unknown): string =>
  sha256(
    JSON.stringify([to, text ?? '', media, session, when_closed ?? 'fail', ...(send_at ? [send_at] : [])]),
  )

/** Returns the hash of a request that compares media by the names the caller used. */
export function hashNames(request: SendRequest): string {
  const named = request.media.map(({ kind, file_name, path, url, data, upload_id }) => [
    kind,
    file_name,
    path,
    url,
    upload_id,
    data === undefined ? undefined : sha256(data),
  ])
  return hashed(request, named)
}

/** Returns the hash of a request that compares media by their bytes. Begins with the hash of `hashNames`. */
function hashContent(request: SendRequest, files: readonly StagedFile[]): string {
  const bytes = files.map(({ kind, file_name, size, md5 }) => [kind, file_name, size, md5])
  return `${hashNames(request)} ${hashed(request, bytes)}`
}

/**
 * Returns whether a call repeats the earlier one with its key. Compares the bytes of a file, which may have
 * been uploaded again or changed since. A file that can no longer be read, and a URL (not fetched again),
 * are compared by name.
 */
export async function isSameRequest(
  content: string,
  request: SendRequest,
  media: MediaFiles,
  caller: SendCaller,
): Promise<boolean> {
  const [names, bytes] = content.split(' ')
  const named = names === hashNames(request)
  if (named && request.media.every(({ path }) => path === undefined)) return true
  try {
    const files = await stageMedia(request, media, caller)
    try {
      return hashContent(request, files) === `${hashNames(request)} ${bytes}`
    } finally {
      await releaseFiles(files)
    }
  } catch {
    return named
  }
}

/** A send before it is stored in the outbox. */
export interface Draft {
  by: Principal
  address: string | undefined
  requestId: string | undefined
  request: SendRequest
  session: string
  bot: BotInfo
  /** What the session knows of the user, read together with `bot`. */
  known: NewEntry['known']
  pieces: SendPiece[]
  files: StagedFile[]
}

/** Returns the outbox entry of a draft. */
export function createEntry(draft: Draft, parts: NewPart[]): NewEntry {
  const { by, address, requestId, request, session, bot, files, known } = draft
  const { approval, idempotency_key: key, send_at, to, until } = request
  const when_closed = send_at === undefined ? (request.when_closed ?? 'fail') : 'queue'
  const mode: SendMode = approval ? 'queue' : when_closed
  return {
    made_by: formatPrincipal(by),
    ...((address ?? requestId) !== undefined && { origin: `${requestId ?? ''} ${address ?? ''}` }),
    session,
    bot_id: bot.bot_id,
    user: to,
    mode,
    ...(approval && { asked: when_closed }),
    ...(send_at !== undefined && { send_at }),
    ...(until !== undefined && { until }),
    parts,
    // While files were fetched, the user may have written.
    ...(known && files.length === 0 && { known }),
    ...(key !== undefined && { key, content: hashContent(request, files) }),
  }
}

/**
 * Returns the parts of a send that may wait. Each is stored in the message log from then on.
 *
 * @param kept receives the files that were copied, also if this fails
 */
export async function createWaitingParts(
  draft: Draft,
  { media, clock, kept, signal }: { media: MediaFiles; clock: Clock; kept: KeptFile[]; signal: AbortSignal },
): Promise<NewPart[]> {
  const { to } = draft.request
  const parts: NewPart[] = []
  // All parts get one timestamp, which shows that they belong together.
  const timestamp = clock.now()
  for (const [nth, piece] of draft.pieces.entries()) {
    const file = 'file' in piece ? await media.kept.keep(piece.file, signal) : undefined
    if (file) {
      kept.push(file)
      // Files come last. The person who approves sees where a file comes from, not only its name.
      const source = draft.request.approval && sourceOf(draft.request.media.at(nth - draft.pieces.length))
      if (source) file.source = source
    }
    const item = 'file' in piece ? createWaitingItem(piece.file) : createTextItem(piece.text)
    const clientId = `queued-${timestamp}-${crypto.randomUUID().slice(0, 8)}-${nth}`
    const message = composeMessage(to, item, timestamp, clientId).row
    parts.push({ kind: piece.kind, waiting: { message, file } })
  }
  return parts
}

const sourceOf = ({ path, url, upload_id }: Partial<MediaContent> = {}) =>
  path ?? url ?? (upload_id === undefined ? 'data' : `upload ${upload_id}`)

const sha256 = (text: string) => nodeCrypto().createHash('sha256').update(text).digest('base64url')
