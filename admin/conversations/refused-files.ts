/** The files of messages that were refused, at hand to be sent once more. */
import { type ReadonlySignal, signal } from '@preact/signals'
import type { Message } from '../api.ts'

const most = 20

export class RefusedFiles {
  readonly #files = signal<ReadonlyMap<number, File>>(new Map())
  /** Of stored messages whose outcome is open, by row. */
  readonly #open = new Map<number, File>()
  readonly #changed: () => void

  constructor(changed: () => void) {
    this.#changed = changed
  }

  /** By row. */
  get files(): ReadonlySignal<ReadonlyMap<number, File>> {
    return this.#files
  }

  /** A message with a file was stored. */
  sent(row: number, file: File): void {
    this.#open.set(row, file)
  }

  /** Keeps the file of a refused message, and lets go of one that went out. */
  receive({ id, status }: Message): void {
    const file = this.#open.get(id)
    if (!file || status === 'sending' || status === 'queued') return
    this.#open.delete(id)
    if (status === 'refused') this.#set([...this.#files.value, [id, file]])
  }

  /** Those that were kept when the page went. */
  restore(kept: ReadonlyMap<number, File>): void {
    this.#set([...kept, ...this.#files.value])
  }

  forget(row: number): void {
    this.#set([...this.#files.value].filter(([other]) => other !== row))
  }

  #set(files: readonly [row: number, file: File][]): void {
    this.#files.value = new Map(files.slice(-most))
    this.#changed()
  }
}
