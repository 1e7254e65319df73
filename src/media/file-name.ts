/** Names of files that strangers and callers give, as names that a receiver, or a disk, can bear. */
import { Buffer } from 'node:buffer'
import { extname } from 'node:path'
import process from 'node:process'

/** What a name on a disk may have. */
const longestNameBytes = 255
const longestExtensionBytes = 32

/** What every disk takes: with encrypted names (eCryptfs) it is 143. */
export const shortNameBytes = 128

/**
 * The name with something behind its stem, cut to `most` bytes between characters as a reader sees them: the extension stays.
 */
export function cutName(name: string, mark = '', most = longestNameBytes): string {
  const found = extname(name)
  const extension = Buffer.byteLength(found) <= longestExtensionBytes ? found : ''
  const stem = extension ? name.slice(0, -extension.length) : name
  return cutBytes(stem, most - Buffer.byteLength(mark + extension)) + mark + extension
}

/** The longest beginning of at most `limit` bytes that does not cut a character, as a reader sees it. */
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

export interface FileName {
  file_name: string
  /** What of the given name could not be kept, in words; absent when it is the name that was given. */
  renamed?: string
}

// To normalise a run of accents takes time with its square: 15 ms for these, 17 s for 40,000.
const mostNormalized = 1024
const deviceName = /^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\.|$)/i
// Control and invisible formatting characters (bidi overrides make "gpj.exe" read "exe.jpg"), lone surrogates and
// line separators. The zero-width joiner and the variation selectors stay: emoji are made of them. So does the
// non-joiner behind other scripts: Persian is written with it.
const unseen =
  /\u034f|(?<!\P{ASCII})\u200c|[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu

/**
 * The given name as a base name, NFC. Only what cannot be borne goes: folders before it, control characters, bidi overrides
 * and what else nobody sees (tags carry whole sentences to a language model), and what is beyond 255 bytes, where the
 * extension stays and no character is cut.
 *
 * @param fallback the name where nothing is left of it
 */
export function fileNameOf(given: string, fallback: string): FileName {
  const changes: string[] = []
  // A name never needs more than this; the rest of a megabyte is not worth looking at.
  const end = given.slice(-4096)
  const base = end.slice(Math.max(end.lastIndexOf('/'), end.lastIndexOf('\\')) + 1)
  if (base !== given) changes.push('folders were left out')
  const seen = base.replace(unseen, '')
  if (seen !== base) changes.push('characters that cannot be seen were left out')
  const name = seen.length > mostNormalized ? seen : seen.normalize('NFC')
  if (/^(?:\.{0,2}|\s*)$/.test(name)) {
    const file_name = fallback === '' ? 'file' : fileNameOf(fallback, '').file_name
    return given === '' ? { file_name } : { file_name, renamed: 'nothing of it can be a name of a file' }
  }
  const cut = cutName(name)
  if (cut !== name) changes.push(`it was cut to ${longestNameBytes} bytes`)
  return { file_name: cut, ...(changes.length > 0 && { renamed: changes.join(', ') }) }
}

/** What is not downloaded as a whole yet, and goes when it is old. */
export const partialName = /^\..+\.[0-9a-f]{8}\.part$/

/**
 * The same as a folder of this machine takes it. A name with a dot before it gets a `_`: a sender must not write `.bashrc`.
 * Windows keeps some characters and words for itself, and drops dots and spaces at the end.
 */
export function nameOnDisk(named: FileName, isWindows = process.platform === 'win32'): FileName {
  const given = named.file_name
  const plain = isWindows ? given.replace(/[<>:"|?*]/g, '_').replace(/[. ]+$/, '') || '_' : given
  const isHidden = plain.startsWith('.')
  const isKept = isWindows && deviceName.test(plain)
  const file_name = cutName(isHidden || isKept ? `_${plain}` : plain)
  const changes = named.renamed === undefined ? [] : [named.renamed]
  if (isKept || plain !== given) changes.push('what the system keeps for itself was replaced')
  if (isHidden) changes.push('_ was put before the dot')
  return changes.length > 0 ? { file_name, renamed: changes.join(', ') } : named
}
