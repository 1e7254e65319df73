/** The names that people give to users. */
import { badArgument } from './error.ts'

/** Most characters of a name. */
export const userNameLength = 64

/** Names that differ in case, composition or spaces around them alone have the same key. */
export const nameKey = (name: string): string => normalized(name).toLowerCase()

/**
 * The one form of a user's name: NFC, one line of 1–64 characters without an `@`, which ids alone have.
 *
 * @returns undefined for an empty one, which takes the name away
 * @throws SvcError `invalid_arguments`
 */
export function userName(input: string): string | undefined {
  const name = normalized(input)
  if (name === '') return undefined
  if ([...name].length > userNameLength)
    throw badArgument('name', `expected at most ${userNameLength} characters`)
  if (/[@＠]/.test(name)) throw badArgument('name', 'expected a name without "@", which user ids alone have')
  if (/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(name))
    throw badArgument('name', 'expected one line without control characters')
  return name
}

// To normalise a run of accents takes time with its square; no name is nearly as long.
const normalized = (name: string): string =>
  name.length > 1000 ? name : name.normalize('NFC').trim().replace(/ {2,}/g, ' ')
