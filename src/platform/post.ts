/**
 * POST to an address that somebody gave, on connections that are kept: the address of each was checked when it was made.
 * No redirect is followed, and of an answer no more is read than was asked for.
 */
import { Buffer } from 'node:buffer'
import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { isReachableAddress } from './address.ts'
import { afterAwake, systemClock, turns } from './clock.ts'
import { streamedBytes } from './memory.ts'
import { type FetchPublicOptions, type JudgedAnswer, judgedRequest } from './public-fetch.ts'
import { following } from './signals.ts'

export interface PosterOptions extends Pick<FetchPublicOptions, 'resolve' | 'ca'> {
  /** Addresses of private networks and of this machine may be reached too; metadata services never. */
  allowPrivate: boolean
  /** Over everything until the head of the answer, and until its body where that is wanted. */
  timeoutMs: number
}

export interface Posted {
  status: number
  retryAfter?: string
  /** The first bytes of the answer, as text, where they were asked for. */
  text?: string
}

/** A kept connection without work is closed after this. */
const idleMs = 30_000
/** So much of an answer that nobody asked for is read, for so long, so that its connection can be kept. */
const drainBytes = 64 * 1024
/** What a chunk costs, however short it is, in bytes of a long one. */
const chunkBytes = 64
const drainMs = 1000
/**
 * What a POST leaves to the garbage collector, of whose memory it knows little: 448 of them count as 28 MiB. With fewer
 * collections a service that delivers 100,000 events grows by 140 MB, with these by 50 (Bun 1.4.5).
 */
const leftBytes = 64 * 1024
/** Of all posters together: counted for each, a hundred endpoints would collect all at once, and late. */
const left = streamedBytes()

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
   * @param headers besides Content-Length
   * @param answerBytes how much of an answer of 2xx is read
   * @throws SvcError `forbidden` for an address that may not be reached; what the connection fails with; the signal's reason
   */
  async post(
    headers: Readonly<Record<string, string>>,
    body: string,
    signal: AbortSignal,
    answerBytes = 0,
  ): Promise<Posted> {
    const end = new AbortController()
    const leave = following(signal, end)
    const { timeoutMs } = this.#options
    const timer = afterAwake(timeoutMs, () =>
      end.abort(new TimedOut(`no answer within ${timeoutMs / 1000} s`)),
    )
    try {
      const response = await this.#send(headers, body, end.signal)
      const { statusCode: status = 0 } = response
      const retryAfter = response.headers['retry-after']
      const wanted = answerBytes > 0 && status >= 200 && status < 300
      const text = wanted ? await beginningOf(response, answerBytes, end.signal) : undefined
      if (!wanted) drain(response)
      return { status, ...(retryAfter !== undefined && { retryAfter }), ...(text !== undefined && { text }) }
    } catch (error) {
      throw end.signal.aborted ? end.signal.reason : error
    } finally {
      timer.stop()
      leave()
      left(leftBytes)
    }
  }

  /** Ends the connections. */
  close(): void {
    this.#agent.destroy()
  }

  #send(headers: Readonly<Record<string, string>>, body: string, signal: AbortSignal): Promise<JudgedAnswer> {
    const { allowPrivate, resolve, ca } = this.#options
    const length = { 'content-length': String(Buffer.byteLength(body)), 'accept-encoding': 'identity' }
    const request = { method: 'POST', agent: this.#agent, headers: { ...headers, ...length }, body } as const
    const check = { resolve, ca, ...(allowPrivate && { mayReach: isReachableAddress }) }
    return judgedRequest(this.#url, request, check, signal)
  }
}

/** Nothing came in time. */
export class TimedOut extends Error {
  override readonly name = 'TimedOut'
}

/** Reads what is short, and cuts off what is not. */
function drain(response: JudgedAnswer): void {
  let left = drainBytes
  const timer = afterAwake(drainMs, () => response.destroy())
  response.on('data', (chunk: Uint8Array) => {
    left -= Math.max(chunk.byteLength, chunkBytes)
    if (left < 0) response.destroy()
  })
  response.on('error', () => {})
  response.once('close', timer.stop)
  response.once('end', timer.stop)
}

async function beginningOf(response: JudgedAnswer, bytes: number, signal: AbortSignal): Promise<string> {
  const chunks: Uint8Array[] = []
  let left = bytes
  const turn = turns(systemClock)
  const abort = () => response.destroy(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  try {
    for await (const chunk of response as AsyncIterable<Uint8Array>) {
      await turn()
      chunks.push(chunk.subarray(0, left))
      left -= Math.max(chunk.byteLength, chunkBytes)
      if (left <= 0) break
    }
  } catch (error) {
    if (signal.aborted) throw error
  } finally {
    signal.removeEventListener('abort', abort)
    response.destroy()
  }
  return Buffer.concat(chunks).toString('utf8')
}
