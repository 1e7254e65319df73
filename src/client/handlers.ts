/**
 * Message handlers of a program. Each handler gets one message at a time, in order, independently of the
 * others. A handler that throws gets the message again, up to three times in all, and then the next one. A
 * handler that hangs delays no other handler.
 */
import type { Message } from '../model/message.ts'
import type { FollowedMessages } from '../operations/reading.ts'
import { backoffMs, type Clock, endsWithin } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import { RoomPart } from '../platform/runtime.ts'

/** Called with each received message. A returned promise is awaited. */
export type MessageHandler = (message: Message, context: HandlerContext) => unknown

export interface HandlerContext {
  /** Aborts when svc closes or the handler is unsubscribed. The handler should then return soon. */
  readonly signal: AbortSignal
}

export interface HandlerOptions {
  /**
   * Name of the reader. The store keeps the reader's position, so after a restart it continues there. Without
   * it the reader gets the messages that arrive from now on.
   */
  consumer?: string
  /** Only messages of this session. */
  session?: string
}

/** Dependencies of `MessageHandlers`. */
export interface HandlerPorts {
  /** Opens the messages of a consumer, the messages after a row, or those from now on. */
  open(start: HandlerOptions & { after?: number }): Promise<FollowedMessages>
  clock: Clock
  log: Log
}

interface Subscription {
  readonly handler: MessageHandler
  readonly options: HandlerOptions
  readonly stop: AbortController
}

/** How often a handler gets a message before svc goes on with the next. */
const maxAttempts = 3
/** The log mentions a handler call that takes longer, in milliseconds. */
const slowHandlerMs = 60_000

export class MessageHandlers extends RoomPart<HandlerPorts> {
  readonly #waiting = new Set<Subscription>()
  readonly #running = new Map<Subscription, Promise<void>>()
  /** Aborts when the grace period is over: svc then stops waiting for busy handlers. */
  readonly #timeout = new AbortController()
  #started = false

  /**
   * @returns a function that unsubscribes the handler; a running call ends normally, and no further call
   *   starts
   */
  add(handler: MessageHandler, options: HandlerOptions): () => void {
    const subscription: Subscription = { handler, options, stop: new AbortController() }
    if (this.#started) this.#startHandler(subscription)
    else this.#waiting.add(subscription)
    return () => {
      this.#waiting.delete(subscription)
      subscription.stop.abort()
    }
  }

  /**
   * Starts to call the handlers.
   *
   * @param after row id: handlers without a `consumer` get the messages after it; default: those from now on
   */
  start(after?: number): void {
    this.#started = true
    for (const subscription of this.#waiting) this.#startHandler(subscription, after)
    this.#waiting.clear()
  }

  /** Starts no further call, and waits at most `graceMs` for the running ones. */
  async stop(graceMs: number): Promise<void> {
    this.#waiting.clear()
    for (const { stop } of this.#running.keys()) stop.abort()
    const all = Promise.all(this.#running.values())
    await endsWithin(graceMs, all)
    this.#timeout.abort()
    await all
  }

  #startHandler(subscription: Subscription, after?: number): void {
    const running = this.#runHandler(subscription, after)
      .catch(error => this.ports.log.error('handler no longer called', { error }))
      .finally(() => this.#running.delete(subscription))
    this.#running.set(subscription, running)
  }

  async #runHandler({ handler, options, stop }: Subscription, after?: number): Promise<void> {
    const { consumer, session } = options
    const opened = await this.ports.open({ consumer, session, after })
    for await (const message of opened.follow(stop.signal)) {
      // Leaving the loop does not acknowledge the message: with a consumer it comes again.
      if (!(await this.#untilTimeout(this.#callHandler(handler, message, stop.signal)))) return
    }
  }

  /**
   * Calls the handler until it succeeds or `tries` is reached.
   *
   * @returns whether the message is acknowledged
   */
  async #callHandler(handler: MessageHandler, message: Message, signal: AbortSignal): Promise<boolean> {
    const { clock, log } = this.ports
    for (let failures = 0; ; ) {
      const slow = setTimeout(() => log.warn('a handler takes long', { message: message.id }), slowHandlerMs)
      try {
        await handler(failures === 0 ? message : { ...message, redelivered: true }, { signal })
        return true
      } catch (error) {
        failures += 1
        if (failures >= maxAttempts) {
          log.error('handler failed again; continuing with the next message', { error, message: message.id })
          return true
        }
        log.warn('handler failed; trying the message again', { error, message: message.id })
        if (signal.aborted) return false
        await clock.sleep(backoffMs(failures - 1, 250, 5000), signal)
        if (signal.aborted) return false
      } finally {
        clearTimeout(slow)
      }
    }
  }

  /** Returns the result of `work`, or false if the grace period ends first. */
  #untilTimeout(work: Promise<boolean>): Promise<boolean> {
    const { signal } = this.#timeout
    if (signal.aborted) return Promise.resolve(false)
    return new Promise((resolve, reject) => {
      const late = () => resolve(false)
      signal.addEventListener('abort', late)
      work.then(resolve, reject).finally(() => signal.removeEventListener('abort', late))
    })
  }
}
