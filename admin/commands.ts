/** Commands that somebody may paste. */

/** For a POSIX shell; left alone where it needs no quotes. */
export const quoted = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
