/** recv: reads the log forward from a consumer's position, or waits for it to grow. */

import { SvcError } from '../model/error.ts'
import type { Message } from '../model/message.ts'
import { sessionName } from '../model/session.ts'
import type { Clock } from '../platform/clock.ts'
import type { SessionRecord } from '../state/sessions.ts'
import type { Store } from '../store/store.ts'
import type { Call } from './call.ts'
import type { RecvRequest } from './face.ts'
import { viewOf } from './view.ts'

export interface InboxPorts {
  store: Store
  clock: Clock
  record(name: string): Promise<SessionRecord | undefined>
  /** Aborts when the service stops: waits then end with what there is. */
  closing: AbortSignal
}

export class Inbox {
  readonly #ports: InboxPorts
  /** Calls that wait; each ends when it is called. */
  readonly #waits = new Set<() => void>()

  constructor(ports: InboxPorts) {
    this.#ports = ports
    ports.closing.addEventListener('abort', () => {
      for (const end of [...this.#waits]) end()
    })
  }

  /**
   * Messages after the consumer's position, oldest first; waits up to `timeout` when there are none.
   *
   * The rows are leased to this call and the position moves when the door tells that the answer was written;
   * otherwise they come again, marked `redelivered`. With `after` nothing is leased and nothing moves.
   *
   * @throws SvcError `session_not_found` for one that neither exists nor left messages, `store_unavailable`,
   *   `shutting_down`
   */
  async recv(request: RecvRequest, call: Call): Promise<Message[]> {
    const { clock, closing, store } = this.#ports
    if (closing.aborted) throw new SvcError('shutting_down', 'the service is stopping')
    const deadline = clock.monotonic() + request.timeout * 1000
    const session = request.session === undefined ? undefined : await this.#named(request.session)
    for (;;) {
      // Taken before looking, so that a message stored between the look and the wait still wakes us.
      const seen = store.lastId()
      const messages = this.#read(request, session, call)
      const leftMs = deadline - clock.monotonic()
      if (messages.length > 0 || leftMs <= 0 || call.signal.aborted) return messages
      await this.#grown(call.signal, leftMs, seen)
      if (closing.aborted) return []
    }
  }

  /** The log grew, the time is over, the caller left, or the service stops. */
  async #grown(signal: AbortSignal, leftMs: number, seen: number): Promise<void> {
    const over = new AbortController()
    const end = () => over.abort()
    this.#waits.add(end)
    signal.addEventListener('abort', end, { once: true })
    try {
      if (!signal.aborted) await this.#ports.store.waitForChange(over.signal, leftMs, seen)
    } finally {
      this.#waits.delete(end)
      signal.removeEventListener('abort', end)
    }
  }

  /**
   * The session's name as it is written. One that was logged out counts while its messages are here; any other is
   * an error, since waiting minutes for a misspelt name helps nobody.
   */
  async #named(given: string): Promise<string> {
    const { record, store } = this.#ports
    const name = sessionName(given)
    const found = await record(name)
    if (found) return found.name
    if (store.after(0, { limit: 1, session: name }).length > 0) return name
    throw new SvcError('session_not_found', `there is no session named "${name}"`)
  }

  #read(request: RecvRequest, session: string | undefined, call: Call): Message[] {
    const { store } = this.#ports
    const options = { limit: request.limit, ...(session !== undefined && { session }) }
    if (request.after !== undefined) {
      return store.after(request.after, { ...options, direction: 'received' }).map(row => viewOf(store, row))
    }
    // A caller that is gone must not lease anything.
    if (call.signal.aborted) return []
    const claim = store.claim(request.consumer, options)
    if (!claim) return []
    call.settle(delivered => (delivered ? store.confirm(claim.lease) : store.abandon(claim.lease)))
    return claim.rows.map(row => viewOf(store, row, claim.redelivered.has(row.id)))
  }
}
