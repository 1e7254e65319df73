/** What goes wrong outside of tools, as MCP says it: tools answer `isError`, the rest errors of the protocol. */
import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import type { ErrorCode } from '../model/error.ts'
import { seen } from '../platform/escape-controls.ts'
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
    { code, hint, retry_after: retryAfter },
  )
}

/** What the library's validator found. */
interface Issue {
  path?: unknown[]
  expected?: unknown
  values?: unknown[]
}

const shownIssues = 5

/**
 * -32602 for parameters that the SDK refused, told field by field; undefined for any other error. What its validator
 * found stands as JSON in the message and nowhere else.
 */
export function refusedParams(method: string, error: unknown): ProtocolError | undefined {
  const message = error instanceof Error ? error.message : ''
  const dump = message.startsWith('[') ? message : message.split(`Invalid ${method} request: `)[1]
  if (dump === undefined) return undefined
  let issues: Issue[]
  try {
    issues = JSON.parse(dump)
  } catch {
    return undefined
  }
  const told = issues.slice(0, shownIssues).map(({ path = [], expected, values }) => {
    const field = seen(path.join('.').slice(0, 80)) || 'params'
    if (values) return `${field}: expected ${values.length > 1 ? 'one of ' : ''}${values.join(', ')}`
    return `${field}: expected ${expected === undefined ? 'another value' : `type ${expected}`}`
  })
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `${method}: ${told.join('; ')}`)
}
