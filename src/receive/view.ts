/** Turns stored rows into messages for callers: decodes the raw text, and looks up quoted messages. */

import { Buffer } from 'node:buffer'
import { decodeMessage } from '../ilink/decode.ts'
import { isSvcError } from '../model/error.ts'
import type { Message } from '../model/message.ts'
import { systemClock } from '../platform/clock.ts'
import { withoutUndefined } from '../platform/fields.ts'
import type { Log } from '../platform/log.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { StoredMessage } from '../storage/messages.ts'
import { erasedMeanwhileError, freshMs } from '../storage/people.ts'
import type { MessageLog } from '../storage/store.ts'

/** Maximum of an answer as JSON, in bytes, with some space for what surrounds the messages. */
const answerBytes = 4 * 1024 * 1024 - 1024
/**
 * Maximum of stored characters that one answer decodes. At worst, decoding a million characters takes the
 * main thread 0.1 s (Bun 1.4.5, objects of 50,000 keys). A thousand ordinary messages are half of this
 * limit.
 */
const rawCharacters = 2 * 1024 * 1024
/** Stored characters decoded at a time. */
const decodeStepCharacters = 64 * 1024
/** Bytes of `"redelivered":true` and a comma, which may be added to a message later. */
const redeliveredBytes = 20

/** A decoded row, without the message that it quotes. */
interface Sketch {
  row: StoredMessage
  message: Message
  /** `message_id` of the quoted message. */
  quotedId?: string
}

/** Turns rows into messages. Logs an unreadable row once, however often it is read. */
export class Views extends RoomPart<{ store: Pick<MessageLog, 'getByIds' | 'getByMessageIds'>; log: Log }> {
  /** Row ids of unreadable messages that were logged. */
  readonly #unreadable = new Set<number>()

  /** Call it before rows are read. Returns a function that leaves out what is gone since, if that was long ago. */
  startStaleCheck(): <T extends { id: number }>(found: T[]) => Promise<T[]> {
    const startedAt = systemClock.monotonic()
    return async found => {
      if (systemClock.monotonic() - startedAt <= freshMs) return found
      const kept = new Set((await this.ports.store.getByIds(found.map(({ id }) => id))).map(({ id }) => id))
      return found.filter(({ id }) => kept.has(id))
    }
  }

  async toMessage(row: StoredMessage): Promise<Message> {
    const sketch = this.toSketch(row)
    const quoted = await this.readQuoted([sketch], Number.POSITIVE_INFINITY)
    return this.toWholeMessage(sketch, quoted.rows)
  }

  /**
   * Collects the messages of one answer.
   *
   * @param options.beside messages that are already in it
   * @param options.hasRoom a result of `Call.startFitCheck`
   */
  createAnswer(
    options: { beside?: readonly Message[]; hasRoom?: (message: Message) => boolean } = {},
  ): Answer {
    return new Answer(this, options)
  }

  toSketch(row: StoredMessage): Sketch {
    let quotedId: string | undefined
    const message = this.#decode(row, id => {
      quotedId = id
      return undefined
    })
    return { row, message, quotedId }
  }

  /** Returns the quoted messages by `message_id`. `rest` is the same as in `MessageLog.getByMessageIds`. */
  async readQuoted(sketches: readonly Sketch[], characters: number) {
    const ids = [...new Set(sketches.flatMap(({ quotedId }) => quotedId ?? []))]
    if (ids.length === 0) return { rows: new Map<string, StoredMessage>(), rest: ids }
    const { rows, rest } = await this.ports.store.getByMessageIds(ids, characters)
    return { rows: new Map(rows.map(row => [row.message_id, row])), rest }
  }

  toWholeMessage({ row, message, quotedId }: Sketch, rows: ReadonlyMap<string, StoredMessage>): Message {
    const quotedRow = quotedRowOf({ row, quotedId }, rows)
    // The store's own text is for searching; the raw message has what was written.
    const quoted = quotedRow && this.#decode(quotedRow)
    const whole = quoted ? this.#decode(row, () => quoted) : message
    return { ...whole, ...(row.user_name !== undefined && { user_name: row.user_name }) }
  }

  /**
   * Decodes a row. An unreadable row becomes a message made from its columns, and does not block other
   * rows.
   */
  #decode(row: StoredMessage, quoted?: (messageId: string) => Message | undefined): Message {
    const {
      raw,
      from_user,
      text: _text,
      msg_type: _kind,
      user_name: _name,
      past: _past,
      peer: _peer,
      ...columns
    } = row
    const known = withoutUndefined(columns)
    const { id, message_id, session, bot_id, direction } = known
    try {
      return decodeMessage(raw, { ...known, ...(quoted && { quoted }) })
    } catch (error) {
      if (isSvcError(error)) throw error
      if (!this.#unreadable.has(id))
        this.ports.log.error('a stored message cannot be read', { session, id, message_id, error })
      this.#unreadable.add(id)
      const to_user = direction === 'received' ? bot_id : ''
      return { ...known, from_user, to_user, msg_type: 'UNKNOWN', text: '', items: [] }
    }
  }
}

/** Takes rows as long as they fit into the answer. The first message always fits. */
export class Answer {
  /** Limit for reading rows: more characters would not fit. */
  readonly characters = rawCharacters
  readonly #views: Views
  readonly #hasRoom: ((message: Message) => boolean) | undefined
  readonly #withoutStale: ReturnType<Views['startStaleCheck']>
  #bytesLeft: number
  #rawLeft = rawCharacters
  #isEmpty: boolean

  constructor(
    views: Views,
    { beside = [], hasRoom }: { beside?: readonly Message[]; hasRoom?: (message: Message) => boolean },
  ) {
    this.#views = views
    this.#withoutStale = views.startStaleCheck()
    this.#hasRoom = hasRoom
    this.#bytesLeft = answerBytes - beside.reduce((sum, message) => sum + bytesOf(message), 0)
    this.#isEmpty = beside.length === 0
  }

  /**
   * @returns the messages of these rows, up to the first that does not fit
   * @throws SvcError `store_unavailable` if one of them is gone since: the caller must call again
   */
  async take(rows: readonly StoredMessage[], redelivered?: ReadonlySet<number>): Promise<Message[]> {
    const taken: Message[] = []
    for (let next = 0; next < rows.length; ) {
      // Decodes a few at a time, so that little is decoded that does not fit in the end.
      const sketches: Sketch[] = []
      for (let characters = 0; next < rows.length && characters < decodeStepCharacters; next++) {
        sketches.push(this.#views.toSketch(rows[next]!))
        characters += rows[next]!.raw.length
      }
      const messages = await this.#takeFitting(sketches)
      taken.push(...messages)
      if (messages.length < sketches.length) break
    }
    if ((await this.#withoutStale(taken)).length < taken.length) throw erasedMeanwhileError()
    return redelivered?.size
      ? taken.map(message => (redelivered.has(message.id) ? { ...message, redelivered: true } : message))
      : taken
  }

  async #takeFitting(sketches: readonly Sketch[]): Promise<Message[]> {
    const quoted = await this.#views.readQuoted(sketches, rawCharacters)
    const beyond = new Set(quoted.rest)
    const fitting: Message[] = []
    for (const sketch of sketches) {
      const { quotedId = '', row } = sketch
      this.#rawLeft -= row.raw.length + (quotedRowOf(sketch, quoted.rows)?.raw.length ?? 0)
      if ((this.#rawLeft < 0 || beyond.has(quotedId)) && !this.#isEmpty) break
      const message = this.#views.toWholeMessage(sketch, quoted.rows)
      const left = this.#bytesLeft - bytesOf(message)
      if ((left < 0 && !this.#isEmpty) || this.#hasRoom?.(message) === false) break
      fitting.push(message)
      this.#bytesLeft = left
      this.#isEmpty = false
    }
    return fitting
  }
}

/** Finds the quoted message in the same conversation: a quote must not show a message of another one. */
function quotedRowOf(
  { row, quotedId = '' }: Pick<Sketch, 'row' | 'quotedId'>,
  rows: ReadonlyMap<string, StoredMessage>,
): StoredMessage | undefined {
  const found = rows.get(quotedId)
  return found?.bot_id === row.bot_id && found.peer === row.peer ? found : undefined
}

const bytesOf = (message: Message) => Buffer.byteLength(JSON.stringify(message)) + redeliveredBytes
