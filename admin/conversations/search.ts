/** What is searched for: conversations by name at once, messages of all of them as the service finds them. */
import { signal } from '@preact/signals'
import { api, type Message } from '../api.ts'

const waitMs = 150
const pageSize = 40

export interface Found {
  /** What was searched for. */
  q: string
  messages: readonly Message[]
  total: number
  totalIsLowerBound: boolean
  next: number | undefined
}

export class Search {
  readonly found = signal<Found | undefined>(undefined)
  readonly busy = signal(false)
  readonly error = signal<unknown>(undefined)
  #abort = new AbortController()
  #timer: ReturnType<typeof setTimeout> | undefined

  /** Asks when no more is typed for a moment; an answer to an older question is dropped. */
  ask(q: string): void {
    clearTimeout(this.#timer)
    this.#abort.abort()
    this.error.value = undefined
    if (q === '') {
      this.found.value = undefined
      this.busy.value = false
      return
    }
    if (this.found.value?.q === q) return
    this.busy.value = true
    this.#timer = setTimeout(() => void this.#page(q), waitMs)
  }

  more(): void {
    const { found } = this
    if (!found.value?.next || this.busy.value) return
    this.busy.value = true
    void this.#page(found.value.q, found.value)
  }

  async #page(q: string, before?: Found): Promise<void> {
    const abort = new AbortController()
    this.#abort = abort
    try {
      const page = await api.messages(
        { text_contains: q, limit: pageSize, ...(before?.next && { before: before.next }) },
        abort.signal,
      )
      if (abort.signal.aborted) return
      this.found.value = {
        q,
        messages: [...(before?.messages ?? []), ...page.messages],
        total: page.total,
        totalIsLowerBound: page.total_is_lower_bound,
        next: page.next_before,
      }
    } catch (error) {
      if (abort.signal.aborted) return
      this.error.value = error
    }
    this.busy.value = false
  }
}
