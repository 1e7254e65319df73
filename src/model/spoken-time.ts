/**
 * Reads when people want something done, in English and Chinese: `7:30`, `tomorrow 9am`, `every mon,thu 18:30`,
 * `每天早上八点半`. What may mean something else is not guessed.
 */
import { clockIn, dayMs, leastMinutes, minuteMs, momentOf, nextOf, type TimeRule } from './time-rule.ts'

export interface ReadTime {
  readonly rule: TimeRule
  /** The first time (Unix ms). */
  readonly due: number
  /** What follows the time, as it was written; "" if nothing does. */
  readonly rest: string
  /** It has passed on the day that is meant first, so it is on the next one. */
  readonly isMoved: boolean
}

/**
 * Why a text is no time. form: it has none of the forms. absent: no such day exists. past: it has passed. often: the
 * series is too fast. unsure: it may mean `as`, and something else too.
 */
export interface Unclear {
  readonly why: 'form' | 'absent' | 'past' | 'often' | 'unsure'
  readonly as?: Pick<ReadTime, 'rule' | 'due'>
}

export interface TimePlace {
  /** When it was said (Unix ms). */
  readonly now: number
  readonly zone: string
}

/** Longest text of a time, in characters. */
const longest = 100
const farthestMs = 3660 * dayMs

/** The words of both languages, behind those by which the forms know them. In English the days of a week are on0 to on6. */
const vocabulary = `every: every|each|每|每隔; every day: daily; weekday: weekday|weekdays|week day|week days|工作日
  weekend: weekend|weekends|周末|週末; day0: today|今天|今日; day0 morning: 今早; day0 evening: tonight|今晚
  day1: tomorrow|明天|明日; day1 morning: 明早; day1 evening: 明晚; day2: day after tomorrow|后天|後天; day3: 大后天|大後天
  this: this|这|這|本; next: next|下; day: d|day|days|天|日; week: week|weeks|周|週|星期|礼拜|禮拜; month: month|月; year: 年
  date: 号|號; th: st|nd|rd|th; lastday: last day|最后一天|最後一天; minute: m|min|mins|minute|minutes|分钟|分鐘; point: 分
  hour: h|hr|hrs|hour|hours|小时|小時|钟头|鐘頭; half: half|半; quarter: 刻; quarters: 刻钟|刻鐘; one: a|an; on0: sun|sunday|sundays
  on1: mon|monday|mondays; on2: tue|tues|tuesday|tuesdays; on3: wed|wednesday|wednesdays; on4: thu|thur|thurs|thursday|thursdays
  on5: fri|friday|fridays; on6: sat|saturday|saturdays; 1 month: jan|january; 2 month: feb|february; 3 month: mar|march
  4 month: apr|april; 5 month: may; 6 month: jun|june; 7 month: jul|july; 8 month: aug|august; 9 month: sep|sept|september
  10 month: oct|october; 11 month: nov|november; 12 month: dec|december; count: 个|個|次|条|條|张|張|件|杯|组; oclock: 点|點|时|時
  : 00: o'clock|o’clock; 12 : 00: noon|正午; am: am|a.m.|a.m; pm: pm|p.m.|p.m; dawn: 凌晨; morning: morning|上午|早上|早晨|清晨|早
  midday: 中午; afternoon: afternoon|下午; evening: evening|night|晚上|傍晚|夜里|夜裡|半夜|午夜|深夜|晚; at: at|@|on|the|of; in: in; :: :
  and: ,|and|&|、|和|与|與|及; to: -|–|—|~|to|until|到|至; after: 后|後|之后|之後|以后|以後; before: 差|前|之前|以前
  about: 左右|整|钟|鐘; other: 前往|时候|時候|整理|整个|整天`
const known = new Map(
  vocabulary.split(/;|\n/).flatMap(line => {
    const [, word = '', spellings = ''] = /^ *(.+): (.+)$/.exec(line) ?? []
    return spellings.split('|').map(one => [one, word] as const)
  }),
)
const spellings = [...known.keys()]
  .sort((one, other) => other.length - one.length)
  .map(one => `${one.replaceAll('.', '\\.')}${/^[a-z]/.test(one) ? "(?![a-z’'])" : ''}`)
const digits = '一二三四五六七八九'
/** A date, what is neither a time nor a number (2/3), a number, a Chinese one, a word that is known, and the rest. */
const pieces = new RegExp(
  `(?<date>\\d{4}-\\d{1,2}-\\d{1,2})(?!\\d)(?:t(?=\\d))?|\\d+(?:[/.]\\d+|(?::\\d+){2})|(?<number>\\d{1,4})(?!\\d)|(?<chinese>[零〇]?[${digits}两兩]?十[${digits}]?|[零〇]?[${digits}两兩]|[零〇])|(?:${spellings.join('|')})|[a-z’']+|[^\\s]`,
  'gi',
)

/** Returns the digits of a Chinese number up to 99. */
function digitsOf(text: string): string {
  const value = (sign = '', otherwise = 0) =>
    sign === '' ? otherwise : digits.indexOf(sign.replace(/[两兩]/, '二')) + 1
  const [tens, ones] = text.split('十')
  if (ones !== undefined) return String(value(tens, 1) * 10 + value(ones))
  return `${text.length > 1 ? '0' : ''}${value(text.at(-1))}`
}

/** Returns a piece of a text in the words of the vocabulary. */
function wordsOf({ 0: text, groups: { date, number, chinese } = {} }: RegExpExecArray): string {
  if (date) return date.replace(/^(\d+)-(\d+)-(\d+)$/, '$1 year $2 month $3 day')
  return number ?? (chinese && digitsOf(chinese)) ?? known.get(text.toLowerCase()) ?? 'other'
}

type Found = Readonly<Record<string, string | undefined>>

/** Reads the words of a text from its beginning, form by form. */
class Reader {
  at = 0
  /** Whether what was read may mean something else too. */
  isUnsure = false
  readonly #words: string = ''
  /** Where each piece ends: in `#words`, and in the text. */
  readonly #ends: [words: number, text: number][] = []

  constructor(text: string) {
    for (const piece of text.matchAll(pieces)) {
      const words = wordsOf(piece)
      const isGlued = words === 'other' && piece.index === this.#ends.at(-1)?.[1]
      this.#words += `${isGlued ? 'glued' : words} `
      this.#ends.push([this.#words.length, piece.index + piece[0].length])
    }
  }

  /** Reads a form. @returns its groups */
  take(form: RegExp): Found | undefined {
    form.lastIndex = this.at
    const found = form.exec(this.#words)
    this.at += found?.[0].length ?? 0
    return found ? { ...found.groups } : undefined
  }

  /** How far the text was read. */
  get end(): number {
    return this.#ends.findLast(([words]) => words <= this.at)?.[1] ?? 0
  }
}

const part = '(?:dawn|morning|midday|afternoon|evening)'
/** A day of the week in Chinese, and not the time that follows. */
const listed = '(?:[1-7]|day) (?!oclock|:)'
const sources = {
  in: 'in ',
  after: 'after ',
  clock: `(?:and )?(?:at )*(?:(?<before>${part}) )?(?:at )*(?<hour>\\d+) (?:: (?<minute>\\d\\d) |oclock (?:(?<half>half) |(?<quarters>[13]) quarter |(?<point>\\d+) point |(?<bare>\\d\\d) (?!minute|count|oclock|:))?|(?=am|pm)|(?!\\d|:|(?:to|count|minute|hour|day|week|month|point|year|th|date|glued) ))(?:(?<noon>am|pm) )?(?:: 00 )?(?:(?:in |at )+(?<behind>${part}) )?(?:about )?`,
  another: `(?=(?:and |to )?(?:${part} )?\\d+ (?:: \\d|oclock|am|pm)|to \\d|before |after )`,
  digit: `(?=(?:${part} )?\\d)`,
  span: '(?:and )?(?:(?<count>\\d+) )?(?:count )?(?:(?<half>half) )?(?:(?<one>one) )?(?:count )?(?<unit>minute|point|hour|quarters|day|week) ',
  eachSpan:
    'every (?:(?<count>\\d+) )?(?:count )?(?:(?<half>half) )?(?:one )?(?:count )?(?<unit>minute|hour|quarters) ',
  some: `(?:every )?(?:count )?(?<some>weekday|weekend) |every (?:day |(?=${part}))`,
  list: `every (?:count )?(?<list>week ${listed}(?:(?:and |to )?(?:week )?${listed})*|on\\d (?:(?:and |to )?on\\d )*)`,
  month: 'every (?:count )?month (?:at |day )*(?:(?<day>\\d+) (?!:)(?:th |date |day )?|lastday )',
  near: `(?:at )?day(?<ahead>\\d) |this (?=${part})`,
  next: '(?=(?:at )?next on)',
  weekday:
    '(?:at )?(?:(?<which>next|this) )?(?:count )?(?:on|week (?=[1-7]|day))(?<weekday>\\d|day) (?!oclock|:)',
  date: '(?:at )?(?:(?<year>\\d{4}) year )?(?<month>\\d+) month (?<day>\\d+) (?!oclock|:)(?:day |date |th )?(?:(?:and )?(?<later>\\d{4}) )?',
  turned: '(?:at )*(?<day>\\d+) (?:th )?(?:at )?(?<month>\\d+) month (?:(?:and )?(?<later>\\d{4}) )?',
  nth: '(?:at )*(?<day>\\d+) (?:date|th) ',
}
const forms = Object.fromEntries(
  Object.entries(sources).map(([name, source]) => [name, new RegExp(source, 'y')]),
) as Record<keyof typeof sources, RegExp>

/** The first and the last hour of each part of the day. */
const hoursOf: Readonly<Record<string, readonly [first: number, last: number]>> = {
  am: [0, 11],
  dawn: [0, 6],
  morning: [1, 11],
  midday: [11, 14],
  pm: [12, 23],
  afternoon: [12, 19],
  evening: [17, 24],
}

/** Reads a time of day. @returns its minutes, 1440 or more after midnight; NaN if none comes, or it is not certain */
function takeClock(reader: Reader): number {
  const found = reader.take(forms.clock)
  if (!found) return Number.NaN
  const { bare, before, behind, half, hour, minute, noon = before ?? behind, point, quarters = 0 } = found
  const minutes = Number(minute ?? point ?? bare ?? (half ? 30 : Number(quarters) * 15))
  const [first, last] = hoursOf[noon ?? ''] ?? [0, minutes > 0 ? 23 : 24]
  const given = noon === 'am' && hour === '12' ? 0 : Number(hour)
  const small = noon === 'evening' && given > 0 && given < 5
  reader.isUnsure ||= small
  // One at night is most likely that of the next day.
  const all = [given, ...(noon && given > 0 ? [given + 12] : [])]
  const hours = small ? given + 24 : all.find(one => one >= first && one <= last)
  return minutes > 59 || hours === undefined ? Number.NaN : hours * 60 + minutes
}

const minutesIn: Readonly<Record<string, number>> = { quarters: 15, hour: 60, day: 1440, week: 10_080 }
/** @param otherwise what a unit alone means */
const minutesOf = ({ count, half, one, unit = '' }: Found, otherwise: number): number =>
  (Number(count ?? (half ? 0 : one ? 1 : otherwise)) + (half ? 0.5 : 0)) * (minutesIn[unit] ?? 1)

const weekdayOf = (word: string) => (word === 'day' ? 0 : Number(word.replace('on', '')) % 7)

/** Returns the days of the week that a list names. */
function weekdaysIn(list: string): readonly number[] {
  const found = new Set<number>()
  let last = 0
  for (const [, to, word = ''] of list.matchAll(/(to )?(?:week )?(on\d|\d|day) /g)) {
    for (let one = last; to && one !== weekdayOf(word); one = (one + 1) % 7) found.add(one)
    last = weekdayOf(word)
    found.add(last)
  }
  return [...found].sort()
}

/** Returns a day at 0:00, as if the zone were UTC; undefined if it does not exist. @param month from 1; more than 12 is in a later year */
function dayOf(year: number, month: number, day: number): number | undefined {
  const at = Date.UTC(year, month - 1, day)
  return new Date(at).getUTCDate() === day ? at : undefined
}

/** Reads a day. @returns those that it may be, of which the first one to come counts; undefined: it does not exist */
function takeDays(reader: Reader, today: number): (number | undefined)[] | undefined {
  const now = new Date(today)
  const [thisYear, thisMonth] = [now.getUTCFullYear(), now.getUTCMonth() + 1]
  const near = reader.take(forms.near)
  if (near) return [today + Number(near.ahead ?? 0) * dayMs]
  const named = reader.take(forms.weekday)
  if (named) {
    // Weeks begin on Monday.
    const [wanted, weekday] = [weekdayOf(named.weekday ?? ''), now.getUTCDay()].map(one => (one + 6) % 7)
    const ahead = wanted! - weekday! + (named.which === 'next' ? 7 : 0)
    const nearest = today + (named.which ? ahead : (ahead + 7) % 7) * dayMs
    return named.which ? [nearest] : [nearest, nearest + 7 * dayMs]
  }
  const date = reader.take(forms.date) ?? reader.take(forms.turned) ?? reader.take(forms.nth)
  if (!date) return undefined
  const { day, later, month, year = later } = date
  if (month === undefined) return [0, 1, 2].map(more => dayOf(thisYear, thisMonth + more, Number(day)))
  const years = year === undefined ? [thisYear, thisYear + 1] : [Number(year)]
  return years.map(one => (Number(month) > 12 ? undefined : dayOf(one, Number(month), Number(day))))
}

type Read = Omit<ReadTime, 'rest'> | Unclear

/** Reads a span from now on, such as `in 2h`. */
function readSpan(reader: Reader, { now, zone }: TimePlace): Read | undefined {
  const isIn = reader.take(forms.in)
  let minutes = 0
  for (let found = reader.take(forms.span); found; found = reader.take(forms.span))
    minutes += minutesOf(found, Number.NaN)
  const isAfter = reader.take(forms.after)
  if (!(minutes > 0 && (isIn || isAfter))) return isIn && { why: 'form' }
  const days = Math.floor(minutes / 1440)
  const from = days > 0 ? momentOf(zone, clockIn(zone, now) + days * dayMs) : now
  const at = from + (minutes % 1440) * minuteMs
  return reader.take(forms.digit) ? { why: 'form' } : { rule: { at }, due: at, isMoved: false }
}

/** Reads a series, such as `every weekday 8:00`. */
function readSeries(reader: Reader, { now, zone }: TimePlace): Read | undefined {
  const withDue = (rule: TimeRule) => ({ rule, due: nextOf(rule, zone, now) ?? now, isMoved: false })
  const span = reader.take(forms.eachSpan)
  if (span && minutesOf(span, 1) < leastMinutes) return { why: 'often' }
  if (span) return withDue({ minutes: minutesOf(span, 1) })
  const found = reader.take(forms.some) ?? reader.take(forms.list)
  const month = found ? undefined : reader.take(forms.month)
  if (!found && !month) return undefined
  const minutes = takeClock(reader)
  // Twelve in the evening is the beginning of the next day.
  const later = minutes >= 1440 ? 1 : 0
  const day = month && Number(month.day ?? 31)
  if (Number.isNaN(minutes) || (day !== undefined && later > 0)) return { why: 'form' }
  if (day !== undefined && (day < 1 || day > 31)) return { why: 'absent' }
  const some = { weekday: [1, 2, 3, 4, 5], weekend: [0, 6] }[found?.some ?? '']
  const weekdays = (some ?? (found?.list ? weekdaysIn(found.list) : undefined))?.map(one => (one + later) % 7)
  const read = withDue({
    hour: Math.floor(minutes / 60) % 24,
    minute: minutes % 60,
    ...(weekdays && { weekdays: weekdays.sort() }),
    ...(day !== undefined && { day }),
  })
  return reader.isUnsure ? { why: 'unsure', as: read } : read
}

/** Reads a time of one day, such as `tomorrow 9am`. */
function readOnce(reader: Reader, { now, zone }: TimePlace): Read {
  const today = Math.floor(clockIn(zone, now) / dayMs) * dayMs
  const isNext = reader.take(forms.next)
  const given = takeDays(reader, today)
  const minutes = takeClock(reader)
  if (Number.isNaN(minutes)) return { why: 'form' }
  const days = given ?? [today, today + dayMs]
  const times = days.map(day => day && momentOf(zone, day + minutes * minuteMs))
  const due = times.find(at => at !== undefined && at > now)
  if (due === undefined) return { why: times.every(at => at === undefined) ? 'absent' : 'past' }
  const read = { rule: { at: due }, due, isMoved: times[0] !== undefined && times[0] !== due }
  // "Next Friday" may be the coming one, and a day behind the time may belong to the words.
  return isNext || reader.isUnsure || (!given && takeDays(reader, today)) ? { why: 'unsure', as: read } : read
}

/** Reads a time at the beginning of a text. */
export function readTime(text: string, place: TimePlace): ReadTime | Unclear {
  // Signs of full width have the same length.
  const reader = new Reader(text.slice(0, longest).replace(/[！-～]/g, sign => sign.normalize('NFKC')))
  const span = readSpan(reader, place)
  if (!span) reader.at = 0
  const read = span ?? readSeries(reader, place) ?? readOnce(reader, place)
  if ('why' in read) return read
  if (read.due - place.now > farthestMs || reader.take(forms.another)) return { why: 'form' }
  return { ...read, rest: text.slice(reader.end).replace(/^[\s,.:;，。：；、-]+|\s+$/g, '') }
}

/** Days of the week that have a name together. */
const series: Readonly<Record<string, readonly [string, string]>> = {
  '1,2,3,4,5': ['weekday', '个工作日'],
  '0,6': ['weekend', '个周末'],
  '0,1,2,3,4,5,6': ['day', '天'],
}

/** Writes a rule as `readTime` reads it. */
export function formatRule(rule: TimeRule, zone: string, isChinese = false): string {
  if ('problem' in rule) return 'unknown'
  if ('at' in rule) return new Date(clockIn(zone, rule.at)).toISOString().slice(0, 16).replace('T', ' ')
  if ('minutes' in rule) {
    const [count, unit] = rule.minutes % 60 === 0 ? [rule.minutes / 60, 1] : [rule.minutes, 0]
    return isChinese ? `每${count}${['分钟', '小时'][unit]}` : `every ${count} ${['min', 'h'][unit]}`
  }
  const { day, hour, minute, weekdays } = rule
  const names = isChinese ? [...'日一二三四五六'] : ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']
  const all = series[`${weekdays}`]?.[Number(isChinese)]
  const list = weekdays?.map(one => names[one]).join(isChinese ? '、' : ',')
  const inMonth = day === undefined ? undefined : isChinese ? `月${day}号` : `month on day ${day}`
  const inWeek = all ?? (list && (isChinese ? `周${list}` : list))
  const time = [hour, minute].map(one => String(one).padStart(2, '0')).join(':')
  return `${isChinese ? '每' : 'every '}${inWeek ?? inMonth ?? (isChinese ? '天' : 'day')} ${time}`
}
