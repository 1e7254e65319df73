/** The search for messages. */
import { signal } from '@preact/signals'
import { call, type Message, type MessageQuery } from '../api.ts'
import type { Filter } from '../place.ts'
import { dayFrom } from '../times.ts'

const waitMs = 150
const pageSize = 40

export interface Found {
  /** The key of the search, from `keyOfSearch`. */
  key: string
  messages: readonly Message[]
  total: number
  totalIsLowerBound: boolean
  next: number | undefined
}

/** Returns the query for the service; undefined if only an account or a person is given. */
function queryOf(q: string, { account, person, kind, since, until }: Filter): MessageQuery | undefined {
  if (q === '' && !kind && !since && !until) return undefined
  return {
    ...(q && { text_contains: q }),
    ...(account && { session: account }),
    ...(person && { user_id: person }),
    ...(kind && { msg_type: kind as MessageQuery['msg_type'] }),
    ...(since && { since: dayFrom(since) }),
    ...(until && { until: dayFrom(until, 1) }),
  }
}

/** Returns the key of a search; '' without one. */
export const keyOfSearch = (q: string, filter: Filter): string => JSON.stringify(queryOf(q, filter)) ?? ''

export class Search {
  readonly found = signal<Found | undefined>(undefined)
  readonly busy = signal(false)
  readonly error = signal<unknown>(undefined)
  #abort = new AbortController()
  #timer: ReturnType<typeof setTimeout> | undefined

  /** Searches after a short pause in typing. Drops the answer to an older search. */
  ask(key: string): void {
    clearTimeout(this.#timer)
    this.#abort.abort()
    this.error.value = undefined
    if (key === '') this.found.value = undefined
    // The result may be there already.
    this.busy.value = key !== '' && this.found.value?.key !== key
    if (!this.busy.value) return
    this.#timer = setTimeout(() => void this.#page(key), waitMs)
  }

  more(): void {
    const { found } = this
    if (!found.value?.next || this.busy.value) return
    this.busy.value = true
    void this.#page(found.value.key, found.value)
  }

  async #page(key: string, before?: Found): Promise<void> {
    const abort = new AbortController()
    this.#abort = abort
    try {
      const page = await call(
        'list_messages',
        { ...(JSON.parse(key) as MessageQuery), limit: pageSize, before: before?.next },
        { signal: abort.signal },
      )
      if (abort.signal.aborted) return
      this.found.value = {
        key,
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
