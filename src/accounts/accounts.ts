/** The messaging accounts (sessions): their list, their state, and the changes that callers may make. */
import type { Scope } from '../model/access.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { suspectSpanMs } from '../model/message.ts'
import {
  type BotInfo,
  defaultSessionName,
  isConnected,
  type Marks,
  mutedOf,
  normalizeSessionName,
  notConnectedError,
  type Receiving,
  type Session,
  type SessionCheck,
  type SessionUser,
  type SessionWithUsers,
  type SilentSession,
  sessionKeyOf,
  sessionNotFoundError,
  sessionStatusOf,
  type UserContext,
} from '../model/session.ts'
import { withoutUndefined } from '../platform/fields.ts'
import { createMutex } from '../platform/one-at-a-time.ts'
import { RunningPart } from '../platform/runtime.ts'
import type { Poller } from '../receive/poller.ts'
import type { TokenCheck } from '../receive/token-check.ts'
import type { SessionRecord, State } from '../storage/state.ts'
import type { ConversationStore } from '../storage/store.ts'
import type { TopicStore } from '../storage/topics.ts'
import type { Logins } from './logins.ts'
import { loggingInSession, SessionWatch } from './session-watch.ts'
import { listUsersOf } from './users.ts'
import { isVisible, limitSessions, limitToAccounts } from './visible.ts'

/** A session that a user wrote to, and whether it has a login now. */
export interface WrittenSession {
  session: string
  isLoggedIn: boolean
}

/** A session that can receive and send. */
export interface ConnectedSession {
  name: string
  bot: BotInfo
}

export interface AccountPorts {
  state: Pick<State, 'sessions' | 'contexts'>
  store: {
    durable: boolean
    conversations: Pick<ConversationStore, 'sessionsOf' | 'countSuspects'>
    topics: Pick<TopicStore, 'leave'>
  }
  poller: Pick<Poller, 'lastPoll'>
  logins: Pick<Logins, 'cancel' | 'pendingNames'>
  check: TokenCheck
}

export class Accounts extends RunningPart<AccountPorts> {
  /** Runs logouts, renames and default changes one after another. */
  readonly #runAlone = createMutex()
  #listed:
    | {
        of: Promise<readonly SessionRecord[]>
        pending: Promise<ReadonlySet<string>>
        sessions: Promise<readonly Session[]>
      }
    | undefined

  /** Lists all sessions: the default first, then the oldest first. Takes no lock. */
  async list(scope?: Scope): Promise<Session[]> {
    if (scope?.users) return (await this.listWithUsers(scope)).map(({ users: _, ...session }) => session)
    // Callers in the same turn of the event loop share one promise of each list, and so one result.
    const of = this.ports.state.sessions.list()
    const pending = this.ports.logins.pendingNames()
    if (this.#listed?.of !== of || this.#listed.pending !== pending)
      this.#listed = { of, pending, sessions: this.#listAll(Promise.all([pending, of])) }
    const sessions = await this.#listed.sessions
    return scope ? limitToAccounts(sessions, scope) : [...sessions]
  }

  async #listAll(reads: Promise<readonly [ReadonlySet<string>, unknown]>): Promise<Session[]> {
    const pending = new Set((await reads)[0])
    const listed = await this.toSessions(await this.#listOrdered())
    for (const { name } of listed) pending.delete(name)
    return [...listed, ...[...pending].map(loggingInSession)]
  }

  /** Returns these sessions as `list` does, in the given order. */
  async toSessions(records: readonly SessionRecord[]): Promise<Session[]> {
    const writers = await this.ports.state.contexts.countWriters(records.map(({ name }) => name))
    return this.#toSessionList(records, name => writers.get(name) ?? 0)
  }

  async #toSessionList(
    records: readonly SessionRecord[],
    countOf: (name: string) => number,
  ): Promise<Session[]> {
    const { poller } = this.ports
    const [suspects, first] = [await this.countSuspects(), await this.defaultName()]
    return records.map(({ name, bot, unreadable }): Session => {
      const status = sessionStatusOf(bot)
      const { bot_id, user_id, invitation, created_at, failing_since }: Partial<BotInfo> = bot ?? {}
      const { poll_error, poll_error_code, poll_error_quote }: Marks = bot ?? {}
      return withoutUndefined({
        name,
        bot_id,
        user_id,
        invitation,
        connected: isConnected(status),
        status,
        is_default: name === first,
        created_at,
        last_poll_at: bot && poller.lastPoll(bot),
        failing_since,
        poll_error_code,
        poll_error_quote,
        poll_error: unreadable?.problem ?? poll_error,
        user_count: countOf(name),
        suspect_count: suspects?.get(name),
        ...mutedOf(bot ?? {}),
      })
    })
  }

  /**
   * Counts the suspect messages of the last day by session. Returns undefined if the log fails: that is
   * reported elsewhere, and must not hide any session.
   */
  async countSuspects(): Promise<ReadonlyMap<string, number> | undefined> {
    const since = this.runtime.clock.now() - suspectSpanMs
    return this.ports.store.conversations.countSuspects(since).catch(() => undefined)
  }

  /**
   * Returns whether any session is connected, and the sessions (or the named one) that receive no messages,
   * or may receive none. Cheap, since every recv calls it.
   */
  async getReceiving(only?: string, scope?: Scope): Promise<Receiving> {
    let connected = false
    const silent: SilentSession[] = []
    for (const { bot, name, unreadable } of await this.#listVisible(scope)) {
      const status = sessionStatusOf(bot)
      connected ||= isConnected(status)
      if (only !== undefined && sessionKeyOf(name) !== sessionKeyOf(only)) continue
      if (unreadable) silent.push({ name, status: 'disconnected', why: unreadable.problem })
      else if (bot && status !== 'connected') silent.push({ name, status })
    }
    return { connected, silent }
  }

  /**
   * Lists the users who have written to a session ('' is the default one), the most recent writer first.
   * Takes no lock.
   *
   * @throws SvcError `session_not_found`, `store_unavailable` when its files cannot be read
   */
  async listUsers(name: string, scope?: Scope): Promise<SessionUser[]> {
    const { name: session, unreadable } = await this.getRecord(name, scope)
    const { users = [] } =
      (await listUsersOf(this.ports, [session], this.runtime.clock.now())).get(session) ?? {}
    if (unreadable && users.length === 0) throw unreadable
    return scope?.users ? users.filter(({ user_id }) => scope.users?.includes(user_id)) : users
  }

  /** Lists every session with its users, in the order of `list`. Takes no lock. */
  async listWithUsers(scope?: Scope): Promise<SessionWithUsers[]> {
    if (scope?.bots) {
      const records = await this.sortRecords(await this.#listVisible(scope))
      return limitSessions(
        (await this.readWithUsers(records)).map(({ session }) => session),
        scope,
      )
    }
    const watch = this.watch()
    await watch.check()
    return scope ? limitSessions(watch.sessions(), scope) : watch.sessions()
  }

  /** Returns the sessions that a caller may see, in no order. */
  async #listVisible(scope: Scope | undefined): Promise<readonly SessionRecord[]> {
    const all = await this.ports.state.sessions.list()
    return scope?.bots ? all.filter(record => isVisible(record, scope)) : all
  }

  /**
   * Returns by user the right to answer in each session that the user wrote to; for one session, or for
   * all.
   */
  async listRights(
    session?: string,
    scope: Scope = {},
  ): Promise<ReadonlyMap<string, { session: string; user: SessionUser }[]>> {
    const { sessions } = this.ports.state
    const records = session === undefined ? await sessions.list() : [await sessions.get(session)]
    const names = records.flatMap(record => (record && isVisible(record, scope) ? record.name : []))
    const looked = await listUsersOf(this.ports, names, this.runtime.clock.now())
    const rights = [...looked].flatMap(([name, { users }]) =>
      users
        .filter(({ user_id }) => scope.users?.includes(user_id) !== false)
        .map(user => ({ session: name, user })),
    )
    return Map.groupBy(rights, ({ user }) => user.user_id)
  }

  /** Creates a watch of all sessions with their users. */
  watch(): SessionWatch {
    const { logins, poller, state } = this.ports
    return new SessionWatch({
      clock: this.runtime.clock,
      sessions: state.sessions,
      pending: () => logins.pendingNames(),
      lastPoll: bot => poller.lastPoll(bot),
      defaultName: () => this.defaultName(),
      countSuspects: () => this.countSuspects(),
      sortRecords: records => this.sortRecords(records),
      readWithUsers: records => this.readWithUsers(records),
    })
  }

  /**
   * Returns these sessions with their users. `due`: Unix ms at which each must be checked again, because it
   * also changes with time.
   */
  async readWithUsers(
    records: readonly SessionRecord[],
  ): Promise<{ session: SessionWithUsers; due: number }[]> {
    const names = records.map(({ name }) => name)
    const looked = await listUsersOf(this.ports, names, this.runtime.clock.now())
    const shown = await this.#toSessionList(records, name => looked.get(name)?.users.length ?? 0)
    return shown.map(session => {
      const { users, due } = looked.get(session.name)!
      return { session: { ...session, users }, due }
    })
  }

  /**
   * Asks WeChat whether a session ('' is the default one) works.
   *
   * @throws SvcError `session_not_found`, `not_connected` without a login to ask with
   */
  async check(name: string, scope?: Scope): Promise<SessionCheck> {
    const { name: session, bot, unreadable } = await this.getRecord(name, scope)
    if (!bot) throw unreadable ?? notConnectedError(session)
    const checked = await this.ports.check.ask(session, bot)
    const current = (await this.ports.state.sessions.get(session))?.bot
    return withoutUndefined({
      session,
      status: sessionStatusOf(current),
      poll_error: current?.poll_error,
      answered: checked !== 'unanswered' && current?.bare_at === undefined,
    })
  }

  /**
   * Returns the first connected session in routing order: the one that the user logged in, the only one in which this user
   * can write; then the default, then the oldest first.
   */
  async first(user: string, scope?: Scope): Promise<ConnectedSession | undefined> {
    const { sessions } = this.ports.state
    const isUsable = (record: SessionRecord | undefined): record is ConnectedSession =>
      isConnectedRecord(record) && isVisible(record, scope)
    const chosen = await sessions.getDefaultName()
    const named = chosen === undefined ? undefined : await sessions.get(chosen)
    if (isUsable(named) && named.bot.user_id === user) return named
    const records = (await this.#listOrdered()).filter(isUsable)
    return records.find(({ bot }) => bot.user_id === user) ?? records[0]
  }

  /**
   * Lists the sessions with credentials that have a context token for a user, in routing order, by their
   * current files. Reads only sessions that may know the user. If the store is shared with the process that
   * polls, the store knows which ones.
   */
  async listKnowing(user: string, scope?: Scope): Promise<(ConnectedSession & { context: UserContext })[]> {
    const knowing = await this.ports.state.contexts.findKnowing(user)
    const known = knowing.flatMap(({ record, context }) =>
      record.bot && context.token !== undefined && isVisible(record, scope)
        ? { name: record.name, bot: record.bot, context }
        : [],
    )
    return this.sortRecords(known)
  }

  /**
   * Lists the sessions that a user wrote to according to the log, including earlier logins, and whether
   * each has a login now.
   */
  async listWrittenBy(user: string, scope?: Scope): Promise<WrittenSession[]> {
    const { state, store } = this.ports
    const names = await store.conversations.sessionsOf(user)
    const find = async (name: string): Promise<SessionRecord> => (await state.sessions.get(name)) ?? { name }
    const records = await Promise.all(names.map(find))
    return records
      .filter(record => isVisible(record, scope))
      .map(({ bot, name }) => ({ session: name, isLoggedIn: bot !== undefined }))
  }

  /** Returns the error of the first session whose files cannot be read; undefined if there is none. */
  async unreadable(scope?: Scope): Promise<SvcError | undefined> {
    const listed = await this.#listVisible(scope)
    return listed.find(({ unreadable }) => unreadable !== undefined)?.unreadable
  }

  /** Returns what a session's login knows of a user. */
  context(session: string, user: string): Promise<UserContext | undefined> {
    return this.ports.state.contexts.find(session, user)
  }

  /**
   * Returns the session of that name ('' is the default one).
   *
   * @throws SvcError `session_not_found`
   */
  async getRecord(name: string, scope?: Scope): Promise<SessionRecord> {
    const target = await this.#resolveName(name, scope)
    const record = await this.ports.state.sessions.get(target)
    if (!record || !isVisible(record, scope)) throw sessionNotFoundError(target)
    return record
  }

  /**
   * Removes the credentials of a session; its messages stay in the store. Ends a login in progress. If the
   * session is only being logged in, nothing else is to do.
   *
   * @throws SvcError `session_not_found`; `store_unavailable` if its files cannot be read
   */
  logout(name: string, scope?: Scope): Promise<{ success: true; session: string }> {
    return this.#runAlone(async () => {
      const { logins, state, store } = this.ports
      const target = await this.#resolveName(name, scope)
      if (scope?.bots) await this.getRecord(target, scope)
      // Before reading the session: if the login finishes first, the session is stored by then.
      const wasPending = await logins.cancel(target)
      const record = await state.sessions.get(target)
      if (!record && !wasPending) throw sessionNotFoundError(target)
      // The unreadable credentials may be valid, and WeChat may deny a new QR code without them.
      if (record?.unreadable) throw record.unreadable
      if (record) {
        await state.sessions.remove(record.name)
        // A guest leaves all topics.
        if (record.bot?.invitation !== undefined) await store.topics.leave({ session: record.name })
        this.runtime.bus.notify('sessionsChanged')
      }
      return { success: true, session: record?.name ?? target }
    })
  }

  /**
   * Renames a session.
   *
   * @throws SvcError `session_not_found`, `session_exists`, `invalid_arguments` for a bad name
   */
  rename(
    oldName: string,
    newName: string,
    scope?: Scope,
  ): Promise<{ success: true; old_name: string; new_name: string }> {
    return this.#runAlone(async () => {
      const { logins, state } = this.ports
      const { name } = await this.getRecord(oldName, scope)
      if (newName === '') throw badArgument('new_name', 'expected a session name, got an empty string')
      const target = normalizeSessionName(newName)
      const key = sessionKeyOf(target)
      const isPending = [...(await logins.pendingNames())].some(name => sessionKeyOf(name) === key)
      // That login would overwrite the credentials of the renamed session.
      if (key !== sessionKeyOf(name) && isPending)
        throw new SvcError('session_exists', `a login of "${target}" is in progress`)
      await logins.cancel(name)
      try {
        await state.sessions.rename(name, target)
      } finally {
        this.runtime.bus.notify('sessionsChanged')
      }
      return { success: true, old_name: name, new_name: target }
    })
  }

  setDefault(name: string, scope?: Scope): Promise<{ success: true; default_session: string }> {
    return this.#runAlone(async () => {
      const record = await this.getRecord(name, scope)
      await this.ports.state.sessions.setDefault(record.name)
      return { success: true, default_session: record.name }
    })
  }

  async #resolveName(name: string, scope?: Scope): Promise<string> {
    if (name !== '') return normalizeSessionName(name)
    if (!scope?.bots) return this.defaultName()
    return (await this.sortRecords(await this.#listVisible(scope)))[0]?.name ?? defaultSessionName
  }

  /**
   * Returns the name of the default session; without one, of the oldest session; without any session,
   * "default".
   */
  async defaultName(): Promise<string> {
    const { sessions } = this.ports.state
    return (await sessions.getDefaultName()) ?? (await this.#listOrdered())[0]?.name ?? defaultSessionName
  }

  async #listOrdered(): Promise<SessionRecord[]> {
    return this.sortRecords(await this.ports.state.sessions.list())
  }

  /** Sorts sessions: the default one first, then the oldest first. */
  async sortRecords<R extends Pick<SessionRecord, 'name' | 'bot'>>(records: readonly R[]): Promise<R[]> {
    if (records.length < 2) return [...records]
    const chosen = await this.ports.state.sessions.getDefaultName()
    const age = (record: R) => record.bot?.created_at ?? Number.MAX_SAFE_INTEGER
    return [...records].sort(
      (a, b) =>
        Number(b.name === chosen) - Number(a.name === chosen) ||
        age(a) - age(b) ||
        (a.name < b.name ? -1 : 1),
    )
  }
}

const isConnectedRecord = (record: SessionRecord | undefined): record is ConnectedSession =>
  record?.bot !== undefined && record.bot.expired_at === undefined
