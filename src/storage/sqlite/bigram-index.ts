/**
 * Search by substring in any script: an index over pairs of neighbouring characters narrows, the text decides.
 *
 * FTS5's trigram tokenizer finds nothing below three characters and most Chinese words have two; its word tokenizer
 * finds no parts of words. Pairs serve both: a two-character word is one look-up, `ell` is `el` and `ll`. Positions
 * are not kept (detail=none): the rows found are compared with the needle anyway.
 */
import type { Database } from '../../platform/sqlite.ts'

export const gramTable = `
  -- The ascii tokenizer takes letters, digits and everything beyond ASCII as parts of a token, and folds A-Z.
  -- prefix='1' makes one character one look-up too; without it a frequent one costs the sum of all its pairs
  -- (47 ms of 300,000 rows, measured; with it 0.1 ms, for 5 µs more per row).
  CREATE VIRTUAL TABLE gram USING fts5(body, content='', contentless_delete=1, detail=none, prefix='1', tokenize='ascii');
  -- Merged by eights, not by fours: a tenth more rows per second at 5,000,000 rows, and searches cost the same.
  INSERT INTO gram (gram, rank) VALUES ('automerge', 8);
`

/** Rows, and characters in them, that may wait for the index. */
const [tailRows, tailCharacters] = [256, 64 * 1024]

/**
 * The rows up to a position are in the index. Those behind it are few, and a search reads them one by one; the write that
 * makes them many indexes them all. To index each row with its own commit costs five times as much: a segment for each.
 */
export class BigramIndex {
  readonly #db: Database
  /** As of the last look. */
  #position = 0
  #characters = 0

  constructor(db: Database) {
    this.#db = db
  }

  /** The highest row id that is in the index. */
  get position(): number {
    this.#position = Number(this.#db.get`SELECT position FROM gram_position`?.position)
    return this.#position
  }

  /** A row was added behind all others. Inside a transaction. */
  added(id: number, text: string): void {
    this.#characters += text.length
    if (id - this.#position < tailRows && this.#characters < tailCharacters) return
    this.#characters = 0
    const tail = this.#db.all<{ id: number; text: string }>`SELECT id, text FROM message
      WHERE id > ${this.position} ORDER BY id`
    for (const { id, text } of tail) this.#insert(id, text)
    this.#db.run`UPDATE gram_position SET position = ${id}`
    this.#position = id
  }

  /** A row has another text. Inside a transaction. */
  changed(id: number, text: string): void {
    if (id > this.position) return
    this.#db.run`DELETE FROM gram WHERE rowid = ${id}`
    this.#insert(id, text)
  }

  #insert(id: number, text: string): void {
    const body = gramsOf(text)
    if (body !== '') this.#db.run`INSERT INTO gram (rowid, body) VALUES (${id}, ${body})`
  }
}

/** SQLite's text functions stop at NUL, and lone surrogates do not survive UTF-8: both are searched as U+FFFD. */
export const searchable = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd')

/** ASCII characters that would end a token, as the private characters that stand for them. */
const standIns = Array.from({ length: 128 }, (_, code) => {
  const char = String.fromCharCode(code)
  return /[a-z0-9]/i.test(char) ? char : String.fromCharCode(0xe000 + code)
})

/** The characters as the index spells them. Real private characters may look the same: the text decides. */
function spelled(text: string): string[] {
  const chars: string[] = []
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code < 0x80) chars.push(standIns[code] ?? '')
    else if (code < 0xd800 || code > 0xdbff) chars.push(text.charAt(at))
    else chars.push(text.charAt(at) + text.charAt(++at))
  }
  return chars
}

/** Up to this many characters, telling repeated pairs apart costs more than indexing them again. */
const shortText = 64

/**
 * A longer text is not told apart by pairs: 464,000 different characters took the index 2 s, in which nobody else is
 * served. WeChat's own are shorter.
 */
const indexedCharacters = 16_384
/** Stands for the pairs of a longer text. Three characters, so no pair is like it. */
const longText = '\ue000\ue000\ue000'

/**
 * A text (as `searchable` gives it) as the index keeps it: each pair, and the last character alone. '' for ''. A long one
 * is found for every needle, and compared.
 */
export function gramsOf(text: string): string {
  if (text === '') return ''
  if (text.length > indexedCharacters) return longText
  const chars = spelled(text)
  const last = chars.length - 1
  if (last > shortText) {
    const grams = new Set<string>()
    for (let i = 0; i < last; i++) grams.add(`${chars[i]}${chars[i + 1]}`)
    return `${[...grams].join(' ')} ${chars[last]}`
  }
  let grams = ''
  for (let i = 0; i < last; i++) grams += `${chars[i]}${chars[i + 1]} `
  return grams + chars[last]
}

/** A longer needle is narrowed by its first pairs alone: more would find the same rows. */
const needlePairs = 32

/** What the index is asked for a needle: its pairs, or everything that begins with its one character, and long texts. */
export function gramQuery(needle: string): string {
  const chars = spelled(needle)
  // No quote can be inside: it is one of the characters that are replaced.
  if (chars.length === 1) return `"${chars[0]}"* OR "${longText}"`
  const grams = new Set<string>()
  for (let i = 0; i + 1 < chars.length && grams.size < needlePairs; i++)
    grams.add(`${chars[i]}${chars[i + 1]}`)
  return `(${[...grams].map(gram => `"${gram}"`).join(' AND ')}) OR "${longText}"`
}

/** The needle for `LIKE … ESCAPE '\'`, which ignores the case of A-Z and of nothing else. */
export const likePattern = (needle: string): string => `%${needle.replace(/[\\%_]/g, '\\$&')}%`
