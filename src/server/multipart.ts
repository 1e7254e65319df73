/**
 * Reads one file from a multipart/form-data body as a stream, without keeping it in memory.
 *
 * This is our own code because the small parsers for web streams (`@remix-run/multipart-parser`,
 * `multipart-parser`) return a part only when it is complete in memory. busboy uses Node streams, which
 * need a conversion at both ends. Fields must come before the file; forms and curl send them in the order
 * in which they are given.
 */
import { Buffer } from 'node:buffer'
import { badArgument } from '../model/error.ts'
import { parseDisposition } from '../platform/header.ts'
import { streamOnDemand } from '../platform/streams.ts'

/** The file of a form. */
export interface MultipartFile {
  /** The small fields before the file. */
  fields: Record<string, string>
  /** The sender's name for the file. Do not trust it as a path. */
  fileName?: string
  body: ReadableStream<Uint8Array>
}

const maxHeaderBytes = 16 * 1024
const maxFieldBytes = 64 * 1024
const maxFields = 20

/** Returns the boundary of a Content-Type header; undefined if it is not multipart/form-data. */
export function boundaryOf(contentType: string | null): string | undefined {
  const match = /^multipart\/form-data *;.*?\bboundary=(?:"([^"]{1,200})"|([^\s;,"]{1,200}))/i.exec(
    contentType ?? '',
  )
  return match?.[1] ?? match?.[2]
}

/**
 * Reads up to the first file part and returns its content as a stream. The stream fails if the rest of the
 * body is incomplete or malformed.
 *
 * @throws SvcError `invalid_arguments` if the body is not a form, or has no file
 */
export async function readFilePart(
  source: ReadableStream<Uint8Array>,
  boundary: string,
): Promise<MultipartFile> {
  const parts = new MultipartReader(source, boundary)
  const fields: Record<string, string> = Object.create(null)
  await parts.start()
  for (let count = 0; count <= maxFields; count++) {
    const headers = await parts.readHeaders()
    if (!headers)
      throw malformedError('expected a part with a file (a field with a file name, or named "file")')
    const { name, fileName } = namesOf(headers)
    if (fileName !== undefined || name === 'file') return { fields, fileName, body: parts.streamRest() }
    fields[name] = (await parts.readText(maxFieldBytes)).toString('utf8')
  }
  throw malformedError(`expected at most ${maxFields} fields before the file`)
}

const malformedError = (expected: string) =>
  badArgument('body', expected, {
    details: { errors: [{ field: 'body', problem: expected }] },
    hint: 'Send the bytes as they are with query parameters file_name and kind, or a form with one file as its last field.',
  })

/** Parses the name and file name of a part. */
function namesOf(headers: string): { name: string; fileName?: string } {
  const line = /^content-disposition:\s*(form-data\s*;.*)$/im.exec(headers)?.[1] ?? ''
  const { name = '', fileName } = parseDisposition(line, { isForm: true })
  return { name, fileName }
}

/**
 * Splits a body at its delimiters. Has at most one chunk and a delimiter's length of the previous one in
 * memory.
 */
class MultipartReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>
  readonly #delimiter: Buffer
  // A line break is added, since the first boundary has none before it.
  #buffer: Buffer = Buffer.from('\r\n')

  constructor(source: ReadableStream<Uint8Array>, boundary: string) {
    this.#reader = source.getReader()
    this.#delimiter = Buffer.from(`\r\n--${boundary}`)
  }

  async #fill(): Promise<void> {
    const { done, value } = await this.#reader.read()
    if (done) throw malformedError('expected a complete form, but it ended early')
    const chunk = Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    this.#buffer = this.#buffer.length === 0 ? chunk : Buffer.concat([this.#buffer, chunk])
  }

  /** Reads and returns the bytes before `mark`, and skips `mark`. */
  async #readUpTo(mark: Buffer, maxBytes: number): Promise<Buffer> {
    for (;;) {
      const at = this.#buffer.indexOf(mark)
      if (at > maxBytes || (at < 0 && this.#buffer.length > maxBytes + mark.length))
        throw malformedError(`expected headers and fields of at most ${maxBytes} bytes`)
      if (at >= 0) {
        const before = this.#buffer.subarray(0, at)
        this.#buffer = this.#buffer.subarray(at + mark.length)
        return before
      }
      await this.#fill()
    }
  }

  async start(): Promise<void> {
    await this.#readUpTo(this.#delimiter, maxHeaderBytes)
  }

  /** Reads the headers of the next part; undefined after the last one. */
  async readHeaders(): Promise<string | undefined> {
    while (this.#buffer.length < 2) await this.#fill()
    if (this.#buffer.subarray(0, 2).toString('latin1') === '--') return undefined
    await this.#readUpTo(Buffer.from('\r\n'), 256)
    if (this.#buffer.length < 2) await this.#fill()
    return (await this.#readUpTo(Buffer.from('\r\n\r\n'), maxHeaderBytes)).toString('utf8')
  }

  readText(maxBytes: number): Promise<Buffer> {
    return this.#readUpTo(this.#delimiter, maxBytes)
  }

  /** Returns the content of the current part, which must be the last one. */
  streamRest(): ReadableStream<Uint8Array> {
    const keep = this.#delimiter.length - 1
    return streamOnDemand({
      pull: async controller => {
        for (;;) {
          const at = this.#buffer.indexOf(this.#delimiter)
          if (at >= 0) {
            if (at > 0) controller.enqueue(this.#buffer.subarray(0, at))
            this.#buffer = this.#buffer.subarray(at + this.#delimiter.length)
            if ((await this.readHeaders()) !== undefined)
              throw malformedError('expected the file to be the last field of the form')
            return controller.close()
          }
          // The last bytes may be the beginning of a delimiter: wait for the next chunk.
          const ready = this.#buffer.length - keep
          if (ready > 0) {
            controller.enqueue(this.#buffer.subarray(0, ready))
            this.#buffer = this.#buffer.subarray(ready)
            return
          }
          await this.#fill()
        }
      },
      cancel: reason => this.#reader.cancel(reason),
    })
  }
}
