/** Texts as they are stored to be searched, and patterns that find them. */
import { badArgument } from '../model/error.ts'

/**
 * SQLite's text functions stop at NUL, and lone surrogates do not survive UTF-8: both are searched as U+FFFD.
 */
export const toSearchableText = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd')

/** Pattern for `LIKE … ESCAPE '\'`. */
export const likePatternOf = (needle: string): string => `%${needle.replace(/[\\%_]/g, '\\$&')}%`

/** Longest search text, in characters. */
const needleLimit = 10_000

/**
 * Returns the search text as it is, and in its Unicode normal forms: texts are stored as they were written.
 *
 * @throws SvcError `invalid_arguments` if it is too long
 */
export function needlesOf(given: string): string[] {
  if (given.length > needleLimit)
    throw badArgument('text_contains', `expected at most ${needleLimit} characters`)
  const needle = toSearchableText(given)
  // Normalising a run of accents takes quadratic time; no real text has 64 of them.
  const forms = /\p{M}{64}/u.test(needle) ? [] : [needle.normalize('NFC'), needle.normalize('NFD')]
  return needle === '' ? [] : [...new Set([needle, ...forms])]
}
