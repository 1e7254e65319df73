/** Reads request bodies: limits their size and time, and parses JSON without changing long ids. */
import { Buffer } from 'node:buffer'
import { parseLossless } from '../ilink/lossless.ts'
import { badJson } from '../model/bad-json.ts'
import { invalid, SvcError, type SvcErrorOptions } from '../model/error.ts'
import { SharedTurns, systemClock } from '../platform/clock.ts'

/** Maximum size of a body, and advice for a caller that exceeds it. */
export interface BodyLimit extends Pick<SvcErrorOptions, 'hint' | 'next'> {
  readonly maxBytes: number
}

/** Returns the limit for JSON without files. */
export const jsonLimit = (maxBytes: number): BodyLimit => ({ maxBytes, hint: 'Send a smaller JSON object.' })

/** Returns the limit for JSON that may contain files. */
export const filesLimit = (maxBytes: number): BodyLimit => ({ maxBytes, next: { action: 'upload' } })

/**
 * Reads and parses the JSON body of a request. Integers of 16 digits and more become strings. Call `doneWith`
 * afterwards.
 *
 * @throws SvcError `unsupported_media_type`, `payload_too_large`, `rate_limited`, `bad_json`
 */
export async function readJson(request: Request, limit: BodyLimit): Promise<unknown> {
  checkJsonType(request.headers)
  return await parsedBody(request, limit, parseLossless)
}

/**
 * Like `readJson`, for a request whose Content-Type was checked, and with another parser. Call `doneWith`
 * afterwards.
 *
 * @throws SvcError `payload_too_large`, `rate_limited`, `bad_json`
 */
export async function parsedBody(
  request: Request,
  limit: BodyLimit,
  parse: (text: string) => unknown,
): Promise<unknown> {
  let bytes: Uint8Array | ArrayBuffer
  try {
    bytes = await readBytes(request, limit)
  } catch (error) {
    if (error instanceof SvcError) throw error
    throw new SvcError('bad_json', 'The body ended before it was complete', { cause: error })
  }
  if (bytes.byteLength === 0)
    throw new SvcError('bad_json', 'The request has no body; a JSON object was expected')
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch {
    throw notUtf8(new Uint8Array(bytes))
  }
  await checkShape(text)
  try {
    return parse(text)
  } catch (error) {
    // The parser's message may quote the body, so it is not in the answer.
    throw await badJson('The body', text, error)
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Creates the error for a body that is not UTF-8, with the position of the first wrong byte. The decoder does
 * not report it, so the bytes are decoded, encoded again and compared.
 */
function notUtf8(bytes: Uint8Array): SvcError {
  const encoded = Buffer.from(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes))
  let at = 0
  while (encoded[at] === bytes[at] && at < bytes.length) at++
  const byte = at + 1
  return new SvcError('bad_json', `The body is not valid UTF-8 from byte ${byte} on`, { details: { byte } })
}

const jsonType = /^application\/json *(?:; *charset="?utf-?8"? *)?;?$/i

function checkJsonType(headers: Headers): void {
  const type = headers.get('content-type')
  if (type !== 'application/json' && !(type !== null && jsonType.test(type)))
    throw new SvcError(
      'unsupported_media_type',
      type === null
        ? 'The header Content-Type is missing; application/json was expected'
        : 'Content-Type must be application/json, in UTF-8',
    )
  const encoding = headers.get('content-encoding')
  if (encoding !== null && encoding.toLowerCase() !== 'identity')
    throw new SvcError('unsupported_media_type', 'Compressed bodies are not accepted', {
      hint: 'Send the body without Content-Encoding.',
    })
}

/** A body fails if no bytes come for this time. A body of at most `smallBytes` has this time in total. */
const stalledMs = 60_000
const smallBytes = 64 * 1024

/** Maximum bytes of all large bodies that are in memory, for all services of the process. */
const mostInWork = 96 * 1024 * 1024

/** Counts the bytes of large bodies in memory. */
class InWork {
  readonly #bytes = new WeakMap<Request, number>()
  #total = 0

  add(request: Request, bytes: number): void {
    if (this.#total + bytes > mostInWork)
      throw new SvcError('rate_limited', 'Too many large bodies are being processed', {
        hint: 'Try again in a moment.',
        next: { action: 'upload' },
        retryAfter: 2,
      })
    this.#total += bytes
    this.#bytes.set(request, (this.#bytes.get(request) ?? 0) + bytes)
  }

  end(request: Request): void {
    this.#total -= this.#bytes.get(request) ?? 0
    this.#bytes.delete(request)
  }
}

const inWork = new InWork()

/** Releases the bytes that were read of a request. You may call it twice. */
export const doneWith = (request: Request): void => inWork.end(request)

/**
 * A longer text is scanned before it is parsed. Parsing blocks the process, and 24 MB of brackets would take
 * 2 s.
 */
const longText = 1024 * 1024
/** Approximate maximum of JSON tokens in a long text. Only a file makes a text that long. */
const maxTokens = 100_000
/** Maximum nesting depth of a long text. */
const maxDepth = 100
const reading = new SharedTurns(systemClock)

/**
 * Checks the shape of a long JSON text.
 *
 * @throws SvcError `payload_too_large` if it has too many values or is nested too deep
 */
export async function checkShape(text: string): Promise<void> {
  if (text.length <= longText) return
  const turn = reading.join()
  const tokenOutside = /["[\]{},]/g
  const tokenInString = /["\\]/g
  let depth = 0
  let tokens = 0
  for (let at = 0, count = 0, isString = false; ; count++) {
    if (count % 4096 === 0) await turn()
    const next = isString ? tokenInString : tokenOutside
    next.lastIndex = at
    if (!next.test(text)) return
    at = next.lastIndex
    const found = text[at - 1]
    if (found === '\\') at++
    else if (found === '"') isString = !isString
    else if (found === '[' || found === '{') depth++
    else if (found === ']' || found === '}') depth--
    if (isString || found === '"') continue
    if (++tokens > maxTokens || depth > maxDepth)
      throw new SvcError('payload_too_large', 'The body has too many values for its length', {
        hint: 'Send fewer values in one call. Only a body with a file may be this long.',
      })
  }
}

/**
 * Reads the whole body of a request. Call `doneWith` afterwards.
 *
 * @throws SvcError `payload_too_large`; `rate_limited`; `invalid_arguments` if no more bytes come
 */
function readBytes(request: Request, limit: BodyLimit): Promise<Uint8Array | ArrayBuffer> {
  const announced = request.headers.get('content-length')
  if (announced !== null && !(Number(announced) <= limit.maxBytes)) return Promise.reject(tooLarge(limit))
  // The server cuts a body at its announced length. Watch only a body without a length, or a long one.
  return announced !== null && Number(announced) <= smallBytes
    ? allSenders.arriving(request.arrayBuffer(), stalledMs)
    : readWatched(request, limit)
}

async function readWatched(request: Request, limit: BodyLimit): Promise<Uint8Array> {
  if (!request.body) return new Uint8Array()
  const chunks: Uint8Array[] = []
  for await (const chunk of limited(request.body, limit)) {
    inWork.add(request, chunk.length)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** A promise with a deadline. */
interface Sender {
  /** Number of the last check at which it is not late. */
  readonly until: number
  readonly withinMs: number
  reject(error: unknown): void
}

/**
 * Deadlines of request bodies. One timer checks all of them, since each small request has a deadline.
 */
export class Senders {
  readonly #lookMs: number
  readonly #awaited = new Set<Sender>()
  #looking: ReturnType<typeof setInterval> | undefined
  /** Number of checks so far. It serves as the clock: reading the real one costs more than all else here. */
  #looks = 0

  /** @param lookMs interval between checks, and so the precision of deadlines */
  constructor(lookMs = 1000) {
    this.#lookMs = lookMs
  }

  /**
   * Returns the value of a promise. Rejects if it is late; this is noticed up to one interval later.
   *
   * @throws SvcError `invalid_arguments` if it is late
   */
  arriving<T>(bytes: Promise<T>, withinMs: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const sender = { until: this.#looks + Math.ceil(withinMs / this.#lookMs), withinMs, reject }
      this.#awaited.add(sender)
      this.#looking ??= setInterval(() => this.#look(), this.#lookMs)
      bytes.then(
        value => {
          this.#awaited.delete(sender)
          resolve(value)
        },
        error => {
          this.#awaited.delete(sender)
          reject(error)
        },
      )
    })
  }

  #look(): void {
    this.#looks++
    for (const sender of this.#awaited) {
      if (sender.until >= this.#looks) continue
      this.#awaited.delete(sender)
      const problem = `expected more bytes, but none came for ${sender.withinMs / 1000} s`
      sender.reject(invalid([{ field: 'body', problem }]))
    }
    if (this.#awaited.size > 0) return
    clearInterval(this.#looking)
    this.#looking = undefined
  }
}

const allSenders = new Senders()

/** Checks the Content-Length of a request. @throws SvcError `payload_too_large` */
export function checkAnnounced(headers: Headers, limit: BodyLimit): void {
  const length = headers.get('content-length')
  if (length !== null && !(Number(length) <= limit.maxBytes)) throw tooLarge(limit)
}

const tooLarge = ({ maxBytes, ...advice }: BodyLimit): SvcError =>
  new SvcError('payload_too_large', `The body is larger than ${maxBytes} bytes`, advice)

/**
 * Passes a stream on, and fails it if it exceeds the size limit or stops coming. Back-pressure and cancelling
 * reach the source.
 *
 * @param broke called with that error
 */
export function limited(
  source: ReadableStream<Uint8Array>,
  limit: BodyLimit,
  {
    broke,
    withinMs = stalledMs,
    senders = allSenders,
  }: { broke?(error: unknown): void; withinMs?: number; senders?: Senders } = {},
): ReadableStream<Uint8Array> {
  const reader = source.getReader()
  let size = 0
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await senders.arriving(reader.read(), withinMs)
          if (done) return controller.close()
          size += value.length
          if (size > limit.maxBytes) throw tooLarge(limit)
          controller.enqueue(value)
        } catch (error) {
          broke?.(error)
          controller.error(error)
          reader.cancel(error).catch(() => {})
        }
      },
      cancel: reason => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  )
}
