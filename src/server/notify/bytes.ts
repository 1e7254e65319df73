/** Bytes as text: in the encoding that their sender names or marks, else in the one that they can only be. */
import { attempt } from '../../platform/fields.ts'

/**
 * Returns the text of bytes; undefined if they are none. Bytes that are not UTF-8 and whose encoding is not known are read as
 * GB18030 if that gives Han characters, else as windows-1252.
 *
 * @param charset as declared, such as `gbk`
 */
export function decodeBytes(bytes: Uint8Array, charset?: string): string | undefined {
  const marked =
    bytes[0] === 0xff && bytes[1] === 0xfe
      ? 'utf-16le'
      : bytes[0] === 0xfe && bytes[1] === 0xff
        ? 'utf-16be'
        : undefined
  for (const label of [marked, charset, 'utf-8']) {
    const text = label && decodeAs(bytes, label)
    if (text !== undefined && text !== '' && !(label === marked && controls.test(text))) return text
  }
  if (bytes.length === 0) return ''
  if (bytes.some(isControl)) return undefined
  return (isHan(bytes) ? decodeAs(bytes, 'gb18030') : undefined) ?? decodeAs(bytes, 'windows-1252')
}

const decodeAs = (bytes: Uint8Array, label: string): string | undefined =>
  attempt(() => new TextDecoder(label, { fatal: true }).decode(bytes))

/** No text has them; nearly every file of another kind does. */
const isControl = (byte: number): boolean => byte < 32 && (byte < 9 || byte > 13) && byte !== 27
// biome-ignore lint/suspicious/noControlCharactersInRegex: see isControl
const controls = /[\u0000-\u0008\u000e-\u001a\u001c-\u001f]/

/**
 * Whether bytes are Chinese text in GB18030: pairs of high bytes, more of them common characters than others, and two of them
 * together, or more than there are Latin letters. An umlaut stands alone, or beside one other.
 */
function isHan(bytes: Uint8Array): boolean {
  let [common, others, letters, run, longest] = [0, 0, 0, 0, 0]
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!
    if (byte < 0x80) {
      run = 0
      if (/[a-z]/i.test(String.fromCharCode(byte))) letters++
      continue
    }
    const isPair = byte >= 0xa1 && byte <= 0xf7 && bytes[at + 1]! >= 0xa1
    if (isPair && byte >= 0xb0 && byte <= 0xd7) common++
    else others++
    run = isPair ? run + 1 : 0
    longest = Math.max(longest, run)
    at++
  }
  return common > others && (longest >= 2 || common > letters)
}
