/** What becomes of a notice: the same again is one, and what is over before it was sent is not sent. */
import {
  longestNotice,
  type Notice,
  nothingSaid,
  type Priority,
  priorities,
  saysSomething,
} from '../../model/topic.ts'
import { cutMiddle } from '../../platform/format.ts'
import { nodeCrypto } from '../../platform/lazy-crypto.ts'
import { type MissedNotices, type NameCounts, sameTextMs, type UnreadWords } from '../topics.ts'

export const levelOf = (priority: Priority): number => priorities.indexOf(priority) + 1
export const priorityOf = (level: number): Priority => priorities[level - 1] ?? 'default'

/** What is kept of a notice, as its row. `over`: it ended, and is only remembered. */
export interface NoticeRow {
  readonly name: string
  readonly title?: string | undefined
  readonly text: string
  /** 1 to 5. */
  readonly priority: number
  /** JSON. */
  readonly tags?: string | undefined
  readonly click?: string | undefined
  readonly media?: string | undefined
  readonly size: number
  readonly count: number
  readonly reported: number
  readonly received_at: number
  readonly last_at: number
  readonly expires_at: number
  readonly state: 'waiting' | 'sending' | 'sent' | 'unknown' | 'over'
  readonly resolved: number
  readonly bulletin?: string | undefined
  /** Hash of the content of a notice that is not over: that goes once it was sent. */
  readonly said: string
  /** It was sent, and came again more urgently since. */
  readonly raised: number
}

const [longestTitle, longestName] = [250, 60]
export const cut = (text: string, most: number): string =>
  text.length > most ? `${text.slice(0, most - 1).toWellFormed()}…` : text.toWellFormed()

/** Identifies what is the same. The first letter says whether the sender chose it. What says nothing is never the same again. */
export function markOf({ fingerprint, text, title = '' }: Notice): string {
  const isSaid = /[\p{L}\p{N}\p{S}]/u.test(title + text) && (title !== '' || text !== nothingSaid)
  const said = isSaid ? `${title}\0${text}` : crypto.randomUUID()
  const hash = nodeCrypto().hash('sha256', fingerprint ?? said, 'hex')
  return (fingerprint === undefined ? 't' : 'f') + hash.slice(0, 40)
}

/** Returns a short name for a notice: its title, first line or file name. Lines and counts show it. */
export const nameOf = ({ media, text, title }: Notice): string =>
  cut(
    (title?.trim() || text.trim().split('\n')[0] || media?.file_name || '–').replace(/\s+/g, ' '),
    longestName,
  )

/** Bytes that count for a row. */
export const sizeOf = (...texts: readonly (string | undefined)[]): number =>
  200 + new TextEncoder().encode(texts.join('')).length

function createRow(
  notice: Notice,
  { keep_ms, level, now }: { keep_ms: number; level: number; now: number },
): NoticeRow {
  const { click, media, resolved, tags, text, title } = notice
  const row = {
    title: title === undefined ? undefined : cut(title, longestTitle),
    text: cutMiddle(text.toWellFormed(), longestNotice),
    tags: tags && JSON.stringify(tags.slice(0, 10).map(tag => cut(tag, longestName))),
    click: click === undefined ? undefined : cut(click, 1000),
    media: media && JSON.stringify(media),
  }
  return {
    ...row,
    said: nodeCrypto()
      .hash('sha256', JSON.stringify(Object.entries(row)), 'hex')
      .slice(0, 20),
    raised: 0,
    name: nameOf(notice),
    priority: level,
    size: sizeOf(...Object.values(row)),
    count: 1,
    reported: 0,
    received_at: now,
    last_at: now,
    expires_at: now + keep_ms,
    state: 'waiting',
    resolved: Number(resolved === true),
    bulletin: undefined,
  }
}

/**
 * Returns the row of a notice after it came.
 *
 * @param known the row of the same one
 * @param max the highest level that the topic allows
 */
export function mergeNotice(
  known: NoticeRow | undefined,
  notice: Notice,
  { keep_ms, max, now }: { keep_ms: number; max: number; now: number },
): NoticeRow {
  const isOver = notice.resolved === true
  // That something is over is never urgent.
  const level = Math.min(levelOf(notice.priority), max, isOver ? levelOf('default') : max)
  const fresh = createRow(notice, { keep_ms, level, now })
  const isOpen = known?.state === 'waiting' || known?.state === 'sending'
  const same = known && (isOpen || known.expires_at > now) ? known : undefined
  // An end that says nothing ends nothing here.
  if (!same) return isOver && !saysSomething(notice) ? forgetContent({ ...fresh, state: 'over' }) : fresh
  const again: NoticeRow = { ...same, count: same.count + 1, last_at: now }
  const { bulletin, expires_at, media, name, raised, received_at, reported, resolved, state, title } = same
  if (isOver) {
    if (saysSomething(notice)) return endNotice(again, fresh)
    // Says what came last, if that was not sent.
    const { size, text } = state === 'waiting' && reported > 0 ? same : fresh
    return endNotice(again, { ...fresh, name, size, text, title: title ?? name })
  }
  const isWaiting = state === 'waiting'
  if (state === 'over' || (resolved === 1 && (reported === 0 || state === 'sending'))) return fresh
  const isFileLeft = isWaiting && same.count === reported
  const isNextTime = notice.fingerprint === undefined && isWaiting && now >= received_at + sameTextMs
  const isMore = level > same.priority || isFileLeft || (reported > 0 && isNextTime)
  if (!isMore && fresh.said === same.said)
    return resolved === 1 ? forgetContent({ ...again, state: 'sent', resolved: 0 }) : again
  const isGoing = state === 'sending' || (isWaiting && bulletin !== undefined)
  const isLeft = isWaiting && resolved === 0 && media !== undefined && fresh.media === undefined
  return {
    ...fresh,
    ...(isLeft && { media, size: fresh.size + sizeOf(media) }),
    ...(isWaiting && { received_at, expires_at }),
    count: again.count,
    priority: Math.max(level, same.priority),
    raised: Number(isMore || raised === 1),
    reported: isGoing && isMore ? Math.max(1, reported) : reported,
    bulletin: isGoing && !isMore ? bulletin : undefined,
  }
}

/** Returns a row after the notice that it is over. */
function endNotice(again: NoticeRow, fresh: NoticeRow): NoticeRow {
  const { bulletin, count, reported, resolved, said, state } = again
  if (state === 'over' || resolved === 1) return again
  if (state === 'waiting' && reported === 0 && bulletin === undefined)
    return forgetContent({ ...again, state: 'over' })
  return { ...fresh, said, count, reported: Math.max(1, reported), bulletin: undefined }
}

const forgetContent = (row: NoticeRow): NoticeRow => ({
  ...row,
  title: undefined,
  text: '',
  tags: undefined,
  click: undefined,
  media: undefined,
  size: 0,
})

/** Until when a notice that was sent, or is over, is remembered, as the row of `mark` expires. */
export const rememberedUntil = (mark: string, expiresAt: number, now: number): number =>
  mark.startsWith('t') ? Math.min(expiresAt, now + sameTextMs) : expiresAt

/** Names that are counted apart. */
const mostNames = 50

/** Adds to counts by name; from some number of names on, further ones have no name. */
export function addNames(counts: NameCounts, more: NameCounts, sign: 1 | -1 = 1): NameCounts {
  const sum = sumNames([counts])
  for (const [name, count] of Object.entries(more)) {
    const key = Object.hasOwn(sum, name) || Object.keys(sum).length < mostNames || sign < 0 ? name : ''
    const total = (sum[key] ?? 0) + sign * count
    if (total > 0) sum[key] = total
    else delete sum[key]
  }
  return sum
}

/** Returns the sum of counts by name. A sender may choose names such as `constructor`, which every other object has. */
export function sumNames(all: readonly NameCounts[]): Record<string, number> {
  const sum: Record<string, number> = Object.create(null)
  for (const [name, count] of all.flatMap(Object.entries<number>)) sum[name] = (sum[name] ?? 0) + count
  return sum
}

/** Adds what could not be read in a notice. */
export function addUnread({ severities = {}, template = 0 }: UnreadWords, { unread }: Notice): UnreadWords {
  const word = unread?.severity
  return {
    template: template + Number(unread?.template === true),
    severities: word === undefined ? severities : addNames(severities, { [cut(word, longestName)]: 1 }),
  }
}

export const noneMissed: MissedNotices = { more: {}, expired: {} }

/** Subtracts what was sent from what is only counted. */
export const withoutMissed = (missed: MissedNotices, sent: MissedNotices = noneMissed): MissedNotices => ({
  more: addNames(missed.more, sent.more, -1),
  expired: addNames(missed.expired, sent.expired, -1),
})
