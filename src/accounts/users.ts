/** Who has written to the accounts: what is left of the right to answer them, and what people call them. */

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

/** The accounts, as far as users go by them. */
interface Sessions {
  list(): Promise<{ name: string }[]>
  named(name: string): Promise<{ name: string }>
  knowing(user: string): Promise<{ name: string; context: UserContext }[]>
}

/** What of the store there is to know of users. */
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
   * Everybody who has written to a session, or to any; who wrote last comes first. Takes no lock. Of several sessions one whose
   * users cannot be read is left out.
   *
   * @throws SvcError `session_not_found`; `invalid_arguments` for a name that nobody has, or several; `store_unavailable` when
   *   nobody is found and the users of a session cannot be read
   */
  async list({ session, user_id }: UserFilter = {}): Promise<KnownUser[]> {
    const only = user_id === undefined ? undefined : await this.#meant(user_id, session)
    const names =
      session === undefined
        ? (await this.#accounts.list()).map(({ name }) => name)
        : [(await this.#accounts.named(session)).name]
    const looked = await Promise.allSettled(
      names.map(async name => (await this.of(name)).map(user => ({ session: name, ...user }))),
    )
    const found = looked
      .flatMap(one => (one.status === 'fulfilled' ? one.value : []))
      .filter(user => only === undefined || user.user_id === only)
    const failed = looked.find(one => one.status === 'rejected')
    if (failed && found.length === 0) throw failed.reason
    return found.sort((a, b) => (b.last_received ?? 0) - (a.last_received ?? 0))
  }

  /** Of one session. */
  of(session: string): Promise<SessionUser[]> {
    return usersOf(this.#ports, session, this.#runtime.clock.now())
  }

  /**
   * Names a user of a session; also of one that is logged out, as long as it is known.
   *
   * @throws SvcError `invalid_arguments` for a name that cannot be one, or is another user's of that session;
   *   `not_found` when the user has not written to it, `session_not_found`
   */
  async name({ user_id, name, session }: NameRequest): Promise<NamedUser> {
    const { state, store } = this.#ports
    const wanted = userName(name)
    const user = await this.#meant(user_id, session)
    const known = [
      ...newestFirst(await this.#accounts.knowing(user)).map(one => one.name),
      ...(await store.conversations.sessionsOf(user)),
    ]
    const key = session === undefined ? undefined : sessionKey(sessionName(session))
    const where = known.find(one => key === undefined || sessionKey(one) === key)
    if (where === undefined) {
      if (session !== undefined) await this.#accounts.named(session)
      throw new SvcError('not_found', 'no user with this id has written to this session, or to any', {
        next: { action: 'see', what: 'users' },
      })
    }
    await store.names.set(where, user, wanted)
    const listed = (await this.of(where)).find(one => one.user_id === user)
    const named = listed ?? defined({ user_id: user, remaining: 0, name: wanted })
    const same =
      wanted === undefined ? [] : (await bearers({ store, sessions: state.sessions }, { name: wanted })).found
    const namesakes = same.filter(one => one.user_id !== user).slice(0, bearersTold)
    return { session: where, ...named, ...(namesakes.length > 0 && { namesakes }) }
  }

  #meant(user: string, session: string | undefined): Promise<string> {
    const { state, store } = this.#ports
    return addressee({ store, sessions: state.sessions }, { user, session }, 'user_id')
  }
}

/** Who has written to a session, by its files and the log; who wrote last comes first. */
export async function usersOf(
  { state: { contexts }, store }: { state: Pick<State, 'contexts'>; store: UserStore },
  session: string,
  now: number,
): Promise<SessionUser[]> {
  // What the log adds to the files is missing while it fails, which is told of elsewhere.
  const counters = await store.outbox.counters(session).catch(() => undefined)
  const names = await store.names.of(session).catch(() => undefined)
  const users = await contexts.of(session)
  return [...users]
    .filter(([, context]) => hasWritten(context))
    .map(([user_id, context]): SessionUser => {
      const count = countNow(context, counters?.get(user_id), now)
      return defined({
        ...{ user_id, name: names?.get(user_id), first_seen: context.first_seen || undefined },
        ...{ last_received: context.received_at, last_sent: count.last_sent_at },
        ...rightToAnswer(count, now),
      })
    })
    .sort((a, b) => (b.last_received ?? 0) - (a.last_received ?? 0) || (a.user_id < b.user_id ? -1 : 1))
}

/** Sessions that know a user, the one first that the user wrote to last. */
export const newestFirst = <T extends { context: UserContext }>(known: readonly T[]): T[] =>
  known.toSorted((a, b) => (b.context.received_at ?? 0) - (a.context.received_at ?? 0))
