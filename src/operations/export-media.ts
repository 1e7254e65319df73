/** Media in the page of an export: reads each file within limits, or says why it is left out. */
import { Buffer } from 'node:buffer'
import type { Gateway } from '../gateway/gateway-api.ts'
import { isSvcError } from '../model/error.ts'
import type { MessageKind } from '../model/message.ts'
import { formatBytes } from '../platform/format.ts'
import { createByteCounter } from '../platform/memory.ts'
import { RoomPart } from '../platform/runtime.ts'
import { linkSignals } from '../platform/signals.ts'

/** Maximum bytes of one file. It is in memory while it is written, since it may break off. */
const maxFileBytes = 8 * 1024 * 1024
/** Maximum bytes of all files: a browser must still open the page. */
const maxPageBytes = 256 * 1024 * 1024
/** How often the bytes of a file are copied on their way into the page. The collector frees the copies. */
const copies = 6
/** Longest time for one file. */
const fileMs = 60_000
/** After this many failures in a row, WeChat counts as out of reach, and nothing more is fetched. */
const maxFailures = 3

/** Pictures that a browser shows without running anything: no SVG. */
const pictures = /^image\/(png|jpeg|gif|webp|bmp|avif)$/
const videos = /^video\/(mp4|webm|ogg|quicktime)$/

/** Why a file is left out. */
export type LeftOut = 'gone' | 'no_file' | 'large' | 'full' | 'failed' | 'offline'

/** A media item of a message. `item` counts the items with media; undefined: it has none. */
interface WantedMedia {
  readonly message_id: string
  readonly item: number | undefined
  readonly kind: MessageKind
  /** Bytes, if WeChat says them. */
  readonly size: number | undefined
}

/** A file that was read. */
export interface ReadMedia {
  readonly shownAs: 'image' | 'video' | 'file'
  /** Content type; only for what is shown. */
  readonly type: string
  readonly file_name: string
  readonly sizeText: string
  /** Yields the bytes in pieces of base64. */
  base64(): Generator<string, void>
}

/** The media of one page. */
export class ExportedMedia extends RoomPart<{ media: Pick<Gateway['media'], 'open'>; signal: AbortSignal }> {
  readonly #count = createByteCounter()
  #bytes = 0
  #failures = 0
  /** Numbers of files that are not in the page, by reason. */
  readonly leftOut = new Map<LeftOut, number>()

  /** Reads a file, or returns why it is left out. @throws the signal's reason */
  async read(wanted: WantedMedia): Promise<ReadMedia | { readonly reason: LeftOut }> {
    const read = await this.#tryRead(wanted)
    if (typeof read !== 'string') return read
    this.leftOut.set(read, (this.leftOut.get(read) ?? 0) + 1)
    return { reason: read }
  }

  async #tryRead({ item, kind, message_id, size = 0 }: WantedMedia): Promise<ReadMedia | LeftOut> {
    if (item === undefined) return 'no_file'
    if (size > maxFileBytes) return 'large'
    if (this.#bytes + size > maxPageBytes) return 'full'
    if (this.#failures >= maxFailures) return 'offline'
    using limited = linkSignals(this.ports.signal, AbortSignal.timeout(fileMs))
    try {
      const { content_type, file_name, stream } = await this.ports.media.open(
        { message_id, item },
        limited.signal,
      )
      const chunks: Uint8Array[] = []
      let bytes = 0
      for await (const chunk of stream) {
        limited.signal.throwIfAborted()
        bytes += chunk.length
        // Leaving the loop cancels the stream.
        if (bytes > maxFileBytes) return 'large'
        chunks.push(chunk)
      }
      if (this.#bytes + bytes > maxPageBytes) return 'full'
      this.#bytes += bytes
      this.#failures = 0
      const isPicture = kind === 'IMAGE' && pictures.test(content_type)
      const shownAs = isPicture ? 'image' : kind === 'VIDEO' && videos.test(content_type) ? 'video' : 'file'
      const base64 = () => toBase64(chunks, this.#count)
      return { shownAs, type: content_type, file_name, sizeText: formatBytes(bytes), base64 }
    } catch (error) {
      this.ports.signal.throwIfAborted()
      if (isSvcError(error, 'media_expired')) return 'gone'
      if (isSvcError(error, 'no_media') || isSvcError(error, 'message_not_found')) return 'no_file'
      this.#failures++
      return 'failed'
    }
  }
}

/** Encodes chunks without joining them: three bytes make four characters. Encoded chunks are let go. */
function* toBase64(chunks: Uint8Array[], count: (bytes: number) => void): Generator<string, void> {
  let rest = Buffer.alloc(0)
  for (let chunk = chunks.shift(); chunk; chunk = chunks.shift()) {
    const bytes = Buffer.concat([rest, chunk])
    const whole = bytes.length - (bytes.length % 3)
    yield bytes.toString('base64', 0, whole)
    rest = bytes.subarray(whole)
    count(chunk.length * copies)
  }
  yield rest.toString('base64')
}
