/** Texts as they are stored to be searched, and patterns that find them. */

/**
 * SQLite's text functions stop at NUL, and lone surrogates do not survive UTF-8: both are searched as U+FFFD.
 */
export const toSearchableText = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd')

/** Pattern for `LIKE … ESCAPE '\'`. */
export const likePatternOf = (needle: string): string => `%${needle.replace(/[\\%_]/g, '\\$&')}%`
