/**
 * The closed catalogue of errors, grouped by who failed.
 *
 * A code means the same at every door: REST returns problem+json, MCP `isError`, the command line prints one
 * line on stderr and exits with 1, the library throws it. The next step is data where it differs between
 * doors (`next-step.ts`). No code makes a decision by the text of an error.
 */
import { adviceOf, type NextStep, plainWordingOf } from './next-step.ts'

interface ErrorKind {
  /** HTTP status of the REST door. */
  readonly status: number
  readonly title: string
  /**
   * What the caller should do next, unless the thrower gives a better hint. Comes before `next` if both are
   * set.
   */
  readonly hint?: string
  readonly next?: NextStep
}

const kinds = {
  // The caller.
  bad_json: { status: 400, title: 'Malformed JSON', hint: 'Send one JSON object as the request body.' },
  unauthorized: {
    status: 401,
    title: 'Token missing or wrong',
    hint: 'Send the header "Authorization: Bearer <token>". The token is a key of svc key add, or the master token: the one given with --token, or else the one in the file api_token of the data directory.',
  },
  forbidden: {
    status: 403,
    title: 'Not allowed',
    hint: 'Use a path, address or host that this service allows.',
  },
  not_found: { status: 404, title: 'Not found', next: { action: 'see', what: 'paths' } },
  session_not_found: { status: 404, title: 'No such session', next: { action: 'see', what: 'sessions' } },
  message_not_found: { status: 404, title: 'No such message', next: { action: 'see', what: 'messages' } },
  method_not_allowed: {
    status: 405,
    title: 'Method not allowed',
    hint: 'Use the method named in the Allow header.',
  },
  session_exists: { status: 409, title: 'Session name already in use', hint: 'Choose another name.' },
  not_connected: { status: 409, title: 'No connected session', next: { action: 'login' } },
  window_closed: {
    status: 409,
    title: 'Answer window closed',
    hint: 'WeChat accepts messages to a user for about 24 hours after that user last wrote. Stop sending, and wait until the user writes.',
    next: { action: 'queue' },
  },
  session_expired: { status: 409, title: 'Session expired', next: { action: 'login' } },
  poll_lock_held: {
    status: 409,
    title: 'Another process is polling',
    hint: 'Enable the store to follow the other process, or stop that process.',
  },
  idempotency_conflict: {
    status: 409,
    title: 'Idempotency key used for another message',
    hint: 'Use a new key for a new message.',
  },
  media_expired: { status: 410, title: 'Media no longer available', hint: 'Ask the user to send it again.' },
  text_too_long: { status: 413, title: 'Text too long', hint: 'Send less text, or send it as a file.' },
  payload_too_large: {
    status: 413,
    title: 'Too large',
    hint: 'Send a smaller file, or start the service with a larger --max-upload.',
  },
  unsupported_media_type: {
    status: 415,
    title: 'Unsupported content type',
    hint: 'Send the body as Content-Type: application/json.',
  },
  invalid_arguments: { status: 422, title: 'Invalid arguments', next: { action: 'see', what: 'arguments' } },
  no_media: { status: 422, title: 'Message has no media', next: { action: 'see', what: 'media' } },
  no_answer: {
    status: 409,
    title: 'Nobody answered',
    hint: 'No answer is never a yes. Ask again with a longer timeout, or another person.',
  },
  // WeChat.
  rate_limited: { status: 429, title: 'Too many requests', next: { action: 'wait' } },
  quota_exhausted: {
    // Generic clients repeat a 429 by themselves, but this state ends only when the user writes.
    status: 409,
    title: 'All answers to this user are used',
    hint: 'WeChat allows about 10 answers to each message of a user. Wait until the user writes.',
    next: { action: 'queue' },
  },
  upstream_error: {
    status: 502,
    title: 'WeChat cannot be reached, or answered with an error',
    hint: 'Try again later; the log has the details.',
  },
  upstream_timeout: { status: 504, title: 'WeChat did not answer in time', hint: 'Try again later.' },
  // svc itself.
  internal: {
    status: 500,
    title: 'Internal error',
    hint: 'Report the id together with the log lines that carry it.',
  },
  store_unavailable: {
    status: 503,
    title: 'Message store unavailable',
    hint: 'Check free disk space and permissions of the data directory; a running svc recovers by itself.',
  },
  shutting_down: { status: 503, title: 'Service is stopping', hint: 'Call again when the service is back.' },
  // Thrown only by a program that calls a service.
  unreachable: {
    status: 503,
    title: 'No service answers',
    hint: 'Check the address, and that the service runs.',
  },
} as const satisfies Record<string, ErrorKind>

/** A code of the catalogue. */
export type ErrorCode = keyof typeof kinds

/** All codes, in the order of the catalogue. */
export const errorCodes = Object.keys(kinds) as ErrorCode[]

/** Returns HTTP status, title and default hint of a code. */
export const errorKindOf = (code: ErrorCode): ErrorKind => kinds[code]

/** One problem in an input. */
export interface Problem {
  /** `to`, `media[0].kind`, `--port`; '' means the whole input. */
  field: string
  problem: string
}

export interface SvcErrorOptions {
  /** The wrong argument or option, by the name that the thrower uses. */
  field?: string
  /**
   * What to do next, in words that are right at every door. Without `hint` and `next`, the catalogue's advice
   * is used.
   */
  hint?: string
  /** What to do next, where each door words it differently. Comes after `hint`. */
  next?: NextStep
  /** Seconds after which the caller may repeat the call. */
  retryAfter?: number
  /** A quoted part of the message, such as WeChat's own text. Included in `details`. */
  quote?: string
  /** Visible to the caller: never tokens, keys, or URLs that contain them. */
  details?: Record<string, unknown>
  cause?: unknown
}

/**
 * An error that a caller can cause or act on. Any other thrown error is a bug and is reported as `internal`.
 */
export class SvcError extends Error {
  override readonly name = 'SvcError'
  readonly code: ErrorCode
  /** What is wrong, without the field. `message` is `field: problem`. */
  readonly problem: string
  /** The options of the constructor, without the additions of the catalogue. */
  readonly options: SvcErrorOptions
  /**
   * What to do next, worded for a program that catches the error. Doors get their own wording from
   * `adviceOf`.
   */
  readonly hint: string
  readonly retryAfter: number | undefined
  readonly details: Record<string, unknown> | undefined

  constructor(code: ErrorCode, problem: string, options: SvcErrorOptions = {}) {
    const { cause, field, quote } = options
    const details = quote === undefined ? options.details : { ...options.details, quote }
    super(field ? `${field}: ${problem}` : problem, cause === undefined ? undefined : { cause })
    this.code = code
    this.problem = problem
    this.options = options
    this.retryAfter = options.retryAfter
    const isOneField = code === 'invalid_arguments' && field && !details?.errors
    this.details = isOneField ? { ...details, errors: [{ field, problem }] } : details
    this.hint = adviceOf(this, plainWordingOf('library'))
  }

  /** The wrong argument. */
  get field(): string | undefined {
    return this.options.field
  }

  /** The advice as data: the thrower's, or else the catalogue's. */
  get advice(): { hint?: string; next?: NextStep } {
    const { hint, next } = this.options
    return hint === undefined && next === undefined ? kinds[this.code] : { hint, next }
  }

  get status(): number {
    return kinds[this.code].status
  }

  get title(): string {
    return kinds[this.code].title
  }
}

/** Returns the error for one wrong argument or option. */
export const badArgument = (field: string, problem: string, options: SvcErrorOptions = {}): SvcError =>
  new SvcError('invalid_arguments', problem, { ...options, field })

/**
 * Limit of the listed fields: a longer list helps nobody, and an attacker's 10,000 unknown keys must not be
 * echoed.
 */
const maxListedProblems = 20

/** Returns the error for several wrong arguments. */
export function invalidArguments(problems: readonly Problem[], options: SvcErrorOptions = {}): SvcError {
  const errors = problems.slice(0, maxListedProblems)
  const more = problems.length - errors.length
  const [first] = errors
  const details = { ...options.details, errors }
  if (problems.length === 1 && first) return badArgument(first.field, first.problem, { ...options, details })
  const lines = errors.map(({ field, problem }) => (field ? `${field}: ${problem}` : problem))
  const message = lines.join('; ') + (more > 0 ? `; and ${more} more` : '')
  return new SvcError('invalid_arguments', message, { ...options, details })
}

/**
 * Returns a copy of an error with other field names, for a caller who knows the fields by other names, or
 * with more detailed problems.
 */
export function withFieldNames(error: SvcError, renameProblem: (problem: Problem) => Problem): SvcError {
  const { code, details, field, options, problem } = error
  const errors: unknown = details?.errors
  if (code === 'invalid_arguments' && Array.isArray(errors))
    return invalidArguments(errors.map(renameProblem), { ...options, field: undefined, cause: error })
  if (!field) return error
  return new SvcError(code, problem, {
    ...options,
    field: renameProblem({ field, problem }).field,
    cause: error,
  })
}

/** Returns whether an error is an SvcError, of this code if one is given. */
export const isSvcError = (error: unknown, code?: ErrorCode): error is SvcError =>
  error instanceof SvcError && (code === undefined || error.code === code)
