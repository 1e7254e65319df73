/** The text of a message, never as HTML. URLs become links, search matches are marked. */
import type { ComponentChildren } from 'preact'

/** http and https URLs. Punctuation at the end of a sentence is not part of the URL. */
const address =
  /https?:\/\/[^\s<>"'`{}|\\^\u3000-\u303f\uff00-\uffef\u200e\u200f\u202a-\u202e\u2066-\u2069]+/giu
const trailing = /[.,:;!?)\]]+$/

const folded = (text: string): string => text.replace(/[A-Z]/g, letter => letter.toLowerCase())

/** Matches `needle` in a folded text, in either Unicode normalization form. */
function placesOf(needle: string): RegExp {
  const forms = needle.length > 1000 ? [] : [needle.normalize('NFC'), needle.normalize('NFD')]
  const literal = (form: string) => folded(form).replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
  return new RegExp([...new Set([needle, ...forms])].map(literal).join('|'), 'g')
}

/** A text with each `needle` marked. Like the search of the service, it ignores the case of ASCII letters. */
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
    let url = found[0].replace(trailing, '')
    // A bracket that was opened inside the URL is part of it.
    if (url.includes('(') && found[0][url.length] === ')') url += ')'
    if (!URL.canParse(url) || parts.length > 400) continue
    parts.push(
      <Marked text={text.slice(from, found.index)} needle={needle} />,
      <a href={url} target="_blank" rel="noopener noreferrer" dir="ltr">
        <Marked text={url} needle={needle} />
      </a>,
    )
    from = found.index + url.length
  }
  parts.push(<Marked text={text.slice(from)} needle={needle} />)
  return <>{parts}</>
}

const foldChars = 1200
const shownLines = 24

/** Where to cut a long text; its length if it is not cut. */
export function cutAt(text: string): number {
  let end = text.length > foldChars * 1.25 ? foldChars : text.length
  let line = -1
  for (let lines = 0; lines < shownLines; lines++) {
    line = text.indexOf('\n', line + 1)
    if (line < 0 || line >= end) break
  }
  if (line >= 0 && line < end && text.length - line > 80) end = line
  // Never cut inside a surrogate pair.
  return end < text.length && /[\ud800-\udbff]/.test(text[end - 1] ?? '') ? end - 1 : end
}

/** Whether a text contains `needle`, by the rules of the service's search. */
export const contains = (text: string, needle: string): boolean => placesOf(needle).test(folded(text))

/** The text around the first `needle`, for a line of the list. */
export function around(text: string, needle: string, chars = 90): string {
  const line = text.replace(/\s+/g, ' ')
  const at = folded(line).search(placesOf(needle.replace(/\s+/g, ' ')))
  if (at < 30) return line.slice(0, chars * 2)
  const from = Math.max(0, at - 26)
  // Start at a word, if there are spaces.
  const space = line.indexOf(' ', from)
  return `…${line.slice(space >= 0 && space < at ? space + 1 : from).slice(0, chars * 2)}`
}
