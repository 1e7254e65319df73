/**
 * Handlers of a program: each is called with one message at a time, in order, independent of the others. One that
 * throws gets its message a few times more, then it goes on with the next; one that hangs holds up nobody but itself.
 */

import { addAbortListener } from 'node:events'
import type { Message } from '../model/message.ts'
import type { FollowedMessages } from '../operations/reading.ts'
import { backoffMs, type Clock, endsWithin } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'

/** Called with each received message; what it returns is awaited. */
export type MessageHandler = (message: Message, context: HandlerContext) => unknown

export interface HandlerContext {
  /** Aborts when svc closes or the handler is unsubscribed: time to come to an end. */
  readonly signal: AbortSignal
}

export interface HandlerOptions {
  /**
   * Name of the reader, whose position is kept in the store: after a restart it goes on where it was. Without it the
   * handler gets what arrives from now on.
   */
  consumer?: string
  /** Only messages of this session. */
  session?: string
}

/** Where handlers read from. */
export interface HandlerPorts {
  /** Opens the messages of a consumer, after a row, or from now on. */
  open(place: HandlerOptions & { after?: number }): Promise<FollowedMessages>
  clock: Clock
  log: Log
}

interface Subscription {
  readonly handler: MessageHandler
  readonly options: HandlerOptions
  readonly stop: AbortController
}

/** A message is given to its handler this often before it is given up. */
const tries = 3
/** A handler that takes longer is mentioned in the log. */
const slowMs = 60_000

export class Handlers {
  readonly #ports: HandlerPorts
  readonly #waiting = new Set<Subscription>()
  readonly #running = new Map<Subscription, Promise<void>>()
  /** Aborts when svc no longer waits for handlers that are still busy. */
  readonly #patience = new AbortController()
  #started = false

  constructor(ports: HandlerPorts) {
    this.#ports = ports
  }

  /** @returns unsubscribes: a call under way ends normally, no other begins */
  add(handler: MessageHandler, options: HandlerOptions): () => void {
    const subscription: Subscription = { handler, options, stop: new AbortController() }
    if (this.#started) this.#run(subscription)
    else this.#waiting.add(subscription)
    return () => {
      this.#waiting.delete(subscription)
      subscription.stop.abort()
    }
  }

  /** Begins to call them; those without a consumer get what comes after that row. */
  start(after?: number): void {
    this.#started = true
    for (const subscription of this.#waiting) this.#run(subscription, after)
    this.#waiting.clear()
  }

  /** Begins no further call, and waits for those under way, at most `graceMs`. */
  async stop(graceMs: number): Promise<void> {
    this.#waiting.clear()
    for (const { stop } of this.#running.keys()) stop.abort()
    const all = Promise.all(this.#running.values())
    await endsWithin(graceMs, all)
    this.#patience.abort()
    await all
  }

  #run(subscription: Subscription, after?: number): void {
    const running = this.#serve(subscription, after)
      .catch(error => this.#ports.log.error('handler no longer called', { error }))
      .finally(() => this.#running.delete(subscription))
    this.#running.set(subscription, running)
  }

  async #serve({ handler, options, stop }: Subscription, after?: number): Promise<void> {
    const { consumer, session } = options
    const opened = await this.#ports.open({ consumer, session, after })
    for await (const message of opened.follow(stop.signal)) {
      // Leaving the loop says that the message is not dealt with: it comes again where a position is kept.
      if (!(await this.#unlessCut(this.#handled(handler, message, stop.signal)))) return
    }
  }

  /** @returns whether the message is dealt with */
  async #handled(handler: MessageHandler, message: Message, signal: AbortSignal): Promise<boolean> {
    const { clock, log } = this.#ports
    for (let failures = 0; ; ) {
      const slow = setTimeout(() => log.warn('a handler takes long', { message: message.id }), slowMs)
      try {
        await handler(failures === 0 ? message : { ...message, redelivered: true }, { signal })
        return true
      } catch (error) {
        failures += 1
        if (failures >= tries) {
          log.error('handler failed again; it goes on with the next message', { error, message: message.id })
          return true
        }
        log.warn('handler failed; it gets the message again', { error, message: message.id })
        if (signal.aborted) return false
        await clock.sleep(backoffMs(failures - 1, 250, 5000), signal)
        if (signal.aborted) return false
      } finally {
        clearTimeout(slow)
      }
    }
  }

  /** What `work` gives, or false when patience ends before. */
  async #unlessCut(work: Promise<boolean>): Promise<boolean> {
    const cut = Promise.withResolvers<boolean>()
    using _listening = addAbortListener(this.#patience.signal, () => cut.resolve(false))
    return await Promise.race([work, cut.promise])
  }
}
