/** recv: reads the log forward from a consumer's position, or waits for it to grow. */

import type { Message } from '../model/message.ts'
import { sessionName } from '../model/session.ts'
import type { Clock } from '../platform/clock.ts'
import type { Store } from '../store/store.ts'
import type { Call } from './call.ts'
import type { RecvRequest } from './face.ts'
import { viewOf } from './view.ts'

export class Inbox {
  readonly #store: Store
  readonly #clock: Clock

  constructor(store: Store, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /**
   * Messages after the consumer's position, oldest first; waits up to `timeout` when there are none.
   *
   * The rows are leased to this call and the position moves when the door tells that the answer was written;
   * otherwise they come again, marked `redelivered`. With `after` nothing is leased and nothing moves.
   *
   * @throws SvcError `store_unavailable`
   */
  async recv(request: RecvRequest, call: Call): Promise<Message[]> {
    const deadline = this.#clock.monotonic() + request.timeout * 1000
    const session = request.session === undefined ? undefined : sessionName(request.session)
    for (;;) {
      // Taken before looking, so that a message stored between the look and the wait still wakes us.
      const seen = this.#store.lastId()
      const messages = this.#read(request, session, call)
      const leftMs = deadline - this.#clock.monotonic()
      if (messages.length > 0 || leftMs <= 0 || call.signal.aborted) return messages
      await this.#store.waitForChange(call.signal, leftMs, seen)
    }
  }

  #read(request: RecvRequest, session: string | undefined, call: Call): Message[] {
    const store = this.#store
    if (request.after !== undefined) {
      return store
        .after(request.after, {
          limit: request.limit,
          direction: 'received',
          ...(session !== undefined && { session }),
        })
        .map(row => viewOf(store, row))
    }
    // A caller that is gone must not lease anything.
    if (call.signal.aborted) return []
    const claim = store.claim(request.consumer, {
      limit: request.limit,
      ...(session !== undefined && { session }),
    })
    if (!claim) return []
    call.settle(delivered => (delivered ? store.confirm(claim.lease) : store.abandon(claim.lease)))
    return claim.rows.map(row => viewOf(store, row, claim.redelivered.has(row.id)))
  }
}
