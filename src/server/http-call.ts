/**
 * One HTTP request as a call: when it ends, and whether its answer was written.
 *
 * Everything here is made only when a tool asks for it, since most calls (sessions, history) never do.
 */
import type { Call } from '../gateway/call.ts'
import { SvcError } from '../model/error.ts'
import { piecesOf } from '../platform/serve.ts'

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
  readonly #request: Request
  readonly #waiting: Waiting
  #controller: AbortController | undefined
  #gone: (() => void) | undefined
  #settlers: ((delivered: boolean) => void)[] | undefined

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

  settle(onSettled: (delivered: boolean) => void): void {
    this.#settlers ??= []
    this.#settlers.push(onSettled)
  }

  /** Whether somebody waits to hear if the answer was written. */
  get mustSettle(): boolean {
    return this.#settlers !== undefined
  }

  /** The caller's connection is known to be closed. */
  get callerGone(): boolean {
    return this.#request.signal.aborted
  }

  /** Tells those who asked, once; later calls change nothing. */
  settled(delivered: boolean): void {
    const settlers = this.#settlers
    this.#settlers = undefined
    for (const onSettled of settlers ?? []) onSettled(delivered)
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

/** What is handed to the runtime is in the kernel after this; it takes a turn of its event loop. */
const flushMs = 2

/**
 * A body that settles its call: `true` when the server took every byte to the socket and the caller was still there,
 * `false` when the caller went away first.
 *
 * Seen on Bun 1.4.5 over real sockets: the second pull comes when the first chunk has drained into the kernel (60 MB to
 * a slow reader: at its end; to one that never reads: not at all, but `cancel` and the request's abort signal when it
 * goes). A stream without read-ahead (highWaterMark 0) is needed for that, and on Deno small pieces. What the kernel
 * holds for a caller that dies is beyond anybody's knowledge; such a reader uses `after`.
 */
export function settlingBody(bytes: Uint8Array, call: HttpCall): ReadableStream<Uint8Array> {
  const pieces = piecesOf(bytes)
  call.whenGone(() => call.settled(false))
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const next = pieces.next()
        if (!next.done) return controller.enqueue(next.value)
        // One turn of the event loop, so that a hang-up that the kernel knows of is heard before it counts.
        await new Promise(resolve => setImmediate(resolve))
        if (call.callerGone) return call.settled(false)
        controller.close()
        // Closed is not sent: Bun writes the end, and of an answer that had to wait even the messages, after this
        // callback (strace). Dying before it counts gives the messages twice, the other order loses them.
        await new Promise(resolve => setTimeout(resolve, flushMs))
        await new Promise(resolve => setImmediate(resolve))
        call.settled(true)
      },
      cancel: () => call.settled(false),
    },
    { highWaterMark: 0 },
  )
}
