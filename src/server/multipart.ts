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
import { dispositionOf } from '../platform/header.ts'

/** The file of a form. */
export interface MultipartFile {
  /** The small fields before the file. */
  fields: Record<string, string>
  /** The sender's name for the file. Do not trust it as a path. */
  fileName?: string
  body: ReadableStream<Uint8Array>
}

const headerMaxBytes = 16 * 1024
const fieldMaxBytes = 64 * 1024
const fieldsMax = 20

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
  const parts = new Parts(source, boundary)
  const fields: Record<string, string> = Object.create(null)
  await parts.start()
  for (let count = 0; count <= fieldsMax; count++) {
    const headers = await parts.headers()
    if (!headers) throw malformed('expected a part with a file (a field with a file name, or named "file")')
    const { name, fileName } = namesOf(headers)
    if (fileName !== undefined || name === 'file') return { fields, fileName, body: parts.rest() }
    fields[name] = (await parts.text(fieldMaxBytes)).toString('utf8')
  }
  throw malformed(`expected at most ${fieldsMax} fields before the file`)
}

const malformed = (expected: string) =>
  badArgument('body', expected, {
    details: { errors: [{ field: 'body', problem: expected }] },
    hint: 'Send the bytes as they are with query parameters file_name and kind, or a form with one file as its last field.',
  })

/** Parses the name and file name of a part, with the escapes of browsers and curl. */
function namesOf(headers: string): { name: string; fileName?: string } {
  const line = /^content-disposition:\s*form-data\s*(;.*)$/im.exec(headers)?.[1] ?? ''
  const { name = '', fileName } = dispositionOf(line)
  const plain = (text: string) => text.replaceAll('%22', '"').replaceAll(/%0[da]/gi, '')
  return { name: plain(name), fileName: fileName === undefined ? undefined : plain(fileName) }
}

/**
 * Splits a body at its delimiters. Has at most one chunk and a delimiter's length of the previous one in
 * memory.
 */
class Parts {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>
  readonly #delimiter: Buffer
  // A line break is added, since the first boundary has none before it.
  #held: Buffer = Buffer.from('\r\n')

  constructor(source: ReadableStream<Uint8Array>, boundary: string) {
    this.#reader = source.getReader()
    this.#delimiter = Buffer.from(`\r\n--${boundary}`)
  }

  async #fill(): Promise<void> {
    const { done, value } = await this.#reader.read()
    if (done) throw malformed('expected a complete form, but it ended early')
    const chunk = Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
  }

  /** Reads and returns the bytes before `mark`, and skips `mark`. */
  async #upTo(mark: Buffer, maxBytes: number): Promise<Buffer> {
    for (;;) {
      const at = this.#held.indexOf(mark)
      if (at > maxBytes || (at < 0 && this.#held.length > maxBytes + mark.length))
        throw malformed(`expected headers and fields of at most ${maxBytes} bytes`)
      if (at >= 0) {
        const before = this.#held.subarray(0, at)
        this.#held = this.#held.subarray(at + mark.length)
        return before
      }
      await this.#fill()
    }
  }

  async start(): Promise<void> {
    await this.#upTo(this.#delimiter, headerMaxBytes)
  }

  /** Reads the headers of the next part; undefined after the last one. */
  async headers(): Promise<string | undefined> {
    while (this.#held.length < 2) await this.#fill()
    if (this.#held.subarray(0, 2).toString('latin1') === '--') return undefined
    await this.#upTo(Buffer.from('\r\n'), 256)
    if (this.#held.length < 2) await this.#fill()
    return (await this.#upTo(Buffer.from('\r\n\r\n'), headerMaxBytes)).toString('utf8')
  }

  text(maxBytes: number): Promise<Buffer> {
    return this.#upTo(this.#delimiter, maxBytes)
  }

  /** Returns the content of the current part, which must be the last one. */
  rest(): ReadableStream<Uint8Array> {
    const keep = this.#delimiter.length - 1
    return new ReadableStream<Uint8Array>(
      {
        pull: async controller => {
          for (;;) {
            const at = this.#held.indexOf(this.#delimiter)
            if (at >= 0) {
              if (at > 0) controller.enqueue(this.#held.subarray(0, at))
              this.#held = this.#held.subarray(at + this.#delimiter.length)
              if ((await this.headers()) !== undefined)
                throw malformed('expected the file to be the last field of the form')
              return controller.close()
            }
            // The last bytes may be the beginning of a delimiter: wait for the next chunk.
            const ready = this.#held.length - keep
            if (ready > 0) {
              controller.enqueue(this.#held.subarray(0, ready))
              this.#held = this.#held.subarray(ready)
              return
            }
            await this.#fill()
          }
        },
        cancel: reason => this.#reader.cancel(reason),
      },
      { highWaterMark: 0 },
    )
  }
}
