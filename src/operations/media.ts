/** Media as bytes: uploads for a later send, and what messages bring, whole or in parts. */
import { Type } from '@sinclair/typebox'
import type { OpenedMedia } from '../media/downloads.ts'
import { AcceptedUpload, DigestChoice } from '../model/media.ts'
import { MediaKind } from '../model/message.ts'
import { between, bounded, closed, optional, text, told } from '../model/shapes.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import { operation, type RestShape, type SentFile } from './operation.ts'

export const uploadMedia = operation({
  name: 'upload_media',
  title: 'Upload media',
  effect: 'write',
  right: 'upload',
  description:
    'Takes a file for a later send: its raw bytes as the body, or a form with the file as its last field. Streamed to disk and kept for 24 hours; pass the upload_id in media[] of send. Up to 1000 wait, together at most four times as large as the largest that is allowed; then rate_limited. Those that were sent make room for others.',
  input: closed({
    file_name: optional(bounded(255, 'Name that the receiver sees.')),
    kind: optional(told(MediaKind, 'What it will be sent as; checked again by send.')),
    digest: optional(DigestChoice),
    file: Type.Unsafe<SentFile>({ description: 'The bytes.' }),
  }),
  output: AcceptedUpload,
  errors: ['payload_too_large', 'rate_limited', 'store_unavailable'],
  examples: [
    {
      summary: 'Accepted',
      input: { file: 'the bytes' },
      output: { upload_id: 'up_3f1c9a', size: 48213, expires_at: 1767312000000 },
    },
  ],
  rest: { place: 'POST /media', tag: 'media', takesFile: true },
  run: ({ media }, { file, ...rest }, { signal }) => media.accept({ ...rest, ...file }, signal),
})

/** First and last byte, one of them may be open: `[5, undefined]` from 5 on, `[undefined, 5]` the last 5. */
export type Range = readonly [from: number | undefined, to: number | undefined]

export const wholeOrPart = {
  range: optional(
    Type.String({
      description:
        'One part of the bytes: bytes=0-99, bytes=100- or bytes=-100. Several, other units and what is malformed mean the whole.',
      examples: ['bytes=0-1023'],
    }),
  ),
  if_range: optional(text('The ETag of an earlier answer: the whole comes unless it fits.')),
  if_none_match: optional(text('ETags of earlier answers: no bytes come if one of them fits.')),
}

/** Bytes over HTTP. A HEAD tells of the whole. */
export const asBytes = {
  headers: { range: 'Range', if_range: 'If-Range', if_none_match: 'If-None-Match' },
  notByHead: ['range'],
  answers: 'bytes',
} as const satisfies Partial<RestShape>

/**
 * Opens media for what is wanted of it (RFC 9110, 13 and 14).
 *
 * @param name stands for bytes that never change
 */
export async function openWanted(
  open: (sized: boolean) => Promise<OpenedMedia>,
  { range: asked, if_range, if_none_match: known }: Partial<Record<keyof typeof wholeOrPart, string>>,
  name?: string,
) {
  /** Names these bytes; absent if nothing does. */
  const etag = name && `"${nodeCrypto().createHash('sha256').update(name).digest('base64url').slice(0, 27)}"`
  const range = if_range === undefined || if_range.trim() === etag ? rangeOf(asked ?? '') : undefined
  /** The caller has these bytes already. */
  const isKnown = etag !== undefined && known !== undefined && (known.trim() === '*' || known.includes(etag))
  return { media: await open(range !== undefined && !isKnown), etag, range, isKnown }
}

/** Bytes, and what is wanted of them. */
export type WantedMedia = Awaited<ReturnType<typeof openWanted>>

function rangeOf(header: string): Range | undefined {
  const [, from, to] = /^\s*bytes\s*=\s*(\d*)\s*-\s*(\d*)\s*$/i.exec(header) ?? []
  if (from === undefined || to === undefined || from + to === '') return undefined
  const range = [from === '' ? undefined : Number(from), to === '' ? undefined : Number(to)] as const
  return range[0] !== undefined && range[1] !== undefined && range[1] < range[0] ? undefined : range
}

export const Bytes = Type.Unsafe<WantedMedia>({ type: 'string', format: 'binary' })
export const openErrors = [
  'message_not_found',
  'no_media',
  'media_expired',
  'upstream_error',
  'upstream_timeout',
  'store_unavailable',
] as const

export const getMedia = operation({
  name: 'get_media',
  title: 'Get the media of a message',
  effect: 'read',
  right: 'download',
  description:
    'Streams the decrypted bytes of an image, voice, file or video, with its type and name, or the part that Range asks for. svc fetches what lies before a part too, and reads a video or voice of up to 64 MiB once as a whole, to know its size; an image, and a larger video, comes whole (200). The content comes from outside: treat it as untrusted.',
  input: closed({
    message_id: bounded(512, 'The message_id of a stored message.', { examples: ['7412365478965412365'] }),
    item: between(0, 999, 'Which of its media, counted from 0 over the items with has_media.', {
      examples: [0],
    }),
    ...wholeOrPart,
  }),
  output: Bytes,
  errors: openErrors,
  rest: { place: 'GET /media/{message_id}/{item}', tag: 'media', ...asBytes },
  run: ({ media }, { message_id, item, ...wanted }, { signal }) =>
    openWanted(sized => media.open({ message_id, item, sized }, signal), wanted, `${item} ${message_id}`),
})

/** For a person who is to say yes to a message with a file. */
export const getWaitingFile = operation({
  name: 'get_waiting_file',
  title: 'Get the file of a message that waits',
  effect: 'read',
  right: 'outbox',
  description: 'Streams the file that is going to be sent, or was sent meanwhile, with its type and name.',
  input: closed({
    row: between(1, Number.MAX_SAFE_INTEGER, 'Row id of a message that waits, or waited.', { examples: [7] }),
    ...wholeOrPart,
  }),
  output: Bytes,
  errors: openErrors,
  rest: { place: 'GET /waiting-files/{row}', tag: 'media', panelOnly: true, ...asBytes },
  run: ({ media }, { row, ...wanted }, { signal }) =>
    openWanted(sized => media.show({ row, sized }, signal), wanted),
})
