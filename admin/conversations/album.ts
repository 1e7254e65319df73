/**
 * The pictures and videos of a conversation, for the full-size view: those around the opened one, and more at
 * both ends before they are needed.
 */
import { batch, computed, signal } from '@preact/signals'
import { call, type Message } from '../api.ts'
import { onMessages, peerOf } from '../live.ts'
import { loadLayers } from '../ui/layers.ts'
import { storedAs } from './pieces.ts'
import { messagesAfter, threadOf } from './thread.ts'
import { isThere, type MediaProps, mediaOf } from './use-blob.ts'

/** The album in the full-size view; undefined when that is closed. */
export const album = signal<Album | undefined>(undefined)

/** Opens a picture or a video in the full-size view. */
export function openFullSize(at: MediaProps): void {
  album.value = new Album(at)
  void loadLayers()
}

const kinds = ['IMAGE', 'VIDEO'] as const
const pageSize = 30
/** Load more when this few items are left in a direction. */
const ahead = 3

const mediaIn = (messages: readonly Message[]): MediaProps[] =>
  messages.flatMap(mediaOf).filter(one => kinds.some(kind => kind === one.item.kind) && isThere(one))

export class Album {
  readonly #all = signal<readonly MediaProps[]>([])
  /** Row id and media index of the shown item. They stay the same when the message changes. */
  readonly #key = signal({ row: 0, index: 0 })
  readonly #place = computed(() => {
    const { row, index } = this.#key.value
    return this.#all.value.findIndex(one => one.message.id === row && one.index === index)
  })
  /** The shown item. */
  readonly at = computed(() => this.#all.value[this.#place.value])
  /** The neighbours of the shown item; undefined at an end, or while not loaded. */
  readonly before = computed(() => this.#all.value[this.#place.value - 1])
  readonly after = computed(() => this.#all.value[this.#place.value + 1])
  /** The item that was opened. */
  readonly first: MediaProps
  readonly #wanted: { session: string; user_id: string }
  /** The first and the last row id that are loaded. */
  #oldest: number
  #newest: number
  #hasOlder = true
  #hasNewer = true
  readonly #loading = new Set<'older' | 'newer'>()
  /** Steps to take once their target is loaded; negative: backwards. */
  #steps = 0
  /** Messages that came since newer ones were requested. The answer may be older than they. */
  #meanwhile: Message[] = []
  readonly #gone = new AbortController()
  readonly #stop: () => void

  constructor(first: MediaProps) {
    const { message, index } = first
    this.first = first
    this.#wanted = { session: message.session, user_id: peerOf(message) }
    const thread = threadOf(message.session, peerOf(message))
    const loaded = thread.messages.peek()
    const isOurs = message.id < 0
    const isInside = thread.state.peek() === 'ready' && (isOurs || loaded.some(({ id }) => id === message.id))
    const rows = isInside ? [...loaded, ...(isOurs ? [message] : [])] : [message]
    if (isInside) {
      this.#hasOlder = thread.hasOlder.peek()
      this.#hasNewer = thread.hasNewer.peek()
    }
    this.#oldest = rows[0]!.id
    this.#newest = rows.findLast(({ id }) => id > 0)?.id ?? 0
    this.#all.value = mediaIn(rows)
    this.#key.value = { row: message.id, index }
    this.#stop = onMessages(news => {
      for (const one of news) this.#receive(one)
    })
    void this.#loadAhead()
  }

  go(step: 1 | -1): void {
    this.#steps += step
    this.#walk()
    void this.#loadAhead()
  }

  close(): void {
    this.#gone.abort()
    this.#stop()
  }

  /**
   * Takes the steps whose target is loaded. The others wait while there is more to load, else they are
   * dropped.
   */
  #walk(): void {
    while (this.#steps !== 0) {
      const step = Math.sign(this.#steps)
      const to = this.#all.peek()[this.#place.peek() + step]
      if (!to) {
        const hasMore = step > 0 ? this.#hasNewer : this.#hasOlder
        if (!hasMore) this.#steps = 0
        return
      }
      this.#steps -= step
      this.#key.value = { row: to.message.id, index: to.index }
    }
  }

  async #loadAhead(): Promise<void> {
    const place = this.#place.peek()
    await Promise.all([
      place < ahead && this.#hasOlder && this.#load('older'),
      place >= this.#all.peek().length - ahead && this.#hasNewer && this.#load('newer'),
    ])
  }

  /** If a call fails, waiting steps are dropped. The next step tries again. */
  async #load(which: 'older' | 'newer'): Promise<void> {
    if (this.#loading.has(which)) return
    this.#loading.add(which)
    try {
      await (which === 'older' ? this.#older() : this.#newer())
    } catch {
      if (which === 'newer' ? this.#steps > 0 : this.#steps < 0) this.#steps = 0
      return
    } finally {
      this.#loading.delete(which)
    }
    this.#walk()
    if (!this.#gone.signal.aborted) await this.#loadAhead()
  }

  async #older(): Promise<void> {
    const { signal: gone } = this.#gone
    const filter = { ...this.#wanted, limit: pageSize, before: this.#oldest }
    const pages = await Promise.all(
      kinds.map(msg_type => call('list_messages', { ...filter, msg_type }, { signal: gone })),
    )
    // The pages of both kinds are complete back to this row.
    this.#oldest = Math.max(0, ...pages.map(({ next_before = 0 }) => next_before))
    this.#hasOlder = this.#oldest > 0
    this.#add(pages.flatMap(({ messages }) => messages.filter(({ id }) => id >= this.#oldest)))
  }

  async #newer(): Promise<void> {
    const { signal: gone } = this.#gone
    this.#meanwhile = []
    const parts = await Promise.all(
      kinds.map(msg_type => messagesAfter({ ...this.#wanted, msg_type }, this.#newest, gone)),
    )
    const ends = parts.flatMap(({ messages, more }) => (more ? (messages.at(-1)?.id ?? []) : []))
    const end = Math.min(Number.MAX_SAFE_INTEGER, ...ends)
    this.#hasNewer = ends.length > 0
    const found = parts.flatMap(({ messages }) => messages.filter(({ id }) => id <= end))
    this.#newest = Math.max(this.#newest, ...found.map(({ id }) => id))
    this.#add(this.#hasNewer ? found : [...found, ...this.#meanwhile])
  }

  #receive(message: Message): void {
    const { session, user_id } = this.#wanted
    if (message.session !== session || peerOf(message) !== user_id) return
    const isKnown = this.#all.peek().some(one => one.message.id === message.id)
    const isNext = !this.#hasNewer && message.id > this.#newest
    if (isKnown || isNext || storedAs.get(this.#key.peek().row) === message.id) this.#add([message])
    else if (this.#loading.has('newer')) this.#meanwhile.push(message)
  }

  /** Keeps the order of the conversation. Unsent messages are last, until their stored row replaces them. */
  #add(messages: readonly Message[]): void {
    const rows = new Map(messages.map(message => [message.id, message]))
    const media = mediaIn([...rows.values()])
    const storedRow = (id: number) => media.find(({ message }) => message.id === storedAs.get(id))?.message.id
    const others = this.#all
      .peek()
      .filter(({ message: { id } }) => !rows.has(id) && storedRow(id) === undefined)
    const orderOf = ({ message: { id } }: MediaProps) => (id > 0 ? id : 1e15 - id)
    const row = storedRow(this.#key.peek().row)
    batch(() => {
      this.#all.value = [...others, ...media].sort(
        (one, other) => orderOf(one) - orderOf(other) || one.index - other.index,
      )
      if (row !== undefined) this.#key.value = { row, index: 0 }
    })
  }
}
