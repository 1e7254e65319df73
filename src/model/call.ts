/** What a door knows about one call, handed down with the arguments. */

import type { Message } from './message.ts'
import { owner, type Principal } from './principal.ts'
import type { ServiceFacts } from './service.ts'

/** Who was asked closed the question without an answer, or nobody could be asked. */
export type Unanswered = 'cancelled' | 'nobody'

export interface Call {
  /** Who makes it. */
  readonly by: Principal
  /** Aborts when the caller is gone or the service stops; waits end, work on the network is cancelled. */
  readonly signal: AbortSignal
  /**
   * Which files the caller may name: false, a remote one, those in the media root; folders (real paths), a program that the
   * user runs here, also those in them; true, the user (command line, library), any. Never svc's own.
   */
  readonly local: boolean | readonly string[]
  /**
   * Registers what happens once the door knows whether its answer was written (`true`) or the caller was gone
   * (`false`). A door that cannot tell says `false`: better delivered twice than lost.
   */
  onDelivered(listener: (delivered: boolean) => void): void
  /**
   * Begins an answer of messages at a door where not any number fits: tells of one after the other whether it still goes
   * in. The first one always does; what does not stays where it is, for the next call.
   */
  room?(): (message: Message) => boolean
  /** The most seconds that this call may wait by itself: a proxy on the way gives up on one that is silent for longer. */
  readonly longestWait?: number | undefined
  /** The service that the door is part of. Absent where the door shows it to nobody. */
  readonly service?: ServiceFacts
  /** Why nobody answered whether a message may go out: it waits until a person says yes. */
  readonly unanswered?: Unanswered
  /** Makes a link that opens one stream of events without a token: its address, and until when it works (Unix ms). */
  linkEvents?(stream: Readonly<Record<string, string>>): { url: string; expires_at: number }
  /** Tells the caller how far the work is. Absent where the door cannot pass it on. */
  progress?(step: Progress): void
  /**
   * Asks the person behind the caller and waits for the answer. Absent where the door cannot talk back.
   *
   * @returns what was typed; undefined when the person declined or went away
   */
  ask?(question: Question): Promise<string | undefined>
  /**
   * What the person said to the question of this field when this same call was made before. Some doors cannot wait for
   * a person: there `ask` ends the call, and it is made again with the answer.
   */
  answered?(field: string): string | undefined
}

/** The wait that a caller asked for, or as much of it as the way to the caller allows. */
export const waitOf = ({ longestWait }: Pick<Call, 'longestWait'>, seconds: number): number =>
  Math.min(seconds, longestWait ?? seconds)

/** How far a long piece of work is. */
export interface Progress {
  /** What is done: `upload cat.png`, `download`. */
  readonly what: string
  /** Bytes. */
  readonly done: number
  /** Bytes, where the end is known. */
  readonly total?: number
}

/** One question to a person. */
export interface Question {
  /** Says what to type and where to find it. */
  readonly text: string
  /** Name of the answer: `verify_code`. */
  readonly field: string
}

/** Whether an answer reached its caller, and who waits to hear of it. */
export class Delivery {
  readonly #listeners: ((delivered: boolean) => void)[] = []
  readonly #settled: () => void
  #delivered: boolean | undefined

  constructor(settled: () => void = () => {}) {
    this.#settled = settled
  }

  /** Whether somebody waits to hear of it. */
  get awaited(): boolean {
    return this.#listeners.length > 0
  }

  onDelivered(listener: (delivered: boolean) => void): void {
    if (this.#delivered === undefined) this.#listeners.push(listener)
    else listener(this.#delivered)
  }

  /** Tells those who wait, once; later calls change nothing. */
  settle(delivered: boolean): void {
    if (this.#delivered !== undefined) return
    this.#delivered = delivered
    for (const listener of this.#listeners.splice(0)) listener(delivered)
    this.#settled()
  }
}

/** A call whose answer is handed over by returning it: the library, tests. `done` settles it. */
export function directCall(options: Partial<Pick<Call, 'by' | 'signal' | 'local'>> = {}): Call & {
  done(delivered: boolean): void
} {
  const delivery = new Delivery()
  return {
    by: options.by ?? owner,
    signal: options.signal ?? new AbortController().signal,
    local: options.local ?? true,
    onDelivered: listener => delivery.onDelivered(listener),
    done: delivered => delivery.settle(delivered),
  }
}
