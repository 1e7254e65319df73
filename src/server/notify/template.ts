/**
 * Texts with paths into JSON, such as `{{ .alerts[0].labels.alertname }}`. The form is that of ntfy's templates, with paths
 * alone: no loops, conditions or functions, so a template always ends. What is no path stays as it is written.
 *
 * @see https://docs.ntfy.sh/publish/#message-templating
 */
import { createRoom, formatFields } from './fields.ts'
import { textOf } from './sent-notice.ts'

const place = /\{\{-?([^{}]{1,300}?)-?\}\}/g
const step = /\.?(?:([\p{L}\p{N}_-]+)|\[(\d{1,6})\]|\["([^"]{1,200})"\])/uy
const maxFilledLength = 16_000

/**
 * Fills a template. A path that leads to nothing is ''; one to an object or a list is lines of `key: value`. Undefined if
 * all its paths lead to nothing: it is for another body.
 */
export function fillTemplate(template: string, json: unknown): string | undefined {
  // A value with many keys is written once, however often it is named.
  const written = new Map<string, string>()
  const room = createRoom()
  const write = (path: readonly string[]): string => {
    const value = follow(json, path)
    return typeof value === 'object' && value !== null ? formatFields(value, '', room) : textOf(value)
  }
  const fill = (place: string, inner: string): string => {
    const path = parsePath(inner.trim())
    if (!path) return place
    const name = JSON.stringify(path)
    const text = written.get(name) ?? write(path).slice(0, maxFilledLength)
    written.set(name, text)
    return text
  }
  const filled = template.replace(place, fill).slice(0, maxFilledLength)
  return written.size > 0 && [...written.values()].every(text => text === '') ? undefined : filled
}

/** Returns the keys of a path; undefined for anything else. */
function parsePath(text: string): string[] | undefined {
  if (!text.startsWith('.')) return undefined
  const keys: string[] = []
  for (step.lastIndex = text === '.' ? 1 : 0; step.lastIndex < text.length; ) {
    const [, name, index, quoted] = step.exec(text) ?? []
    const key = name ?? index ?? quoted
    if (key === undefined) return undefined
    keys.push(key)
  }
  return keys
}

const follow = (json: unknown, path: readonly string[]): unknown =>
  path.reduce<unknown>(
    (value, key) =>
      typeof value === 'object' && value !== null && Object.hasOwn(value, key)
        ? (value as Record<string, unknown>)[key]
        : undefined,
    json,
  )
