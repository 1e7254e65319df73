/** Objects with optional fields. */

/** Returns whether the value is an object with unknown fields; an array is not. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * Copies the fields that are not undefined. A loop, for speed: each displayed message passes here several
 * times.
 */
export function withoutUndefined<T extends object>(fields: T): T {
  const kept = {} as T
  for (const key in fields) if (fields[key] !== undefined) kept[key] = fields[key]
  return kept
}
