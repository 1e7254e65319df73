/** What kind of file some bytes are: by the name's extension, else by their first bytes. */

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
  const ascii = new TextDecoder('latin1').decode(first.subarray(0, 16))
  if (ascii.includes(silkMagic)) return { type: 'audio/silk', rest }
  const { fileTypeFromBuffer } = await import('file-type')
  return { type: (await fileTypeFromBuffer(first))?.mime ?? 'application/octet-stream', rest }
}
