/** The names that people give to users. */
import { badArgument, type SvcError } from './error.ts'
import { withoutUnseen } from './seen.ts'

/** Longest name, in characters. */
const userNameLength = 64

/** Returns the same key for names that differ only in case, composition, surrounding spaces or what nobody sees. */
export const nameKeyOf = (name: string): string => normalize(withoutUnseen(name)).toLowerCase()

/**
 * Normalizes a user's name: NFC, one line of 1–64 characters without `@`, which only ids have.
 *
 * @returns undefined for an empty name, which removes the name
 * @throws SvcError `invalid_arguments`
 */
export function normalizeUserName(input: string): string | undefined {
  const name = normalize(input)
  if (nameKeyOf(name) === '') return undefined
  if ([...name].length > userNameLength)
    throw badArgument('name', `expected at most ${userNameLength} characters`)
  if (/[@＠]/.test(name)) throw badArgument('name', 'expected a name without "@", which only user ids have')
  if (/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(name))
    throw badArgument('name', 'expected one line without control characters')
  return name
}

/** @param other the user who has the name */
export const sameUserNameError = (other: string): SvcError =>
  badArgument('name', `another user of this session has this name: ${other}`, {
    hint: 'Choose another name, or take that one away first.',
    details: { user_id: other },
  })

// Normalizing a run of accents takes quadratic time. No real name is nearly as long as this.
const normalize = (name: string): string =>
  name.length > 1000 ? name : name.normalize('NFC').trim().replace(/ {2,}/g, ' ')
