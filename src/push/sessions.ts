/**
 * Tells of sessions in the event log. How they are stands in files that any process may change, so it is compared with what
 * was told last: by the process that polls, when it begins to, and whenever the files are others.
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
  /** These as `sessions` shows them. */
  shown(records: readonly SessionRecord[]): Promise<readonly Session[]>
  /** Whether this process polls. */
  polls(): boolean
}

const lookEveryMs = 1000
const pageEvents = 1000

export class SessionEvents {
  readonly #ports: SessionEventPorts
  readonly #runtime: Runtime
  /** By name, how each was told of last; not those that were logged out. */
  readonly #told = new Map<string, Pick<Session, 'status' | 'bot_id' | 'muted_since'>>()
  /** Up to here the log was read for it. */
  #cursor = ''
  /** By name, as they were looked at last. */
  readonly #known = new Map<string, SessionRecord>()
  #revision: number | undefined
  /** Names of those that may be other than told. */
  readonly #unsure = new Set<string>()
  /** All is as it was told. */
  #isTold = false
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

  /** Resolves when nothing is written any more, after the gateway began to close. */
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
        if (!closing.aborted) log.warn('what became of sessions is not told for now', { error })
      }
      using either = linked(closing, this.#nudge.signal)
      await clock.sleep(lookEveryMs, either.signal)
    }
  }

  async #look(): Promise<void> {
    const { events, sessions, shown } = this.#ports
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
      const there = [...changes, ...muted].flatMap(({ name }) => this.#known.get(name) ?? [])
      const listed = new Map((await shown(there)).map(session => [session.name, session]))
      const news = changes.map(
        (change): SessionChange => ({
          ...(listed.get(change.name) ?? gone),
          ...{ ...change, connected: change.status === 'connected' || change.status === 'lapsed' },
        }),
      )
      const written: NewEvent[] = [
        ...news.map(data => ({ type: 'session.status', session: data.name, data }) as const),
        ...muted.map(
          ({ name }) => ({ type: 'session.muted', session: name, data: listed.get(name)! }) as const,
        ),
      ]
      // Another process was faster: compared anew the next time.
      if (!(await events.append(written, this.#cursor))) return
      await this.#read()
    }
    // One that is gone may be told of later, when its bot is gone too.
    for (const name of this.#unsure)
      if (this.#known.get(name) || !this.#told.has(name)) this.#unsure.delete(name)
    this.#isTold = true
  }

  /** Takes in what was told since, by whatever process. */
  async #read(): Promise<void> {
    for (;;) {
      const wanted = { types: ['session.status', 'session.muted'], limit: pageEvents } as const
      const { cursor, events } = await this.#ports.events.after(this.#cursor, wanted)
      for (const { data } of events) {
        // Of a session that is muted, or no longer, there is no `change`.
        const told = data as Session & Partial<SessionChange>
        const { name, change, previous_name } = told
        if (previous_name !== undefined) this.#told.delete(previous_name)
        if (change === 'logged_out') this.#told.delete(name)
        else this.#told.set(name, told)
        this.#unsure.add(name)
      }
      if (cursor === this.#cursor) return
      this.#cursor = cursor
    }
  }

  #changes() {
    const names = [...this.#unsure]
    const isLeft = (name: string) => this.#unsure.has(name) && !this.#known.get(name)
    const left = names.some(isLeft) ? [...this.#told.keys()].filter(isLeft) : []
    const changes: Pick<SessionChange, 'name' | 'status' | 'bot_id' | 'change' | 'previous_name'>[] = []
    for (const { name, bot } of names.flatMap(name => this.#known.get(name) ?? [])) {
      const status = bot ? standingOf(bot) : 'disconnected'
      const told = this.#told.get(name)
      if (told?.status === status && told.bot_id === bot?.bot_id) continue
      const before = left.find(one => bot && this.#told.get(one)?.bot_id === bot.bot_id)
      if (told || before === undefined) changes.push({ name, status, change: status })
      else changes.push({ name, status, change: 'renamed', previous_name: before })
    }
    for (const name of left) {
      const bot_id = this.#told.get(name)?.bot_id
      // Of one whose bot goes by another name that was told.
      if (bot_id !== undefined && this.#known.values().some(({ bot }) => bot?.bot_id === bot_id)) continue
      changes.push({ name, ...(bot_id && { bot_id }), status: 'disconnected', change: 'logged_out' })
    }
    return changes
  }

  /** Sessions that are muted and were not as they were told of last, or the reverse. */
  #muted(changes: readonly Pick<SessionChange, 'name' | 'previous_name'>[]): SessionRecord[] {
    const before = new Map(changes.map(({ name, previous_name }) => [name, previous_name]))
    return [...this.#unsure]
      .flatMap(name => this.#known.get(name) ?? [])
      .filter(({ name, bot }) => {
        const told = this.#told.get(before.get(name) ?? name)
        return bot && (bot.muted_at === undefined) !== (told?.muted_since === undefined)
      })
  }
}

const gone = { is_default: false, user_count: 0 }
