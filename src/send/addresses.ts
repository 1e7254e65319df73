/**
 * Finds the addresses (URLs) in a text, which must not be cut. Takes time linear in the length of the text.
 */
import { isSpace, type Span } from './blocks.ts'

/** Matches the start of an address, and the characters that show whether an address is part of a link. */
const landmarks = /[[\]\n]|(?<![a-z])(?:[a-z][a-z0-9+.-]{1,30}:\/\/|www\.)/gi
const linkEnd = /(?:[ \t]{1,8}(?:"[^"\n]{0,300}"|'[^'\n]{0,300}'))?[ \t]{0,8}\)/y

/**
 * Finds the addresses inside a span, in order. An address inside a Markdown link is returned with the whole
 * link, unless only the address itself fits into a part. Addresses that do not fit are left out.
 *
 * @param fits whether a span fits into one part
 */
export function findAddresses(text: string, { start, end }: Span, fits: (span: Span) => boolean): Span[] {
  const found: Span[] = []
  /** Start of each open bracket of this line. `pair` is the last closed pair. */
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
      const address = {
        start: at,
        end: findAddressEnd(text, landmarks.lastIndex, end, pointed || linked !== undefined),
      }
      const link = { ...address }
      if (pointed && text[address.end] === '>') {
        link.start = at - 1
        link.end = address.end + 1
      }
      linkEnd.lastIndex = link.end
      if (linked !== undefined && linkEnd.test(text)) {
        link.start = text[linked - 1] === '!' ? linked - 1 : linked
        link.end = linkEnd.lastIndex
      }
      const kept = [link, address].find(fits)
      // A picture inside a link: the outer link contains the inner one.
      if (kept) while (found.length > 0 && found[found.length - 1]!.start >= kept.start) found.pop()
      if (kept) found.push(kept)
      landmarks.lastIndex = address.end
    }
  }
  return found
}

/** The non-ASCII beginning of a host name. */
const foreignHost = /(?!\p{ASCII})[\p{L}\p{M}\p{N}.-]*/uy

/**
 * Returns the end of an address whose beginning ends at `at`. Text may follow an address without a space,
 * so the first non-ASCII character ends it, as in WeChat, except inside brackets (`withMarks`).
 */
function findAddressEnd(text: string, at: number, textEnd: number, marked: boolean): number {
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
      // The next address of a list.
      break
  }
  return end
}
