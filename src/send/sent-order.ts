/** The order in which people read a conversation. The panel uses it, too. */
import type { Message } from '../model/message.ts'

type Facts = Pick<Message, 'direction' | 'reason_code' | 'status' | 'timestamp'>

/** The clocks of svc and WeChat may differ by this much. */
const skewMs = 60_000
/** The sent messages in a row that are held back until one is received. */
const mostInARow = 500

const byTime = (one: Facts, other: Facts): number => one.timestamp - other.timestamp

/**
 * Takes the messages of a conversation in the order of the log, in which one that waited has the place where it was
 * written. Gives them with that one where it was sent, and drafts that nobody approved at the end.
 */
export class SentOrder<M extends Facts> {
  /** Sent messages since the last received one. */
  #sent: M[] = []
  /** Those that were sent after messages that follow them. */
  #late: M[] = []
  readonly #drafts: M[] = []

  /** @returns the messages whose place is known now */
  take(message: M): M[] {
    if (message.status === 'queued' && message.reason_code === 'approval') {
      this.#drafts.push(message)
      return []
    }
    if (message.direction === 'sent') {
      this.#sent.push(message)
      return this.#sent.splice(0, Math.max(0, this.#sent.length - mostInARow))
    }
    const { timestamp: at } = message
    const [before = [], late = []] = [false, true].map(isLate =>
      this.#sent.filter(({ timestamp }) => timestamp > at + skewMs === isLate),
    )
    const due = this.#late.filter(({ timestamp }) => timestamp <= at)
    this.#late = [...this.#late.filter(({ timestamp }) => timestamp > at), ...late].sort(byTime)
    this.#sent = []
    return [...(due.length > 0 ? [...due, ...before].sort(byTime) : before), message]
  }

  /** @returns the others, when there is no further message */
  rest(): M[] {
    const last = this.#late.length > 0 ? [...this.#late, ...this.#sent].sort(byTime) : this.#sent
    return [...last, ...this.#drafts]
  }
}
