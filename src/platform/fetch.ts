/**
 * Outgoing HTTP: `apiFetch` for the configured servers, `fetchPublic` for URLs from callers. Also maps a
 * failed request to one error code, the same on all runtimes.
 */
import process from 'node:process'
import { errorCodeOf } from './files.ts'
import type { CheckedFetchInit, FetchPublicOptions, PublicResource } from './public-fetch.ts'
import { streamOf } from './streams.ts'

export type { FetchPublicOptions, PublicResource } from './public-fetch.ts'

export interface ApiFetchInit {
  method?: 'GET' | 'POST' | 'PUT' | 'HEAD' | 'DELETE'
  headers?: Record<string, string>
  /** A streamed body is sent with the content-length of `headers`, or chunked without one. */
  body?: string | Uint8Array | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>
  /** Limit for the whole exchange, including the body of the response. No limit by default. */
  timeoutMs?: number
  signal?: AbortSignal
  /** The path of a Unix socket to go through. */
  socket?: string
}

/**
 * Calls `fetch` on a configured server. Follows no redirect: a request for that server must not reach another
 * one, whose address is not checked.
 *
 * @throws like fetch, with a `code` that is the same on all runtimes (ECONNREFUSED, ENOTFOUND …); a
 *   TimeoutError after `timeoutMs`; the signal's reason when it aborted
 */
export async function apiFetch(url: string, init: ApiFetchInit = {}): Promise<Response> {
  const { method = 'GET', headers, body, timeoutMs, signal, socket } = init
  const deadline = timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs)
  try {
    return await fetch(url, {
      method,
      redirect: 'manual',
      ...(headers && { headers }),
      ...(socket !== undefined && toSocketOptions(socket)),
      ...(body !== undefined && { body: toFetchBody(body) as BodyInit, duplex: 'half' }),
      signal: signal && deadline ? AbortSignal.any([signal, deadline]) : (deadline ?? signal ?? null),
    })
  } catch (error) {
    throw withCode(error)
  }
}

interface DenoClients {
  createHttpClient(options: { proxy: { transport: 'unix'; path: string } }): unknown
}

/** Returns the path in `unix:<path>`; undefined for any other URL. */
export const socketPathOf = (url: string): string | undefined =>
  url.startsWith('unix:') ? url.slice('unix:'.length) : undefined

/** Returns the options that make `fetch` use a Unix socket. */
export const toSocketOptions = (socket: string): object =>
  process.versions.bun
    ? { unix: socket }
    : {
        client: (globalThis as unknown as { Deno: DenoClients }).Deno.createHttpClient({
          proxy: { transport: 'unix', path: socket },
        }),
      }

/** Deno accepts no async iterables as bodies. */
const toFetchBody = (body: NonNullable<ApiFetchInit['body']>) =>
  process.versions.bun || typeof body === 'string' || !(Symbol.asyncIterator in body) ? body : streamOf(body)

/**
 * GETs a caller's URL: http or https, public addresses only. The connection goes to the address that was
 * checked, and every redirect is checked again. The body is streamed. Credentials and cookies are never sent.
 * Through a proxy from the environment only literal addresses are checked, because the proxy resolves names.
 *
 * @throws SvcError `forbidden` (not a public address), `payload_too_large`, `invalid_arguments` (cannot be
 *   fetched); the signal's reason when it aborted
 */
export const fetchPublic = async (url: string, options: FetchPublicOptions): Promise<PublicResource> =>
  // Loaded at its first use: node:http and what it loads take 12 ms when run from source, and few callers fetch a URL.
  (await import('./public-fetch.ts')).fetchPublic(url, options)

/**
 * Calls `fetch` on an address that WeChat names in a response. Checks it like `fetchPublic`; follows no
 * redirect.
 *
 * @throws SvcError `forbidden`, and what `apiFetch` throws
 */
export const fetchChecked = async (url: string, init: CheckedFetchInit): Promise<Response> =>
  (await import('./public-fetch.ts')).fetchChecked(url, init)

/**
 * Calls an https server whose certificate is known, whatever host it names: svc on this machine.
 *
 * @param fingerprint SHA-256 of its certificate; `any` for a request in which nothing is secret
 * @throws an error with the code ERR_CERT_INVALID for another certificate, before anything is sent; the
 *   signal's reason
 */
export const fetchTrusting = async (
  fingerprint: string,
  url: string | URL,
  init: RequestInit,
): Promise<Response> => (await import('./trusting-fetch.ts')).fetchTrusting(fingerprint, url, init)

/**
 * Runtime-specific codes and messages, with the code of the system or of Node for each. The first match
 * counts.
 */
const codes: readonly (readonly [pattern: RegExp, code: string])[] = [
  [/^ConnectionRefused$/, 'ECONNREFUSED'],
  [/^(Malformed_HTTP|HPE_)|invalid HTTP/, 'not HTTP'],
  // Deno's errors have no codes, only messages. The message of a failed connect contains "(Connect)"; the
  // message of a connection that broke later does not.
  [/^Invalid URL|^Fetch failed: Requests to port \d+ are blocked/, 'ERR_INVALID_URL'],
  [/\(Connect\).*dns error/, 'ENOTFOUND'],
  [/\(Connect\).*Connection refused/, 'ECONNREFUSED'],
  [/\(Connect\).*No route to host/, 'EHOSTUNREACH'],
  [/\(Connect\).*Network is unreachable/, 'ENETUNREACH'],
  [/\(Connect\).*No such file/, 'ENOENT'],
  [/\(Connect\).*certificate/, 'ERR_CERT_INVALID'],
  [/\(Connect\).*tls/, 'ECONNRESET'],
  [/\(Connect\).*corrupt message/, 'EPROTO'],
  [/Connection reset|connection closed before message completed/, 'ECONNRESET'],
]

/**
 * Sets `code` on an error that `fetch` threw, to a code of the list `codes`. Leaves a code that is not in it.
 */
function withCode(error: unknown): unknown {
  if (!(error instanceof TypeError)) return error
  const reason = networkCodeOf(error) ?? (error.cause instanceof Error ? error.cause.message : error.message)
  const code = codes.find(([pattern]) => pattern.test(reason))?.[1]
  return code === undefined ? error : Object.assign(error, { code })
}

/** Returns the code of an error of `apiFetch`, or the code of its cause. */
export const networkCodeOf = (error: unknown): string | undefined =>
  errorCodeOf(error) ?? (error instanceof Error ? errorCodeOf(error.cause) : undefined)

/** Returns the error's code, `timeout`, or its message. */
export const failureTextOf = (error: unknown): string =>
  error instanceof Error && error.name === 'TimeoutError'
    ? 'timeout'
    : (networkCodeOf(error) ?? (error instanceof Error ? error.message : String(error)))

/** Returns whether nothing of the request was sent. */
export const isNeverSent = (code: string): boolean =>
  /^(ECONNREFUSED|ENOTFOUND|EAI_\w+|ENETUNREACH|EHOSTUNREACH|FailedToOpenSocket|ERR_INVALID_URL)$/.test(
    code,
  ) || isCertificateError(code)

/** Returns whether the connection was made but the server's certificate cannot be trusted. */
export const isCertificateError = (code: string): boolean => /CERT|SELF_SIGNED|^UNABLE_TO_/.test(code)
