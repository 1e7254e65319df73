/**
 * Reads what is certainly Markdown in a text; everything else stays as it was written. Takes time linear in its
 * length. Besides Markdown, agents write names such as `__init__`, ranges such as 5~10, sums, logs and settings, and
 * repeat what strangers wrote. So every line keeps its marks of quotes and lists, and some marks count only if the
 * text also has marks that can mean nothing else.
 */
import type { Token } from 'marked'
import { InlineReader } from './inline.ts'

/** A table with more columns is not read. */
const mostColumns = 30

export interface Cell {
  readonly text: string
  readonly tokens: Token[]
}

export type AnswerBlock = {
  /** Empty lines before it. */
  readonly gap: number
} & (
  | { readonly kind: 'line'; readonly lead: string; readonly isItem: boolean; readonly tokens: Token[] }
  | { readonly kind: 'heading'; readonly lead: string; readonly tokens: Token[] }
  | { readonly kind: 'code'; readonly language: string; readonly text: string }
  | { readonly kind: 'table'; readonly header: Cell[]; readonly rows: Cell[][] }
)

export interface Markdown {
  readonly blocks: AnswerBlock[]
  /** Whether something in the text can only be Markdown: then single stars are emphasis too. */
  readonly isSure: boolean
}

export const readMarkdown = (text: string): Markdown => new Reader(text.split('\n')).read()

/** White space and quote marks. */
const quotePattern = /^[^\S\n]*(?:>[^\S\n]*)*/
/** A line that is a quote: `> 5` may be a number, and `>>> x` a prompt. */
const sureQuotePattern = /^ {0,3}(?:> )+[*_"'“‘「『《【(（[]{0,3}\p{L}/u
/** A line of npm about what it runs. */
const npmPattern = /^> \S+@\d/
/** The mark of a list, and its check box. */
const itemPattern = /^((?<bullet>[-*])|\d{1,9}[.)])(?<space>[^\S\n]+)(?:\[(?<box>[ xX])\][^\S\n]+)?(?=\S)/
const headingPattern = /^(?<lead> {0,3}(?:> ?)*)(?<marks>#{1,6}[ \t]+)(?=[^\s#])/
const fencePattern = /^(?<fence>`{3,}(?=[^`]*$)|~{3,}(?=[^~`\s]*$))(?<language>.*)$/
const rulePattern = /^(?:(?:-[ \t]*){3,}|___|\*[ \t]*\*[ \t]*\*)$/
const delimiterPattern = /^(?:\||(?=[^|]*-{3}))[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?$/

class Reader {
  readonly #lines: readonly string[]
  readonly #inline = new InlineReader()
  readonly #blocks: { readonly plain: AnswerBlock; readonly surely?: readonly AnswerBlock[] }[] = []
  #isSure = false
  #at = 0
  #gap = 0
  /** From here on, no line closes a fence of this many tildes or more. */
  #openTildes = Number.POSITIVE_INFINITY
  /** The lines with quote marks that were looked at last. */
  #quote = { end: 0, isSure: false }

  constructor(lines: readonly string[]) {
    this.#lines = lines
  }

  read(): Markdown {
    for (; this.#at < this.#lines.length; this.#at++) {
      const line = this.#lines[this.#at]!
      if (line.trim() === '') this.#gap += 1
      else if (!this.#readFence(line) && !this.#readTable() && !this.#readHeading(line)) this.#readLine(line)
    }
    const isSure = this.#isSure || this.#inline.hasFound
    const blocks = this.#blocks.flatMap(({ plain, surely }) => (isSure && surely) || [plain])
    return { blocks, isSure }
  }

  /** @param surely the block to add instead if the text is certainly Markdown */
  #add(plain: AnswerBlock, surely?: readonly AnswerBlock[]): void {
    this.#blocks.push({ plain, ...(surely && { surely }) })
    this.#gap = 0
  }

  #readLine(line: string): void {
    const [marks] = quotePattern.exec(line)!
    const item = itemPattern.exec(line.slice(marks.length))
    const { box, bullet, space = '' } = item?.groups ?? {}
    const quote = this.#isSureQuote() ? marks.replace(/>[^\S\n]?/g, '▎') : marks
    const lead = quote + (item?.[0] ?? '')
    const tokens = this.#inline.read(line.slice(marks.length + (item?.[0] ?? '').length), item !== null)
    const block = { kind: 'line', gap: this.#gap, lead, isItem: item !== null, tokens } as const
    if (rulePattern.test(line.trim())) {
      // Beside other lines, a line of dashes may underline, end a sum, or be part of a drawing.
      const isApart = (this.#gap > 0 || this.#at === 0) && !this.#lines[this.#at + 1]?.trim()
      this.#add(block, isApart ? [] : undefined)
    } else if (box !== undefined) {
      this.#isSure = true
      const mark = bullet === undefined ? item![1] + space : ''
      this.#add({ ...block, lead: `${quote}${mark}${box === ' ' ? '☐' : '☑'} ` })
    } else if (bullet === undefined) this.#add(block)
    else this.#add(block, [{ ...block, lead: `${quote}•${space}` }])
  }

  /** Whether the line is a quote, or stands among lines that are. */
  #isSureQuote(): boolean {
    const isMarked = (at: number) => this.#lines[at]?.trimStart().startsWith('>') === true
    if (!isMarked(this.#at)) return false
    if (this.#at >= this.#quote.end) {
      let end = this.#at
      while (isMarked(end)) end++
      const lines = this.#lines.slice(this.#at, end)
      const isSure = lines.some(line => sureQuotePattern.test(line))
      this.#quote = { end, isSure: isSure && !lines.some(line => npmPattern.test(line)) }
    }
    return this.#quote.isSure
  }

  #readHeading(line: string): boolean {
    const { lead, marks } = headingPattern.exec(line)?.groups ?? {}
    if (lead === undefined || marks === undefined) return false
    const before = lead + marks
    const tokens = this.#inline.read(line.slice(before.length).trimEnd())
    // A single mark does not count: it may begin a comment.
    if (marks.trim().length > 1) this.#isSure = true
    const plain = { kind: 'line', gap: this.#gap, lead: before, isItem: false, tokens } as const
    this.#add(plain, [{ kind: 'heading', gap: this.#gap, lead, tokens }])
    return true
  }

  #readFence(line: string): boolean {
    const [quote] = quotePattern.exec(line)!
    const [item = ''] = itemPattern.exec(line.slice(quote.length)) ?? []
    const lead = quote + item
    const { fence, language = '' } = fencePattern.exec(line.slice(lead.length))?.groups ?? {}
    if (fence === undefined) return false
    const end = this.#findFenceEnd(fence)
    // A line of tildes that nothing closes may be the end of a sentence.
    if (end === undefined && fence.startsWith('~')) return false
    this.#isSure = true
    if (item) this.#add({ kind: 'line', gap: this.#gap, lead: lead.trimEnd(), isItem: true, tokens: [] })
    const text = this.#lines
      .slice(this.#at + 1, end)
      .map(one => withoutLead(one, lead))
      .join('\n')
    this.#add({ kind: 'code', gap: this.#gap, language: language.trim(), text })
    this.#at = end ?? this.#lines.length
    return true
  }

  /** Returns the line that closes a fence. */
  #findFenceEnd(fence: string): number | undefined {
    const [mark = ''] = fence
    if (mark === '~' && fence.length >= this.#openTildes) return undefined
    for (let at = this.#at + 1; at < this.#lines.length; at++) {
      const line = this.#lines[at]!.replace(quotePattern, '').trimEnd()
      if (line.length >= fence.length && line === mark.repeat(line.length)) return at
    }
    if (mark === '~') this.#openTildes = fence.length
    return undefined
  }

  #readTable(): boolean {
    const [header = '', delimiter = ''] = this.#lines.slice(this.#at, this.#at + 2)
    if (!header.includes('|') || !delimiter.includes('|')) return false
    const [lead] = quotePattern.exec(header)!
    const toRow = (line: string) => withoutLead(line, lead).trim()
    if (!delimiterPattern.test(toRow(delimiter))) return false
    const columns = splitCells(toRow(header)).length
    if (columns > mostColumns || columns !== splitCells(toRow(delimiter)).length) return false
    const isRow = (line = '') =>
      line.includes('|') && (!toRow(header).startsWith('|') || toRow(line).startsWith('|'))
    let end = this.#at + 2
    while (isRow(this.#lines[end])) end++
    const lines = [header, ...this.#lines.slice(this.#at + 2, end)]
    const rows = lines.map(line => splitCells(toRow(line)))
    // Some rows have a | in a cell, and it is not clear where the cell ends. Then the table stays as it was written.
    if (rows.some(({ length }) => length > columns)) {
      for (; this.#at < end; this.#at++) this.#readLine(this.#lines[this.#at]!)
      this.#at = end - 1
      return true
    }
    this.#isSure = true
    const [first = [], ...others] = rows.map(row =>
      Array.from({ length: columns }, (_, nth) => ({
        text: row[nth] ?? '',
        tokens: this.#inline.read(row[nth] ?? ''),
      })),
    )
    this.#add({ kind: 'table', gap: this.#gap, header: first, rows: others })
    this.#at = end - 1
    return true
  }
}

/** Removes the quote marks and the indentation of a lead from a line, as far as it has them. */
function withoutLead(line: string, lead: string): string {
  const quotes = lead.split('>').length - 1
  let rest = line
  for (let nth = 0; nth < quotes; nth++) rest = rest.replace(/^\s*>\s?/, '')
  // The space after a quote mark belongs to it.
  const { length: indent } = lead.slice(lead.lastIndexOf('>') + 1).replace(quotes > 0 ? /^\s/ : '', '')
  return rest.slice(Math.min(rest.length - rest.trimStart().length, indent))
}

const splitCells = (row: string): string[] =>
  row
    .replace(/^\||(?<!\\)\|$/g, '')
    .split(/(?<!\\)\|/)
    .map(cell => cell.trim().replaceAll('\\|', '|'))
