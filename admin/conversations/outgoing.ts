/**
 * The desk of a conversation: the draft, its files, and messages that the service has not stored yet. It
 * outlives the view, so that opening another page interrupts nothing. What `kept.ts` saves also survives a
 * reload.
 */
import { batch, effect, type Signal, signal, untracked } from '@preact/signals'
import { ApiError, call, type Message } from '../api.ts'
import { conversationOf, online, onMessages, peerOf } from '../live.ts'
import { timeIsKnown, timeNow } from '../times.ts'
import { yieldToBrowser } from '../ui/yield.ts'
import { type Attachment, attachmentOf, letGo, uploadAgain } from './attachments.ts'
import { seedBlob } from './blobs.ts'
import {
  draftOf,
  forgetMessage,
  isKept,
  type KeptMessage,
  keepDraft,
  keepFiles,
  keepMessage,
  keptFrom,
  keptOf,
  whenWritten,
} from './kept.ts'
import {
  costOf,
  isDoubtful,
  isUnanswered,
  newKey,
  type Outgoing,
  outgoingOf,
  piecesFrom,
  restate,
  sendingOf,
  standsFor,
  storedAs,
} from './pieces.ts'
import { RefusedFiles } from './refused-files.ts'
import { threadOf } from './thread.ts'

/** Messages of an earlier visit are sent without asking if they are not older than this. */
const sendOnMs = 10 * 60_000
/** Resend only within this time: the service remembers an idempotency key for a day. */
const keyMs = 20 * 60 * 60_000
const interrupted = { status: 0, code: 'interrupted', detail: '' }

export class Desk {
  readonly session: string
  readonly userId: string
  readonly text: Signal<string>
  readonly files = signal<readonly Attachment[]>([])
  /** Whether the draft is to wait until the user writes. */
  readonly queueing = signal(false)
  readonly outgoing = signal<readonly Outgoing[]>([])
  /** Resolves when the files of an earlier visit are back. Files that are attached before would replace them on disk. */
  readonly restored: Promise<void>
  readonly #claimed = new Set<number>()
  readonly #refused = new RefusedFiles(() => this.#keepFiles())
  /** Keys of messages that were already resent without asking. */
  readonly #sentOn = new Set<string>()
  #chain: Promise<void>
  readonly #stops: (() => void)[]
  #isOver = false

  constructor(session: string, userId: string) {
    this.session = session
    this.userId = userId
    this.text = signal(draftOf(session, userId))
    const stopHearing = onMessages(messages => {
      this.#receive(messages.filter(one => one.session === session && peerOf(one) === userId))
    })
    let wasOnline = online.value
    const stopWaiting = effect(() => {
      const isBack = online.value && !wasOnline
      wasOnline = online.value
      if (isBack) untracked(() => void this.#sendUnanswered())
    })
    this.#stops = [stopHearing, stopWaiting]
    const files = this.#restoreFiles()
    this.restored = files.then(() => {})
    this.#chain = files.then(messages => this.#restore(messages))
  }

  /** Ends the desk when the person signs out: it sends and saves nothing more. */
  end(): void {
    this.#isOver = true
    for (const stop of this.#stops) stop()
    for (const one of this.files.value) letGo(one)
    for (const { abort } of this.outgoing.value.flatMap(({ files }) => files)) abort.abort()
  }

  /** Whether it is sent without asking once the service is back. */
  sendsOn = ({ at, error, key }: Outgoing): boolean =>
    isUnanswered(error.value) && timeNow() - at <= sendOnMs && !this.#sentOn.has(key)

  /** When the service is back, resends unanswered messages. The same key prevents a double send. */
  async #sendUnanswered(): Promise<void> {
    for (const one of this.outgoing.value) {
      if (!this.sendsOn(one)) continue
      this.#sentOn.add(one.key)
      const isWanted = await isKept(this.session, this.userId, one.key)
      // Another tab has sent or discarded it.
      if (!isWanted) this.outgoing.value = this.outgoing.value.filter(other => other !== one)
      else if (!this.#isOver && isUnanswered(one.error.value)) this.retry(one)
    }
  }

  write(text: string): void {
    this.text.value = text
    if (!this.#isOver) keepDraft(this.session, this.userId, text)
  }

  attach(files: Iterable<File>): void {
    this.files.value = [...this.files.value, ...Array.from(files, attachmentOf)].slice(0, 20)
    this.#keepFiles()
  }

  detach(one: Attachment): void {
    letGo(one)
    this.files.value = this.files.value.filter(other => other !== one)
    this.#keepFiles()
  }

  /** Sends the draft. @returns whether there was anything to send */
  send(): boolean {
    const text = this.text.value
    const files = this.files.value
    if (costOf(text, files.length) === 0) return false
    this.files.value = []
    for (const { preview } of files) if (preview) URL.revokeObjectURL(preview)
    this.write('')
    this.#go(costOf(text, 0) === 0 ? '' : text, files, this.queueing.value)
    this.#keepFiles()
    return true
  }

  /** Tries a failed message again that was not stored. */
  retry(one: Outgoing): void {
    batch(() => {
      one.state.value = 'sending'
      one.error.value = undefined
      restate(one, one.queue ? 'queued' : 'sending')
      for (const file of one.files) if (file.error.value) uploadAgain(file)
    })
    this.#keep(one)
    this.#enqueue(one)
  }

  /** Tries it again, to wait until the user writes. */
  queue(one: Outgoing): void {
    this.drop(one)
    this.#go(one.text, one.files, true)
  }

  drop(one: Outgoing): void {
    this.outgoing.value = this.outgoing.value.filter(other => other !== one)
    const left = this.outgoing.value.findLast(({ state }) => state.value === 'failed')
    forgetMessage(this.session, this.userId, one.key, left && keptFrom(left))
  }

  /** Whether a refused message can be sent again. */
  hasAgain = ({ id, text }: Message): boolean => text !== '' || this.#refused.files.value.has(id)

  /** Sends a refused message again, as a new message; with `queue` when the user writes. */
  again({ id, text }: Message, queue: boolean): void {
    const file = this.#refused.files.value.get(id)
    this.#go(text, file ? [attachmentOf(file)] : [], queue || this.queueing.value)
    if (file) this.#refused.forget(id)
  }

  #go(text: string, files: readonly Attachment[], queue: boolean): void {
    const one = outgoingOf(this, {
      key: newKey(),
      text,
      files,
      queue,
      at: timeNow(),
      after: conversationOf(this.session, this.userId)?.last_message.id ?? 0,
    })
    this.#keep(one)
    this.outgoing.value = [...this.outgoing.value, one]
    this.#enqueue(one)
  }

  /** Restores the files of an earlier visit. @returns its unsent messages */
  async #restoreFiles(): Promise<readonly KeptMessage[]> {
    // After the first drawing: opening the database is slow.
    await yieldToBrowser()
    const { messages, files } = await keptOf(this.session, this.userId)
    if (files) {
      this.files.value = [...Array.from(files.attached, attachmentOf), ...this.files.value]
      this.#refused.restore(files.refused)
    }
    return messages
  }

  /** Restores messages: those under way go on, the rest waits for the person. */
  async #restore(messages: readonly KeptMessage[]): Promise<void> {
    // The age of a message is measured by the service's clock.
    if (messages.some(({ error }) => !error || isUnanswered(error))) await timeIsKnown
    if (this.#isOver) return
    const known = new Set(this.outgoing.value.map(({ key }) => key))
    const before = messages
      .filter(({ key }) => !known.has(key))
      .map(kept => {
        const one = outgoingOf(this, { ...kept, files: Array.from(kept.files, attachmentOf) })
        const refusal = isUnanswered(kept.error) ? undefined : kept.error
        const error = refusal ?? (timeNow() - kept.at > sendOnMs ? interrupted : undefined)
        if (error) this.#fail(one, new ApiError(error.status, error))
        return one
      })
    if (before.length === 0) return
    const under = before.filter(({ state }) => state.value === 'sending')
    // Do not show a message beside its stored row.
    const stored = under.length > 0 ? await this.#stored().catch(() => []) : []
    batch(() => {
      this.outgoing.value = [...before, ...this.outgoing.value]
      this.#receive(stored)
    })
    for (const one of under) await this.#run(one)
  }

  /** Returns the sent messages that the service stored last, oldest first. */
  async #stored(): Promise<Message[]> {
    const wanted = { session: this.session, user_id: this.userId, limit: 60 }
    const { messages } = await call('list_messages', { ...wanted, direction: 'sent' })
    return messages.reverse()
  }

  #keep(one: Outgoing): void {
    if (!this.#isOver) keepMessage(this.session, this.userId, keptFrom(one))
  }

  #keepFiles(): void {
    if (this.#isOver) return
    const attached = this.files.value.map(({ file }) => file)
    keepFiles(this.session, this.userId, { attached, refused: this.#refused.files.value })
  }

  /** Takes messages that were stored or changed their state. */
  #receive(messages: readonly Message[]): void {
    for (const message of messages) {
      if (message.direction !== 'sent') continue
      this.#claim(message)
      this.#refused.receive(message)
    }
  }

  /** Sends messages one after the other, in the order in which they were written. */
  #enqueue(one: Outgoing): void {
    this.#chain = this.#chain.then(() => this.#run(one))
  }

  async #run(one: Outgoing): Promise<void> {
    const stored = () => one.pieces.value.length < (one.text === '' ? 0 : 1) + one.files.length
    try {
      // The service may have forgotten the key by now.
      if (timeNow() - one.at > keyMs) {
        this.#receive(await this.#stored())
        if (stored()) return this.drop(one)
      }
      // If the page is closed now, the next visit finds the message with its key, and no draft of it.
      await whenWritten()
      const ids = await Promise.all(one.files.map(({ uploaded }) => uploaded))
      const failed = one.files.find(({ error }) => error.value)
      if (failed) throw failed.error.value
      if (this.#isOver) return
      await call('send', sendingOf(this, one, ids))
      // The answer may come before the events.
      const thread = threadOf(this.session, this.userId)
      if (one.pieces.value.length > 0) await thread.catchUp()
      this.#receive(thread.messages.value.slice(-60))
      if (one.pieces.value.length > 0) this.#receive(await this.#stored().catch(() => []))
      this.drop(one)
    } catch (error) {
      // A stored message has its own row, which shows the outcome. Its event may come after the answer.
      if (!stored()) this.#receive(await this.#stored().catch(() => []))
      if (stored()) return this.drop(one)
      this.#fail(one, error)
    }
  }

  #fail(one: Outgoing, error: unknown): void {
    batch(() => {
      one.error.value = error
      one.state.value = 'failed'
      restate(one, isDoubtful(error) ? 'unknown' : 'refused')
    })
    this.#keep(one)
  }

  /** Removes the piece that a stored message stands for. The message is displayed in its own row. */
  #claim(message: Message): void {
    if (this.#claimed.has(message.id)) return
    for (const one of this.outgoing.value) {
      if (one.state.value === 'failed' || message.id <= one.after) continue
      const piece = one.pieces.value.find(piece => standsFor(piece, message))
      if (!piece) continue
      this.#claimed.add(message.id)
      storedAs.set(piece.id, message.id)
      const file = one.files[one.files.length - piecesFrom(one, piece)]?.file
      if (file && piece.msg_type !== 'TEXT') {
        seedBlob(message.id, 0, file)
        this.#refused.keep(message.id, file)
      }
      one.pieces.value = one.pieces.value.filter(other => other !== piece)
      return
    }
  }
}
