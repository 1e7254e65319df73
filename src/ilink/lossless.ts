/**
 * JSON with upstream's 64-bit ids intact. `JSON.parse` rounds integers above 2^53, and `message_id`, `msg_id`, `svr_id`
 * are uint64 (protocol notes 3.6), so long integers are quoted in the text before it is parsed.
 */

/** With all its parts: no digits inside are taken for a number. */
const anyNumber = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g
const longInteger = /^-?\d{16,}$/
/** Ends a value in JSON. */
const ends = /^[,}\]\s]?$/

/**
 * The same JSON text with every integer of 16 or more digits outside strings turned into a string. Exact for valid JSON;
 * shorter integers are safe numbers and stay.
 *
 * Looks only at runs of 16 digits. Only where a run's neighbours leave open whether it is part of a text, texts are told from
 * what stands between them, which takes many times as long.
 */
export function quoteLongIntegers(text: string): string {
  let isOpen = false
  const quoted = text.replace(/\d{16,}/g, (run: string, at: number) => {
    const before = text.charAt(at - 1)
    // Part of a text (a hash, a token, a word), or of a fraction.
    if (!/^[:,[\s-]?$/.test(before) || !ends.test(text.charAt(at + run.length))) return run
    // Directly after a key: inside a string the quote before the colon would follow a backslash.
    if (before === ':' && text[at - 2] === '"' && text[at - 3] !== '\\') return `"${run}"`
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
    at = stringEnd(text, open) + 1
    whole += text.slice(open, at)
  }
  return whole
}

/** `JSON.parse` in which integers of 16 or more digits arrive as strings. @throws SyntaxError */
export const parseLossless = (text: string): unknown => JSON.parse(quoteLongIntegers(text))

/**
 * The texts of the objects in the top-level array `key` of a valid JSON object text, in order; undefined when there is
 * no such array. Slices of the given text: a quarter of the cost of stringifying the parsed objects again.
 */
export function sliceArray(text: string, key: string): string[] | undefined {
  let found: string[] | undefined
  let depth = 0
  let start = 0
  let inside = false
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (char === '"') {
      const end = stringEnd(text, at)
      if (depth === 1 && !inside && text.slice(at + 1, end) === key) {
        const opening = /\s*:\s*\[/y
        opening.lastIndex = end + 1
        if (opening.test(text)) {
          // JSON.parse takes the last of equal keys; so do we.
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

/** Index of the quote that closes the string opened at `open`. */
function stringEnd(text: string, open: number): number {
  for (let at = text.indexOf('"', open + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let slashes = at
    while (text[slashes - 1] === '\\') slashes--
    if ((at - slashes) % 2 === 0) return at
  }
  return text.length
}
