/**
 * Splits a long text into the fewest parts that WeChat accepts.
 *
 * Each part costs one of about ten answers, so the number of parts matters most. Among the cuts that keep
 * it smallest, the best for a reader is chosen: paragraph, line, row of a table, sentence, space. A
 * character (as a reader sees it) is never cut, nor is an address that fits into a part. A code fence is
 * cut only if it alone is too long; it is then closed and opened again. A table that is cut has its header
 * in each part. So every part renders.
 *
 * The text comes from callers. It is read once, and cuts are found from what was noted then, so time and
 * memory are linear in its length.
 */

import { isVisible } from '../platform/escape-controls.ts'
import { findAddresses } from './addresses.ts'
import { type Block, type ByteCounter, findBlocks, isSpace, type Span } from './blocks.ts'

/** Maximum UTF-8 bytes of one text item (protocol notes 5.3). */
export const textLimitBytes = 16_384

/** A position where a part may end. */
interface Cut {
  /** Code unit where the part before it ends. */
  end: number
  /** Code unit where the part after it begins. White space between `end` and `next` is dropped. */
  next: number
  rank: number
  /** The block that is cut in two here. */
  block?: Block
  /** Whether the cut is inside a line of the block. */
  inLine?: boolean
}

/** Quality of a cut for the reader; the lowest is the best. */
const ranks = { paragraph: 0, line: 1, row: 2, sentence: 3, space: 4, anywhere: 5 }

/**
 * Splits `text` into the fewest parts of at most `limit` UTF-8 bytes.
 *
 * @param limit at least 8
 * @param most maximum number of parts
 * @returns one part (the text itself) if it fits; never a part that shows nothing; undefined if it needs
 *   more than `most` parts
 */
export function splitText(text: string, limit: number, most: number): string[] | undefined {
  const bytes = createByteCounter(text)
  if (bytes(0, text.length) <= limit) return isVisible(text) ? [text] : []
  // White space at a cut is dropped, and so is white space at both ends.
  const span = { start: text.length - text.trimStart().length, end: text.trimEnd().length }
  if (span.start >= span.end) return []
  const blocks = findBlocks(text, span, bytes, limit)
  const split = (blocks: readonly Block[]) =>
    chooseParts(text, span, createCutFinder(text, span, { bytes, limit, blocks }), most)
  const isTable = ({ kind }: Block) => kind === 'table'
  // If the repeated headers make too many parts, split without repeating them.
  const parts =
    split(blocks) ?? (blocks.some(isTable) ? split(blocks.filter(block => !isTable(block))) : undefined)
  return parts?.filter(isVisible)
}

function chooseParts(text: string, span: Span, reach: CutFinder, most: number): string[] | undefined {
  const { isLast, cutOfRank, farthest } = reach
  /** Returns how many parts the rest needs. Stops counting above `most`. */
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
    const remaining = count - parts.length - 1
    let chosen = farthest(from)
    for (let rank = 0; rank < chosen.rank; rank++) {
      const betterCut = cutOfRank(from, rank)
      if (betterCut && needed(betterCut, remaining) <= remaining) chosen = betterCut
    }
    add(chosen)
  }
  add({ end: span.end, next: span.end, rank: ranks.anywhere })
  return parts
}

interface SplitLimits {
  bytes: ByteCounter
  limit: number
  blocks: readonly Block[]
}
type CutFinder = ReturnType<typeof createCutFinder>

/** Prepares how far a part that begins at a cut can reach. */
function createCutFinder(text: string, span: Span, { bytes, limit, blocks }: SplitLimits) {
  const addresses = findAddresses(text, span, ({ start, end }) => bytes(start, end) <= limit)
  const { joined, lastEnd } = charactersOf(text)
  const isSmall = ({ start, end }: Span) => bytes(start, end) * 4 <= limit
  const cuts = findCuts(text, span, { blocks, addresses, isSmall, joined })
  /** Returns the bytes left for a part's own text if it begins at `from`. */
  const capacityOf = ({ block, inLine }: Cut) =>
    limit - (block ? block.openingBytes + (inLine ? block.lead.length : 0) : 0)
  const isLast = (from: Cut) => bytes(from.next, span.end) <= capacityOf(from)
  /** Returns the farthest cut within one part from `from` whose rank is `rank` or better. */
  const cutOfRank = (from: Cut, rank: number): Cut | undefined => {
    const reached = findLastIndex(
      cuts,
      ({ end, block }) => bytes(from.next, end) + (block?.closingBytes ?? 0) <= capacityOf(from),
    )
    for (let i = reached; i >= 0; i--) {
      const cut = cuts[i]
      if (!cut || cut.end <= from.next) return undefined
      if (cut.rank <= rank) return cut
    }
    return undefined
  }
  /** Returns a cut between two characters, before an address, for when no other cut is in reach. */
  const hardCut = (from: Cut): Cut => {
    const reach = (size: number) => findLastNumber(span.end + 1, i => bytes(from.next, i) <= size)
    const far = reach(capacityOf(from))
    const nearest = blocks[findLastIndex(blocks, block => block.start < far)]
    const block = nearest && far < nearest.end ? nearest : undefined
    let end = lastEnd(from.next, block ? reach(capacityOf(from) - block.closingBytes) : far)
    const address = addresses[findLastIndex(addresses, ({ start }) => start < end)]
    if (address && end < address.end && address.start > from.next) end = address.start
    return { end, next: end, rank: ranks.anywhere, ...(block && { block, inLine: true }) }
  }
  const farthest = (from: Cut): Cut => cutOfRank(from, ranks.anywhere) ?? hardCut(from)
  return { isLast, cutOfRank, farthest }
}

/** Reads the text once, and counts the bytes before each code unit. */
function createByteCounter(text: string): ByteCounter {
  const offsets = new Uint32Array(text.length + 1)
  let sum = 0
  let before = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    const leads = isHigh(code) && isLow(text.charCodeAt(i + 1))
    const follows = isLow(code) && isHigh(before)
    // A surrogate pair is 4 bytes. 2 for each half keeps the sum right at every legal cut. A lone one
    // becomes U+FFFD.
    sum += code < 0x80 ? 1 : code < 0x800 || leads || follows ? 2 : 3
    offsets[i + 1] = sum
    before = code
  }
  return (from, to) => (offsets[to] ?? sum) - (offsets[from] ?? 0)
}

const isHigh = (code: number) => code >= 0xd800 && code < 0xdc00
const isLow = (code: number) => code >= 0xdc00 && code < 0xe000

interface TextStructure {
  blocks: readonly Block[]
  addresses: readonly Span[]
  isSmall(span: Span): boolean
  joined(at: number): boolean
}

/**
 * Returns every possible cut, in order. A part then begins and ends without white space, except
 * indentation.
 */
function findCuts(text: string, { start, end: length }: Span, found: TextStructure): Cut[] {
  const { isSmall, joined } = found
  const cuts: Cut[] = []
  const blocks = createSpanLookup(found.blocks)
  const addresses = createSpanLookup(found.addresses)
  for (let i = start; i < length; ) {
    const block = blocks(i)
    const address = addresses(i)
    if (block && i >= block.start) {
      // Inside a block only a line end is a cut, and the lines after it keep their indentation.
      const { body } = block
      const from = body ? Math.max(i, body.start + 1) : i
      const newline = body ? text.indexOf('\n', from) : -1
      const isCut = body !== undefined && newline >= 0 && newline < body.end
      const rank = block.kind === 'table' ? ranks.row : ranks.line
      if (isCut) cuts.push({ end: findLineEnd(text, from, newline), next: newline + 1, rank, block })
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
      // A combining accent may follow the last space, which then belongs to the next part.
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

/** Returns where the white space at the end of a line begins. */
function findLineEnd(text: string, from: number, newline: number): number {
  let end = newline
  while (end > from && text.charCodeAt(end - 1) !== 0x0a && isSpace(text.charCodeAt(end - 1))) end--
  return end
}

/** Returns a lookup for ascending positions: the first span that ends after the position. */
function createSpanLookup<S extends Span>(spans: readonly S[]): (at: number) => S | undefined {
  let nth = 0
  return at => {
    for (let span = spans[nth]; span && at >= span.end; span = spans[nth]) nth++
    return spans[nth]
  }
}

const sentenceEnds = new Set('。！？…')
/** Characters that belong to the sentence before them. */
const closers = new Set('。！？…”』」）')

/**
 * Binary search: the last number below `count` that passes; -1 for none. All numbers before it must pass
 * too.
 */
function findLastNumber(count: number, passes: (number: number) => boolean): number {
  let low = 0
  let high = count
  while (low < high) {
    const middle = (low + high) >> 1
    if (passes(middle)) low = middle + 1
    else high = middle
  }
  return low - 1
}

/** Binary search for the last item that passes, as `findLastNumber`. */
const findLastIndex = <T>(items: readonly T[], passes: (item: T) => boolean): number =>
  findLastNumber(items.length, i => {
    const item = items[i]
    return item !== undefined && passes(item)
  })

/**
 * Finds the borders of characters as a reader sees them. The segmenter takes 1 ms to load, so load it here.
 */
function charactersOf(text: string) {
  const characters = new Intl.Segmenter(undefined, { granularity: 'grapheme' })
  return {
    /**
     * Returns whether the code units on both sides belong to one character: an accent may follow a space.
     */
    joined: (at: number): boolean =>
      text.charCodeAt(at) >= 0x300 &&
      characters.segment(text.slice(at - 1, at + 2)).containing(1)?.index === 0,
    /** Returns the last position in (from, to] that cuts no character. */
    lastEnd(from: number, to: number): number {
      const end = from + (characters.segment(text.slice(from, to + 2)).containing(to - from)?.index ?? 0)
      if (end > from) return end
      // The character is too long and must be cut. Avoid cutting a surrogate pair.
      return isLow(text.charCodeAt(to)) && isHigh(text.charCodeAt(to - 1)) && to - 1 > from ? to - 1 : to
    },
  }
}
