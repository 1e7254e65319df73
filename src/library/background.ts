/** What a program does beside its calls: it receives, runs handlers and iterates, until it closes svc. */
import { addAbortListener } from 'node:events'
import { owner } from '../model/principal.ts'
import { beginReading, followMessages } from '../operations/reading.ts'
import { type Clock, endsWithin, systemClock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import { onStopSignals } from '../platform/process.ts'
import { linkSignals } from '../platform/signals.ts'
import type { Tasks } from '../platform/tasks.ts'
import { type Calls, closedError } from './calls.ts'
import { type HandlerPorts, MessageHandlers } from './handlers.ts'
import { type RecvInput, verbs } from './verbs.ts'

/** How long `close()` waits for handlers and loops that still process a message, in milliseconds. */
const defaultGraceMs = 2000

/** Clock and grace period of a program, which only tests set, and where `svc agent` hears of tasks that fail. */
export interface Timing {
  readonly clock?: Clock
  /** Same as in `GatewayOptions`. */
  readonly wallClock?: Clock
  readonly tasks?: Tasks
  readonly graceMs?: number
}

/** What is started and closed with it. */
interface Receiving {
  start(): Promise<void>
  close(): Promise<void>
}

export class Background {
  readonly handlers: MessageHandlers
  readonly #receiving: Receiving
  readonly #calls: Calls
  readonly #log: Log
  readonly #graceMs: number
  /** Running iterations with a `consumer`. Each promise resolves when its iteration has ended. */
  readonly #iterations = new Set<Promise<void>>()
  #started: Promise<void> | undefined
  /** Row after which messages are dispatched. */
  #from: number | undefined
  #closing: Promise<void> | undefined

  constructor(
    receiving: Receiving,
    calls: Calls,
    log: Log,
    { clock = systemClock, graceMs = defaultGraceMs }: Timing,
  ) {
    this.#receiving = receiving
    this.#calls = calls
    this.#log = log
    this.#graceMs = graceMs
    const open: HandlerPorts['open'] = start => calls.run(owner, followMessages, start)
    this.handlers = new MessageHandlers({ open, clock, log: log.child('handlers') })
  }

  /** Same as `Svc.runBackground`. */
  async start(): Promise<void> {
    this.#calls.rejectIfEnded()
    this.#started ??= this.#start()
    try {
      await this.#started
    } catch (error) {
      this.#started = undefined
      throw error
    }
  }

  /** Lets the usual consumer, if it is new, start with the messages that are dispatched. */
  async beginInbox({ consumer = 'default', after }: RecvInput): Promise<void> {
    if (this.#from === undefined || consumer !== 'default' || after !== undefined) return
    await this.#calls.run(owner, beginReading, { consumer, after: this.#from })
  }

  /** Same as `Svc.runForever`. */
  async runForever(): Promise<void> {
    const forget = onStopSignals(signal => {
      this.#log.info('stopping', { signal })
      void this.close()
    })
    try {
      await this.start()
      await new Promise<void>(resolve => addAbortListener(this.#calls.stop.signal, () => resolve()))
      await this.close()
    } finally {
      forget()
    }
  }

  /** Starts, and yields what `follow` yields, until `signal` aborts or svc closes. */
  async *read<T>(
    follow: (signal: AbortSignal) => AsyncGenerator<T, void, void>,
    signal = this.#calls.stop.signal,
  ): AsyncGenerator<T, void, void> {
    await this.start()
    using ended = linkSignals(signal, this.#calls.stop.signal)
    yield* follow(ended.signal)
  }

  /** Same as `read`, and `close` waits until the program has left the loop. */
  async *readToEnd<T>(
    follow: (signal: AbortSignal) => AsyncGenerator<T, void, void>,
    signal?: AbortSignal,
  ): AsyncGenerator<T, void, void> {
    const iteration = Promise.withResolvers<void>()
    this.#iterations.add(iteration.promise)
    try {
      yield* this.read(follow, signal)
    } finally {
      iteration.resolve()
      this.#iterations.delete(iteration.promise)
    }
  }

  /** Same as `Svc.close`. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #start(): Promise<void> {
    // The position is read before polling starts, so handlers get every message that polling brings.
    const { from } = await this.#calls.run(owner, followMessages, {})
    await this.#receiving.start()
    this.#from = from
    // Without a session no message can arrive; the log says so.
    if ((await this.#calls.run(owner, verbs.sessions, {})).length === 0)
      this.#log.warn('no session yet: log in with svc.login()')
    if (!this.#calls.stop.signal.aborted) this.handlers.start(from)
  }

  async #close(): Promise<void> {
    this.#calls.stop.abort(closedError())
    await Promise.all([
      this.handlers.stop(this.#graceMs),
      endsWithin(this.#graceMs, Promise.all(this.#iterations)),
      this.#started?.catch(() => undefined),
    ])
    this.#calls.isEnded = true
    await this.#receiving.close()
  }
}
