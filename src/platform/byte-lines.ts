/** Cuts bytes that arrive in pieces into lines of text. */
import { Buffer } from 'node:buffer'

/** Longest line, in bytes. */
const usualLine = 1024 * 1024

export class Lines {
  readonly #take: (line: string) => void
  readonly #longest: number
  #pieces: Uint8Array[] = []
  #size = 0
  /** Whether a line was too long; it is dropped. May be set back. */
  hasDropped = false

  /** @param take gets each line that is not empty, without its end */
  constructor(take: (line: string) => void, longest = usualLine) {
    this.#take = take
    this.#longest = longest
  }

  add(bytes: Uint8Array): void {
    let from = 0
    for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, from)) {
      this.#keep(bytes.subarray(from, at))
      this.end()
      from = at + 1
    }
    this.#keep(bytes.subarray(from))
  }

  /** Ends the last line. */
  end(): void {
    const line = Buffer.concat(this.#pieces).toString('utf8').trim()
    this.#pieces = []
    this.#size = 0
    if (line !== '') this.#take(line)
  }

  #keep(piece: Uint8Array): void {
    const wasShort = this.#size <= this.#longest
    this.#size += piece.length
    if (this.#size > this.#longest) {
      this.#pieces = []
      this.hasDropped ||= wasShort
    } else if (piece.length > 0) this.#pieces.push(piece)
  }
}
