/** history: pages of the log, newest first. */

import { sessionName } from '../model/session.ts'
import type { Store } from '../store/store.ts'
import type { HistoryPage, HistoryRequest } from './face.ts'
import { viewOf } from './view.ts'

export class History {
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
  }

  /** @throws SvcError `invalid_arguments` for a bad session name, `store_unavailable` */
  async page(request: HistoryRequest): Promise<HistoryPage> {
    const { session, ...rest } = request
    const page = await this.#store.history({
      ...rest,
      ...(session !== undefined && { session: sessionName(session) }),
    })
    return {
      messages: page.rows.map(row => viewOf(this.#store, row)),
      total: page.total,
      total_is_lower_bound: page.total_is_lower_bound,
      limit: request.limit,
      offset: request.offset,
      ...(page.next_before !== undefined && { next_before: page.next_before }),
    }
  }
}
