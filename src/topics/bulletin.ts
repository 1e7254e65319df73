/** The text of a bulletin: as much as one message may have, the newest first, and the rest counted by name. */
import { isChineseFor } from '../model/language.ts'
import { withoutUnseen } from '../model/seen.ts'
import type { Priority } from '../model/topic.ts'
import { topicLetter } from '../model/topic-name.ts'
import { cutMiddle } from '../platform/format.ts'
import { cut, sumNames } from '../storage/rules/notices.ts'
import type { MissedNotices, NameCounts } from '../storage/topics.ts'

export interface BulletinLine {
  /** Name of the topic. */
  readonly topic: string
  readonly name: string
  readonly title?: string | undefined
  readonly text: string
  readonly priority: Priority
  readonly tags?: readonly string[] | undefined
  /** Emojis by which tags are shown. */
  readonly emojis?: Readonly<Record<string, string>>
  readonly click?: string | undefined
  /** How often it came since it was last in a bulletin. */
  readonly count: number
  /** It was in an earlier one. */
  readonly wasSent: boolean
  readonly resolved: boolean
  /** The time it came, for people. */
  readonly time: string
  /** A file that does not go with it: its name, and whether it is given up. */
  readonly file?: { readonly name: string; readonly isLost: boolean } | undefined
}

export interface BulletinContent {
  /** The newest first. */
  readonly lines: readonly BulletinLine[]
  /** Those that have no line. */
  readonly others: NameCounts
  readonly missed: MissedNotices
  /** What an earlier bulletin named that may not have arrived. */
  readonly doubts: NameCounts
  /** How many notices wait. */
  readonly rest: number
  /** Whether nothing more goes until the person writes. */
  readonly isLast: boolean
  /** What the person wrote last, the newest first. */
  readonly wrote?: readonly string[]
}

const english = {
  notices: (count: number) => `${count} notices`,
  more: (names: string) => `And also: ${names}`,
  expired: (names: string) => `Out of time, no longer sent: ${names}`,
  tooMany: (names: string) => `Too many to keep: ${names}`,
  doubts: (names: string) => `May not have arrived before: ${names}`,
  rest: (count: number) => `Still waiting: ${count}. Write anything, and it comes.`,
  last: 'What comes next waits until you write anything.',
  resolved: 'over',
  again: 'again',
  others: 'others',
  lostFile: (name: string) => `(The file ${name} is not sent: it could not be read.)`,
  laterFile: (name: string) => `(The file ${name} comes later, when answers are left.)`,
}
const chinese: typeof english = {
  notices: count => `${count} 条通知`,
  more: names => `另有：${names}`,
  expired: names => `已过期，不再发送：${names}`,
  tooMany: names => `数量过多，未保留：${names}`,
  doubts: names => `此前可能未送达：${names}`,
  rest: count => `还有 ${count} 条在等待。回复任意内容即可收到。`,
  last: '之后的通知会等你回复任意内容后再发送。',
  resolved: '已恢复',
  again: '再次',
  others: '其他',
  lostFile: name => `（文件 ${name} 未发送：无法读取。）`,
  laterFile: name => `（文件 ${name} 将在有剩余回复时发送。）`,
}

/** Bytes of a bulletin: one message has at most 16,384, and more would take more answers. */
const longest = 16_000
/** Bytes of all lines, and of the text of one of several. */
const [longestLines, longestExcerpt] = [7000, 600]
/** Names in a list, and their bytes; characters of a file's name. */
const [mostNames, longestNames, longestFileName] = [40, 1500, 100]
const bytesOf = (text: string): number => new TextEncoder().encode(text).length
const urgencySigns: Partial<Record<Priority, string>> = { max: '‼️', high: '❗' }

/** Emojis by their names as tags, as ntfy shows them. */
const emojisOf = ({ emojis = {}, tags = [] }: BulletinLine): string[] =>
  tags.flatMap(tag => (Object.hasOwn(emojis, tag) ? emojis[tag]! : []))

export function formatBulletin({
  doubts,
  isLast,
  lines,
  missed,
  others,
  rest,
  wrote = [],
}: BulletinContent): string {
  const about = lines.map(one => `${one.topic} ${one.name} ${one.text}`).join('\n')
  const words = isChineseFor(wrote, about) ? chinese : english
  const only = lines.length === 1 && Object.keys(others).length === 0
  const { counted, shown } = only ? { counted: {}, shown: [] } : shorten(lines, words)
  const total = lines.length + Object.values(others).reduce((sum, count) => sum + count, 0)
  const more = sumNames([others, counted])
  const end = [
    ...listed(more, words.more, words),
    ...listed(missed.expired, words.expired, words),
    ...listed(missed.more, words.tooMany, words),
    ...listed(doubts, words.doubts, words),
    ...(rest > 0 && isLast ? [words.rest(rest)] : isLast ? [words.last] : []),
  ]
  return [
    ...(only || total === 0 ? [] : [words.notices(total)]),
    ...(only ? [formatOnly(lines[0]!, words, longest - bytesOf(end.join('\n')))] : shown),
    ...end,
  ].join('\n')
}

/** Says what a notice is. @param name how it is called; '' if what follows begins with that */
const headOf = (line: BulletinLine, words: typeof english, name: string): string => {
  const { count, priority, resolved, topic, wasSent } = line
  const signs = [resolved ? '✓' : urgencySigns[priority], ...emojisOf(line)].filter(Boolean)
  const state = [
    ...(resolved ? [words.resolved] : wasSent ? [words.again] : []),
    ...(count > 1 ? [`×${count}`] : []),
  ].join(' ')
  return [`[${topic}]`, ...signs, name, state && `(${state})`].filter(Boolean).join(' ')
}

/** Formats the only notice of a bulletin, with everything that it says. @param room bytes */
function formatOnly(line: BulletinLine, words: typeof english, room: number): string {
  const { click, emojis = {}, file, tags = [] } = line
  const labels = tags.filter(tag => !Object.hasOwn(emojis, tag))
  const { body: all, head: name } = partsOf(line)
  const head = headOf(line, words, name)
  const end = [
    ...(labels.length > 0 ? [labels.map(tag => `#${tag}`).join(' ')] : []),
    ...(click === undefined ? [] : [click]),
    ...listFile(file, words),
  ]
  const plain = all.replace(/^.+$/gm, one =>
    headLike.test(withoutUnseen(one.normalize('NFKC'))) ? `· ${one}` : one,
  )
  const body = cutMiddle(plain, room - bytesOf([head, ...end].join('\n')) - 10)
  return [`${head}${body && `${name ? '\n' : ' '}${body}`}`, ...end].join('\n')
}

/** The beginning of a line that looks like one of svc's, whatever signs and blanks stand before it. */
const headLike = new RegExp(
  String.raw`^[^\p{L}\p{N}[]*(?:\d\d:\d\d[^\p{L}\p{N}]*)?[[⁅【〔〖⟦]${topicLetter}+[\]⁆】〕〗⟧]`,
  'u',
)

const listFile = (file: BulletinLine['file'], words: typeof english): string[] =>
  file === undefined ? [] : [words[file.isLost ? 'lostFile' : 'laterFile'](cut(file.name, longestFileName))]

/** Formats the newest as lines, and counts those for which there is no room. */
function shorten(lines: readonly BulletinLine[], words: typeof english) {
  const shown: string[] = []
  let counted: NameCounts = {}
  let left = longestLines
  for (const line of lines) {
    const { click, file, name, time } = line
    const { body, head } = partsOf(line)
    const said = excerptOf(body)
    const shape = [
      `${time} ${headOf(line, words, head)}${said && `${head && ':'} ${said}`}`,
      ...(click === undefined ? [] : [click]),
      ...listFile(file, words),
    ].join('\n')
    left -= bytesOf(shape)
    if (left < 0) counted = sumNames([counted, { [name]: line.count }])
    else shown.push(shape)
  }
  return { shown, counted }
}

const titleOf = ({ name, title }: BulletinLine): string => (title?.trim() || name).replace(/\s+/g, ' ')

/**
 * Returns the head of a notice, and what that does not say. Without a title the first line of the text is the head; if it is
 * longer than a name, the head is ''.
 */
function partsOf(line: BulletinLine): { readonly head: string; readonly body: string } {
  const head = titleOf(line)
  const body = line.text.trim()
  const [first = ''] = body.split('\n', 1)
  const said = first.replace(/\s+/g, ' ')
  if (line.title?.trim()) return { head, body }
  if (said === head) return { head, body: body.slice(first.length).trim() }
  return { head: head.endsWith('…') && said.startsWith(head.slice(0, -1)) ? '' : head, body }
}

const excerptOf = (text: string): string =>
  cutMiddle(text.trim().replace(/\s*[\n\r\u0085\u2028\u2029]\s*/g, ' · '), longestExcerpt)

/** Lists names with their counts, the most frequent first. */
function listed(counts: NameCounts, form: (names: string) => string, words: typeof english): string[] {
  const sorted = Object.entries(counts).sort(([, a], [, b]) => b - a)
  let left = longestNames
  const named = sorted
    .filter(([name]) => name !== '')
    .slice(0, mostNames)
    .filter(([name]) => {
      left -= bytesOf(name)
      return left >= 0
    })
  const total = (all: [string, number][]) => all.reduce((sum, [, count]) => sum + count, 0)
  const rest = total(sorted) - total(named)
  const parts = named.map(([name, count]) => (count > 1 ? `${name} ×${count}` : name))
  if (rest > 0) parts.push(`${words.others} ×${rest}`)
  return parts.length === 0 ? [] : [form(parts.join(', '))]
}
