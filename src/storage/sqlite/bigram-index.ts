/**
 * Search by substring in any script: an index of pairs of neighbouring characters finds candidates, then each
 * text is compared.
 *
 * FTS5's trigram tokenizer finds nothing below three characters, and most Chinese words have two. Its word
 * tokenizer finds no parts of words. Pairs do both: a two-character word is one look-up, `ell` is `el` and
 * `ll`. Positions are not stored (detail=none), since the rows found are compared with the search text
 * anyway.
 */
import { RoomPart } from '../../platform/runtime.ts'
import type { Database } from '../../platform/sqlite.ts'

/** Number of rows, and of characters in them, that may be missing in the index. */
const [tailRows, tailCharacters] = [256, 64 * 1024]

/**
 * Index of character pairs. It has the rows up to a position. A search reads the few rows after it one by
 * one; the write that makes them too many indexes them all. Indexing each row in its own commit costs five
 * times as much: one segment for each.
 */
export class BigramIndex extends RoomPart<{ db: Database }> {
  /** Position at the last read. */
  #position = 0
  #characters = 0

  /** The highest row id that is in the index. */
  get position(): number {
    this.#position = Number(this.ports.db.get`SELECT position FROM gram_position`?.position)
    return this.#position
  }

  /** Call it for each row added at the end, inside the transaction. */
  add(id: number, text: string): void {
    this.#characters += text.length
    if (id - this.#position < tailRows && this.#characters < tailCharacters) return
    this.#characters = 0
    const tail = this.ports.db.all<{ id: number; text: string }>`SELECT id, text FROM message
      WHERE id > ${this.position} ORDER BY id`
    for (const { id, text } of tail) this.#insert(id, text)
    this.ports.db.run`UPDATE gram_position SET position = ${id}`
    this.#position = id
  }

  /** Call it when the text of a row changed, inside the transaction. */
  update(id: number, text: string): void {
    if (id > this.position) return
    this.ports.db.run`DELETE FROM gram WHERE rowid = ${id}`
    this.#insert(id, text)
  }

  #insert(id: number, text: string): void {
    const body = gramsOf(text)
    if (body !== '') this.ports.db.run`INSERT INTO gram (rowid, body) VALUES (${id}, ${body})`
  }
}

/** Private-use characters that replace ASCII characters which would end a token. */
const standIns = Array.from({ length: 128 }, (_, code) => {
  const char = String.fromCharCode(code)
  return /[a-z0-9]/i.test(char) ? char : String.fromCharCode(0xe000 + code)
})

/**
 * Returns the characters as they are in the index. A real private-use character may look the same;
 * comparing the text decides.
 */
function toIndexCharacters(text: string): string[] {
  const chars: string[] = []
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code < 0x80) chars.push(standIns[code] ?? '')
    else if (code < 0xd800 || code > 0xdbff) chars.push(text.charAt(at))
    else chars.push(text.charAt(at) + text.charAt(++at))
  }
  return chars
}

/** For texts up to this length, removing repeated pairs costs more than indexing them twice. */
const shortText = 64

/**
 * Longer texts are not indexed by pairs: for 464,000 different characters the index took 2 s, during which
 * nothing else ran. WeChat's own messages are shorter.
 */
const indexedCharacters = 16_384
/** Replaces the pairs of a longer text. It has three characters, so no pair equals it. */
const longText = '\ue000\ue000\ue000'

/**
 * Returns the form of a text (from `toSearchableText`) in the index: each pair, and the last character
 * alone. '' for ''. A long text is a candidate for every search, and is then compared.
 */
export function gramsOf(text: string): string {
  if (text === '') return ''
  if (text.length > indexedCharacters) return longText
  const chars = toIndexCharacters(text)
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

/** A longer search text is narrowed by its first pairs only: more would find the same rows. */
const needlePairs = 32

/**
 * Returns the index query for a search text: its pairs, or everything that starts with its single
 * character; and long texts.
 */
export function gramQueryOf(needle: string): string {
  const chars = toIndexCharacters(needle)
  // The text has no quote: quotes are among the replaced characters.
  if (chars.length === 1) return `"${chars[0]}"* OR "${longText}"`
  const grams = new Set<string>()
  for (let i = 0; i + 1 < chars.length && grams.size < needlePairs; i++)
    grams.add(`${chars[i]}${chars[i + 1]}`)
  return `(${[...grams].map(gram => `"${gram}"`).join(' AND ')}) OR "${longText}"`
}
