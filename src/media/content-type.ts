/** The content type of a file: by its name's extension, else by its first bytes. */
import { Buffer } from 'node:buffer'
import { badArgument } from '../model/error.ts'
import type { SteadyFile } from '../model/media.ts'
import { attempt } from '../platform/fields.ts'
import { streamOnDemand } from '../platform/streams.ts'

/** Number of bytes that contain the signature of each usual media type. */
const sniffBytes = 4100
const silkMagic = '#!SILK_V3'

/** Returns the type of the name's extension; undefined for an unknown extension. */
export const typeOfName = async (name: string): Promise<string | undefined> =>
  (await loadMime()).getType(name) ?? undefined

/** Returns the usual extension of a type, without the dot. */
export const extensionOf = async (type: string): Promise<string> =>
  type === 'audio/silk' ? 'silk' : ((await loadMime()).getExtension(type) ?? 'bin')

// Both tables are loaded on first use: loading them takes longer than loading the rest of the service.
const loadMime = async () => (await import('mime')).default

/**
 * Detects the type from the first bytes; `rest` yields all bytes, including the first ones.
 *
 * Voice messages are Tencent's SILK, whatever `encode_type` of the message says (protocol notes 4.4).
 */
export async function sniffType(
  stream: ReadableStream<Uint8Array>,
): Promise<{ type: string; rest: ReadableStream<Uint8Array> }> {
  const reader = stream.getReader()
  const head: Uint8Array[] = []
  let size = 0
  let ended = false
  while (size < sniffBytes && !ended) {
    const { done, value } = await reader.read()
    ended = done
    if (value) {
      head.push(value)
      size += value.byteLength
    }
  }
  const first = new Uint8Array(size)
  let at = 0
  for (const chunk of head) {
    first.set(chunk, at)
    at += chunk.byteLength
  }
  const rest = new ReadableStream<Uint8Array>({
    start(controller) {
      if (size > 0) controller.enqueue(first)
      if (ended) controller.close()
    },
    async pull(controller) {
      const { done, value } = await reader.read()
      if (done) controller.close()
      else controller.enqueue(value)
    },
    cancel: reason => reader.cancel(reason),
  })
  return { type: await typeOfBytes(first), rest }
}

const unknownType = 'application/octet-stream'

/** @param first the first bytes of a file: some thousands, or the whole file */
async function typeOfBytes(first: Uint8Array): Promise<string> {
  if (first.length === 0) return unknownType
  const ascii = new TextDecoder('latin1').decode(first.subarray(0, 16))
  if (ascii.includes(silkMagic)) return 'audio/silk'
  const { fileTypeFromBuffer } = await import('file-type')
  const found = await fileTypeFromBuffer(first)
  return found?.mime ?? (isText(first) ? 'text/plain' : unknownType)
}

/**
 * Returns true for UTF-8 without control characters that no text contains. The last character of `first`
 * may be cut.
 */
function isText(first: Uint8Array): boolean {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const text = attempt(() => decoder.decode(first, { stream: first.length >= sniffBytes }))
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the expression looks for control characters
  return text !== undefined && !/[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]/.test(text)
}

/**
 * Rejects a file that certainly is no image: WeChat would accept it and display a broken picture.
 *
 * @throws SvcError `invalid_arguments` if the first bytes are those of another kind
 */
export async function requireImage(file: Pick<SteadyFile, 'read'>): Promise<void> {
  for await (const block of file.read()) {
    const type = await typeOfBytes(block.subarray(0, sniffBytes))
    if (mayBeImage(type)) return
    throw notImageError(type, 'media')
  }
}

/**
 * Passes the bytes of an image through. The stream ends with the error of `requireImage` if the first bytes
 * are of another kind.
 *
 * @param field argument to name in the error
 */
export function passImage(body: ReadableStream<Uint8Array>, field: string): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  let head: Buffer | undefined = Buffer.alloc(0)
  return streamOnDemand({
    async pull(controller) {
      for (let isPassed = false; !isPassed; ) {
        const { done, value } = await reader.read()
        if (head && value) head = Buffer.concat([head, value])
        const chunk: Uint8Array | undefined = head ?? value
        if (head && !done && head.length < sniffBytes) continue
        const type = head && (await typeOfBytes(head.subarray(0, sniffBytes)))
        if (type !== undefined && !mayBeImage(type)) {
          // Stops the sender: the rest is not needed.
          reader.cancel().catch(() => {})
          throw notImageError(type, field)
        }
        head = undefined
        if (chunk && chunk.length > 0) controller.enqueue(chunk)
        if (done) controller.close()
        isPassed = true
      }
    },
    cancel: reason => reader.cancel(reason),
  })
}

const mayBeImage = (type: string) => type === unknownType || type.startsWith('image/')

const notImageError = (type: string, field: string) =>
  badArgument(field, `expected an image; by its content this is ${type}`, { hint: 'Send it as a file.' })
