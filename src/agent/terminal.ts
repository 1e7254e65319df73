/**
 * Turns output for a terminal into the text that it would show at the end. Takes time linear in its length. A line
 * that is written again, as progress bars do, keeps its last state, even if that is shorter than an earlier one.
 */

/**
 * The beginning of a text that a terminal does not show: a title, an address, a picture. Then its end, which may be
 * the end of the line.
 */
const opened = String.raw`(?:\x1b[\]PX^_k]|[\x90\x98\x9d-\x9f])`
const untilEnd = String.raw`(?:[^\x07\x18\x1a\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x18|\x1a|\x1b\\|\x9c)|[^\x07\x18\x1a\x1b\x90\x98\x9c-\x9f\n]*)`

/** The pieces of an output: sequences that a terminal obeys, other controls, and text. */
const pieces = new RegExp(
  [
    // A sequence that tmux passes on, with doubled escapes.
    String.raw`\x1bPtmux;(?:\x1b\x1b|[^\x1b])*\x1b\\`,
    // A colour of the Linux console, which has no end mark.
    String.raw`\x1b\]P[\da-fA-F]{7}|\x1b\]R`,
    opened + untilEnd,
    String.raw`(?:\x1b\[|\x9b)(?<numbers>[0-?]*)[ -/]*(?<act>[@-~]?)`,
    String.raw`\x1b[NO][ -~]|[\x8e\x8f][ -~]`,
    String.raw`\x1b[ -/]*(?<escaped>[0-~]?)`,
    String.raw`(?<control>[\x00-\x08\n-\x1a\x1c-\x1f\x7f-\x9f])`,
    String.raw`(?<text>[^\x00-\x08\n-\x1f\x7f-\x9f]+)`,
  ].join('|'),
  'gs',
)
// biome-ignore lint/suspicious/noControlCharactersInRegex: the expression looks for control characters
const controls = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/

/** Farthest column to which a sequence moves the cursor, and farthest step from a column beyond it. */
const farthest = 500
const farthestStep = 8

/** Returns the text without empty lines at its beginning and without white space at its end. */
export function toPlainText(printed: string): string {
  let text = printed
  if (controls.test(printed)) {
    const screen = new Screen()
    for (const { groups } of printed.matchAll(pieces)) screen.take(groups as Piece)
    text = screen.text
  }
  return text.replace(/^\ufeff?(?:[^\S\n]*\n)*/, '').trimEnd()
}

type Piece = Partial<Record<'numbers' | 'act' | 'escaped' | 'control' | 'text', string>>

class Screen {
  /** The characters of each line. */
  #lines: string[][] = [[]]
  #row = 0
  #column = 0

  get text(): string {
    return this.#lines.map(line => line.join('').replace(/^\s+$/, '')).join('\n')
  }

  take({ act, control, escaped, numbers = '', text }: Piece): void {
    if (text !== undefined) this.#write(text)
    else if (act) this.#obey(act, /^[\d;]*$/.test(numbers) ? numbers : '?')
    else if (escaped === 'c') this.#clear()
    else if (escaped === 'M') this.#moveTo(this.#row - 1, this.#column)
    else if (escaped === 'D' || escaped === 'E' || '\n\v\f\x84\x85'.includes(control ?? ' ')) this.#endLine()
    else if (control === '\r') this.#column = 0
    else if (control === '\b') this.#column = Math.max(0, this.#column - 1)
  }

  #write(text: string): void {
    if (this.#column === 0) this.#lines[this.#row] = []
    const line = this.#lines[this.#row]!
    while (line.length < this.#column) line.push(' ')
    for (const character of text) line[this.#column++] = character
  }

  #endLine(): void {
    this.#row += 1
    this.#column = 0
    if (this.#row === this.#lines.length) this.#lines.push([])
  }

  #obey(act: string, numbers: string): void {
    if (numbers === '?') return
    const [first = 0, second = 0] = numbers.split(';').map(number => Math.min(Number(number), farthest))
    const count = first || 1
    if (act === 'A' || act === 'F') this.#moveTo(this.#row - count, act === 'A' ? this.#column : 0)
    else if (act === 'B' || act === 'E') this.#moveTo(this.#row + count, act === 'B' ? this.#column : 0)
    else if (act === 'C' || act === 'a') this.#step(count)
    else if (act === 'D') this.#moveTo(this.#row, this.#column - count)
    else if (act === 'G' || act === '`') this.#moveTo(this.#row, count - 1)
    else if (act === 'H' || act === 'f') this.#moveTo(count - 1, (second || 1) - 1)
    else if (act === 'K') this.#clearLine(first)
    else if (act === 'J' && first > 1) this.#clear()
    else if (act === 'J' && first === 0) {
      this.#clearLine(0)
      this.#lines.length = this.#row + 1
    }
  }

  #step(count: number): void {
    const column = Math.min(this.#column + count, Math.max(farthest, this.#column + farthestStep))
    this.#moveTo(this.#row, column)
  }

  /** Moves the cursor, at most to the last line. */
  #moveTo(row: number, column: number): void {
    this.#row = Math.max(0, Math.min(row, this.#lines.length - 1))
    this.#column = Math.max(0, column)
  }

  /** @param what 0: from the cursor on; else the whole line, and the next text begins at its start */
  #clearLine(what: number): void {
    const line = this.#lines[this.#row]!
    if (what > 0) this.#column = 0
    line.length = Math.min(line.length, this.#column)
  }

  #clear(): void {
    this.#lines = [[]]
    this.#row = 0
    this.#column = 0
  }
}
