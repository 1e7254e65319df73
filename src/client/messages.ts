/**
 * Messages over HTTP. With a consumer each message is held under a lease, which the service keeps: what a program did not
 * finish comes again. Without one the program keeps the position itself.
 */
import type { Message } from '../model/message.ts'
import type { Log } from '../platform/log.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { OpenMessage } from '../receive/inbox.ts'
import type { HandlerOptions } from './handlers.ts'
import type { CallPlan, Http } from './http.ts'
import { routes } from './routes.ts'

/** A proxy may end a call that waits for longer. */
const waitsS = 45
/** A lease ends 45 s after it was renewed. */
const renewEveryMs = 15_000
/** Leases in one call. */
const mostLeases = 100
/** How long the program's end waits for the leases that it gives back, in milliseconds. */
const giveBackMs = 1500

const { leaseMessages, recv, renewLeases, settleLeases } = routes.calls

interface LeasedMessage {
  readonly lease: number
  readonly message: Message
}

/** A message that this program holds. */
interface Held extends LeasedMessage {
  readonly consumer: string
}

export class Messages extends RoomPart<{ http: Http; log: Log }> {
  readonly #held = new Set<Held>()
  /** Aborts when the leases are given back: nobody waits for a message any more. */
  readonly #ended = new AbortController()
  #renewing: ReturnType<typeof setInterval> | undefined

  /** Returns the row id of the newest message. */
  async findEnd(signal?: AbortSignal): Promise<number> {
    return (await this.#readAfter('end', { timeout: 0 }, { signal })).after
  }

  /** Yields the messages of a consumer, those after a row, or those from now on. */
  async *follow(
    { consumer, session, after }: HandlerOptions & { after?: number | undefined },
    signal: AbortSignal,
  ): AsyncGenerator<Message, void, void> {
    if (consumer !== undefined) return yield* this.#followConsumer(consumer, session, signal)
    const from = after ?? (await untilAborted(signal, this.findEnd(signal)))
    if (from !== undefined) yield* this.#followLog(from, session, signal)
  }

  /** Yields the messages of a consumer, each of which stays open until it is settled. */
  async *openEach(
    consumer: string,
    session: string | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<OpenMessage, void, void> {
    while (!signal.aborted) {
      const held = await this.#take(consumer, session, signal)
      if (held) yield { message: held.message, settle: read => this.#settle(held, read) }
    }
  }

  /** Gives back what is held, so that it comes again at once. */
  async end(): Promise<void> {
    this.#ended.abort()
    const all = [...this.#held]
    this.#drop(all)
    await this.#giveBack(all)
  }

  async *#followConsumer(
    consumer: string,
    session: string | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<Message, void, void> {
    for await (const { message, settle } of this.openEach(consumer, session, signal)) {
      let isRead = false
      try {
        yield message
        isRead = true
      } finally {
        await settle(isRead)
      }
    }
  }

  async *#followLog(
    from: number,
    session: string | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<Message, void, void> {
    const plan = { isEndless: true, waitsS, signal }
    for (let at = from; ; ) {
      const read = await untilAborted(signal, this.#readAfter(at, { session, timeout: waitsS }, plan))
      for (const message of read?.messages ?? []) {
        if (signal.aborted) return
        yield message
      }
      if (!read || signal.aborted) return
      at = read.after
    }
  }

  async #readAfter(after: number | 'end', input: object, plan: CallPlan) {
    const repeated = { ...plan, isRepeatable: true }
    const { headers, value } = await this.ports.http.answer<Message[]>(recv, { ...input, after }, repeated)
    return { after: Number(headers.get('svc-position') ?? Number.NaN), messages: value }
  }

  /** Waits for a message. Returns undefined if none came in time, or the signal aborted. */
  async #take(consumer: string, session: string | undefined, signal: AbortSignal): Promise<Held | undefined> {
    // A lease whose answer is lost ends by itself.
    const plan = { isEndless: true, isRepeatable: true, waitsS, signal }
    const input = { consumer, session, timeout: waitsS }
    const [leased] =
      (await untilAborted(signal, this.ports.http.json<LeasedMessage[]>(leaseMessages, input, plan))) ?? []
    if (!leased) return undefined
    const held = { ...leased, consumer }
    this.#held.add(held)
    this.#renewing ??= setInterval(() => this.#renewAll(), renewEveryMs)
    return held
  }

  /** Ends a lease. read: repeated until the service answers, as it ends a lease once. */
  async #settle(held: Held, read: boolean): Promise<void> {
    if (!this.#held.has(held)) return
    this.#drop([held])
    if (!read) return this.#giveBack([held])
    const { consumer, lease } = held
    const { signal } = this.#ended
    const plan = { isEndless: true, isRepeatable: true, signal }
    await untilAborted(signal, this.ports.http.json(settleLeases, { consumer, leases: [lease], read }, plan))
  }

  #drop(all: readonly Held[]): void {
    for (const held of all) this.#held.delete(held)
    if (this.#held.size > 0) return
    clearInterval(this.#renewing)
    this.#renewing = undefined
  }

  async #giveBack(all: readonly Held[]): Promise<void> {
    const plan = { isRepeatable: true, signal: AbortSignal.timeout(giveBackMs) }
    await Promise.all(
      groupsOf(all).map(({ consumer, leases }) =>
        this.ports.http
          .json(settleLeases, { consumer, leases, read: false }, plan)
          .catch(error =>
            this.ports.log.warn('messages not given back; they come again', { consumer, error }),
          ),
      ),
    )
  }

  #renewAll(): void {
    for (const group of groupsOf([...this.#held]))
      this.#renew(group).catch(error =>
        this.ports.log.warn('leases not renewed', { consumer: group.consumer, error }),
      )
  }

  async #renew({ all, consumer, leases }: HeldGroup): Promise<void> {
    const plan = { isRepeatable: true, signal: AbortSignal.timeout(renewEveryMs) }
    const renewed = await this.ports.http.json<{ leases: number[] }>(renewLeases, { consumer, leases }, plan)
    // Those that were settled meanwhile are over, too.
    const lost = all.filter(held => this.#held.has(held) && !renewed.leases.includes(held.lease))
    this.#drop(lost)
    for (const { message } of lost)
      this.ports.log.warn('a message was held for too long, and comes again', {
        consumer,
        message: message.id,
      })
  }
}

interface HeldGroup {
  readonly consumer: string
  readonly all: readonly Held[]
  readonly leases: readonly number[]
}

/** Returns the leases that one call can name. */
function groupsOf(all: readonly Held[]): HeldGroup[] {
  const groups: HeldGroup[] = []
  for (const consumer of new Set(all.map(held => held.consumer))) {
    const own = all.filter(held => held.consumer === consumer)
    for (let at = 0; at < own.length; at += mostLeases) {
      const some = own.slice(at, at + mostLeases)
      groups.push({ consumer, all: some, leases: some.map(({ lease }) => lease) })
    }
  }
  return groups
}

/** Returns undefined if the work fails because the signal aborted. */
const untilAborted = <T>(signal: AbortSignal, work: Promise<T>): Promise<T | undefined> =>
  work.catch(error => {
    if (!signal.aborted) throw error
    return undefined
  })
