/** history: pages of the log, newest first. */
import type { Message } from '../model/message.ts'
import { sessionName } from '../model/session.ts'
import { Answer } from '../receive/view.ts'
import { addressee } from '../send/plan.ts'
import type { Sessions } from '../storage/sqlite/state/sessions.ts'
import type { HistoryFilter, Store } from '../storage/sqlite/store.ts'

export interface HistoryPage {
  messages: Message[]
  total: number
  total_is_lower_bound: boolean
  limit: number
  offset: number
  /** Row id to pass as `before` for the next page; absent on the last one. */
  next_before?: number
}

export class History {
  readonly #store: Store
  readonly #sessions: Pick<Sessions, 'get' | 'list'>

  constructor(store: Store, sessions: Pick<Sessions, 'get' | 'list'>) {
    this.#store = store
    this.#sessions = sessions
  }

  /** What is nobody's name is an id, of a user of whom there may be no messages. */
  async #meant(user: string, session: string | undefined): Promise<string> {
    const isName = this.#store.names(names => names.called(user)).length > 0
    return isName
      ? addressee({ store: this.#store, sessions: this.#sessions }, { user, session }, 'user_id')
      : user
  }

  /**
   * A search that takes long ends with its signal. `hasRoom` as of a call.
   *
   * @throws SvcError `invalid_arguments` for a bad session name or a name that several have, `store_unavailable`; the
   *   signal's reason
   */
  async page(
    request: HistoryFilter,
    signal?: AbortSignal,
    hasRoom?: (message: Message) => boolean,
  ): Promise<HistoryPage> {
    const { session: given, ...rest } = request
    const name = given === undefined ? undefined : sessionName(given)
    // As it is written, whatever the caller's capitals; of a session that is logged out, as the caller says.
    const session = name === undefined ? undefined : ((await this.#sessions.get(name))?.name ?? name)
    const user_id = rest.user_id && (await this.#meant(rest.user_id, session))
    const answer = new Answer(this.#store, { hasRoom })
    const filter = { ...rest, session, ...(user_id && { user_id }) }
    const page = await this.#store.history(filter, signal, answer.fits)
    const { length } = page.rows
    return {
      messages: answer.of(page.rows),
      total: page.total,
      total_is_lower_bound: page.total_is_lower_bound,
      // Who adds it to the offset skips nothing.
      limit: page.next_before !== undefined && length > 0 ? length : request.limit,
      offset: request.offset,
      ...(page.next_before !== undefined && { next_before: page.next_before }),
    }
  }
}
