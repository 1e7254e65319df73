/**
 * What a call of send is about to send, and how the outbox is told of it. Touches nothing upstream; what can never be sent
 * is an error here.
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
   * Whether the user sees that the bot is typing: true from the start, false not at all, otherwise when it takes long. Where
   * there is nothing to send, true shows it for some seconds, and false takes it back.
   */
  typing?: boolean
  /** What to do when the message may not go now; 'fail' by default. */
  when_closed?: 'fail' | 'queue'
  /** A person has to say yes first, and why nobody has: until then it waits in the outbox, whether it may go or not. */
  approval?: Unanswered
  /** The first call's result answers every later one with the same key and content for 24 h. */
  idempotency_key?: string
}

/** One request to upstream: one item, since mixed messages are not shown (protocol notes 3.5). */
export type Piece = { kind: 'text'; text: string } | { kind: MediaKind; file: StagedFile }

/** No name has an `@`. */
export const isUserId = (user: string): boolean => user.includes('@')

/** What tells who has a name. */
interface NamePorts {
  store: { names: Pick<Names, 'called'> }
  sessions: Pick<Sessions, 'list'>
}

/** Whoever has a name, each once: of the session given, else of those that are logged in, else of any. */
export async function bearers(
  { store, sessions }: NamePorts,
  { name, session }: { name: string; session?: string | undefined },
): Promise<{ found: Bearer[]; isAnyLive: boolean }> {
  const key = session === undefined ? undefined : sessionKey(sessionName(session))
  const called = (await store.names.called(name)).filter(
    one => key === undefined || sessionKey(one.session) === key,
  )
  const live = new Set((await sessions.list()).flatMap(({ name, bot }) => (bot ? [sessionKey(name)] : [])))
  const here = called.filter(one => live.has(sessionKey(one.session)))
  const once = new Map((here.length > 0 ? here : called).map(one => [one.user_id, one]))
  return { found: [...once.values()], isAnyLive: live.size > 0 }
}

/** So many of those who have a name are told. */
export const bearersTold = 5

/**
 * Who is meant by an id, or by the name of one user.
 *
 * @throws SvcError `invalid_arguments` for a name that nobody has there, or several
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
 * Looks at a request: at its texts, and at what its media are as far as that costs nothing.
 *
 * @returns the texts to send, each in one message
 * @throws SvcError `invalid_arguments`, `text_too_long`, and what looking at media throws
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

/** What the answers to one message can never hold is refused before anything is made of it. */
function partsOf(text: string): string[] {
  const bytes = Buffer.byteLength(text)
  const parts = bytes > mostTextBytes ? undefined : splitText(text, textLimitBytes, quotaPerInbound)
  if (parts) return parts
  throw tooLong(`${bytes}`)
}

/** More text than this fits into no call. */
export const mostTextBytes = quotaPerInbound * textLimitBytes

export const tooLong = (bytes: string): SvcError =>
  new SvcError(
    'text_too_long',
    `the text has ${bytes} bytes and does not fit into ${quotaPerInbound} messages, the most that one call may send, of at most ${textLimitBytes} bytes each`,
  )

/** The media of a request as files. @throws SvcError as `MediaFiles.stage`; nothing stays open then */
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

/** What is wrong with a source of media, with its place in the list. */
const ofEntry = (error: unknown, nth: number): unknown =>
  error instanceof SvcError
    ? renamed(error, ({ field, problem }) => ({ field: field.replace(/^media\b/, `media[${nth}]`), problem }))
    : error

/** Equal for requests that say the same: media by what the caller names. */
export function namesOf({ to, text, media, session, when_closed }: SendRequest): string {
  const named = media.map(({ kind, file_name, path, url, data, upload_id }) => [
    ...[kind, file_name, path, url, upload_id],
    data === undefined ? undefined : sha256(data),
  ])
  return sha256(JSON.stringify([to, text ?? '', named, session, when_closed ?? 'fail']))
}

/** Equal for requests that send the same: media by their bytes, however they are named. */
export function contentOf(request: SendRequest, files: readonly StagedFile[]): string {
  const { to, text, session, when_closed } = request
  const bytes = files.map(({ kind, file_name, size, md5 }) => [kind, file_name, size, md5])
  const content = sha256(JSON.stringify([to, text ?? '', bytes, session, when_closed ?? 'fail']))
  return `${namesOf(request)} ${content}`
}

/**
 * Whether a call asks for what an earlier one with its key did. The bytes decide, of a file that was uploaded again or
 * written anew since; what cannot be read any more goes by its name, and so does a URL, which is not fetched again.
 */
export async function isSame(
  content: string,
  request: SendRequest,
  media: MediaFiles,
  caller: Caller,
): Promise<boolean> {
  const [names, bytes] = content.split(' ')
  const named = names === namesOf(request)
  // Version 0.1 noted the names alone.
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

/** A call on its way into the outbox. */
export interface Draft {
  by: Principal
  request: SendRequest
  session: string
  bot: BotInfo
  pieces: Piece[]
  files: StagedFile[]
}

/** What the outbox is told of a call. */
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
 * The parts of a call that may wait: each is a message of the log from now on.
 *
 * @param kept takes the files that were copied, also when it fails
 */
export async function waitingParts(
  draft: Draft,
  { media, clock, kept, signal }: { media: MediaFiles; clock: Clock; kept: KeptFile[]; signal: AbortSignal },
): Promise<NewPart[]> {
  const { to } = draft.request
  const parts: NewPart[] = []
  // One moment for all: who looks at them knows by it what goes together.
  const timestamp = clock.now()
  for (const [nth, piece] of draft.pieces.entries()) {
    const file = 'file' in piece ? await media.kept.keep(piece.file, signal) : undefined
    if (file) {
      kept.push(file)
      // Files stand last. Who says yes is not to be taken in by a name.
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
