/** What an edit of somebody else's settings is, whatever their format. */

/** A way into nested settings: names, and in a list the element of which this holds. */
export type Step = string | ((element: unknown) => boolean)

/** One thing to have in the settings. */
export interface Edit {
  readonly path: readonly Step[]
  readonly value: unknown
}

/** How one format is read and edited. All of it is about text: what is not touched stays as it is, byte for byte. */
export interface Format {
  /** What the format is called: `JSON`. */
  readonly name: string
  /** The settings. @throws Unreadable */
  parse(text: string): unknown
  /** The text with the value at the path, in the place of what was there. @throws Unreadable */
  put(text: string | undefined, edit: Edit): string
  /** The text without it; undefined when nothing is left of a file that `put` began. @throws Unreadable */
  take(text: string, path: readonly Step[]): string | undefined
  /** The edit alone, as one would paste it. */
  snippet(edits: readonly Edit[]): string
}

/** These settings cannot be edited; the message says where and why. */
export class Unreadable extends Error {}

/** What stands at the path; undefined when nothing does. */
export function valueAt(settings: unknown, path: readonly Step[]): unknown {
  let value = settings
  for (const step of path) {
    if (typeof value !== 'object' || value === null) return undefined
    if (typeof step === 'string')
      value = Object.hasOwn(value, step) ? (value as Record<string, unknown>)[step] : undefined
    else value = Array.isArray(value) ? value.find(step) : undefined
  }
  return value
}

/** Whether two settings say the same, whatever the order of their names. */
export function sameSettings(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return Object.is(a, b)
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const [left, right] = [Object.entries(a), b as Record<string, unknown>]
  return (
    left.length === Object.keys(b).length &&
    left.every(([name, value]) => Object.hasOwn(right, name) && sameSettings(value, right[name]))
  )
}

/** The line end that a text uses; that of Unix for one without lines. */
export const lineEndOf = (text: string): string => (/\r?\n/.exec(text)?.[0] === '\r\n' ? '\r\n' : '\n')

export const byteOrderMark = '\ufeff'

/** The text after its byte order mark, and that mark. */
export function unmarked(text: string): [mark: string, bare: string] {
  const mark = text.startsWith(byteOrderMark) ? byteOrderMark : ''
  return [mark, text.slice(mark.length)]
}
