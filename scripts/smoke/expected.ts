/** Compares a result with what was expected. */
import { inspect } from 'node:util'

/**
 * Objects may have more fields than expected; arrays may not have more members. A regular expression must
 * match a text.
 *
 * @throws Error that names the first difference and shows the whole
 */
export function expected(came: unknown, wanted: unknown): void {
  const place = difference(came, wanted, 'it')
  if (place === undefined) return
  const show = (value: unknown) => inspect(value, { depth: 8, breakLength: 110 })
  throw new Error(`${place} is not as expected\nexpected: ${show(wanted)}\ncame: ${show(came)}`)
}

function difference(came: unknown, wanted: unknown, place: string): string | undefined {
  if (wanted instanceof RegExp) return typeof came === 'string' && wanted.test(came) ? undefined : place
  if (wanted instanceof Uint8Array) {
    return came instanceof Uint8Array && Buffer.from(wanted).equals(came) ? undefined : place
  }
  if (typeof wanted !== 'object' || wanted === null) return Object.is(came, wanted) ? undefined : place
  if (typeof came !== 'object' || came === null) return place
  if (Array.isArray(wanted) && (!Array.isArray(came) || came.length !== wanted.length)) return place
  for (const [key, value] of Object.entries(wanted)) {
    const found = difference((came as Record<string, unknown>)[key], value, `${place}.${key}`)
    if (found !== undefined) return found
  }
  return undefined
}
