/** What kind of file some bytes are: by the name's extension, else by their first bytes. */
import { Buffer } from 'node:buffer'
import { badArgument } from '../model/error.ts'
import type { SteadyFile } from '../model/media.ts'

/** Enough for every signature that media of a chat carries. */
const sniffBytes = 4100
const silkMagic = '#!SILK_V3'

/** The type that the extension of `name` stands for; undefined when it stands for none. */
export const typeOfName = async (name: string): Promise<string | undefined> =>
  (await names()).getType(name) ?? undefined

/** The usual extension of a type, without the dot. */
export const extensionOf = async (type: string): Promise<string> =>
  type === 'audio/silk' ? 'silk' : ((await names()).getExtension(type) ?? 'bin')

// Both tables are loaded on use: they take longer to load than the rest of the service.
const names = async () => (await import('mime')).default

/**
 * Reads the first bytes and tells the type; `rest` gives all bytes, the first ones included.
 *
 * Voice messages are Tencent's SILK whatever upstream's `encode_type` says (protocol notes 4.4).
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

/** @param first the first bytes of a file, some thousands or all */
async function typeOfBytes(first: Uint8Array): Promise<string> {
  if (first.length === 0) return unknownType
  const ascii = new TextDecoder('latin1').decode(first.subarray(0, 16))
  if (ascii.includes(silkMagic)) return 'audio/silk'
  const { fileTypeFromBuffer } = await import('file-type')
  const found = await fileTypeFromBuffer(first)
  return found?.mime ?? (isText(first) ? 'text/plain' : unknownType)
}

/** UTF-8 without controls that no text has; of a longer file the last character may be cut off. */
function isText(first: Uint8Array): boolean {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(first, {
      stream: first.length >= sniffBytes,
    })
    // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what is looked for
    return !/[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]/.test(text)
  } catch {
    return false
  }
}

/**
 * Refuses what is certainly no picture: WeChat would take it and show a broken one.
 *
 * @throws SvcError `invalid_arguments` for a file whose first bytes are those of another kind
 */
export async function expectImage(file: Pick<SteadyFile, 'read'>): Promise<void> {
  for await (const block of file.read()) {
    const type = await typeOfBytes(block.subarray(0, sniffBytes))
    if (mayBeImage(type)) return
    throw noImage(type, 'media')
  }
}

/** The same bytes, of what is to be sent as a picture: they end with that error where the first ones are of another kind. @param field the argument that says so */
export function imageBytes(body: ReadableStream<Uint8Array>, field: string): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  let head: Buffer | undefined = Buffer.alloc(0)
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (let isGiven = false; !isGiven; ) {
          const { done, value } = await reader.read()
          if (head && value) head = Buffer.concat([head, value])
          const given: Uint8Array | undefined = head ?? value
          if (head && !done && head.length < sniffBytes) continue
          const type = head && (await typeOfBytes(head.subarray(0, sniffBytes)))
          if (type !== undefined && !mayBeImage(type)) {
            // Whoever sends the rest need not.
            reader.cancel().catch(() => {})
            throw noImage(type, field)
          }
          head = undefined
          if (given && given.length > 0) controller.enqueue(given)
          if (done) controller.close()
          isGiven = true
        }
      },
      cancel: reason => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  )
}

const mayBeImage = (type: string) => type === unknownType || type.startsWith('image/')

const noImage = (type: string, field: string) =>
  badArgument(field, `expected an image; by its content this is ${type}`, { hint: 'Send it as a file.' })
