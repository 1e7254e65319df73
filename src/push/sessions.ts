/**
 * Tells of sessions in the event log. How they are stands in files that any process may change, so it is compared with what
 * was told last: by the process that polls, when it begins to, and whenever the files are others.
 */
import type { SessionChange } from '../model/event.ts'
import { type Session, standingOf } from '../model/session.ts'
import type { Runtime } from '../platform/runtime.ts'
import { linked } from '../platform/signals.ts'
import type { Events } from '../storage/events.ts'
import type { SessionRecord, SessionSight } from '../storage/state.ts'

export interface SessionEventPorts {
  events: Pick<Events, 'after' | 'append'>
  sessions: Pick<SessionSight, 'list'>
  /** As `sessions` shows them. */
  shown(): Promise<readonly Session[]>
  /** Whether this process polls. */
  polls(): boolean
}

const lookEveryMs = 1000
const pageEvents = 1000

export class SessionEvents {
  readonly #ports: SessionEventPorts
  readonly #runtime: Runtime
  /** By name, how each was told of last; not those that were logged out. */
  readonly #told = new Map<string, Pick<SessionChange, 'status' | 'bot_id'>>()
  /** Up to here the log was read for it. */
  #cursor = ''
  /** What was found the same as told. */
  #seen: readonly SessionRecord[] | undefined
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
        else this.#seen = undefined
      } catch (error) {
        if (!closing.aborted) log.warn('what became of sessions is not told for now', { error })
      }
      using either = linked(closing, this.#nudge.signal)
      await clock.sleep(lookEveryMs, either.signal)
    }
  }

  async #look(): Promise<void> {
    const { events, sessions, shown } = this.#ports
    const records = await sessions.list()
    if (records === this.#seen) return
    await this.#read()
    const changes = this.#changes(records)
    if (changes.length > 0) {
      const listed = new Map((await shown()).map(session => [session.name, session]))
      const news = changes.map(
        (change): SessionChange => ({
          ...(listed.get(change.name) ?? gone),
          ...{ ...change, connected: change.status === 'connected' || change.status === 'lapsed' },
        }),
      )
      const written = news.map(data => ({ type: 'session.status', session: data.name, data }) as const)
      // Another process was faster: compared anew the next time.
      if (!(await events.append(written, this.#cursor))) return
      await this.#read()
    }
    this.#seen = records
  }

  /** Takes in what was told since, by whatever process. */
  async #read(): Promise<void> {
    for (;;) {
      const wanted = { types: ['session.status'], limit: pageEvents } as const
      const { cursor, events } = await this.#ports.events.after(this.#cursor, wanted)
      for (const { data } of events) {
        const { name, bot_id, change, previous_name, status } = data as SessionChange
        if (previous_name !== undefined) this.#told.delete(previous_name)
        if (change === 'logged_out') this.#told.delete(name)
        else this.#told.set(name, { status, ...(bot_id !== undefined && { bot_id }) })
      }
      if (cursor === this.#cursor) return
      this.#cursor = cursor
    }
  }

  #changes(records: readonly SessionRecord[]) {
    const now = new Map(records.map(({ name, bot }) => [name, bot]))
    const bots = new Set(records.map(({ bot }) => bot?.bot_id))
    const left = new Map([...this.#told].filter(([name]) => !now.has(name)))
    const changes: Pick<SessionChange, 'name' | 'status' | 'bot_id' | 'change' | 'previous_name'>[] = []
    for (const [name, bot] of now) {
      const status = bot ? standingOf(bot) : 'disconnected'
      const told = this.#told.get(name)
      if (told?.status === status && told.bot_id === bot?.bot_id) continue
      const [before] = [...left].find(([, { bot_id }]) => bot && bot_id === bot.bot_id) ?? []
      if (told || before === undefined) changes.push({ name, status, change: status })
      else changes.push({ name, status, change: 'renamed', previous_name: before })
    }
    // Of one whose bot goes by another name that was told.
    for (const [name, { bot_id }] of left)
      if (bot_id === undefined || !bots.has(bot_id))
        changes.push({ name, ...(bot_id && { bot_id }), status: 'disconnected', change: 'logged_out' })
    return changes
  }
}

const gone = { is_default: false, user_count: 0 }
