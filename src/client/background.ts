/** What a program does beside its calls: it receives, runs handlers and iterates, until it closes svc. */
import { badArgument, SvcError } from '../model/error.ts'
import { type Clock, endsWithin, systemClock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import { linkSignals, waitForAbort } from '../platform/signals.ts'
import { type HandlerOptions, type HandlerPorts, type MessageHandler, MessageHandlers } from './handlers.ts'

/** How long `close()` waits for handlers and loops that still process a message, in milliseconds. */
const defaultGraceMs = 2000

/** Whether svc is open. */
export class Life {
  readonly #stop = new AbortController()
  #isOver = false

  /** Aborts when svc begins to close. Calls are still possible, for handlers and loops that come to their end. */
  get stop(): AbortSignal {
    return this.#stop.signal
  }

  beginEnd(): void {
    this.#stop.abort(closedError())
  }

  end(): void {
    this.#isOver = true
  }

  /** @throws SvcError `shutting_down` after the end */
  rejectIfEnded(): void {
    if (this.#isOver) throw closedError()
  }
}

const closedError = () => new SvcError('shutting_down', 'svc is closed')

export interface BackgroundPorts {
  /** Starts to receive. @returns the row after which handlers without a consumer get the messages */
  start(): Promise<number | undefined>
  /** Opens the messages of a handler. */
  open: HandlerPorts['open']
  close(): Promise<void>
  /** @throws SvcError `invalid_arguments` for wrong options of a handler */
  checkHandler(options: HandlerOptions): void
  /** Calls `stop` at the signals that end a program. @returns a function that removes the listeners */
  onStopSignals(stop: (signal: string) => void): () => void
  life: Life
  log: Log
  clock?: Clock | undefined
  graceMs?: number | undefined
}

export class Background {
  readonly #handlers: MessageHandlers
  readonly #ports: BackgroundPorts
  readonly #graceMs: number
  /** Running iterations with a `consumer`. Each promise resolves when its iteration has ended. */
  readonly #iterations = new Set<Promise<void>>()
  #started: Promise<void> | undefined
  #from: number | undefined
  #closing: Promise<void> | undefined

  constructor(ports: BackgroundPorts) {
    const { clock = systemClock, graceMs = defaultGraceMs, log, open } = ports
    this.#ports = ports
    this.#graceMs = graceMs
    this.#handlers = new MessageHandlers({ open, clock, log: log.child('handlers') })
  }

  /** The row after which messages are dispatched. Undefined before the start. */
  get from(): number | undefined {
    return this.#from
  }

  /** Same as `SvcApi.onMessage`. */
  addHandler(handler: MessageHandler, options: HandlerOptions): () => void {
    const { checkHandler, life } = this.#ports
    life.rejectIfEnded()
    if (typeof handler !== 'function') throw badArgument('handler', 'expected a function')
    checkHandler(options)
    return this.#handlers.add(handler, options)
  }

  /** Same as `SvcApi.runBackground`. */
  async start(): Promise<void> {
    this.#ports.life.rejectIfEnded()
    this.#started ??= this.#start()
    try {
      await this.#started
    } catch (error) {
      this.#started = undefined
      throw error
    }
  }

  /** Same as `SvcApi.runForever`. */
  async runForever(): Promise<void> {
    const { life, log, onStopSignals } = this.#ports
    const forget = onStopSignals(signal => {
      log.info('stopping', { signal })
      void this.close()
    })
    try {
      await this.start()
      await waitForAbort(life.stop)
      await this.close()
    } finally {
      forget()
    }
  }

  /** Starts, and yields what `follow` yields, until `signal` aborts or svc closes. */
  async *read<T>(
    follow: (signal: AbortSignal) => AsyncGenerator<T, void, void>,
    signal?: AbortSignal,
  ): AsyncGenerator<T, void, void> {
    const { life } = this.#ports
    life.rejectIfEnded()
    await this.start().catch(error => {
      // Closing it while it starts ends the iteration.
      if (!life.stop.aborted) throw error
    })
    const ended = linkSignals(signal, life.stop)
    try {
      yield* follow(ended.signal)
    } finally {
      ended[Symbol.dispose]()
    }
  }

  /** Same as `read`, and `close` waits until the program has left the loop. */
  async *readToEnd<T>(
    follow: (signal: AbortSignal) => AsyncGenerator<T, void, void>,
    signal?: AbortSignal,
  ): AsyncGenerator<T, void, void> {
    let end = () => {}
    const iteration = new Promise<void>(resolve => {
      end = resolve
    })
    this.#iterations.add(iteration)
    try {
      yield* this.read(follow, signal)
    } finally {
      end()
      this.#iterations.delete(iteration)
    }
  }

  /** Same as `SvcApi.close`. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #start(): Promise<void> {
    const { life, start } = this.#ports
    this.#from = await start()
    if (!life.stop.aborted) this.#handlers.start(this.#from)
  }

  async #close(): Promise<void> {
    const { close, life } = this.#ports
    life.beginEnd()
    await Promise.all([
      this.#handlers.stop(this.#graceMs),
      endsWithin(this.#graceMs, Promise.all(this.#iterations)),
      this.#started?.catch(() => undefined),
    ])
    life.end()
    await close()
  }
}
