/** What goes wrong outside of tools, as MCP says it: tools answer `isError`, the rest errors of the protocol. */
import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import type { ErrorCode } from '../model/error.ts'
import type { Log } from '../platform/log.ts'
import { toSvcError } from '../tools/index.ts'

/** What the caller named wrongly; everything else is our trouble or WeChat's. */
const named: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'invalid_arguments',
  'not_found',
  'session_not_found',
  'message_not_found',
  'no_media',
  'payload_too_large',
])

/** Any thrown value as an error of the protocol, with our code and what to do next; a bug only shows its id. */
export function protocolError(error: unknown, log: Log, signal?: AbortSignal): ProtocolError {
  if (error instanceof ProtocolError) return error
  const { code, message, hint, retryAfter } = toSvcError(error, log, signal ? { signal } : {})
  return new ProtocolError(
    named.has(code) ? ProtocolErrorCode.InvalidParams : ProtocolErrorCode.InternalError,
    `${message}. ${hint}`,
    { code, hint, ...(retryAfter !== undefined && { retry_after: retryAfter }) },
  )
}
