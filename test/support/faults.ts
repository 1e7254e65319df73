/** Faults that tests make WeChat and its CDN have: per endpoint and bot, a number of times or at a rate. */
import type { Clock } from '../../src/platform/clock.ts'
import type { RequestInterceptor } from '../../src/sandbox/core.ts'

/** Endpoints of faults; `*` is any. */
const faultEndpoints = [
  ...(['get_bot_qrcode', 'get_qrcode_status', 'getupdates', 'sendmessage', 'getuploadurl'] as const),
  ...(['getconfig', 'sendtyping', 'notifystart', 'notifystop', 'upload', 'download', '*'] as const),
] as const
/** Endpoint of a fault. */
export type FaultEndpoint = (typeof faultEndpoints)[number]

/** Effect of each kind of fault. */
const faultKinds = {
  '400': 'HTTP 400',
  '401': 'HTTP 401 with {"ret":-1,"errmsg":"Invalid token"}',
  '404': 'HTTP 404',
  '405': 'HTTP 405',
  '500': 'HTTP 500, empty body',
  status: 'the HTTP status in code, empty body',
  '502': 'HTTP 502, an HTML page',
  '524': 'HTTP 524, an HTML page (a proxy gave up waiting)',
  '201': 'HTTP 201 instead of 200 (uploads)',
  hang: 'no answer until the client leaves',
  reset: 'the connection is closed without an answer',
  slow: 'the answer comes after delay_ms; a download trickles over that time',
  truncated: 'the answer stops half way (JSON cut; a download ends early)',
  cut: 'the connection breaks in the middle of the answer',
  malformed: 'HTTP 200 with something that is not JSON',
  html: 'HTTP 200 with an HTML page',
  empty_body: 'HTTP 200 with nothing',
  nulls: 'every field of the answer is null',
  empty: 'an empty answer immediately, without a cursor',
  ret: '{"ret":code} without errcode, after a second',
  errcode: '{"errcode":code} without ret, after a second',
  expired: '{"errcode":-14}, whatever the token',
  lapsed: '{"ret":0} immediately, without msgs and without a cursor',
  no_param: 'an upload answered without x-encrypted-param',
  corrupt: 'a download with flipped bits',
} as const
/** Kind of a fault. */
export type FaultKind = keyof typeof faultKinds

/** An active fault. */
export interface Fault {
  readonly endpoint: FaultEndpoint
  readonly kind: FaultKind
  /** Remaining number of requests that it affects; 0 means until it is removed. */
  times: number
  /** Probability per request, 0–1. */
  readonly rate: number
  /** Affects only requests of this bot. */
  readonly bot?: string
  /** True: the request takes effect, and then its answer is spoiled; the client cannot know. */
  readonly after: boolean
  readonly delay_ms: number
  /** For `slow`, instead of `delay_ms`: the answer waits for this promise. */
  readonly until?: Promise<unknown>
  /** Return code of `ret` and `errcode`, or the status of `status`. */
  readonly code: number
  readonly errmsg?: string
}

/** The active faults, oldest first. The first that fits a request affects it. */
export class Faults {
  readonly #clock: Clock
  #set: Fault[] = []

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Adds a fault; by default it affects one request. */
  add(endpoint: FaultEndpoint, kind: FaultKind, more: FailOptions = {}): void {
    this.#set.push({ times: 1, rate: 1, after: false, delay_ms: 1000, code: -1, ...more, endpoint, kind })
  }

  clear(): void {
    this.#set = []
  }

  /** The sandbox's option `between`. */
  readonly between: RequestInterceptor = async ({ endpoint, bot, signal }, honest) => {
    const fault = this.#set.find(
      fault =>
        (fault.endpoint === '*' || fault.endpoint === endpoint) &&
        (fault.bot === undefined || fault.bot === bot) &&
        (fault.rate >= 1 || Math.random() < fault.rate),
    )
    if (!fault) return honest()
    if (fault.times > 0 && --fault.times === 0) this.#set = this.#set.filter(active => active !== fault)
    return brokenAnswer(fault, honest, this.#clock, signal)
  }
}

export type FailOptions = Partial<Omit<Fault, 'endpoint' | 'kind'>>

const html = (title: string) =>
  `<!DOCTYPE html><html><head><title>${title}</title></head><body><center><h1>${title}</h1></center></body></html>`

const page = (status: number, title: string) =>
  new Response(html(title), { status, headers: { 'content-type': 'text/html' } })

const json = (value: unknown, status = 200) =>
  new Response(JSON.stringify(value), { status, headers: { 'content-type': 'application/json' } })

/** Body that breaks: the server closes the connection; before the headers if `first` is undefined. */
const breaking = (first: Uint8Array | undefined, clock: Clock) =>
  new ReadableStream<Uint8Array>({
    async start(controller) {
      if (first) {
        controller.enqueue(first)
        // Sends the first bytes before the end: in one event-loop turn the client would get no bytes.
        await clock.sleep(20)
      }
      controller.error()
    },
  })

const nulls = (...names: string[]) => Object.fromEntries(names.map(name => [name, null]))

/** Answers that do not depend on the request. */
const fixedAnswers: { readonly [Kind in FaultKind]?: () => Response } = {
  '400': () => json({ ret: -1, errmsg: 'bad request' }, 400),
  '401': () => json({ ret: -1, errmsg: 'Invalid token' }, 401),
  '404': () => new Response('not found', { status: 404, headers: { 'x-error-message': 'not found' } }),
  '405': () => new Response('', { status: 405 }),
  '500': () => new Response('', { status: 500 }),
  '502': () => page(502, '502 Bad Gateway'),
  '524': () => page(524, '524: A timeout occurred'),
  malformed: () =>
    new Response('{"ret":0,"msgs":[{"item_list":', { headers: { 'content-type': 'application/json' } }),
  html: () => page(200, 'Welcome'),
  empty_body: () => new Response('', { headers: { 'content-type': 'application/json' } }),
  nulls: () =>
    json({
      ...nulls('ret', 'errcode', 'errmsg', 'msgs', 'get_updates_buf', 'longpolling_timeout_ms', 'message_id'),
      ...nulls('typing_ticket', 'upload_full_url', 'upload_param', 'status', 'qrcode'),
    }),
  empty: () => json({ ret: 0, msgs: [] }),
  expired: () => json({ errcode: -14, errmsg: 'session timeout' }),
  lapsed: () => json({ ret: 0 }),
}

/**
 * Returns the answer with this fault.
 *
 * @param honest computes the normal answer; called at most once, and at the start if the fault is `after`
 * @returns undefined if the client disconnected while the answer hung
 */
async function brokenAnswer(
  fault: Fault,
  honest: () => Promise<Response | undefined>,
  clock: Clock,
  signal: AbortSignal,
): Promise<Response | undefined> {
  const done = fault.after ? await honest() : undefined
  const fixed = fixedAnswers[fault.kind]
  if (fixed) return fixed()
  if (fault.kind === 'status') return new Response(null, { status: fault.code })
  if (fault.kind === 'reset') return new Response(breaking(undefined, clock))
  if (fault.kind === 'hang') {
    if (!signal.aborted)
      await new Promise<void>(resolve => signal.addEventListener('abort', () => resolve(), { once: true }))
    return undefined
  }
  if (fault.kind === 'ret' || fault.kind === 'errcode') {
    // Some clients take this for success and poll again immediately (protocol notes 7.2, rule 5).
    await clock.sleep(fault.delay_ms, signal)
    return json({ [fault.kind]: fault.code, ...(fault.errmsg !== undefined && { errmsg: fault.errmsg }) })
  }
  const right = fault.after ? done : await honest()
  if (!right) return undefined
  const { status, headers } = right
  switch (fault.kind) {
    case '201':
      return new Response(right.body, { status: 201, headers })
    case 'no_param':
      return new Response('', { status })
    case 'slow':
      if (headers.get('content-type') === 'application/octet-stream')
        return trickled(right, fault.delay_ms, clock, signal)
      await (fault.until ?? clock.sleep(fault.delay_ms, signal))
      return right
    case 'corrupt': {
      const flip = new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, controller) {
          const bytes = Uint8Array.from(chunk)
          if (bytes[0] !== undefined) bytes[0] ^= 0xff
          controller.enqueue(bytes)
        },
      })
      return new Response(right.body?.pipeThrough(flip) ?? null, { status, headers })
    }
    default: {
      // Half of at most the first MiB, so that a large download is not read whole.
      const bytes = await firstBytes(right, 1024 * 1024)
      const half = bytes.slice(0, Math.max(1, bytes.length >> 1))
      headers.delete('content-length')
      return new Response(fault.kind === 'cut' ? breaking(half, clock) : half, { status, headers })
    }
  }
}

async function firstBytes(response: Response, atMost: number): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    parts.push(chunk)
    size += chunk.length
    if (size >= atMost) break
  }
  return new Uint8Array(Buffer.concat(parts))
}

/** Sends the body in about twenty pieces over `ms`. */
function trickled(response: Response, ms: number, clock: Clock, signal: AbortSignal): Response {
  const steps = 20
  const total = Number(response.headers.get('content-length') ?? 0)
  const piece = Math.max(16, Math.ceil(total / steps))
  const slowly = new TransformStream<Uint8Array, Uint8Array>({
    async transform(chunk, controller) {
      for (let at = 0; at < chunk.length && !signal.aborted; at += piece) {
        await clock.sleep(total ? (ms * Math.min(piece, chunk.length - at)) / total : ms / steps, signal)
        controller.enqueue(chunk.slice(at, at + piece))
      }
    },
  })
  return new Response(response.body?.pipeThrough(slowly) ?? null, {
    status: response.status,
    headers: response.headers,
  })
}
