/** Compares a result with what was expected. */
import { inspect } from 'node:util'

/**
 * Objects may have more fields than expected; arrays may not have more members. A regular expression must
 * match a text.
 *
 * @throws Error that names the first difference and shows the whole
 */
export function expectMatch(actual: unknown, wanted: unknown): void {
  const place = findDifference(actual, wanted, 'it')
  if (place === undefined) return
  const format = (value: unknown) => inspect(value, { depth: 8, breakLength: 110 })
  throw new Error(`${place} is not as expected\nexpected: ${format(wanted)}\ncame: ${format(actual)}`)
}

function findDifference(actualValue: unknown, wanted: unknown, place: string): string | undefined {
  if (wanted instanceof RegExp)
    return typeof actualValue === 'string' && wanted.test(actualValue) ? undefined : place
  if (wanted instanceof Uint8Array) {
    return actualValue instanceof Uint8Array && Buffer.from(wanted).equals(actualValue) ? undefined : place
  }
  if (typeof wanted !== 'object' || wanted === null) return Object.is(actualValue, wanted) ? undefined : place
  if (typeof actualValue !== 'object' || actualValue === null) return place
  if (Array.isArray(wanted) && (!Array.isArray(actualValue) || actualValue.length !== wanted.length))
    return place
  for (const [key, value] of Object.entries(wanted)) {
    const found = findDifference((actualValue as Record<string, unknown>)[key], value, `${place}.${key}`)
    if (found !== undefined) return found
  }
  return undefined
}
