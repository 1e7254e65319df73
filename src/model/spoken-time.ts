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

const days = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']
const months = 'jan feb mar apr may jun jul aug sep oct nov dec'.split(' ')

/** Words of both languages, behind the one by which the forms below know them. */
const vocabulary = `every: every|each|每|每隔; every day: daily; weekday: weekday|weekdays|week day|week days|工作日
  weekend: weekend|weekends|周末|週末; day0: today|今天|今日; day0 morning: 今早; day0 evening: tonight|今晚
  day1: tomorrow|明天|明日; day1 morning: 明早; day1 evening: 明晚; day2: day after tomorrow|后天|後天; day3: 大后天|大後天
  this: this|这|這|本; next: next|下; day: d|day|days|天|日; week: week|weeks|周|週|星期|礼拜|禮拜; month: month|月; year: 年
  date: 号|號; th: st|nd|rd|th; lastday: last day|最后一天|最後一天; minute: m|min|mins|minute|minutes|分钟|分鐘; point: 分
  hour: h|hr|hrs|hour|hours|小时|小時|钟头|鐘頭; half: half|半; quarter: 刻; quarters: 刻钟|刻鐘; one: a|an; count: 个|個|次|条|張|张|件|杯|组
  oclock: 点|點|时|時; : 00: o'clock|o’clock; 12 : 00: noon|正午; am: am|a.m.|a.m; pm: pm|p.m.|p.m
  dawn: 凌晨; morning: morning|上午|早上|早晨|清晨|早; midday: 中午; afternoon: afternoon|下午
  evening: evening|night|晚上|傍晚|夜里|夜裡|晚; at: at|@|on|the|of; in: in; and: ,|and|&|、|和|与|與|及
  to: -|–|—|~|to|until|到|至; after: 后|後|之后|之後|以后|以後; before: 差|前|之前|以前; about: 左右|整|钟|鐘; other: 前往|时候|時候|整理|整个|整天; t: t`
const known = new Map(
  vocabulary.split(/;|\n/).flatMap(line => {
    const [, word = '', spelt = ''] = /^(.*): (.*)$/.exec(line.trim()) ?? []
    return spelt.split('|').map(one => [one, word] as const)
  }),
)
const spellings = [...known.keys()].sort((one, other) => other.length - one.length)
const isLatin = (text: string) => /^[a-z]/.test(text)
const escaped = (words: readonly string[]) => words.join('|').replaceAll('.', '\\.')
const digits = '一二三四五六七八九'
const pieces = new RegExp(
  `\\d+(?:[/.]\\d+|(?::\\d+){2})|(\\d+)|([零〇]?[${digits}两兩]?十[${digits}]?|[零〇]?[${digits}两兩]|[零〇])|((?:${escaped(
    spellings.filter(isLatin),
  )})(?![a-z'’])|${escaped(spellings.filter(one => !isLatin(one)))})|[a-z'’]+|[^\\s]`,
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

/** Returns a piece of a text as the forms know it. */
function wordOf([text, number, chinese]: RegExpExecArray): string {
  if (number !== undefined) return number.length > 4 ? 'other' : number
  if (chinese !== undefined) return digitsOf(chinese)
  const lower = text.toLowerCase()
  const [, day] = /^(sun|mon|tue|wed|thu|fri|sat)(?:s|nes|rs?|ur)?(?:days?)?$/.exec(lower) ?? []
  const [, month] =
    /^(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(?:r?uary|ch|il|e|y|ust|t|t?ember|ober)?$/.exec(
      lower,
    ) ?? []
  return known.get(lower) ?? day ?? month ?? (text === ':' ? text : 'other')
}

type Found = readonly (string | undefined)[]

/** Reads the words of a text from its beginning, form by form. */
class Reader {
  at = 0
  readonly #words: string
  /** Where each word ends: in `#words`, and in the text. */
  readonly #ends: (readonly [words: number, text: number])[] = []

  constructor(text: string) {
    let words = ''
    for (const piece of text.matchAll(pieces)) {
      const word = wordOf(piece)
      const isGlued = word === 'other' && piece.index === this.#ends.at(-1)?.[1]
      words += `${isGlued ? 'glued' : word} `
      this.#ends.push([words.length, piece.index + piece[0].length])
    }
    this.#words = words
  }

  /** Reads a form. @returns its groups */
  take(form: RegExp): Found | undefined {
    form.lastIndex = this.at
    const found = form.exec(this.#words)
    if (found) this.at += found[0].length
    return found ?? undefined
  }

  sees(form: RegExp): boolean {
    const { at } = this
    const isNext = this.take(form) !== undefined
    this.at = at
    return isNext
  }

  /** How far the text was read. */
  get end(): number {
    return this.#ends.findLast(([words]) => words <= this.at)?.[1] ?? 0
  }
}

const part = '(dawn|morning|midday|afternoon|evening) '
const weekday = `(?:${days.join('|')})`
const month = `(${months.join('|')}) `
/** A day of the week in Chinese, and not the time that follows. */
const listed = '(?:[1-7]|day) (?!oclock|:)'
const form = (source: string) => new RegExp(source, 'y')

const clock = form(
  `(?:and )?(?:at )*(?:${part})?(?:at )*(\\d+) (?:: (\\d\\d) |oclock (?:(half) |([13]) quarter |(\\d+) point |(\\d\\d) (?!minute|count|oclock|:))?|(?=am|pm)|(?!\\d|:|(?:to|count|minute|hour|day|week|month|point|year|th|date|glued) ))(?:(am|pm) )?(?::(?= 00) 00 )?(?:(?:in |at )+${part})?(?:about )?`,
)
const anotherClock = form(`(?:and |to )?(?:${part})?\\d+ (?:: \\d|oclock|am|pm)|to \\d|before |after `)
const span = form(
  '(?:and )?(?:(\\d+) )?(?:count )?(?:(half) )?(?:(one) )?(?:count )?(minute|point|hour|quarters|day|week) ',
)
const eachSpan = form(
  'every (?:(\\d+) )?(?:count )?(?:(half) )?(?:(one) )?(?:count )?(minute|hour|quarters) ',
)
const someDays = form(`(?:every )?(?:count )?(weekday|weekend) |every (?:day |(?=${part}))`)
const dayList = form(
  `every (?:count )?(week ${listed}(?:(?:and |to )?(?:week )?${listed})*|${weekday} (?:(?:and |to )?${weekday} )*)`,
)
const dayOfMonth = form('every (?:count )?month (?:at |day )*(?:(\\d+) (?!:)(?:th |date |day )?|lastday )')
const near = form(`(?:at )?day(\\d) |this (?=${part})`)
const onWeekday = form(`(?:at )?(?:(next|this) )?(?:count )?(?:(${weekday}) |week ([1-7]|day) (?!oclock|:))`)
const onDate = form(
  '(?:(\\d{4}) to (\\d+) to|(?:(\\d{4}) year )?(\\d+) month) (\\d+) (?!oclock|:)(?:day |date )?(?:t )?',
)
const onEnglishDate = form(
  `(?:at )*(?:${month}(\\d+) (?!:)(?:th )?|(\\d+) (?:th )?(?:at )?${month})(?:(?:and )?(\\d{4}) )?`,
)
const onDayOfMonth = form('(?:at )*(\\d+) (?:date|th) ')

/** The first and the last hour of each part of the day. */
const hoursOf: Readonly<Record<string, readonly [first: number, last: number]>> = {
  ...{ am: [0, 11], dawn: [0, 6], morning: [1, 11], midday: [11, 14], pm: [12, 23] },
  ...{ afternoon: [12, 19], evening: [17, 24] },
}

/** Reads a time of day. @returns its minutes, 1440 or more after midnight; NaN if it is not certain; undefined if none comes */
function takeClock(reader: Reader): number | undefined {
  const found = reader.take(clock)
  if (!found) return undefined
  const [, before, hour, minute, isHalf, quarters, named, more, half, behind] = found
  const minutes = Number(minute ?? named ?? more ?? (isHalf ? 30 : Number(quarters ?? 0) * 15))
  const part = half ?? before ?? behind
  const [first, last] = hoursOf[part ?? ''] ?? [0, minutes > 0 ? 23 : 24]
  const given = part === 'am' && hour === '12' ? 0 : Number(hour)
  const hours = [given, ...(part && given > 0 ? [given + 12] : [])].find(one => one >= first && one <= last)
  return minutes > 59 || hours === undefined ? Number.NaN : hours * 60 + minutes
}

const weekdayOf = (name: string): number =>
  name === 'day' ? 0 : /\d/.test(name) ? Number(name) % 7 : days.indexOf(name)

/** Returns the days of the week that a list names. */
function weekdaysIn(list: string): readonly number[] {
  const found = new Set<number>()
  let last = 0
  let isRange = false
  for (const word of list.split(' ').filter(one => !['', 'and', 'week'].includes(one))) {
    const next = weekdayOf(word)
    for (let one = last; isRange && one !== next; one = (one + 1) % 7) found.add(one)
    isRange = word === 'to'
    if (isRange) continue
    found.add(next)
    last = next
  }
  return [...found].sort()
}

/** Returns a day at 0:00, as if the zone were UTC; undefined if it does not exist. @param month from 1; more than 12: of a later year */
function dayOf(year: number, month: number, day: number): number | undefined {
  const at = Date.UTC(year, month - 1, day)
  return new Date(at).getUTCDate() === day ? at : undefined
}

/** Reads a day. @returns those that it may be, of which the first one to come counts; undefined: it does not exist */
function takeDays(reader: Reader, today: number): (number | undefined)[] | undefined {
  const now = new Date(today)
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth() + 1]
  const close = reader.take(near)
  if (close) return [today + Number(close[1] ?? 0) * dayMs]
  const named = reader.take(onWeekday)
  if (named) {
    const [, which, english, chinese = ''] = named
    const wanted = weekdayOf(english ?? chinese)
    const ahead = (wanted - now.getUTCDay() + 7) % 7
    if (which === undefined) return [today + ahead * dayMs, today + (ahead + 7) * dayMs]
    // Weeks begin on Monday.
    const monday = today - ((now.getUTCDay() + 6) % 7) * dayMs
    return [monday + (((wanted + 6) % 7) + (which === 'next' ? 7 : 0)) * dayMs]
  }
  const english = reader.take(onEnglishDate)
  const date = english ? undefined : reader.take(onDate)
  if (english || date) {
    const inYear = english?.[5] ?? date?.[1] ?? date?.[3]
    const ofMonth = english
      ? months.indexOf(english[1] ?? english[4] ?? '') + 1
      : Number(date?.[2] ?? date?.[4])
    const day = Number(english?.[2] ?? english?.[3] ?? date?.[5])
    const years = inYear === undefined ? [year, year + 1] : [Number(inYear)]
    return years.map(one => (ofMonth > 12 ? undefined : dayOf(one, ofMonth, day)))
  }
  const [, day] = reader.take(onDayOfMonth) ?? []
  return day === undefined ? undefined : [0, 1, 2].map(more => dayOf(year, month + more, Number(day)))
}

type Read = Omit<ReadTime, 'rest'> | Unclear

/** Reads a span from now on, such as `in 2h`. */
function readSpan(reader: Reader, { now, zone }: TimePlace, isIn: boolean): Read | undefined {
  let [minutes, ahead] = [0, 0]
  for (let found = reader.take(span); found; found = reader.take(span)) {
    const [, count, half, one, unit = ''] = found
    const many = Number(count ?? (one && !half ? 1 : half ? 0 : Number.NaN)) + (half ? 0.5 : 0)
    if (unit === 'day' || unit === 'week') ahead += many * (unit === 'week' ? 7 : 1)
    else minutes += many * ({ hour: 60, quarters: 15 }[unit] ?? 1)
  }
  const isAfter = reader.take(form('after '))
  if (!(minutes + ahead > 0) || !(isIn || isAfter)) return undefined
  const from = ahead > 0 ? momentOf(zone, clockIn(zone, now) + ahead * dayMs) : now
  const at = Math.ceil((from + minutes * minuteMs) / minuteMs) * minuteMs
  return reader.sees(form(`(?:${part})?\\d`)) ? { why: 'form' } : { rule: { at }, due: at, isMoved: false }
}

/** Reads a series, such as `every weekday 8:00`. */
function readSeries(reader: Reader, { now, zone }: TimePlace): Read | undefined {
  const withDue = (rule: TimeRule) => ({ rule, due: nextOf(rule, zone, now) ?? now, isMoved: false })
  const spans = reader.take(eachSpan)
  if (spans) {
    const [, count, half, , unit = ''] = spans
    const many = Number(count ?? (half ? 0 : 1)) + (half ? 0.5 : 0)
    const minutes = many * ({ hour: 60, quarters: 15 }[unit] ?? 1)
    return minutes < leastMinutes ? { why: 'often' } : withDue({ minutes })
  }
  const kind = reader.take(someDays)
  const list = kind ? undefined : reader.take(dayList)
  const inMonth = kind || list ? undefined : reader.take(dayOfMonth)
  if (!kind && !list && !inMonth) return undefined
  const minutes = takeClock(reader) ?? Number.NaN
  // Twelve in the evening is the beginning of the next day.
  const later = minutes >= 24 * 60 ? 1 : 0
  const some =
    { weekday: [1, 2, 3, 4, 5], weekend: [0, 6] }[kind?.[1] ?? ''] ?? (list && weekdaysIn(list[1] ?? ''))
  const day = inMonth && Number(inMonth[1] ?? 31)
  if (Number.isNaN(minutes) || (day !== undefined && later > 0)) return { why: 'form' }
  if (day !== undefined && (day < 1 || day > 31)) return { why: 'absent' }
  const weekdays = some?.map(one => (one + later) % 7).sort()
  const time = { hour: Math.floor(minutes / 60) % 24, minute: minutes % 60 }
  return withDue({ ...time, ...(weekdays && { weekdays }), ...(day !== undefined && { day }) })
}

/** Reads a time of one day, such as `tomorrow 9am`. */
function readOnce(reader: Reader, { now, zone }: TimePlace): Read {
  const today = Math.floor(clockIn(zone, now) / dayMs) * dayMs
  const isNext = reader.sees(form('(?:at )?next (?:count )?(?!week )'))
  const given = takeDays(reader, today)
  const minutes = takeClock(reader) ?? Number.NaN
  if (Number.isNaN(minutes)) return { why: 'form' }
  const wanted = given ?? [today, today + dayMs]
  const times = wanted.map(day => (day === undefined ? undefined : momentOf(zone, day + minutes * minuteMs)))
  const due = times.find(at => at !== undefined && at > now)
  if (due === undefined) return { why: times.every(at => at === undefined) ? 'absent' : 'past' }
  const read = { rule: { at: due }, due, isMoved: times[0] !== undefined && times[0] !== due }
  // "Next Friday" may be the coming one, and a day behind the time may belong to the words.
  const isUnsure = isNext || (!given && takeDays(reader, today) !== undefined)
  return isUnsure ? { why: 'unsure', as: read } : read
}

/** Reads a time at the beginning of a text. */
export function readTime(text: string, place: TimePlace): ReadTime | Unclear {
  // Forms of full width have the same length.
  const plain = text
    .slice(0, longest)
    .replace(/[\uff01-\uff5e\u3000]/g, sign =>
      sign === '\u3000' ? ' ' : String.fromCharCode(sign.charCodeAt(0) - 0xfee0),
    )
  const reader = new Reader(plain)
  const isIn = reader.take(form('in ')) !== undefined
  const start = reader.at
  const first = readSpan(reader, place, isIn)
  if (!first) reader.at = start
  const read: Read =
    first ?? (isIn ? { why: 'form' } : (readSeries(reader, place) ?? readOnce(reader, place)))
  if ('why' in read) return read
  if (read.due - place.now > farthestMs || reader.sees(anotherClock)) return { why: 'form' }
  return {
    ...read,
    rest: text
      .slice(reader.end)
      .replace(/^[\s,.:;，。：；、-]+/, '')
      .trim(),
  }
}

/** Writes a rule as `readTime` reads it. */
export function formatRule(rule: TimeRule, zone: string, isChinese = false): string {
  if ('at' in rule) return new Date(clockIn(zone, rule.at)).toISOString().slice(0, 16).replace('T', ' ')
  if ('minutes' in rule) {
    const [count, unit] = rule.minutes % 60 === 0 ? [rule.minutes / 60, 1] : [rule.minutes, 0]
    return isChinese ? `每${count}${['分钟', '小时'][unit]}` : `every ${count} ${['min', 'h'][unit]}`
  }
  const { day, weekdays } = rule
  const list = weekdays?.map(one => (isChinese ? '日一二三四五六'[one] : days[one]))
  const time = [rule.hour, rule.minute].map(one => String(one).padStart(2, '0')).join(':')
  const head = isChinese
    ? list
      ? `每周${list.join('、')}`
      : day === undefined
        ? '每天'
        : `每月${day}号`
    : `every ${list ? list.join(',') : day === undefined ? 'day' : `month on day ${day}`}`
  return `${head} ${time}`
}
