/** Values that may be missing: fields of objects, what others wrote, and what fails. */

/** Returns whether the value is an object with unknown fields; an array is not. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns what the function returns; undefined if it throws. */
export function attempt<T>(make: () => T): T | undefined {
  try {
    return make()
  } catch {
    return undefined
  }
}

/** Returns the fields of a JSON object that others wrote; undefined for any other text. */
export function parseFields(text: string): Record<string, unknown> | undefined {
  const value = attempt<unknown>(() => JSON.parse(text))
  return isObject(value) ? value : undefined
}

/**
 * Copies the fields that are not undefined. A loop, for speed: each displayed message passes here several
 * times.
 */
export function withoutUndefined<T extends object>(fields: T): T {
  const kept = {} as T
  for (const key in fields) if (fields[key] !== undefined) kept[key] = fields[key]
  return kept
}
