/** Makes file names from users and callers safe for a receiver, or for a disk. */
import { Buffer } from 'node:buffer'
import { extname } from 'node:path'
import process from 'node:process'

/** Longest file name of most file systems, in bytes. */
const maxNameBytes = 255
const maxExtensionBytes = 32

/** A length that every file system accepts. With encrypted names (eCryptfs) the limit is 143. */
export const safeNameBytes = 128

/**
 * Appends `mark` to the stem, and cuts the stem so that the whole name has at most `most` bytes. Keeps the
 * extension, and cuts between characters as a reader sees them (graphemes).
 */
export function cutName(name: string, mark = '', most = maxNameBytes): string {
  const found = extname(name)
  const extension = Buffer.byteLength(found) <= maxExtensionBytes ? found : ''
  const stem = extension ? name.slice(0, -extension.length) : name
  return cutBytes(stem, most - Buffer.byteLength(mark + extension)) + mark + extension
}

/** Returns the longest start of at most `limit` bytes that cuts no grapheme. */
function cutBytes(text: string, limit: number): string {
  if (Buffer.byteLength(text) <= limit) return text
  let bytes = 0
  let kept = ''
  for (const { segment } of new Intl.Segmenter(undefined, { granularity: 'grapheme' }).segment(text)) {
    bytes += Buffer.byteLength(segment)
    if (bytes > limit) return kept
    kept += segment
  }
  return kept
}

export interface SafeFileName {
  file_name: string
  /** What was changed in the name, in words; absent if nothing was. */
  renamed?: string
}

// Normalizing a run of accents takes quadratic time: 15 ms for 1024, 17 s for 40,000.
const maxNormalized = 1024
const deviceName = /^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\.|$)/i
// Removes control characters, invisible formatting characters (bidi overrides make "gpj.exe" read as
// "exe.jpg"), lone surrogates and line separators. Keeps the zero-width joiner and the variation selectors,
// which emoji need. Keeps the non-joiner after non-ASCII characters, which Persian needs.
const invisibleCharacters =
  /\u034f|(?<!\P{ASCII})\u200c|[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu

/**
 * Makes a base name in NFC. Removes only what is unsafe: leading folders, control characters, bidi
 * overrides and other invisible characters (tag characters can carry whole sentences to a language model).
 * Cuts the name to 255 bytes; the extension stays, and no character is cut.
 *
 * @param fallback name to use if nothing is left
 */
export function fileNameOf(input: string, fallback: string): SafeFileName {
  const changes: string[] = []
  // A name never needs more; checking a megabyte would cost time.
  const end = input.slice(-4096)
  const base = end.slice(Math.max(end.lastIndexOf('/'), end.lastIndexOf('\\')) + 1)
  if (base !== input) changes.push('folders were left out')
  const visible = base.replace(invisibleCharacters, '')
  if (visible !== base) changes.push('characters that cannot be seen were left out')
  const name = visible.length > maxNormalized ? visible : visible.normalize('NFC')
  if (/^(?:\.{0,2}|\s*)$/.test(name)) {
    const file_name = fallback === '' ? 'file' : fileNameOf(fallback, '').file_name
    return input === '' ? { file_name } : { file_name, renamed: 'no part of it can be a file name' }
  }
  const cut = cutName(name)
  if (cut !== name) changes.push(`it was cut to ${maxNameBytes} bytes`)
  return { file_name: cut, ...(changes.length > 0 && { renamed: changes.join(', ') }) }
}

/** Names of partial downloads. Old ones are removed. */
export const partialNamePattern = /^\..+\.[0-9a-f]{8}\.part$/

/**
 * Makes a name that a folder of this machine accepts. A leading dot gets a `_` before it: a sender must not
 * create `.bashrc`. Windows reserves some characters and names, and drops dots and spaces at the end.
 */
export function toDiskName(named: SafeFileName, isWindows = process.platform === 'win32'): SafeFileName {
  const original = named.file_name
  const plain = isWindows ? original.replace(/[<>:"|?*]/g, '_').replace(/[. ]+$/, '') || '_' : original
  const isHidden = plain.startsWith('.')
  const isKept = isWindows && deviceName.test(plain)
  const file_name = cutName(isHidden || isKept ? `_${plain}` : plain)
  const changes = named.renamed === undefined ? [] : [named.renamed]
  if (isKept || plain !== original) changes.push('characters or names that the system reserves were replaced')
  if (isHidden) changes.push('_ was put before the dot')
  return changes.length > 0 ? { file_name, renamed: changes.join(', ') } : named
}
