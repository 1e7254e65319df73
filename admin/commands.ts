/** Shell commands to paste. */

/** Quotes an argument for a POSIX shell, if it needs quotes. */
export const quoted = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
