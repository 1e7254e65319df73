/**
 * The one client for addresses that come from outside: from callers, users, WeChat's responses, and their
 * redirects. It uses node:http, which can pin the connection to the address that was checked; a second lookup
 * of the name could return another address. Where the environment names a proxy, it uses `fetch`: then the
 * proxy resolves names, and only literal addresses are checked here.
 */
import { lookup } from 'node:dns/promises'
import type { Agent } from 'node:http'
import { isIP, type LookupFunction } from 'node:net'
import { Readable } from 'node:stream'
import type { ReadableStream as NodeStream } from 'node:stream/web'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { SvcError } from '../model/error.ts'
import { isPublicAddress, ownAddresses } from './address.ts'
import { createYield, startAwakeTimer, systemClock } from './clock.ts'
import { errorCodeOf } from './files.ts'
import { decodeUri, parseDisposition } from './header.ts'
import { proxyFor } from './process.ts'
import { sendRequest } from './request.ts'
import { followSignal } from './signals.ts'
import { streamOnDemand } from './streams.ts'
import { reasonOf } from './system-error.ts'

/** An address that a name resolves to. */
export interface Resolved {
  address: string
  family: number
}

export interface FetchPublicOptions {
  /** Limit of the body, in bytes. */
  maxBytes: number
  /** Limit for everything: name lookup, redirects, the whole body. */
  timeoutMs: number
  /** Longest silence of the server, 30 s by default. Time in which the body is not read does not count. */
  idleMs?: number
  signal?: AbortSignal
  /** Servers exempt from the address check: the configured upstream and CDN. */
  allow?: (url: URL) => boolean
  /** How to resolve names; the system's method by default. */
  resolve?: (hostname: string) => Promise<Resolved[]>
  /** Certificates to trust besides the system's, PEM. */
  ca?: string
  /** Which addresses are allowed; by default public addresses of other machines. */
  mayReach?: (address: string) => boolean
}

/** How the address of a host is checked. */
export type AddressCheck = Pick<FetchPublicOptions, 'allow' | 'resolve' | 'ca' | 'mayReach'>

export interface PublicResource {
  /** Read it to its end or cancel it. Fails with SvcError like `fetchPublic` itself. */
  body: ReadableStream<Uint8Array>
  /** Content-Type as the server sends it, parameters included. */
  contentType?: string
  /** File name from Content-Disposition, or else the last part of the path; not sanitised. */
  fileName?: string
  /** Bytes, where the server names them. */
  size?: number
}

const plainGet: CheckedRequest = {
  method: 'GET',
  headers: { 'user-agent': 'svc', accept: '*/*', 'accept-encoding': 'identity' },
}
const maxRedirects = 5
const redirects = new Set([301, 302, 303, 307, 308])

/** See `fetchPublic` of fetch.ts. */
export async function fetchPublic(url: string, options: FetchPublicOptions): Promise<PublicResource> {
  const { signal, maxBytes } = options
  signal?.throwIfAborted()
  const end = new AbortController()
  const leave = signal && followSignal(signal, end)
  const timeoutError = fetchError(`it took longer than ${options.timeoutMs / 1000} s`)
  const timer = startAwakeTimer(options.timeoutMs, () => end.abort(timeoutError))
  const release = () => {
    timer.stop()
    leave?.()
  }
  try {
    let target = parseUrl(url)
    for (let hop = 0; ; hop++) {
      const idle = startAwakeTimer(options.idleMs ?? 30_000, () => end.abort(silenceError()))
      const response = await sendCheckedRequest(target, plainGet, options, end.signal).finally(idle.stop)
      const status = response.statusCode ?? 0
      const { location } = response.headers
      if (redirects.has(status) && location !== undefined) {
        response.destroy()
        if (hop === maxRedirects) throw fetchError(`it redirects more than ${maxRedirects} times`)
        target = parseUrl(location, target)
        continue
      }
      if (status !== 200) {
        response.destroy()
        throw fetchError(`${target.hostname} answered with HTTP ${status}`, undefined, {
          http_status: status,
        })
      }
      return toResource(response, target, maxBytes, options.idleMs ?? 30_000, end, release)
    }
  } catch (error) {
    release()
    throw end.signal.aborted ? end.signal.reason : toFetchError(error)
  }
}

const fetchError = (why: string, cause?: unknown, details?: Record<string, unknown>) =>
  new SvcError('invalid_arguments', `the URL cannot be fetched: ${why}`, {
    hint: 'Check the URL.',
    next: { action: 'upload' },
    details,
    cause,
  })

/** Makes an SvcError of a failure, without the URL, which may carry secrets. */
const toFetchError = (error: unknown): unknown => {
  if (error instanceof SvcError) return error
  const code = errorCodeOf(error)
  if (code === undefined) return fetchError('the connection failed', error)
  const reason = reasonOf(error)
  return fetchError(reason === code ? code : `${reason} (${code})`, error)
}

function parseUrl(text: string, base?: URL): URL {
  const url = URL.parse(text, base?.href)
  if (!url) throw fetchError(base ? 'it redirects to a malformed URL' : 'it is malformed')
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw fetchError('only http and https are allowed')
  if (url.username || url.password) throw fetchError('it carries a user name or password')
  return url
}

/** Returns the host without the brackets of IPv6. */
const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, '')

const resolveName = (hostname: string): Promise<Resolved[]> => lookup(hostname, { all: true })

/**
 * Returns the addresses of the URL's host, after checking that all are allowed.
 *
 * @throws SvcError `forbidden` when one is not; the error of the name lookup
 */
export async function checkAddresses(
  url: URL,
  options: AddressCheck,
  signal: AbortSignal,
): Promise<Resolved[]> {
  const host = hostOf(url)
  const family = isIP(host)
  const addresses = family
    ? [{ address: host, family }]
    : await rejectOnAbort((options.resolve ?? resolveName)(host), signal)
  if (addresses.length === 0) throw fetchError(`${url.hostname} has no address`)
  if (options.allow?.(url)) return addresses
  // Read each time: addresses come and go.
  const own = options.mayReach ? [] : ownAddresses()
  const mayReach = options.mayReach ?? ((address: string) => isPublicAddress(address, own))
  // One bad address among good ones is an attack or a mistake, so it forbids all.
  if (addresses.every(({ address }) => mayReach(address))) return addresses
  throw new SvcError('forbidden', `${url.hostname} does not lead to a public address`, {
    hint: 'Only URLs on the public internet are fetched.',
    next: { action: 'upload' },
  })
}

/**
 * A response whose head has arrived: a Node stream, typed without Node's types, which users of the library
 * may not have.
 */
export interface CheckedResponse extends AsyncIterable<Uint8Array> {
  readonly headers: Readonly<Record<string, string | string[] | undefined>> & {
    readonly [one in
      | 'content-disposition'
      | 'content-encoding'
      | 'content-type'
      | 'location'
      | 'retry-after']?: string
  }
  readonly statusCode?: number | undefined
  on(event: 'data', listener: (chunk: Uint8Array) => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  once(event: 'close' | 'end', listener: () => void): unknown
  destroy(error?: Error): unknown
}

export interface CheckedRequest {
  method: 'GET' | 'POST' | 'PUT'
  headers: Readonly<Record<string, string>>
  body?: string | Uint8Array | AsyncIterable<Uint8Array> | undefined
  /**
   * Keeps connections; each address was checked when its connection was made. Without it no connection is
   * kept.
   */
  agent?: object | undefined
}

/**
 * Sends one request to an address that is allowed. Follows no redirect.
 *
 * @throws SvcError `forbidden`; the error of the name lookup or of the connection; the signal's reason
 */
export async function sendCheckedRequest(
  url: URL,
  { agent, body, ...request }: CheckedRequest,
  check: AddressCheck,
  signal: AbortSignal,
): Promise<CheckedResponse> {
  // Bun's fetch would read files too.
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw Object.assign(new TypeError('neither http nor https'), { code: 'ERR_INVALID_URL' })
  const proxy = proxyFor(url)
  // node:http calls `lookup` only for names.
  if (isIP(hostOf(url))) await checkAddresses(url, check, signal)
  if (proxy) return await requestThroughProxy(url, proxy, { ...request, body }, signal)
  const lookup: LookupFunction = (_hostname, { all }, done) => {
    checkAddresses(url, check, signal).then(
      found => (all ? done(null, found) : done(null, found[0]!.address, found[0]!.family)),
      error => done(error, ''),
    )
  }
  return await sendRequest(
    url,
    { ...request, agent: (agent as Agent | undefined) ?? false, lookup, ca: check.ca },
    signal,
    body,
  )
}

export interface CheckedFetchInit extends Partial<Pick<CheckedRequest, 'method' | 'headers' | 'body'>> {
  signal?: AbortSignal
}

/** See `fetchChecked` of fetch.ts. */
export async function fetchChecked(
  url: string,
  { method = 'GET', headers = {}, body, signal }: CheckedFetchInit,
): Promise<Response> {
  const never = new AbortController().signal
  const request = { method, headers: { ...headers, 'accept-encoding': 'identity' }, body }
  const answer = await sendCheckedRequest(new URL(url), request, {}, signal ?? never)
  const { headers: responseHeaders, statusCode: status = 0 } = answer
  // A Response of these statuses must not have a body.
  const isBare = [101, 204, 205, 304].includes(status)
  if (isBare) answer.destroy()
  return new Response(
    isBare ? null : (Readable.toWeb(answer as unknown as Readable) as unknown as BodyInit),
    {
      status,
      headers: Object.entries(responseHeaders).map(([name, value]): [string, string] => [
        name,
        String(value),
      ]),
    },
  )
}

/**
 * The body comes as the server sent it, compressed or not. Deno takes its proxy only from the environment,
 * and decompresses.
 */
async function requestThroughProxy(
  url: URL,
  proxy: URL,
  { method, headers, body }: CheckedRequest,
  signal: AbortSignal,
): Promise<CheckedResponse> {
  const isStream = body !== undefined && typeof body !== 'string' && !(body instanceof Uint8Array)
  const requestBody = isStream ? Readable.toWeb(Readable.from(body, { objectMode: false })) : body
  const bunOptions: object = { proxy: proxy.href, decompress: false }
  const response = await fetch(url, {
    method,
    headers,
    signal,
    redirect: 'manual',
    ...(requestBody !== undefined && { body: requestBody as unknown as BodyInit, duplex: 'half' }),
    ...bunOptions,
  })
  const answer = response.body ? Readable.fromWeb(response.body as unknown as NodeStream) : Readable.from([])
  return Object.assign(answer, {
    statusCode: response.status,
    headers: Object.fromEntries(response.headers),
  })
}

const silenceError = () => fetchError('the server fell silent')

function rejectOnAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason)
    const abort = () => reject(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

function toResource(
  response: CheckedResponse,
  url: URL,
  maxBytes: number,
  idleMs: number,
  end: AbortController,
  release: () => void,
): PublicResource {
  const encoding = response.headers['content-encoding']
  const stated = Number(response.headers['content-length'] ?? Number.NaN)
  const size = encoding === undefined && Number.isSafeInteger(stated) ? stated : undefined
  if (size !== undefined && size > maxBytes) {
    response.destroy()
    throw tooLarge(maxBytes)
  }
  response.on('error', () => {})
  const fileName = suggestedNameOf(response.headers['content-disposition'], url)
  const contentType = response.headers['content-type']
  return {
    body: limitBody(decodeBody(response, encoding), { size, maxBytes, idleMs }, end, () => {
      release()
      response.destroy()
    }),
    contentType,
    fileName,
    size,
  }
}

const tooLarge = (maxBytes: number) =>
  new SvcError('payload_too_large', `the URL leads to more than ${maxBytes} bytes`)

/** Decompresses a body: some servers compress although plain bytes are requested. */
function decodeBody(response: CheckedResponse, encoding: string | undefined): AsyncIterable<Uint8Array> {
  const decoder = {
    gzip: createGunzip,
    'x-gzip': createGunzip,
    deflate: createInflate,
    br: createBrotliDecompress,
  }
  if (encoding === undefined || encoding === 'identity') return response
  const create = Object.hasOwn(decoder, encoding) ? decoder[encoding as keyof typeof decoder] : undefined
  if (!create) {
    response.destroy()
    throw fetchError('the server sends an unknown content-encoding')
  }
  const stream = create()
  response.on('error', (error: Error) => stream.destroy(error))
  return (response as unknown as Readable).pipe(stream)
}

/** Streams the bytes on demand and enforces the limits. Calls `release` at the end, whatever ends it. */
function limitBody(
  source: AsyncIterable<Uint8Array>,
  { size, maxBytes, idleMs }: { size: number | undefined; maxBytes: number; idleMs: number },
  end: AbortController,
  release: () => void,
): ReadableStream<Uint8Array> {
  const chunks = source[Symbol.asyncIterator]()
  const done = () => {
    release()
    chunks.return?.().catch(() => {})
  }
  let total = 0
  // Chunks of one byte are read one by one, and thousands of them may be there at once.
  const yieldTurn = createYield(systemClock)
  return streamOnDemand({
    async pull(controller) {
      await yieldTurn()
      const idle = startAwakeTimer(idleMs, () => end.abort(silenceError()))
      try {
        const next = await rejectOnAbort(chunks.next(), end.signal)
        if (next.done) {
          if (size !== undefined && total !== size) throw fetchError('the connection broke off')
          done()
          controller.close()
          return
        }
        total += next.value.byteLength
        if (total > maxBytes) throw tooLarge(maxBytes)
        controller.enqueue(new Uint8Array(next.value.buffer, next.value.byteOffset, next.value.byteLength))
      } catch (error) {
        done()
        controller.error(end.signal.aborted ? end.signal.reason : toFetchError(error))
      } finally {
        idle.stop()
      }
    },
    cancel: done,
  })
}

function suggestedNameOf(disposition: string | undefined, url: URL): string | undefined {
  const last = url.pathname.slice(url.pathname.lastIndexOf('/') + 1)
  return parseDisposition(disposition ?? '').fileName || (decodeUri(last) ?? last) || undefined
}
