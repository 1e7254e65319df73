/** Objects whose fields may not be there. */

/** An object with unknown fields; not an array. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The same fields without what is undefined. In a loop: each message that is shown passes here several times. */
export function defined<T extends object>(fields: T): T {
  const kept = {} as T
  for (const key in fields) if (fields[key] !== undefined) kept[key] = fields[key]
  return kept
}
