/** The history operation: pages of the log, newest first. */
import type { Scope } from '../model/access.ts'
import type { HistoryPage, Message } from '../model/message.ts'
import { normalizeSessionName } from '../model/session.ts'
import type { Views } from '../receive/view.ts'
import { findBearers, resolveUserId } from '../send/plan.ts'
import type { HistoryFilter } from '../storage/messages.ts'
import type { SessionStore } from '../storage/state.ts'
import type { MessageLog, UserNameStore } from '../storage/store.ts'

export interface HistoryPorts {
  store: { log: Pick<MessageLog, 'search'>; names: Pick<UserNameStore, 'find'> }
  sessions: Pick<SessionStore, 'get' | 'list'>
  views: Views
}

export class History {
  readonly #ports: HistoryPorts

  constructor(ports: HistoryPorts) {
    this.#ports = ports
  }

  /** Resolves a user. A string that is not a known name is treated as an id, which may have no messages. */
  async #resolveUser(user: string, session: string | undefined, scope: Scope | undefined): Promise<string> {
    const isName = (await findBearers(this.#ports, { name: user, scope })).found.length > 0
    return isName ? resolveUserId(this.#ports, { user, session, scope }, 'user_id') : user
  }

  /**
   * Returns a page of the log. The signal ends a search that takes long.
   *
   * @param hasRoom a result of `Call.startFitCheck`
   * @throws SvcError `invalid_arguments` for a bad session name, or for a name of several users;
   *   `store_unavailable`; the signal's reason
   */
  async page(
    request: HistoryFilter,
    signal?: AbortSignal,
    hasRoom?: (message: Message) => boolean,
  ): Promise<HistoryPage> {
    const { sessions, store, views } = this.#ports
    const { session: input, ...rest } = request
    const name = input === undefined ? undefined : normalizeSessionName(input)
    // The stored spelling of the name. For a logged-out session, the caller's.
    const session = name === undefined ? undefined : ((await sessions.get(name))?.name ?? name)
    const user_id = rest.user_id && (await this.#resolveUser(rest.user_id, session, rest.scope))
    const answer = views.createAnswer({ hasRoom })
    const { characters } = answer
    const filter = { ...rest, session, characters, ...(user_id && { user_id }) }
    const page = await store.log.search(filter, signal)
    const messages = await answer.take(page.rows)
    const { length } = messages
    const next = length < page.rows.length ? messages.at(-1)?.id : page.next_before
    return {
      messages,
      total: page.total,
      total_is_lower_bound: page.total_is_lower_bound,
      // A caller that adds `limit` to `offset` then skips nothing.
      limit: next !== undefined && length > 0 ? length : request.limit,
      offset: request.offset,
      ...(next !== undefined && { next_before: next }),
    }
  }
}
