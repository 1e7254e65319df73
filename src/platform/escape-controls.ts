/** What nobody would see in a text, or a terminal would obey, written by its number. */

// Controls, formatting and bidi characters, lone surrogates, private use, line ends, tags and the selectors that can
// carry hidden text. The joiners and the first sixteen selectors stay: emoji and whole scripts are written with them.
const unseen =
  /\u034f|[\p{Cc}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu

/** Most texts hold no other, and classes of Unicode take ten times as long. */
const plain = /^[\x20-\x7e]*$/

/** The text in one line. A tab is seen. */
export const seen = (text: string): string =>
  plain.test(text)
    ? text
    : text.replace(unseen, character => (character === '\t' ? ' ' : numbered(character)))

/** A value of JSON with every text in it, and every key, as `seen` has it, but for line ends and tabs. */
export function seenWithin<T>(value: T): T
export function seenWithin(value: unknown): unknown {
  if (typeof value === 'string' && plain.test(value)) return value
  if (typeof value === 'string')
    return value.replace(unseen, character => (/[\n\t]/.test(character) ? character : numbered(character)))
  if (Array.isArray(value)) return value.map(entry => seenWithin(entry))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [seen(key), seenWithin(entry)]))
}

export const numbered = (character: string): string => `\\u{${character.codePointAt(0)?.toString(16)}}`
