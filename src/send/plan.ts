/**
 * Plans a send: checks the request, splits its text, stages its media, and makes the outbox entry. Does not
 * call WeChat. A message that can never be sent is rejected here.
 */
import { Buffer } from 'node:buffer'
import { textItem, waitingItem } from '../ilink/encode.ts'
import type { Unanswered } from '../model/call.ts'
import { badArgument, renamed, SvcError } from '../model/error.ts'
import type { MediaContent, MediaKind } from '../model/message.ts'
import type { Bearer } from '../model/next-step.ts'
import { type Principal, principalText } from '../model/principal.ts'
import { type BotInfo, quotaPerInbound, sessionKey, sessionName } from '../model/session.ts'
import type { Clock } from '../platform/clock.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import type { KeptFile, NewEntry, NewPart, SendMode } from '../storage/outbox.ts'
import type { Sessions } from '../storage/state.ts'
import type { Names } from '../storage/store.ts'
import { rowOf } from './delivery.ts'
import type { Caller, MediaFiles, StagedFile } from './media-files.ts'
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
  /** Set if a person has to approve the send first: why nobody did. It waits in the outbox until then. */
  approval?: Unanswered
  /** For 24 h, later calls with the same key and content get the result of the first call. */
  idempotency_key?: string
}

/**
 * One request to WeChat with one item: WeChat does not show messages of mixed items (protocol notes 3.5).
 */
export type Piece = { kind: 'text'; text: string } | { kind: MediaKind; file: StagedFile }

/** Returns whether this is an id. Names never contain an `@`. */
export const isUserId = (user: string): boolean => user.includes('@')

/** Where names are looked up. */
interface NamePorts {
  store: { names: Pick<Names, 'called'> }
  sessions: Pick<Sessions, 'list'>
}

/**
 * Finds the users with a name, each once: of the requested session, else of logged-in sessions, else of
 * any.
 */
export async function bearers(
  { store, sessions }: NamePorts,
  { name, session }: { name: string; session?: string | undefined },
): Promise<{ found: Bearer[]; isAnyLive: boolean }> {
  const key = session === undefined ? undefined : sessionKey(sessionName(session))
  const matches = (await store.names.called(name)).filter(
    one => key === undefined || sessionKey(one.session) === key,
  )
  const live = new Set((await sessions.list()).flatMap(({ name, bot }) => (bot ? [sessionKey(name)] : [])))
  const liveMatches = matches.filter(one => live.has(sessionKey(one.session)))
  const byId = new Map((liveMatches.length > 0 ? liveMatches : matches).map(one => [one.user_id, one]))
  return { found: [...byId.values()], isAnyLive: live.size > 0 }
}

/** Number of users with the same name that an error lists. */
export const bearersTold = 5

/**
 * Resolves an id, or the name of one user, to an id.
 *
 * @throws SvcError `invalid_arguments` for a name of no user, or of several
 */
export async function addressee(
  ports: NamePorts,
  { user, session }: { user: string; session: string | undefined },
  field: string,
): Promise<string> {
  if (isUserId(user)) return user
  const { found, isAnyLive } = await bearers(ports, { name: user, session })
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
    const users = found.slice(0, bearersTold)
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
export async function look(request: SendRequest, media: MediaFiles, caller: Caller): Promise<string[]> {
  const { text } = request
  const texts = text === undefined || text === '' ? [] : partsOf(text)
  if (texts.length + request.media.length === 0)
    throw new SvcError('invalid_arguments', 'expected text, media or both')
  for (const [nth, content] of request.media.entries())
    await media.sources.look(content, caller).catch(error => Promise.reject(ofEntry(error, nth)))
  return texts
}

/** Splits a text. Rejects one that can never fit into the answers to one message. */
function partsOf(text: string): string[] {
  const bytes = Buffer.byteLength(text)
  const parts = bytes > mostTextBytes ? undefined : splitText(text, textLimitBytes, quotaPerInbound)
  if (parts) return parts
  throw tooLong(`${bytes}`)
}

/** Maximum bytes of text in one call. */
export const mostTextBytes = quotaPerInbound * textLimitBytes

export const tooLong = (bytes: string): SvcError =>
  new SvcError(
    'text_too_long',
    `the text has ${bytes} bytes and does not fit into ${quotaPerInbound} messages, the most that one call may send, of at most ${textLimitBytes} bytes each`,
  )

/** Stages the media of a request. @throws SvcError as `MediaFiles.stage`; then no file stays open */
export async function stage(request: SendRequest, media: MediaFiles, caller: Caller): Promise<StagedFile[]> {
  const files: StagedFile[] = []
  try {
    for (const [nth, content] of request.media.entries()) {
      const staging = media.sources.stage(content, caller)
      files.push(await staging.catch(error => Promise.reject(ofEntry(error, nth))))
    }
    return files
  } catch (error) {
    await release(files)
    throw error
  }
}

export const release = (files: readonly StagedFile[]) => Promise.all(files.map(file => file.release()))

/** Adds the index in `media` to an error about a media source. */
const ofEntry = (error: unknown, nth: number): unknown =>
  error instanceof SvcError
    ? renamed(error, ({ field, problem }) => ({ field: field.replace(/^media\b/, `media[${nth}]`), problem }))
    : error

/** Hash of a request that compares media by the names the caller used. */
export function namesOf({ to, text, media, session, when_closed }: SendRequest): string {
  const named = media.map(({ kind, file_name, path, url, data, upload_id }) => [
    kind,
    file_name,
    path,
    url,
    upload_id,
    data === undefined ? undefined : sha256(data),
  ])
  return sha256(JSON.stringify([to, text ?? '', named, session, when_closed ?? 'fail']))
}

/** Hash of a request that compares media by their bytes. Begins with the hash of `namesOf`. */
export function contentOf(request: SendRequest, files: readonly StagedFile[]): string {
  const { to, text, session, when_closed } = request
  const bytes = files.map(({ kind, file_name, size, md5 }) => [kind, file_name, size, md5])
  const content = sha256(JSON.stringify([to, text ?? '', bytes, session, when_closed ?? 'fail']))
  return `${namesOf(request)} ${content}`
}

/**
 * Returns whether a call repeats the earlier one with its key. Compares the bytes of a file, which may have
 * been uploaded again or changed since. A file that can no longer be read, and a URL (not fetched again),
 * are compared by name.
 */
export async function isSame(
  content: string,
  request: SendRequest,
  media: MediaFiles,
  caller: Caller,
): Promise<boolean> {
  const [names, bytes] = content.split(' ')
  const named = names === namesOf(request)
  // Version 0.1 stored the hash of the names only.
  if (bytes === undefined) return named
  if (named && request.media.every(({ path }) => path === undefined)) return true
  try {
    const files = await stage(request, media, caller)
    try {
      return contentOf(request, files) === `${namesOf(request)} ${bytes}`
    } finally {
      await release(files)
    }
  } catch {
    return named
  }
}

/** A send before it is stored in the outbox. */
export interface Draft {
  by: Principal
  request: SendRequest
  session: string
  bot: BotInfo
  pieces: Piece[]
  files: StagedFile[]
}

/** Returns the outbox entry of a draft. */
export function newEntry({ by, request, session, bot, files }: Draft, parts: NewPart[]): NewEntry {
  const { approval, idempotency_key: key, to, when_closed = 'fail' } = request
  const mode: SendMode = approval ? 'queue' : when_closed
  return {
    made_by: principalText(by),
    session,
    bot_id: bot.bot_id,
    user: to,
    mode,
    ...(approval && { asked: when_closed }),
    parts,
    ...(key !== undefined && { key, content: contentOf(request, files) }),
  }
}

/**
 * Returns the parts of a send that may wait. Each is stored in the message log from then on.
 *
 * @param kept receives the files that were copied, also if this fails
 */
export async function waitingParts(
  draft: Draft,
  { media, clock, kept, signal }: { media: MediaFiles; clock: Clock; kept: KeptFile[]; signal: AbortSignal },
): Promise<NewPart[]> {
  const { to } = draft.request
  const parts: NewPart[] = []
  // The same timestamp for all parts shows that they belong together.
  const timestamp = clock.now()
  for (const [nth, piece] of draft.pieces.entries()) {
    const file = 'file' in piece ? await media.kept.keep(piece.file, signal) : undefined
    if (file) {
      kept.push(file)
      // Files come last. The person who approves sees where a file comes from, not only its name.
      const source = draft.request.approval && sourceOf(draft.request.media.at(nth - draft.pieces.length))
      if (source) file.source = source
    }
    const item = 'file' in piece ? waitingItem(piece.file) : textItem(piece.text)
    const clientId = `queued-${timestamp}-${crypto.randomUUID().slice(0, 8)}-${nth}`
    const message = rowOf(to, item, timestamp, clientId)
    parts.push({ kind: piece.kind, waiting: { message, file } })
  }
  return parts
}

const sourceOf = ({ path, url, upload_id }: Partial<MediaContent> = {}) =>
  path ?? url ?? (upload_id === undefined ? 'data' : `upload ${upload_id}`)

const sha256 = (text: string) => nodeCrypto().createHash('sha256').update(text).digest('base64url')
