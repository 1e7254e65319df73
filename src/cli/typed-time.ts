/** A time as a person types it: by the clock on the wall, or as a span before now. */
import { badArgument } from '../model/error.ts'
import { type EventStart, eventStart } from '../model/webhook.ts'
import { parseTime } from '../operations/schema.ts'
import { systemClock } from '../platform/clock.ts'

const unitMs: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
}

/** What may be typed. */
export const timeForms =
  'a time: 2026-01-31 or 2026-01-31 08:00 (by the clock of this machine, or with a zone, as history prints it), 30m, 1h, 3d, today, yesterday, or Unix milliseconds'

/**
 * Unix milliseconds; undefined for what is no time. Without a zone it is a time of this machine's zone.
 *
 * @param now Unix ms
 */
export function typedTime(text: string, now: number): number | undefined {
  const [, count, unit = ''] = /^(\d{1,6}) ?([smhdw])(?: ago)?$/i.exec(text) ?? []
  if (count !== undefined) return now - Number(count) * unitMs[unit.toLowerCase()]!
  const day = ['today', 'yesterday'].indexOf(text.toLowerCase())
  if (day >= 0) {
    const today = new Date(now)
    return new Date(today.getFullYear(), today.getMonth(), today.getDate() - day).getTime()
  }
  const parsed = parseTime(text)
  if (parsed === undefined || /^\d{11,}$/.test(text) || /(z|[+-]\d{2}(:?\d{2})?)$/i.test(text.slice(10)))
    return parsed
  const at = new Date(parsed)
  const local = new Date(0)
  local.setFullYear(at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate())
  local.setHours(at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds(), at.getUTCMilliseconds())
  return local.getTime()
}

/**
 * Where to begin in the log of events: at one, or at such a time, counted from the `now` that is known later.
 *
 * @throws SvcError `invalid_arguments`
 */
export function typedStart(field: string, text: string): (now: number) => EventStart {
  const start = (now: number) => {
    const found = eventStart(text, typedTime(text, now))
    if (!found) throw badArgument(field, `expected the id of an event, or ${timeForms}`)
    return found
  }
  start(systemClock.now())
  return start
}
