/** A call on its way into the outbox. */
import { outgoingMessage, textItem, waitingItem } from '../ilink/encode.ts'
import type { MediaContent } from '../model/message.ts'
import { type Principal, principalText } from '../model/principal.ts'
import type { BotInfo } from '../model/session.ts'
import type { Clock } from '../platform/clock.ts'
import type { KeptFile, NewEntry, NewPart, SendMode } from '../storage/outbox.ts'
import { described } from './delivery.ts'
import type { AnswerTerms } from './delivery-attempt.ts'
import type { MediaFiles, StagedFile } from './media-files.ts'
import { contentOf, type Piece, type SendRequest } from './plan.ts'

export interface Draft {
  by: Principal
  request: SendRequest
  session: string
  bot: BotInfo
  terms: AnswerTerms
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
    const row = { client_id: clientId, to_user: to, timestamp }
    const raw = JSON.stringify(outgoingMessage({ to, item, clientId }))
    const message = { ...row, raw, ...described(item) }
    parts.push({ kind: piece.kind, waiting: { message, ...(file && { file }) } })
  }
  return parts
}

const sourceOf = ({ path, url, upload_id }: Partial<MediaContent> = {}) =>
  path ?? url ?? (upload_id === undefined ? 'data' : `upload ${upload_id}`)
