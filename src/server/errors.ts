/** Errors as HTTP tells them: `application/problem+json` (RFC 9457), one shape for every failure at this door. */
import { type ErrorCode, errorKind, type SvcError } from '../model/error.ts'
import { adviceOf, type Wording } from '../model/next-step.ts'

/** What every failure looks like on the wire. */
export interface ProblemBody {
  type: string
  title: string
  status: number
  detail: string
  code: ErrorCode
  /** What to do next. */
  hint?: string
  /** Seconds after which a repeat makes sense; also the header Retry-After. */
  retry_after?: number
  /** More about this failure, such as `errors` of invalid_arguments. */
  details?: Record<string, unknown>
}

/** The URI that names a kind of problem. */
export const problemType = (code: ErrorCode): string => `urn:svc:problem:${code}`

/** The body of an error, in the words of the HTTP door or of another. */
export function problemOf(error: SvcError, wording?: Wording): ProblemBody {
  const { status, title } = errorKind(error.code)
  return {
    type: problemType(error.code),
    title,
    status,
    detail: error.message,
    code: error.code,
    hint: adviceOf(error, wording),
    retry_after: error.retryAfter,
    details: error.details,
  }
}

/** The whole answer of an error, with the headers its status asks for. */
export function problemResponse(error: SvcError, headers: Record<string, string> = {}): Response {
  const body = problemOf(error)
  return new Response(JSON.stringify(body), {
    status: body.status,
    headers: {
      'content-type': 'application/problem+json',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...(error.code === 'unauthorized' && { 'www-authenticate': 'Bearer realm="svc"' }),
      ...(error.retryAfter !== undefined && {
        'retry-after': String(Math.max(1, Math.ceil(error.retryAfter))),
      }),
      ...headers,
    },
  })
}
