/**
 * Keeps the list of all sessions with their users up to date. A check costs only what changed since the
 * last one.
 */
import type { BotInfo, Session, SessionWithUsers } from '../model/session.ts'
import type { Clock } from '../platform/clock.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { SessionReader, SessionRecord } from '../storage/state.ts'

/** The part of `Accounts` that is watched. */
export interface WatchPorts {
  clock: Clock
  sessions: Pick<SessionReader, 'listChangedSince'>
  /** Returns the names with a login under way. */
  pending(): Promise<ReadonlySet<string>>
  /** Returns the time of the last poll in Unix ms. */
  lastPoll(bot: BotInfo): number | undefined
  defaultName(): Promise<string>
  countSuspects(): Promise<ReadonlyMap<string, number> | undefined>
  sortRecords(records: readonly SessionRecord[]): Promise<SessionRecord[]>
  readWithUsers(records: readonly SessionRecord[]): Promise<{ session: SessionWithUsers; due: number }[]>
}

interface WatchedSession {
  session: SessionWithUsers
  /** Unix ms at which it must be checked again, because it also changes with time. */
  due: number
}

/**
 * A message's event may come before its user's files are written. So the session is checked this many
 * times.
 */
const checksAfterMessage = 3
/** What a check reads of all sessions together. */
interface Checked {
  /** The revision of the records. */
  readonly revision?: number
  /** Names with a login under way. */
  readonly pending: ReadonlySet<string>
  /** Name of the default session. */
  readonly chosen?: string
  readonly suspects: ReadonlyMap<string, number>
}

const never = Number.POSITIVE_INFINITY

export class SessionWatch extends RoomPart<WatchPorts> {
  readonly #records = new Map<string, SessionRecord>()
  readonly #watched = new Map<string, WatchedSession>()
  #last: Checked = { pending: new Set(), suspects: new Map() }
  #listed: readonly SessionWithUsers[] = []
  /** Whether something differs from `#listed`. */
  #isOutdated = false
  /** Names of sessions with recent messages, and how often each is still checked. */
  readonly #touched = new Map<string, number>()
  /** Unix ms of the last check, and of the time when the next session is due. */
  #times = { checked: 0, due: never }

  /** Reports that a message of a session came or changed. */
  touch(session: string): void {
    this.#touched.set(session, checksAfterMessage)
  }

  /**
   * Checks the sessions. @returns whether anything except the time of a poll changed since the last check
   */
  async check(): Promise<boolean> {
    this.#isOutdated = (await this.#refresh(await this.#findUnsure())) || this.#isOutdated
    if (!this.#isOutdated) return false
    this.#listed = await this.#listInOrder()
    this.#isOutdated = false
    return true
  }

  /** Returns all sessions as of the last check: the default one first, then the oldest first. */
  sessions(): SessionWithUsers[] {
    return this.#listed.map(session => {
      const bot = this.#records.get(session.name)?.bot
      const last_poll_at = bot && this.ports.lastPoll(bot)
      return last_poll_at === session.last_poll_at ? session : { ...session, last_poll_at }
    })
  }

  /** Returns the names of the sessions that may have changed. */
  async #findUnsure(): Promise<Set<string>> {
    const now = this.ports.clock.now()
    const last = this.#last
    const { changed, revision } = await this.ports.sessions.listChangedSince(last.revision)
    const pending = await this.ports.pending()
    const chosen = await this.ports.defaultName()
    const suspects = (await this.ports.countSuspects()) ?? last.suspects
    for (const [name, record] of changed) {
      this.#touched.set(name, this.#touched.get(name) ?? 1)
      if (record) this.#records.set(name, record)
      else this.#records.delete(name)
    }
    const unsure = new Set([...this.#touched.keys(), ...last.pending.symmetricDifference(pending)])
    for (const name of last.chosen === chosen ? [] : [last.chosen, chosen]) unsure.add(name ?? '')
    for (const name of new Set([...last.suspects.keys(), ...suspects.keys()]))
      if (last.suspects.get(name) !== suspects.get(name)) unsure.add(name)
    // If the clock was set back, all are due.
    const isBack = now < this.#times.checked
    if (isBack || now >= this.#times.due) {
      this.#times.due = never
      for (const [name, { due }] of this.#watched)
        if (isBack || due <= now) unsure.add(name)
        else this.#times.due = Math.min(this.#times.due, due)
    }
    for (const name of unsure) if (!this.#touched.has(name)) this.#touched.set(name, 1)
    this.#times.checked = now
    this.#last = { revision, pending, chosen, suspects }
    return unsure
  }

  /** Reads these sessions again. @returns whether one changed */
  async #refresh(unsure: ReadonlySet<string>): Promise<boolean> {
    if (unsure.size === 0) return false
    const records = [...unsure].flatMap(name => this.#records.get(name) ?? [])
    const fresh = new Map((await this.ports.readWithUsers(records)).map(entry => [entry.session.name, entry]))
    let hasChanged = false
    for (const name of unsure) {
      const checksLeft = (this.#touched.get(name) ?? 1) - 1
      if (checksLeft > 0) this.#touched.set(name, checksLeft)
      else this.#touched.delete(name)
      const before = this.#watched.get(name)
      const now = fresh.get(name) ?? (this.#last.pending.has(name) ? loginOnly(name) : undefined)
      if (now) this.#watched.set(name, now)
      else this.#watched.delete(name)
      this.#times.due = Math.min(this.#times.due, now?.due ?? never)
      hasChanged ||= comparableOf(before) !== comparableOf(now)
    }
    return hasChanged
  }

  async #listInOrder(): Promise<SessionWithUsers[]> {
    const records = await this.ports.sortRecords([...this.#records.values()])
    const pending = [...this.#last.pending].filter(name => !this.#records.has(name))
    return [...records.map(({ name }) => name), ...pending].flatMap(
      name => this.#watched.get(name)?.session ?? [],
    )
  }
}

/** Returns a session that has nothing but a login in progress. */
export const loggingInSession = (name: string): Session => ({
  name,
  connected: false,
  status: 'logging_in',
  is_default: false,
  user_count: 0,
})

const loginOnly = (name: string): WatchedSession => ({
  session: { ...loggingInSession(name), users: [] },
  due: never,
})

const comparableOf = (shown: WatchedSession | undefined): string =>
  JSON.stringify(shown && { ...shown.session, last_poll_at: 0 })
