/**
 * An outgoing message that the service has not stored yet, and the pieces that show it in the chat until
 * then.
 */
import { type Signal, signal } from '@preact/signals'
import { splitText, textLimitBytes } from '../../src/send/split.ts'
import { ApiError, type Input, type Message } from '../api.ts'
import { isDoubtfulCode } from '../errors.ts'
import { allAnswers } from '../users/reply-permission.tsx'
import type { Attachment } from './attachments.ts'
import { seedBlob } from './blobs.ts'

const encoder = new TextEncoder()

export interface Outgoing {
  /** The idempotency key: the message is sent once, however often it is tried. */
  key: string
  text: string
  files: readonly Attachment[]
  queue: boolean
  /** The newest row id when it was sent; its own rows are newer. */
  after: number
  /** Unix ms. */
  at: number
  state: Signal<'sending' | 'failed'>
  error: Signal<unknown>
  /** The parts that the service has not stored yet, as messages with negative row ids. */
  pieces: Signal<readonly Message[]>
}

/**
 * Returns the number of answers that this takes, by the service's own split: none for a text that shows
 * nothing. A huge text is only estimated.
 */
export function costOf(text: string, files: number): number {
  const least =
    text.length <= textLimitBytes / 3 ? 1 : Math.ceil(encoder.encode(text).length / textLimitBytes)
  const parts = least > allAnswers ? undefined : splitText(text, textLimitBytes, allAnswers)
  return files + (parts?.length ?? Math.max(least, allAnswers + 1))
}

const wireKind = { image: 'IMAGE', video: 'VIDEO', file: 'FILE' } as const
/**
 * Returns a new idempotency key. Pages without TLS have no crypto.randomUUID, unless they are from this
 * machine.
 */
export const newKey = () =>
  Array.from(crypto.getRandomValues(new Uint32Array(4)), part => part.toString(16).padStart(8, '0')).join('')

let lastPiece = 0

/** The row ids of stored pieces, by piece id. */
export const storedAs = new Map<number, number>()

/** Makes an outgoing message. */
export function outgoingOf(
  { session, userId }: { session: string; userId: string },
  what: Pick<Outgoing, 'key' | 'text' | 'files' | 'queue' | 'after' | 'at'>,
): Outgoing {
  const { text, files, queue, at } = what
  const piece = (kind: Message['msg_type'], item: object, pieceText: string): Message => ({
    id: --lastPiece,
    message_id: '',
    session,
    bot_id: '',
    direction: 'sent',
    status: queue ? 'queued' : 'sending',
    from_user: '',
    to_user: userId,
    msg_type: kind,
    text: pieceText,
    timestamp: at,
    items: [{ kind, has_media: false, ...item }],
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

/** Returns the input of the call that sends it. @param uploads the upload ids of its files */
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

/** Whether the service did not answer. */
export const isUnanswered = (error: unknown): boolean =>
  (error as { code?: string } | undefined)?.code === 'unreachable'

/** Whether the message may have been sent, because no answer came. Trying again with the same key is safe. */
export const isDoubtful = (error: unknown): boolean => error instanceof ApiError && isDoubtfulCode(error.code)

/** Whether a stored message may be the one that a piece shows. */
export const standsFor = ({ msg_type, text, items }: Message, message: Message): boolean =>
  msg_type === message.msg_type &&
  (msg_type === 'TEXT'
    ? text.trimStart().startsWith(message.text.slice(0, 500).trim())
    : // The service may change a file name; the size stays.
      msg_type !== 'FILE' || items[0]?.size === message.items[0]?.size)

/** Returns the position of a piece counted from the end, because earlier ones may be stored already. */
export const piecesFrom = (one: Outgoing, piece: Message): number =>
  one.pieces.value.length - one.pieces.value.indexOf(piece)

export const restate = (one: Outgoing, status: Message['status']): void => {
  one.pieces.value = one.pieces.value.map(piece => ({ ...piece, status }))
}
