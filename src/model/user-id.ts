/** Ids of users, as people and programs write them. */
import { badArgument } from './error.ts'
import { withoutUnseen } from './seen.ts'

/** Returns whether this is an id. Names never contain an `@`. */
export const isUserId = (user: string): boolean => /[@＠]/.test(user)

/** Returns whether an id looks as WeChat issues them: small and capital letters, and a small one first. */
export const isIssuedId = (user: string): boolean => /^[a-z][\w-]*[A-Z][\w-]*@[a-z.]+$/.test(user)

/** Quotes, brackets, marks and spaces, but for what an id may begin or end with. */
const around = /^(?:mailto:|user:|(?![_-])[\s\p{P}\p{S}])+|(?:(?![_-])[\s\p{P}\p{S}])+$/giu

const unwrap = (given: string): string =>
  withoutUnseen(given.replace(/[！-～]/g, char => String.fromCharCode(char.charCodeAt(0) - 0xfee0))).replace(
    around,
    '',
  )

/** Returns whether this is an id with nothing around it. */
export const isPlainUserId = (user: string): boolean => isUserId(user) && unwrap(user) === user

/**
 * Reads an id that may have been pasted: in quotes, in brackets, as a link, with full-width characters.
 *
 * @throws SvcError `invalid_arguments` that says what is wrong with it
 */
export function readUserId(given: string, field: string): string {
  const id = unwrap(given)
  const [local = '', domain, ...others] = id.split('@')
  const problem =
    domain === undefined
      ? 'nothing is on one side of its "@"'
      : others.length > 0
        ? 'it has more than one "@"'
        : /\s/.test(local + domain)
          ? 'it has a space in it'
          : undefined
  if (problem) throw badArgument(field, `expected a user id like <user>@<domain>, or a name: ${problem}`)
  return id
}

/**
 * Returns the known id that is meant: as it is given, as `readUserId` reads it, or the only one that differs in
 * capitals. Without one, the id may be of a user who has not written yet.
 *
 * @throws SvcError like `readUserId`; `invalid_arguments` if several differ in capitals
 */
export function matchUserId(given: string, known: ReadonlySet<string>, field: string): string {
  if (known.has(given)) return given
  const id = readUserId(given, field)
  if (known.has(id)) return id
  const alike = [...known].filter(one => one.toLowerCase() === id.toLowerCase())
  if (alike.length > 1)
    throw badArgument(field, `expected the id with its capitals: ${alike.length} users differ only in them`)
  return alike[0] ?? id
}
