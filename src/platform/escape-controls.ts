/** Escapes characters that a reader does not see or that a terminal would obey, as `\u{…}`. */

// Controls, line ends, and all that Unicode marks as ignorable for display (formatting,
// bidi, tags, fillers, joiners, selectors). Unicode does not mark annotations, and the Egyptian, shorthand
// and musical controls, so they are listed here.
const blank =
  '\\p{Cc}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}\\u2d7f\\ufff9-\\ufffb\\u{1107f}\\u{13430}-\\u{13440}\\u{16fe4}\\u{1bc9d}\\u{1d159}'
// Also lone surrogates, private use, what is not assigned yet, and the blank Braille pattern outside of Braille.
const unseenCharacters = new RegExp(`[\\p{Cs}\\p{Co}\\p{Cn}${blank}]|(?<![\\u2801-\\u28ff])\\u2800`, 'gu')
const seenCharacter = new RegExp(`[^\\s\\u2800\\p{Noncharacter_Code_Point}${blank}]`, 'u')

/** Returns whether a reader sees anything of a text. Spaces alone are nothing. */
export const isVisible = (text: string): boolean => seenCharacter.test(text)

/** Scripts in which a joiner character joins letters or keeps them apart. */
const joiningScripts = [
  'Arabic',
  'Syriac',
  'Mandaic',
  'Nko',
  'Mongolian',
  'Phags_Pa',
  'Adlam',
  'Hanifi_Rohingya',
]
  .concat([
    'Devanagari',
    'Bengali',
    'Gurmukhi',
    'Gujarati',
    'Oriya',
    'Tamil',
    'Telugu',
    'Kannada',
    'Malayalam',
  ])
  .concat(['Sinhala', 'Khmer', 'Myanmar', 'Tibetan', 'Balinese', 'Javanese', 'Grantha', 'Newa', 'Tai_Tham'])
  .map(script => `\\p{scx=${script}}`)
  .join('')
const emoji = '[\\u{1f3fb}-\\u{1f3ff}]?[\\ufe0e\\ufe0f]?'

/**
 * A character with the one joiner or selector that belongs to it: emoji and whole scripts need them. More
 * than one could carry an invisible text, one byte per character.
 */
const allowedSequences = [
  // ❤️, 🏳️‍🌈: a joiner between two emoji.
  `(?![0-9#*])\\p{Emoji}${emoji}(?:\\u200d\\p{Extended_Pictographic}${emoji})*`,
  // 1️⃣
  '[0-9#*]\\ufe0f(?=\\u20e3)',
  `(?=[\\p{L}\\p{M}])[${joiningScripts}][\\u200c\\u200d]`,
  '\\p{sc=Han}[\\ufe00-\\ufe02]',
  '[\\p{Sm}\\p{sc=Myanmar}\\p{sc=Phags_Pa}]\\ufe00',
  '(?=\\p{L})\\p{sc=Mongolian}[\\u180b-\\u180d\\u180f]',
  '(?=\\p{L})\\p{sc=Tifinagh}\\u2d7f',
  '[\\u{1bc00}-\\u{1bc99}]\\u{1bc9d}',
].join('|')
const allowedOrUnseen = new RegExp(`(${allowedSequences})|${unseenCharacters.source}`, 'gu')

/** Most texts have only these characters. Unicode classes take ten times as long. */
const plain = /^[\x20-\x7e]*$/

/** @param toReplacement returns the replacement of a character that a reader does not see */
function replaceUnseen(text: string, toReplacement: (character: string) => string): string {
  // Few texts have any, and the replacement below is slower than the search.
  if (plain.test(text) || text.search(unseenCharacters) < 0) return text
  return text.replace(allowedOrUnseen, (found, allowed?: string) =>
    allowed === undefined ? toReplacement(found) : found,
  )
}

/** Escapes a text into one line. A tab becomes a space. */
export const escapeControls = (text: string): string =>
  replaceUnseen(text, character => (character === '\t' ? ' ' : toEscape(character)))

/** Escapes every text and every key of a JSON value. Texts keep their line ends and tabs. */
export function escapeControlsIn<T>(value: T): T
export function escapeControlsIn(value: unknown): unknown {
  if (typeof value === 'string')
    return replaceUnseen(value, character => (/[\n\t]/.test(character) ? character : toEscape(character)))
  if (Array.isArray(value)) return value.map(entry => escapeControlsIn(entry))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, entry]) => [escapeControls(key), escapeControlsIn(entry)]),
  )
}

export const toEscape = (character: string): string => `\\u{${character.codePointAt(0)?.toString(16)}}`

/**
 * Characters that JSON does not escape and that can act on a terminal: C1 controls, line and direction controls.
 */
export const unsafeCharacters = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

/** Formats a value as one line of JSON that cannot act on a terminal. Parsers read the same value. */
export const toJsonLine = (value: unknown): string =>
  JSON.stringify(value).replace(
    unsafeCharacters,
    character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
