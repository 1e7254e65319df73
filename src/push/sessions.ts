/**
 * Adds the events `session.status` and `session.muted` to the event log. Any process may change the files of
 * sessions. So the process that polls WeChat compares them with the newest events in the log: when it becomes
 * the poller, and after each change of the files.
 */
import type { SessionChange } from '../model/event.ts'
import { isConnected, type Session, sessionStatusOf } from '../model/session.ts'
import { RunningPart } from '../platform/runtime.ts'
import type { Repetition } from '../platform/tasks.ts'
import type { EventLog, NewEvent } from '../storage/events.ts'
import type { SessionReader, SessionRecord } from '../storage/state.ts'

export interface SessionEventPorts {
  events: Pick<EventLog, 'listAfter' | 'append'>
  sessions: Pick<SessionReader, 'listChangedSince'>
  /** Converts records to the public form of sessions. */
  toSessions(records: readonly SessionRecord[]): Promise<readonly Session[]>
  /** Whether this process polls. */
  isPolling(): boolean
}

/** Interval between checks. */
const pollIntervalMs = 1000
const pageEvents = 1000

/** Writes the events of sessions. */
export class SessionEventWriter extends RunningPart<SessionEventPorts> {
  /** State in each session's newest event, by name. Sessions that logged out are not in it. */
  readonly #published = new Map<string, Pick<Session, 'status' | 'bot_id' | 'muted_since'>>()
  /** `#published` includes the log up to here. */
  #cursor = ''
  /** The newest records, by name. */
  readonly #records = new Map<string, SessionRecord>()
  #revision: number | undefined
  /** Names of sessions that may differ from their newest event. */
  readonly #candidates = new Set<string>()
  /** True if the log has all changes. */
  #isUpToDate = false
  #running: Repetition | undefined

  start(): void {
    if (this.#running) return
    const { bus, closing: signal, log, tasks } = this.runtime
    const failure = 'session events cannot be written for now'
    this.#running = tasks.repeat(
      { name: 'session_events', everyMs: pollIntervalMs, failure, log, signal },
      async () => {
        if (this.ports.isPolling()) await this.#publishChanges()
        else this.#isUpToDate = false
      },
    )
    for (const event of ['sessionsChanged', 'roleChanged'] as const)
      bus.on(event, () => this.#running?.nudge())
  }

  /** Resolves when no more events are written, after the gateway started to close. */
  async waitForEnd(): Promise<void> {
    await this.#running?.done
  }

  async #publishChanges(): Promise<void> {
    const { events, sessions } = this.ports
    const { changed, revision } = await sessions.listChangedSince(this.#revision)
    if (changed.size === 0 && this.#isUpToDate) return
    this.#isUpToDate = false
    this.#revision = revision
    for (const [name, record] of changed) {
      this.#candidates.add(name)
      if (record) this.#records.set(name, record)
      else this.#records.delete(name)
    }
    await this.#readPublished()
    const changes = this.#findChanges()
    const muted = this.#findMuteChanges(changes)
    if (changes.length + muted.length > 0) {
      const records = [...changes, ...muted].flatMap(({ name }) => this.#records.get(name) ?? [])
      const listed = new Map((await this.ports.toSessions(records)).map(session => [session.name, session]))
      const news = changes.map(
        (change): SessionChange => ({
          ...(listed.get(change.name) ?? loggedOutFields),
          ...change,
          connected: isConnected(change.status),
        }),
      )
      const written: NewEvent[] = [
        ...news.map(data => ({ type: 'session.status', session: data.name, data }) as const),
        ...muted.map(
          ({ name }) => ({ type: 'session.muted', session: name, data: listed.get(name)! }) as const,
        ),
      ]
      // Another process was faster. The next check compares again.
      if (!(await events.append(written, this.#cursor))) return
      await this.#readPublished()
    }
    // A removed session stays in the list: its logout may be written later, once its bot is gone too.
    for (const name of this.#candidates)
      if (this.#records.get(name) || !this.#published.has(name)) this.#candidates.delete(name)
    this.#isUpToDate = true
  }

  /** Reads the events that any process added since the last read. */
  async #readPublished(): Promise<void> {
    for (;;) {
      const filter = { types: ['session.status', 'session.muted'], limit: pageEvents } as const
      const { cursor, events } = await this.ports.events.listAfter(this.#cursor, filter)
      for (const { data } of events) {
        // An event `session.muted` has no `change`.
        const published = data as Session & Partial<SessionChange>
        const { name, change, previous_name } = published
        if (previous_name !== undefined) this.#published.delete(previous_name)
        if (change === 'logged_out') this.#published.delete(name)
        else this.#published.set(name, published)
        this.#candidates.add(name)
      }
      if (cursor === this.#cursor) return
      this.#cursor = cursor
    }
  }

  /** Compares the sessions with their newest events. Returns the changes that have no event yet. */
  #findChanges() {
    const names = [...this.#candidates]
    const isRemoved = (name: string) => this.#candidates.has(name) && !this.#records.get(name)
    const removed = names.some(isRemoved) ? [...this.#published.keys()].filter(isRemoved) : []
    const changes: Pick<SessionChange, 'name' | 'status' | 'bot_id' | 'change' | 'previous_name'>[] = []
    for (const { name, bot } of names.flatMap(name => this.#records.get(name) ?? [])) {
      const status = sessionStatusOf(bot)
      const published = this.#published.get(name)
      if (published?.status === status && published.bot_id === bot?.bot_id) continue
      const previous = removed.find(other => bot && this.#published.get(other)?.bot_id === bot.bot_id)
      if (published || previous === undefined) changes.push({ name, status, change: status })
      else changes.push({ name, status, change: 'renamed', previous_name: previous })
    }
    for (const name of removed) {
      const bot_id = this.#published.get(name)?.bot_id
      // The bot has another name now: this was a rename, which has its own event.
      if (bot_id !== undefined && this.#records.values().some(({ bot }) => bot?.bot_id === bot_id)) continue
      changes.push({ name, ...(bot_id && { bot_id }), status: 'disconnected', change: 'logged_out' })
    }
    return changes
  }

  /** Returns the sessions whose mute state differs from their newest event. */
  #findMuteChanges(changes: readonly Pick<SessionChange, 'name' | 'previous_name'>[]): SessionRecord[] {
    const previousNames = new Map(changes.map(({ name, previous_name }) => [name, previous_name]))
    return [...this.#candidates]
      .flatMap(name => this.#records.get(name) ?? [])
      .filter(({ name, bot }) => {
        const published = this.#published.get(previousNames.get(name) ?? name)
        return bot && (bot.muted_at === undefined) !== (published?.muted_since === undefined)
      })
  }
}

/** The fields of a session that logged out. */
const loggedOutFields = { is_default: false, user_count: 0 }
