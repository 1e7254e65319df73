/**
 * Calls of the REST API: one request, its time limit, its repetitions while the service is away, and its errors. A call is
 * repeated only if it was certainly not sent, or if it can be made twice.
 */
import { type ErrorCode, errorCodes, SvcError } from '../model/error.ts'
import { backoffMs, startAwakeTimer, systemClock } from '../platform/clock.ts'
import { linkSignals } from '../platform/signals.ts'
import { type HttpRequest, type Route, toRequest } from './route.ts'

/** How one call is made. */
export interface CallPlan {
  readonly signal?: AbortSignal | undefined
  /** The call can be made twice. Default: whether the route changes nothing. */
  readonly isRepeatable?: boolean
  /** How long the service may wait before it answers, in seconds. */
  readonly waitsS?: number
  /** Repeats the call until it is answered or the signal aborts: for loops. */
  readonly isEndless?: boolean
  /** Returns a new body for each try. It calls `onProgress` with each block: an upload takes as long as it takes. */
  openBody?(onProgress: () => void): ReadableStream<Uint8Array>
}

/** Makes a request, as the `fetch` of the runtime does. */
export type FetchFunction = (url: string, request: RequestInit) => Promise<Response>

export interface HttpOptions {
  /** Address of the service. */
  readonly url: string
  /** Returns the bearer token. */
  getKey(): Promise<string | undefined>
  /** How long calls are repeated while no service answers, in milliseconds. */
  readonly patienceMs: number
  /** How long an answer may take beyond what the service waits for, and how long a body may pause, in milliseconds. */
  readonly limitMs: number
  readonly fetch: FetchFunction
}

/** An answer whose body is still to be read. */
export interface OpenedAnswer {
  readonly status: number
  readonly headers: Headers
  readonly body: ReadableStream<Uint8Array>
}

/** The time limit of one try. */
interface Limit {
  readonly signal: AbortSignal
  restart(): void
}

/** Why a call got no answer of svc. */
interface Failure {
  readonly error: SvcError
  /** The service certainly did not get the request. */
  readonly isUnsent?: boolean
}

export class Http {
  readonly options: HttpOptions
  readonly #base: string

  constructor(options: HttpOptions) {
    this.options = options
    this.#base = options.url.replace(/\/+$/, '')
  }

  /** Calls a route with an input, and returns its JSON. @throws SvcError */
  async json<T>(route: Route, input: object, plan?: CallPlan): Promise<T> {
    return (await this.answer<T>(route, input, plan)).value
  }

  /** Same as `json`, with the headers of the answer. */
  async answer<T>(route: Route, input: object, plan?: CallPlan): Promise<{ value: T; headers: Headers }> {
    return this.read(route, input, plan, async answer => {
      const { body, headers } = answer
      if (!isJson(headers)) throw strangerError(answer, this.#base)
      return { value: (await new Response(body).json()) as T, headers }
    })
  }

  /**
   * Calls a route, and reads its answer with `read`, which calls `onProgress` with each block. It is called
   * again for each try.
   *
   * @throws SvcError
   */
  read<T>(
    route: Route,
    input: object,
    plan: CallPlan = {},
    read: (answer: OpenedAnswer, onProgress: () => void) => Promise<T>,
  ): Promise<T> {
    const request = toRequest(route, { ...input })
    return this.#repeat({ isRepeatable: route.isRead === true, ...plan }, async limit => {
      const answer = await this.#fetch(request, plan, limit)
      const { body, headers, status } = answer
      if (!answer.ok && status !== route.otherStatus) throw await toError(answer, this.#base)
      if (!body) throw strangerError(answer, this.#base)
      return await read({ body, headers, status }, limit.restart)
    })
  }

  /** Calls a route, and returns its answer, which fails if it pauses for too long. @throws SvcError */
  open(route: Route, input: object, plan: CallPlan = {}): Promise<OpenedAnswer> {
    return this.read(route, input, plan, async answer => ({
      ...answer,
      body: this.#limitPauses(answer.body, plan.signal),
    }))
  }

  async #fetch(
    { headers, ...request }: HttpRequest,
    { openBody }: CallPlan,
    limit: Limit,
  ): Promise<Response> {
    const key = await this.options.getKey()
    return await this.options.fetch(this.#base + request.path, {
      method: request.method,
      headers: { ...headers, ...(key !== undefined && { authorization: `Bearer ${key}` }) },
      ...(request.body !== undefined && { body: request.body }),
      ...(openBody && { body: openBody(limit.restart), duplex: 'half' }),
      redirect: 'error',
      signal: limit.signal,
    } as RequestInit)
  }

  async #repeat<T>(plan: CallPlan, call: (limit: Limit) => Promise<T>): Promise<T> {
    const { isEndless, isRepeatable, signal } = plan
    const since = systemClock.monotonic()
    for (let failures = 0; ; failures++) {
      signal?.throwIfAborted()
      const done = await this.#try(plan, call)
      if ('value' in done) return done.value
      const waitMs = Math.max(backoffMs(failures, 200, 5000), (done.error.retryAfter ?? 0) * 1000)
      const isOver = !isEndless && systemClock.monotonic() + waitMs - since > this.options.patienceMs
      if (isOver || !(done.isUnsent || isRepeatable)) throw done.error
      await systemClock.sleep(waitMs, signal)
    }
  }

  /** @throws SvcError for an answer that does not change when the call is repeated; the reason of the signal */
  async #try<T>(
    { isEndless, signal, waitsS = 0 }: CallPlan,
    call: (limit: Limit) => Promise<T>,
  ): Promise<{ value: T } | Failure> {
    const late = new AbortController()
    const timer = startAwakeTimer(waitsS * 1000 + this.options.limitMs, () => late.abort())
    const linked = linkSignals(signal, late.signal)
    try {
      return { value: await call({ signal: linked.signal, restart: timer.restart }) }
    } catch (error) {
      // Nobody reads what is left of the answer.
      late.abort()
      if (signal?.aborted) throw signal.reason
      if (!(error instanceof SvcError))
        return { error: awayError(this.#base, error), isUnsent: isUnsent(error) }
      if (passing.includes(error.code) || (isEndless && passingForLoops.includes(error.code)))
        return { error }
      throw error
    } finally {
      timer.stop()
      linked[Symbol.dispose]()
    }
  }

  #limitPauses(body: ReadableStream<Uint8Array>, signal?: AbortSignal): ReadableStream<Uint8Array> {
    const reader = body.getReader()
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
      signal?.throwIfAborted()
      const fail = (error: unknown) => {
        controller.error(error)
        void reader.cancel(error).catch(() => {})
      }
      const abort = () => fail(signal?.reason)
      const timer = startAwakeTimer(this.options.limitMs, () => fail(awayError(this.#base, 'a pause')))
      signal?.addEventListener('abort', abort)
      try {
        const { done, value } = await reader.read()
        if (done) controller.close()
        else controller.enqueue(value)
      } catch (error) {
        throw awayError(this.#base, error)
      } finally {
        timer.stop()
        signal?.removeEventListener('abort', abort)
      }
    }
    return new ReadableStream({ pull, cancel: reason => reader.cancel(reason) }, { highWaterMark: 0 })
  }
}

/** The call may be repeated after these. */
const passing: readonly ErrorCode[] = ['shutting_down', 'unreachable']
/** Loops go on after these, too. */
const passingForLoops: readonly ErrorCode[] = ['rate_limited', 'store_unavailable']

/** What a proxy means by its status. Others say nothing about the call. */
const statusCodes: Readonly<Record<number, ErrorCode>> = {
  401: 'unauthorized',
  403: 'forbidden',
  413: 'payload_too_large',
  429: 'rate_limited',
}

/** The fields of an error that a service sends. */
interface SentProblem {
  readonly code: ErrorCode
  readonly detail: string
  readonly hint?: string
  readonly retry_after?: number
  readonly request_id?: string
  readonly details?: { readonly errors?: readonly { readonly field: string; readonly problem: string }[] }
}

const isJson = (headers: Headers): boolean => /^application\/json\b/.test(headers.get('content-type') ?? '')

/** Returns the error of an answer as the service threw it. */
async function toError(answer: Response, base: string): Promise<SvcError> {
  if (answer.headers.get('content-type') !== 'application/problem+json') return strangerError(answer, base)
  const { code, detail, hint, retry_after, request_id, ...sent } = (await answer.json()) as SentProblem
  const [problem] = sent.details?.errors ?? []
  const isOne = problem?.field && detail === `${problem.field}: ${problem.problem}`
  const details = { ...sent.details, ...(request_id !== undefined && { request_id }) }
  // A later version may have more codes.
  return new SvcError(errorCodes.includes(code) ? code : 'internal', isOne ? problem.problem : detail, {
    ...(isOne && { field: problem.field }),
    ...(hint !== undefined && { hint }),
    ...(retry_after !== undefined && { retryAfter: retry_after }),
    ...(Object.keys(details).length > 0 && { details }),
  })
}

/** The error for an answer that is not from svc. The program that answers is often a proxy whose service is away. */
function strangerError({ headers, status }: Pick<Response, 'headers' | 'status'>, base: string): SvcError {
  const retryAfter = Number(headers.get('retry-after') ?? Number.NaN)
  const code = statusCodes[status] ?? 'unreachable'
  return new SvcError(code, `something else than svc answers at ${base}, with status ${status}`, {
    ...(retryAfter >= 0 && { retryAfter }),
  })
}

const awayError = (base: string, cause: unknown): SvcError =>
  new SvcError('unreachable', `no service answers at ${base}`, { cause })

/** Codes of a connection that was not made. */
const unsentCodes = [
  'ConnectionRefused',
  'ECONNREFUSED',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
]

/** Whether the request was certainly not sent. Deno has only words for that. */
const isUnsent = (error: unknown): boolean =>
  [error, Object(error).cause].some(
    one => unsentCodes.includes(Object(one).code) || /client error \(Connect\)/.test(Object(one).message),
  )
