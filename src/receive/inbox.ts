/** The recv operation: reads the log forward from a consumer's position, or waits for it to grow. */
import { isInScope, type Scope } from '../model/access.ts'
import type { Call } from '../model/call.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import type {
  CountWaitingRequest,
  LeasedMessage,
  LeaseRequest,
  Message,
  RecvRequest,
} from '../model/message.ts'
import { normalizeSessionName, sessionNotFoundError } from '../model/session.ts'
import { backoffMs } from '../platform/clock.ts'
import { RunningPart, type Runtime } from '../platform/runtime.ts'
import type { SessionStore } from '../storage/state.ts'
import {
  type Acknowledgements,
  type Backlog,
  type ConsumerClaim,
  type Consumers,
  type LeasedRow,
  type MessageLog,
  maxHandOuts,
} from '../storage/store.ts'
import { followSession, type SessionFollower } from './ingest.ts'
import type { Views } from './view.ts'
import { Waiters, type WaitTarget } from './waits.ts'

export interface InboxPorts {
  store: { log: MessageLog; consumers: Consumers; acknowledgements: Acknowledgements; backlog: Backlog }
  views: Views
  sessions: Pick<SessionStore, 'get' | 'list'>
}

/** How one caller of `follow` reads. */
export interface FollowOptions {
  /**
   * The consumer whose position is used and moved. Without it, reading starts at `from` and stores nothing.
   */
  consumer?: string
  /** Row id after which to start; the end of the log by default. Not together with `consumer`. */
  from?: number
  session?: string
  /** Only messages of these accounts and users. */
  scope?: Scope
}

/** A message that a reader has open until it settles it. */
export interface OpenMessage {
  readonly message: Message
  /** Ends it. read: the consumer's position passes it; otherwise it comes again, marked `redelivered`. */
  settle(read: boolean): Promise<void>
}

/** Interval of lease renewals while a message is being worked on; well below the time a lease lasts. */
const renewEveryMs = 10_000
/** Interval of reads of the log when no change is reported. */
const checkEveryMs = 30_000
/** Maximum rows per read without a consumer. `readCharacters` is the maximum of their characters. */
const readRows = 50
const readCharacters = 1024 * 1024

export class Inbox extends RunningPart<InboxPorts> {
  readonly #waits: Waiters
  /** Leases that end unread: a claim waits for them, so that what was lost comes before what is new. */
  readonly #returning = new Set<Promise<void>>()

  constructor(ports: InboxPorts, runtime: Runtime) {
    super(ports, runtime)

    this.#waits = new Waiters(ports.store)
    runtime.closing.addEventListener('abort', () => this.#waits.end())
    // A message of the account may have come before.
    runtime.bus.on('accountsFollowed', () => this.#waits.end())
  }

  /**
   * Returns the messages after the consumer's position, oldest first. Waits up to `timeout` seconds if
   * there are none.
   *
   * The position moves, and the rows are leased to this call. The lease ends when the interface reports
   * that the answer was written; otherwise the messages come again, marked `redelivered`. With `ack`, the
   * position moves to that row only, and the messages after it come again with each call. With `after`,
   * nothing is leased and nothing moves. Messages beyond 4 MiB, or that would take long to decode, wait for
   * the next call.
   *
   * @param followed of a caller that reads several times: the session of `findSession`
   * @throws SvcError `session_not_found` for a session that does not exist and left no messages,
   *   `invalid_arguments` for a row that cannot be acknowledged, `store_unavailable`, `shutting_down`
   */
  async recv(request: RecvRequest, call: Call, followed?: SessionFollower): Promise<Message[]> {
    // Calls with `ack` or `after` claim nothing and all get the same messages, so all of them are woken.
    const isClaim = request.after === undefined && request.ack === undefined
    const target: WaitTarget = { scope: request.scope, ...(isClaim && { consumer: request.consumer }) }
    return this.#readOrWait(request, call, target, session => this.#read(request, session, call), followed)
  }

  /** Reads until there is something, or the time is over. */
  async #readOrWait<T>(
    request: Pick<RecvRequest, 'timeout' | 'session' | 'scope'>,
    call: Call,
    target: WaitTarget,
    read: (session: string | undefined) => Promise<T[]>,
    followed?: SessionFollower,
  ): Promise<T[]> {
    const { clock, closing } = this.runtime
    const { store } = this.ports
    if (closing.aborted) throw new SvcError('shutting_down', 'the service is stopping')
    const deadline = clock.monotonic() + request.timeout * 1000
    const named = followed ?? (await this.findSession(request))
    for (;;) {
      // Read before the messages, so that a message stored between the read and the wait still ends the
      // wait.
      const seen = await store.log.getHead()
      Object.assign(target, await named?.())
      const found = await read(target.session)
      const leftMs = deadline - clock.monotonic()
      if (found.length > 0 || leftMs <= 0 || call.signal.aborted) {
        // Another call of this consumer may find what this one left.
        this.#waits.notifyNext(target)
        return found
      }
      await this.waitForMore(call.signal, leftMs, seen, target)
      if (closing.aborted) return []
    }
  }

  /**
   * Leases messages to a program, which ends each by `settleLeases`: of a person (session and user) one at a time, oldest
   * first. Waits like `recv`. A lease lasts 45 s, and outlives the service.
   *
   * @throws SvcError as `recv`; `invalid_arguments` for a consumer that acknowledges
   */
  async lease(request: LeaseRequest, call: Call): Promise<LeasedMessage[]> {
    const { consumer, scope } = request
    return this.#readOrWait(request, call, { scope, consumer }, session =>
      this.#lease({ ...request, session }, call),
    )
  }

  async #lease({ consumer, ...wanted }: LeaseRequest, call: Call): Promise<LeasedMessage[]> {
    const { store, views } = this.ports
    // A caller that has left must lease nothing.
    if (call.signal.aborted) return []
    if (this.#returning.size > 0) await Promise.all(this.#returning)
    const { rows, expiresAt } = await store.consumers.lease(consumer, wanted)
    if (rows.length === 0) return []
    const give = (back: readonly LeasedRow[]) => this.#giveBackLeases(consumer, back)
    if (call.signal.aborted) {
      await give(rows)
      return []
    }
    call.onDelivered(delivered => {
      if (!delivered) this.#track(give(rows))
    })
    const answer = views.createAnswer({ hasRoom: call.startFitCheck?.() })
    const byId = new Map(rows.map(row => [row.id, row]))
    const again = rows.flatMap(({ id, redelivered }) => (redelivered ? id : []))
    const found = await store.log.getByIds([...byId.keys()], answer.characters)
    const messages = await answer.take(found, new Set(again))
    const leased = messages.map(message => {
      const { lease } = byId.get(message.id)!
      byId.delete(message.id)
      return { lease, expires_at: expiresAt, message }
    })
    if (byId.size > 0) await give([...byId.values()])
    return leased
  }

  /** Gives back leases that their program did not see: their messages come again as before. */
  async #giveBackLeases(consumer: string, rows: readonly LeasedRow[]): Promise<void> {
    for (const [isSeen, some] of Map.groupBy(rows, ({ redelivered }) => redelivered))
      await this.ports.store.consumers
        .settleLeases(
          consumer,
          some.map(({ lease }) => lease),
          isSeen ? 'unread' : 'unseen',
        )
        // They expire by themselves, and the messages come again.
        .catch(error => this.runtime.log.warn('leases not given back; the messages come again', { error }))
  }

  /** Keeps leases of messages from expiring. @returns those that are not over. @throws SvcError `store_unavailable` */
  async renewLeases(
    consumer: string,
    leases: readonly number[],
  ): Promise<{ leases: number[]; expires_at: number }> {
    const renewed = await this.ports.store.consumers.renewLeases(consumer, leases)
    return { leases: renewed.leases, expires_at: renewed.expiresAt }
  }

  /**
   * Ends leases of messages. read: the messages are done; otherwise they come again, marked `redelivered`.
   *
   * @returns those that were not over. @throws SvcError `store_unavailable`
   */
  settleLeases(consumer: string, leases: readonly number[], read: boolean): Promise<number[]> {
    return this.ports.store.consumers.settleLeases(consumer, leases, read ? 'read' : 'unread')
  }

  /**
   * Starts a new consumer after all messages that any reader got; `atEnd`: after all messages; `after`: after this row.
   *
   * @throws SvcError `store_unavailable`
   */
  begin(consumer: string, options?: { atEnd?: boolean; after?: number | undefined }): Promise<void> {
    return this.ports.store.consumers.register(consumer, options)
  }

  /** Counts the messages that wait for such a request, up to `most`. @throws as `recv` */
  async countWaiting(
    { consumer, after, session: input, scope }: CountWaitingRequest,
    most: number,
  ): Promise<number> {
    const session = await this.#resolveSession({ session: input, scope })
    return this.ports.store.backlog.countWaiting(after ?? consumer, { limit: most, session, scope })
  }

  /** Returns the row id of the newest row. */
  getHead(): Promise<number> {
    return this.ports.store.log.getHead()
  }

  /** Whether the service is stopping. */
  get isClosing(): boolean {
    return this.runtime.closing.aborted
  }

  /**
   * Returns the messages received since a time (Unix ms), also those that another consumer got. Moves no
   * position.
   *
   * @param shown the newest row that the caller already got; if not all messages fit, newer ones go first
   * @param named the session of `findSession`
   * @returns `upTo`: the last of the newer messages, if they did not all fit
   * @throws SvcError `store_unavailable`
   */
  async listRecent(
    since: number,
    shown: number,
    { limit, scope }: Pick<RecvRequest, 'limit' | 'scope'>,
    named?: SessionFollower,
  ): Promise<{ messages: Message[]; upTo?: number; more: boolean }> {
    const { store, views } = this.ports
    // One more than wanted: whether there are more.
    const options = { limit: limit + 1, session: (await named?.())?.session, scope }
    const found = await store.backlog.listRecent(since, { ...options, direction: 'received' })
    const ids = found.slice(-limit)
    const answer = views.createAnswer()
    const take = async (ids: readonly number[]) =>
      answer.take(await store.log.getByIds(ids, answer.characters))
    const newIds = ids.filter(id => id > shown)
    const messages = await take(newIds)
    if (messages.length < newIds.length) return { messages, upTo: messages.at(-1)?.id ?? shown, more: true }
    const oldMessages = await take(ids.filter(id => id <= shown).reverse())
    const all = [...oldMessages.reverse(), ...messages]
    return { messages: all, more: all.length < found.length }
  }

  /**
   * Yields received messages one by one, oldest first, until the signal aborts or the service stops. When
   * the caller asks for the next message, the lease of the one before ends. If reading stops before that,
   * the message comes again, marked. Retries while the store fails.
   */
  async *follow(reading: FollowOptions, signal: AbortSignal): AsyncGenerator<Message, void, void> {
    const { consumer, ...others } = reading
    if (consumer === undefined) return yield* this.#followLog(others, signal)
    for await (const { message, settle } of this.open({ ...others, consumer }, signal)) {
      let read = false
      try {
        yield message
        read = true
      } finally {
        await settle(read)
      }
    }
  }

  /**
   * Yields the messages of a consumer like `follow`, but each one stays open until the caller settles it: any
   * number may be open at a time, and they may be settled in any order. The lease of an open message is renewed.
   */
  async *open(
    { consumer, session: named, scope }: FollowOptions & { consumer: string },
    signal: AbortSignal,
  ): AsyncGenerator<OpenMessage, void, void> {
    const target: WaitTarget = { scope, consumer }
    yield* this.#repeat(signal, { target, named }, async isOver => {
      const { session } = target
      const claim = await this.ports.store.consumers.claim(consumer, { session, scope, limit: 1 })
      if (!claim) return []
      this.#waits.notifyNext(target)
      if (!isOver()) return [await this.#openClaim(claim)]
      // Reading has ended: give the message back, because nobody got it.
      await this.ports.store.consumers.giveBack(claim, 0)
      return []
    })
  }

  async *#followLog(
    { from, session: named, scope }: FollowOptions,
    signal: AbortSignal,
  ): AsyncGenerator<Message, void, void> {
    const { store, views } = this.ports
    const target: WaitTarget = { scope }
    const wanted = { limit: readRows, characters: readCharacters, direction: 'received' } as const
    let position = from ?? (await this.getHead())
    let withoutStale = views.startStaleCheck()
    const read = () => {
      withoutStale = views.startStaleCheck()
      return store.log.listAfter(position, { ...wanted, scope, session: target.session })
    }
    for await (const row of this.#repeat(signal, { target, named }, read)) {
      const message = await views.toMessage(row)
      // The caller may take long for the messages before it.
      const isThere = (await withoutStale([row])).length > 0
      if (signal.aborted || this.isClosing) return
      if (isThere) yield message
      position = row.id
    }
  }

  /**
   * Yields what `read` returns, again and again, and waits for changes when it returns nothing. Retries while the
   * store fails.
   *
   * @param of.target its `session` and `bot` are set before each read: where the session `named` is now
   */
  async *#repeat<T>(
    signal: AbortSignal,
    { target, named }: { target: WaitTarget; named: string | undefined },
    read: (isOver: () => boolean) => Promise<T[]>,
  ): AsyncGenerator<T, void, void> {
    const { clock, closing, log } = this.runtime
    const isOver = () => signal.aborted || closing.aborted
    const session = this.#follow(named && normalizeSessionName(named))
    for (let failures = 0; !isOver(); ) {
      try {
        const seen = await this.getHead()
        Object.assign(target, await session?.())
        const found = await read(isOver)
        yield* found
        if (found.length > 0) continue
        failures = 0
        await this.waitForMore(signal, checkEveryMs, seen, target)
        if (isOver()) this.#waits.notifyNext(target)
      } catch (error) {
        if (isOver()) return
        if (!isSvcError(error, 'store_unavailable')) throw error
        const waitMs = backoffMs(failures++, 250, 10_000)
        log.warn('messages cannot be read', { error, retryInMs: Math.round(waitMs) })
        await clock.sleep(waitMs, signal)
      }
    }
  }

  /** Opens the message of a claim. Keeps its lease until it is settled. */
  async #openClaim({ lease, redelivered, rows }: ConsumerClaim): Promise<OpenMessage> {
    const renewing = this.#keepRenewing(lease)
    const settle = async (read: boolean) => {
      clearInterval(renewing)
      await this.#endLease(lease, read)
    }
    try {
      const row = rows[0]!
      const message = await this.ports.views.toMessage(row)
      return { message: redelivered.has(row.id) ? { ...message, redelivered: true } : message, settle }
    } catch (error) {
      await settle(false)
      throw error
    }
  }

  /** Starts to renew the lease, until the service stops. Clear the returned timer to stop earlier. */
  #keepRenewing(lease: number): ReturnType<typeof setInterval> {
    const timer = setInterval(() => {
      if (this.isClosing) return clearInterval(timer)
      this.ports.store.consumers
        .renew(lease)
        .catch(error => this.runtime.log.warn('lease not renewed', { error }))
    }, renewEveryMs)
    timer.unref()
    return timer
  }

  /** Later claims wait for it. */
  #track(ending: Promise<void>): void {
    this.#returning.add(ending)
    void ending.then(() => this.#returning.delete(ending))
  }

  async #endLease(lease: number, read: boolean): Promise<void> {
    const { consumers } = this.ports.store
    try {
      await (read ? consumers.ack(lease) : consumers.nack(lease))
    } catch (error) {
      // The lease ends by itself, and the message comes again.
      this.runtime.log.warn('position not moved; the message comes again', { error })
    }
  }

  /**
   * Records that the answer with the rows was written. Whether they were read shows only the next sign of life of the
   * consumer.
   */
  async #recordHandOut({ lease, rows }: ConsumerClaim, consumer: string): Promise<void> {
    const { log } = this.runtime
    try {
      if (!(await this.ports.store.consumers.recordHandOut(lease))) return
      const [first, last] = [rows[0]?.id, rows.at(-1)?.id]
      const detail = { consumer, first, last, times: maxHandOuts }
      log.warn(
        'messages were handed out again and again without a sign that they were read; they count as read',
        detail,
      )
    } catch (error) {
      log.warn('not recorded that messages were handed out', { error })
    }
  }

  /** Resolves when there may be more to read, the time is over, the caller left, or the service stops. */
  async waitForMore(
    signal: AbortSignal,
    leftMs: number,
    seen: number,
    wanted: WaitTarget = {},
  ): Promise<void> {
    if (!this.isClosing) await this.#waits.wait(signal, leftMs, seen, wanted)
  }

  /** Returns what follows the session of a request through renames. @throws as `recv` */
  async findSession(request: Pick<RecvRequest, 'session' | 'scope'>): Promise<SessionFollower | undefined> {
    const session = this.#follow(await this.#resolveSession(request))
    await session?.()
    return session
  }

  #follow(session: string | undefined): SessionFollower | undefined {
    return session === undefined ? undefined : followSession(this.ports.sessions, session)
  }

  /**
   * Returns the session's name as it is stored; undefined for all sessions. A session that was logged out, or
   * has an account outside the scope now, counts as long as messages of it that are in the scope are stored.
   *
   * @throws SvcError `session_not_found`: waiting minutes for a misspelt name helps nobody
   */
  async #resolveSession({
    session: given,
    scope,
  }: Pick<RecvRequest, 'session' | 'scope'>): Promise<string | undefined> {
    if (given === undefined) return undefined
    const { sessions, store } = this.ports
    const name = normalizeSessionName(given)
    const found = await sessions.get(name)
    if (found && (!scope || isInScope(scope, found.bot?.bot_id))) return found.name
    if ((await store.log.listAfter(0, { limit: 1, session: name, scope })).length > 0) return name
    throw sessionNotFoundError(name)
  }

  async #read(request: RecvRequest, session: string | undefined, call: Call): Promise<Message[]> {
    const { store, views } = this.ports
    const answer = views.createAnswer({ beside: request.beside, hasRoom: call.startFitCheck?.() })
    const { limit, after, ack, consumer, scope } = request
    const options = { limit, session, scope, characters: answer.characters }
    if (ack !== undefined) {
      const { rows, redelivered } = await store.acknowledgements.readAfter(consumer, ack, options)
      const messages = await answer.take(rows, redelivered)
      const last = messages.at(-1)
      if (call.signal.aborted) return []
      if (last && !last.redelivered) await store.acknowledgements.markHandedOut(consumer, last.id, session)
      return messages
    }
    if (after !== undefined)
      return answer.take(await store.log.listAfter(after, { ...options, direction: 'received' }))
    // A caller that has left must lease nothing.
    if (call.signal.aborted) return []
    if (this.#returning.size > 0) await Promise.all(this.#returning)
    const claim = await store.consumers.claim(consumer, options)
    if (!claim) return []
    const { lease, rows, redelivered } = claim
    // The caller left during the claim: give the messages back, because nobody got them.
    if (call.signal.aborted) await store.consumers.giveBack(claim, 0)
    if (call.signal.aborted) return []
    // Renewed because svc may learn late that the answer was written: from a slow reader, or from the next call of
    // the caller.
    const renewing = this.#keepRenewing(lease)
    call.onDelivered(
      delivered => {
        clearInterval(renewing)
        const ending = this.#endLease(lease, delivered)
        if (!delivered) this.#track(ending)
      },
      () => void this.#recordHandOut(claim, consumer),
    )
    const messages = await answer.take(rows, redelivered)
    const next = rows[messages.length]
    if (next) await store.consumers.giveBack(claim, next.id)
    return messages
  }
}
