/**
 * What is written and on its way in one conversation: the draft, its files, and messages that the service has not
 * stored yet. Outlives the view, so that going elsewhere interrupts nothing.
 */
import { batch, type Signal, signal } from '@preact/signals'
import { ApiError, api, type Message } from '../api.ts'
import { conversationOf, onMessage, peerOf } from '../live.ts'
import { type Attachment, attachmentOf, uploadAgain } from './attachments.ts'
import { seedBlob } from './blobs.ts'
import { threadOf } from './thread.ts'

/** UTF-8 bytes of one message; a longer text goes out in parts. */
const partBytes = 16_384

export interface Outgoing {
  /** The idempotency key: however often it is tried, it is sent once. */
  key: string
  text: string
  files: readonly Attachment[]
  queue: boolean
  /** Newest row when it was sent: its own come later. */
  after: number
  state: Signal<'sending' | 'failed'>
  error: Signal<unknown>
  /** What the service has not stored yet, as messages to look at; their row ids are negative. */
  pieces: Signal<readonly Message[]>
}

/** How many answers this takes. */
export const costOf = (text: string, files: number): number =>
  (text.trim() === '' ? 0 : Math.ceil(new TextEncoder().encode(text).length / partBytes)) + files

const wireKind = { image: 'IMAGE', video: 'VIDEO', file: 'FILE' } as const
let lastPiece = 0

export class Desk {
  readonly session: string
  readonly userId: string
  readonly text: Signal<string>
  readonly files = signal<readonly Attachment[]>([])
  /** The writer wants it sent when the user writes. */
  readonly queueing = signal(false)
  readonly outgoing = signal<readonly Outgoing[]>([])
  readonly #draftAt: string
  readonly #claimed = new Set<number>()
  #chain: Promise<void> = Promise.resolve()

  constructor(session: string, userId: string) {
    this.session = session
    this.userId = userId
    this.#draftAt = `svc.draft ${JSON.stringify([session, userId])}`
    this.text = signal(sessionStorage.getItem(this.#draftAt) ?? '')
    onMessage(message => {
      if (message.direction === 'sent' && message.session === session && peerOf(message) === userId)
        this.#claim(message)
    })
  }

  write(text: string): void {
    this.text.value = text
    try {
      if (text === '') sessionStorage.removeItem(this.#draftAt)
      else sessionStorage.setItem(this.#draftAt, text)
    } catch {
      // Longer than the browser keeps: it stays in the page.
    }
  }

  attach(files: Iterable<File>): void {
    this.files.value = [...this.files.value, ...Array.from(files, attachmentOf)].slice(0, 20)
  }

  detach(one: Attachment): void {
    one.abort.abort()
    if (one.preview) URL.revokeObjectURL(one.preview)
    this.files.value = this.files.value.filter(other => other !== one)
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
    this.#line(one)
  }

  /** The same, to wait until the user writes. */
  queue(one: Outgoing): void {
    this.drop(one)
    this.#go(one.text, one.files, true)
  }

  drop(one: Outgoing): void {
    this.outgoing.value = this.outgoing.value.filter(other => other !== one)
  }

  /** Sends a text that was refused once more, as a new message. */
  sendText(text: string): void {
    this.#go(text, [], this.queueing.value)
  }

  #go(text: string, files: readonly Attachment[], queue: boolean): void {
    const piece = (kind: Message['msg_type'], item: object, its: string): Message => ({
      ...{ id: --lastPiece, message_id: '', session: this.session, bot_id: '', direction: 'sent' },
      ...{ status: queue ? 'queued' : 'sending', from_user: '', to_user: this.userId, msg_type: kind },
      ...{ text: its, timestamp: Date.now(), items: [{ kind, has_media: false, ...item }] },
    })
    const pieces = [
      ...(text === '' ? [] : [piece('TEXT', { text }, text)]),
      ...files.map(({ file, kind }) => {
        const message = piece(wireKind[kind], { file_name: file.name, size: file.size }, '')
        seedBlob(message.id, 0, file)
        return message
      }),
    ]
    const one: Outgoing = {
      ...{ key: crypto.randomUUID(), text, files, queue },
      after: conversationOf(this.session, this.userId)?.last_message.id ?? 0,
      ...{ state: signal('sending'), error: signal(undefined), pieces: signal(pieces) },
    }
    this.outgoing.value = [...this.outgoing.value, one]
    this.#line(one)
  }

  /** One after the other: they shall arrive in the order in which they were written. */
  #line(one: Outgoing): void {
    this.#chain = this.#chain.then(() => this.#run(one))
  }

  async #run(one: Outgoing): Promise<void> {
    const stored = () => one.pieces.value.length < (one.text === '' ? 0 : 1) + one.files.length
    try {
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
      // What was stored shows itself what became of it.
      if (stored()) return this.drop(one)
      batch(() => {
        one.error.value = error
        one.state.value = 'failed'
        restate(one, isDoubtful(error) ? 'unknown' : 'refused')
      })
    }
  }

  /** A message that was just stored takes the place of the one that stood for it. */
  #claim(message: Message): void {
    if (this.#claimed.has(message.id)) return
    for (const one of this.outgoing.value) {
      if (one.state.value === 'failed' || message.id <= one.after) continue
      const piece = one.pieces.value.find(
        ({ msg_type, text, items }) =>
          msg_type === message.msg_type &&
          (msg_type === 'TEXT'
            ? text.trimStart().startsWith(message.text.slice(0, 500).trim())
            : // Names are made safe on their way; sizes of files stay.
              msg_type !== 'FILE' || items[0]?.size === message.items[0]?.size),
      )
      if (!piece) continue
      this.#claimed.add(message.id)
      const file = one.files[one.files.length - piecesFrom(one, piece)]?.file
      if (file && piece.msg_type !== 'TEXT') seedBlob(message.id, 0, file)
      one.pieces.value = one.pieces.value.filter(other => other !== piece)
      return
    }
  }
}

/** Place of a piece of media, counted from the end: those before it may be stored already. */
const piecesFrom = (one: Outgoing, piece: Message): number =>
  one.pieces.value.length - one.pieces.value.indexOf(piece)

const restate = (one: Outgoing, status: Message['status']): void => {
  one.pieces.value = one.pieces.value.map(piece => ({ ...piece, status }))
}

/** No answer came: it may have been sent. Trying again is safe, the key is the same. */
export const isDoubtful = (error: unknown): boolean =>
  error instanceof ApiError && (error.code === 'unreachable' || error.code === 'upstream_timeout')

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
