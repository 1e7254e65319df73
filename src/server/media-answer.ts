/**
 * HTTP responses with the bytes of one media file: all of them, or one requested range. The bytes are
 * streamed and never completely in memory.
 */
import { badArgument, SvcError } from '../model/error.ts'
import type { OpenedExport } from '../operations/export.ts'
import type { Range, RequestedMedia } from '../operations/media.ts'
import { streamOnDemand } from '../platform/streams.ts'
import { toProblemResponse } from './errors.ts'

// Types that a browser displays without running code. All others (SVG and everything that ends in +xml,
// HTML, scripts, PDF) are sent for download only, without their type: a page must not be able to load a
// user's script from our origin.
const inlineTypes = /^(image\/(png|jpeg|gif|webp|bmp|avif|heic)|(audio|video)\/[\w.-]+)$/

/** Headers of an answer with a file, so that a browser runs nothing of it. */
const fileHeaders = {
  'content-security-policy': "sandbox; default-src 'none'",
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'private, no-store',
} as const

/** Creates the response for a file to save, whose size is not known. */
export const createFileAnswer = ({ content_type, file_name, stream }: OpenedExport): Response =>
  new Response(stream, {
    headers: {
      ...fileHeaders,
      'content-type': content_type,
      'content-disposition': formatDisposition('attachment', file_name),
    },
  })

/**
 * Creates the response for a media file, so that a browser never runs it. If the number of bytes is not
 * known, the response has all of them.
 */
export async function createMediaAnswer({ media, etag, range, isKnown }: RequestedMedia): Promise<Response> {
  const isShown = inlineTypes.test(media.content_type)
  const { size, stream } = media
  const headers: Record<string, string> = {
    'content-type': isShown ? media.content_type : 'application/octet-stream',
    'content-disposition': formatDisposition(isShown ? 'inline' : 'attachment', media.file_name),
    ...fileHeaders,
    'accept-ranges': 'bytes',
    ...(etag !== undefined && { etag }),
  }
  if (isKnown) {
    await stream.cancel()
    return new Response(null, { status: 304, headers })
  }
  if (size === undefined) return new Response(stream, { headers })
  if (range === undefined) {
    headers['content-length'] = String(size)
    return new Response(stream, { headers })
  }
  const part = resolveRange(range, size)
  if (part === undefined) {
    await stream.cancel()
    const problem = `expected a range within ${size} bytes`
    const error = badArgument('Range', problem, { hint: 'Request a range of them, or omit the header.' })
    return toProblemResponse(
      error,
      { 'content-range': `bytes */${size}`, 'accept-ranges': 'bytes' },
      { status: 416 },
    )
  }
  const { from, length } = part
  headers['content-range'] = `bytes ${from}-${from + length - 1}/${size}`
  headers['content-length'] = String(length)
  return new Response(sliceStream(stream, from, length), { status: 206, headers })
}

/** Returns the start and length of a range, in bytes; undefined if it has no bytes. */
function resolveRange([from, to]: Range, size: number): { from: number; length: number } | undefined {
  const first = from ?? Math.max(0, size - (to ?? 0))
  const last = from === undefined ? size - 1 : Math.min(to ?? size - 1, size - 1)
  return first > last ? undefined : { from: first, length: last - first + 1 }
}

/**
 * Returns a part of a stream. The bytes before the part are read and dropped; the bytes after it are not
 * read.
 */
function sliceStream(
  stream: ReadableStream<Uint8Array>,
  from: number,
  length: number,
): ReadableStream<Uint8Array> {
  const reader = stream.getReader()
  let before = from
  let left = length
  return streamOnDemand({
    async pull(controller) {
      for (;;) {
        const { done, value } = await reader.read()
        if (done) throw new SvcError('upstream_error', 'The media ended before the requested range')
        const piece = value.subarray(before, before + left)
        before = Math.max(0, before - value.length)
        if (piece.length === 0) continue
        left -= piece.length
        controller.enqueue(piece)
        if (left > 0) return
        controller.close()
        return await reader.cancel()
      }
    },
    cancel: reason => reader.cancel(reason),
  })
}

/**
 * Returns a Content-Disposition header. It contains the name in ASCII, and complete in the form of RFC
 * 8187.
 */
export function formatDisposition(kind: 'inline' | 'attachment', fileName: string): string {
  const clean = fileName.toWellFormed().replace(/[\p{Cc}\\/]/gu, '_') || 'file'
  const ascii = clean.replace(/[^\x20-\x7e]/gu, '_').replace(/["%;]/g, '_')
  const encoded = encodeURIComponent(clean).replace(
    /['()*!]/g,
    char => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `${kind}; filename="${ascii}"; filename*=UTF-8''${encoded}`
}
