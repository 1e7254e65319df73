/** Media over HTTP: uploads for a later send, and the decrypted bytes of a message. Streamed, never whole in memory. */

import { Type } from '@sinclair/typebox'
import type { Elysia } from 'elysia'
import type { Gateway } from '../gateway/gateway-api.ts'
import { invalid } from '../model/error.ts'
import { AcceptedUpload, DigestChoice } from '../model/media.ts'
import { MediaKind } from '../model/message.ts'
import { between, bounded, closed, optional, told } from '../model/shapes.ts'
import { parse, spelled } from '../operations/parse.ts'
import { checkAnnounced, limited } from './body.ts'
import { HttpCall } from './http-call.ts'
import { mediaAnswer, wantedOf } from './media-answer.ts'
import { boundaryOf, readFilePart } from './multipart.ts'
import { queryOf } from './paths.ts'
import { answered, declared, doorErrors, jsonAnswer, noted, type RouteContext } from './route.ts'

/** Query, or form fields, of POST /media. */
const UploadQuery = closed({
  file_name: optional(bounded(255, 'Name that the receiver sees.')),
  kind: optional(told(MediaKind, 'What it will be sent as; checked again by send.')),
  digest: optional(DigestChoice),
})

/** Path of GET /media/{message_id}/{item}. */
const MediaPath = closed({
  message_id: bounded(512, 'The message_id of a stored message.', { examples: ['7412365478965412365'] }),
  item: between(0, 999, 'Which of its media, counted from 0 over the items with has_media.', {
    examples: [0],
  }),
})

/** What a client asks for a part with: for the document, since they are read by hand. */
const RangeHeaders = Type.Object({
  Range: optional(
    Type.String({
      description:
        'One part of the bytes: bytes=0-99, bytes=100- or bytes=-100. Several, other units and what is malformed mean the whole.',
      examples: ['bytes=0-1023'],
    }),
  ),
  'If-Range': optional(
    Type.String({ description: 'The ETag of an earlier answer: the whole comes unless it fits.' }),
  ),
})

const WaitingFilePath = closed({
  row: between(1, Number.MAX_SAFE_INTEGER, 'Row id of a message that waits, or waited.', { examples: [7] }),
})

/**
 * Takes an upload: raw bytes of any type with query parameters, or a form with one file.
 *
 * @throws SvcError `payload_too_large`, `invalid_arguments`, and what the gateway says
 */
async function acceptUpload(
  gateway: Gateway,
  request: Request,
  maxBytes: number,
  signal: AbortSignal,
): Promise<AcceptedUpload> {
  checkAnnounced(request.headers, { maxBytes })
  const query = parse(UploadQuery, queryOf(request))
  if (!request.body || request.headers.get('content-length') === '0')
    throw invalid([{ field: 'body', problem: 'expected the bytes of a file' }])
  let broken: unknown
  const body = limited(
    request.body as ReadableStream<Uint8Array>,
    { maxBytes },
    {
      broke(error) {
        broken = error
      },
    },
  )
  const announced = request.headers.get('content-length')
  // The length of a form is slightly larger than that of the file in it.
  const size = announced === null ? {} : { size: Number(announced) }
  try {
    const boundary = boundaryOf(request.headers.get('content-type'))
    if (boundary === undefined) return await gateway.media.accept({ body, ...size, ...query }, signal)
    const part = await readFilePart(body, boundary)
    const named = parse(UploadQuery, part.fields)
    const file_name = query.file_name ?? named.file_name ?? (part.fileName || undefined)
    const upload = { ...named, ...query, ...size, file_name, body: part.body }
    return await gateway.media.accept(upload, signal)
  } catch (error) {
    // Whatever the reader of the stream made of it, this is why it broke.
    throw broken ?? error
  }
}

/**
 * The decrypted bytes of one piece of media, or the range asked for, as an answer that streams.
 *
 * @param mayCount a video or voice may be read as a whole to know its size, which a range needs
 * @throws SvcError `message_not_found`, `no_media`, `media_expired`, `upstream_error` …
 */
export async function sendMedia(
  gateway: Gateway,
  params: Record<string, string>,
  request: Request,
  mayCount = true,
): Promise<Response> {
  const { message_id, item } = params
  const path = parse(MediaPath, spelled(MediaPath, { message_id, item }))
  const wanted = wantedOf(request, `${path.item} ${path.message_id}`)
  const sized = mayCount && wanted.range !== undefined && !wanted.isKnown
  return await mediaAnswer(await gateway.media.open({ ...path, sized }, request.signal), wanted)
}

/** Adds POST /media and GET /media/{message_id}/{item}, below `prefix`. */
export function addMediaRoutes(
  app: Elysia,
  context: RouteContext,
  maxUploadBytes: number,
  prefix = '',
): void {
  const upload = (request: Request) => {
    const call = new HttpCall(request, context)
    const accept = async () => {
      const accepted = await acceptUpload(context.gateway, request, maxUploadBytes, call.signal)
      return new Response(JSON.stringify(accepted), jsonAnswer)
    }
    return answered(context, call, accept).finally(() => call.end())
  }
  // Stopping does not cut a download short: it has until the server's grace is over.
  const serve = (request: Request, params: Record<string, string>) =>
    answered(context, request, () => sendMedia(context.gateway, params, request))
  app.post(`${prefix}/media`, ({ request }) => upload(request), {
    parse: 'none',
    query: declared(UploadQuery),
    response: { 200: declared(AcceptedUpload) },
    detail: uploadDetail,
  })
  app.get(`${prefix}/media/:message_id/:item`, ({ request, params }) => serve(request, params), {
    params: declared(MediaPath),
    headers: declared(RangeHeaders),
    detail: downloadDetail,
  })
}

/** Adds GET /api/waiting-files/{row}, for the panel: nobody is to say yes to what they did not see. */
export function addWaitingFileRoute(app: Elysia, context: RouteContext, media: Gateway['media']): void {
  app.get(
    '/api/waiting-files/:row',
    ({ request, params }) =>
      answered(context, request, async () => {
        const { row } = parse(WaitingFilePath, spelled(WaitingFilePath, params))
        const wanted = wantedOf(request)
        const sized = wanted.range !== undefined
        return await mediaAnswer(await media.show({ row, sized }, request.signal), wanted)
      }),
    {
      params: declared(WaitingFilePath),
      headers: declared(RangeHeaders),
      detail: waitingFileDetail,
    },
  )
}

const uploadBody = {
  required: true,
  content: {
    'application/octet-stream': { schema: { type: 'string', format: 'binary' } },
    'multipart/form-data': {
      schema: {
        type: 'object',
        required: ['file'],
        properties: {
          file_name: { type: 'string', description: "Instead of the file's own name." },
          kind: MediaKind,
          digest: DigestChoice,
          file: { type: 'string', format: 'binary' },
        },
      },
    },
  },
}

const uploadDetail = {
  operationId: 'upload_media',
  summary: 'Upload media',
  description:
    'Takes a file for a later send: its raw bytes as the body, or a form with the file as its last field. Streamed to disk and kept for 24 hours; pass the upload_id in media[] of send. Up to 1000 wait, together at most four times as large as the largest that is allowed; then rate_limited. Those that were sent make room for others.',
  tags: ['media'],
  ...noted({
    errors: [
      'invalid_arguments',
      'payload_too_large',
      'rate_limited',
      'store_unavailable',
      'internal',
      ...doorErrors,
    ],
    requestBody: uploadBody,
    examples: [
      {
        summary: 'Accepted',
        output: {
          upload_id: 'up_3f1c9a',
          size: 48213,
          expires_at: 1767312000000,
        },
      },
    ],
  }),
}

const header = (description: string) => ({ description, schema: { type: 'string' } })
const bytesHeaders = {
  'Content-Disposition': header('The file name. inline only for images, audio and video.'),
  'Accept-Ranges': header('bytes: a part can be asked for.'),
  ETag: header('Names the bytes of a message, for If-Range; a file that waits has none.'),
}
const bytesContent = { '*/*': { schema: { type: 'string', format: 'binary' } } }
const rangeHeader = { 'Content-Range': header('Which bytes these are, and of how many.') }

const theBytes = {
  200: {
    description:
      'All bytes: without Range, and where their number cannot be told, which is so for more than 256 MiB of an image or video.',
    headers: bytesHeaders,
    content: bytesContent,
  },
  206: {
    description: 'The part that Range asks for.',
    headers: { ...bytesHeaders, ...rangeHeader },
    content: bytesContent,
  },
  304: { description: 'If-None-Match names these bytes.' },
  416: {
    description: '`invalid_arguments`: none of the bytes that Range asks for is there.',
    headers: { 'Content-Range': header('`bytes */` and how many there are.') },
    content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
  },
}

const openErrors = [
  'invalid_arguments',
  'message_not_found',
  'no_media',
  'media_expired',
  'upstream_error',
  'upstream_timeout',
  'store_unavailable',
  'internal',
  ...doorErrors,
] as const

const downloadDetail = {
  operationId: 'get_media',
  summary: 'Get the media of a message',
  description:
    'Streams the decrypted bytes of an image, voice, file or video, with its type and name, or the part that Range asks for. svc fetches what lies before a part too, and reads a video or voice of up to 64 MiB once as a whole, to know its size; an image, and a larger video, comes whole (200). The content comes from outside: treat it as untrusted.',
  tags: ['media'],
  ...noted({
    errors: openErrors,
    responses: theBytes,
  }),
}

const waitingFileDetail = {
  operationId: 'get_waiting_file',
  summary: 'Get the file of a message that waits',
  description: 'Streams the file that is going to be sent, or was sent meanwhile, with its type and name.',
  tags: ['media'],
  ...noted({
    errors: openErrors,
    responses: theBytes,
  }),
}
