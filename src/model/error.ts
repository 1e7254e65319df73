/**
 * The closed catalogue of what can go wrong, grouped by who failed.
 *
 * One code means the same thing at every door: REST turns it into problem+json, MCP into `isError`, the
 * command line into one line on stderr and exit status 1, the library throws it.
 */

interface ErrorKind {
  /** HTTP status of the REST door. */
  readonly status: number
  readonly title: string
  /** What the caller should do next, when the thrower has nothing better to say. */
  readonly hint: string
}

const kinds = {
  // The caller.
  bad_json: { status: 400, title: 'Malformed JSON', hint: 'Send one JSON object as the request body.' },
  unauthorized: {
    status: 401,
    title: 'Token missing or wrong',
    hint: 'Send the header "Authorization: Bearer <token>"; the token is the one given with --token, or the one in the file api_token of the data directory.',
  },
  forbidden: {
    status: 403,
    title: 'Not allowed',
    hint: 'Use a path, address or host that this service allows.',
  },
  not_found: {
    status: 404,
    title: 'Not found',
    hint: 'See /docs for what exists, or GET /tools for the tools.',
  },
  session_not_found: { status: 404, title: 'No such session', hint: 'Call sessions to see the names.' },
  message_not_found: {
    status: 404,
    title: 'No such message',
    hint: 'Call history or recv to see message ids.',
  },
  method_not_allowed: {
    status: 405,
    title: 'Method not allowed',
    hint: 'Use the method named in the Allow header.',
  },
  session_exists: { status: 409, title: 'Session name already in use', hint: 'Choose another name.' },
  not_connected: {
    status: 409,
    title: 'No connected session',
    hint: 'Log a session in with the login tool, then call again.',
  },
  window_closed: {
    status: 409,
    title: 'Answer window closed',
    hint: 'WeChat accepts messages to a user for about 24 hours after that user last wrote. Stop sending; wait until the user writes.',
  },
  session_expired: {
    status: 409,
    title: 'Session expired',
    hint: 'Log the session in again with the login tool.',
  },
  poll_lock_held: {
    status: 409,
    title: 'Another process is polling',
    hint: 'Enable the store to follow the other process, or stop that process.',
  },
  idempotency_conflict: {
    status: 409,
    title: 'Idempotency key used for another message',
    hint: 'Use a new idempotency_key for a new message.',
  },
  media_expired: { status: 410, title: 'Media no longer available', hint: 'Ask the user to send it again.' },
  text_too_long: { status: 413, title: 'Text too long', hint: 'Send less text, or send it as a file.' },
  payload_too_large: {
    status: 413,
    title: 'Too large',
    hint: 'Send less, or raise the limit with --max-upload.',
  },
  unsupported_media_type: {
    status: 415,
    title: 'Unsupported content type',
    hint: 'Send the body as Content-Type: application/json.',
  },
  invalid_arguments: {
    status: 422,
    title: 'Invalid arguments',
    hint: 'Correct the named field; /docs shows every argument.',
  },
  no_media: {
    status: 422,
    title: 'Message has no media',
    hint: 'Choose a message whose items have has_media true.',
  },
  // WeChat.
  rate_limited: {
    status: 429,
    title: 'Too many sends',
    hint: 'Wait for retry_after seconds, then send once.',
  },
  quota_exhausted: {
    status: 429,
    title: 'All answers to this user are used',
    hint: 'WeChat allows about 10 answers to each message of a user. Stop sending; wait until the user writes.',
  },
  upstream_error: {
    status: 502,
    title: 'WeChat cannot be reached, or answered with an error',
    hint: 'Try again later; the log has the details.',
  },
  upstream_timeout: { status: 504, title: 'WeChat did not answer in time', hint: 'Try again later.' },
  // Us.
  internal: {
    status: 500,
    title: 'Internal error',
    hint: 'Report the id together with the log lines that carry it.',
  },
  store_unavailable: {
    status: 503,
    title: 'Message store unavailable',
    hint: 'Check free disk space and permissions of the data directory; the service recovers by itself.',
  },
  shutting_down: { status: 503, title: 'Service is stopping', hint: 'Call again when the service is back.' },
} as const satisfies Record<string, ErrorKind>

/** A name from the closed catalogue. */
export type ErrorCode = keyof typeof kinds

/** Every code, in the catalogue's order. */
export const errorCodes = Object.keys(kinds) as ErrorCode[]

/** HTTP status, title and default hint of a code. */
export const errorKind = (code: ErrorCode): ErrorKind => kinds[code]

export interface SvcErrorOptions {
  /** What to do next; the catalogue's hint otherwise. */
  hint?: string
  /** Seconds after which a repeat makes sense. */
  retryAfter?: number
  /** Safe to show to the caller: never tokens, keys, or URLs that carry them. */
  details?: Record<string, unknown>
  cause?: unknown
}

/** What a caller can cause or act on. Anything else that is thrown is a bug and leaves as `internal`. */
export class SvcError extends Error {
  override readonly name = 'SvcError'
  readonly code: ErrorCode
  readonly hint: string
  readonly retryAfter: number | undefined
  readonly details: Record<string, unknown> | undefined

  constructor(code: ErrorCode, detail: string, options: SvcErrorOptions = {}) {
    super(detail, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.hint = options.hint ?? kinds[code].hint
    this.retryAfter = options.retryAfter
    this.details = options.details
  }

  get status(): number {
    return kinds[this.code].status
  }

  get title(): string {
    return kinds[this.code].title
  }
}

/** The same error with its code checked, for callers that handle one code. */
export const isSvcError = (error: unknown, code?: ErrorCode): error is SvcError =>
  error instanceof SvcError && (code === undefined || error.code === code)
