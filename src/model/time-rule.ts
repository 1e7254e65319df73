/** When something is to happen, once or again and again, by the clock of a time zone. */

export const [minuteMs, dayMs] = [60_000, 24 * 60 * 60_000] as const
/** Shortest time between two times of a series, in minutes. */
export const leastMinutes = 15

export type TimeRule =
  /** Once (Unix ms). */
  | { readonly at: number }
  /** A series: the minutes between two times. */
  | { readonly minutes: number }
  | {
      readonly hour: number
      readonly minute: number
      /** Only on these days, 0 is Sunday. */
      readonly weekdays?: readonly number[]
      /** Only on this day of a month, or on its last day if it is shorter. */
      readonly day?: number
    }
  /** Never: what is stored cannot be read. */
  | { readonly problem: string }

const formats = new Map<string, Intl.DateTimeFormat>()
/** A name may be written in capitals or not, so there are more names than zones. */
const mostFormats = 500

/** Reads a rule from JSON. */
export function readRule(text: string, zone: string): TimeRule {
  try {
    const rule = JSON.parse(text)
    clockIn(zone, rule.at ?? 0)
    const next = nextOf(rule, zone, 0)
    if (Number.isNaN(next)) throw new RangeError('no number')
    return rule
  } catch (error) {
    return { problem: `rule ${text.slice(0, 100)} in ${zone} cannot be read (${error})` }
  }
}

/** Returns what the clock of a zone shows at a time, as if that were UTC. @throws RangeError for an unknown zone */
export function clockIn(zone: string, at: number): number {
  const format =
    formats.get(zone) ??
    new Intl.DateTimeFormat('sv', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' })
  if (formats.size >= mostFormats) formats.clear()
  formats.set(zone, format)
  return Date.parse(`${format.format(at).replace(' ', 'T')}Z`)
}

/**
 * Returns when the clock of a zone shows this, given as if it were UTC: the first time, if it shows it twice; if it skips it,
 * the moment at which it does.
 */
export function momentOf(zone: string, shown: number): number {
  const near = [-dayMs, dayMs].map(ms => 2 * shown + ms - clockIn(zone, shown + ms))
  const found = near.filter(at => clockIn(zone, at) === shown)
  if (found.length > 0) return Math.min(...found)
  let [before, after] = [Math.min(...near), Math.max(...near)]
  while (after - before > minuteMs) {
    const middle = before + Math.ceil((after - before) / 2 / minuteMs) * minuteMs
    if (clockIn(zone, middle) < shown) before = middle
    else after = middle
  }
  return after
}

/** Whether a time of the rule can be on this day, at 0:00 as if that were UTC. */
function isOn({ day, weekdays }: { weekdays?: readonly number[]; day?: number }, date: Date): boolean {
  const last = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate()
  return (
    (weekdays === undefined || weekdays.includes(date.getUTCDay())) &&
    (day === undefined || date.getUTCDate() === Math.min(day, last))
  )
}

/**
 * Returns the first time of a rule after a time (Unix ms).
 *
 * @param from a time of the series, from which minutes are counted
 */
export function nextOf(rule: TimeRule, zone: string, after: number, from = after): number | undefined {
  if ('problem' in rule) return undefined
  if ('at' in rule) return rule.at > after ? rule.at : undefined
  if ('minutes' in rule) {
    const stepMs = rule.minutes * minuteMs
    return from + Math.max(0, Math.floor((after - from) / stepMs) + 1) * stepMs
  }
  const today = Math.floor(clockIn(zone, after) / dayMs) * dayMs
  // Two months have each day of a month.
  for (let date = today; date <= today + 62 * dayMs; date += dayMs) {
    if (!isOn(rule, new Date(date))) continue
    const at = momentOf(zone, date + (rule.hour * 60 + rule.minute) * minuteMs)
    if (at > after) return at
  }
  return undefined
}
