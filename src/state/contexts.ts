/**
 * The right to answer: per session and user the newest context token, when the user last wrote, and how much of the
 * quota is used. Kept in `<session>/contexts.json`, merged per user under the data lock, never overwritten blind.
 */
import { SvcError } from '../model/error.ts'
import type { UserContext } from '../model/session.ts'
import { errorCodeOf, setAside, writeDurably } from '../platform/files.ts'
import type { FileLock } from '../platform/lock.ts'
import type { Log } from '../platform/log.ts'
import { JsonFiles, type JsonObject } from './json-file.ts'
import { type Sessions, serialized } from './sessions.ts'
import { told } from './trouble.ts'
import { TurnCache } from './turn-cache.ts'

/** One inbound message's effect: the user wrote, and this token answers. */
export interface Inbound {
  user_id: string
  token?: string
  /** Unix ms. */
  received_at: number
}

/** Whether units were set apart; `context` is the user's state after (or, refused, as it is). */
export type Reservation =
  | { ok: true; context: UserContext }
  | { ok: false; why: 'window_closed' | 'quota_exhausted'; context: UserContext }

type Users = ReadonlyMap<string, UserContext>
const nobody: Users = new Map()

export class Contexts {
  readonly #sessions: Sessions
  readonly #lock: FileLock
  readonly #log: Log
  readonly #files = new JsonFiles(parseContexts)
  readonly #known = new TurnCache<Users>()

  constructor(options: { sessions: Sessions; lock: FileLock; log: Log }) {
    this.#sessions = options.sessions
    this.#lock = options.lock
    this.#log = options.log
  }

  /** Everybody known to a session, as the file stands now. Takes no lock. */
  async users(session: string): Promise<Users> {
    return this.known(session)
  }

  /** The same at once; an unreadable file counts as empty and is set aside by the next write. */
  known(session: string): Users {
    return this.#known.get(session, () => {
      const found = this.#files.read(this.#sessions.contextsPath(session))
      return found.kind === 'read' ? found.value : nobody
    })
  }

  /**
   * Sets `count` units of the quota apart, before anything is sent: a crash between costs units, the other order could
   * cost a double send.
   *
   * @throws SvcError `session_not_found` when the session was logged out meanwhile, `store_unavailable` when the file
   *   cannot be written
   */
  async reserve(
    session: string,
    user: string,
    count: number,
    rules: { limit: number; windowMs: number; now: number },
  ): Promise<Reservation> {
    return this.#change(session, users => {
      const before = users.get(user) ?? { used: 0, first_seen: rules.now }
      if (before.received_at !== undefined && rules.now - before.received_at >= rules.windowMs) {
        return { ok: false, why: 'window_closed', context: before }
      }
      if (before.used + count > rules.limit) return { ok: false, why: 'quota_exhausted', context: before }
      const context = { ...before, used: before.used + count }
      users.set(user, context)
      return { ok: true, context }
    })
  }

  /** Returns units that certainly were not spent, unless the user wrote meanwhile (which set the count back anyway). */
  async giveBack(
    session: string,
    user: string,
    count: number,
    reservedAt: number | undefined,
  ): Promise<void> {
    await this.#change(session, users => {
      const context = users.get(user)
      if (!context || context.received_at !== reservedAt) return
      users.set(user, { ...context, used: Math.max(0, context.used - count) })
    })
  }

  async markSent(session: string, user: string, at: number): Promise<void> {
    await this.#change(session, users => {
      const context = users.get(user)
      if (context) users.set(user, { ...context, last_sent_at: at })
    })
  }

  /**
   * The text of contexts.json after these messages; undefined when they change nothing. For a writer that holds the
   * data lock and replaces it together with the cursor.
   */
  async merged(session: string, inbound: readonly Inbound[]): Promise<string | undefined> {
    if (inbound.length === 0) return undefined
    const users = await this.#fresh(session)
    let changed = false
    for (const { user_id, token, received_at } of inbound) {
      const before = users.get(user_id)
      if (before?.received_at !== undefined && before.received_at > received_at) continue
      changed = true
      const kept = token ?? before?.token
      users.set(user_id, {
        ...before,
        ...(kept !== undefined && { token: kept }),
        received_at,
        used: 0,
        first_seen: before?.first_seen ?? received_at,
      })
    }
    return changed ? textOf(users) : undefined
  }

  /** A file was replaced by this process: whoever looks now is to see it. */
  written(): void {
    this.#known.forget()
  }

  /** Another bot: its tokens, windows and quotas begin anew; when a user was first seen stays. Under the data lock. */
  async forget(session: string): Promise<void> {
    const users = await this.#fresh(session)
    if (users.size === 0) return
    const kept = [...users].map(([user, { first_seen }]) => [user, { used: 0, first_seen }] as const)
    await writeDurably(this.#sessions.contextsPath(session), textOf(new Map(kept)))
    this.written()
  }

  async #change<T>(session: string, change: (users: Map<string, UserContext>) => T): Promise<T> {
    const write = async () => {
      const users = await this.#fresh(session)
      const before = textOf(users)
      const result = change(users)
      const after = textOf(users)
      if (after !== before) {
        try {
          await writeDurably(this.#sessions.contextsPath(session), after)
          this.written()
        } catch (error) {
          if (errorCodeOf(error) !== 'ENOENT') throw error
          throw new SvcError('session_not_found', `session "${session}" was logged out meanwhile`, {
            cause: error,
          })
        }
      }
      return result
    }
    return told(() => this.#lock.run(write))
  }

  /** A copy to change. A file that does not parse is set aside first: only windows and tokens are lost with it. */
  async #fresh(session: string): Promise<Map<string, UserContext>> {
    const path = this.#sessions.contextsPath(session)
    const found = this.#files.read(path)
    if (found.kind === 'damaged') {
      const aside = await setAside(path)
      this.#log.error('contexts.json does not parse; set aside, users must write again before answers', {
        session,
        aside,
      })
    }
    return new Map(found.kind === 'read' ? found.value : nobody)
  }
}

const textOf = (users: Users) => serialized(Object.fromEntries(users))

function parseContexts(fields: JsonObject): Users {
  const users = new Map<string, UserContext>()
  for (const [user, value] of Object.entries(fields)) {
    // WeiLink and hand-made files hold a bare token.
    const entry = typeof value === 'string' ? { token: value } : value
    if (typeof entry !== 'object' || entry === null) continue
    const { token, received_at, used, last_sent_at, first_seen } = entry as Partial<
      Record<keyof UserContext, unknown>
    >
    const time = (at: unknown) => (Number.isSafeInteger(at) ? (at as number) : undefined)
    const context: UserContext = { used: time(used) ?? 0, first_seen: time(first_seen) ?? 0 }
    if (typeof token === 'string') context.token = token
    if (time(received_at) !== undefined) context.received_at = received_at as number
    if (time(last_sent_at) !== undefined) context.last_sent_at = last_sent_at as number
    users.set(user, context)
  }
  return users
}
