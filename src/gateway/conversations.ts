/** Conversations as a person looks at them: the newest first, with what is left of the right to answer. */

import type { Conversation, Hour } from '../model/conversation.ts'
import { type SessionUser, type SessionWithUsers, sessionName } from '../model/session.ts'
import type { Clock } from '../platform/clock.ts'
import type { Store } from '../store/store.ts'
import { viewOf } from './view.ts'

export interface ConversationPorts {
  store: Store
  clock: Clock
  sessions(): Promise<SessionWithUsers[]>
}

/** Others get their turn after this. */
const sliceMs = 8
const hourMs = 60 * 60_000

export class Conversations {
  readonly #ports: ConversationPorts

  constructor(ports: ConversationPorts) {
    this.#ports = ports
  }

  /** All of them, the newest message first; those of sessions that were logged out too, as long as messages are kept. */
  async list(): Promise<Conversation[]> {
    const { clock, sessions, store } = this.#ports
    const found: Conversation[] = []
    const known = new Set<string>()
    let sliceEnds = clock.monotonic() + sliceMs
    const look = async (userId: string, session?: string, user?: SessionUser) => {
      if (clock.monotonic() > sliceEnds) {
        await clock.sleep(0)
        sliceEnds = clock.monotonic() + sliceMs
      }
      const thread = store.conversations(all => all.thread(userId, session))
      if (!thread) return
      const right = user && {
        remaining: user.remaining,
        ...(user.window_expires_at !== undefined && { window_expires_at: user.window_expires_at }),
      }
      found.push({
        session: session ?? thread.last.session,
        user_id: userId,
        last_message: viewOf(store, thread.last),
        unread: thread.unread,
        ...right,
      })
    }
    for (const { name, users } of await sessions()) {
      for (const user of users) {
        known.add(user.user_id)
        await look(user.user_id, name, user)
      }
    }
    for (const peer of store.conversations(all => all.peers())) if (!known.has(peer)) await look(peer)
    return found.sort((a, b) => b.last_message.id - a.last_message.id)
  }

  /** @throws SvcError `invalid_arguments` for a bad session name, `store_unavailable` */
  async markRead(session: string, userId: string, upTo: number): Promise<void> {
    const name = sessionName(session)
    this.#ports.store.conversations(all => all.markRead(name, userId, upTo))
  }

  /** Messages per hour of the last `count` hours, the running one last. */
  async hours(count: number): Promise<Hour[]> {
    const { clock, store } = this.#ports
    const first = Math.floor(clock.now() / hourMs) * hourMs - (count - 1) * hourMs
    const counted = new Map(store.conversations(all => all.counts(first, hourMs)).map(one => [one.span, one]))
    return Array.from({ length: count }, (_none, span) => {
      const { all, sent } = counted.get(span) ?? { all: 0, sent: 0 }
      return { from: first + span * hourMs, received: all - sent, sent }
    })
  }
}
