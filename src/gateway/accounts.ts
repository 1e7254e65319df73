/** Which messaging accounts there are, how they are, and the changes a caller may make to them. */

import { SvcError } from '../model/error.ts'
import { type BotInfo, defaultSessionName, type Session, sessionName } from '../model/session.ts'
import type { Contexts } from '../state/contexts.ts'
import type { SessionRecord, Sessions } from '../state/sessions.ts'
import type { Store } from '../store/store.ts'

/** A session that can be polled and sent from. */
export interface ConnectedSession {
  name: string
  bot: BotInfo
}

export interface AccountPorts {
  sessions: Sessions
  contexts: Contexts
  store: Store
  /** Unix ms of the last answer to a poll by this process. */
  lastPollAt(name: string): number | undefined
  /** Names with a QR login under way. */
  loggingIn(): ReadonlySet<string>
  /** Called after every change, so that polling follows at once. */
  changed(): void
  /** Ends a login flow of that name, if one is under way. */
  forgetLogin(name: string): void
}

export class Accounts {
  readonly #ports: AccountPorts

  constructor(ports: AccountPorts) {
    this.#ports = ports
  }

  /** Every session, the default one first, then the oldest first. Takes no lock. */
  async list(): Promise<Session[]> {
    const { contexts, lastPollAt, loggingIn } = this.#ports
    const records = await this.#ordered()
    const first = records[0]?.name
    const pending = new Set(loggingIn())
    const listed = await Promise.all(
      records.map(async ({ name, bot, damaged }): Promise<Session> => {
        const loggingInNow = pending.delete(name)
        const status = bot
          ? bot.expired_at === undefined
            ? 'connected'
            : 'expired'
          : loggingInNow && !damaged
            ? 'logging_in'
            : 'disconnected'
        return {
          name,
          ...(bot && { bot_id: bot.bot_id }),
          ...(bot?.user_id !== undefined && { user_id: bot.user_id }),
          connected: status === 'connected',
          status,
          is_default: name === first,
          ...(bot && { created_at: bot.created_at }),
          ...(lastPollAt(name) !== undefined && { last_poll_at: lastPollAt(name) }),
          user_count: (await contexts.users(name)).size,
        }
      }),
    )
    for (const name of pending) {
      listed.push({ name, connected: false, status: 'logging_in', is_default: false, user_count: 0 })
    }
    return listed
  }

  /** The connected sessions in routing order: the default one, then the oldest first. */
  async connected(): Promise<ConnectedSession[]> {
    return (await this.#ordered()).flatMap(({ name, bot }) =>
      bot && bot.expired_at === undefined ? [{ name, bot }] : [],
    )
  }

  /**
   * The session of that name, '' being the default one.
   *
   * @throws SvcError `session_not_found`
   */
  async named(name: string): Promise<SessionRecord> {
    const { sessions } = this.#ports
    const wanted = name === '' ? ((await this.#ordered())[0]?.name ?? defaultSessionName) : sessionName(name)
    const record = await sessions.get(wanted)
    if (!record) throw new SvcError('session_not_found', `there is no session named "${wanted}"`)
    return record
  }

  /** Removes the credentials of a session; its messages stay in the store. */
  async logout(name: string): Promise<{ success: true; session: string }> {
    const record = await this.named(name)
    this.#ports.forgetLogin(record.name)
    await this.#ports.sessions.remove(record.name)
    this.#ports.changed()
    return { success: true, session: record.name }
  }

  async rename(
    oldName: string,
    newName: string,
  ): Promise<{ success: true; old_name: string; new_name: string }> {
    const record = await this.named(oldName)
    if (newName === '') {
      throw new SvcError('invalid_arguments', 'new_name: expected a session name, got an empty text')
    }
    const target = sessionName(newName)
    this.#ports.forgetLogin(record.name)
    await this.#ports.sessions.rename(record.name, target)
    this.#ports.store.renameSession(record.name, target)
    this.#ports.changed()
    return { success: true, old_name: record.name, new_name: target }
  }

  async setDefault(name: string): Promise<{ success: true; default_session: string }> {
    const record = await this.named(name)
    await this.#ports.sessions.setDefault(record.name)
    return { success: true, default_session: record.name }
  }

  async #ordered(): Promise<SessionRecord[]> {
    const { sessions } = this.#ports
    const [records, chosen] = await Promise.all([sessions.list(), sessions.defaultName()])
    const age = (record: SessionRecord) => record.bot?.created_at ?? Number.MAX_SAFE_INTEGER
    return [...records].sort(
      (a, b) =>
        Number(b.name === chosen) - Number(a.name === chosen) ||
        age(a) - age(b) ||
        (a.name < b.name ? -1 : 1),
    )
  }
}
