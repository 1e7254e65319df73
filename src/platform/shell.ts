/** Words for a shell. */

/** A word as a POSIX shell takes it; left alone where it needs no quotes. */
export const shellWord = (word: string): string =>
  /^[\p{L}\p{N}@%+=:,./_-]+$/u.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
