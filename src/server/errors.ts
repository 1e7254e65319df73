/** Errors as HTTP tells them: `application/problem+json` (RFC 9457), one shape for every failure at this door. */
import { type Static, Type } from '@sinclair/typebox'
import { type ErrorCode, errorKind, type SvcError } from '../model/error.ts'
import { adviceOf, type Wording } from '../model/next-step.ts'
import { optional, text } from '../model/shapes.ts'

/** What every failure looks like on the wire. */
export const Problem = Type.Object(
  {
    type: Type.String({ format: 'uri', description: 'Names the kind of problem.' }),
    title: Type.String(),
    status: Type.Integer(),
    detail: text('What went wrong this time.'),
    code: Type.Unsafe<ErrorCode>(text('From the closed catalogue: decide by this.')),
    hint: optional(text('What to do next.')),
    retry_after: optional(Type.Number({ description: 'Seconds after which a repeat makes sense.' })),
    details: optional(
      Type.Unsafe<Record<string, unknown>>({
        type: 'object',
        description:
          'More about it: `errors`, a list of {field, problem}, of invalid_arguments, or `session_name` (too_long, dot, characters, reserved) of a name that cannot be one; `users`, a list of {session, user_id}, of a name that several have; `line` and `column`, or `byte`, of bad_json; `wrote` (before_login) with `session` of window_closed; `id` of internal.',
      }),
    ),
  },
  { description: 'A failure (RFC 9457).' },
)

/** The URI that names a kind of problem. */
export const problemType = (code: ErrorCode): string => `urn:svc:problem:${code}`

/** The body of an error, in the words of the HTTP door or of another. */
export function problemOf(error: SvcError, wording?: Wording): Static<typeof Problem> {
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

/**
 * The whole answer of an error, with the headers its status asks for.
 *
 * @param special `status` where HTTP has a narrower one than the error's code, `wording` of a door that names commands
 */
export function problemResponse(
  error: SvcError,
  headers: Record<string, string> = {},
  { status = error.status, wording }: { status?: number; wording?: Wording } = {},
): Response {
  const body = { ...problemOf(error, wording), status }
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
