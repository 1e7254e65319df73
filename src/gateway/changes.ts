/**
 * Notifies any number of listeners of changes at the cost of one: new messages, and the state of the
 * sessions.
 *
 * Nothing is read while there is no listener. Events are read forward from the log. Listeners get more
 * about sessions than the log has, so the sessions are checked every second. A check costs only what
 * changed.
 */
import type { Accounts } from '../accounts/accounts.ts'
import type { SessionWatch } from '../accounts/session-watch.ts'
import type { ConversationMark } from '../model/conversation.ts'
import type { Message } from '../model/message.ts'
import type { SessionWithUsers } from '../model/session.ts'
import { backoffMs, createYield } from '../platform/clock.ts'
import { RunningPart, type Runtime } from '../platform/runtime.ts'
import type { Repetition } from '../platform/tasks.ts'
import type { EventReader, PublicEvent } from '../push/events.ts'
import type { StoredMessage } from '../storage/messages.ts'

/**
 * Why listeners get a message: it was received; it was sent, or its status changed; or it is an old one,
 * imported from another program.
 */
type MessageNews = 'received' | 'sent' | 'past'

export interface ChangeListener {
  /** Each message stored from now on. Called again for a sent message whose status changes. */
  message?(message: Message, news: MessageNews): void
  /** Each event that leaves svc. */
  event?(event: PublicEvent): void
  /** All events up to that cursor were passed to the listener. */
  reached?(cursor: string): void
  /**
   * All sessions now and before, if anything changed. A change of only the time of a poll is passed every
   * 15 s.
   */
  sessions?(now: readonly SessionWithUsers[], before: readonly SessionWithUsers[]): void
  /** A conversation was marked as read or unread in this process, by the persons of `reader`. */
  marked?(mark: ConversationMark): void
  /** The id of a key: that of its persons. Absent: all other persons, who share their marks. */
  reader?: string
}

export interface ChangePorts {
  events: EventReader
  accounts: Pick<Accounts, 'watch'>
}

/** Maximum events per read. */
const readRows = 100
const checkSessionsMs = 1000
/** Longest wait for the log to grow. */
const longestWaitMs = 30_000
/**
 * Wait after a message, which may be the user's first: by then its context token is written, and all
 * messages of a backlog cause one check.
 */
const checkAfterMessageMs = 100
/** Interval at which a change of only the time of a poll is passed on. */
const pollNewsMs = 15_000

export class Changes extends RunningPart<ChangePorts> {
  readonly #listeners = new Set<ChangeListener>()
  #following: AbortController | undefined
  /** The cursor up to which events were passed on. */
  #reached: string | undefined
  /** Checks the sessions. */
  #checking: Repetition | undefined

  constructor(ports: ChangePorts, runtime: Runtime) {
    super(ports, runtime)

    runtime.closing.addEventListener('abort', () => this.#following?.abort())
  }

  /**
   * Notifies `listener` of every change from now on. @returns a function that ends it; safe to call twice
   */
  subscribe(listener: ChangeListener): () => void {
    // The same listener object may be subscribed twice.
    const own = { ...listener }
    this.#listeners.add(own)
    if (!this.#following) {
      const following = new AbortController()
      this.#following = following
      if (this.runtime.closing.aborted) following.abort()
      const watch = this.ports.accounts.watch()
      this.#followLog(following.signal, watch)
      this.#checking = this.#followSessions(following.signal, watch)
    }
    if (this.#reached !== undefined) own.reached?.(this.#reached)
    return () => {
      if (!this.#listeners.delete(own) || this.#listeners.size > 0) return
      this.#following?.abort()
      this.#following = undefined
      this.#reached = undefined
    }
  }

  /** Notifies the listeners of a mark. Marks are not in the event log. */
  notifyMark(mark: ConversationMark, reader?: string): void {
    this.#notify(listener => (listener.reader === reader ? listener.marked : undefined), mark)
  }

  #followLog(signal: AbortSignal, watch: SessionWatch): void {
    const { log, tasks } = this.runtime
    const retryMs = (failures: number) => backoffMs(failures, 250, 10_000)
    const failure = 'changes cannot be read'
    const options = { name: 'changes', everyMs: longestWaitMs, retryMs, failure, log, signal }
    tasks.repeat(options, () => this.#passOn(signal, watch))
  }

  /** Reads a page of the log, or waits until it grows. @returns 0: do so again at once */
  async #passOn(signal: AbortSignal, watch: SessionWatch): Promise<number> {
    const { clock } = this.runtime
    const { events } = this.ports
    this.#reached ??= await events.getHead()
    const page = await events.readPage(this.#reached, { limit: readRows, hidden: true })
    const turn = createYield(clock)
    for (const published of page.events) {
      await turn()
      const isThere = await published.isThere()
      if (signal.aborted) return 0
      if (!isThere) continue
      if (!published.isInternal) this.#notify(listener => listener.event, published)
      if (!published.row) continue
      watch.touch(published.row.session)
      this.#notifyMessage(published.event.data as Message, published.row)
    }
    const moved = page.cursor !== this.#reached
    this.#reached = page.cursor
    this.#notify(listener => listener.reached, page.cursor)
    if (!moved) await events.wait(page.cursor, signal)
    // Between the pages of a long backlog, lets other work run.
    else await clock.sleep(0)
    return 0
  }

  #notifyMessage(message: Message, { past, direction }: StoredMessage): void {
    const news = past ? 'past' : direction
    if (news === 'received') this.#checking?.nudge()
    this.#notify(listener => listener.message, message, news)
  }

  #followSessions(signal: AbortSignal, watch: SessionWatch): Repetition {
    const { clock, log, tasks } = this.runtime
    let before: readonly SessionWithUsers[] | undefined
    let pollsSentAt = clock.monotonic()
    const wait = async (ms: number, either: AbortSignal) => {
      await clock.sleep(ms, either)
      if (either.aborted) await clock.sleep(checkAfterMessageMs, signal)
    }
    const failure = 'changes of sessions cannot be read'
    const options = { name: 'session_changes', everyMs: checkSessionsMs, failure, log, signal, wait }
    return tasks.repeat(options, async () => {
      const hasChanged = await watch.check()
      if (signal.aborted) return
      const pollsAreNews = clock.monotonic() - pollsSentAt > pollNewsMs
      if (pollsAreNews) pollsSentAt = clock.monotonic()
      if (before && !hasChanged && !pollsAreNews) return
      const now = watch.sessions()
      if (before) this.#notify(listener => listener.sessions, now, before)
      before = now
    })
  }

  #notify<T extends unknown[]>(
    handlerOf: (listener: ChangeListener) => ((...news: T) => void) | undefined,
    ...news: T
  ) {
    for (const listener of [...this.#listeners]) {
      try {
        handlerOf(listener)?.(...news)
      } catch (error) {
        this.runtime.log.error('a listener failed', { error })
      }
    }
  }
}
