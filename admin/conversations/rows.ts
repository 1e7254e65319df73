/** The rows of a chat: each message with its headings. */
import type { Message } from '../api.ts'
import { asksFirst, inSentOrder } from '../talks.ts'
import { sameDay } from '../times.ts'
import type { Outgoing } from './pieces.ts'

export interface Row {
  key: number
  message: Message
  /** Whether the heading of its day is above it. */
  newDay: boolean
  /** A time of the day whose heading is above the message, Unix ms. */
  ofDay: number
  /** True for one row: the first message that was unread when the conversation was opened. */
  unreadFromHere: boolean
  first: boolean
  last: boolean
  /** Whether the approval buttons are here. Several parts have one approval, below the last part. */
  decides: boolean
  /** The outgoing message; set only on the row of its last piece. */
  outgoing: Outgoing | undefined
}

const togetherMs = 3 * 60_000

/** Whether both are from the same side. An outgoing piece has no sender yet. */
const sameSide = (one: Message, next: Message | undefined): boolean =>
  next !== undefined &&
  one.direction === next.direction &&
  (one.direction === 'sent' ? one.sent_by === next.sent_by : one.from_user === next.from_user) &&
  next.timestamp - one.timestamp < togetherMs &&
  sameDay(one.timestamp, next.timestamp)

export function rowsOf(
  inLog: readonly Message[],
  outgoing: readonly Outgoing[],
  readUpTo: number | undefined,
): Row[] {
  const stored = inSentOrder(inLog)
  const coming = outgoing.flatMap(one => one.pieces.value.map(message => ({ message, one })))
  const all = [...stored, ...coming.map(({ message }) => message)]
  // WeChat's times may go back.
  const days = stored.map(({ timestamp }) => timestamp)
  for (let at = days.length - 2; at >= 0; at--) days[at] = Math.min(days[at]!, days[at + 1]!)
  // Unsent messages are below newer ones.
  for (const { message } of coming) days.push(Math.max(message.timestamp, days.at(-1) ?? 0))
  let unreadSeen = readUpTo === undefined
  let isFirst = true
  return all.map((message, at) => {
    const [before, after] = [all[at - 1], all[at + 1]]
    const unreadFromHere = !unreadSeen && message.direction === 'received' && message.id > (readUpTo ?? 0)
    unreadSeen ||= unreadFromHere
    const nth = at - stored.length
    const own = coming[nth]?.one
    const isLast = !sameSide(message, after)
    const row = {
      key: message.id,
      message,
      newDay: !before || !sameDay(days[at - 1]!, days[at]!),
      ofDay: days[at]!,
      unreadFromHere,
      first: isFirst,
      last: isLast,
      decides: asksFirst(message) && !(after && asksFirst(after) && after.timestamp === message.timestamp),
      outgoing: own && coming[nth + 1]?.one !== own ? own : undefined,
    }
    isFirst = isLast
    return row
  })
}

/** Returns the width of a line in characters. Chinese ones count twice. */
const breadth = (line: string): number => line.length + (line.match(/[\u2e80-\uffef]/g)?.length ?? 0)

/** Returns the estimated height of a row, px. It makes the scroll bar about right before the row is drawn. */
export const heightOf = ({ message, newDay, first }: Row, width: number): number =>
  (newDay ? 48 : 0) + (first ? 10 : 3) + bodyHeight(message, width)

/** Caches the height of each message for the last width: each new message asks for all heights. */
const heights = new WeakMap<Message, { width: number; height: number }>()

function bodyHeight(message: Message, width: number): number {
  const known = heights.get(message)
  if (known?.width === width) return known.height
  let height = message.ref_msg ? 44 : 0
  const perLine = Math.max(20, Math.min(width * 0.72, 616) / 7.4)
  for (const { kind, text = '' } of message.items) {
    if (kind === 'IMAGE') height += 240
    else if (kind === 'VIDEO') height += 200
    else if (kind !== 'TEXT') height += 64
    else {
      const lines = text.slice(0, 1500).split('\n').slice(0, 25)
      height += Math.min(
        600,
        lines.reduce((sum, line) => sum + 22.5 * Math.max(1, Math.ceil(breadth(line) / perLine)), 14),
      )
    }
  }
  heights.set(message, { width, height })
  return height
}
