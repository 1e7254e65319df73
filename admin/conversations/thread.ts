/**
 * The loaded messages of a conversation: one range without gaps, oldest first. It grows at both ends. Rows
 * far from the reader are dropped and loaded again when needed.
 */
import { batch, effect, signal, untracked } from '@preact/signals'
import { call, type Message, type MessageQuery } from '../api.ts'
import { conversationOf, online, onMessages, peerOf, sessions } from '../live.ts'

const firstPage = 60
const nextPage = 120
/** The number of rows to keep, and how many more may come before the thread is shortened. */
const longest = 2000
const slack = 500
/** `newer` stops after this many messages. */
const enough = 40

export class Thread {
  readonly session: string
  readonly userId: string
  readonly messages = signal<readonly Message[]>([])
  /** Whether there are messages before and after the loaded ones. */
  readonly hasOlder = signal(false)
  readonly hasNewer = signal(false)
  readonly state = signal<'loading' | 'ready' | 'failed'>('loading')
  readonly error = signal<unknown>(undefined)
  /** Whether the reader is at the end. True when no chat is open. */
  isAtEnd = true
  /** Row id of the first message in view; used while the reader is not at the end. */
  readsAt = 0
  /** The end at which more is being loaded. */
  readonly loading = signal<'' | 'older' | 'newer'>('')
  /** Row id up to which messages were read when the conversation was opened. */
  readonly readUpTo = signal<number | undefined>(undefined)
  /** For each unanswered request, the events since it was sent. */
  readonly #unanswered = new Set<Message[]>()
  /** The row that was wanted last. */
  #at: number | undefined
  #abort = new AbortController()
  #stops: (() => void)[]

  constructor(session: string, userId: string) {
    this.session = session
    this.userId = userId
    let wasOnline = online.value
    let wasListed = false
    this.#stops = [
      onMessages(messages => {
        const own = messages.filter(one => one.session === session && peerOf(one) === userId)
        if (own.length === 0) return
        for (const news of this.#unanswered) news.push(...own)
        this.receive(own)
      }),
      effect(() => {
        // Load what happened while the service was out of reach.
        if (online.value && !wasOnline) void this.catchUp()
        wasOnline = online.value
      }),
      effect(() => {
        const isListed = conversationOf(session, userId) !== undefined
        const isRenamed = !sessions.peek()?.some(({ name }) => name === session)
        // The conversation is gone: somebody erased the person.
        if (wasListed && !isListed && !isRenamed) untracked(() => this.reload())
        wasListed = isListed
      }),
    ]
  }

  /** Loads the newest messages, or those around the row `at`. */
  async open(at?: number): Promise<void> {
    if (at !== undefined && this.messages.value.some(({ id }) => id === at)) return
    if (at === undefined && this.state.value === 'ready' && !this.hasNewer.value) return
    this.#at = at
    this.#abort.abort()
    this.#abort = new AbortController()
    const { signal: gone } = this.#abort
    this.state.value = 'loading'
    this.loading.value = ''
    try {
      const asked = Promise.all([
        this.#page({ limit: firstPage, ...(at !== undefined && { before: at + 1 }) }, gone),
        at === undefined ? undefined : this.#after(at, gone),
      ])
      await this.#applyAnswer(asked, gone, ([page, after], replay) => {
        this.messages.value = [...[...page.messages].reverse(), ...(after?.messages ?? [])]
        this.hasOlder.value = page.next_before !== undefined
        this.hasNewer.value = after?.more ?? false
        replay()
        if (at === undefined) this.#noteUnread()
        this.state.value = 'ready'
      })
    } catch (error) {
      if (gone.aborted) return
      this.error.value = error
      this.state.value = 'failed'
    }
  }

  /** Drops the loaded messages, and loads the newest ones. */
  reload(): void {
    batch(() => {
      this.messages.value = []
      this.state.value = 'loading'
    })
    void this.open()
  }

  /** Returns the row id of the first message at or after a time (Unix ms); undefined if there is none. */
  async firstSince(since: number): Promise<number | undefined> {
    const { signal: gone } = this.#abort
    const before = await this.#page({ limit: 1, until: since }, gone)
    const { messages } = await this.#after(before.messages[0]?.id ?? 0, gone)
    return messages.find(({ timestamp }) => timestamp >= since)?.id
  }

  async older(): Promise<void> {
    const first = this.messages.value[0]
    if (!first || !this.hasOlder.value || !this.#begin('older')) return
    const { signal: gone } = this.#abort
    try {
      const asked = this.#page({ limit: nextPage, before: first.id }, gone)
      await this.#applyAnswer(asked, gone, page => {
        const all = [...[...page.messages].reverse(), ...this.messages.value]
        this.messages.value = all.slice(0, longest)
        if (all.length > longest) this.hasNewer.value = true
        this.hasOlder.value = page.next_before !== undefined
        this.loading.value = ''
      })
    } catch (error) {
      if (!gone.aborted) this.#failed(error)
    }
  }

  async newer(): Promise<void> {
    const last = this.messages.value.at(-1)
    if (!last || !this.hasNewer.value || !this.#begin('newer')) return
    const { signal: gone } = this.#abort
    try {
      await this.#applyAnswer(this.#after(last.id, gone), gone, ({ messages, more }, replay) => {
        const all = [...this.messages.value, ...messages]
        this.messages.value = all.slice(-longest)
        if (all.length > longest) this.hasOlder.value = true
        this.hasNewer.value = more
        replay()
        this.loading.value = ''
      })
    } catch (error) {
      if (!gone.aborted) this.#failed(error)
    }
  }

  /** Loads the newest messages after an interruption, or when a message is missing. */
  async catchUp(): Promise<void> {
    if (this.state.value === 'failed') return this.open(this.#at)
    if (this.state.value !== 'ready' || this.hasNewer.value) return
    const { signal: gone } = this.#abort
    try {
      await this.#applyAnswer(this.#page({ limit: firstPage }, gone), gone, (page, replay) => {
        const last = this.messages.value.at(-1)
        const joins = !last || page.next_before === undefined || page.messages.some(({ id }) => id <= last.id)
        // If the page does not reach the loaded rows, keep only the page: a gap is not allowed.
        if (joins) this.receive([...page.messages].reverse())
        else {
          this.messages.value = [...page.messages].reverse()
          this.hasOlder.value = true
        }
        replay()
      })
    } catch (error) {
      if (!gone.aborted) this.error.value = error
    }
  }

  /** Takes messages of this conversation that are new or have changed. */
  receive(messages: readonly Message[]): void {
    const all = [...this.messages.value]
    for (const message of messages) {
      const at = all.findLastIndex(({ id }) => id <= message.id)
      if (all[at]?.id === message.id) all[at] = message
      // A message before the loaded ones, or after a gap, is loaded when the reader scrolls there.
      else if (!(at < 0 && this.hasOlder.value) && !(at === all.length - 1 && this.hasNewer.value))
        all.splice(at + 1, 0, message)
    }
    this.messages.value = this.#shortened(all)
  }

  /** Drops the rows that are farthest from the reader, if there are too many. */
  #shortened(all: readonly Message[]): readonly Message[] {
    if (all.length <= longest + slack) return all
    const at = this.isAtEnd ? -1 : all.findIndex(({ id }) => id >= this.readsAt)
    const middle = at < 0 ? all.length : at
    const first = Math.min(Math.max(0, middle - longest / 2), all.length - longest)
    if (first > 0) this.hasOlder.value = true
    if (first + longest < all.length) this.hasNewer.value = true
    return all.slice(first, first + longest)
  }

  close(): void {
    this.#abort.abort()
    for (const stop of this.#stops) stop()
  }

  #begin(what: 'older' | 'newer'): boolean {
    if (this.loading.value !== '' || this.state.value !== 'ready') return false
    this.loading.value = what
    return true
  }

  #failed(error: unknown): void {
    this.error.value = error
    // Wait a moment; scrolling then tries again.
    setTimeout(() => {
      this.loading.value = ''
    }, 2000)
  }

  /** Applies an answer. `replay` repeats the events since the request: the answer may be older than they. */
  async #applyAnswer<T>(
    asked: Promise<T>,
    gone: AbortSignal,
    take: (answer: T, replay: () => void) => void,
  ): Promise<void> {
    const news: Message[] = []
    this.#unanswered.add(news)
    try {
      const answer = await asked
      if (gone.aborted) return
      batch(() => take(answer, () => this.receive(news)))
    } finally {
      this.#unanswered.delete(news)
    }
  }

  #noteUnread(): void {
    const messages = this.messages.value
    const count = conversationOf(this.session, this.userId)?.unread ?? 0
    if (count === 0 || count >= messages.length) return
    this.readUpTo.value = messages.at(-1 - count)!.id
  }

  #page(more: { limit: number; before?: number; until?: number }, gone: AbortSignal) {
    return call('list_messages', { session: this.session, user_id: this.userId, ...more }, { signal: gone })
  }

  #after(id: number, gone: AbortSignal) {
    return messagesAfter({ session: this.session, user_id: this.userId }, id, gone)
  }
}

/**
 * Returns the messages of a conversation after a row, oldest first, without a gap. Pages go only from new
 * to old. So this requests a page that ends some rows later; the stride grows if few of those rows match.
 */
export async function messagesAfter(
  wanted: Pick<MessageQuery, 'msg_type'> & { session: string; user_id: string },
  id: number,
  gone: AbortSignal,
): Promise<{ messages: Message[]; more: boolean }> {
  const last = conversationOf(wanted.session, wanted.user_id)?.last_message.id ?? Number.MAX_SAFE_INTEGER
  for (let stride = 200; ; stride *= 8) {
    const found: Message[] = []
    let before = id + 1 + stride
    for (;;) {
      const page = await call('list_messages', { ...wanted, limit: 200, before }, { signal: gone })
      const fresh = page.messages.filter(message => message.id > id)
      found.unshift(...fresh.reverse())
      if (fresh.length < page.messages.length || page.next_before === undefined) break
      before = page.next_before
    }
    const reached = id + stride >= last
    if (found.length >= enough || reached || stride > 1e9)
      return { messages: found, more: !reached && (found.at(-1)?.id ?? 0) < last }
  }
}

/** The threads used last. They stay loaded, so that they open at once. */
const kept = new Map<string, Thread>()
const keptAtMost = 8

export function threadOf(session: string, userId: string): Thread {
  const key = JSON.stringify([session, userId])
  const thread = kept.get(key) ?? new Thread(session, userId)
  kept.delete(key)
  kept.set(key, thread)
  for (const [old, other] of [...kept].slice(0, -keptAtMost)) {
    other.close()
    kept.delete(old)
  }
  return thread
}

/** Loads the threads of a user again that are still loaded. */
export function reloadThreads(userId: string): void {
  for (const thread of kept.values()) if (thread.userId === userId) thread.reload()
}
