/** What people wrote, as text and nothing else: addresses become links, what was searched for is marked. */
import type { ComponentChildren } from 'preact'

/** http and https alone; what ends a sentence does not belong to an address. */
const address =
  /https?:\/\/[^\s<>"'`{}|\\^\u3000-\u303f\uff00-\uffef\u200e\u200f\u202a-\u202e\u2066-\u2069]+/giu
const trailing = /[.,:;!?)\]]+$/

const folded = (text: string): string => text.replace(/[A-Z]/g, letter => letter.toLowerCase())

/** Finds `needle` in a folded text, in any form that Unicode has for it. */
function placesOf(needle: string): RegExp {
  const forms = needle.length > 1000 ? [] : [needle.normalize('NFC'), needle.normalize('NFD')]
  const literal = (form: string) => folded(form).replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
  return new RegExp([...new Set([needle, ...forms])].map(literal).join('|'), 'g')
}

/** The text with each occurrence of `needle` marked; ASCII letters in either case, as the service searches. */
export function Marked({ text, needle }: { text: string; needle: string }) {
  if (needle === '') return <>{text}</>
  const parts: ComponentChildren[] = []
  let from = 0
  for (const { 0: found, index } of folded(text).matchAll(placesOf(needle))) {
    if (parts.length >= 400) break
    parts.push(text.slice(from, index), <mark>{text.slice(index, index + found.length)}</mark>)
    from = index + found.length
  }
  parts.push(text.slice(from))
  return <>{parts}</>
}

/** A text with its line breaks, links and marks. */
export function Rich({ text, needle }: { text: string; needle: string }) {
  const parts: ComponentChildren[] = []
  let from = 0
  for (const found of text.matchAll(address)) {
    let shown = found[0].replace(trailing, '')
    // A bracket that was opened inside belongs to it.
    if (shown.includes('(') && found[0][shown.length] === ')') shown += ')'
    if (!URL.canParse(shown) || parts.length > 400) continue
    parts.push(
      <Marked text={text.slice(from, found.index)} needle={needle} />,
      <a href={shown} target="_blank" rel="noopener noreferrer" dir="ltr">
        <Marked text={shown} needle={needle} />
      </a>,
    )
    from = found.index + shown.length
  }
  parts.push(<Marked text={text.slice(from)} needle={needle} />)
  return <>{parts}</>
}

const shownChars = 1200
const shownLines = 24

/** Where a long text is cut; its length when it is shown whole. */
export function cutAt(text: string): number {
  let end = text.length > shownChars * 1.25 ? shownChars : text.length
  let line = -1
  for (let lines = 0; lines < shownLines; lines++) {
    line = text.indexOf('\n', line + 1)
    if (line < 0 || line >= end) break
  }
  if (line >= 0 && line < end && text.length - line > 80) end = line
  // Never inside a pair of surrogates.
  return end < text.length && /[\ud800-\udbff]/.test(text[end - 1] ?? '') ? end - 1 : end
}

/** Whether it is in there, as the service would find it. */
export const contains = (text: string, needle: string): boolean => placesOf(needle).test(folded(text))

/** What stands around the first occurrence of `needle`, for a line of the list. */
export function around(text: string, needle: string, chars = 90): string {
  const line = text.replace(/\s+/g, ' ')
  const at = folded(line).search(placesOf(needle.replace(/\s+/g, ' ')))
  if (at < 30) return line.slice(0, chars * 2)
  const from = Math.max(0, at - 26)
  // At the beginning of a word, where there are spaces.
  const space = line.indexOf(' ', from)
  return `…${line.slice(space >= 0 && space < at ? space + 1 : from).slice(0, chars * 2)}`
}
