/**
 * recv where nothing polls all the time (the library, one-shot commands): the call polls by itself while it waits and gives
 * its lease back with its answer. Where another process polls, it shows what that one stored lately.
 */
import type { Call } from '../model/call.ts'
import type { Message, RecvRequest } from '../model/message.ts'
import { AwakeTime } from '../platform/clock.ts'
import type { Runtime } from '../platform/runtime.ts'
import { type Linked, linked } from '../platform/signals.ts'
import type { Lease, Leases } from '../storage/leases.ts'
import type { Inbox } from './inbox.ts'
import type { Poller } from './poller.ts'

export interface OneShotPorts {
  inbox: Inbox
  leases: Pick<Leases, 'join'>
  poller: Poller
  /** What another process polls can be read here. */
  shared: boolean
}

/** Of what another process polled, this much is shown. */
const recentMs = 60_000
/** Upstream is given this long to answer, however little the caller wants to wait. */
const lookMs = 1500
/** When one session has brought messages, answers to the others are awaited this much longer. */
const othersMs = 200
/** So long after a look, messages that wait are handed out without another. */
const freshMs = 2000
const tryEveryMs = 1000
/** More than this between two looks was a machine that stood still: it says nothing about upstream. */
const standstillMs = 100

export class OneShot {
  readonly #ports: OneShotPorts
  readonly #runtime: Runtime
  #cycle: Cycle | undefined
  /** One call asks for the lease for all: another beside it must not think that another process has it. */
  #taking: Promise<void> | undefined
  #ending: Promise<void> | undefined
  /** This process polls or follows for good, or is about to. */
  #halted = false
  #lookedAt = Number.NEGATIVE_INFINITY
  /** By consumer, the newest row shown to it that another process polled. */
  readonly #shown = new Map<string, number>()

  constructor(ports: OneShotPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
  }

  /**
   * As `Inbox.recv`, where this process does not poll for good. With a lease: polls every session and
   * returns what there is. Without: the received messages of the last minute, whoever has read them, moving nothing,
   * those shown to this consumer before marked `redelivered`; nothing where there is no store to read them from.
   */
  async recv(request: RecvRequest, call: Call): Promise<Message[]> {
    const { clock } = this.#runtime
    const { inbox, shared } = this.#ports
    const deadline = clock.monotonic() + request.timeout * 1000
    for (;;) {
      const leftMs = Math.max(0, deadline - clock.monotonic())
      if (this.#halted) return inbox.recv({ ...request, timeout: leftMs / 1000 }, call)
      const cycle = await this.#enter()
      if (cycle) {
        try {
          const messages = await this.#polled(cycle, request, leftMs, call)
          const over = call.signal.aborted || inbox.closed || clock.monotonic() >= deadline
          if (messages.length > 0 || over || !cycle.over.aborted) return messages
        } finally {
          await this.#leave(cycle)
        }
        // The polling ended before the wait: the lease was lost, or polling for good begins.
        continue
      }
      if (this.#halted) continue
      if (!shared) return []
      // Read by row id, which asks for no position and is not about what is recent; or from a position, as was asked.
      if (request.after !== undefined || request.ack !== undefined || call.onward)
        return inbox.recv(request, call)
      const seen = await inbox.end()
      const { messages, upTo } = await this.#recent(request)
      const over = leftMs <= 0 || call.signal.aborted || inbox.closed
      if (over || messages.some(message => !message.redelivered)) {
        this.#shown.set(request.consumer, upTo ?? Math.max(seen, messages.at(-1)?.id ?? 0))
        return messages
      }
      await inbox.grown(call.signal, Math.min(leftMs, tryEveryMs), seen)
    }
  }

  /** Polls every session until disposed; undefined when another process does, or this one is about to for good. */
  async polling(): Promise<AsyncDisposable | undefined> {
    const cycle = this.#halted ? undefined : await this.#enter()
    cycle?.start()
    return cycle && { [Symbol.asyncDispose]: () => this.#leave(cycle) }
  }

  /** Ends polling on behalf of calls: polling for good begins, and calls under way wait for what it stores. */
  async halt(): Promise<void> {
    this.#halted = true
    await this.#taking?.catch(() => undefined)
    await this.#cycle?.end()
    await this.#ending
  }

  /** It does not begin after all. */
  resume(): void {
    this.#halted = false
  }

  /** What waits in the log, and what upstream has within the time. */
  async #polled(cycle: Cycle, request: RecvRequest, leftMs: number, call: Call): Promise<Message[]> {
    const { clock } = this.#runtime
    const { inbox } = this.#ports
    // Before polling begins: a consumer that is new starts at the end of the log as it is now.
    const messages = await inbox.recv({ ...request, timeout: 0 }, call)
    const fresh = clock.monotonic() - this.#lookedAt < freshMs
    // What is not acknowledged comes with each look at the log, so it is one look.
    const isOnce = request.ack !== undefined
    if (messages.length >= request.limit || (messages.length > 0 && (fresh || isOnce))) return messages
    cycle.start()
    using waiting = linked(call.signal, cycle.over)
    const { signal } = waiting
    if (messages.length > 0) await this.#answered(lookMs, signal)
    else {
      const began = clock.monotonic()
      if (leftMs < lookMs) await this.#answered(lookMs, signal)
      const timeout = Math.max(0, leftMs - (clock.monotonic() - began)) / 1000
      const { by, local } = call
      const onDelivered: Call['onDelivered'] = told => call.onDelivered(told)
      const whilePolling: Call = { by, signal, local, onDelivered }
      messages.push(...(await inbox.recv({ ...request, timeout }, timeout > 0 ? whilePolling : call)))
      if (messages.length > 0) await this.#answered(othersMs, signal)
    }
    this.#lookedAt = clock.monotonic()
    const limit = request.limit - messages.length
    if (limit > 0 && !isOnce && messages.length > 0 && !call.signal.aborted) {
      const after = request.after === undefined ? undefined : messages.at(-1)?.id
      const rest = { ...request, after, limit, timeout: 0, beside: messages }
      messages.push(...(await inbox.recv(rest, call)))
    }
    return messages
  }

  /** Every session has been asked and what came is committed, or the time is over, as this process lived it. */
  async #answered(withinMs: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#runtime
    const { poller } = this.#ports
    const awake = new AwakeTime(clock, standstillMs)
    let leftMs = withinMs
    while (leftMs > 0 && !poller.answered && !signal.aborted && !this.#halted) {
      await clock.sleep(5, signal)
      leftMs -= awake.look()
    }
  }

  async #recent(request: RecvRequest): Promise<{ messages: Message[]; upTo?: number }> {
    const { clock } = this.#runtime
    const { inbox } = this.#ports
    const shown = this.#shown.get(request.consumer) ?? 0
    const { messages, ...rest } = await inbox.recent(clock.now() - recentMs, shown, request)
    const mark = (message: Message) => (message.id <= shown ? { ...message, redelivered: true } : message)
    return { messages: messages.map(mark), ...rest }
  }

  /** The polling of this process, begun if need be; undefined when another process polls. */
  async #enter(): Promise<Cycle | undefined> {
    if (!this.#cycle || this.#cycle.over.aborted) {
      this.#taking ??= this.#take().finally(() => {
        this.#taking = undefined
      })
      await this.#taking
    }
    if (this.#cycle) this.#cycle.users += 1
    return this.#cycle
  }

  async #take(): Promise<void> {
    await this.#ending
    // One that is over, and not yet left by all.
    await this.#cycle?.end()
    this.#cycle = undefined
    const { leases, poller } = this.#ports
    if (this.#halted) return
    const lease = await leases.join()
    if (lease) this.#cycle = new Cycle(lease, poller)
  }

  async #leave(cycle: Cycle): Promise<void> {
    cycle.users -= 1
    if (cycle.users > 0) return
    if (this.#cycle === cycle) {
      this.#cycle = undefined
      this.#ending = cycle.end()
    }
    await cycle.end()
  }
}

/** One lease, for the calls that wait at the time. */
class Cycle {
  users = 0
  readonly #lease: Lease
  readonly #poller: Poller
  readonly #stop = new AbortController()
  readonly #linked: Linked
  #polling: Promise<void> | undefined
  #ended: Promise<void> | undefined

  constructor(lease: Lease, poller: Poller) {
    this.#lease = lease
    this.#poller = poller
    this.#linked = linked(this.#stop.signal, lease.lost)
  }

  /** Aborts when polling ends: nobody waits for it any more, polling for good begins, or the lease was lost. */
  get over(): AbortSignal {
    return this.#linked.signal
  }

  start(): void {
    if (!this.over.aborted) this.#polling ??= this.#poller.run(this.#lease, this.over, { oneCycle: true })
  }

  /** Resolves when what came is committed and the lease is given back. */
  end(): Promise<void> {
    this.#stop.abort()
    this.#ended ??= (async () => {
      await this.#polling
      this.#linked[Symbol.dispose]()
      await this.#lease.release()
    })()
    return this.#ended
  }
}
