/** The lines of a chat: each message with what stands above it. */
import type { Message } from '../api.ts'
import { sameDay } from '../times.ts'
import { asksFirst } from './delivery.tsx'
import type { Outgoing } from './pieces.ts'

export interface Row {
  key: number
  message: Message
  /** Its day is written above it. */
  newDay: boolean
  /** A time of the day under which it stands, unix ms. */
  ofDay: number
  /** Nobody had looked at it, and at what follows, when the conversation was opened. */
  unreadFromHere: boolean
  first: boolean
  last: boolean
  /** A person has to say yes, and is asked here: of several parts below the last one, since it is one yes. */
  decides: boolean
  /** On its way; of its pieces the last one's row alone. */
  outgoing: Outgoing | undefined
}

const togetherMs = 3 * 60_000

const together = (one: Message | undefined, next: Message | undefined): boolean =>
  one !== undefined &&
  next !== undefined &&
  one.direction === next.direction &&
  one.from_user === next.from_user &&
  next.timestamp - one.timestamp < togetherMs &&
  sameDay(one.timestamp, next.timestamp)

export function rowsOf(
  stored: readonly Message[],
  outgoing: readonly Outgoing[],
  readUpTo: number | undefined,
): Row[] {
  const coming = outgoing.flatMap(one => one.pieces.value.map(message => ({ message, one })))
  const all = [...stored, ...coming.map(({ message }) => message)]
  // What waited and went out later stands where it was written, and its time is later than what follows.
  const days = all.map(({ timestamp }) => timestamp)
  for (let at = days.length - 2; at >= 0; at--) days[at] = Math.min(days[at]!, days[at + 1]!)
  let unreadSeen = readUpTo === undefined
  return all.map((message, at) => {
    const [before, after] = [all[at - 1], all[at + 1]]
    const unreadFromHere = !unreadSeen && message.direction === 'received' && message.id > (readUpTo ?? 0)
    unreadSeen ||= unreadFromHere
    const nth = at - stored.length
    const own = coming[nth]?.one
    return {
      key: message.id,
      message,
      newDay: !before || !sameDay(days[at - 1]!, days[at]!),
      ofDay: days[at]!,
      unreadFromHere,
      first: !sameSide(before, message),
      last: !sameSide(message, after),
      decides: asksFirst(message) && !(after && asksFirst(after) && after.timestamp === message.timestamp),
      outgoing: own && coming[nth + 1]?.one !== own ? own : undefined,
    }
  })
}

// Ours on their way have no sender yet.
const sameSide = (one: Message | undefined, next: Message | undefined): boolean =>
  one?.direction === 'sent' && next?.direction === 'sent'
    ? together({ ...one, from_user: '' }, { ...next, from_user: '' })
    : together(one, next)

/** Chinese characters are twice as broad. */
const breadth = (line: string): number => line.length + (line.match(/[\u2e80-\uffef]/g)?.length ?? 0)

/** How high it will be, roughly, so that the scroll bar tells about the truth before it is drawn. */
export function heightOf({ message, newDay, first }: Row, width: number): number {
  let height = (newDay ? 48 : 0) + (first ? 10 : 3)
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
  return height + (message.ref_msg ? 44 : 0)
}
