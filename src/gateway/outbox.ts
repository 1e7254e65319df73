/**
 * The outbox: sends that wait until their user writes.
 *
 * Whoever polls sends what waits, as soon as a batch is committed; a lane (one user of one session) is worked on by one
 * process at a time.
 */
import { outgoingMessage, sentAs, textItem, waitingItem } from '../ilink/encode.ts'
import { SvcError } from '../model/error.ts'
import type { MediaKind, OutboxEntry, OutboxPart } from '../model/message.ts'
import { sessionName } from '../model/session.ts'
import type { KeptFile, NewPart, OutboxPart as Waiting } from '../store/store.ts'
import type { Cancelled } from './face.ts'
import { described } from './hand-over.ts'
import type { HomeFile } from './home-file.ts'
import { LaneWork, type LaneWorkPorts } from './lane-work.ts'

export interface OutboxPorts extends LaneWorkPorts {
  /** Whether this process polls: then it is the one that sends what waits. */
  polls(): boolean
}

/** One message of a send that is to wait. `row`: of one that upstream refused. */
export type Piece = ({ kind: 'text'; text: string } | { kind: MediaKind; file: HomeFile }) & { row?: number }

/** What has waited this long is given up. */
export const queueLifeMs = 7 * 24 * 60 * 60_000
/** The lanes are looked at this often, besides whenever a user has written. */
const lookEveryMs = 1000
/** Leases are renewed this often, however long an upload takes. */
const renewEveryMs = 20_000
/** A send that is on its way for so long belongs to a process that died, where that cannot be asked. */
const abandonedAfterMs = 10 * 60_000

export class Outbox {
  readonly #ports: OutboxPorts
  readonly #work: LaneWork
  /** Lanes that this process works on. */
  readonly #working = new Map<number, Promise<void>>()
  #nudge = new AbortController()
  #running: Promise<void> | undefined
  #renewedAt = 0
  /** Calls of `wake` so far. */
  #wakes = 0
  #troubled = false

  constructor(ports: OutboxPorts) {
    this.#ports = ports
    this.#work = new LaneWork(ports)
  }

  /** What waits until its user writes, oldest first. @throws SvcError `invalid_arguments` for a bad session name */
  async list(filter: { user_id?: string; session?: string } = {}): Promise<OutboxEntry[]> {
    const { user_id, session } = filter
    return this.#ports.store
      .outbox(outbox =>
        outbox.list({
          ...(user_id !== undefined && { user_id }),
          ...(session !== undefined && { session: sessionName(session) }),
        }),
      )
      .map(({ id, parts, ...entry }) => ({ outbox_id: String(id), ...entry, parts: parts.map(shown) }))
  }

  /**
   * Ends what waits of a queued send.
   *
   * @throws SvcError `not_found` when nothing of that id waits, since it was sent, cancelled, or has expired
   */
  async cancel(outboxId: string): Promise<Cancelled> {
    const { log, media, store } = this.#ports
    const ended = /^\d{1,15}$/.test(outboxId)
      ? store.outbox(outbox => outbox.cancel(Number(outboxId), 'cancelled'))
      : undefined
    if (!ended) {
      throw new SvcError('not_found', 'nothing of this id waits in the outbox', {
        hint: 'GET /outbox shows what waits; history tells what became of the rest.',
      })
    }
    await media.kept.discard(ended.files)
    log.info('queued send cancelled', { outbox: outboxId, messages: ended.cancelled })
    return { success: ended.cancelled > 0, outbox_id: outboxId, cancelled: ended.cancelled }
  }

  /** Whether anything waits for that user: then what is to be queued must not overtake it. */
  waits(session: string, user: string): boolean {
    return this.#ports.store.outbox(outbox => outbox.lanes.waits(session, user))
  }

  /**
   * Keeps messages until their user writes; media are copied to a place that outlives this process.
   *
   * @returns the outbox id
   * @throws SvcError `store_unavailable`, `quota_exhausted` when too much waits for that user; nothing is kept then
   */
  async add(
    send: { session: string; bot_id: string; to: string; pieces: readonly Piece[]; key?: string },
    signal: AbortSignal,
  ): Promise<string> {
    const { clock, log, media, store } = this.#ports
    const { session, bot_id, to } = send
    const files: KeptFile[] = []
    const parts: NewPart[] = []
    try {
      for (const [nth, piece] of send.pieces.entries()) {
        const file = 'file' in piece ? await media.kept.keep(piece.file, signal) : undefined
        if (file) files.push(file)
        const item = 'file' in piece ? waitingItem(piece.file) : textItem(piece.text)
        const clientId = `queued-${clock.now()}-${crypto.randomUUID().slice(0, 8)}-${nth}`
        parts.push({
          kind: piece.kind,
          ...(file && { file }),
          ...(piece.row !== undefined && { row: piece.row }),
          message: {
            client_id: clientId,
            to_user: to,
            timestamp: clock.now(),
            raw: JSON.stringify(outgoingMessage({ to, item, clientId })),
            ...described(item),
          },
        })
      }
      const entry = { session, bot_id, user: to, lifeMs: queueLifeMs, parts }
      const { id } = store.enqueue(entry, send.key)
      log.info('send queued until the user writes', { session, outbox: id, messages: parts.length })
      // The user may have written while the media came home.
      this.#nudge.abort()
      return String(id)
    } catch (error) {
      await media.kept.discard(files)
      throw error
    }
  }

  /** Ends what has waited too long, and what a process that died was sending. */
  async tidy(): Promise<void> {
    const { clock, log, media, store } = this.#ports
    // A clock that was set ahead ends nothing that waits, or is on its way.
    const trusted = store.trustsClock
    const lost = store.settleAbandoned(trusted ? clock.now() - abandonedAfterMs : 0)
    if (lost > 0) log.warn('sends of a process that died are unknown', { messages: lost })
    if (!trusted) return
    const over = store.outbox(outbox => outbox.expire('not sent within 7 days: the user did not write'))
    for (const { entry, files, messages } of over) {
      log.warn('queued send given up: the user did not write in time', { outbox: entry, messages })
      await media.kept.discard(files)
    }
  }

  /** Looks after the lanes until the service stops. */
  start(): void {
    this.#running ??= this.#run()
  }

  /** A batch was committed here: whoever wrote may be waited for. */
  wake(): void {
    this.#wakes += 1
    if (!this.#ports.closing.aborted) void this.#guarded(() => this.#look())
  }

  /** Resolves when nothing is being sent out of here any more; `closing` has to be aborted. */
  async closed(): Promise<void> {
    this.#nudge.abort()
    await this.#running
    await Promise.all(this.#working.values())
  }

  async #run(): Promise<void> {
    const { clock, closing, polls } = this.#ports
    const stop = () => this.#nudge.abort()
    closing.addEventListener('abort', stop, { once: true })
    while (!closing.aborted) {
      this.#nudge = new AbortController()
      await this.#guarded(async () => {
        await this.tidy()
        if (polls()) this.#look()
      })
      if (!closing.aborted) await clock.sleep(lookEveryMs, this.#nudge.signal)
    }
    closing.removeEventListener('abort', stop)
  }

  /** Begins to work on every lane whose user may be written to. */
  #look(): void {
    const { clock, store } = this.#ports
    const lanes = store.outbox(outbox => outbox.lanes.list())
    if (clock.monotonic() - this.#renewedAt > renewEveryMs) {
      this.#renewedAt = clock.monotonic()
      for (const lane of this.#working.keys()) store.outbox(outbox => outbox.lanes.claim(lane))
    }
    for (const lane of lanes) {
      if (this.#working.has(lane.id) || !this.#work.open(lane)) continue
      const wakes = this.#wakes
      const work = this.#guarded(() => this.#work.flush(lane)).finally(() => {
        this.#working.delete(lane.id)
        // The user may have written while the lane was about to be left.
        if (wakes !== this.#wakes && !this.#ports.closing.aborted) void this.#guarded(() => this.#look())
      })
      this.#working.set(lane.id, work)
    }
  }

  /** The store's troubles pass; they are told once and tried again at the next look. */
  async #guarded(work: () => Promise<void> | void): Promise<void> {
    try {
      await work()
      this.#troubled = false
    } catch (error) {
      if (this.#ports.closing.aborted) return
      if (!this.#troubled) this.#ports.log.error('outbox not looked after', { error })
      this.#troubled = true
    }
  }
}

const shown = (part: Waiting): OutboxPart => ({
  id: part.message,
  kind: part.kind,
  sent_as: part.kind === 'text' ? 'text' : sentAs(part.kind),
  status: part.status,
  ...(part.kind === 'text' && { text: part.text }),
  ...(part.file && { file_name: part.file.file_name, size: part.file.size }),
})
