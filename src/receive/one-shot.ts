/**
 * The recv operation where no process polls permanently (the library, one-shot commands). The call polls
 * while it waits, and releases its lease with its answer. If another process polls, it returns what that
 * process stored recently.
 */
import type { Call } from '../model/call.ts'
import type { Message, Received, RecvRequest } from '../model/message.ts'
import { AwakeTime } from '../platform/clock.ts'
import { RoomPart, RunningPart } from '../platform/runtime.ts'
import { linkSignals } from '../platform/signals.ts'
import type { Lease, Leases } from '../storage/leases.ts'
import type { Inbox } from './inbox.ts'
import type { SessionFollower } from './ingest.ts'
import type { Poller } from './poller.ts'

export interface OneShotPorts {
  inbox: Inbox
  leases: Pick<Leases, 'join'>
  poller: Poller
  /** Whether the messages that another process polls can be read here. */
  shared: boolean
}

/** Age limit of the messages that another process polled and that are returned. */
const recentMs = 60_000
/** Minimum time for upstream to answer, even if the caller wants to wait less. */
const minAnswerMs = 1500
/** After one session has brought messages, the answers to the others are awaited this much longer. */
const otherSessionsMs = 200
/** Within this time after a poll, waiting messages are returned without another poll. */
const freshMs = 2000
const tryEveryMs = 1000
/**
 * A longer gap between two checks means that the machine stood still; it does not count as waiting time.
 */
const standstillMs = 100

export class OneShot extends RunningPart<OneShotPorts> {
  #cycle: PollCycle | undefined
  /** One call takes the lease for all. Otherwise a second call would think that another process has it. */
  #taking: Promise<void> | undefined
  #ending: Promise<void> | undefined
  /** Whether this process polls or follows permanently, or is about to. */
  #isHalted = false
  #polledAt = Number.NEGATIVE_INFINITY
  /** The newest row polled by another process that a consumer got, by consumer. */
  readonly #shown = new Map<string, number>()

  /**
   * Like `Inbox.recv`, for a process that does not poll permanently. With the lease it polls every session
   * and returns the messages. Without the lease it returns the messages received in the last minute, also
   * those that other consumers got, and moves no position; messages that this consumer already got are
   * marked `redelivered`, and `more` tells that some of that minute are left out. Returns nothing if there is no
   * shared store.
   */
  async recv(request: RecvRequest, call: Call): Promise<Received> {
    const { clock } = this.runtime
    const { inbox, shared } = this.ports
    const deadline = clock.monotonic() + request.timeout * 1000
    // Between the reads of this call the session may be renamed, and another one get its name.
    const named = await inbox.findSession(request)
    for (;;) {
      const leftMs = Math.max(0, deadline - clock.monotonic())
      if (this.#isHalted) return inbox.recv({ ...request, timeout: leftMs / 1000 }, call, named)
      const cycle = await this.#enter()
      if (cycle) {
        try {
          const messages = await this.#recvPolling(cycle, { ...request, named }, leftMs, call)
          const isOver = call.signal.aborted || inbox.isClosing || clock.monotonic() >= deadline
          if (messages.length > 0 || isOver || !cycle.over.aborted) return messages
        } finally {
          await this.#leave(cycle)
        }
        // Polling ended before the wait: the lease was lost, or permanent polling starts.
        continue
      }
      if (this.#isHalted) continue
      if (!shared) return []
      // A request with a row id or a position reads from there, not the recent messages.
      if (request.after !== undefined || request.ack !== undefined || call.onward)
        return inbox.recv(request, call, named)
      const seen = await inbox.getHead()
      const { messages, more, upTo } = await this.#recvRecent(request, named)
      const isOver = leftMs <= 0 || call.signal.aborted || inbox.isClosing
      if (isOver || messages.some(message => !message.redelivered)) {
        this.#shown.set(request.consumer, upTo ?? Math.max(seen, messages.at(-1)?.id ?? 0))
        // Beside the messages, not among the fields that a copy or a comparison of the list takes.
        return more ? Object.defineProperty(messages, 'more', { value: true }) : messages
      }
      await inbox.waitForMore(call.signal, Math.min(leftMs, tryEveryMs), seen, { scope: request.scope })
    }
  }

  /**
   * Polls every session until disposed. Returns undefined if another process polls, or this one is about to
   * poll permanently.
   */
  async startPolling(): Promise<AsyncDisposable | undefined> {
    const cycle = this.#isHalted ? undefined : await this.#enter()
    cycle?.start()
    return cycle && { [Symbol.asyncDispose]: () => this.#leave(cycle) }
  }

  /**
   * Ends the polling for calls, because permanent polling starts. Running calls wait for what it stores.
   */
  async halt(): Promise<void> {
    this.#isHalted = true
    await this.#taking?.catch(() => undefined)
    await this.#cycle?.end()
    await this.#ending
  }

  /** Allows polling for calls again, if permanent polling did not start. */
  resume(): void {
    this.#isHalted = false
  }

  /** Returns the messages that wait in the log, and those that upstream has within the time. */
  async #recvPolling(
    cycle: PollCycle,
    { named, ...request }: RecvRequest & { named: SessionFollower | undefined },
    leftMs: number,
    call: Call,
  ): Promise<Message[]> {
    const { clock } = this.runtime
    const { inbox } = this.ports
    // Before polling starts: a new consumer starts at the current end of the log.
    const messages = await inbox.recv({ ...request, timeout: 0 }, call, named)
    const isFresh = clock.monotonic() - this.#polledAt < freshMs
    // With `ack`, unacknowledged messages come with each read of the log, so read it once.
    const isOnce = request.ack !== undefined
    if (messages.length >= request.limit || (messages.length > 0 && (isFresh || isOnce))) return messages
    cycle.start()
    using waiting = linkSignals(call.signal, cycle.over)
    const { signal } = waiting
    if (messages.length > 0) await this.#waitForAnswers(minAnswerMs, signal)
    else {
      const began = clock.monotonic()
      if (leftMs < minAnswerMs) await this.#waitForAnswers(minAnswerMs, signal)
      const timeout = Math.max(0, leftMs - (clock.monotonic() - began)) / 1000
      const { by, local } = call
      const onDelivered: Call['onDelivered'] = (told, written) => call.onDelivered(told, written)
      const whilePolling: Call = { by, signal, local, onDelivered }
      messages.push(...(await inbox.recv({ ...request, timeout }, timeout > 0 ? whilePolling : call, named)))
      if (messages.length > 0) await this.#waitForAnswers(otherSessionsMs, signal)
    }
    this.#polledAt = clock.monotonic()
    const limit = request.limit - messages.length
    if (limit > 0 && !isOnce && messages.length > 0 && !call.signal.aborted) {
      const after = request.after === undefined ? undefined : messages.at(-1)?.id
      const rest = { ...request, after, limit, timeout: 0, beside: messages }
      messages.push(...(await inbox.recv(rest, call, named)))
    }
    return messages
  }

  /**
   * Waits until every session was asked and its messages are committed, or the time is over. Time during
   * which the machine stood still does not count.
   */
  async #waitForAnswers(withinMs: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.runtime
    const { poller } = this.ports
    const awake = new AwakeTime(clock, standstillMs)
    let leftMs = withinMs
    while (leftMs > 0 && !poller.isAnswered && !signal.aborted && !this.#isHalted) {
      await clock.sleep(5, signal)
      leftMs -= awake.measure()
    }
  }

  async #recvRecent(
    request: RecvRequest,
    named: SessionFollower | undefined,
  ): Promise<{ messages: Message[]; upTo?: number; more: boolean }> {
    const { clock } = this.runtime
    const { inbox } = this.ports
    const newestShown = this.#shown.get(request.consumer) ?? 0
    const { limit, recentLimit = limit, scope } = request
    const since = clock.now() - recentMs
    const wanted = { limit: recentLimit, scope }
    const { messages, ...rest } = await inbox.listRecent(since, newestShown, wanted, named)
    const mark = (message: Message) =>
      message.id <= newestShown ? { ...message, redelivered: true } : message
    return { messages: messages.map(mark), ...rest }
  }

  /** Returns the polling of this process, and starts it if needed; undefined if another process polls. */
  async #enter(): Promise<PollCycle | undefined> {
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
    // The previous cycle is over, but some of its calls have not left it yet.
    await this.#cycle?.end()
    this.#cycle = undefined
    const { leases, poller } = this.ports
    if (this.#isHalted) return
    const lease = await leases.join({ alone: true })
    if (lease) this.#cycle = new PollCycle({ lease, poller })
  }

  async #leave(cycle: PollCycle): Promise<void> {
    cycle.users -= 1
    if (cycle.users > 0) return
    if (this.#cycle === cycle) {
      this.#cycle = undefined
      this.#ending = cycle.end()
    }
    await cycle.end()
  }
}

/** One lease, and the polling for the calls that wait during it. */
class PollCycle extends RoomPart<{ lease: Lease; poller: Poller }> {
  users = 0
  readonly #stop = new AbortController()
  readonly #linked = linkSignals(this.#stop.signal, this.ports.lease.lost)
  #polling: Promise<void> | undefined
  #ended: Promise<void> | undefined

  /** Aborts when polling ends: no call waits any more, permanent polling starts, or the lease was lost. */
  get over(): AbortSignal {
    return this.#linked.signal
  }

  start(): void {
    if (!this.over.aborted)
      this.#polling ??= this.ports.poller.run(this.ports.lease, this.over, { oneCycle: true })
  }

  /** Resolves when the received messages are committed and the lease is released. */
  end(): Promise<void> {
    this.#stop.abort()
    this.#ended ??= (async () => {
      await this.#polling
      this.#linked[Symbol.dispose]()
      await this.ports.lease.release()
    })()
    return this.#ended
  }
}
