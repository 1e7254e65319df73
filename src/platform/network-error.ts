/** Why a request failed, as one code, whichever runtime says it in whichever way. */
import { errorCodeOf } from './files.ts'

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
export function withCode(error: unknown): unknown {
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
