/**
 * Search by substring in any script: an index over pairs of neighbouring characters narrows, the text decides.
 *
 * FTS5's trigram tokenizer finds nothing below three characters and most Chinese words have two; its word tokenizer
 * finds no parts of words. Pairs serve both: a two-character word is one look-up, `ell` is `el` and `ll`. Positions
 * are not kept (detail=none): the rows found are compared with the needle anyway.
 */
import type { Database } from '../platform/sqlite.ts'

export function createGramTable(db: Database): void {
  // The ascii tokenizer takes letters, digits and everything beyond ASCII as parts of a token, and folds A-Z.
  db.exec(
    `CREATE VIRTUAL TABLE gram USING fts5(body, content='', contentless_delete=1, detail=none, tokenize='ascii')`,
  )
}

/** SQLite's text functions stop at NUL, and lone surrogates do not survive UTF-8: both are searched as U+FFFD. */
export const searchable = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd')

/** ASCII characters that would end a token stand as private characters, and so does each private character there. */
function tokenPart(char: string): string {
  const code = char.codePointAt(0)!
  if (code < 0x80) return /[a-z0-9]/i.test(char) ? char : String.fromCodePoint(0xe000 + code)
  return code >= 0xe000 && code < 0xe080 ? String.fromCodePoint(0xf0000 + code) : char
}

function parts(text: string): string[] {
  const list: string[] = []
  for (const char of searchable(text)) list.push(tokenPart(char))
  return list
}

/** The text as the index keeps it: each pair once, and the last character alone. Empty for an empty text. */
export function gramsOf(text: string): string {
  if (text === '') return ''
  const chars = parts(text)
  const grams = new Set<string>()
  for (let i = 0; i + 1 < chars.length; i++) grams.add(chars[i]! + chars[i + 1]!)
  grams.add(chars[chars.length - 1]!)
  return [...grams].join(' ')
}

/** What the index is asked for a needle: all its pairs, or everything that begins with its one character. */
export function gramQuery(needle: string): string {
  const chars = parts(needle)
  if (chars.length === 1) return `"${chars[0]}"*`
  const grams = new Set<string>()
  for (let i = 0; i + 1 < chars.length; i++) grams.add(chars[i]! + chars[i + 1]!)
  // No quote can be inside: it is one of the characters that are replaced.
  return [...grams].map(gram => `"${gram}"`).join(' AND ')
}

/** The needle for `LIKE … ESCAPE '\'`, which ignores the case of A-Z and of nothing else. */
export const likePattern = (needle: string): string => `%${searchable(needle).replace(/[\\%_]/g, '\\$&')}%`
