/**
 * What happens, as it happens, to any number of listeners at the cost of one: messages, and how the sessions are.
 *
 * Nothing is read while nobody listens. Messages are read forward from the log like everywhere; sessions leave no mark
 * there, so they are looked at.
 */
import type { Accounts } from '../accounts/accounts.ts'
import type { Message } from '../model/message.ts'
import type { SessionWithUsers } from '../model/session.ts'
import { backoffMs, turns } from '../platform/clock.ts'
import type { Runtime } from '../platform/runtime.ts'
import { linked } from '../platform/signals.ts'
import type { Views } from '../receive/view.ts'
import type { StoredMessage } from '../storage/messages.ts'
import type { Conversations, MessageLog } from '../storage/store.ts'

/**
 * Why a message is told of: it was received, it is being sent or waits for it, the status of a sent one is another, or
 * it is an old one that was brought over from another program.
 */
export type MessageNews = 'received' | 'sent' | 'settled' | 'past'

export interface ChangeListener {
  /** Each message that is stored from now on, and again a sent one whose status changes. */
  message?(message: Message, news: MessageNews): void
  /** All sessions as they are and as they were, when anything but the time of a poll is another; that every 15 s. */
  sessions?(now: readonly SessionWithUsers[], before: readonly SessionWithUsers[]): void
}

export interface ChangePorts {
  store: { log: MessageLog; conversations: Pick<Conversations, 'open'> }
  views: Views
  accounts: Pick<Accounts, 'withUsers'>
}

/** Rows read at a time, and characters of them. */
const readRows = 100
const readCharacters = 1024 * 1024
/** Without any sign the log is looked at after this. */
const lookEveryMs = 30_000
/** As many sends without an end are watched; the oldest ones of more go unwatched. */
const watchedSends = 1000
const lookAtSessionsMs = 1000
/** After a message, which may be somebody's first: by then its context token is written, and a backlog is one look. */
const lookAfterMessageMs = 100
/** That a session was polled again is news only so often. */
const pollNewsMs = 15_000

export class Changes {
  readonly #ports: ChangePorts
  readonly #runtime: Runtime
  readonly #listeners = new Set<ChangeListener>()
  #following: AbortController | undefined
  /** Aborts when the sessions are to be looked at before their time. */
  #nudge = new AbortController()

  constructor(ports: ChangePorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
    runtime.closing.addEventListener('abort', () => this.#following?.abort())
  }

  /** Tells `listener` of everything from now on. @returns how to stop it; safe to call twice */
  subscribe(listener: ChangeListener): () => void {
    // Two who bring the same listener are still two.
    const own = { ...listener }
    this.#listeners.add(own)
    if (!this.#following) {
      const following = new AbortController()
      this.#following = following
      if (this.#runtime.closing.aborted) following.abort()
      void this.#followLog(following.signal)
      void this.#followSessions(following.signal)
    }
    return () => {
      if (!this.#listeners.delete(own) || this.#listeners.size > 0) return
      this.#following?.abort()
      this.#following = undefined
    }
  }

  async #followLog(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#runtime
    const { store, views } = this.#ports
    let position: number | undefined
    /** Sent rows that may still change, with their status as told. */
    const open = new Map<number, string>()
    for (let failures = 0; !signal.aborted; ) {
      try {
        if (position === undefined) {
          position = await store.log.head()
          for (const row of await store.conversations.open()) open.set(row.id, stateOf(row))
        }
        const seen = await store.log.head()
        await this.#settled(open, signal)
        const rows = await store.log.after(position, { limit: readRows, characters: readCharacters })
        const turn = turns(clock)
        for (const row of rows) {
          await turn()
          const message = await views.of(row)
          if (signal.aborted) return
          position = row.id
          if (isOpen(row)) open.set(row.id, stateOf(row))
          const news = row.past ? 'past' : row.direction
          if (news === 'received') this.#nudge.abort()
          this.#tell(listener => listener.message, message, news)
        }
        for (const id of [...open.keys()].slice(0, -watchedSends)) open.delete(id)
        failures = 0
        if (rows.length === 0) await store.log.wait(seen, lookEveryMs, signal)
        // A long backlog makes way for others.
        else await clock.sleep(0)
      } catch (error) {
        if (signal.aborted) return
        const waitMs = backoffMs(failures++, 250, 10_000)
        log.warn('changes cannot be read', { error, retryInMs: Math.round(waitMs) })
        await clock.sleep(waitMs, signal)
      }
    }
  }

  /** Tells of sent rows whose status is another one now. */
  async #settled(open: Map<number, string>, signal: AbortSignal): Promise<void> {
    if (open.size === 0) return
    const { store, views } = this.#ports
    const still = new Map((await store.conversations.open()).map(row => [row.id, stateOf(row)]))
    const others = [...open].filter(([id, before]) => !still.has(id) || still.get(id) !== before)
    const rows = await store.log.byIds(others.map(([id]) => id))
    const found = new Map(rows.map(row => [row.id, row]))
    for (const [id, before] of others) {
      const row = found.get(id)
      if (row && stateOf(row) === before) continue
      const message = row && (await views.of(row))
      if (signal.aborted) return
      if (!row || !isOpen(row)) open.delete(id)
      else open.set(id, stateOf(row))
      if (message) this.#tell(listener => listener.message, message, 'settled')
    }
  }

  async #followSessions(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#runtime
    const { accounts } = this.#ports
    let before: { sessions: SessionWithUsers[]; judged: string } | undefined
    let pollsToldAt = clock.monotonic()
    while (!signal.aborted) {
      this.#nudge = new AbortController()
      try {
        const found = await accounts.withUsers()
        if (signal.aborted) return
        const now = { sessions: found, judged: judgedOf(found) }
        const pollsAreNews = clock.monotonic() - pollsToldAt > pollNewsMs
        if (pollsAreNews) pollsToldAt = clock.monotonic()
        if (before && (pollsAreNews || now.judged !== before.judged))
          this.#tell(listener => listener.sessions, now.sessions, before.sessions)
        before = now
      } catch (error) {
        if (!signal.aborted) log.warn('changes of sessions cannot be read', { error })
      }
      using either = linked(signal, this.#nudge.signal)
      await clock.sleep(lookAtSessionsMs, either.signal)
      if (this.#nudge.signal.aborted) await clock.sleep(lookAfterMessageMs, signal)
    }
  }

  #tell<T extends unknown[]>(
    ear: (listener: ChangeListener) => ((...news: T) => void) | undefined,
    ...news: T
  ) {
    for (const listener of [...this.#listeners]) {
      try {
        ear(listener)?.(...news)
      } catch (error) {
        this.#runtime.log.error('a listener failed', { error })
      }
    }
  }
}

/** What of a sent row is news when it is another: one may go on waiting after a person said yes. */
const stateOf = (row: { status?: string; reason_code?: string | null }) =>
  `${row.status} ${row.reason_code ?? ''}`

const isOpen = ({ status }: StoredMessage) => status === 'queued' || status === 'sending'

/** What of the sessions is news whenever it changes. */
const judgedOf = (sessions: SessionWithUsers[]): string =>
  JSON.stringify(sessions, (key, value) => (key === 'last_poll_at' ? 0 : value))
