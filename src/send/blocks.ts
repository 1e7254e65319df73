/**
 * Finds the parts of a Markdown text that a cut would break: code fences and tables (CommonMark and GFM),
 * also inside quotes and lists.
 *
 * The text comes from callers. Each line is read a fixed number of times, so the time is linear in its
 * length.
 */

/** A range of the text, in UTF-16 code units; `end` is exclusive. */
export interface Span {
  start: number
  end: number
}

/** A code fence or a table. It starts at the start of its first line. */
export interface Block extends Span {
  kind: 'fence' | 'table'
  /** Lines to repeat in a part that begins inside the block: the opening line, or header and separator. */
  before: string
  /** Line that closes a part that ends inside the block; '' for none. */
  after: string
  /** The `>` to repeat before the rest of a line that was cut. */
  lead: string
  /** Bytes that `before` adds to a part. `closingBytes` is the same for `after`. */
  openingBytes: number
  closingBytes: number
  /** Line ends inside this span may be cut at. Absent if the block fits into a part and stays whole. */
  body?: Span
}

/** Returns the number of UTF-8 bytes between two code units. */
export type ByteCounter = (from: number, to: number) => number

const encoder = new TextEncoder()
const bytesOf = (text: string): number => encoder.encode(text).length

interface Line extends Span {
  /** Start of the content, after `>`, list markers and white space. */
  at: number
  /** Number of `>` before the content. */
  quotes: number
  /** Columns of white space before the content. */
  indent: number
  /** Column of the content of the list item that starts on this line, counted from the last `>`. */
  item?: number
}

/** A block whose end is not known yet. */
type OpenBlock = Omit<Block, 'openingBytes' | 'closingBytes' | 'body'> & { body: Span }
type OpenFence = OpenBlock & { mark: string; quotes: number; column: number }

/**
 * Finds the fences and tables inside a span, in order. Leaves out blocks whose repeated lines would take
 * more than half of a part.
 */
export function findBlocks(
  text: string,
  { start, end: textEnd }: Span,
  bytes: ByteCounter,
  limit: number,
): Block[] {
  const found: Block[] = []
  let fence: OpenFence | undefined
  let table: OpenBlock | undefined
  let above: Line | undefined
  /** Content column of the innermost list item, and the number of quote marks around it. */
  let [column, quotes] = [0, 0]

  const add = ({ body, ...begun }: OpenBlock) => {
    const openingBytes = bytesOf(begun.before) + 1
    const closingBytes = begun.after === '' ? 0 : bytesOf(begun.after) + 1
    const whole = { ...begun, openingBytes, closingBytes }
    const fits = bytes(begun.start, begun.end) <= limit
    const canRepeat = (openingBytes + closingBytes) * 2 <= limit
    if (canRepeat && (begun.kind === 'table' || !fits)) found.push({ ...whole, body })
    else if (fits) found.push(whole)
  }
  const closeFence = (end: number, bodyEnd: number) => {
    if (!fence) return
    const { mark, quotes, column, ...begun } = fence
    add({ ...begun, end, body: { start: begun.body.start, end: bodyEnd } })
    fence = undefined
  }
  const closeTable = () => {
    if (table) add(table)
    table = undefined
  }

  for (let from = start; from < textEnd; ) {
    const newline = text.indexOf('\n', from)
    const end = newline < 0 || newline > textEnd ? textEnd : newline
    if (fence) {
      const line = parseLine(text, from, end, fence.quotes)
      const mark = fenceMarkAt(text, line)
      // A line with fewer quote marks is outside the quote, so it also ends the fence in it.
      if (line.quotes < fence.quotes) closeFence(from - 1, from - 1)
      else if (mark && closesFence(text, line, mark, fence)) {
        closeFence(line.at + mark.length, from - 1)
        above = undefined
        from = end + 1
        continue
      }
    }
    if (!fence) {
      const line = parseLine(text, from, end)
      const isBlank = line.at >= end
      if (line.quotes !== quotes) [column, quotes] = [0, line.quotes]
      if (line.item !== undefined) column = line.item
      else if (!isBlank && !above) column = Math.min(column, line.indent)
      const isCode = line.item === undefined && line.indent > column + 3
      const mark = isCode ? undefined : fenceMarkAt(text, line)
      if (mark || isBlank || line.quotes !== above?.quotes || endsTable(text, line)) closeTable()
      if (mark) fence = createFence(text, line, mark, column)
      else if (table) table.end = table.body.end = line.at + contentOf(text, line).length
      else if (above && !isCode) table = parseTable(text, above, line)
      above = isBlank || isCode || mark ? undefined : line
    }
    from = end + 1
  }
  closeTable()
  closeFence(textEnd, textEnd)
  return found
}

/**
 * Parses a line of the text, without its line end.
 *
 * @param most maximum of quote marks inside a fence; further ones are code
 */
function parseLine(text: string, start: number, end: number, most?: number): Line {
  let [at, quotes, column] = [start, 0, 0]
  let item: number | undefined
  for (let isItem = false; ; ) {
    const before = column
    for (; at < end && isBlankCode(text.charCodeAt(at)); at++)
      column += text.charCodeAt(at) === tab ? 4 - (column % 4) : 1
    if (isItem) item = column
    isItem = false
    const indent = column - before
    if (text.charCodeAt(at) === quoteMark && at < end && quotes < (most ?? Number.POSITIVE_INFINITY)) {
      quotes++
      at++
      if (text.charCodeAt(at) === space) at++
      column = 0
      item = undefined
      continue
    }
    const marker = most === undefined && at < end ? listMarkerLength(text, at) : 0
    if (marker === 0) return { start, end, at, quotes, indent, ...(item !== undefined && { item }) }
    at += marker
    column += marker
    isItem = true
  }
}

const [tab, space, quoteMark] = [0x09, 0x20, 0x3e]
const isBlankCode = (code: number) => code === space || code === tab || code === 0x0d

const listMarker = /(?:[-*+]|\d{1,9}[.)])(?=[ \t])/y
function listMarkerLength(text: string, at: number): number {
  listMarker.lastIndex = at
  return listMarker.exec(text)?.[0].length ?? 0
}

/** Returns the text before the content of a line. List markers become spaces of the same width. */
const leadOf = (text: string, { start, at }: Line): string => text.slice(start, at).replace(/[^>\s]/g, ' ')

const contentOf = (text: string, { at, end }: Line): string => text.slice(at, end).trimEnd()

/** Returns the part of a lead to repeat before the rest of a cut line: quote marks, and nothing else. */
const quoteMarksOf = (lead: string): string => (lead.includes('>') ? lead : '')

/** Returns the fence mark that the line begins with. */
function fenceMarkAt(text: string, { at, end }: Line): string | undefined {
  const character = text[at]
  if (at >= end || (character !== '`' && character !== '~')) return undefined
  let after = at
  while (after < end && text[after] === character) after++
  if (after - at < 3) return undefined
  // Inline code, not a fence.
  if (character === '`' && text.slice(after, end).includes('`')) return undefined
  return text.slice(at, after)
}

function createFence(text: string, line: Line, mark: string, column: number): OpenFence {
  const { start, end, quotes } = line
  const lead = leadOf(text, line)
  return {
    kind: 'fence',
    start,
    before: lead + contentOf(text, line),
    after: lead + mark,
    lead: quoteMarksOf(lead),
    end,
    body: { start: end, end },
    mark,
    quotes,
    column,
  }
}

const closesFence = (text: string, line: Line, mark: string, fence: OpenFence) =>
  mark.startsWith(fence.mark) && line.indent <= fence.column + 3 && contentOf(text, line) === mark

/** Returns whether a line that is not blank ends a table. */
const endsTable = (text: string, line: Line) =>
  line.item !== undefined || /^(?:#{1,6}[ \t]|([-*_])(?:[ \t]*\1){2}[ \t\r]*$)/.test(contentOf(text, line))

/**
 * Returns the table that begins with these two lines; undefined if they are not a header and a separator.
 */
function parseTable(text: string, header: Line, separator: Line): OpenBlock | undefined {
  if (separator.quotes !== header.quotes || separator.item !== undefined) return undefined
  const columns = countColumns(contentOf(text, separator))
  if (columns === 0 || countCells(contentOf(text, header)) !== columns) return undefined
  const lead = leadOf(text, header)
  const end = separator.end
  const rule = text.slice(separator.start, separator.at) + contentOf(text, separator)
  return {
    kind: 'table',
    start: header.start,
    end,
    before: `${lead}${contentOf(text, header)}\n${rule}`,
    after: '',
    lead: quoteMarksOf(lead),
    body: { start: end, end },
  }
}

/** Returns the columns of a separator row like `|:--|--:|`; 0 for any other line. */
function countColumns(row: string): number {
  if (!/^[|:\- \t]*$/.test(row) || !row.includes('|')) return 0
  const cells = row.replace(/^\|/, '').replace(/\|$/, '').split('|')
  return cells.every(cell => /^:?-+:?$/.test(cell.trim())) ? cells.length : 0
}

/** Counts the cells of a row. An escaped pipe is text. */
function countCells(row: string): number {
  let pipes = 0
  let last = -1
  for (let at = 0; at < row.length; at++) {
    if (row[at] === '\\') at++
    else if (row[at] === '|') {
      pipes++
      last = at
    }
  }
  const outer = (row.startsWith('|') ? 1 : 0) + (last > 0 && last === row.length - 1 ? 1 : 0)
  return pipes - outer + 1
}

/** White space as defined by `String.trim`. */
export const isSpace = (code: number): boolean =>
  (code >= 9 && code <= 13) || code === space || (code >= 0xa0 && String.fromCharCode(code).trim() === '')
