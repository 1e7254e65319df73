/** What happens in the log, as it happens, to any number of listeners at the cost of one. */

import type { Message } from '../model/message.ts'
import { backoffMs, type Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Store } from '../store/store.ts'
import { viewOf } from './view.ts'

export interface ChangePorts {
  store: Store
  clock: Clock
  log: Log
  /** Aborts when the service stops. */
  closing: AbortSignal
}

/** Rows read at a time. */
const readRows = 100
/** Without any sign the log is looked at after this. */
const lookEveryMs = 30_000
/** As many sends without an end are watched; the oldest ones of more go unwatched. */
const watchedSends = 1000

export type ChangeListener = (message: Message) => void

export class Changes {
  readonly #ports: ChangePorts
  readonly #listeners = new Set<ChangeListener>()
  #following: AbortController | undefined

  constructor(ports: ChangePorts) {
    this.#ports = ports
    ports.closing.addEventListener('abort', () => this.#following?.abort())
  }

  /**
   * Calls `listener` with each message that is stored from now on, received and sent, and again with a sent one whose
   * status changes. Nothing is read while nobody listens. @returns how to stop it
   */
  subscribe(listener: ChangeListener): () => void {
    const own: ChangeListener = message => listener(message)
    this.#listeners.add(own)
    if (!this.#following) {
      const following = new AbortController()
      this.#following = following
      if (this.#ports.closing.aborted) following.abort()
      void this.#follow(following.signal)
    }
    return () => {
      if (!this.#listeners.delete(own) || this.#listeners.size > 0) return
      this.#following?.abort()
      this.#following = undefined
    }
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { clock, log, store } = this.#ports
    let position: number | undefined
    /** Sent rows that may still change, with their status as told. */
    const open = new Map<number, string | undefined>()
    for (let failures = 0; !signal.aborted; ) {
      try {
        if (position === undefined) {
          position = store.lastId()
          for (const id of store.conversations(all => all.open())) open.set(id, store.byId(id)?.status)
        }
        const seen = store.lastId()
        this.#settled(open)
        const rows = store.after(position, { limit: readRows })
        for (const row of rows) {
          position = row.id
          if (row.status === 'queued' || row.status === 'sending') open.set(row.id, row.status)
          this.#tell(viewOf(store, row))
        }
        for (const id of [...open.keys()].slice(0, -watchedSends)) open.delete(id)
        failures = 0
        if (rows.length < readRows) await store.waitForChange(signal, lookEveryMs, seen)
      } catch (error) {
        if (signal.aborted) return
        const waitMs = backoffMs(failures++, 250, 10_000)
        log.warn('changes cannot be read', { error, retryInMs: Math.round(waitMs) })
        await clock.sleep(waitMs, signal)
      }
    }
  }

  /** Tells of sent rows whose status is another one now. */
  #settled(open: Map<number, string | undefined>): void {
    const { store } = this.#ports
    for (const [id, before] of open) {
      const row = store.byId(id)
      if (row?.status === before) continue
      if (!row || (row.status !== 'queued' && row.status !== 'sending')) open.delete(id)
      else open.set(id, row.status)
      if (row) this.#tell(viewOf(store, row))
    }
  }

  #tell(message: Message): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(message)
      } catch (error) {
        this.#ports.log.error('a listener failed', { error })
      }
    }
  }
}
