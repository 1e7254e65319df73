/** Writes the text of an answer, and notes where it may be cut. */
import { type Page, type Rank, ranks, type Stretch } from './cuts.ts'

export class PageWriter {
  #text = ''
  #breaks = new Map<number, Rank>()
  #wholes: Stretch[] = []
  /** The line ends that are written before the next text. */
  #gap: { lines: number; rank: Rank } | undefined
  /** The next text belongs to the heading that was written: no wider gap comes between them. */
  #isBound = false
  /** Whether an address was just written. */
  #isAddress = false

  /** Sets how many line ends come before the next text. If it is called again before that text, the larger number counts. */
  end(lines: number, rank: Rank): void {
    if (this.#isBound) return
    const gap = this.#gap
    this.#gap = gap && gap.lines > lines ? gap : { lines, rank: gap && gap.rank < rank ? gap.rank : rank }
  }

  /** Makes the next text begin in the next line: the text so far is its heading. */
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
    this.#text += text
  }

  /** Begins a line with white space and marks, which are never cut from its first character. */
  begin(lead: string): void {
    this.#open()
    if (lead === '') return
    const start = this.#text.length
    this.#text += lead
    this.#wholes.push({ start, end: this.#text.length + 1 })
  }

  /** Writes lines that are not cut if they fit into a message. */
  writeLines(lines: readonly string[]): void {
    this.#isBound = false
    this.end(1, this.#gap?.rank ?? ranks.line)
    this.keepWhole(() => this.write(lines.join('\n')))
  }

  /** Text that `write` writes is not cut, if it fits into a message. */
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
    if (this.#text === '' || !gap) return
    this.#text += '\n'.repeat(gap.lines)
    this.#isAddress = false
    this.#breaks.set(this.#text.length, gap.rank)
  }
}

/** Characters that WeChat would take for a part of the address before them. */
const addressCharacter = /^[\w/%&=#?+~@-]/
