/** The callback addresses of subscriptions of MCP Events: which may be reached, and how their failures are named. */
import { readFile } from 'node:fs/promises'
import { badArgument } from '../model/error.ts'
import type { WebhookFailure } from '../model/webhook.ts'
import { decodeUri } from '../platform/header.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import { reasonOf } from '../platform/system-error.ts'

/** Which addresses of private networks the owner allowed when svc started. */
export interface Callbacks {
  /** What is stored with a subscription, since another process may deliver for it. */
  reachOf(url: string): { allow_private: boolean; ca?: string }
}

/**
 * @param prefixes of URLs that may be in a private network
 * @param caFile file of certificates to trust there, PEM
 * @throws SvcError `invalid_arguments` if it cannot be read
 */
export async function openCallbacks(
  prefixes: readonly string[],
  caFile: string | undefined,
): Promise<Callbacks> {
  const read = (path: string) =>
    readFile(path, 'utf8').catch(error => {
      throw badArgument('--events-callback-ca', `${path} cannot be read: ${reasonOf(error)}`)
    })
  const ca = caFile === undefined ? undefined : await read(caFile)
  return {
    reachOf(text) {
      const url = new URL(text)
      const allow_private = prefixes.some(prefix => isBelow(url, new URL(prefix)))
      return { allow_private, ...(allow_private && ca !== undefined && { ca }) }
    },
  }
}

function isBelow(url: URL, prefix: URL): boolean {
  const [path, above] = [readAgain(url.pathname), readAgain(prefix.pathname)]
  const isUp = /(?:^|[/\\])\.\.?(?:[/\\;]|$)/.test(path)
  return (
    url.origin === prefix.origin && !isUp && (path === above || path.startsWith(above.replace(/\/?$/, '/')))
  )
}

/** Decodes a path as often as it can be: servers differ in that. */
function readAgain(path: string): string {
  const decoded = decodeUri(path) ?? path
  return decoded === path ? path : readAgain(decoded)
}

/** Why a callback failed, as the protocol names it. The answer of the address stays secret. */
export type CallbackFailure =
  | 'connection_refused'
  | 'timeout'
  | 'tls_error'
  | 'http_4xx'
  | 'http_5xx'
  | 'challenge_failed'

/** @param detail as in `WebhookAttemptResult` */
export function callbackFailureOf(
  code: WebhookFailure | undefined,
  detail = '',
): Exclude<CallbackFailure, 'challenge_failed'> {
  if (code === 'timeout') return 'timeout'
  if (code === 'http_status' || code === 'redirect') return /^HTTP 5/.test(detail) ? 'http_5xx' : 'http_4xx'
  return code === 'unreachable' && /CERT|SSL|TLS|SIGNATURE|certificate/i.test(detail)
    ? 'tls_error'
    : 'connection_refused'
}

/** Returns a new `webhook-id` for a message that is not an event. */
export const envelopeIdOf = (type: string): string => `msg_${type}_${randomBytes(12).toString('hex')}`
