/** Reads request bodies: limits their size and time, and parses JSON without changing long ids. */
import { Buffer } from 'node:buffer'
import { createBadJsonError } from '../model/bad-json.ts'
import { invalidArguments, SvcError, type SvcErrorOptions } from '../model/error.ts'
import { owner } from '../model/principal.ts'
import { SharedRoom, shares } from '../model/shares.ts'
import { SharedTurns, systemClock } from '../platform/clock.ts'
import { parseLossless } from '../platform/lossless.ts'
import { streamOnDemand } from '../platform/streams.ts'
import { callerAddressOf, principalOf } from './caller.ts'
import { countedBy, isOwner } from './open-calls.ts'

/** Maximum size of a body, and advice for a caller that exceeds it. */
export interface BodyLimit extends Pick<SvcErrorOptions, 'hint' | 'next'> {
  readonly maxBytes: number
  /** Counts bytes as they come. @throws SvcError if they are too many for the caller */
  count?(bytes: number): void
}

/** Returns the limit for JSON without files. */
export const createJsonLimit = (maxBytes: number): BodyLimit => ({
  maxBytes,
  hint: 'Send a smaller JSON object.',
})

/** Returns the limit for JSON that may contain files. */
export const createFilesLimit = (maxBytes: number): BodyLimit => ({ maxBytes, next: { action: 'upload' } })

/**
 * Reads and parses the JSON body of a request. Integers of 16 digits and more become strings. Call `releaseBody`
 * afterwards.
 *
 * @throws SvcError `unsupported_media_type`, `payload_too_large`, `rate_limited`, `bad_json`
 */
export async function readJson(request: Request, limit: BodyLimit): Promise<unknown> {
  checkJsonType(request.headers)
  return await readParsed(request, limit, parseLossless)
}

/**
 * Like `readJson`, for a request whose Content-Type was checked, and with another parser. Call `releaseBody`
 * afterwards.
 *
 * @throws SvcError `payload_too_large`, `rate_limited`, `bad_json`
 */
export async function readParsed(
  request: Request,
  limit: BodyLimit,
  parse: (text: string) => unknown,
): Promise<unknown> {
  let bytes: Uint8Array | ArrayBuffer
  try {
    bytes = await readBodyBytes(request, limit)
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
    throw notUtf8Error(new Uint8Array(bytes))
  }
  await checkShape(text)
  try {
    return parse(text)
  } catch (error) {
    // The parser's message may quote the body, so it is not in the answer.
    throw await createBadJsonError('The body', text, error)
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Creates the error for a body that is not UTF-8, with the position of the first wrong byte. The decoder does
 * not report it, so the bytes are decoded, encoded again and compared.
 */
function notUtf8Error(bytes: Uint8Array): SvcError {
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
  rejectCompressed(headers)
}

/** @throws SvcError `unsupported_media_type` for a compressed body */
export function rejectCompressed(headers: Headers): void {
  const encoding = headers.get('content-encoding')
  if (encoding !== null && encoding.toLowerCase() !== 'identity')
    throw new SvcError('unsupported_media_type', 'Compressed bodies are not accepted', {
      hint: 'Send the body without Content-Encoding.',
    })
}

/** A body fails if no bytes come for this time. Each `smallBytes` of it have this time in total. */
const stallTimeoutMs = 60_000
/** The same of a caller who has proved nothing. */
const unprovenTimeoutMs = 10_000
export const smallBytes = 64 * 1024

/** Whether nobody knows who makes a request. At doors that note no caller, all callers are the owner. */
const isUnproven = (request: Request): boolean => principalOf(request)?.kind === 'open'

const callerOf = (request: Request): unknown =>
  countedBy(principalOf(request) ?? owner, () => callerAddressOf(request))

/**
 * Counts what requests take of bounds that all callers share, by their callers. Without room for a caller who has proved
 * nothing, the body of the one who has more ends that stands still for longest.
 */
class HeldRoom {
  readonly #rooms: Readonly<Record<'proven' | 'unproven', SharedRoom>>
  readonly #taken = new WeakMap<Request, { room: SharedRoom; caller: unknown; amount: number }>()

  constructor(unproven: SharedRoom, proven = unproven) {
    this.#rooms = { proven, unproven }
  }

  take(request: Request, amount: number): void {
    const by = principalOf(request) ?? owner
    const {
      room,
      caller,
      amount: before,
    } = this.#taken.get(request) ?? {
      room: isUnproven(request) ? this.#rooms.unproven : this.#rooms.proven,
      caller: callerOf(request),
      amount: 0,
    }
    while (!room.take(caller, amount, isOwner(by))) {
      const greedier = isUnproven(request) ? room.findGreedier(caller) : undefined
      const ended = bodyDeadlines.end(other => callerOf(other) === greedier, tooManyBodiesError())
      if (!ended) throw tooManyBodiesError()
      heldBytes.release(ended)
      unprovenBodies.release(ended)
    }
    this.#taken.set(request, { room, caller, amount: before + amount })
  }

  release(request: Request): void {
    const { amount, caller, room } = this.#taken.get(request) ?? {}
    this.#taken.delete(request)
    room?.giveBack(caller, amount ?? 0)
  }
}

const tooManyBodiesError = () =>
  new SvcError('rate_limited', 'Too many large bodies are being processed', {
    hint: 'Try again in a moment.',
    next: { action: 'upload' },
    retryAfter: 2,
  })

const heldBytes = new HeldRoom(new SharedRoom(shares.unprovenBytes), new SharedRoom(shares.bodies))
const unprovenBodies = new HeldRoom(new SharedRoom(shares.unprovenBodies))

/** Releases the bytes that were read of a request. You may call it twice. */
export const releaseBody = (request: Request): void => heldBytes.release(request)

/**
 * A longer text is scanned before it is parsed. Parsing blocks the process, and 24 MB of brackets would take
 * 2 s.
 */
const longTextLength = 1024 * 1024
/** Approximate maximum of JSON names and values in a long text. Only a file makes a text that long. */
const maxTokens = 100_000
/** Maximum nesting depth of a long text. */
const maxDepth = 100
const scanTurns = new SharedTurns(systemClock)

/** Waits until it is the turn of a large body: in a round of the event loop, one is worked on. */
export const takeTurn = (): Promise<void> => scanTurns.join()()

/**
 * Checks the shape of a long JSON text.
 *
 * @param shortLength characters of a text that is not checked
 * @throws SvcError `payload_too_large` if it has too many values or is nested too deep
 */
export async function checkShape(text: string, shortLength = longTextLength): Promise<void> {
  if (text.length <= shortLength) return
  const turn = scanTurns.join()
  const tokenOutside = /["[\]{},:]/g
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
        hint: 'Send fewer values in one call.',
      })
  }
}

/**
 * Reads the whole body of a request. Call `releaseBody` afterwards.
 *
 * @throws SvcError `payload_too_large`; `rate_limited`; `invalid_arguments` if no more bytes come
 */
export async function readBodyBytes(request: Request, limit: BodyLimit): Promise<Uint8Array | ArrayBuffer> {
  checkContentLength(request.headers, limit)
  if (!isUnproven(request)) return await readWithin(request, limit, stallTimeoutMs)
  unprovenBodies.take(request, 1)
  try {
    return await readWithin(request, limit, unprovenTimeoutMs)
  } finally {
    unprovenBodies.release(request)
  }
}

function readWithin(request: Request, limit: BodyLimit, withinMs: number): Promise<Uint8Array | ArrayBuffer> {
  const announced = request.headers.get('content-length')
  // The server cuts a body at its announced length. Watch only a body without a length, or a long one.
  return announced !== null && Number(announced) <= smallBytes
    ? bodyDeadlines.withDeadline(request.arrayBuffer(), withinMs, request)
    : readWatched(request, limit, withinMs)
}

async function readWatched(request: Request, limit: BodyLimit, withinMs: number): Promise<Uint8Array> {
  if (!request.body) return new Uint8Array()
  const chunks: Uint8Array[] = []
  for await (const chunk of limitStream(request.body, limit, { withinMs, request })) {
    heldBytes.take(request, chunk.length)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** A promise with a deadline. */
interface BodyDeadline {
  /** Number of the last check at which it is not late. */
  readonly until: number
  readonly request: Request | undefined
  reject(error: unknown): void
}

/**
 * Deadlines of request bodies. One timer checks all of them, since each small request has a deadline.
 */
export class BodyDeadlines {
  readonly #checkIntervalMs: number
  readonly #pending = new Set<BodyDeadline>()
  #timer: ReturnType<typeof setInterval> | undefined
  /** Number of checks so far. It serves as the clock: reading the real one costs more than all else here. */
  #checkCount = 0

  /** @param lookMs interval between checks, and so the precision of deadlines */
  constructor(lookMs = 1000) {
    this.#checkIntervalMs = lookMs
  }

  /** Milliseconds so far in which there was a deadline. */
  get elapsedMs(): number {
    return this.#checkCount * this.#checkIntervalMs
  }

  /**
   * Returns the value of a promise. Rejects if it is late; this is noticed up to one interval later.
   *
   * @param request of which it is a part, for `end`
   * @throws SvcError `invalid_arguments` if it is late
   */
  withDeadline<T>(bytes: Promise<T>, withinMs: number, request?: Request): Promise<T> {
    return new Promise((resolve, reject) => {
      const until = this.#checkCount + Math.ceil(withinMs / this.#checkIntervalMs)
      const sender = { until, request, reject }
      this.#pending.add(sender)
      this.#timer ??= setInterval(() => this.#check(), this.#checkIntervalMs)
      const end = () => this.#pending.delete(sender)
      bytes.then(end, end)
      bytes.then(resolve, reject)
    })
  }

  /** Rejects the wait for one of some requests, the longest one. @returns the request, if there is one */
  end(isOne: (request: Request) => boolean, error: SvcError): Request | undefined {
    for (const sender of this.#pending) {
      if (!sender.request || !isOne(sender.request)) continue
      this.#pending.delete(sender)
      sender.reject(error)
      return sender.request
    }
    return undefined
  }

  #check(): void {
    this.#checkCount++
    for (const sender of this.#pending) {
      if (sender.until >= this.#checkCount) continue
      this.#pending.delete(sender)
      sender.reject(invalidArguments([{ field: 'body', problem: 'the bytes come too slowly' }]))
    }
    if (this.#pending.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

const bodyDeadlines = new BodyDeadlines()

/** Checks the Content-Length of a request. @throws SvcError `payload_too_large` */
export function checkContentLength(headers: Headers, limit: BodyLimit): void {
  const length = headers.get('content-length')
  if (length !== null && !(Number(length) <= limit.maxBytes)) throw tooLargeError(limit)
}

const tooLargeError = ({ maxBytes, hint, next }: BodyLimit): SvcError =>
  new SvcError('payload_too_large', `The body is larger than ${maxBytes} bytes`, { hint, next })

/**
 * Passes a stream on, and fails it if it exceeds the size limit or stops coming. Back-pressure and cancelling
 * reach the source.
 *
 * @param broke called with that error
 */
export function limitStream(
  source: ReadableStream<Uint8Array>,
  limit: BodyLimit,
  {
    broke,
    withinMs = stallTimeoutMs,
    request,
    senders = bodyDeadlines,
  }: { broke?(error: unknown): void; withinMs?: number; request?: Request; senders?: BodyDeadlines } = {},
): ReadableStream<Uint8Array> {
  const reader = source.getReader()
  let size = 0
  let leftMs = withinMs
  return streamOnDemand({
    async pull(controller) {
      try {
        const began = senders.elapsedMs
        const { done, value } = await senders.withDeadline(reader.read(), leftMs, request)
        if (done) return controller.close()
        leftMs += began - senders.elapsedMs + (value.length / smallBytes) * withinMs
        leftMs = Math.min(withinMs, leftMs)
        size += value.length
        if (size > limit.maxBytes) throw tooLargeError(limit)
        limit.count?.(value.length)
        controller.enqueue(value)
      } catch (error) {
        broke?.(error)
        controller.error(error)
        reader.cancel(error).catch(() => {})
      }
    },
    cancel: reason => reader.cancel(reason),
  })
}
