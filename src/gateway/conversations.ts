/** Conversations as a person looks at them: the newest first, with what is left of the right to answer. */
import type { Accounts } from '../accounts/accounts.ts'
import type { Conversation, Hour } from '../model/conversation.ts'
import { type SessionUser, sessionKey, sessionName } from '../model/session.ts'
import { turns } from '../platform/clock.ts'
import type { Runtime } from '../platform/runtime.ts'
import type { Views } from '../receive/view.ts'
import type { Conversations as Threads } from '../storage/store.ts'
import type { Changes } from './changes.ts'

/** Which conversations; all without it. */
export interface ConversationFilter {
  session?: string
  user_id?: string
  limit?: number
}

export interface ConversationPorts {
  threads: Pick<Threads, 'peers' | 'thread' | 'markRead' | 'counts'>
  views: Views
  accounts: Pick<Accounts, 'withUsers'>
  changes: Pick<Changes, 'tellMark'>
}

/** People looked up in one go. */
const peerPage = 500
const hourMs = 60 * 60_000

export class Conversations {
  readonly #ports: ConversationPorts
  readonly #runtime: Runtime

  constructor(ports: ConversationPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
  }

  /**
   * The newest message first, at most `limit`; those of sessions that were logged out too, as long as messages are kept.
   *
   * @throws SvcError `invalid_arguments` for a bad session name, `store_unavailable`
   */
  async list(filter: ConversationFilter = {}): Promise<Conversation[]> {
    const { accounts, threads, views } = this.#ports
    const limit = filter.limit ?? Number.MAX_SAFE_INTEGER
    const session = filter.session === undefined ? undefined : sessionKey(sessionName(filter.session))
    const rights = new Map<string, { session: string; user: SessionUser }[]>()
    for (const { name, users } of await accounts.withUsers()) {
      if (session !== undefined && session !== sessionKey(name)) continue
      for (const user of users)
        rights.set(user.user_id, [...(rights.get(user.user_id) ?? []), { session: name, user }])
    }
    const found: Conversation[] = []
    const turn = turns(this.#runtime.clock)
    for (const { peer, newest } of await this.#peers(filter.user_id)) {
      // All that follow are older.
      const last = found[limit - 1]
      if (last && last.last_message.id > newest) break
      // Of who is no user any more it is the session they wrote to last.
      for (const { session: name, user } of rights.get(peer) ?? [
        { session: filter.session, user: undefined },
      ]) {
        await turn()
        const thread = await threads.thread(peer, name)
        // A send to somebody who never wrote begins no conversation.
        if (!thread || (thread.refused && !user)) continue
        const conversation: Conversation = {
          session: user && name !== undefined ? name : thread.last.session,
          user_id: peer,
          last_message: await views.of(thread.last),
          unread: thread.unread,
          remaining: user?.remaining,
          window_expires_at: user?.window_expires_at,
        }
        const newer = found.findLastIndex(({ last_message }) => last_message.id > thread.last.id)
        found.splice(newer + 1, 0, conversation)
      }
    }
    return found.slice(0, limit)
  }

  /** Who there are messages with, whose is the newest first. */
  async #peers(only: string | undefined): Promise<{ peer: string; newest: number }[]> {
    if (only !== undefined) return [{ peer: only, newest: Number.MAX_SAFE_INTEGER }]
    const { threads } = this.#ports
    const found: { peer: string; newest: number }[] = []
    const turn = turns(this.#runtime.clock)
    for (let page = peerPage; page === peerPage; ) {
      const peers = await threads.peers(found.at(-1)?.peer, peerPage)
      found.push(...peers)
      page = peers.length
      await turn()
    }
    return found.sort((a, b) => b.newest - a.newest)
  }

  /** @throws SvcError `invalid_arguments` for a bad session name, `store_unavailable` */
  async markRead(session: string, userId: string, upTo: number): Promise<void> {
    const { changes, threads } = this.#ports
    const name = sessionName(session)
    await threads.markRead(name, userId, upTo)
    changes.tellMark({ session: name, user_id: userId, up_to: upTo })
  }

  /**
   * One message more is unread, as though the newest had not been looked at; of one with unread messages it stays as it is.
   *
   * @throws SvcError `invalid_arguments` for a bad session name, `store_unavailable`
   */
  async markUnread(session: string, userId: string): Promise<void> {
    const { changes, threads } = this.#ports
    const name = sessionName(session)
    const thread = await threads.thread(userId, name)
    if (thread?.unread === 0) await threads.markRead(name, userId)
    changes.tellMark({ session: name, user_id: userId })
  }

  /** Messages per hour of the last `count` hours, the running one last. */
  async hours(count: number): Promise<Hour[]> {
    const { clock } = this.#runtime
    const first = Math.floor(clock.now() / hourMs) * hourMs - (count - 1) * hourMs
    const counted = new Map((await this.#ports.threads.counts(first, hourMs)).map(one => [one.span, one]))
    return Array.from({ length: count }, (_none, span) => {
      const { received, sent } = counted.get(span) ?? { received: 0, sent: 0 }
      return { from: first + span * hourMs, received, sent }
    })
  }
}
