/** Request bodies: bounded before they are read, and JSON with long ids intact. */
import { Buffer } from 'node:buffer'
import { parseLossless } from '../ilink/lossless.ts'
import { badJson } from '../model/bad-json.ts'
import { invalid, SvcError, type SvcErrorOptions } from '../model/error.ts'
import { SharedTurns, systemClock } from '../platform/clock.ts'

/** How large a body may be, and what to do instead of a larger one: by default, of a file. */
export interface BodyLimit extends Pick<SvcErrorOptions, 'hint' | 'next'> {
  readonly maxBytes: number
}

/** The limit of JSON that carries no files. */
export const jsonLimit = (maxBytes: number): BodyLimit => ({ maxBytes, hint: 'Send a smaller JSON object.' })

/** The limit of JSON whose size comes from the files in it. */
export const filesLimit = (maxBytes: number): BodyLimit => ({ maxBytes, next: { action: 'upload' } })

/**
 * The JSON value of a request. Integers of 16 digits and more arrive as strings. `doneWith` has to follow.
 *
 * @throws SvcError `unsupported_media_type`, `payload_too_large`, `rate_limited`, `bad_json`
 */
export async function readJson(request: Request, limit: BodyLimit): Promise<unknown> {
  checkJsonType(request.headers)
  return await parsedBody(request, limit, parseLossless)
}

/**
 * The JSON value of a request whose type was checked. `doneWith` has to follow.
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
    // The parser's own words may quote the body: they stay out of the answer.
    throw await badJson('The body', text, error)
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** A decoder says that bytes are wrong, not which: what they decode to differs from the first of them on. */
function notUtf8(bytes: Uint8Array): SvcError {
  const again = Buffer.from(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes))
  let at = 0
  while (again[at] === bytes[at] && at < bytes.length) at++
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

/** A body of which nothing came for so long is given up; one of at most `smallBytes` has so long in all. */
const stalledMs = 60_000
const smallBytes = 64 * 1024

/** Bytes of all large bodies that are in work, at all doors. */
const mostInWork = 96 * 1024 * 1024

class InWork {
  readonly #bytes = new WeakMap<Request, number>()
  #total = 0

  add(request: Request, bytes: number): void {
    if (this.#total + bytes > mostInWork)
      throw new SvcError('rate_limited', 'Too many large bodies are being worked on', {
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

/** What was read of this request is needed no more. Safe to call twice. */
export const doneWith = (request: Request): void => inWork.end(request)

/** A longer text is looked through before it is parsed, which is one piece of work: 24 MB of brackets take 2 s. */
const longText = 1024 * 1024
/** Values that such a text may have, about; and how deep they may be nested. Only a file makes a text so long. */
const [mostSigns, deepest] = [100_000, 100]
const reading = new SharedTurns(systemClock)

/** @throws SvcError `payload_too_large` for a long text of many values */
export async function checkShape(text: string): Promise<void> {
  if (text.length <= longText) return
  const turn = reading.join()
  const [sign, ofString] = [/["[\]{},]/g, /["\\]/g]
  let depth = 0
  let signs = 0
  for (let at = 0, looks = 0, isString = false; ; looks++) {
    if (looks % 4096 === 0) await turn()
    const next = isString ? ofString : sign
    next.lastIndex = at
    if (!next.test(text)) return
    at = next.lastIndex
    const found = text[at - 1]
    if (found === '\\') at++
    else if (found === '"') isString = !isString
    else if (found === '[' || found === '{') depth++
    else if (found === ']' || found === '}') depth--
    if (isString || found === '"') continue
    if (++signs > mostSigns || depth > deepest)
      throw new SvcError('payload_too_large', 'The body has too many values for its length', {
        hint: 'Send fewer values in one call; only a file in it makes a body so long.',
      })
  }
}

/**
 * The whole body of a request. `doneWith` has to follow.
 *
 * @throws SvcError `payload_too_large`; `rate_limited`; `invalid_arguments` when it stops coming
 */
function readBytes(request: Request, limit: BodyLimit): Promise<Uint8Array | ArrayBuffer> {
  const announced = request.headers.get('content-length')
  if (announced !== null && !(Number(announced) <= limit.maxBytes)) return Promise.reject(tooLarge(limit))
  // The server cuts a body at its announced length: only a body without one, or a long one, has to be watched.
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

interface Sender {
  /** The last look that finds it in time. */
  readonly until: number
  readonly withinMs: number
  reject(error: unknown): void
}

/** Senders that are waited for. One timer looks after all of them: each small request passes here. */
export class Senders {
  readonly #lookMs: number
  readonly #awaited = new Set<Sender>()
  #looking: ReturnType<typeof setInterval> | undefined
  /** Looks so far: they are the clock, since the runtime's costs more than all else here. */
  #looks = 0

  /** @param lookMs how often it looks; sooner than that nobody is late */
  constructor(lookMs = 1000) {
    this.#lookMs = lookMs
  }

  /** What is awaited, if it comes in time, or a moment later. */
  arriving<T>(bytes: Promise<T>, withinMs: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const one = { until: this.#looks + Math.ceil(withinMs / this.#lookMs), withinMs, reject }
      this.#awaited.add(one)
      this.#looking ??= setInterval(() => this.#look(), this.#lookMs)
      bytes.then(
        value => {
          this.#awaited.delete(one)
          resolve(value)
        },
        error => {
          this.#awaited.delete(one)
          reject(error)
        },
      )
    })
  }

  #look(): void {
    this.#looks++
    for (const one of this.#awaited) {
      if (one.until >= this.#looks) continue
      this.#awaited.delete(one)
      const problem = `expected it to go on, and nothing came for ${one.withinMs / 1000} s`
      one.reject(invalid([{ field: 'body', problem }]))
    }
    if (this.#awaited.size > 0) return
    clearInterval(this.#looking)
    this.#looking = undefined
  }
}

const allSenders = new Senders()

/** @throws SvcError `payload_too_large` when the request announces more */
export function checkAnnounced(headers: Headers, limit: BodyLimit): void {
  const length = headers.get('content-length')
  if (length !== null && !(Number(length) <= limit.maxBytes)) throw tooLarge(limit)
}

const tooLarge = ({ maxBytes, ...advice }: BodyLimit): SvcError =>
  new SvcError('payload_too_large', `The body is larger than ${maxBytes} bytes`, advice)

/**
 * The same bytes, with an error in place of what exceeds the limit or does not come in time. Back-pressure and cancelling
 * pass through.
 *
 * @param broke hears of that error
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
