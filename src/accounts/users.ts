/** The users of the accounts: their names, and how many replies they may still get. */

import type { Scope } from '../model/access.ts'
import { SvcError } from '../model/error.ts'
import {
  clockSkewMs,
  currentCounterOf,
  type KnownUser,
  type NamedUser,
  type NameRequest,
  normalizeSessionName,
  rightToAnswerOf,
  type SessionUser,
  sessionKeyOf,
  type UserContext,
  type UserFilter,
} from '../model/session.ts'
import { normalizeUserName } from '../model/user-name.ts'
import { withoutUndefined } from '../platform/fields.ts'
import { RunningPart } from '../platform/runtime.ts'
import { findBearers, maxBearersListed, resolveUserId } from '../send/plan.ts'
import type { OutboxEntries } from '../storage/outbox.ts'
import type { Contact, State } from '../storage/state.ts'
import type { ConversationStore, UserNameStore } from '../storage/store.ts'

/** The part of `Accounts` that this file uses. */
interface Sessions {
  list(scope?: Scope): Promise<{ name: string }[]>
  getRecord(name: string, scope?: Scope): Promise<{ name: string }>
  listKnowing(user: string, scope?: Scope): Promise<{ name: string; context: UserContext }[]>
  listWrittenBy(user: string, scope?: Scope): Promise<{ session: string }[]>
}

export interface UserPorts {
  state: Pick<State, 'sessions' | 'contexts'>
  store: {
    outbox: Pick<OutboxEntries, 'getCounters'>
    names: UserNameStore
    conversations: Pick<ConversationStore, 'listAlike' | 'listThreads'>
  }
}

export class Users extends RunningPart<UserPorts & { accounts: Sessions }> {
  /**
   * Lists the users who have written to a session, or to any; the most recent writer first. Takes no lock.
   * Without `session`, skips sessions whose users cannot be read.
   *
   * @throws SvcError `session_not_found`; `invalid_arguments` for a name of no user or of several;
   * `store_unavailable` if no user is found and a session's users cannot be read
   */
  async list({ session, user_id }: UserFilter = {}, scope?: Scope): Promise<KnownUser[]> {
    const only = user_id === undefined ? undefined : await this.#resolveUser(user_id, session, scope)
    const names =
      session === undefined
        ? (await this.ports.accounts.list(scope)).map(({ name }) => name)
        : [(await this.ports.accounts.getRecord(session, scope)).name]
    const { sessions } = this.ports.state
    const looked = await listUsersOf(this.ports, names, this.runtime.clock.now())
    const found = [...looked]
      .flatMap(([name, { users }]) => users.map(user => ({ session: name, ...user })))
      .filter(user => only === undefined || user.user_id === only)
      .filter(user => scope?.users?.includes(user.user_id) !== false)
    if (found.length === 0) {
      const asked = new Set(names)
      const failed = (await sessions.list()).find(({ name, unreadable }) => unreadable && asked.has(name))
      if (failed?.unreadable) throw failed.unreadable
    }
    return found.sort((a, b) => (b.last_received ?? 0) - (a.last_received ?? 0))
  }

  /**
   * Sets a user's name in a session, also in one that is logged out but still known.
   *
   * @throws SvcError `invalid_arguments` for an invalid name, or for another user's name in this session;
   * `not_found` if the user has not written to it, `session_not_found`
   */
  async name({ user_id, name, session }: NameRequest, scope?: Scope): Promise<NamedUser> {
    const { state, store } = this.ports
    const newName = normalizeUserName(name)
    const user = await this.#resolveUser(user_id, session, scope)
    const known = [
      ...sortNewestFirst(await this.ports.accounts.listKnowing(user, scope)).map(entry => entry.name),
      ...(await this.ports.accounts.listWrittenBy(user, scope)).map(entry => entry.session),
    ]
    const key = session === undefined ? undefined : sessionKeyOf(normalizeSessionName(session))
    const target = known.find(name => key === undefined || sessionKeyOf(name) === key)
    if (target === undefined) {
      if (session !== undefined) await this.ports.accounts.getRecord(session, scope)
      throw new SvcError('not_found', 'no user with this id has written to this session, or to any', {
        next: { action: 'see', what: 'users' },
      })
    }
    await store.names.set(target, user, newName, scope?.users)
    const found = await listUsersOf(this.ports, [target], this.runtime.clock.now())
    const listed = found.get(target)?.users.find(entry => entry.user_id === user)
    const named = listed ?? withoutUndefined({ user_id: user, remaining: 0, name: newName })
    const same =
      newName === undefined
        ? []
        : (await findBearers({ store, sessions: state.sessions }, { name: newName, scope })).found
    const namesakes = same.filter(({ user_id }) => user_id !== user).slice(0, maxBearersListed)
    return { session: target, ...named, ...(namesakes.length > 0 && { namesakes }) }
  }

  #resolveUser(user: string, session: string | undefined, scope: Scope | undefined): Promise<string> {
    const { state, store } = this.ports
    return resolveUserId(
      { store, sessions: state.sessions, contexts: state.contexts },
      { user, session, scope },
      'user_id',
    )
  }
}

/**
 * The users who wrote to a session. `due`: Unix ms at which they must be read again, because they also
 * change with time.
 */
export interface WatchedUsers {
  /** The most recent writer first. */
  users: SessionUser[]
  due: number
}

/** Returns the users of each of these sessions. */
export async function listUsersOf(
  { state: { contexts } }: { state: Pick<State, 'contexts'> },
  sessions: readonly string[],
  now: number,
): Promise<ReadonlyMap<string, WatchedUsers>> {
  const found = await contexts.listUsers(sessions)
  return new Map(
    sessions.map(session => {
      const contacts = found.get(session) ?? []
      const users = contacts.map(contact => userOf(contact, now)).sort(compareLatestFirst)
      return [session, { users, due: dueOf(contacts, users, now) }]
    }),
  )
}

function userOf({ user_id, name, context, counter }: Contact, now: number): SessionUser {
  const count = currentCounterOf(context, counter, now)
  return withoutUndefined({
    user_id,
    name,
    first_seen: context.first_seen || undefined,
    last_received: context.received_at,
    last_sent: count.last_sent_at,
    ...rightToAnswerOf(count, now),
  })
}

const compareLatestFirst = (a: SessionUser, b: SessionUser) =>
  (b.last_received ?? 0) - (a.last_received ?? 0) || (a.user_id < b.user_id ? -1 : 1)

/**
 * Returns the Unix ms of the next change by time alone: a window closes, or a count that was made by a
 * clock ahead of ours becomes valid.
 */
function dueOf(contacts: readonly Contact[], users: readonly SessionUser[], now: number): number {
  let due = Number.POSITIVE_INFINITY
  for (const { window_expires_at: at } of users) if (at !== undefined && at > now) due = Math.min(due, at)
  for (const { counter } of contacts) {
    const at = (counter?.received_at ?? 0) - clockSkewMs
    if (at > now) due = Math.min(due, at)
  }
  return due
}

/** Sorts what sessions know of a user by the time of the user's last message, newest first. */
export const sortNewestFirst = <T extends { context: UserContext }>(known: readonly T[]): T[] =>
  known.toSorted((a, b) => (b.context.received_at ?? 0) - (a.context.received_at ?? 0))
