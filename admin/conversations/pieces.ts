/** A message that the service has not stored yet, and the pieces that stand for it in the chat until it has. */
import { type Signal, signal } from '@preact/signals'
import { splitText, textLimitBytes } from '../../src/send/split.ts'
import { ApiError, type Input, type Message } from '../api.ts'
import { allAnswers } from '../users/reply-permission.tsx'
import type { Attachment } from './attachments.ts'
import { seedBlob } from './blobs.ts'

const encoder = new TextEncoder()

export interface Outgoing {
  /** The idempotency key: however often it is tried, it is sent once. */
  key: string
  text: string
  files: readonly Attachment[]
  queue: boolean
  /** Newest row when it was sent: its own come later. */
  after: number
  /** Unix ms. */
  at: number
  state: Signal<'sending' | 'failed'>
  error: Signal<unknown>
  /** What the service has not stored yet, as messages to look at; their row ids are negative. */
  pieces: Signal<readonly Message[]>
}

/** How many answers this takes, as the service splits it. A text that no number of answers holds is not split at each letter. */
export function costOf(text: string, files: number): number {
  if (text.trim() === '') return files
  const least =
    text.length <= textLimitBytes / 3 ? 1 : Math.ceil(encoder.encode(text).length / textLimitBytes)
  const parts = least > allAnswers ? undefined : splitText(text, textLimitBytes, allAnswers)
  return files + (parts?.length ?? Math.max(least, allAnswers + 1))
}

const wireKind = { image: 'IMAGE', video: 'VIDEO', file: 'FILE' } as const
/** An idempotency key. crypto.randomUUID is there for pages served by TLS alone, or from this machine. */
export const newKey = () =>
  Array.from(crypto.getRandomValues(new Uint32Array(4)), part => part.toString(16).padStart(8, '0')).join('')

let lastPiece = 0

/** The rows as which pieces were stored, by their ids. */
export const storedAs = new Map<number, number>()

/** One that is about to go out. */
export function outgoingOf(
  { session, userId }: { session: string; userId: string },
  what: Pick<Outgoing, 'key' | 'text' | 'files' | 'queue' | 'after' | 'at'>,
): Outgoing {
  const { text, files, queue, at } = what
  const piece = (kind: Message['msg_type'], item: object, its: string): Message => ({
    ...{ id: --lastPiece, message_id: '', session, bot_id: '', direction: 'sent' },
    ...{ status: queue ? 'queued' : 'sending', from_user: '', to_user: userId, msg_type: kind },
    ...{ text: its, timestamp: at, items: [{ kind, has_media: false, ...item }] },
  })
  const pieces = [
    ...(text === '' ? [] : [piece('TEXT', { text }, text)]),
    ...files.map(({ file, kind }) => {
      const message = piece(wireKind[kind], { file_name: file.name, size: file.size }, '')
      seedBlob(message.id, 0, file)
      return message
    }),
  ]
  return { ...what, state: signal('sending'), error: signal(undefined), pieces: signal(pieces) }
}

/** The call that sends it. @param uploads the upload of each of its files */
export const sendingOf = (
  { session, userId }: { session: string; userId: string },
  { text, files, key, queue }: Outgoing,
  uploads: readonly (string | undefined)[],
): Input<'send'> => ({
  to: userId,
  session,
  ...(text !== '' && { text }),
  ...(files.length > 0 && {
    media: files.map(({ file, kind }, nth) => ({
      kind,
      upload_id: uploads[nth]!,
      ...(file.name && { file_name: file.name.slice(-255) }),
    })),
  }),
  idempotency_key: key,
  ...(queue && { when_closed: 'queue' as const }),
})

/** The service was not there, as far as one can tell. */
export const isUnanswered = (error: unknown): boolean =>
  (error as { code?: string } | undefined)?.code === 'unreachable'

/** No answer came: it may have been sent. Trying again is safe, the key is the same. */
export const isDoubtful = (error: unknown): boolean =>
  error instanceof ApiError && ['unreachable', 'interrupted'].includes(error.code)

/** Whether a stored message may be what a piece stands for. */
export const standsFor = ({ msg_type, text, items }: Message, message: Message): boolean =>
  msg_type === message.msg_type &&
  (msg_type === 'TEXT'
    ? text.trimStart().startsWith(message.text.slice(0, 500).trim())
    : // Names are made safe on their way; sizes of files stay.
      msg_type !== 'FILE' || items[0]?.size === message.items[0]?.size)

/** Place of a piece of media, counted from the end: those before it may be stored already. */
export const piecesFrom = (one: Outgoing, piece: Message): number =>
  one.pieces.value.length - one.pieces.value.indexOf(piece)

export const restate = (one: Outgoing, status: Message['status']): void => {
  one.pieces.value = one.pieces.value.map(piece => ({ ...piece, status }))
}
