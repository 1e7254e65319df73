/**
 * POSTs to an address that a caller named, on connections that are kept. The address of each connection is
 * checked when it is made. Follows no redirect, and reads no more of a response than was requested.
 */
import { Buffer } from 'node:buffer'
import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { isReachableAddress } from './address.ts'
import { createYield, startAwakeTimer, systemClock } from './clock.ts'
import { createByteCounter } from './memory.ts'
import { type CheckedResponse, type FetchPublicOptions, sendCheckedRequest } from './public-fetch.ts'
import { followSignal } from './signals.ts'

export interface PosterOptions extends Pick<FetchPublicOptions, 'resolve' | 'ca'> {
  /** Also allows addresses of private networks and of this machine. Metadata services stay forbidden. */
  allowPrivate: boolean
  /** Limit until the head of the response, and until its body where that is requested. */
  timeoutMs: number
}

export interface PostResult {
  status: number
  retryAfter?: string
  /** The first bytes of the response as text, if they were requested. */
  text?: string
}

/** An idle kept connection is closed after this time. */
const idleMs = 30_000
/** Limits for reading a response that was not requested, so that its connection can be kept. */
const drainBytes = 64 * 1024
/** The cost of a chunk, however short it is, in bytes of a long one. */
const chunkBytes = 64
const drainMs = 1000
/**
 * What a POST leaves for the garbage collector, which sees little of that memory: 448 POSTs count as 28 MiB.
 * A service that delivers 100,000 events grows by 50 MB with this count, and by 140 MB without it (Bun
 * 1.4.5).
 */
const garbageBytes = 64 * 1024
/**
 * Counts for all posters together. With one counter each, a hundred endpoints would all collect at once, and
 * late.
 */
const countGarbage = createByteCounter()

export class Poster {
  readonly #url: URL
  readonly #options: PosterOptions
  readonly #agent: HttpAgent

  constructor(url: string, options: PosterOptions) {
    this.#url = new URL(url)
    this.#options = options
    const Agent = this.#url.protocol === 'https:' ? HttpsAgent : HttpAgent
    this.#agent = new Agent({ keepAlive: true, timeout: idleMs })
  }

  /**
   * @param headers all headers but Content-Length
   * @param answerBytes how many bytes of a 2xx response to read
   * @param glanceBytes how many bytes of any other response to return, as far as they come within a second
   * @throws SvcError `forbidden` for an address that is not allowed; the connection's error; `TimedOut`; the
   *   signal's reason
   */
  async post(
    headers: Readonly<Record<string, string>>,
    body: string,
    signal: AbortSignal,
    answerBytes = 0,
    glanceBytes = 0,
  ): Promise<PostResult> {
    const end = new AbortController()
    const leave = followSignal(signal, end)
    const { timeoutMs } = this.#options
    const timer = startAwakeTimer(timeoutMs, () =>
      end.abort(new TimedOut(`no answer within ${timeoutMs / 1000} s`)),
    )
    try {
      const response = await this.#send(headers, body, end.signal)
      const { statusCode: status = 0 } = response
      const retryAfter = response.headers['retry-after']
      const isTextRequested = answerBytes > 0 && status >= 200 && status < 300
      const text = isTextRequested
        ? await readBeginning(response, answerBytes, end.signal)
        : await drain(response, glanceBytes)
      return { status, ...(retryAfter !== undefined && { retryAfter }), ...(text !== undefined && { text }) }
    } catch (error) {
      throw end.signal.aborted ? end.signal.reason : error
    } finally {
      timer.stop()
      leave()
      countGarbage(garbageBytes)
    }
  }

  /** Closes the connections. */
  close(): void {
    this.#agent.destroy()
  }

  [Symbol.dispose](): void {
    this.close()
  }

  #send(
    headers: Readonly<Record<string, string>>,
    body: string,
    signal: AbortSignal,
  ): Promise<CheckedResponse> {
    const { allowPrivate, resolve, ca } = this.#options
    const length = { 'content-length': String(Buffer.byteLength(body)), 'accept-encoding': 'identity' }
    const request = { method: 'POST', agent: this.#agent, headers: { ...headers, ...length }, body } as const
    const check = { resolve, ca, ...(allowPrivate && { mayReach: isReachableAddress }) }
    return sendCheckedRequest(this.#url, request, check, signal)
  }
}

/** No response came in time. */
export class TimedOut extends Error {
  override readonly name = 'TimedOut'
}

/** Reads a short response to its end, and cuts off a long one. @returns its first bytes, if they are wanted */
async function drain(response: CheckedResponse, wantedBytes: number): Promise<string | undefined> {
  const glanced = Promise.withResolvers<void>()
  const chunks: Uint8Array[] = []
  let wanted = wantedBytes
  let remaining = drainBytes
  const end = () => {
    timer.stop()
    glanced.resolve()
  }
  const cut = () => {
    response.destroy()
    end()
  }
  const timer = startAwakeTimer(drainMs, cut)
  response.on('data', (chunk: Uint8Array) => {
    if (wanted > 0) chunks.push(chunk.subarray(0, wanted))
    wanted -= chunk.byteLength
    if (wanted <= 0) glanced.resolve()
    remaining -= Math.max(chunk.byteLength, chunkBytes)
    if (remaining < 0) cut()
  })
  response.on('error', () => {})
  response.once('close', end)
  response.once('end', end)
  if (wantedBytes === 0) return undefined
  await glanced.promise
  return Buffer.concat(chunks).toString('utf8')
}

async function readBeginning(response: CheckedResponse, bytes: number, signal: AbortSignal): Promise<string> {
  const chunks: Uint8Array[] = []
  let remainingBytes = bytes
  const yieldTurn = createYield(systemClock)
  const abort = () => response.destroy(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  try {
    for await (const chunk of response as AsyncIterable<Uint8Array>) {
      await yieldTurn()
      chunks.push(chunk.subarray(0, remainingBytes))
      remainingBytes -= Math.max(chunk.byteLength, chunkBytes)
      if (remainingBytes <= 0) break
    }
  } catch (error) {
    if (signal.aborted) throw error
  } finally {
    signal.removeEventListener('abort', abort)
    response.destroy()
  }
  return Buffer.concat(chunks).toString('utf8')
}
