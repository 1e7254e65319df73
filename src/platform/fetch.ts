/**
 * Outgoing HTTP: `apiFetch` to the servers we are configured for, `fetchPublic` to wherever a caller points; and why a
 * request failed, as one code, whichever runtime says it in whichever way.
 */
import process from 'node:process'
import { errorCodeOf } from './files.ts'
import type { FetchPublicOptions, JudgedFetchInit, PublicResource } from './public-fetch.ts'

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
 * `fetch` to a configured server. No redirect is followed: what was meant for that server goes nowhere else, and where it leads
 * nobody has judged.
 *
 * @throws as fetch does, with a `code` that is the same on all runtimes (ECONNREFUSED, ENOTFOUND …); a TimeoutError when `timeoutMs`
 *   passed, the signal's reason when it aborted
 */
export async function apiFetch(url: string, init: ApiFetchInit = {}): Promise<Response> {
  const { method = 'GET', headers, body, timeoutMs, signal, socket } = init
  const deadline = timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs)
  try {
    return await fetch(url, {
      method,
      redirect: 'manual',
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

/** The path of the Unix socket that `unix:<path>` names. */
export const socketIn = (url: string): string | undefined =>
  url.startsWith('unix:') ? url.slice('unix:'.length) : undefined

/** What `fetch` is given to go through a Unix socket. */
export const through = (socket: string): object =>
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
 * that was checked, again at every redirect. Streams; credentials and cookies are never sent. Through a proxy that the
 * environment names, only what is written as an address is judged: the proxy looks names up.
 *
 * @throws SvcError `forbidden` (not a public address), `payload_too_large`, `invalid_arguments` (cannot be fetched);
 *   the signal's reason when it aborted
 */
export const fetchPublic = async (url: string, options: FetchPublicOptions): Promise<PublicResource> =>
  // Loaded at its first use: node:http and its company take 12 ms when run from source, and few ever fetch a URL.
  (await import('./public-fetch.ts')).fetchPublic(url, options)

/**
 * `fetch` to addresses that WeChat names in its answers: judged as by `fetchPublic`, and no redirect is followed.
 *
 * @throws SvcError `forbidden`, besides what `apiFetch` throws
 */
export const judgedFetch = async (url: string, init: JudgedFetchInit): Promise<Response> =>
  (await import('./public-fetch.ts')).judgedFetch(url, init)

/** What a runtime says in its own way, by the code that the system or Node has for it; the first that fits. */
const codes: readonly (readonly [said: RegExp, code: string])[] = [
  [/^ConnectionRefused$/, 'ECONNREFUSED'],
  [/^(Malformed_HTTP|HPE_)|invalid HTTP/, 'not HTTP'],
  // Deno has sentences alone. Those of a connection that was not made differ from those of one that broke.
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

/** What `fetch` threw, its `code` being one of those above, or the runtime's where it has another. */
function withCode(error: unknown): unknown {
  if (!(error instanceof TypeError)) return error
  const said = networkCodeOf(error) ?? (error.cause instanceof Error ? error.cause.message : error.message)
  const code = codes.find(([pattern]) => pattern.test(said))?.[1]
  return code === undefined ? error : Object.assign(error, { code })
}

/** The code of an error of `apiFetch`, or of what caused it. */
export const networkCodeOf = (error: unknown): string | undefined =>
  errorCodeOf(error) ?? (error instanceof Error ? errorCodeOf(error.cause) : undefined)

/** The same, `timeout`, or what the error says. */
export const failureOf = (error: unknown): string =>
  error instanceof Error && error.name === 'TimeoutError'
    ? 'timeout'
    : (networkCodeOf(error) ?? (error instanceof Error ? error.message : String(error)))

/** Whether nothing of the request went out. */
export const isNeverSent = (code: string): boolean =>
  /^(ECONNREFUSED|ENOTFOUND|EAI_\w+|ENETUNREACH|EHOSTUNREACH|FailedToOpenSocket|ERR_INVALID_URL)$/.test(
    code,
  ) || isAboutCertificate(code)

/** Whether the connection came about and the server's certificate is not to be trusted. */
export const isAboutCertificate = (code: string): boolean => /CERT|SELF_SIGNED|^UNABLE_TO_/.test(code)
