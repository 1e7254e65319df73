/** HTTP error responses: `application/problem+json` (RFC 9457), in one shape for every error. */
import { type Static, Type } from '@sinclair/typebox'
import { type ErrorCode, errorCodes, errorKindOf, type SvcError } from '../model/error.ts'
import { adviceOf, type Wording } from '../model/next-step.ts'
import { oneOf, optional, text } from '../model/shapes.ts'

/** The JSON of every error. */
export const Problem = Type.Object(
  {
    type: Type.String({ format: 'uri', description: 'Identifies the kind of problem.' }),
    title: Type.String(),
    status: Type.Integer(),
    detail: text('What went wrong this time.'),
    code: oneOf(errorCodes, 'Decide by this. A later version may have more codes.'),
    hint: optional.text('What to do next.'),
    retry_after: optional(Type.Number({ description: 'Seconds to wait before you repeat the call.' })),
    request_id: optional.text(
      'The log of svc has it on the lines of this call. Same as the header x-request-id.',
    ),
    details: optional(
      Type.Unsafe<Record<string, unknown>>({
        type: 'object',
        description:
          'More facts. For invalid_arguments: `errors`, a list of {field, problem}; `session_name` (too_long, dot, characters, reserved) if a session name is not allowed; `users`, a list of {session, user_id}, if several users have the name. For session_not_found: `sessions`, the names of those that the caller may see. For bad_json: `line` and `column`, or `byte`. For window_closed: `wrote` (before_login) with `session`. For internal: `id`.',
      }),
    ),
  },
  { description: 'A failure (RFC 9457).' },
)

const problemType = 'application/problem+json'

/** Returns the URI of a kind of problem. */
export const problemTypeOf = (code: ErrorCode): string => `urn:svc:problem:${code}`

/** Returns the JSON of an error. @param wording how hints name next steps; default: HTTP */
export function problemOf(error: SvcError, wording?: Wording): Static<typeof Problem> {
  const { status, title } = errorKindOf(error.code)
  return {
    type: problemTypeOf(error.code),
    title,
    status,
    detail: error.message,
    code: error.code,
    hint: adviceOf(error, wording),
    retry_after: error.retryAfter,
    details: error.details,
  }
}

/**
 * Returns the response for an error, with the headers that its status requires.
 *
 * @param options `status` if HTTP has a more specific one than the error's code; `wording` how hints name
 *   next steps
 */
export function toProblemResponse(
  error: SvcError,
  headers: Record<string, string> = {},
  { status = error.status, wording }: { status?: number; wording?: Wording } = {},
): Response {
  const body = { ...problemOf(error, wording), status }
  return new Response(JSON.stringify(body), {
    status: body.status,
    headers: {
      'content-type': problemType,
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

/** Adds the id of its request to an error response. Others do not change. */
export function withRequestId(answer: Response, id: string): Response | Promise<Response> {
  const { headers, status } = answer
  if (status < 400 || !answer.body || headers.get('content-type') !== problemType) return answer
  return answer
    .json()
    .then(body => new Response(JSON.stringify({ ...body, request_id: id }), { status, headers }))
}
