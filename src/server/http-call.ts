/**
 * One HTTP request as a call: when it ends, and whether its answer was written.
 *
 * Everything here is made only when a tool asks for it, since most calls (sessions, history) never do.
 */
import { type Call, Delivery } from '../model/call.ts'
import { SvcError } from '../model/error.ts'
import { flushMsOf, piecesOf, whenWritten } from '../platform/serve.ts'

/** The calls that wait right now, so that stopping can end them. */
export class Waiting {
  readonly #controllers = new Set<AbortController>()
  #reason: SvcError | undefined

  /** Why no new call is taken; `undefined` while the service runs. */
  get stopped(): SvcError | undefined {
    return this.#reason
  }

  add(controller: AbortController): void {
    if (this.#reason) controller.abort(this.#reason)
    else this.#controllers.add(controller)
  }

  remove(controller: AbortController): void {
    this.#controllers.delete(controller)
  }

  /** Ends every wait; each call then gives its normal answer, a long poll an empty one. */
  stop(): void {
    if (this.#reason) return
    this.#reason = new SvcError('shutting_down', 'The service is stopping')
    for (const controller of this.#controllers) controller.abort(this.#reason)
    this.#controllers.clear()
  }
}

export class HttpCall implements Call {
  readonly local = false
  readonly delivery = new Delivery()
  readonly #request: Request
  readonly #waiting: Waiting
  #controller: AbortController | undefined
  #gone: (() => void) | undefined

  constructor(request: Request, waiting: Waiting) {
    this.#request = request
    this.#waiting = waiting
  }

  get signal(): AbortSignal {
    if (this.#controller) return this.#controller.signal
    const controller = new AbortController()
    this.#controller = controller
    this.#gone = () => controller.abort(this.#request.signal.reason)
    if (this.#request.signal.aborted) this.#gone()
    else this.#request.signal.addEventListener('abort', this.#gone, { once: true })
    this.#waiting.add(controller)
    return controller.signal
  }

  onDelivered(listener: (delivered: boolean) => void): void {
    this.delivery.onDelivered(listener)
  }

  /** The caller's connection is known to be closed. */
  get callerGone(): boolean {
    return this.#request.signal.aborted
  }

  /** What becomes of the answer that is about to be given, see `whenWritten` of the platform. */
  whenWritten(): Promise<boolean> | undefined {
    return whenWritten(this.#request)
  }

  /** Nothing waits for this call any more. */
  end(): void {
    if (!this.#controller) return
    this.#waiting.remove(this.#controller)
    if (this.#gone) this.#request.signal.removeEventListener('abort', this.#gone)
  }

  /** Calls `onGone` when the caller's connection closes before the answer is complete. */
  whenGone(onGone: () => void): void {
    if (this.#request.signal.aborted) onGone()
    else this.#request.signal.addEventListener('abort', onGone, { once: true })
  }
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
  const written = call.whenWritten()
  if (!written) return streamedBody(new TextEncoder().encode(text), call)
  void written.then(delivered => call.delivery.settle(delivered))
  call.whenGone(() => call.delivery.settle(false))
  return text
}

/**
 * The same as a stream, whose second pull comes when the server has taken the first chunk (Bun: into the kernel).
 * A stream without read-ahead (highWaterMark 0) is needed for that, and on Deno small pieces.
 */
function streamedBody(bytes: Uint8Array, call: HttpCall): ReadableStream<Uint8Array> {
  const pieces = piecesOf(bytes)
  call.whenGone(() => call.delivery.settle(false))
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const next = pieces.next()
        if (!next.done) return controller.enqueue(next.value)
        await turn()
        if (call.callerGone) return call.delivery.settle(false)
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
