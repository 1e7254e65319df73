/** Answers as a fault spoils them. */
import type { Clock } from '../platform/clock.ts'
import type { Fault, FaultKind } from './faults.ts'

const html = (title: string) =>
  `<!DOCTYPE html><html><head><title>${title}</title></head><body><center><h1>${title}</h1></center></body></html>`

const page = (status: number, title: string) =>
  new Response(html(title), { status, headers: { 'content-type': 'text/html' } })

const json = (value: unknown, status = 200) =>
  new Response(JSON.stringify(value), { status, headers: { 'content-type': 'application/json' } })

/** A body that breaks: the server closes the connection, before the headers when `first` is empty. */
const breaking = (first: Uint8Array | undefined, clock: Clock) =>
  new ReadableStream<Uint8Array>({
    async start(controller) {
      if (first) {
        controller.enqueue(first)
        // The first bytes shall be on their way before the end: both in one turn would be an end without bytes.
        await clock.sleep(20)
      }
      controller.error()
    },
  })

/** How a gateway ends a poll that waits for too long. */
export const cutAnswer = (how: string, clock: Clock): Response =>
  how === '524' ? page(524, '524: A timeout occurred') : new Response(breaking(undefined, clock))

const nulls = (...names: string[]) => Object.fromEntries(names.map(name => [name, null]))

/** Answers that are the same whatever was asked. */
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
 * The answer under this fault.
 *
 * @param honest gives the right answer; called at most once, and first of all when the fault strikes `after` the effect
 * @returns undefined: the client went away while we hung
 */
export async function brokenAnswer(
  fault: Fault,
  honest: () => Promise<Response | undefined>,
  clock: Clock,
  signal: AbortSignal,
): Promise<Response | undefined> {
  const done = fault.after ? await honest() : undefined
  const fixed = fixedAnswers[fault.kind]
  if (fixed) return fixed()
  if (fault.kind === 'reset') return new Response(breaking(undefined, clock))
  if (fault.kind === 'hang') {
    if (!signal.aborted)
      await new Promise<void>(resolve => signal.addEventListener('abort', () => resolve(), { once: true }))
    return undefined
  }
  if (fault.kind === 'ret' || fault.kind === 'errcode') {
    // Some clients take this for success and ask again at once (protocol notes 7.2, rule 5).
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
      await clock.sleep(fault.delay_ms, signal)
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
      // Half of at most the first MiB: faults are for tests, and a gigabyte need not be read to be cut.
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

/** The body in some twenty pieces over `ms`. */
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
