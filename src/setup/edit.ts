/** What an edit of another program's settings is, whatever their format. */

/** A way into nested settings: names, and in a list the element of which this holds. */
export type Step = string | ((element: unknown) => boolean)

/** One thing to have in the settings. */
export interface Edit {
  readonly path: readonly Step[]
  readonly value: unknown
}

/** How one format is read and edited. The file stays valid, and the user's own entries and comments are kept. */
export interface Format {
  /** What the format is called: `JSON`. */
  readonly name: string
  /** What `take` leaves of a file that began with `put`. */
  readonly emptied: string
  /** The settings; an empty text has none. @throws Unreadable */
  parse(text: string): unknown
  /** The text with the value at the path, in the place of what was there. @throws Unreadable */
  put(text: string, edit: Edit): string
  /** The text without what is at the path, and without what holds nothing any more then. @throws Unreadable */
  take(text: string, path: readonly Step[]): string
}

/** These settings cannot be edited; the message says where and why. */
export class Unreadable extends Error {}

/** What stands at the path; undefined when nothing does. */
export function valueAt(settings: unknown, path: readonly Step[]): unknown {
  let value = settings
  for (const step of path) {
    if (typeof value !== 'object' || value === null) return undefined
    if (typeof step === 'string') value = Object.entries(value).find(([key]) => key === step)?.[1]
    else value = Array.isArray(value) ? value.find(step) : undefined
  }
  return value
}

/** Every plain value of nested settings with its way, `/"name"/"0"=…`, in one order. Empty objects have none. */
export const leaves = (value: unknown, way = ''): string[] =>
  typeof value === 'object' && value !== null && !(value instanceof Date)
    ? Object.entries(value)
        .flatMap(([name, one]) => leaves(one, `${way}/${JSON.stringify(name)}`))
        .sort()
    : [`${way}=${typeof value} ${value}`]

/** Whether two settings say the same, whatever the order of their names. */
export const sameSettings = (a: unknown, b: unknown): boolean => leaves(a).join('\n') === leaves(b).join('\n')

/** The line end that a text uses; that of Unix for one without lines. */
export const lineEndOf = (text: string): string => (/\r?\n/.exec(text)?.[0] === '\r\n' ? '\r\n' : '\n')
