/**
 * Sends one request to upstream and returns its response or a typed error. Upstream reports most failures
 * with HTTP 200 and a code in `ret` or `errcode`, and may leave out either (protocol notes 2.0), so both are
 * checked on every endpoint.
 */
import { type ErrorCode, isSvcError, SvcError } from '../model/error.ts'
import type { NextStep } from '../model/next-step.ts'
import { type AwakeTimer, SharedTurns, startAwakeTimer, systemClock } from '../platform/clock.ts'
import { escapeControls } from '../platform/escape-controls.ts'
import { isNeverSent, networkCodeOf } from '../platform/fetch.ts'
import { attempt, parseFields, withoutUndefined } from '../platform/fields.ts'
import { maskText } from '../platform/log.ts'
import { type ParsedPart, parseInSlices, quoteLongIntegers } from '../platform/lossless.ts'
import type { Permits } from '../platform/permits.ts'
import { followSignal } from '../platform/signals.ts'
import type { Outcome } from './wire.ts'

/** Method, headers and body of a request. It has no timeout of its own: abort the signal to end it. */
export interface FetchInit {
  method: 'GET' | 'POST' | 'PUT'
  headers?: Record<string, string>
  body?: string | AsyncIterable<Uint8Array>
  signal?: AbortSignal
}

/** The part of `fetch` that upstream needs: `apiFetch` of the platform, or a test's own. */
export type Fetch = (url: string, init: FetchInit) => Promise<Response>

/**
 * - expired: -14, the bot token is no longer valid
 * - refused: upstream refuses (any other code in `ret` or `errcode`)
 * - http: a status other than 2xx
 * - network: no connection, or the connection broke
 * - timeout: no reply in time
 * - malformed: a reply that is not a JSON object or is too large
 */
export type ILinkErrorKind = 'expired' | 'refused' | 'http' | 'network' | 'timeout' | 'malformed'

/** The known facts of an error. `errmsg` is upstream's own message, masked and cut. */
export interface ILinkErrorFacts extends Outcome {
  /** HTTP status, once a reply has begun. */
  status?: number
  /** True when the request certainly did not reach upstream. */
  neverSent?: boolean
  /** The system's error code, such as ECONNREFUSED. */
  systemCode?: string
  /** What to do next, where the kind alone does not decide it. */
  hint?: string
  next?: NextStep
  cause?: unknown
}

const codeOfKind: Record<ILinkErrorKind, ErrorCode> = {
  expired: 'session_expired',
  refused: 'upstream_error',
  http: 'upstream_error',
  network: 'upstream_error',
  timeout: 'upstream_timeout',
  malformed: 'upstream_error',
}

/** An error between svc and upstream. It is an SvcError, so it may be returned to a caller as it is. */
export class ILinkError extends SvcError {
  readonly kind: ILinkErrorKind
  readonly facts: ILinkErrorFacts

  /** @param detail the message for the caller, including upstream's own message; never a URL or a token */
  constructor(kind: ILinkErrorKind, detail: string, facts: ILinkErrorFacts = {}) {
    const { ret, errcode, errmsg, status, systemCode, hint, next, cause } = facts
    const details = withoutUndefined({ ret, errcode, errmsg, http_status: status })
    const number = (ret || errcode)?.toString() ?? (kind === 'http' ? `HTTP ${status}` : systemCode)
    super(codeOfKind[kind], maskText(detail), {
      cause,
      hint,
      next,
      quote: errmsg || number,
      ...(Object.keys(details).length > 0 && { details }),
    })
    this.kind = kind
    this.facts = facts
  }
}

/** Whether an error is an ILinkError, of that kind if one is given. */
export const isILinkError = (error: unknown, kind?: ILinkErrorKind): error is ILinkError =>
  error instanceof ILinkError && (kind === undefined || error.kind === kind)

/**
 * Statuses from 300 to 499 that do not prove that a request was not carried out (RFC 9110, 15.4 and 15.5):
 * its answer is elsewhere (303) or in no usable form (304, 406), it was carried out before (409), or a proxy
 * stopped waiting for it (408, 444, 460, 499).
 */
const unclearStatuses = new Set([303, 304, 406, 408, 409, 444, 460, 499])

/** Returns whether upstream certainly did not carry out the request: it said so, or the status proves it. */
export const isRefusal = (error: unknown): boolean => {
  if (!isILinkError(error, 'http')) return isILinkError(error, 'refused')
  const { status = 0 } = error.facts
  return status >= 300 && status < 500 && !unclearStatuses.has(status)
}

/** Joins `base` and `path` with one slash. A path prefix in `base` stays. */
export const joinUrl = (base: string, path: string): string => `${withoutSlashes(base.trim())}/${path}`

/** Removes all slashes at the end of a URL. One pass, because the URL may come from upstream. */
export function withoutSlashes(url: string): string {
  let end = url.length
  while (url[end - 1] === '/') end--
  return url.slice(0, end)
}

/**
 * Returns `iLink-App-ClientVersion` of a version: (major<<16)|(minor<<8)|patch, 8 bits each; 2.4.9 is 132105.
 */
export function clientVersionOf(version: string): string {
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(part => Number.parseInt(part, 10) & 0xff)
  return String((major << 16) | (minor << 8) | patch)
}

/** Returns a new `X-WECHAT-UIN` for one request: base64 of the decimal digits of a random uint32. */
export function randomUin(): string {
  const [uin = 0] = crypto.getRandomValues(new Uint32Array(1))
  return btoa(String(uin))
}

export interface Request {
  url: string
  method: 'GET' | 'POST'
  headers: Record<string, string>
  body?: string
  /** Limit until the reply begins; the wait for a permit does not count. */
  timeoutMs: number
  signal?: AbortSignal
  /** Limits parallel requests. This request holds a permit until the reply has ended. */
  permits?: Permits
  /** Whether an empty body counts as `{}`: some servers answer a send with one. */
  emptyOk?: boolean
  /** Limit of the reply; 1 MiB by default. */
  limitBytes?: number
  /** Whether a reply that has begun is read to its end, also if the caller aborts. */
  readsToEnd?: boolean
}

export interface Reply {
  /** The unchecked fields of the reply. Ids are strings. */
  fields: Readonly<Record<string, unknown>>
  /** The JSON text of the fields, with long integers quoted. */
  text: string
  /** For a long reply: the content of its `msgs`, which is then empty in `fields`. */
  parts?: ParsedPart[]
}

/** Time for a reply to end once it has begun: it may carry messages that upstream will not send again. */
const bodyMs = 30_000
const replyLimitBytes = 1024 * 1024
/** A longer reply is parsed in slices, so that other work can go on. */
const longReplyLength = 64 * 1024
/** Limit of the messages in one reply. */
const maxMessages = 200_000
/** Shared by all long replies. */
const sharedTurns = new SharedTurns(systemClock)
const errorLimitBytes = 64 * 1024

/**
 * Sends a request and reads the reply to its end.
 *
 * @throws ILinkError; or the signal's reason when the caller aborted
 */
export async function exchange(fetch: Fetch, request: Request): Promise<Reply> {
  const { signal, permits } = request
  using _slot = await permits?.take(signal)
  if (signal?.aborted) throw signal.reason
  const ended = new AbortController()
  const leave = signal && followSignal(signal, ended)
  let timer: AwakeTimer | undefined
  const setDeadline = (ms: number) => {
    timer?.stop()
    // A process that slept or was busy first reads what is already in its socket.
    timer = startAwakeTimer(ms, () => ended.abort(new DOMException('The deadline passed', 'TimeoutError')))
  }
  setDeadline(request.timeoutMs)
  let response: Response | undefined
  try {
    response = await fetch(request.url, {
      method: request.method,
      headers: request.headers,
      signal: ended.signal,
      body: request.body,
    })
    setDeadline(bodyMs)
    if (request.readsToEnd) leave?.()
    if (!response.ok) throw await readHttpError(response)
    const text = await readResponseText(response, request.limitBytes ?? replyLimitBytes)
    const reply = text.length > longReplyLength ? await parseLong(text) : parseWhole(text, request.emptyOk)
    const problem = outcomeErrorOf(reply.fields, response.status)
    if (problem) throw problem
    return reply
  } catch (error) {
    if (signal?.aborted) throw signal.reason
    if (error instanceof ILinkError) throw error
    if (ended.signal.aborted) {
      throw new ILinkError(
        'timeout',
        response ? "WeChat's answer did not end in time" : 'WeChat did not answer in time',
        { ...(!response && unreachedAdvice), status: response?.status, cause: error },
      )
    }
    if (isSvcError(error, 'forbidden')) throw forbiddenAddressError(error)
    throw networkErrorOf(error)
  } finally {
    timer?.stop()
    leave?.()
  }
}

/** Returns the error when WeChat names an address for its account that is not on the public internet. */
const forbiddenAddressError = (cause: SvcError): ILinkError =>
  new ILinkError('network', `nothing was sent: ${cause.problem}`, {
    neverSent: true,
    hint: 'WeChat itself named this address. If it is right, start svc with it as --upstream-url or --cdn-url.',
    cause,
  })

const unreachedAdvice: Pick<ILinkErrorFacts, 'hint' | 'next'> = {
  hint: 'Check that this machine is online, and --upstream-url and --cdn-url if given. The doctor shows what is in the way.',
  next: { action: 'run', command: ['doctor'] },
}

/**
 * Converts any failure of `fetch` itself to an ILinkError of kind network.
 *
 * @param what the operation that failed, if it is more than one request to WeChat
 * @param server the server, if it is not WeChat itself
 * @param advice what the caller can do
 */
export function networkErrorOf(
  cause: unknown,
  what?: string,
  server = 'WeChat',
  advice = unreachedAdvice,
): ILinkError {
  const code = networkCodeOf(cause)
  const neverSent = code !== undefined && isNeverSent(code)
  const detail = neverSent ? `${server} cannot be reached` : `the connection to ${server} broke`
  return new ILinkError('network', `${what ? `${what}: ` : ''}${detail}${code ? ` (${code})` : ''}`, {
    ...advice,
    neverSent,
    systemCode: code,
    // With a code the cause is left out: its message repeats the code, with advice for the author of the
    // call.
    cause: code === undefined ? cause : undefined,
  })
}

/** Returns the error that `ret` and `errcode` report; undefined for success. */
function outcomeErrorOf(fields: Record<string, unknown>, status: number) {
  const { ret, errcode, errmsg } = outcomeOf(fields)
  if (!ret && !errcode) return undefined
  const kind = ret === -14 || errcode === -14 ? 'expired' : 'refused'
  const suffix = errmsg ? `: ${errmsg}` : ''
  const numbers = [ret && `ret ${ret}`, errcode && errcode !== ret && `errcode ${errcode}`].filter(Boolean)
  return new ILinkError(kind, `WeChat refused: ${numbers.join(', ')}${suffix}`, {
    ret,
    errcode,
    errmsg,
    ...(status >= 300 && { status }),
  })
}

function outcomeOf(fields: Record<string, unknown>): Outcome {
  return {
    ret: parseResultCode(fields.ret),
    errcode: parseResultCode(fields.errcode),
    errmsg: upstreamTextOf(fields.errmsg),
  }
}

const longestText = 200

/** Returns upstream's own message, of whatever type it is: masked, on one line, and short. */
export function upstreamTextOf(value: unknown): string | undefined {
  if (value === undefined || value === null || value === '') return undefined
  // A value may be nested deeper than the runtime can serialize.
  const text = typeof value === 'string' ? value : (attempt(() => JSON.stringify(value)) ?? '')
  // Cut before masking, because the rest is not displayed. A token that this cut splits ends far behind the
  // displayed part.
  const cleaned = escapeControls(maskText(text.slice(0, 10 * longestText)).replace(/\s+/g, ' ')).trim()
  return cleaned.length > longestText
    ? `${cleaned.slice(0, longestText - 1).toWellFormed()}…`
    : cleaned || undefined
}

/**
 * Reads a result code. Anything that is not a number means success, like a missing code. A code in quotes
 * counts.
 */
function parseResultCode(value: unknown): number | undefined {
  const code = typeof value === 'string' && value !== '' ? Number(value) : value
  return typeof code === 'number' && Number.isFinite(code) ? code : undefined
}

async function readHttpError(response: Response): Promise<ILinkError> {
  const text = await readResponseText(response, errorLimitBytes).catch(() => '')
  const fields = parseFields(text)
  // Some deployments set a status together with the code. -14 has its usual meaning; below 500 other codes
  // are refusals.
  const stated = fields && outcomeErrorOf(fields, response.status)
  if (stated && (stated.kind === 'expired' || response.status < 500)) return stated
  return new ILinkError('http', `WeChat answered with HTTP ${response.status}`, {
    // Below 500, the response is probably not from WeChat.
    ...(response.status < 500 && { hint: elsewhereHint }),
    status: response.status,
    ...(fields && outcomeOf(fields)),
  })
}

const elsewhereHint =
  'Something else may answer in its place: check --upstream-url if given, the proxy, and whether this network wants a sign-in first.'

function parseWhole(rawText: string, emptyOk: boolean | undefined): Reply {
  const text = quoteLongIntegers(rawText)
  const fields = text === '' && emptyOk ? {} : parseFields(text)
  if (!fields) throw malformedError(text)
  return { fields, text }
}

async function parseLong(text: string): Promise<Reply> {
  try {
    return { text: '', ...(await parseInSlices(text, 'msgs', maxMessages, sharedTurns.join())) }
  } catch {
    throw malformedError(text)
  }
}

function malformedError(text: string): ILinkError {
  const what = !/\S/.test(text) ? 'nothing' : /^\s*</.test(text) ? 'a web page' : 'no JSON object'
  return new ILinkError('malformed', `WeChat answered with ${what}`, { hint: elsewhereHint })
}

async function readResponseText(response: Response, limitBytes: number): Promise<string> {
  const stated = Number(response.headers.get('content-length') ?? Number.NaN)
  const tooLarge = () =>
    new ILinkError('malformed', `WeChat's answer is larger than ${limitBytes} bytes`, { hint: elsewhereHint })
  if (stated > limitBytes) {
    await response.body?.cancel().catch(() => {})
    throw tooLarge()
  }
  // The stated length limits the body, unless it is compressed.
  if (stated >= 0 && !response.headers.get('content-encoding')) return response.text()
  const decoder = new TextDecoder()
  let text = ''
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength
    if (size > limitBytes) throw tooLarge()
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}
