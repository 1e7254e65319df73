/** Writes the text of an answer: keeps indentation, and notes where it may be cut. */
import { type Page, type Rank, ranks, type Stretch } from './cuts.ts'

export class PageWriter {
  #text = ''
  #breaks = new Map<number, Rank>()
  #wholes: Stretch[] = []
  /** What lines begin with: indentation and quote marks. */
  #prefix = ''
  /** The line end that the next text needs. */
  #gap: { lines: number; rank: Rank } | undefined
  /** What follows belongs to what was written, a mark of a list or a heading: no wider gap comes between. */
  #isBound = false
  /** An address ends here. */
  #isAddress = false

  /** Sets how many line ends come before the next text. If it is called again before that text, the larger number counts. */
  end(lines: 1 | 2, rank: Rank): void {
    if (this.#isBound) return
    const gap = this.#gap
    this.#gap = gap && gap.lines > lines ? gap : { lines, rank: gap && gap.rank < rank ? gap.rank : rank }
  }

  /** Lets the next text begin in the next line: what was written is its heading. */
  endHeading(): void {
    this.end(1, ranks.space)
    this.#isBound = true
  }

  write(given: string): void {
    const text = this.#text === '' ? given.trimStart() : given
    if (text === '') return
    this.#open()
    if (this.#isAddress && addressCharacter.test(text)) this.#text += ' '
    this.#isAddress = false
    const [first = '', ...lines] = text.split('\n')
    this.#text += first
    for (const line of lines) {
      this.#text += '\n'
      if (line !== '') this.#begin()
      this.#text += line
    }
  }

  /** Writes lines as they are, without what lines begin with here. They are not cut if they fit into a message. */
  writeLines(lines: readonly string[]): void {
    this.#isBound = false
    this.end(1, this.#gap?.rank ?? ranks.line)
    const prefix = this.#prefix
    this.#prefix = ''
    this.keepWhole(() => this.write(lines.join('\n')))
    this.#prefix = prefix
  }

  /** What `write` writes is not cut, if it fits into a message. */
  keepWhole(write: () => void): void {
    this.#open()
    const start = this.#text.length
    write()
    // A picture inside begins a new page.
    if (this.#text.length > start) this.#wholes.push({ start, end: this.#text.length })
  }

  writeAddress(address: string): void {
    this.write(address)
    this.#isAddress = true
  }

  /** Writes the mark of a list. */
  mark(text: string): void {
    this.write(text)
    this.#wholes.push({ start: this.#text.length - text.length, end: this.#text.length + 1 })
    this.#isBound = true
  }

  /** Lets the lines that `write` writes begin with more. */
  indent(prefix: string, write: () => void): void {
    const before = this.#prefix
    this.#prefix = before + prefix
    write()
    this.#prefix = before
    this.#isBound = false
  }

  /** Ends the page. @returns undefined if nothing is on it */
  take(): Page | undefined {
    const page = { text: this.#text.trimEnd(), breaks: this.#breaks, wholes: this.#wholes }
    this.#text = ''
    this.#breaks = new Map()
    this.#wholes = []
    this.#gap = undefined
    this.#isAddress = false
    this.#isBound = false
    return page.text === '' ? undefined : page
  }

  #open(): void {
    const gap = this.#gap
    this.#gap = undefined
    this.#isBound = false
    if (this.#text !== '') {
      if (!gap) return
      this.#text += '\n'.repeat(gap.lines)
      this.#isAddress = false
      this.#breaks.set(this.#text.length, gap.rank)
    }
    this.#begin()
  }

  /** Begins a line. It is not cut between its prefix and its first character. */
  #begin(): void {
    if (this.#prefix === '') return
    const start = this.#text.length
    this.#text += this.#prefix
    this.#wholes.push({ start, end: this.#text.length + 1 })
  }
}

/** What would become a part of the address before it. */
const addressCharacter = /^[\w/%&=#?+~@-]/
