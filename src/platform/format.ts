/** Formats values for people: sizes, counts, durations, times, lists, and shell arguments. One form each. */

/** Formats a size: `48 kB`, `2.5 MB`. */
export function formatBytes(bytes: number): string {
  const power = Math.min(4, Math.floor(Math.log10(Math.max(1, bytes)) / 3))
  const value = bytes / 1000 ** power
  return `${value.toFixed(power > 0 && value < 10 ? 1 : 0)} ${['B', 'kB', 'MB', 'GB', 'TB'][power]}`
}

/** Formats a count: `1 message`, `2,000 messages`. */
export const formatCount = (count: number, singular: string, plural = `${singular}s`): string =>
  `${count.toLocaleString('en')} ${count === 1 ? singular : plural}`

const units: readonly (readonly [number, string])[] = [
  [24 * 60 * 60_000, 'day'],
  [60 * 60_000, 'hour'],
  [60_000, 'minute'],
  [1000, 'second'],
]

/** Formats a duration: `3 hours`, `1 day`. */
export function formatDuration(ms: number): string {
  const [unit, name] = units.find(([unit]) => Math.abs(ms) >= unit) ?? [1000, 'second']
  return formatCount(Math.round(Math.abs(ms) / unit), name)
}

/** Returns whether a Date can represent the time. Values from upstream or another program may be anything. */
export const isMoment = (at: number | undefined): at is number =>
  at !== undefined && Number.isFinite(at) && Math.abs(at) <= 8.64e15

/**
 * Formats a time in the time zone of this machine: `2026-01-31 08:00:00+08:00`. Every input that takes a time
 * accepts this form.
 */
export function formatLocalTime(at: number | undefined): string {
  if (!isMoment(at)) return '–'
  const ahead = -new Date(at).getTimezoneOffset()
  const shifted = new Date(at + ahead * 60_000)
  if (!isMoment(shifted.getTime())) return '–'
  const twoDigits = (value: number) => String(Math.floor(value)).padStart(2, '0')
  const offset = `${ahead < 0 ? '-' : '+'}${twoDigits(Math.abs(ahead) / 60)}:${twoDigits(Math.abs(ahead) % 60)}`
  return `${shifted
    .toISOString()
    .replace('T', ' ')
    .replace(/\.\d+Z$/, '')}${offset}`
}

/**
 * Shortens a text to a number of bytes, of whole characters: its beginning and its end stay, and a line between them says
 * how many characters are missing.
 */
export function cutMiddle(text: string, mostBytes: number): string {
  const bytes = new TextEncoder().encode(text)
  if (bytes.length <= mostBytes) return text
  const room = Math.max(0, mostBytes - longestGap)
  const decoder = new TextDecoder()
  const head = decoder.decode(bytes.subarray(0, Math.ceil(room * 0.6))).replace(/\ufffd+$/, '')
  const tail = decoder.decode(bytes.subarray(bytes.length - Math.floor(room * 0.4))).replace(/^\ufffd+/, '')
  const missing = text.length - head.length - tail.length
  const gap = /\p{Script=Han}/u.test(head + tail)
    ? `此处省略 ${missing} 字`
    : `${formatCount(missing, 'character')} left out`
  return `${head}${room > 1000 ? '\n' : ' '}[… ${gap} …]${room > 1000 ? '\n' : ' '}${tail}`
}
/** Bytes of the line that says what is missing. */
const longestGap = 48

/** Formats a list: `a`, `b` and 3 more. */
export function formatList(names: readonly string[], most = 4): string {
  const displayed = names.slice(0, most)
  const left = names.length - displayed.length
  const last = left > 0 ? `${left} more` : displayed.pop()
  return [displayed.join(', '), last].filter(Boolean).join(' and ')
}

/** Quotes an argument for a POSIX shell. Leaves it as it is where it needs no quotes. */
export const quoteForShell = (word: string): string =>
  /^[\p{L}\p{N}@%+=:,./_-]+$/u.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
