/** Times in the viewer's zone and language, by the browser's own order and hours. */
import { signal } from '@preact/signals'
import { inLanguage, isTwentyFour, t, timeFormat } from './i18n.ts'

/** Unix ms by the service's clock, moved on every half minute and when the page is looked at again: ages follow it. */
export const now = signal(Date.now())
/** How far the service's clock is ahead of this one's. */
let ahead = 0
let wasHeard = false
const hearing = Promise.withResolvers<void>()
/** Resolves once the service has said its time. */
export const timeIsKnown: Promise<void> = hearing.promise
/** A longer step is no tick: the machine slept, or its clock was set. */
const stepMs = 120_000
/** When that happened last, by the service's clock, unix ms: what was known before says nothing about now. */
export let movedAt = 0
const tick = () => {
  const next = Date.now() + ahead
  if (Math.abs(next - now.value) > stepMs) movedAt = next
  now.value = next
}

/** The time to the moment; whoever asks is asked again when `now` moves on. */
export const exactly = (): number => Math.max(now.value, Date.now() + ahead)

/** Less is the way of an answer, and seconds that were rounded. */
const worthMs = 20_000

/** The service said its time: whoever looks may have a clock that is wrong, and everything here is by that one's. */
export function heardTime(at: number): void {
  const apart = at - Date.now()
  if (Number.isNaN(apart)) return
  const isFirst = !wasHeard
  wasHeard = true
  hearing.resolve()
  if (Math.abs(apart - ahead) < worthMs) return
  ahead = Math.abs(apart) < worthMs ? 0 : apart
  // How far this machine's clock is off is no step of the service's.
  if (isFirst) now.value = Date.now() + ahead
  tick()
}

setInterval(tick, 30_000)
document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && tick())

const formatted = (at: number, options: Intl.DateTimeFormatOptions): string => timeFormat(options).format(at)
const fromNow = (count: number, unit: Intl.RelativeTimeFormatUnit): string =>
  spaced(inLanguage(Intl.RelativeTimeFormat, { numeric: 'auto' }).format(count, unit))
/** As our own Chinese texts have it: a space between a number and what it counts. */
const spaced = (text: string): string => text.replace(/\d(?=\p{Script=Han})/gu, '$&\u00a0')

const toTheMinute = { hour: 'numeric', minute: '2-digit' } as const

/** 14:05; 2:05 PM */
export const clock = (at: number): string => timeFormat(toTheMinute, isTwentyFour()).format(at)

/** 14; 2 PM */
export const hourName = (at: number): string => formatted(at, { hour: 'numeric' })

/** 14:00 – 15:00 */
export const span = (from: number, to: number): string => timeFormat(toTheMinute).formatRange(from, to)

/** 06/11/2026 14:05:09: to compare with a log. */
export const stamp = (at: number): string =>
  `${timeFormat({ dateStyle: 'short' }, true).format(at)} ${timeFormat({ timeStyle: 'medium' }, isTwentyFour()).format(at)}`

/** November 2026 */
export const month = (at: number): string => formatted(at, { month: 'long', year: 'numeric' })

/** The whole of it, for tooltips and for `<time>`. */
export const whole = (at: number): string => formatted(at, { dateStyle: 'full', timeStyle: 'medium' })

const dayMs = 86_400_000
/** The day that was asked for last: those that are asked for together are mostly of one. */
let lastDay = { start: 0, end: 0 }
function dayOf(at: number): number {
  if (at < lastDay.start || at >= lastDay.end) {
    const start = new Date(at).setHours(0, 0, 0, 0)
    lastDay = { start, end: new Date(start).setHours(24, 0, 0, 0) }
  }
  return lastDay.start
}

/** When a day here begins (yyyy-mm-dd, as date fields have it), or one so many days later: unix ms. NaN for no day. */
export function dayFrom(date: string, later = 0): number {
  const start = new Date(`${date}T00:00`)
  return start.setDate(start.getDate() + later)
}
/** The day of a time as date fields have it. */
export const dateOf = (at: number): string => {
  const pad = (part: number) => String(part).padStart(2, '0')
  const date = new Date(at)
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`
}

/** Whether two times are of one day here. */
export const sameDay = (one: number, other: number): boolean => dayOf(one) === dayOf(other)

/** Today, yesterday, Monday, 3 March, 3 March 2024. */
export function day(at: number): string {
  const days = Math.round((dayOf(now.value) - dayOf(at)) / dayMs)
  if (days === 0 || days === 1) return fromNow(-days, 'day')
  if (days > 0 && days < 7) return formatted(at, { weekday: 'long' })
  const thisYear = new Date(at).getFullYear() === new Date(now.value).getFullYear()
  return formatted(at, { day: 'numeric', month: 'long', ...(!thisYear && { year: 'numeric' }) })
}

/** For lists: the time today, else the day. */
export const short = (at: number): string =>
  sameDay(at, now.value)
    ? clock(at)
    : dayOf(now.value) - dayOf(at) < 7 * dayMs
      ? formatted(at, { weekday: 'short' })
      : timeFormat({ day: 'numeric', month: 'numeric' }, true).format(at)

const steps = [
  ['day', dayMs],
  ['hour', 3_600_000],
  ['minute', 60_000],
] as const

/** 3 minutes ago; in 5 hours. */
export function relative(at: number): string {
  const apart = at - now.value
  const [unit, length] = steps.find(([, ms]) => Math.abs(apart) >= ms) ?? (['minute', 60_000] as const)
  return fromNow(Math.trunc(apart / length), unit)
}

/** Of what is past: just now; 3 minutes ago. */
export const ago = (at: number): string => (now.value - at < 60_000 ? t('time.just_now') : relative(at))

/** So many hours are told without their minutes. */
const manyHours = 10

/** 23 h; 2 h 5 min; 5 min: what is left of a time. */
export function left(ms: number): string {
  const minutes = Math.max(0, Math.ceil(ms / 60_000))
  const of = (value: number, unit: 'hour' | 'minute') =>
    spaced(inLanguage(Intl.NumberFormat, { style: 'unit', unit, unitDisplay: 'narrow' }).format(value))
  const hours = Math.floor(minutes / 60)
  if (hours === 0) return of(minutes, 'minute')
  return hours >= manyHours ? of(hours, 'hour') : `${of(hours, 'hour')} ${of(minutes % 60, 'minute')}`
}
