/** The users of the accounts: their names, and how many replies they may still get. */

import { SvcError } from '../model/error.ts'
import {
  countNow,
  hasWritten,
  type KnownUser,
  type NamedUser,
  type NameRequest,
  rightToAnswer,
  type SessionUser,
  sessionKey,
  sessionName,
  type UserContext,
  type UserFilter,
} from '../model/session.ts'
import { userName } from '../model/user-name.ts'
import { defined } from '../platform/fields.ts'
import type { Runtime } from '../platform/runtime.ts'
import { addressee, bearers, bearersTold } from '../send/plan.ts'
import type { Entries } from '../storage/outbox.ts'
import type { State } from '../storage/state.ts'
import type { Conversations, Names } from '../storage/store.ts'

/** The part of `Accounts` that this file uses. */
interface Sessions {
  list(): Promise<{ name: string }[]>
  named(name: string): Promise<{ name: string }>
  knowing(user: string): Promise<{ name: string; context: UserContext }[]>
}

/** The part of the store that has data about users. */
export interface UserStore {
  outbox: Pick<Entries, 'counters'>
  names: Names
}

export interface UserPorts {
  state: Pick<State, 'sessions' | 'contexts'>
  store: UserStore & { conversations: Pick<Conversations, 'sessionsOf'> }
}

export class Users {
  readonly #accounts: Sessions
  readonly #ports: UserPorts
  readonly #runtime: Runtime

  constructor(accounts: Sessions, ports: UserPorts, runtime: Runtime) {
    this.#accounts = accounts
    this.#ports = ports
    this.#runtime = runtime
  }

  /**
   * Lists the users who have written to a session, or to any; the most recent writer first. Takes no lock.
   * Without `session`, skips sessions whose users cannot be read.
   *
   * @throws SvcError `session_not_found`; `invalid_arguments` for a name of no user or of several;
   * `store_unavailable` if no user is found and a session's users cannot be read
   */
  async list({ session, user_id }: UserFilter = {}): Promise<KnownUser[]> {
    const only = user_id === undefined ? undefined : await this.#meant(user_id, session)
    const names =
      session === undefined
        ? (await this.#accounts.list()).map(({ name }) => name)
        : [(await this.#accounts.named(session)).name]
    const results = await Promise.allSettled(
      names.map(async name => (await this.of(name)).map(user => ({ session: name, ...user }))),
    )
    const found = results
      .flatMap(result => (result.status === 'fulfilled' ? result.value : []))
      .filter(user => only === undefined || user.user_id === only)
    const failed = results.find(result => result.status === 'rejected')
    if (failed && found.length === 0) throw failed.reason
    return found.sort((a, b) => (b.last_received ?? 0) - (a.last_received ?? 0))
  }

  /** Lists the users of one session. */
  of(session: string): Promise<SessionUser[]> {
    return usersOf(this.#ports, session, this.#runtime.clock.now())
  }

  /**
   * Sets a user's name in a session, also in one that is logged out but still known.
   *
   * @throws SvcError `invalid_arguments` for an invalid name, or for another user's name in this session;
   * `not_found` if the user has not written to it, `session_not_found`
   */
  async name({ user_id, name, session }: NameRequest): Promise<NamedUser> {
    const { state, store } = this.#ports
    const newName = userName(name)
    const user = await this.#meant(user_id, session)
    const known = [
      ...newestFirst(await this.#accounts.knowing(user)).map(entry => entry.name),
      ...(await store.conversations.sessionsOf(user)),
    ]
    const key = session === undefined ? undefined : sessionKey(sessionName(session))
    const target = known.find(name => key === undefined || sessionKey(name) === key)
    if (target === undefined) {
      if (session !== undefined) await this.#accounts.named(session)
      throw new SvcError('not_found', 'no user with this id has written to this session, or to any', {
        next: { action: 'see', what: 'users' },
      })
    }
    await store.names.set(target, user, newName)
    const listed = (await this.of(target)).find(({ user_id }) => user_id === user)
    const named = listed ?? defined({ user_id: user, remaining: 0, name: newName })
    const same =
      newName === undefined
        ? []
        : (await bearers({ store, sessions: state.sessions }, { name: newName })).found
    const namesakes = same.filter(({ user_id }) => user_id !== user).slice(0, bearersTold)
    return { session: target, ...named, ...(namesakes.length > 0 && { namesakes }) }
  }

  #meant(user: string, session: string | undefined): Promise<string> {
    const { state, store } = this.#ports
    return addressee({ store, sessions: state.sessions }, { user, session }, 'user_id')
  }
}

/**
 * Lists the users who have written to a session, from its files and the log; the most recent writer first.
 */
export async function usersOf(
  { state: { contexts }, store }: { state: Pick<State, 'contexts'>; store: UserStore },
  session: string,
  now: number,
): Promise<SessionUser[]> {
  // While the log fails, its data are missing; the failure is reported elsewhere.
  const counters = await store.outbox.counters(session).catch(() => undefined)
  const names = await store.names.of(session).catch(() => undefined)
  const users = await contexts.of(session)
  return [...users]
    .filter(([, context]) => hasWritten(context))
    .map(([user_id, context]): SessionUser => {
      const count = countNow(context, counters?.get(user_id), now)
      return defined({
        user_id,
        name: names?.get(user_id),
        first_seen: context.first_seen || undefined,
        last_received: context.received_at,
        last_sent: count.last_sent_at,
        ...rightToAnswer(count, now),
      })
    })
    .sort((a, b) => (b.last_received ?? 0) - (a.last_received ?? 0) || (a.user_id < b.user_id ? -1 : 1))
}

/** Sorts what sessions know of a user by the time of the user's last message, newest first. */
export const newestFirst = <T extends { context: UserContext }>(known: readonly T[]): T[] =>
  known.toSorted((a, b) => (b.context.received_at ?? 0) - (a.context.received_at ?? 0))
