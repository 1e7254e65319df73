/** The files of refused messages, kept so that they can be sent again. */
import { type ReadonlySignal, signal } from '@preact/signals'
import type { Message } from '../api.ts'

const most = 20

export class RefusedFiles {
  readonly #files = signal<ReadonlyMap<number, File>>(new Map())
  /** Files of stored messages whose outcome is open, by row id. */
  readonly #open = new Map<number, File>()
  readonly #changed: () => void

  constructor(changed: () => void) {
    this.#changed = changed
  }

  /** Files of refused messages, by row id. */
  get files(): ReadonlySignal<ReadonlyMap<number, File>> {
    return this.#files
  }

  /** Keeps the file of a message that was just stored. */
  keep(row: number, file: File): void {
    this.#open.set(row, file)
  }

  /** Takes the new state of a message: keeps the file if it was refused, drops it if it was sent. */
  receive({ id, status }: Message): void {
    const file = this.#open.get(id)
    if (!file || status === 'sending' || status === 'queued') return
    this.#open.delete(id)
    if (status === 'refused') this.#set([...this.#files.value, [id, file]])
  }

  /** Takes back the files of an earlier visit. */
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
