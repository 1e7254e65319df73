/** Reads the log for callers: searched in pages, newest first, or walked from the oldest message to the newest. */

import type { Scope } from '../model/access.ts'
import type { HistoryPage, Message } from '../model/message.ts'
import { normalizeSessionName } from '../model/session.ts'
import { isUserId } from '../model/user-id.ts'
import { type Clock, SharedTurns } from '../platform/clock.ts'
import { createByteCounter } from '../platform/memory.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { Views } from '../receive/view.ts'
import { findBearers, findUserId, resolveUserId } from '../send/plan.ts'
import type { HistoryFilter } from '../storage/messages.ts'
import type { ContextStore, SessionStore } from '../storage/state.ts'
import type { ConversationStore, MessageLog, UserNameStore } from '../storage/store.ts'

export interface HistoryPorts {
  store: {
    log: Pick<MessageLog, 'search' | 'findRange' | 'listAfter'>
    names: Pick<UserNameStore, 'find'>
    conversations: Pick<ConversationStore, 'listAlike' | 'listThreads'>
  }
  sessions: Pick<SessionStore, 'get' | 'list'>
  contexts: Pick<ContextStore, 'findKnowing' | 'listUsers'>
  views: Views
  clock: Clock
}

/** Which messages to walk. Session and user are as stored. */
export interface WalkFilter {
  session?: string
  /** The user of the conversation: an id. */
  user?: string
  /** Unix ms, inclusive. */
  since?: number
  /** Unix ms, exclusive. */
  until?: number
  /** Row id of the last message. */
  upTo: number
  /** Only messages of these accounts and users. */
  scope?: Scope
}

/** Rows that a walk reads at a time. */
const walkRows = 50
/** Reading, decoding and writing a message leaves about this many bytes for the collector per character of it. */
const garbagePerCharacter = 40

export class History extends RoomPart<HistoryPorts> {
  /** Shares the event loop among walks. */
  readonly #turns: SharedTurns
  /** Counts what walks leave for the collector. */
  readonly #count = createByteCounter()

  constructor(ports: HistoryPorts) {
    super(ports)
    this.#turns = new SharedTurns(ports.clock)
  }

  /** Resolves a user. A string that is not a known name is treated as an id, which may have no messages. */
  async #resolveUser(user: string, session: string | undefined, scope: Scope | undefined): Promise<string> {
    if (isUserId(user)) return findUserId(this.ports, user, scope, 'user_id')
    const isName = (await findBearers(this.ports, { name: user, scope })).found.length > 0
    return isName ? resolveUserId(this.ports, { user, session, scope }, 'user_id') : user
  }

  /** Returns what a person wrote last, the newest first. */
  async lastWords({ session, user_id }: { session: string; user_id: string }): Promise<string[]> {
    const { messages } = await this.page({ session, user_id, direction: 'received', limit: 5, offset: 0 })
    return messages.map(({ text }) => text)
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
    const { sessions, store, views } = this.ports
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
      // So that a caller that adds `limit` to `offset` skips nothing.
      limit: next !== undefined && length > 0 ? length : request.limit,
      offset: request.offset,
      ...(next !== undefined && { next_before: next }),
    }
  }

  /**
   * Yields the messages that match, oldest first, some at a time. Between two pages other work of the process runs.
   *
   * @throws SvcError `store_unavailable`; the signal's reason
   */
  async *walk(filter: WalkFilter, signal: AbortSignal): AsyncGenerator<Message[], void> {
    const { store, views } = this.ports
    const {
      scope,
      session,
      since = Number.NEGATIVE_INFINITY,
      until = Number.POSITIVE_INFINITY,
      user,
    } = filter
    if (user !== undefined && scope?.users?.includes(user) === false) return
    const inTime = filter.since !== undefined || filter.until !== undefined
    const { low, high } = inTime ? await store.log.findRange(filter) : { low: 1, high: filter.upTo }
    const end = Math.min(high, filter.upTo)
    const wanted = {
      session,
      scope: user === undefined ? scope : { ...scope, users: [user] },
      limit: walkRows,
    }
    const turn = this.#turns.join()
    for (let after = low - 1; after < end; ) {
      await turn()
      signal.throwIfAborted()
      const answer = views.createAnswer()
      const rows = await store.log.listAfter(after, { ...wanted, characters: answer.characters })
      const last = rows.at(-1)
      if (!last) return
      this.#count(rows.reduce((sum, { raw }) => sum + raw.length, 0) * garbagePerCharacter)
      // The blank row of an erased message has no session.
      const matches = rows.filter(
        row => row.id <= end && row.timestamp >= since && row.timestamp < until && Boolean(row.session),
      )
      const messages = await answer.take(matches)
      after = messages.length < matches.length ? messages.at(-1)!.id : last.id
      if (messages.length > 0) yield messages
    }
  }
}
