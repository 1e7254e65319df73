/** recv: reads the log forward from a consumer's position, or waits for it to grow. */
import type { Call } from '../model/call.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import type { Message, RecvRequest, WaitingRequest } from '../model/message.ts'
import { sessionName, sessionNotFound } from '../model/session.ts'
import { backoffMs } from '../platform/clock.ts'
import type { Runtime } from '../platform/runtime.ts'
import type { Sessions } from '../storage/state.ts'
import type { Acknowledgements, Backlog, Claim, Consumers, MessageLog } from '../storage/store.ts'
import type { Views } from './view.ts'
import { Waits, type Wanted } from './waits.ts'

export interface InboxPorts {
  store: { log: MessageLog; consumers: Consumers; acknowledgements: Acknowledgements; backlog: Backlog }
  views: Views
  sessions: Pick<Sessions, 'get'>
}

/** One by one reading, for as long as it lasts. */
export interface Reading {
  /** Whose position is used and moved; without it the reading begins at `from` and leaves no trace. */
  consumer?: string
  /** Row id after which to begin; the end of the log by default. Not with `consumer`. */
  from?: number
  session?: string
}

/** A lease is renewed this often while its message is worked on, well before it lapses. */
const renewEveryMs = 10_000
/** Without any sign the log is looked at after this. */
const lookEveryMs = 30_000
/** Rows read at a time where no position is kept, and characters of them. */
const readRows = 50
const readCharacters = 1024 * 1024

export class Inbox {
  readonly #ports: InboxPorts
  readonly #runtime: Runtime
  readonly #waits: Waits

  constructor(ports: InboxPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
    this.#waits = new Waits(ports.store.log, ports.store.backlog)
    runtime.closing.addEventListener('abort', () => this.#waits.end())
  }

  /**
   * Messages after the consumer's position, oldest first; waits up to `timeout` when there are none.
   *
   * The position moves and the rows are leased to this call. The lease ends when the door tells that the answer was written;
   * otherwise they come again, marked `redelivered`. With `ack` the position moves to that row alone, and what follows it
   * comes again with each call. With `after` nothing is leased and nothing moves. What is beyond 4 MiB, or would be long
   * to decode, waits for the next call.
   *
   * @throws SvcError `session_not_found` for one that neither exists nor left messages, `invalid_arguments` for a row that
   *   cannot be acknowledged, `store_unavailable`, `shutting_down`
   */
  async recv(request: RecvRequest, call: Call): Promise<Message[]> {
    const { clock, closing } = this.#runtime
    const { store } = this.#ports
    if (closing.aborted) throw new SvcError('shutting_down', 'the service is stopping')
    const deadline = clock.monotonic() + request.timeout * 1000
    const session = request.session === undefined ? undefined : await this.#named(request.session)
    const wanted = {
      session,
      // Every call that acknowledges is given the same.
      ...(request.after === undefined && request.ack === undefined && { consumer: request.consumer }),
    }
    for (;;) {
      // Taken before looking, so that a message stored between the look and the wait still wakes us.
      const seen = await store.log.head()
      const messages = await this.#read(request, session, call)
      const leftMs = deadline - clock.monotonic()
      if (messages.length > 0 || leftMs <= 0 || call.signal.aborted) {
        // Another call of the consumer may find what this one left.
        this.#waits.pass(wanted)
        return messages
      }
      await this.grown(call.signal, leftMs, seen, wanted)
      if (closing.aborted) return []
    }
  }

  /** Gives a new reader its place, after what any reader was given. @throws SvcError `store_unavailable` */
  begin(consumer: string): Promise<void> {
    return this.#ports.store.consumers.begin(consumer)
  }

  /** How many messages wait for such a request, counted up to `most`. @throws as `recv` */
  async waiting({ consumer, after, session: given }: WaitingRequest, most: number): Promise<number> {
    const session = given === undefined ? undefined : await this.#named(given)
    return this.#ports.store.backlog.waiting(after ?? consumer, { limit: most, session })
  }

  /** Row id of the newest row. */
  end(): Promise<number> {
    return this.#ports.store.log.head()
  }

  /** Whether the service stops. */
  get closed(): boolean {
    return this.#runtime.closing.aborted
  }

  /**
   * What was received and stored since then (Unix ms), whoever has read it; moves nothing.
   *
   * @param shown the newest row that the caller has seen; when not all fit, what follows it goes first
   * @returns `upTo`: the last of them, where others did not fit
   * @throws as `recv`
   */
  async recent(
    since: number,
    shown: number,
    request: Pick<RecvRequest, 'limit' | 'session'>,
  ): Promise<{ messages: Message[]; upTo?: number }> {
    const { store, views } = this.#ports
    const session = request.session === undefined ? undefined : await this.#named(request.session)
    const options = { limit: request.limit, session }
    const ids = await store.backlog.recent(since, { ...options, direction: 'received' })
    const answer = views.answer()
    const taken = async (ids: readonly number[]) => answer.take(await store.log.byIds(ids, answer.characters))
    const news = ids.filter(id => id > shown)
    const messages = await taken(news)
    if (messages.length < news.length) return { messages, upTo: messages.at(-1)?.id ?? shown }
    const old = await taken(ids.filter(id => id <= shown).reverse())
    return { messages: [...old.reverse(), ...messages] }
  }

  /**
   * Received messages one by one, oldest first, until the signal aborts or the service stops. Asking for the next one
   * says that the one before is dealt with: only then its lease ends. One that was being dealt with when
   * the reading broke off comes again, marked. A store that fails for a while is waited for.
   */
  async *follow(reading: Reading, signal: AbortSignal): AsyncGenerator<Message, void, void> {
    const { clock, closing, log } = this.#runtime
    const { store, views } = this.#ports
    const session = reading.session === undefined ? undefined : sessionName(reading.session)
    const where = session === undefined ? {} : { session }
    const wanted = { ...where, consumer: reading.consumer }
    const over = () => signal.aborted || closing.aborted
    let position = reading.from ?? (reading.consumer === undefined ? await this.end() : 0)
    for (let failures = 0; !over(); ) {
      try {
        const seen = await store.log.head()
        if (reading.consumer === undefined) {
          const rows = await store.log.after(position, {
            ...{ ...where, limit: readRows, characters: readCharacters, direction: 'received' },
          })
          for (const row of rows) {
            const message = await views.of(row)
            if (over()) return
            yield message
            position = row.id
          }
          if (rows.length > 0) continue
        } else {
          const claim = await store.consumers.claim(reading.consumer, { ...where, limit: 1 })
          if (claim) {
            this.#waits.pass(wanted)
            // Nobody is shown what was claimed while the reading ended.
            if (over()) return await store.consumers.giveBack(claim, 0)
            yield* this.#leased(claim)
            continue
          }
        }
        failures = 0
        await this.grown(signal, lookEveryMs, seen, wanted)
        if (over()) this.#waits.pass(wanted)
      } catch (error) {
        if (over()) return
        if (!isSvcError(error, 'store_unavailable')) throw error
        const waitMs = backoffMs(failures++, 250, 10_000)
        log.warn('messages cannot be read', { error, retryInMs: Math.round(waitMs) })
        await clock.sleep(waitMs, signal)
      }
    }
  }

  /** The message of a claim, held until the reader asks for the next one. */
  async *#leased(claim: Claim): AsyncGenerator<Message, void, void> {
    const { views } = this.#ports
    const renewing = this.#renewing(claim.lease)
    let read = false
    try {
      for (const row of claim.rows) {
        const message = await views.of(row)
        yield claim.redelivered.has(row.id) ? { ...message, redelivered: true } : message
      }
      read = true
    } finally {
      clearInterval(renewing)
      await this.#settled(claim.lease, read)
    }
  }

  /** Keeps the lease from lapsing until the timer is cleared. */
  #renewing(lease: number): ReturnType<typeof setInterval> {
    const timer = setInterval(() => {
      this.#ports.store.consumers
        .renew(lease)
        .catch(error => this.#runtime.log.warn('lease not renewed', { error }))
    }, renewEveryMs)
    timer.unref()
    return timer
  }

  async #settled(lease: number, read: boolean): Promise<void> {
    const { consumers } = this.#ports.store
    try {
      await (read ? consumers.ack(lease) : consumers.nack(lease))
    } catch (error) {
      // It lapses by itself, and the message comes again.
      this.#runtime.log.warn('position not moved; the message comes again', { error })
    }
  }

  /** There may be more to read, the time is over, the caller left, or the service stops. */
  async grown(signal: AbortSignal, leftMs: number, seen: number, wanted: Wanted = {}): Promise<void> {
    if (!this.closed) await this.#waits.wait(signal, leftMs, seen, wanted)
  }

  /**
   * The session's name as it is written. One that was logged out counts while its messages are here; any other is
   * an error, since waiting minutes for a misspelt name helps nobody.
   */
  async #named(given: string): Promise<string> {
    const { sessions, store } = this.#ports
    const name = sessionName(given)
    const found = await sessions.get(name)
    if (found) return found.name
    if ((await store.log.after(0, { limit: 1, session: name })).length > 0) return name
    throw sessionNotFound(name)
  }

  async #read(request: RecvRequest, session: string | undefined, call: Call): Promise<Message[]> {
    const { store, views } = this.#ports
    const answer = views.answer({ beside: request.beside, hasRoom: call.room?.() })
    const { limit, after, ack, consumer } = request
    const options = { limit, session, characters: answer.characters }
    if (ack !== undefined) {
      const { rows, redelivered } = await store.acknowledgements.after(consumer, ack, options)
      const messages = await answer.take(rows, redelivered)
      const last = messages.at(-1)
      if (call.signal.aborted) return []
      if (last && !last.redelivered) await store.acknowledgements.handedOut(consumer, last.id, session)
      return messages
    }
    if (after !== undefined)
      return answer.take(await store.log.after(after, { ...options, direction: 'received' }))
    // A caller that is gone must not lease anything.
    if (call.signal.aborted) return []
    const claim = await store.consumers.claim(consumer, options)
    if (!claim) return []
    const { lease, rows, redelivered } = claim
    // It left while they were claimed: nobody was shown any.
    if (call.signal.aborted) await store.consumers.giveBack(claim, 0)
    if (call.signal.aborted) return []
    // It may take its time until the door knows: a slow reader, or one that only a next call will tell of.
    const renewing = this.#renewing(lease)
    call.onDelivered(delivered => {
      clearInterval(renewing)
      void this.#settled(lease, delivered)
    })
    const messages = await answer.take(rows, redelivered)
    const next = rows[messages.length]
    if (next) await store.consumers.giveBack(claim, next.id)
    return messages
  }
}
