/** Conversations for a person: the newest first, each with what is left of the right to answer. */
import type { Accounts } from '../accounts/accounts.ts'
import type { Scope } from '../model/access.ts'
import type { Conversation, Hour } from '../model/conversation.ts'
import type { Message } from '../model/message.ts'
import { normalizeSessionName, sessionKeyOf } from '../model/session.ts'
import { createYield } from '../platform/clock.ts'
import { RunningPart } from '../platform/runtime.ts'
import type { Views } from '../receive/view.ts'
import { inSentOrder, isDraft, isLate } from '../send/sent-order.ts'
import type { ConversationStore as Threads } from '../storage/store.ts'
import type { Changes } from './changes.ts'
import type { History } from './history.ts'

/** Selects conversations; all if empty. */
export interface ConversationFilter {
  session?: string
  user_id?: string
  limit?: number
  /** Only messages of these accounts and users. */
  scope?: Scope
  /** The person whose marks count, same as `ThreadQuery.reader`. */
  reader?: string
}

export interface ConversationPorts {
  threads: Pick<Threads, 'listThreads' | 'markRead' | 'countMessages'>
  history: Pick<History, 'page'>
  views: Views
  accounts: Pick<Accounts, 'listRights'>
  changes: Pick<Changes, 'notifyMark'>
}

/** Minimum number of users read at a time. */
const peerPage = 100
/** Messages of a conversation among which its last one is looked for. */
const mostRead = 50
const hourMs = 60 * 60_000

export class Conversations extends RunningPart<ConversationPorts> {
  /**
   * Lists conversations, the one with the newest message first, at most `limit`. An answer that waited is as new as
   * the time at which it was sent; a draft does not count. Includes logged-out sessions, as long as their messages are
   * stored.
   *
   * @throws SvcError `invalid_arguments` for a bad session name, `store_unavailable`
   */
  async list(filter: ConversationFilter = {}): Promise<Conversation[]> {
    const { accounts, threads, views } = this.ports
    const { limit = Number.MAX_SAFE_INTEGER, user_id: user, scope, reader } = filter
    const session = filter.session === undefined ? undefined : normalizeSessionName(filter.session)
    const rights = await accounts.listRights(session, scope)
    const sessions = new Map([...rights].map(([id, own]) => [id, own.map(right => right.session)]))
    const found: Conversation[] = []
    const turn = createYield(this.runtime.clock)
    for (let before: number | undefined; ; ) {
      const page = await threads.listThreads({
        session,
        user,
        before,
        sessions,
        scope,
        reader,
        limit: peerPage,
      })
      for (const { last, refused, unread, user: user_id } of page.threads) {
        await turn()
        const key = sessionKeyOf(last.session)
        const right = rights.get(user_id)?.find(right => sessionKeyOf(right.session) === key)
        // A refused send to a user who never wrote is not a conversation.
        if (refused && !right) continue
        const { last_sent, remaining, window_expires_at } = right?.user ?? {}
        const last_message = await this.#findLast(await views.toMessage(last), user_id, last_sent, scope)
        found.push({
          session: right?.session ?? last.session,
          user_id,
          last_message,
          unread,
          remaining,
          window_expires_at,
        })
      }
      before = page.before
      found.sort(({ last_message: a }, { last_message: b }) => b.timestamp - a.timestamp || b.id - a.id)
      // All conversations of the next pages are older.
      const last = found[limit - 1]
      if (before === undefined || (last && last.last_message.id >= before)) return found.slice(0, limit)
      await turn()
    }
  }

  /** Returns what a person reads last. @param newest the newest message in the log */
  async #findLast(newest: Message, user_id: string, lastSent = 0, scope?: Scope): Promise<Message> {
    if (!isDraft(newest) && !isLate({ direction: 'sent', timestamp: lastSent }, newest.timestamp))
      return newest
    const { session } = newest
    const page = await this.ports.history.page({ session, user_id, scope, limit: mostRead, offset: 0 })
    return inSentOrder(page.messages.toReversed()).findLast(one => !isDraft(one)) ?? newest
  }

  /** @throws SvcError `invalid_arguments` for a bad session name, `store_unavailable` */
  async markRead(session: string, userId: string, upTo: number, reader?: string): Promise<void> {
    const { changes, threads } = this.ports
    const name = normalizeSessionName(session)
    await threads.markRead(name, userId, upTo, reader)
    changes.notifyMark({ session: name, user_id: userId, up_to: upTo }, reader)
  }

  /**
   * Marks a conversation as unread, as if the newest message had not been read. Changes nothing if it
   * already has unread messages.
   *
   * @throws SvcError `invalid_arguments` for a bad session name, `store_unavailable`
   */
  async markUnread(session: string, userId: string, reader?: string, scope?: Scope): Promise<void> {
    const { changes, threads } = this.ports
    const name = normalizeSessionName(session)
    const query = { session: name, user: userId, scope, reader, limit: 1 }
    const [thread] = (await threads.listThreads(query)).threads
    if (thread?.unread === 0) await threads.markRead(name, userId, undefined, reader)
    changes.notifyMark({ session: name, user_id: userId }, reader)
  }

  /** Counts the messages of each of the last `count` hours; the current hour is the last one. */
  async countPerHour(count: number, scope?: Scope): Promise<Hour[]> {
    const { clock } = this.runtime
    const first = Math.floor(clock.now() / hourMs) * hourMs - (count - 1) * hourMs
    const counted = new Map(
      (await this.ports.threads.countMessages(first, hourMs, scope)).map(one => [one.span, one]),
    )
    return Array.from({ length: count }, (_none, span) => {
      const { received, sent } = counted.get(span) ?? { received: 0, sent: 0 }
      return { from: first + span * hourMs, received, sent }
    })
  }
}
