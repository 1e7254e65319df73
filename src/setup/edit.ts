/** Edits of other programs' settings, independent of the file format. */

/** A step in nested settings: a key, or for a list the test that selects an element. */
export type Step = string | ((element: unknown) => boolean)

/** A value to set at a path. */
export interface Edit {
  readonly path: readonly Step[]
  readonly value: unknown
}

/**
 * Parser and editor of one file format. Edits keep the file valid, and keep the user's entries and
 * comments.
 */
export interface SettingsFormat {
  /** Name of the format, such as `JSON`. */
  readonly name: string
  /** Text that `remove` leaves if `put` created the file. */
  readonly emptyText: string
  /**
   * Parses the settings; an empty text gives empty settings.
   *
   * @throws UnreadableSettingsError
   */
  parse(text: string): unknown
  /**
   * Returns the text with the value set at the path.
   *
   * @throws UnreadableSettingsError
   */
  put(text: string, edit: Edit): string
  /**
   * Returns the text without the value at the path, and without containers that are empty then.
   *
   * @throws UnreadableSettingsError
   */
  remove(text: string, path: readonly Step[]): string
}

/** Settings that svc cannot edit. The message tells where and why. */
export class UnreadableSettingsError extends Error {}

/** Returns the value at the path, or undefined. */
export function valueAt(settings: unknown, path: readonly Step[]): unknown {
  let value = settings
  for (const step of path) {
    if (typeof value !== 'object' || value === null) return undefined
    if (typeof step === 'string') value = Object.entries(value).find(([key]) => key === step)?.[1]
    else value = Array.isArray(value) ? value.find(step) : undefined
  }
  return value
}

/** Returns all plain values with their paths (`/"name"/"0"=…`), sorted. Empty objects have none. */
export const listLeaves = (value: unknown, path = ''): string[] =>
  typeof value === 'object' && value !== null && !(value instanceof Date)
    ? Object.entries(value)
        .flatMap(([name, child]) => listLeaves(child, `${path}/${JSON.stringify(name)}`))
        .sort()
    : [`${path}=${typeof value} ${value}`]

/** Returns true if two settings have the same values, in any order of keys. */
export const isSameSettings = (a: unknown, b: unknown): boolean =>
  listLeaves(a).join('\n') === listLeaves(b).join('\n')

/** Returns the line ending of a text; `\n` if it has no lines. */
export const lineEndOf = (text: string): string => (/\r?\n/.exec(text)?.[0] === '\r\n' ? '\r\n' : '\n')
