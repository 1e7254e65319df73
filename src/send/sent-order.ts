/** The order in which people read a conversation. The panel uses it, too. */
import type { Message } from '../model/message.ts'

type Facts = Pick<Message, 'direction' | 'reason_code' | 'status' | 'timestamp'>

/** The clocks of svc and WeChat may differ by this much. */
const skewMs = 60_000
/** The sent messages in a row that are held back until one is received. */
const mostInARow = 500

/** Whether a message waits for a person's approval. */
export const asksFirst = ({ status, reason_code }: Pick<Facts, 'reason_code' | 'status'>): boolean =>
  status === 'queued' && reason_code === 'approval'

/** Whether a message was never more than a draft: it waits for approval, or was declined. */
export const isDraft = (message: Pick<Facts, 'reason_code' | 'status'>): boolean =>
  asksFirst(message) || (message.status === 'refused' && message.reason_code === 'declined')

/** Whether a message was sent after one that follows it in the log, of this time (Unix ms). */
export const isLate = (
  { direction, timestamp }: Pick<Facts, 'direction' | 'timestamp'>,
  at: number,
): boolean => direction === 'sent' && timestamp > at + skewMs

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
    if (asksFirst(message)) {
      this.#drafts.push(message)
      return []
    }
    if (message.direction === 'sent') {
      this.#sent.push(message)
      return this.#sent.splice(0, Math.max(0, this.#sent.length - mostInARow))
    }
    const { timestamp: at } = message
    const [before = [], late = []] = [false, true].map(wasLate =>
      this.#sent.filter(one => isLate(one, at) === wasLate),
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

/** Returns messages of a conversation in the order in which people read them. @param inLog in the order of the log */
export function inSentOrder<M extends Facts>(inLog: readonly M[]): M[] {
  const order = new SentOrder<M>()
  return [...inLog.flatMap(message => order.take(message)), ...order.rest()]
}
