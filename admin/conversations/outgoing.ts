/**
 * What is written and on its way in one conversation: the draft, its files, and messages that the service has not
 * stored yet. Outlives the view, so that going elsewhere interrupts nothing; and, as far as the browser keeps it, the page.
 */
import { batch, effect, type Signal, signal, untracked } from '@preact/signals'
import { ApiError, api, type Message } from '../api.ts'
import { conversationOf, online, onMessages, peerOf } from '../live.ts'
import { exactly, timeIsKnown } from '../times.ts'
import { breath } from '../ui/breath.ts'
import { type Attachment, attachmentOf, uploadAgain } from './attachments.ts'
import { seedBlob } from './blobs.ts'
import {
  draftOf,
  forgetMessage,
  keepDraft,
  keepFiles,
  keepMessage,
  keptFrom,
  keptOf,
  written,
} from './kept.ts'
import { costOf, type Outgoing, outgoingOf, piecesFrom, restate, standsFor } from './pieces.ts'
import { threadOf } from './thread.ts'

/** crypto.randomUUID is there for pages served by TLS alone, or from this machine. */
const newKey = () =>
  Array.from(crypto.getRandomValues(new Uint32Array(4)), part => part.toString(16).padStart(8, '0')).join('')

/** What was under way when the page went is sent on without asking, unless the person has been away for long. */
const sendOnMs = 10 * 60_000
/** The service knows a key for a day. */
const keyMs = 20 * 60 * 60_000
const interrupted = { status: 0, code: 'interrupted', detail: '' }

export class Desk {
  readonly session: string
  readonly userId: string
  readonly text: Signal<string>
  readonly files = signal<readonly Attachment[]>([])
  /** The writer wants it sent when the user writes. */
  readonly queueing = signal(false)
  readonly outgoing = signal<readonly Outgoing[]>([])
  readonly #claimed = new Set<number>()
  /** Files of stored messages whose outcome is open or a refusal, by row. */
  readonly #filesByRow = new Map<number, File>()
  readonly #refused = signal<ReadonlyMap<number, File>>(new Map())
  #chain: Promise<void>

  constructor(session: string, userId: string) {
    this.session = session
    this.userId = userId
    this.text = signal(draftOf(session, userId))
    onMessages(messages => {
      for (const message of messages) {
        if (message.direction !== 'sent' || message.session !== session || peerOf(message) !== userId)
          continue
        this.#claim(message)
        this.#noteOutcome(message)
      }
    })
    let wasOnline = online.value
    effect(() => {
      const isBack = online.value && !wasOnline
      wasOnline = online.value
      if (isBack) untracked(() => this.#sendUnanswered())
    })
    this.#chain = this.#restore()
  }

  /** The service is there again: what it did not answer goes out under its key, and so not twice. */
  #sendUnanswered(): void {
    for (const one of this.outgoing.value) {
      const { code } = (one.error.value ?? {}) as Partial<ApiError>
      if (code === 'unreachable' && exactly() - one.at < keyMs) this.retry(one)
    }
  }

  write(text: string): void {
    this.text.value = text
    keepDraft(this.session, this.userId, text)
  }

  attach(files: Iterable<File>): void {
    this.files.value = [...this.files.value, ...Array.from(files, attachmentOf)].slice(0, 20)
    this.#keepFiles()
  }

  detach(one: Attachment): void {
    one.abort.abort()
    if (one.preview) URL.revokeObjectURL(one.preview)
    this.files.value = this.files.value.filter(other => other !== one)
    this.#keepFiles()
  }

  /** Sends what is written. @returns whether there was anything */
  send(): boolean {
    const text = this.text.value
    const files = this.files.value
    if (costOf(text, files.length) === 0) return false
    this.files.value = []
    for (const { preview } of files) if (preview) URL.revokeObjectURL(preview)
    this.write('')
    this.#go(text.trim() === '' ? '' : text, files, this.queueing.value)
    this.#keepFiles()
    return true
  }

  /** Tries again what was refused before it was stored. */
  retry(one: Outgoing): void {
    batch(() => {
      one.state.value = 'sending'
      one.error.value = undefined
      restate(one, one.queue ? 'queued' : 'sending')
      for (const file of one.files) if (file.error.value) uploadAgain(file)
    })
    this.#keep(one)
    this.#line(one)
  }

  /** The same, to wait until the user writes. */
  queue(one: Outgoing): void {
    this.drop(one)
    this.#go(one.text, one.files, true)
  }

  drop(one: Outgoing): void {
    this.outgoing.value = this.outgoing.value.filter(other => other !== one)
    const left = this.outgoing.value.findLast(({ state }) => state.value === 'failed')
    forgetMessage(this.session, this.userId, one.key, left && keptFrom(left))
  }

  /** Whether a message that was refused can be sent once more. */
  hasAgain = ({ id, text }: Message): boolean => text !== '' || this.#refused.value.has(id)

  /** Sends what was refused once more, as a new message; `queue`: when the user writes. */
  again({ id, text }: Message, queue: boolean): void {
    const file = this.#refused.value.get(id)
    this.#go(text, file ? [attachmentOf(file)] : [], queue || this.queueing.value)
    if (file) this.#setRefused(new Map([...this.#refused.value].filter(([row]) => row !== id)))
  }

  #go(text: string, files: readonly Attachment[], queue: boolean): void {
    const one = outgoingOf(this, {
      ...{ key: newKey(), text, files, queue, at: exactly() },
      after: conversationOf(this.session, this.userId)?.last_message.id ?? 0,
    })
    this.#keep(one)
    this.outgoing.value = [...this.outgoing.value, one]
    this.#line(one)
  }

  /** What was left when the page went: the files come back, what was under way goes on, the rest waits for the person. */
  async #restore(): Promise<void> {
    // After the first drawing: to open the database takes its time.
    await breath()
    const { messages, files } = await keptOf(this.session, this.userId)
    if (files) {
      this.files.value = [...Array.from(files.attached, attachmentOf), ...this.files.value]
      this.#setRefused(new Map([...files.refused, ...this.#refused.value]))
    }
    // How long ago that was is told by the service's clock.
    if (messages.some(({ error }) => !error)) await timeIsKnown
    const known = new Set(this.outgoing.value.map(({ key }) => key))
    const before = messages
      .filter(({ key }) => !known.has(key))
      .map(kept => {
        const one = outgoingOf(this, { ...kept, files: Array.from(kept.files, attachmentOf) })
        const error = kept.error ?? (exactly() - kept.at > sendOnMs ? interrupted : undefined)
        if (error) this.#fail(one, new ApiError(error.status, error))
        return one
      })
    if (before.length === 0) return
    const under = before.filter(({ state }) => state.value === 'sending')
    // What the service stored before the page went never stands beside its row.
    const stored = under.length > 0 ? await this.#stored().catch(() => []) : []
    batch(() => {
      this.outgoing.value = [...before, ...this.outgoing.value]
      for (const message of stored) this.#claim(message)
    })
    for (const one of under) await this.#run(one)
  }

  /** What the service stored last of what was sent, oldest first. */
  async #stored(): Promise<Message[]> {
    const { messages } = await api.messages({
      ...{ session: this.session, user_id: this.userId, direction: 'sent', limit: 60 },
    })
    return messages.reverse()
  }

  #keep(one: Outgoing): void {
    keepMessage(this.session, this.userId, keptFrom(one))
  }

  #keepFiles(): void {
    const attached = this.files.value.map(({ file }) => file)
    keepFiles(this.session, this.userId, { attached, refused: this.#refused.value })
  }

  #setRefused(refused: ReadonlyMap<number, File>): void {
    this.#refused.value = new Map([...refused].slice(-20))
    this.#keepFiles()
  }

  /** Keeps the file of a refused message at hand, and lets go of one that went out. */
  #noteOutcome({ id, status }: Message): void {
    const file = this.#filesByRow.get(id)
    if (!file || status === 'sending' || status === 'queued') return
    this.#filesByRow.delete(id)
    if (status === 'refused') this.#setRefused(new Map(this.#refused.value).set(id, file))
  }

  /** One after the other: they shall arrive in the order in which they were written. */
  #line(one: Outgoing): void {
    this.#chain = this.#chain.then(() => this.#run(one))
  }

  async #run(one: Outgoing): Promise<void> {
    const stored = () => one.pieces.value.length < (one.text === '' ? 0 : 1) + one.files.length
    try {
      // By then the service may have forgotten its key.
      if (exactly() - one.at > keyMs) {
        for (const message of await this.#stored()) this.#claim(message)
        if (stored()) return this.drop(one)
      }
      // A page that goes in the middle finds it under its key, and no draft of it beside that.
      await written()
      const ids = await Promise.all(one.files.map(({ uploaded }) => uploaded))
      const failed = one.files.find(({ error }) => error.value)
      if (failed) throw failed.error.value
      await api.send({
        to: this.userId,
        session: this.session,
        ...(one.text !== '' && { text: one.text }),
        ...(ids.length > 0 && {
          media: one.files.map(({ file, kind }, nth) => ({
            ...{ kind, upload_id: ids[nth]! },
            ...(file.name && { file_name: file.name.slice(-255) }),
          })),
        }),
        idempotency_key: one.key,
        ...(one.queue && { when_closed: 'queue' as const }),
      })
      if (one.pieces.value.length > 0) await threadOf(this.session, this.userId).catchUp()
      this.drop(one)
    } catch (error) {
      // What was stored shows itself what became of it; its event may be behind the answer.
      if (!stored()) for (const message of await this.#stored().catch(() => [])) this.#claim(message)
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

  /** A message that was just stored takes the place of the one that stood for it. */
  #claim(message: Message): void {
    if (this.#claimed.has(message.id)) return
    for (const one of this.outgoing.value) {
      if (one.state.value === 'failed' || message.id <= one.after) continue
      const piece = one.pieces.value.find(piece => standsFor(piece, message))
      if (!piece) continue
      this.#claimed.add(message.id)
      const file = one.files[one.files.length - piecesFrom(one, piece)]?.file
      if (file && piece.msg_type !== 'TEXT') {
        seedBlob(message.id, 0, file)
        this.#filesByRow.set(message.id, file)
      }
      one.pieces.value = one.pieces.value.filter(other => other !== piece)
      return
    }
  }
}

/** No answer came: it may have been sent. Trying again is safe, the key is the same. */
export const isDoubtful = (error: unknown): boolean =>
  error instanceof ApiError && ['unreachable', 'interrupted'].includes(error.code)

const desks = new Map<string, Desk>()

export function deskOf(session: string, userId: string): Desk {
  const key = JSON.stringify([session, userId])
  let desk = desks.get(key)
  if (!desk) {
    desk = new Desk(session, userId)
    desks.set(key, desk)
  }
  return desk
}

/** Goes on with what was under way when the page went, in whatever conversation. */
export function sendOn(unsent: readonly (readonly [session: string, userId: string])[]): void {
  for (const [session, userId] of unsent) deskOf(session, userId)
}
