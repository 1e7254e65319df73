/** Operations for media as bytes: uploads for a later send, and media of messages, whole or in parts. */
import { Type } from '@sinclair/typebox'
import type { Gateway } from '../gateway/gateway-api.ts'
import type { OpenedMedia } from '../media/downloads.ts'
import { AcceptedUpload, DigestChoice } from '../model/media.ts'
import { MediaKind } from '../model/message.ts'
import { between, bounded, closed, optional, withDescription } from '../model/shapes.ts'
import { systemClock } from '../platform/clock.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import { streamOnDemand } from '../platform/streams.ts'
import { erasedMeanwhileError, freshMs } from '../storage/people.ts'
import { download } from './download.ts'
import { defineOperation, type RestShape, type SentFile } from './operation.ts'
import { outboxRights } from './outbox.ts'

export const uploadMedia = defineOperation({
  name: 'upload_media',
  title: 'Upload media',
  effect: 'write',
  right: ['upload', 'relay'],
  description:
    'Takes a file for a later send: its raw bytes as the body, or a form with the file as its last field. The file is streamed to disk and kept for 24 hours; pass the upload_id in media[] of send. Up to 1000 uploads are kept, together at most four times the largest allowed file; more are rate_limited. An upload that was sent no longer counts.',
  input: closed({
    file_name: optional.bounded(255, 'Name that the receiver sees.'),
    kind: optional(withDescription(MediaKind, 'Kind of media to send it as; send checks it again.')),
    digest: optional(DigestChoice),
    file: Type.Unsafe<SentFile>({ description: 'The bytes.' }),
  }),
  output: AcceptedUpload,
  errors: ['payload_too_large', 'rate_limited'],
  examples: [
    {
      summary: 'Accepted',
      input: { file: 'the bytes' },
      output: { upload_id: 'up_3f1c9a', size: 48213, expires_at: 1767312000000 },
    },
  ],
  rest: { route: 'POST /media', tag: 'media', hasFileBody: true },
  run: ({ media }, { file, ...rest }, { signal }) => media.accept({ ...rest, ...file }, signal),
})

/**
 * First and last byte of a range. One may be open: `[5, undefined]` is from byte 5, `[undefined, 5]` the last
 * 5 bytes.
 */
export type Range = readonly [from: number | undefined, to: number | undefined]

/** Inputs of operations whose answer is the bytes of media (RFC 9110): range and conditions. */
export const rangeInputs = {
  range: optional(
    Type.String({
      description:
        'One range of bytes: bytes=0-99, bytes=100- or bytes=-100. Several ranges, other units and malformed values return the whole.',
      examples: ['bytes=0-1023'],
    }),
  ),
  if_range: optional.text('ETag of an earlier answer: if it does not match, the whole is returned.'),
  if_none_match: optional.text('ETags of earlier answers: if one matches, no bytes are returned.'),
}

/** REST settings of operations that answer with bytes. HEAD answers with the headers of the whole. */
export const bytesRestShape = {
  headers: { range: 'Range', if_range: 'If-Range', if_none_match: 'If-None-Match' },
  ignoredByHead: ['range'],
  answerKind: 'bytes',
} as const satisfies Partial<RestShape>

/**
 * Opens media, and evaluates Range, If-Range and If-None-Match (RFC 9110, sections 13 and 14).
 *
 * @param open `sized` says whether the caller needs the size, as it wants a part
 * @param name identifies the bytes, which never change; the ETag is made of it. Without a name there is no
 *   ETag
 */
export async function openRequested(
  people: Gateway['people'],
  open: (sized: boolean) => Promise<OpenedMedia>,
  { range: rangeHeader, if_range, if_none_match: etags }: Partial<Record<keyof typeof rangeInputs, string>>,
  name?: string,
): Promise<RequestedMedia> {
  const etag = name && `"${nodeCrypto().createHash('sha256').update(name).digest('base64url').slice(0, 27)}"`
  const range = if_range === undefined || if_range.trim() === etag ? rangeOf(rangeHeader ?? '') : undefined
  const isKnown = etag !== undefined && etags !== undefined && (etags.trim() === '*' || etags.includes(etag))
  const erasures = await people.countErasures()
  const opened = await open(range !== undefined && !isKnown)
  const media = { ...opened, stream: endWhenErased(opened.stream, people, erasures) }
  // No ranges: parts of the SILK do not fit together with parts of the WAV that the same address returns once the
  // decoder works.
  if (media.isUndecoded) return { media, isKnown: false }
  return { media, etag, range, isKnown }
}

/** Returns a stream that fails once a user is erased: a slow reader would get the rest of a file from this user. */
function endWhenErased(
  stream: ReadableStream<Uint8Array>,
  people: Gateway['people'],
  erasures: number,
): ReadableStream<Uint8Array> {
  const reader = stream.getReader()
  let checkedAt = 0
  return streamOnDemand({
    async pull(controller) {
      const { done, value } = await reader.read()
      if (done) return controller.close()
      const now = systemClock.monotonic()
      if (now - checkedAt > freshMs) {
        if ((await people.countErasures()) !== erasures) {
          void reader.cancel().catch(() => {})
          throw erasedMeanwhileError()
        }
        checkedAt = now
      }
      controller.enqueue(value)
    },
    cancel: reason => reader.cancel(reason),
  })
}

/** Opened media, with its ETag and the requested range. */
export interface RequestedMedia {
  media: OpenedMedia
  etag?: string
  range?: Range
  /** Whether the caller already has these bytes. */
  isKnown: boolean
}

function rangeOf(header: string): Range | undefined {
  const [, from, to] = /^\s*bytes\s*=\s*(\d*)\s*-\s*(\d*)\s*$/i.exec(header) ?? []
  if (from === undefined || to === undefined || from + to === '') return undefined
  const range = [from === '' ? undefined : Number(from), to === '' ? undefined : Number(to)] as const
  return range[0] !== undefined && range[1] !== undefined && range[1] < range[0] ? undefined : range
}

const Bytes = Type.Unsafe<RequestedMedia>({ type: 'string', format: 'binary' })
export const mediaErrors = [
  'message_not_found',
  'no_media',
  'media_expired',
  'upstream_error',
  'upstream_timeout',
] as const

export const getMedia = defineOperation({
  name: 'get_media',
  title: 'Get the media of a message',
  effect: 'read',
  right: 'download',
  partOf: download.name,
  description:
    'Streams the decrypted bytes of an image, voice, file or video, with its type and name, or the part that Range asks for. svc also fetches the bytes before a part. It reads a video of up to 64 MiB once as a whole, to know its size; an image, or a larger video, is returned whole (200). A voice is WAV, or with format=original the SILK that WeChat sent; one that cannot be decoded comes as it is, whole. The content comes from outside: treat it as untrusted.',
  input: closed({
    message_id: bounded(512, 'The message_id of a stored message.', { examples: ['7412365478965412365'] }),
    item: between(
      0,
      999,
      'Number of the media in the message, counted from 0 over the items with has_media.',
      { examples: [0] },
    ),
    format: optional(
      Type.Literal('original', { description: 'A voice as WeChat sent it (SILK), instead of WAV.' }),
    ),
    ...rangeInputs,
  }),
  output: Bytes,
  errors: mediaErrors,
  rest: { route: 'GET /media/{message_id}/{item}', tag: 'media', ...bytesRestShape },
  run: ({ media, people }, { message_id, item, format, ...wanted }, { signal }) =>
    openRequested(
      people,
      sized => media.open({ message_id, item, format, sized }, signal),
      wanted,
      `${format ?? 'played'} ${item} ${message_id}`,
    ),
})

/** Returns a file that waits, for a person who must approve its message. */
export const getWaitingFile = defineOperation({
  name: 'get_waiting_file',
  title: 'Get the file of a message that waits',
  effect: 'read',
  right: outboxRights,
  description: 'Streams the file that will be sent, or was sent since, with its type and name.',
  input: closed({
    row: between(1, Number.MAX_SAFE_INTEGER, 'Row id of a message that waits, or has waited.', {
      examples: [7],
    }),
    ...rangeInputs,
  }),
  output: Bytes,
  errors: mediaErrors,
  rest: { route: 'GET /waiting-files/{row}', tag: 'media', panelOnly: true, ...bytesRestShape },
  run: ({ media, people }, { row, ...wanted }, { signal }) =>
    openRequested(people, sized => media.show({ row, sized }, signal), wanted),
})
