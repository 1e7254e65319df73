/** Times in the viewer's zone and language, in the order and clock of the browser's locale. */
import { signal } from '@preact/signals'
import { inLanguage, isTwentyFour, t, timeFormat } from './i18n.ts'

/**
 * Unix ms by the service's clock. Updated every half minute, and when the page becomes visible. Ages follow
 * it.
 */
export const now = signal(Date.now())
/** How far the service's clock is ahead of the browser's, in ms. */
let ahead = 0
let wasHeard = false
const hearing = Promise.withResolvers<void>()
/** Resolves once the service's time is known. */
export const timeIsKnown: Promise<void> = hearing.promise
/** A longer step between two updates means that the machine slept or its clock was set. */
const stepMs = 120_000
/**
 * When that happened last, in Unix ms by the service's clock. What was known before says nothing about now.
 */
export let movedAt = 0
const tick = () => {
  const next = Date.now() + ahead
  if (Math.abs(next - now.value) > stepMs) movedAt = next
  now.value = next
}

/** Returns the exact time. Reading it inside a component renders that again when `now` changes. */
export const timeNow = (): number => Math.max(now.value, Date.now() + ahead)

/** Smaller differences are network delay and rounded seconds. */
const worthMs = 20_000

/**
 * Takes the service's time (Unix ms). All times in the panel are by that clock: the viewer's clock may be
 * wrong.
 */
export function setServiceTime(at: number): void {
  const apart = at - Date.now()
  if (Number.isNaN(apart)) return
  const isFirst = !wasHeard
  wasHeard = true
  hearing.resolve()
  if (Math.abs(apart - ahead) < worthMs) return
  ahead = Math.abs(apart) < worthMs ? 0 : apart
  // The first difference is the error of the browser's clock. It is no step of the service's clock.
  if (isFirst) now.value = Date.now() + ahead
  tick()
}

setInterval(tick, 30_000)
document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && tick())

const formatted = (at: number, options: Intl.DateTimeFormatOptions): string => timeFormat(options).format(at)
const fromNow = (count: number, unit: Intl.RelativeTimeFormatUnit): string =>
  spaced(inLanguage(Intl.RelativeTimeFormat, { numeric: 'auto' }).format(count, unit))
/** Adds the space that our Chinese texts have between a number and what it counts. */
const spaced = (text: string): string => text.replace(/\d(?=\p{Script=Han})/gu, '$&\u00a0')

const toTheMinute = { hour: 'numeric', minute: '2-digit' } as const

/** Formats a time of day: 14:05; 2:05 PM. */
export const clock = (at: number): string => timeFormat(toTheMinute, isTwentyFour()).format(at)

/** Formats an hour: 14; 2 PM. */
export const hourName = (at: number): string => formatted(at, { hour: 'numeric' })

/** Formats a span of time: 14:00 – 15:00. */
export const span = (from: number, to: number): string => timeFormat(toTheMinute).formatRange(from, to)

/** November 2026 */
export const month = (at: number): string => formatted(at, { month: 'long', year: 'numeric' })

/** Returns the full date and time, for tooltips. */
export const whole = (at: number): string => formatted(at, { dateStyle: 'full', timeStyle: 'medium' })

const dayMs = 86_400_000
/** The last day that was computed. Times that are formatted together are mostly of one day. */
let lastDay = { start: 0, end: 0 }
/** Returns the start of the local day of a time, Unix ms. */
function dayOf(at: number): number {
  if (at < lastDay.start || at >= lastDay.end) {
    const start = new Date(at).setHours(0, 0, 0, 0)
    lastDay = { start, end: new Date(start).setHours(24, 0, 0, 0) }
  }
  return lastDay.start
}

/**
 * Returns the start of a local day (yyyy-mm-dd), or of the day `later` days after it, in Unix ms. NaN for
 * an invalid day.
 */
export function dayFrom(date: string, later = 0): number {
  const start = new Date(`${date}T00:00`)
  return start.setDate(start.getDate() + later)
}
/** Returns the local day of a time in the form of date fields: yyyy-mm-dd. */
export const dateOf = (at: number): string => {
  const pad = (part: number) => String(part).padStart(2, '0')
  const date = new Date(at)
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`
}

/** Whether two times are on the same local day. */
export const sameDay = (one: number, other: number): boolean => dayOf(one) === dayOf(other)

/** Today, yesterday, Monday, 3 March, 3 March 2024. */
export function day(at: number): string {
  const days = Math.round((dayOf(now.value) - dayOf(at)) / dayMs)
  if (days === 0 || days === 1) return fromNow(-days, 'day')
  if (days > 0 && days < 7) return formatted(at, { weekday: 'long' })
  const thisYear = new Date(at).getFullYear() === new Date(now.value).getFullYear()
  return formatted(at, { day: 'numeric', month: 'long', ...(!thisYear && { year: 'numeric' }) })
}

/** For lists: the time of day if it is today, else the day. */
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

/** 3 minutes ago; in 5 hours. To the nearest; `whole` says it exactly. */
export function relative(at: number): string {
  const apart = at - now.value
  const [unit, length] = steps.find(([, ms]) => Math.abs(apart) >= ms) ?? (['minute', 60_000] as const)
  return fromNow(Math.round(apart / length), unit)
}

/** For past times: just now; 3 minutes ago. */
export const ago = (at: number): string => (now.value - at < 60_000 ? t('time.just_now') : relative(at))

/** From this many hours on, minutes are left out. */
const manyHours = 10

/** Returns a duration that is left: 23 h; 2 h 5 min; 2 h; 5 min. */
export function left(ms: number): string {
  const minutes = Math.max(0, Math.ceil(ms / 60_000))
  const of = (value: number, unit: 'hour' | 'minute') =>
    spaced(inLanguage(Intl.NumberFormat, { style: 'unit', unit, unitDisplay: 'narrow' }).format(value))
  const hours = Math.floor(minutes / 60)
  if (hours === 0) return of(minutes, 'minute')
  const rest = hours >= manyHours ? 0 : minutes % 60
  return rest === 0 ? of(hours, 'hour') : `${of(hours, 'hour')} ${of(rest, 'minute')}`
}

/** Returns how often something happens: every day; every 6 hours; every 90 minutes. */
export function every(ms: number): string {
  const minutes = Math.max(1, Math.round(ms / 60_000))
  if (minutes % 1440 === 0) return t('time.every_day', { count: minutes / 1440 })
  if (minutes % 60 === 0) return t('time.every_hour', { count: minutes / 60 })
  return t('time.every_minute', { count: minutes })
}
