/**
 * Parses JSON and keeps upstream's 64-bit ids intact. `JSON.parse` rounds integers above 2^53, and
 * `message_id`, `msg_id` and `svr_id` are uint64 (protocol notes 3.6). So long integers are quoted in the
 * text before it is parsed.
 */

/**
 * Matches a whole number, with fraction and exponent, so that digits inside it are not taken for an integer.
 */
const anyNumber = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g
const longInteger = /^-?\d{16,}$/
/**
 * The character before the quote that ends a key. Any other character may also precede the quote that opens a
 * string.
 */
const endOfKey = /[^\\,:[{\s]/
/** The character after a JSON value. */
const endOfValue = /^[,}\]\s]?$/

/**
 * Turns every integer of 16 or more digits outside strings into a string. Exact for valid JSON. Shorter
 * integers are safe numbers and stay.
 *
 * The function searches only for runs of 16 digits. If the neighbours of a run do not show whether it is
 * inside a string, the whole text is split into strings and the rest, which takes many times as long.
 */
export function quoteLongIntegers(text: string): string {
  let isOpen = false
  const quoted = text.replace(/\d{16,}/g, (run: string, at: number) => {
    const before = text.charAt(at - 1)
    // Part of a string (a hash, a token, a word) or of a fraction.
    if (!/^[:,[\s-]?$/.test(before) || !endOfValue.test(text.charAt(at + run.length))) return run
    // Directly after a key. Inside a string, the quote before the colon would follow a backslash or open the
    // string.
    if (before === ':' && text[at - 2] === '"' && endOfKey.test(text.charAt(at - 3))) return `"${run}"`
    isOpen = true
    return run
  })
  if (!isOpen) return quoted
  let whole = ''
  for (let at = 0; at < text.length; ) {
    const open = text.indexOf('"', at)
    const between = text.slice(at, open < 0 ? text.length : open)
    whole += between.replace(anyNumber, part => (longInteger.test(part) ? `"${part}"` : part))
    if (open < 0) break
    at = findStringEnd(text, open) + 1
    whole += text.slice(open, at)
  }
  return whole
}

/** Parses like `JSON.parse`, but integers of 16 or more digits become strings. @throws SyntaxError */
export const parseLossless = (text: string): unknown => JSON.parse(quoteLongIntegers(text))

/**
 * Returns the texts of the objects in the top-level array `key` of a valid JSON object, in order; undefined
 * when there is no such array. They are slices of the text: a quarter of the cost of stringifying the parsed
 * objects again.
 */
export function sliceArray(text: string, key: string): string[] | undefined {
  let found: string[] | undefined
  let depth = 0
  let start = 0
  let inside = false
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (char === '"') {
      const end = findStringEnd(text, at)
      if (depth === 1 && !inside && text.slice(at + 1, end) === key) {
        const opening = /\s*:\s*\[/y
        opening.lastIndex = end + 1
        if (opening.test(text)) {
          // The last of equal keys wins, as in JSON.parse.
          found = []
          inside = true
          depth = 2
          at = opening.lastIndex - 1
          continue
        }
      }
      at = end
    } else if (char === '{' || char === '[') {
      if (inside && depth === 2) start = at
      depth++
    } else if (char === '}' || char === ']') {
      depth--
      if (inside && depth === 2) found?.push(text.slice(start, at + 1))
      if (depth === 1) inside = false
    }
  }
  return found
}

/** Longer or deeper values are not parsed. WeChat's own values are a thousandth of this. */
export const longestValue = 1024 * 1024
const maxDepth = 500
/** Brackets and quotes scanned between two checks of the time. */
const signsPerSlice = 1024

/** A part of a long text. `value` is undefined where the part was not parsed. */
export interface ParsedPart {
  text: string
  value?: unknown
}

/**
 * Parses a JSON object of any length like `parseLossless`, a few milliseconds at a time. It returns the
 * fields, and separately the values of the array `key`, which is empty in the fields.
 *
 * @param yieldTurn awaited before each piece of work
 * @throws SyntaxError, also for a field that is too large and for more than `maxValues` values
 */
export async function parseInSlices(
  text: string,
  key: string,
  maxValues: number,
  yieldTurn: () => Promise<void>,
): Promise<{ fields: Record<string, unknown>; parts?: ParsedPart[] }> {
  const reader = new JsonReader(text, yieldTurn)
  const fields = new Map<string, unknown>()
  let parts: ParsedPart[] | undefined
  for (let isOver = !reader.open('{', '}'); !isOver; isOver = !reader.goOn('}')) {
    const name = JSON.parse((await reader.readValue()).text)
    if (typeof name !== 'string' || !reader.take(':')) throw new SyntaxError('expected a name')
    if (name !== key || reader.next !== '[') {
      const field = await reader.readValue()
      if (field.value === undefined) throw new SyntaxError('a field is too large')
      fields.set(name, field.value)
      if (name === key) parts = undefined
      continue
    }
    fields.set(name, [])
    parts = []
    for (let isEnd = !reader.open('[', ']'); !isEnd; isEnd = !reader.goOn(']')) {
      parts.push(await reader.readValue())
      if (parts.length > maxValues) throw new SyntaxError(`more than ${maxValues} values`)
    }
  }
  if (reader.next !== undefined) throw new SyntaxError('something follows the object')
  return { fields: Object.fromEntries(fields), ...(parts && { parts }) }
}

/** A position in a JSON text that moves forward value by value. */
class JsonReader {
  readonly #text: string
  readonly #yieldTurn: () => Promise<void>
  readonly #space = /[ \t\n\r]*/y
  readonly #scalar = /[^\s,:[\]{}"]+/y
  readonly #sign = /["[\]{}]/g
  #at = 0

  constructor(text: string, turn: () => Promise<void>) {
    this.#text = text
    this.#yieldTurn = turn
  }

  /** The next character that is not white space. */
  get next(): string | undefined {
    this.#space.lastIndex = this.#at
    this.#space.test(this.#text)
    this.#at = this.#space.lastIndex
    return this.#text[this.#at]
  }

  take(sign: string): boolean {
    if (this.next !== sign) return false
    this.#at++
    return true
  }

  /** Moves into an array or object. @returns whether it has content */
  open(sign: string, end: string): boolean {
    if (!this.take(sign)) throw new SyntaxError(`expected ${sign}`)
    return !this.take(end)
  }

  /** Moves on after a value. @returns whether another one follows */
  goOn(end: string): boolean {
    if (this.take(',')) return true
    if (this.take(end)) return false
    throw new SyntaxError(`expected ${end}`)
  }

  async readValue(): Promise<ParsedPart> {
    await this.#yieldTurn()
    const { next } = this
    const from = this.#at
    let depth = 0
    if (next === '"') this.#at = findStringEnd(this.#text, from) + 1
    else if (next === '{' || next === '[') depth = await this.#skipEnclosed()
    else {
      this.#scalar.lastIndex = from
      if (!this.#scalar.test(this.#text)) throw new SyntaxError('expected a value')
      this.#at = this.#scalar.lastIndex
    }
    const text = quoteLongIntegers(this.#text.slice(from, this.#at))
    return depth > maxDepth || text.length > longestValue ? { text } : { text, value: JSON.parse(text) }
  }

  /** Moves behind the array or object that starts here. @returns its depth */
  async #skipEnclosed(): Promise<number> {
    const sign = this.#sign
    let depth = 0
    let deepestLevel = 0
    sign.lastIndex = this.#at
    for (let signs = 1; sign.test(this.#text); signs++) {
      if (signs % signsPerSlice === 0) await this.#yieldTurn()
      const found = this.#text[sign.lastIndex - 1]
      if (found === '"') sign.lastIndex = findStringEnd(this.#text, sign.lastIndex - 1) + 1
      else if (found === '[' || found === '{') deepestLevel = Math.max(deepestLevel, ++depth)
      else if (--depth === 0) {
        this.#at = sign.lastIndex
        return deepestLevel
      }
    }
    throw new SyntaxError('it ends within a value')
  }
}

/** Returns the index of the quote that closes the string opened at `open`. */
function findStringEnd(text: string, open: number): number {
  for (let at = text.indexOf('"', open + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let slashes = at
    while (text[slashes - 1] === '\\') slashes--
    if ((at - slashes) % 2 === 0) return at
  }
  return text.length
}
