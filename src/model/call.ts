/** What a door knows about one call, passed on together with the arguments. */

import type { Message } from './message.ts'
import { owner, type Principal } from './principal.ts'
import type { ServiceFacts } from './service.ts'

/** Why a question to a person got no answer: the person closed it, or there was nobody to ask. */
export type Unanswered = 'cancelled' | 'nobody'

export interface Call {
  /** Who calls. */
  readonly by: Principal
  /**
   * The network address of the caller, if the door knows it. For a program on this machine its door and the user of the
   * system, as `cli:alice`.
   */
  readonly address?: string | undefined
  /** Identifies the request in the log, at a door for HTTP. */
  readonly requestId?: string | undefined
  /**
   * Aborts when the caller has left or the service stops. Then waits end and network requests are cancelled.
   */
  readonly signal: AbortSignal
  /**
   * Which files the caller may name. false (a remote caller): files in the media root. A list of folders
   * (real paths; for a program that the user runs on this machine): also files in these folders. true (the
   * user: command line, library): all files. Files of svc itself are never allowed.
   */
  readonly local: boolean | readonly string[]
  /** The caller names files in this folder only. Another program writes there, so no link in it is followed. */
  readonly below?: string | undefined
  /**
   * Registers a listener for whether the response was delivered (`true`) or the caller had left (`false`). What
   * delivered means depends on the door: over REST the response was written, over MCP its client has shown a
   * sign of life since. A door that cannot know passes `false`: a message delivered twice is better than a lost
   * one.
   *
   * @param written called before it, if the response was written and a sign of life is awaited
   */
  onDelivered(listener: (delivered: boolean) => void, written?: () => void): void
  /**
   * Starts a response with messages at a door that limits its size. The returned function reports for each
   * message in order whether it still fits. The first message always fits. A message that does not fit stays
   * unread for the next call.
   */
  startFitCheck?(): (message: Message) => boolean
  /**
   * The most seconds that this call may wait: a proxy between caller and svc closes a call that is silent for
   * longer.
   */
  readonly longestWait?: number | undefined
  /**
   * Counts the call as one that waits, until it ends. Absent where waiting calls are not limited.
   *
   * @throws SvcError `rate_limited` if too many calls with the caller's key wait
   */
  beginWait?(): void
  /**
   * Counts bytes of media that svc fetches for the call. Absent where they are not limited.
   *
   * @throws SvcError `rate_limited` if the caller's key has used its bytes
   */
  countBytes?(count: number): void
  /**
   * True where recv reads on from the consumer's position even if another process polls. Without it, a command or
   * a program sees the messages of the last minute there.
   */
  readonly onward?: boolean | undefined
  /** The service of this door. Absent at a door that shows it to nobody. */
  readonly service?: ServiceFacts
  /** Why nobody answered whether a message may go out. The message then waits for a person's approval. */
  readonly unanswered?: Unanswered
  /**
   * Makes a link that opens one event stream without a token. Returns its URL and when it expires (Unix ms).
   */
  linkEvents?(stream: Readonly<Record<string, string>>): Promise<{ url: string; expires_at: number }>
  /** Reports the progress of the work to the caller. Absent where the door cannot pass it on. */
  progress?(step: Progress): void
  /**
   * Asks the person behind the caller and waits for the answer. Absent where the door cannot ask.
   *
   * @returns what the person typed; undefined when the person declined or left
   */
  ask?(question: Question): Promise<string | undefined>
  /**
   * Returns the person's earlier answer to the question of this field. Some doors cannot wait for a person:
   * there `ask` ends the call, and the client makes the same call again with the answer.
   */
  findAnswer?(field: string): string | undefined
}

/**
 * Begins the wait that a caller requested, limited to what the connection to the caller allows.
 *
 * @returns the wait
 * @throws SvcError `rate_limited` if too many calls with the caller's key wait
 */
export function waitOf(call: Pick<Call, 'longestWait' | 'beginWait'>, seconds: number): number {
  if (seconds > 0) call.beginWait?.()
  return Math.min(seconds, call.longestWait ?? seconds)
}

/** Returns a function that counts bytes for a call. It gets their number so far. */
export function createByteCount(call: Pick<Call, 'countBytes'>): (total: number) => void {
  let counted = 0
  return total => {
    call.countBytes?.(total - counted)
    counted = total
  }
}

/** The progress of a long operation. */
export interface Progress {
  /** The operation: `upload cat.png`, `download`. */
  readonly what: string
  /** Bytes. */
  readonly done: number
  /** Bytes, where the end is known. */
  readonly total?: number
}

/** One question to a person. */
export interface Question {
  /** What to type, and where to find it. */
  readonly text: string
  /** Name of the answer: `verify_code`. */
  readonly field: string
}

/** Whether a response reached its caller, and the listeners for that. */
export class Delivery {
  readonly #listeners: ((delivered: boolean) => void)[] = []
  readonly #writtenListeners: (() => void)[] = []
  readonly #onReported: () => void
  #delivered: boolean | undefined

  constructor(settled: () => void = () => {}) {
    this.#onReported = settled
  }

  /** Whether there are listeners. */
  get isAwaited(): boolean {
    return this.#listeners.length > 0
  }

  onDelivered(listener: (delivered: boolean) => void, written?: () => void): void {
    if (this.#delivered === undefined) {
      this.#listeners.push(listener)
      if (written) this.#writtenListeners.push(written)
    } else listener(this.#delivered)
  }

  /** Notifies the listeners, once, that the response was written and a sign of life is awaited. */
  reportWritten(): void {
    for (const listener of this.#writtenListeners.splice(0)) listener()
  }

  /** Notifies the listeners, once. Later calls do nothing. */
  report(delivered: boolean): void {
    if (this.#delivered !== undefined) return
    this.#delivered = delivered
    for (const listener of this.#listeners.splice(0)) listener(delivered)
    this.#onReported()
  }
}

/**
 * Makes a call whose response is delivered by returning it: for the library and tests. `done` reports the
 * delivery.
 */
export function createDirectCall(
  options: Partial<Pick<Call, 'by' | 'address' | 'signal' | 'local' | 'below'>> = {},
): Call & {
  done(delivered: boolean): void
} {
  const delivery = new Delivery()
  return {
    by: options.by ?? owner,
    address: options.address,
    signal: options.signal ?? new AbortController().signal,
    local: options.local ?? true,
    below: options.below,
    onDelivered: (listener, written) => delivery.onDelivered(listener, written),
    done: delivered => delivery.report(delivered),
  }
}
