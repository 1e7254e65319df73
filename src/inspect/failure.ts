/** Why a request failed, as one code, whichever runtime says it in whichever way. */
import { errorCodeOf } from '../platform/files.ts'

/** What the runtimes call the same failures: Bun by codes of its own, Deno by sentences in the cause. */
const names: readonly (readonly [RegExp, string])[] = [
  [/TimeoutError/, 'timeout'],
  [/ConnectionRefused|Connection refused/i, 'ECONNREFUSED'],
  [/failed to lookup|dns error/i, 'ENOTFOUND'],
  [/network is unreachable/i, 'ENETUNREACH'],
  [/no route to host/i, 'EHOSTUNREACH'],
  [/connection reset/i, 'ECONNRESET'],
  [/Malformed_HTTP|invalid HTTP|HPE_|message is incomplete|parse error/i, 'not HTTP'],
]

/** A system's code (`ECONNREFUSED` …), `timeout`, `not HTTP`, or the shortest there is to say. */
export function failureOf(error: unknown): string {
  const chain: Error[] = []
  for (let at = error; at instanceof Error && chain.length < 5; at = at.cause) chain.push(at)
  const said = chain.map(one => `${one.name} ${errorCodeOf(one) ?? ''} ${one.message}`).join(' ')
  const known = names.find(([pattern]) => pattern.test(said))?.[1]
  return known ?? chain.map(errorCodeOf).find(Boolean) ?? chain.at(-1)?.message ?? String(error)
}

/** Whether the connection came about and the server's certificate is not to be trusted. */
export const isAboutCertificate = (error: unknown): boolean =>
  /CERT|TLS|SSL|SIGNATURE|UnknownIssuer/i.test(
    `${failureOf(error)} ${error instanceof Error ? error.message : ''}`,
  )
