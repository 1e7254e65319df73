/** The addresses of a text, which are not cut. Time grows with the text's length alone. */
import { isSpace, type Span } from './blocks.ts'

/** What an address begins with, and what tells where it stands. */
const landmarks = /[[\]\n]|(?<![a-z])(?:[a-z][a-z0-9+.-]{1,30}:\/\/|www\.)/gi
const linkEnd = /(?:[ \t]{1,8}(?:"[^"\n]{0,300}"|'[^'\n]{0,300}'))?[ \t]{0,8}\)/y

/**
 * The addresses between two places, in order, each with the link in Markdown that it is in; without that where the link
 * is longer than a part. Those that are longer themselves are left out.
 */
export function addressesOf(text: string, { start, end }: Span, fits: (span: Span) => boolean): Span[] {
  const found: Span[] = []
  /** Brackets of this line that are open, and the last pair. */
  let open: number[] = []
  let pair: Span | undefined
  landmarks.lastIndex = start
  for (let match = landmarks.exec(text); match && match.index < end; match = landmarks.exec(text)) {
    const at = match.index
    if (match[0] === '[') open.push(at)
    else if (match[0] === ']') {
      const from = open.pop()
      pair = from === undefined ? undefined : { start: from, end: at + 1 }
    } else if (match[0] === '\n') {
      open = []
      pair = undefined
    } else {
      const pointed = text[at - 1] === '<'
      const paren = pointed ? at - 2 : at - 1
      const linked = text[paren] === '(' && pair?.end === paren ? pair.start : undefined
      const own = {
        start: at,
        end: addressEnd(text, landmarks.lastIndex, end, pointed || linked !== undefined),
      }
      const whole = { ...own }
      if (pointed && text[own.end] === '>') {
        whole.start = at - 1
        whole.end = own.end + 1
      }
      linkEnd.lastIndex = whole.end
      if (linked !== undefined && linkEnd.test(text)) {
        whole.start = text[linked - 1] === '!' ? linked - 1 : linked
        whole.end = linkEnd.lastIndex
      }
      const kept = [whole, own].find(fits)
      // A picture that is a link: the outer one holds the inner one.
      if (kept) while (found.length > 0 && found[found.length - 1]!.start >= kept.start) found.pop()
      if (kept) found.push(kept)
      landmarks.lastIndex = own.end
    }
  }
  return found
}

/** A foreign host, where a name begins that is not ASCII. */
const foreignHost = /(?!\p{ASCII})[\p{L}\p{M}\p{N}.-]*/uy

/**
 * Where an address ends that begins before `at`. Text without spaces may follow it: the first character that is not ASCII
 * ends it, as WeChat has it, unless it stands between marks of its own.
 */
function addressEnd(text: string, at: number, textEnd: number, marked: boolean): number {
  foreignHost.lastIndex = at
  let end = marked || !foreignHost.test(text) ? at : foreignHost.lastIndex
  const depth = { round: 0, square: 0 }
  for (; end < textEnd; end++) {
    const code = text.charCodeAt(end)
    if (code > 0x7e ? !marked || isSpace(code) : code <= 0x20 || '"<>\\^`{|}'.includes(text.charAt(end)))
      break
    if (code === 0x28) depth.round++
    else if (code === 0x5b) depth.square++
    else if ((code === 0x29 && depth.round-- === 0) || (code === 0x5d && depth.square-- === 0)) break
    else if ((code === 0x2c || code === 0x3b) && /^[a-z]{2,8}:\/\//i.test(text.slice(end + 1, end + 12)))
      // The next one of a list.
      break
  }
  return end
}
