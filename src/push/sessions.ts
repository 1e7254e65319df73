/**
 * Adds the events `session.status` and `session.muted` to the event log. Any process may change the files of
 * sessions. So the process that polls WeChat compares them with the newest events in the log: when it becomes
 * the poller, and after each change of the files.
 */
import type { SessionChange } from '../model/event.ts'
import { type Session, standingOf } from '../model/session.ts'
import type { Runtime } from '../platform/runtime.ts'
import { linked } from '../platform/signals.ts'
import type { Events, NewEvent } from '../storage/events.ts'
import type { SessionRecord, SessionSight } from '../storage/state.ts'

export interface SessionEventPorts {
  events: Pick<Events, 'after' | 'append'>
  sessions: Pick<SessionSight, 'changedSince'>
  /** Converts records to the public form of sessions. */
  shown(records: readonly SessionRecord[]): Promise<readonly Session[]>
  /** Whether this process polls. */
  polls(): boolean
}

/** Interval between checks. */
const lookEveryMs = 1000
const pageEvents = 1000

/** Writes the events of sessions. */
export class SessionEvents {
  readonly #ports: SessionEventPorts
  readonly #runtime: Runtime
  /** By name, the state in each session's newest event. Sessions that logged out are not in it. */
  readonly #told = new Map<string, Pick<Session, 'status' | 'bot_id' | 'muted_since'>>()
  /** `#told` includes the log up to here. */
  #cursor = ''
  /** By name, the newest records. */
  readonly #known = new Map<string, SessionRecord>()
  #revision: number | undefined
  /** Names of sessions that may differ from their newest event. */
  readonly #unsure = new Set<string>()
  /** True if the log has all changes. */
  #isTold = false
  /** Aborted to check before the interval is over. */
  #nudge = new AbortController()
  #running: Promise<void> | undefined

  constructor(ports: SessionEventPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
  }

  start(): void {
    if (this.#running) return
    for (const event of ['sessionsChanged', 'roleChanged'] as const)
      this.#runtime.bus.on(event, () => this.#nudge.abort())
    this.#running = this.#run()
  }

  /** Resolves when no more events are written, after the gateway started to close. */
  async closed(): Promise<void> {
    await this.#running
  }

  async #run(): Promise<void> {
    const { clock, closing, log } = this.#runtime
    while (!closing.aborted) {
      this.#nudge = new AbortController()
      try {
        if (this.#ports.polls()) await this.#look()
        else this.#isTold = false
      } catch (error) {
        if (!closing.aborted) log.warn('session events cannot be written for now', { error })
      }
      using either = linked(closing, this.#nudge.signal)
      await clock.sleep(lookEveryMs, either.signal)
    }
  }

  async #look(): Promise<void> {
    const { events, sessions } = this.#ports
    const { changed, revision } = await sessions.changedSince(this.#revision)
    if (changed.size === 0 && this.#isTold) return
    this.#isTold = false
    this.#revision = revision
    for (const [name, record] of changed) {
      this.#unsure.add(name)
      if (record) this.#known.set(name, record)
      else this.#known.delete(name)
    }
    await this.#read()
    const changes = this.#changes()
    const muted = this.#muted(changes)
    if (changes.length + muted.length > 0) {
      const records = [...changes, ...muted].flatMap(({ name }) => this.#known.get(name) ?? [])
      const listed = new Map((await this.#ports.shown(records)).map(session => [session.name, session]))
      const news = changes.map(
        (change): SessionChange => ({
          ...(listed.get(change.name) ?? gone),
          ...change,
          connected: change.status === 'connected' || change.status === 'lapsed',
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
      await this.#read()
    }
    // A removed session stays in the list: its logout may be written later, once its bot is gone too.
    for (const name of this.#unsure)
      if (this.#known.get(name) || !this.#told.has(name)) this.#unsure.delete(name)
    this.#isTold = true
  }

  /** Reads the events that any process added since the last read. */
  async #read(): Promise<void> {
    for (;;) {
      const filter = { types: ['session.status', 'session.muted'], limit: pageEvents } as const
      const { cursor, events } = await this.#ports.events.after(this.#cursor, filter)
      for (const { data } of events) {
        // An event `session.muted` has no `change`.
        const published = data as Session & Partial<SessionChange>
        const { name, change, previous_name } = published
        if (previous_name !== undefined) this.#told.delete(previous_name)
        if (change === 'logged_out') this.#told.delete(name)
        else this.#told.set(name, published)
        this.#unsure.add(name)
      }
      if (cursor === this.#cursor) return
      this.#cursor = cursor
    }
  }

  /** Compares the sessions with their newest events. Returns the changes that have no event yet. */
  #changes() {
    const names = [...this.#unsure]
    const isRemoved = (name: string) => this.#unsure.has(name) && !this.#known.get(name)
    const removed = names.some(isRemoved) ? [...this.#told.keys()].filter(isRemoved) : []
    const changes: Pick<SessionChange, 'name' | 'status' | 'bot_id' | 'change' | 'previous_name'>[] = []
    for (const { name, bot } of names.flatMap(name => this.#known.get(name) ?? [])) {
      const status = bot ? standingOf(bot) : 'disconnected'
      const published = this.#told.get(name)
      if (published?.status === status && published.bot_id === bot?.bot_id) continue
      const previous = removed.find(other => bot && this.#told.get(other)?.bot_id === bot.bot_id)
      if (published || previous === undefined) changes.push({ name, status, change: status })
      else changes.push({ name, status, change: 'renamed', previous_name: previous })
    }
    for (const name of removed) {
      const bot_id = this.#told.get(name)?.bot_id
      // The bot has another name now: this was a rename, which has its own event.
      if (bot_id !== undefined && this.#known.values().some(({ bot }) => bot?.bot_id === bot_id)) continue
      changes.push({ name, ...(bot_id && { bot_id }), status: 'disconnected', change: 'logged_out' })
    }
    return changes
  }

  /** Returns the sessions whose mute state differs from their newest event. */
  #muted(changes: readonly Pick<SessionChange, 'name' | 'previous_name'>[]): SessionRecord[] {
    const previousNames = new Map(changes.map(({ name, previous_name }) => [name, previous_name]))
    return [...this.#unsure]
      .flatMap(name => this.#known.get(name) ?? [])
      .filter(({ name, bot }) => {
        const published = this.#told.get(previousNames.get(name) ?? name)
        return bot && (bot.muted_at === undefined) !== (published?.muted_since === undefined)
      })
  }
}

/** The fields of a session that logged out. */
const gone = { is_default: false, user_count: 0 }
