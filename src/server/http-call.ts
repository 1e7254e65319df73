/**
 * One HTTP request as a call: when it ends, and whether its answer was written.
 *
 * Everything here is made only when a tool asks for it, since most calls (sessions, history) never do.
 */
import { type Call, Delivery } from '../model/call.ts'
import { SvcError } from '../model/error.ts'
import type { Principal } from '../model/principal.ts'
import { flushMsOf, piecesOf, whenWritten } from '../platform/serve.ts'
import { type Linked, linked } from '../platform/signals.ts'
import { longestWait, prefixOf } from './behind-proxy.ts'
import type { EventLinks } from './event-links.ts'

/** Tells all that waits when the service stops. */
export class Waiting {
  readonly #stop = new AbortController()

  /** Aborts then; each call gives its normal answer, a long poll an empty one. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** Why no new call is taken; `undefined` while the service runs. */
  get stopped(): SvcError | undefined {
    return this.signal.reason
  }

  stop(): void {
    this.#stop.abort(new SvcError('shutting_down', 'The service is stopping'))
  }
}

/** What a call knows of the door that it came through. */
export interface HttpDoor {
  readonly by: Principal
  readonly waiting: Waiting
  readonly links?: EventLinks
  /** A call goes on when the service stops: a download has until the server's grace is over. */
  readonly goesOn?: boolean
}

export class HttpCall implements Call {
  readonly by: Principal
  readonly local = false
  readonly delivery = new Delivery()
  readonly request: Request
  readonly #door: HttpDoor
  #linked: Linked | undefined

  constructor(request: Request, door: HttpDoor) {
    this.by = door.by
    this.request = request
    this.#door = door
  }

  get signal(): AbortSignal {
    const { goesOn, waiting } = this.#door
    if (goesOn) return this.request.signal
    this.#linked ??= linked(this.request.signal, waiting.signal)
    return this.#linked.signal
  }

  linkEvents(stream: Readonly<Record<string, string>>): { url: string; expires_at: number } {
    const { links } = this.#door
    if (!links) throw new Error('this door has no links')
    return links.add(stream, prefixOf(this.request) ?? '')
  }

  get longestWait(): number | undefined {
    return longestWait(this.request)
  }

  onDelivered(listener: (delivered: boolean) => void): void {
    this.delivery.onDelivered(listener)
  }

  /** Nothing waits for this call any more. */
  end(): void {
    this.#linked?.[Symbol.dispose]()
  }
}

/** Nobody gets the answer once the caller's connection closes before it is complete. */
function lostWithItsCaller({ request: { signal }, delivery }: HttpCall): void {
  if (signal.aborted) delivery.settle(false)
  else signal.addEventListener('abort', () => delivery.settle(false), { once: true })
}

/** One turn of the event loop: a hang-up that the kernel knows of is heard. */
const turn = () => new Promise(resolve => setImmediate(resolve))

/**
 * The body of an answer that settles its call: `true` when the kernel has taken every byte and the caller was still
 * there, `false` when the caller went away first. What the kernel holds for a caller that dies is beyond anybody's
 * knowledge; such a reader uses `after`.
 *
 * Where the server tells when it has written an answer, the body is the plain bytes, so that the answer has a length and
 * its reader knows the end with the last byte. It counts a moment later: dying before it counts gives the messages
 * twice, the other order loses them.
 */
export async function settlingBody(text: string, call: HttpCall): Promise<BodyInit> {
  await turn()
  const written = whenWritten(call.request)
  if (!written) return streamedBody(new TextEncoder().encode(text), call)
  void written.then(delivered => call.delivery.settle(delivered))
  lostWithItsCaller(call)
  return text
}

/**
 * The same as a stream, whose second pull comes when the server has taken the first chunk (Bun: into the kernel).
 * A stream without read-ahead (highWaterMark 0) is needed for that, and on Deno small pieces.
 */
function streamedBody(bytes: Uint8Array, call: HttpCall): ReadableStream<Uint8Array> {
  const pieces = piecesOf(bytes)
  lostWithItsCaller(call)
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const next = pieces.next()
        if (!next.done) return controller.enqueue(next.value)
        await turn()
        if (call.request.signal.aborted) return call.delivery.settle(false)
        controller.close()
        // Closed is not sent: Bun writes the end, and of an answer that had to wait even the messages, after this
        // callback (strace).
        await new Promise(resolve => setTimeout(resolve, flushMsOf(bytes.length)))
        await turn()
        call.delivery.settle(true)
      },
      cancel: () => call.delivery.settle(false),
    },
    { highWaterMark: 0 },
  )
}
