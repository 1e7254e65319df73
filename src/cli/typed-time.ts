/** Parses times as people type them: local times, or a span before now. */

import { localZone } from '../config/time-zone.ts'
import { badArgument } from '../model/error.ts'
import { type EventStart, parseEventStart } from '../model/webhook.ts'
import { parseTime } from '../operations/schema.ts'
import { systemClock } from '../platform/clock.ts'

const unitMs: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
}

/** Parses a span such as `30m` or `1d`. @returns milliseconds; undefined if the text is no span */
export function parseSpan(text: string): number | undefined {
  const [, count, unit = ''] = /^(\d{1,6}) ?([smhdw])$/i.exec(text) ?? []
  return count === undefined ? undefined : Number(count) * unitMs[unit.toLowerCase()]!
}

/**
 * Parses a time that is still to come: a span from now on, the next time that the clock of this machine shows a time of
 * day, or a time.
 *
 * @param now Unix ms
 * @throws SvcError as `localZone`
 * @returns Unix ms; undefined if the text is none of them
 */
export function parseTypedEnd(text: string, now: number): number | undefined {
  const span = parseSpan(text)
  if (span !== undefined) return now + span
  const [, tomorrow, hour, minute] = /^(tomorrow )?([01]?\d|2[0-3]):([0-5]\d)$/i.exec(text) ?? []
  if (hour === undefined) return parseTypedTime(text, now)
  localZone()
  const at = new Date(now)
  at.setHours(Number(hour), Number(minute), 0, 0)
  if (tomorrow !== undefined || at.getTime() <= now) at.setDate(at.getDate() + 1)
  return at.getTime()
}

/** Description of the forms of `parseTypedEnd`, for errors. */
export const aheadForms =
  '14:00, tomorrow 9:00, 2026-01-31 08:00 (by the clock of this machine, or with a zone), 30m, 2h, 3d, or Unix milliseconds'

/** Description of the accepted forms, for errors. */
export const timeForms =
  'a time: 2026-01-31 or 2026-01-31 08:00 (by the clock of this machine, or with a zone, as history prints it), 30m, 1h, 3d, today, yesterday, or Unix milliseconds'

/**
 * Parses a time. A time without a zone is in this machine's zone.
 *
 * @param now Unix ms
 * @throws SvcError as `localZone`
 * @returns Unix ms; undefined if the text is no time
 */
export function parseTypedTime(text: string, now: number): number | undefined {
  const span = parseSpan(text.replace(/ ago$/i, ''))
  if (span !== undefined) return now - span
  const day = ['today', 'yesterday'].indexOf(text.toLowerCase())
  if (day >= 0) {
    localZone()
    const today = new Date(now)
    return new Date(today.getFullYear(), today.getMonth(), today.getDate() - day).getTime()
  }
  const parsed = parseTime(text)
  if (parsed === undefined || /^\d{11,}$/.test(text) || /(z|[+-]\d{2}(:?\d{2})?)$/i.test(text.slice(10)))
    return parsed
  localZone()
  const at = new Date(parsed)
  const local = new Date(0)
  local.setFullYear(at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate())
  local.setHours(at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds(), at.getUTCMilliseconds())
  return local.getTime()
}

/**
 * Parses a starting point in the event log: an event's id or a time. Checks the text at once, and returns a
 * function that computes the start when `now` (Unix ms) is known.
 *
 * @throws SvcError `invalid_arguments`
 */
export function parseTypedStart(field: string, text: string): (now: number) => EventStart {
  const start = (now: number) => {
    const found = parseEventStart(text, parseTypedTime(text, now))
    if (!found) throw badArgument(field, `expected the id of an event, or ${timeForms}`)
    return found
  }
  start(systemClock.now())
  return start
}
