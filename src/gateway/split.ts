/**
 * A long text as the fewest parts that upstream takes.
 *
 * Each part costs one of about ten answers, so the count comes first; among the cuts that keep it smallest, the
 * kindest to a reader wins: paragraph, line, sentence, space. A character (as a reader sees it) is never cut. A
 * code fence is cut only when it alone is too long, and then closed and opened again, so every part renders.
 */

import { Buffer } from 'node:buffer'

/** UTF-8 bytes that one text item may have (protocol notes 5.3). */
export const textLimitBytes = 16_384

interface Break {
  /** Code unit where the part before ends. */
  end: number
  /** Code unit where the part after begins; what stands between is white space and falls away. */
  next: number
  /** 0 paragraph, 1 line, 2 sentence, 3 space. */
  rank: number
}

interface Fence {
  start: number
  end: number
  opening: string
  closing: string
}

const ranks = 4

/** UTF-8 bytes before each code unit. */
function byteOffsets(text: string): Uint32Array {
  const offsets = new Uint32Array(text.length + 1)
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    // A surrogate pair is 4 bytes: 2 for each half keeps the sum right at every legal cut.
    const bytes =
      code < 0x80 ? 1 : code < 0x800 ? 2 : code >= 0xd800 && code < 0xe000 ? pairBytes(text, i) : 3
    offsets[i + 1] = offsets[i]! + bytes
  }
  return offsets
}

/** A lone surrogate is sent as U+FFFD, which has 3 bytes. */
function pairBytes(text: string, i: number): number {
  const code = text.charCodeAt(i)
  const other = code < 0xdc00 ? text.charCodeAt(i + 1) : text.charCodeAt(i - 1)
  const paired = code < 0xdc00 ? other >= 0xdc00 && other < 0xe000 : other >= 0xd800 && other < 0xdc00
  return paired ? 2 : 3
}

function fencesOf(text: string): Fence[] {
  const found: Fence[] = []
  let open: { start: number; mark: string; opening: string } | undefined
  for (const line of text.matchAll(/^[^\n]*(?:\n|$)/gm)) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line[0])?.[1]
    if (!mark) {
      if (line.index >= text.length) break
      continue
    }
    if (!open) open = { start: line.index, mark, opening: line[0].replace(/\n$/, '') }
    else if (mark.startsWith(open.mark) && /^ {0,3}[`~]+\s*$/.test(line[0])) {
      found.push({
        start: open.start,
        end: line.index + line[0].replace(/\n$/, '').length,
        opening: open.opening,
        closing: open.mark,
      })
      open = undefined
    }
  }
  if (open) found.push({ start: open.start, end: text.length, opening: open.opening, closing: open.mark })
  return found
}

/**
 * Splits `text` into the fewest parts of at most `limit` UTF-8 bytes.
 *
 * @returns one part (the text itself) when it fits; never an empty part
 */
export function splitText(text: string, limit: number = textLimitBytes): string[] {
  const offsets = byteOffsets(text)
  if (offsets[text.length]! <= limit) return [text]

  const bytes = (from: number, to: number) => offsets[to]! - offsets[from]!
  const fences = fencesOf(text)
  const longFences = fences.filter(fence => bytes(fence.start, fence.end) > limit)
  const shut = fences.filter(fence => !longFences.includes(fence))
  const fenceAt = (list: Fence[], index: number) =>
    list.find(fence => index > fence.start && index < fence.end)

  const breaks: Break[] = []
  for (const match of text.matchAll(/\n[ \t]*\n\s*|\n|[ \t]+|(?<=[。！？…])(?=[^\s。！？…”』」）])/g)) {
    const space = match[0]
    const at = match.index
    if (at === 0 || fenceAt(shut, at)) continue
    const rank = space === '' ? 2 : /\n\s*\n/.test(space) ? 0 : space.includes('\n') ? 1 : 3
    if (fenceAt(longFences, at)) {
      // Inside code only a line end is a break, and the lines after keep their indentation.
      if (rank <= 1) breaks.push({ end: at, next: at + 1, rank: 1 })
    } else breaks.push({ end: at, next: at + space.length, rank })
  }

  /** The part's text between two cuts, its cut fence closed and opened again. */
  const rendered = (from: number, to: number) => {
    const before = fenceAt(longFences, from)
    const after = fenceAt(longFences, to)
    return `${before ? `${before.opening}\n` : ''}${text.slice(from, to)}${after ? `\n${after.closing}` : ''}`
  }
  /** Bytes that the fence marks of `rendered` may add to a part beginning at `from`. */
  const overhead = (from: number) => {
    let extra = 0
    for (const fence of longFences) {
      if (from > fence.start && from < fence.end)
        extra = Math.max(extra, Buffer.byteLength(fence.opening) + 1)
    }
    const closing = longFences.reduce(
      (most, fence) => Math.max(most, Buffer.byteLength(fence.closing) + 1),
      0,
    )
    return extra + closing
  }
  /** The farthest code unit that still fits into a part from `from`. */
  const reach = (from: number) => {
    const most = offsets[from]! + Math.max(limit - overhead(from), 8)
    let low = from
    let high = text.length
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (offsets[middle]! <= most) low = middle
      else high = middle - 1
    }
    return low
  }
  /** The last break of `rank` (or a better one) with its end in (from, to]. */
  const lastBreak = (from: number, to: number, rank: number): Break | undefined => {
    let low = 0
    let high = breaks.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (breaks[middle]!.end <= to) low = middle + 1
      else high = middle
    }
    for (let i = low - 1; i >= 0 && breaks[i]!.end > from; i--) if (breaks[i]!.rank <= rank) return breaks[i]
    return undefined
  }
  const hardBreak = (from: number, to: number): Break => {
    const fence = fenceAt(shut, to)
    // A fence that fits into a part of its own moves there whole.
    const stop = fence && fence.start > from ? fence.start : to
    const end = stop === to ? characterEnd(text, from, to) : stop
    return { end, next: end, rank: ranks }
  }
  const farthest = (from: number): Break => {
    const to = reach(from)
    return lastBreak(from, to, ranks - 1) ?? hardBreak(from, to)
  }
  /** Whether the rest from `from` fits into `parts` parts. */
  const fits = (from: number, parts: number) => {
    let at = from
    for (let used = 0; used < parts; used++) {
      if (bytes(at, text.length) + overhead(at) <= limit || reach(at) >= text.length) return true
      at = farthest(at).next
    }
    return at >= text.length
  }

  let count = 1
  for (let at = 0; reach(at) < text.length; count++) at = farthest(at).next

  const parts: string[] = []
  let from = 0
  while (from < text.length) {
    const to = reach(from)
    if (to >= text.length) {
      parts.push(rendered(from, text.length))
      break
    }
    const left = count - parts.length - 1
    let chosen = farthest(from)
    for (let rank = 0; rank < chosen.rank && rank < ranks; rank++) {
      const kinder = lastBreak(from, to, rank)
      if (kinder && fits(kinder.next, left)) {
        chosen = kinder
        break
      }
    }
    parts.push(rendered(from, chosen.end))
    from = chosen.next
  }
  return parts.filter(part => part.trim() !== '')
}

/** The last place in (from, to] where no character, as a reader sees it, is cut. */
function characterEnd(text: string, from: number, to: number): number {
  // Only the neighbourhood is segmented: a grapheme is short, the text is not.
  const start = Math.max(from, to - 64)
  const base = start > from && /[\udc00-\udfff]/.test(text[start]!) ? start - 1 : start
  const window = text.slice(base, Math.min(text.length, to + 64))
  let end = -1
  for (const { index } of new Intl.Segmenter(undefined, { granularity: 'grapheme' }).segment(window)) {
    if (base + index > to) break
    if (base + index > from) end = base + index
  }
  if (end > base || end > from) return end
  // One endless cluster: at least never cut a surrogate pair.
  return /[\udc00-\udfff]/.test(text[to] ?? '') && to - 1 > from ? to - 1 : to
}
