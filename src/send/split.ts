/**
 * A long text as the fewest parts that upstream takes.
 *
 * Each part costs one of about ten answers, so the count comes first; among the cuts that keep it smallest, the
 * kindest to a reader wins: paragraph, line, sentence, space. A character (as a reader sees it) is never cut. A
 * code fence is cut only when it alone is too long, and then closed and opened again, so every part renders.
 *
 * The text comes from callers: it is read once from its beginning to its end, and the places to cut are found from what
 * was noted there, so time and memory grow with its length alone.
 */

/** UTF-8 bytes that one text item may have (protocol notes 5.3). */
export const textLimitBytes = 16_384

/** A place where a part may end. */
interface Cut {
  /** Code unit where the part before ends. */
  end: number
  /** Code unit where the part after begins; what stands between is white space and falls away. */
  next: number
  /** 0 paragraph, 1 line, 2 sentence, 3 space; 4 anywhere. */
  rank: number
  /** Cut in two here: closed before the cut, opened again after it. */
  fence?: Fence
}

interface Fence {
  /** Code units: from the opening mark to the end of the closing one. */
  start: number
  end: number
  /** The opening line, and the mark that closes. */
  opening: string
  closing: string
  /** Bytes that these add to a part that begins, or ends, inside. */
  openingBytes: number
  closingBytes: number
  /** Code units of the first and the last line end where it may be cut; no `bodyStart`: fits whole, and stays so. */
  bodyStart?: number
  bodyEnd: number
}

const anywhere = 4

/**
 * Splits `text` into the fewest parts of at most `limit` UTF-8 bytes.
 *
 * @param limit at least 8
 * @param most of more parts than this nothing is made
 * @returns one part (the text itself) when it fits; never an empty part; undefined when `most` parts cannot hold it
 */
export function splitText(text: string, limit: number, most: number): string[] | undefined {
  const bytes = byteCounter(text)
  if (bytes(0, text.length) <= limit) return [text]
  // White space at a cut falls away, and so it does at both ends.
  const start = text.length - text.trimStart().length
  const length = text.trimEnd().length
  if (start >= length) return []
  const { isLast, cutOfRank, farthest } = reachOf(text, { start, length }, bytes, limit)
  /** How many parts the rest needs; more than `most` are not counted. */
  const needed = (from: Cut, most: number) => {
    let count = 1
    for (let at = from; count <= most && !isLast(at); count++) at = farthest(at)
    return count
  }

  let from: Cut = { end: start, next: start, rank: anywhere }
  const count = needed(from, most)
  if (count > most) return undefined
  const parts: string[] = []
  const add = (to: Cut) => {
    const opened = from.fence ? `${from.fence.opening}\n` : ''
    parts.push(`${opened}${text.slice(from.next, to.end)}${to.fence ? `\n${to.fence.closing}` : ''}`)
    from = to
  }
  while (!isLast(from)) {
    const left = count - parts.length - 1
    let chosen = farthest(from)
    for (let rank = 0; rank < chosen.rank; rank++) {
      const kinder = cutOfRank(from, rank)
      if (kinder && needed(kinder, left) <= left) chosen = kinder
    }
    add(chosen)
  }
  add({ end: length, next: length, rank: anywhere })
  return parts
}

/** UTF-8 bytes from one code unit to another. */
type Bytes = (from: number, to: number) => number

/** How far a part reaches that begins at a cut. */
function reachOf(text: string, { start, length }: Span, bytes: Bytes, limit: number) {
  const fences = fencesOf(text, { start, length }, bytes, limit)
  const { joined, lastEnd } = charactersOf(text)
  const isSmall = (span: [number, number]) => bytes(...span) * 4 <= limit
  const cuts = cutsOf(text, { start, length }, fences, { isSmall, joined })
  /** Bytes left for a part's own text when it begins at `from`. */
  const room = (from: Cut) => limit - (from.fence?.openingBytes ?? 0)
  const isLast = (from: Cut) => bytes(from.next, length) <= room(from)
  /** The best cut of `rank`, or a better one, as far from `from` as a part reaches. */
  const cutOfRank = (from: Cut, rank: number): Cut | undefined => {
    const reached = lastIndex(
      cuts,
      ({ end, fence }) => bytes(from.next, end) + (fence?.closingBytes ?? 0) <= room(from),
    )
    for (let i = reached; i >= 0; i--) {
      const cut = cuts[i]
      if (!cut || cut.end <= from.next) return undefined
      if (cut.rank <= rank) return cut
    }
    return undefined
  }
  /** Where nothing else is in reach: between two characters. */
  const hardCut = (from: Cut): Cut => {
    const reach = (size: number) => lastNumber(length + 1, i => bytes(from.next, i) <= size)
    const far = reach(room(from))
    const nearest = fences[lastIndex(fences, fence => fence.start < far)]
    const fence = nearest && far < nearest.end ? nearest : undefined
    const to = fence ? reach(room(from) - fence.closingBytes) : far
    const end = lastEnd(from.next, to)
    return { end, next: end, rank: anywhere, ...(fence && { fence }) }
  }
  const farthest = (from: Cut): Cut => cutOfRank(from, anywhere) ?? hardCut(from)
  return { isLast, cutOfRank, farthest }
}

interface Span {
  start: number
  length: number
}

/** Reads the text once: bytes before each code unit. */
function byteCounter(text: string): Bytes {
  const offsets = new Uint32Array(text.length + 1)
  let sum = 0
  let before = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    const leads = isHigh(code) && isLow(text.charCodeAt(i + 1))
    const follows = isLow(code) && isHigh(before)
    // A surrogate pair is 4 bytes: 2 for each half keeps the sum right at every legal cut. A lone one is sent as U+FFFD.
    sum += code < 0x80 ? 1 : code < 0x800 || leads || follows ? 2 : 3
    offsets[i + 1] = sum
    before = code
  }
  return (from, to) => (offsets[to] ?? sum) - (offsets[from] ?? 0)
}

const isHigh = (code: number) => code >= 0xd800 && code < 0xdc00
const isLow = (code: number) => code >= 0xdc00 && code < 0xe000

/** The fences that are kept whole, or closed and opened again. */
function fencesOf(text: string, { start, length }: Span, bytes: Bytes, limit: number): Fence[] {
  const found: Fence[] = []
  let open: (Pick<Fence, 'start' | 'opening' | 'closing'> & { bodyStart: number }) | undefined
  const close = (end: number, bodyEnd: number) => {
    if (!open) return
    const [openingBytes, closingBytes] = [bytes(open.start, open.bodyStart) + 1, open.closing.length + 1]
    const { bodyStart, ...fence } = { ...open, end, bodyEnd, openingBytes, closingBytes }
    open = undefined
    if (bytes(fence.start, end) <= limit) found.push(fence)
    // One whose marks would fill the parts is text like any other.
    else if ((openingBytes + closingBytes) * 4 <= limit) found.push({ ...fence, bodyStart })
  }
  for (let line = start; line < length; ) {
    const newline = text.indexOf('\n', line)
    const end = newline < 0 || newline > length ? length : newline
    const mark = markAt(text, line, end)
    if (mark && !open) {
      const opening = text.slice(mark.start, end)
      open = { start: mark.start, opening, closing: opening.slice(0, mark.length), bodyStart: end }
    } else if (mark && open && mark.bare && opens(text, mark, open.closing)) close(mark.end, line - 1)
    line = end + 1
  }
  close(length, length)
  return found
}

interface Mark {
  start: number
  end: number
  length: number
  /** Nothing but white space follows. */
  bare: boolean
}

const opens = (text: string, mark: Mark, closing: string) =>
  mark.length >= closing.length && text[mark.start] === closing[0]

/** The mark of a fence at the beginning of a line, as CommonMark has it. */
function markAt(text: string, line: number, end: number): Mark | undefined {
  let start = line
  while (start < line + 3 && text[start] === ' ') start++
  const character = text[start]
  if (character !== '`' && character !== '~') return undefined
  let after = start
  while (after < end && text[after] === character) after++
  if (after - start < 3) return undefined
  const rest = text.slice(after, end)
  // Of code within a line, not of a fence.
  if (character === '`' && rest.includes('`')) return undefined
  return { start, end: after, length: after - start, bare: rest.trim() === '' }
}

/** Every place to cut at, in order; the ends and beginnings of parts are then no white space but for an indentation. */
function cutsOf(
  text: string,
  { start, length }: Span,
  fences: readonly Fence[],
  { isSmall, joined }: { isSmall: (span: [number, number]) => boolean; joined: (at: number) => boolean },
): Cut[] {
  const cuts: Cut[] = []
  let nth = 0
  for (let i = start; i < length; ) {
    let fence = fences[nth]
    while (fence && i >= fence.end) fence = fences[++nth]
    if (fence && i >= fence.start) {
      // Inside code only a line end is a cut, and the lines after keep their indentation.
      const from = fence.bodyStart === undefined ? fence.end : Math.max(i, fence.bodyStart + 1)
      const newline = text.indexOf('\n', from)
      if (newline >= 0 && newline < fence.bodyEnd)
        cuts.push({ end: newline, next: newline + 1, rank: 1, fence })
      i = newline >= 0 && newline < fence.bodyEnd ? newline + 1 : fence.end
    } else if (isSpace(text.charCodeAt(i))) {
      let lines = 0
      let lineStart = i
      let next = i
      for (; next < length && isSpace(text.charCodeAt(next)); next++) {
        if (text.charCodeAt(next) !== 0x0a) continue
        lines++
        lineStart = next + 1
      }
      // The last one may bear an accent: it belongs to the part after.
      const after = joined(next) ? next - 1 : next
      const rank = lines > 1 ? 0 : lines === 1 ? 1 : 3
      const indented = rank === 1 && after !== fence?.start && isSmall([lineStart, after])
      if (after > i) cuts.push({ end: i, next: indented ? lineStart : after, rank })
      i = next
    } else {
      i++
      if (!sentenceEnds.has(text.charAt(i - 1)) || i >= length || closers.has(text.charAt(i))) continue
      if (!isSpace(text.charCodeAt(i)) && !joined(i)) cuts.push({ end: i, next: i, rank: 2 })
    }
  }
  return cuts
}

const sentenceEnds = new Set('。！？…')
/** What belongs to the sentence before it. */
const closers = new Set('。！？…”』」）')

/** White space as `trim` has it. */
const isSpace = (code: number) =>
  (code >= 9 && code <= 13) || code === 0x20 || (code >= 0xa0 && String.fromCharCode(code).trim() === '')

/** The last number below `count` that passes, of which those that pass come first; -1 for none. */
function lastNumber(count: number, passes: (number: number) => boolean): number {
  let low = 0
  let high = count
  while (low < high) {
    const middle = (low + high) >> 1
    if (passes(middle)) low = middle + 1
    else high = middle
  }
  return low - 1
}

/** The last index of an item that passes, in the same way. */
const lastIndex = <T>(items: readonly T[], passes: (item: T) => boolean): number =>
  lastNumber(items.length, i => {
    const item = items[i]
    return item !== undefined && passes(item)
  })

/** Where the characters of the text end, as a reader sees them. Their tables are 1 ms to load, so not at a start. */
function charactersOf(text: string) {
  const characters = new Intl.Segmenter(undefined, { granularity: 'grapheme' })
  return {
    /** Whether the code units on both sides are parts of one character: an accent may follow a space. */
    joined: (at: number): boolean =>
      text.charCodeAt(at) >= 0x300 &&
      characters.segment(text.slice(at - 1, at + 2)).containing(1)?.index === 0,
    /** The last place in (from, to] where no character is cut. */
    lastEnd(from: number, to: number): number {
      const end = from + (characters.segment(text.slice(from, to + 2)).containing(to - from)?.index ?? 0)
      if (end > from) return end
      // One endless cluster: at least no surrogate pair is cut.
      return isLow(text.charCodeAt(to)) && isHigh(text.charCodeAt(to - 1)) && to - 1 > from ? to - 1 : to
    },
  }
}
