/** The one rule for names of keys, which lists and logs show beside the callers. */
import { badArgument } from '../model/error.ts'
import { principalKinds } from '../model/principal.ts'
import { escapeControls } from '../platform/escape-controls.ts'

/** More marks above one letter cover the lines around it. No script needs as many. */
const manyMarks = /^\p{M}|[\p{Mn}\p{Me}]{4}/u
/** The text form of a principal, as `fold` leaves it: a kind alone, or a kind and a sign like a colon. */
const principalForm = new RegExp(
  `^(?:(?:${[...principalKinds, 'cli', 'library'].join('|')})\\s*[:;\\u02d0\\u02f8\\u0589\\u05c3\\u2236\\ua789]|(?:owner|panel|stdio|open)$)`,
)

/** Capitals, wide letters, letters of formulas and letters with accents become the letter itself. */
const fold = (name: string): string => name.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase().trim()

/**
 * Normalizes the name of a key: NFC, with single spaces, and none around it.
 *
 * @throws SvcError `invalid_arguments` for a name that readers cannot see, or could take for a principal
 */
export function normalizeCallerName(input: string): string {
  const name = input
    .normalize('NFC')
    .replace(/\p{Zs}+/gu, ' ')
    .trim()
  if (name === '' || /\p{Cf}/u.test(name) || escapeControls(name) !== name || manyMarks.test(name))
    throw badArgument('name', 'expected a name that can be seen, without control characters')
  if (principalForm.test(fold(name)))
    throw badArgument('name', `"${name}" looks like a caller of another kind`, {
      hint: 'Choose another name, such as what the key is for.',
    })
  return name
}
