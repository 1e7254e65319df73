/** Which messaging accounts there are, how they are, and the changes a caller may make to them. */
import { defined } from '../ilink/fields.ts'
import { badArgument, isSvcError, SvcError } from '../model/error.ts'
import { suspectSpanMs } from '../model/message.ts'
import {
  type BotInfo,
  defaultSessionName,
  type Marks,
  type Session,
  type SessionCheck,
  type SessionUser,
  type SessionWithUsers,
  type SilentSession,
  sessionKey,
  sessionName,
  standingOf,
  type UserContext,
} from '../model/session.ts'
import type { Runtime } from '../platform/runtime.ts'
import type { Judge } from '../receive/judge.ts'
import type { Poller } from '../receive/poller.ts'
import type { SessionRecord, State } from '../storage/state.ts'
import type { Conversations } from '../storage/store.ts'
import type { Logins } from './logins.ts'
import { oneAtATime } from './one-at-a-time.ts'
import { type UserStore, usersOf } from './users.ts'

/** A session that can be polled and sent from. */
export interface ConnectedSession {
  name: string
  bot: BotInfo
}

export interface AccountPorts {
  state: Pick<State, 'sessions' | 'contexts'>
  store: UserStore & {
    durable: boolean
    conversations: Pick<Conversations, 'suspects'>
  }
  poller: Pick<Poller, 'lastPoll'>
  logins: Pick<Logins, 'cancel' | 'pending'>
  judge: Judge
}

export class Accounts {
  readonly #ports: AccountPorts
  readonly #runtime: Runtime
  /** The steps of logouts and renames never mix. */
  readonly #alone = oneAtATime()
  #silent: { of: readonly SessionRecord[]; silent: readonly SilentSession[] } | undefined
  #listed:
    | {
        of: Promise<readonly SessionRecord[]>
        pending: Promise<ReadonlySet<string>>
        sessions: Promise<readonly Session[]>
      }
    | undefined

  constructor(ports: AccountPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
  }

  /** Every session, the default one first, then the oldest first. Takes no lock. */
  async list(): Promise<Session[]> {
    // Each is one promise for all who look in the same turn of the event loop, and so is what they show.
    const of = this.#ports.state.sessions.list()
    const pending = this.#ports.logins.pending()
    if (this.#listed?.of !== of || this.#listed.pending !== pending)
      this.#listed = { of, pending, sessions: this.#all(Promise.all([pending, of])) }
    return [...(await this.#listed.sessions)]
  }

  async #all(looked: Promise<readonly [ReadonlySet<string>, unknown]>): Promise<Session[]> {
    const pending = new Set((await looked)[0])
    const listed = await this.shown(await this.#ordered(), pending)
    for (const { name } of listed) pending.delete(name)
    for (const name of pending) {
      listed.push({ name, connected: false, status: 'logging_in', is_default: false, user_count: 0 })
    }
    return listed
  }

  /** These as `list` shows them, in their order. */
  async shown(records: readonly SessionRecord[], pending?: ReadonlySet<string>): Promise<Session[]> {
    const { clock } = this.#runtime
    const { contexts } = this.#ports.state
    const { poller, store } = this.#ports
    // A log that fails is told of elsewhere, and hides no session.
    const since = clock.now() - suspectSpanMs
    const suspects = await store.conversations.suspects(since).catch(() => undefined)
    const first = await this.#first()
    const writers = await contexts.writers(records.map(({ name }) => name))
    return records.map(({ name, bot, damaged }): Session => {
      const status = bot ? standingOf(bot) : pending?.has(name) && !damaged ? 'logging_in' : 'disconnected'
      const { bot_id, user_id, created_at, failing_since }: Partial<BotInfo> = bot ?? {}
      const { poll_error, poll_error_code, poll_error_quote }: Marks = bot ?? {}
      return defined({
        ...{ name, bot_id, user_id, connected: status === 'connected' || status === 'lapsed', status },
        ...{ is_default: name === first, created_at, last_poll_at: bot && poller.lastPoll(bot) },
        ...{ failing_since, poll_error, poll_error_code, poll_error_quote },
        user_count: writers.get(name) ?? 0,
        suspect_count: suspects?.get(name),
      })
    })
  }

  /** Those that bring no messages, or may bring none, of the one named or of all. Cheap: recv asks each time. */
  async silent(only?: string): Promise<readonly SilentSession[]> {
    const { sessions } = this.#ports.state
    if (only !== undefined) {
      const record = await sessions.get(only)
      return record ? silentOf([record]) : []
    }
    const records = await sessions.list()
    // Of thousands the list stays the same array until one of them changes.
    if (records !== this.#silent?.of) this.#silent = { of: records, silent: silentOf(records) }
    return this.#silent.silent
  }

  /**
   * Who has written to a session, '' being the default one; who wrote last comes first. Takes no lock.
   *
   * @throws SvcError `session_not_found`
   */
  async users(name: string): Promise<SessionUser[]> {
    return this.#usersOf((await this.named(name)).name)
  }

  /** Every session with its users. Takes no lock. */
  async withUsers(): Promise<SessionWithUsers[]> {
    const listed = await this.list()
    return Promise.all(
      listed.map(async session => {
        const users = await this.#usersOf(session.name)
        return { ...session, user_count: users.length, users }
      }),
    )
  }

  #usersOf(session: string): Promise<SessionUser[]> {
    return usersOf(this.#ports, session, this.#runtime.clock.now())
  }

  /**
   * Asks WeChat whether a session works, '' being the default one.
   *
   * @throws SvcError `session_not_found`, `not_connected` when there is no login to ask with
   */
  async check(name: string): Promise<SessionCheck> {
    const { name: session, bot } = await this.named(name)
    if (!bot) throw new SvcError('not_connected', `session "${session}" is not connected`)
    const verdict = await this.#ports.judge.ask(session, bot)
    const after = (await this.#ports.state.sessions.get(session))?.bot
    return {
      ...{ session, status: after ? standingOf(after) : 'disconnected' },
      answered: verdict !== 'unanswered' && after?.bare_at === undefined,
      ...(after?.poll_error !== undefined && { poll_error: after.poll_error }),
    }
  }

  /** The first connected session in routing order: the default one, then the oldest first. */
  async first(): Promise<ConnectedSession | undefined> {
    const { sessions } = this.#ports.state
    const chosen = await sessions.defaultName()
    const records = chosen === undefined ? [] : [await sessions.get(chosen)]
    for (const record of [...records, ...(records.some(isConnected) ? [] : await this.#ordered())]) {
      if (isConnected(record)) return record
    }
    return undefined
  }

  /**
   * The sessions with credentials that have a context token for a user, in routing order; as their files stand now. Only
   * those are looked at that may know the user, of which the store tells where it is shared with the process that polls.
   */
  async knowing(user: string): Promise<(ConnectedSession & { context: UserContext })[]> {
    const { contexts, sessions } = this.#ports.state
    const knowing = await contexts.knowing(user)
    const found = await Promise.all([...knowing].map(name => sessions.get(name)))
    const once = [
      ...new Map(found.flatMap(record => (record ? [[record.name, record] as const] : []))).values(),
    ]
    const known: (ConnectedSession & { context: UserContext })[] = []
    for (const { name, bot } of await this.#inOrder(once)) {
      const context = bot && (await contexts.find(name, user))
      if (bot && context?.token !== undefined) known.push({ name, bot, context })
    }
    return known
  }

  /**
   * The session of that name, '' being the default one.
   *
   * @throws SvcError `session_not_found`
   */
  async named(name: string): Promise<SessionRecord> {
    const { sessions } = this.#ports.state
    const wanted = name === '' ? await this.#first() : sessionName(name)
    const record = await sessions.get(wanted)
    if (!record) throw new SvcError('session_not_found', `there is no session named "${wanted}"`)
    return record
  }

  /**
   * Removes the credentials of a session; its messages stay in the store. A login under way ends; of a session that
   * is only being logged in, that is all there is to do.
   */
  logout(name: string): Promise<{ success: true; session: string }> {
    return this.#alone(() => this.#logout(name))
  }

  async #logout(name: string): Promise<{ success: true; session: string }> {
    const { logins, state } = this.#ports
    const find = () =>
      this.named(name).catch(error => {
        if (isSvcError(error, 'session_not_found')) return undefined
        throw error
      })
    const wanted = (await find())?.name ?? sessionName(name === '' ? defaultSessionName : name)
    // Before the last look: a login that was faster has stored its session by then.
    const wasPending = await logins.cancel(wanted)
    const record = await find()
    if (!record && wasPending) return { success: true, session: wanted }
    const session = (record ?? (await this.named(name))).name
    await state.sessions.remove(session)
    this.#runtime.bus.tell('sessionsChanged')
    return { success: true, session }
  }

  rename(oldName: string, newName: string): Promise<{ success: true; old_name: string; new_name: string }> {
    return this.#alone(() => this.#rename(oldName, newName))
  }

  async #rename(
    oldName: string,
    newName: string,
  ): Promise<{ success: true; old_name: string; new_name: string }> {
    const record = await this.named(oldName)
    if (newName === '') {
      throw badArgument('new_name', 'expected a session name, got an empty text')
    }
    const target = sessionName(newName)
    const { sessions } = this.#ports.state
    const { logins } = this.#ports
    const key = sessionKey(target)
    if (
      key !== sessionKey(record.name) &&
      [...(await logins.pending())].some(name => sessionKey(name) === key)
    ) {
      // That login would put its own credentials over these.
      throw new SvcError('session_exists', `a login of "${target}" is under way`)
    }
    await logins.cancel(record.name)
    try {
      await sessions.rename(record.name, target)
    } finally {
      this.#runtime.bus.tell('sessionsChanged')
    }
    return { success: true, old_name: record.name, new_name: target }
  }

  setDefault(name: string): Promise<{ success: true; default_session: string }> {
    return this.#alone(async () => {
      const record = await this.named(name)
      await this.#ports.state.sessions.setDefault(record.name)
      return { success: true, default_session: record.name }
    })
  }

  /** The name of the default one, else of the oldest. */
  async #first(): Promise<string> {
    const { sessions } = this.#ports.state
    return (await sessions.defaultName()) ?? (await this.#ordered())[0]?.name ?? defaultSessionName
  }

  async #ordered(): Promise<SessionRecord[]> {
    return this.#inOrder(await this.#ports.state.sessions.list())
  }

  async #inOrder(records: readonly SessionRecord[]): Promise<SessionRecord[]> {
    if (records.length < 2) return [...records]
    const chosen = await this.#ports.state.sessions.defaultName()
    const age = (record: SessionRecord) => record.bot?.created_at ?? Number.MAX_SAFE_INTEGER
    return [...records].sort(
      (a, b) =>
        Number(b.name === chosen) - Number(a.name === chosen) ||
        age(a) - age(b) ||
        (a.name < b.name ? -1 : 1),
    )
  }
}

const isConnected = (record: SessionRecord | undefined): record is ConnectedSession =>
  record?.bot !== undefined && record.bot.expired_at === undefined

const silentOf = (records: readonly SessionRecord[]): SilentSession[] =>
  records.flatMap(({ name, bot }) => {
    const status = bot && standingOf(bot)
    return status && status !== 'connected' ? [{ name, status }] : []
  })
