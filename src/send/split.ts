/**
 * A long text as the fewest parts that upstream takes.
 *
 * Each part costs one of about ten answers, so the count comes first; among the cuts that keep it smallest, the
 * kindest to a reader wins: paragraph, line, row of a table, sentence, space. A character (as a reader sees it) is never
 * cut, nor an address that fits into a part. A code fence is cut only when it alone is too long, and then closed and
 * opened again; a table that is cut has its header in each part: so every part renders.
 *
 * The text comes from callers: it is read once from its beginning to its end, and the places to cut are found from what
 * was noted there, so time and memory grow with its length alone.
 */
import { addressesOf } from './addresses.ts'
import { type Block, type Bytes, blocksOf, isSpace, type Span } from './blocks.ts'

/** UTF-8 bytes that one text item may have (protocol notes 5.3). */
export const textLimitBytes = 16_384

/** A place where a part may end. */
interface Cut {
  /** Code unit where the part before ends. */
  end: number
  /** Code unit where the part after begins; what stands between is white space and falls away. */
  next: number
  rank: number
  /** It is cut in two here. */
  block?: Block
  /** Not at a line end of the block. */
  inLine?: boolean
}

/** How kind a cut is; the lowest is the kindest. */
const ranks = { paragraph: 0, line: 1, row: 2, sentence: 3, space: 4, anywhere: 5 }

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
  const span = { start: text.length - text.trimStart().length, end: text.trimEnd().length }
  if (span.start >= span.end) return []
  const blocks = blocksOf(text, span, bytes, limit)
  const split = (blocks: readonly Block[]) =>
    partsOf(text, span, reachOf(text, span, { bytes, limit, blocks }), most)
  const isTable = ({ kind }: Block) => kind === 'table'
  // Headers that are repeated are no reason to refuse a text that could go without.
  return split(blocks) ?? (blocks.some(isTable) ? split(blocks.filter(block => !isTable(block))) : undefined)
}

function partsOf(text: string, span: Span, reach: Reach, most: number): string[] | undefined {
  const { isLast, cutOfRank, farthest } = reach
  /** How many parts the rest needs; more than `most` are not counted. */
  const needed = (from: Cut, most: number) => {
    let count = 1
    for (let at = from; count <= most && !isLast(at); count++) at = farthest(at)
    return count
  }

  let from: Cut = { end: span.start, next: span.start, rank: ranks.anywhere }
  const count = needed(from, most)
  if (count > most) return undefined
  const parts: string[] = []
  const add = (to: Cut) => {
    const opened = from.block ? `${from.block.before}\n${from.inLine ? from.block.lead : ''}` : ''
    const closed = to.block?.after ? `\n${to.block.after}` : ''
    parts.push(opened + text.slice(from.next, to.end) + closed)
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
  add({ end: span.end, next: span.end, rank: ranks.anywhere })
  return parts
}

interface Measures {
  bytes: Bytes
  limit: number
  blocks: readonly Block[]
}
type Reach = ReturnType<typeof reachOf>

/** How far a part reaches that begins at a cut. */
function reachOf(text: string, span: Span, { bytes, limit, blocks }: Measures) {
  const addresses = addressesOf(text, span, ({ start, end }) => bytes(start, end) <= limit)
  const { joined, lastEnd } = charactersOf(text)
  const isSmall = ({ start, end }: Span) => bytes(start, end) * 4 <= limit
  const cuts = cutsOf(text, span, { blocks, addresses, isSmall, joined })
  /** Bytes left for a part's own text when it begins at `from`. */
  const room = ({ block, inLine }: Cut) =>
    limit - (block ? block.openingBytes + (inLine ? block.lead.length : 0) : 0)
  const isLast = (from: Cut) => bytes(from.next, span.end) <= room(from)
  /** The best cut of `rank`, or a better one, as far from `from` as a part reaches. */
  const cutOfRank = (from: Cut, rank: number): Cut | undefined => {
    const reached = lastIndex(
      cuts,
      ({ end, block }) => bytes(from.next, end) + (block?.closingBytes ?? 0) <= room(from),
    )
    for (let i = reached; i >= 0; i--) {
      const cut = cuts[i]
      if (!cut || cut.end <= from.next) return undefined
      if (cut.rank <= rank) return cut
    }
    return undefined
  }
  /** Where nothing else is in reach: between two characters, and before an address. */
  const hardCut = (from: Cut): Cut => {
    const reach = (size: number) => lastNumber(span.end + 1, i => bytes(from.next, i) <= size)
    const far = reach(room(from))
    const nearest = blocks[lastIndex(blocks, block => block.start < far)]
    const block = nearest && far < nearest.end ? nearest : undefined
    let end = lastEnd(from.next, block ? reach(room(from) - block.closingBytes) : far)
    const address = addresses[lastIndex(addresses, ({ start }) => start < end)]
    if (address && end < address.end && address.start > from.next) end = address.start
    return { end, next: end, rank: ranks.anywhere, ...(block && { block, inLine: true }) }
  }
  const farthest = (from: Cut): Cut => cutOfRank(from, ranks.anywhere) ?? hardCut(from)
  return { isLast, cutOfRank, farthest }
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

interface Found {
  blocks: readonly Block[]
  addresses: readonly Span[]
  isSmall(span: Span): boolean
  joined(at: number): boolean
}

/** Every place to cut at, in order; the ends and beginnings of parts are then no white space but for an indentation. */
function cutsOf(text: string, { start, end: length }: Span, found: Found): Cut[] {
  const { isSmall, joined } = found
  const cuts: Cut[] = []
  const blocks = walk(found.blocks)
  const addresses = walk(found.addresses)
  for (let i = start; i < length; ) {
    const block = blocks(i)
    const address = addresses(i)
    if (block && i >= block.start) {
      // Inside a block only a line end is a cut, and the lines after keep their indentation.
      const { body } = block
      const from = body ? Math.max(i, body.start + 1) : i
      const newline = body ? text.indexOf('\n', from) : -1
      const isCut = body !== undefined && newline >= 0 && newline < body.end
      const rank = block.kind === 'table' ? ranks.row : ranks.line
      if (isCut) cuts.push({ end: lineEnd(text, from, newline), next: newline + 1, rank, block })
      i = isCut ? newline + 1 : block.end
    } else if (address && i >= address.start) i = address.end
    else if (isSpace(text.charCodeAt(i))) {
      const stop = block ? block.start : length
      let lines = 0
      let lineStart = i
      let next = i
      for (; next < stop && isSpace(text.charCodeAt(next)); next++) {
        if (text.charCodeAt(next) !== 0x0a) continue
        lines++
        lineStart = next + 1
      }
      // The last one may bear an accent: it belongs to the part after.
      const after = next < stop && joined(next) ? next - 1 : next
      const rank = lines > 1 ? ranks.paragraph : lines === 1 ? ranks.line : ranks.space
      const indented = rank === ranks.line && isSmall({ start: lineStart, end: after })
      if (after > i) cuts.push({ end: i, next: indented ? lineStart : after, rank })
      i = next
    } else {
      i++
      if (!sentenceEnds.has(text.charAt(i - 1)) || i >= length || closers.has(text.charAt(i))) continue
      if (!isSpace(text.charCodeAt(i)) && !joined(i)) cuts.push({ end: i, next: i, rank: ranks.sentence })
    }
  }
  return cuts
}

/** Where the white space begins that ends a line. */
function lineEnd(text: string, from: number, newline: number): number {
  let end = newline
  while (end > from && text.charCodeAt(end - 1) !== 0x0a && isSpace(text.charCodeAt(end - 1))) end--
  return end
}

/** Gives, for places that only rise, the first span that ends behind the place. */
function walk<S extends Span>(spans: readonly S[]): (at: number) => S | undefined {
  let nth = 0
  return at => {
    for (let span = spans[nth]; span && at >= span.end; span = spans[nth]) nth++
    return spans[nth]
  }
}

const sentenceEnds = new Set('。！？…')
/** What belongs to the sentence before it. */
const closers = new Set('。！？…”』」）')

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
