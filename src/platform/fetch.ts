/** Outgoing HTTP: `apiFetch` to the servers we are configured for, `fetchPublic` to wherever a caller points. */
import process from 'node:process'
import { withCode } from './network-error.ts'
import type { FetchPublicOptions, PublicResource } from './public-fetch.ts'

export type { FetchPublicOptions, PublicResource, Resolved } from './public-fetch.ts'

export interface ApiFetchInit {
  method?: 'GET' | 'POST' | 'PUT' | 'HEAD' | 'DELETE'
  headers?: Record<string, string>
  /** A streamed body is sent with the content-length of `headers`, chunked without one. */
  body?: string | Uint8Array | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>
  /** Over the whole exchange, the reply's body included; none by default. */
  timeoutMs?: number
  signal?: AbortSignal
  /** The path of a Unix socket to go through. */
  socket?: string
}

/**
 * `fetch` to a configured server. Redirects are followed for GET and HEAD alone: a body and its token go where they
 * were sent, nowhere else.
 *
 * @throws as fetch does, with a `code` that is the same on all runtimes (ECONNREFUSED, ENOTFOUND …, see network-error.ts); a TimeoutError when `timeoutMs`
 *   passed, the signal's reason when it aborted
 */
export async function apiFetch(url: string, init: ApiFetchInit = {}): Promise<Response> {
  const { method = 'GET', headers, body, timeoutMs, signal, socket } = init
  const deadline = timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs)
  try {
    return await fetch(url, {
      method,
      redirect: method === 'GET' || method === 'HEAD' ? 'follow' : 'manual',
      ...(headers && { headers }),
      ...(socket !== undefined && through(socket)),
      ...(body !== undefined && { body: streamed(body) as BodyInit, duplex: 'half' }),
      signal: signal && deadline ? AbortSignal.any([signal, deadline]) : (deadline ?? signal ?? null),
    })
  } catch (error) {
    throw withCode(error)
  }
}

interface DenoClients {
  createHttpClient(options: { proxy: { transport: 'unix'; path: string } }): unknown
}

const through = (socket: string): object =>
  process.versions.bun
    ? { unix: socket }
    : {
        client: (globalThis as unknown as { Deno: DenoClients }).Deno.createHttpClient({
          proxy: { transport: 'unix', path: socket },
        }),
      }

/** Deno knows no async iterables as bodies; TypeScript does not know `from`. */
const streamed = (body: NonNullable<ApiFetchInit['body']>) =>
  process.versions.bun || typeof body === 'string' || !(Symbol.asyncIterator in body)
    ? body
    : (ReadableStream as unknown as { from(source: AsyncIterable<Uint8Array>): BodyInit }).from(body)

/**
 * GETs what a caller's URL leads to: http or https, public addresses only, the address connected to being the one
 * that was checked, again at every redirect. Streams; credentials and cookies are never sent; proxies are not used.
 *
 * @throws SvcError `forbidden` (not a public address), `payload_too_large`, `invalid_arguments` (cannot be fetched);
 *   the signal's reason when it aborted
 */
export const fetchPublic = async (url: string, options: FetchPublicOptions): Promise<PublicResource> =>
  // Loaded at its first use: node:http and its company take 12 ms when run from source, and few ever fetch a URL.
  (await import('./public-fetch.ts')).fetchPublic(url, options)
