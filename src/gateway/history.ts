/** history: pages of the log, newest first. */
import { sessionName } from '../model/session.ts'
import { Answer } from '../receive/view.ts'
import type { Sessions } from '../state/sessions.ts'
import type { Store } from '../store/store.ts'
import type { HistoryPage, HistoryRequest } from './gateway-api.ts'

export class History {
  readonly #store: Store
  readonly #sessions: Pick<Sessions, 'get'>

  constructor(store: Store, sessions: Pick<Sessions, 'get'>) {
    this.#store = store
    this.#sessions = sessions
  }

  /** @throws SvcError `invalid_arguments` for a bad session name, `store_unavailable`; the signal's reason */
  async page(request: HistoryRequest, signal?: AbortSignal): Promise<HistoryPage> {
    const { session: given, ...rest } = request
    const name = given === undefined ? undefined : sessionName(given)
    // As it is written, whatever the caller's capitals; of a session that is logged out, as the caller says.
    const session = name === undefined ? undefined : ((await this.#sessions.get(name))?.name ?? name)
    const answer = new Answer(this.#store)
    const filter = { ...rest, ...(session !== undefined && { session }) }
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
