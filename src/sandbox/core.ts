/** What every part of the simulated world stands on: its file, its time, its switches, and who waits for what. */
import type { Clock } from '../platform/clock.ts'
import { FreeSpace, usualKeepFreeBytes } from '../platform/free-space.ts'
import type { Log } from '../platform/log.ts'
import { following } from '../platform/signals.ts'
import type { Database } from '../platform/sqlite.ts'
import { defaultSwitches, readSwitches, type Switches } from './switches.ts'

/** Counters since the sandbox was opened. */
const noStats = () => ({
  requests: {} as Record<string, number>,
  polls_now: 0,
  sends: { accepted: 0, refused: 0, dropped: 0 },
  uploads: { accepted: 0, refused: 0, bytes: 0 },
  downloads: 0,
})

/** Where the world is kept, and by which clock it lives. */
export interface SandboxOptions {
  /** `<base-path>/sandbox`. */
  dir: string
  clock: Clock
  log: Log
  /** Of its disk; what is usual otherwise. */
  keepFreeBytes?: number
  between?: Between
}

/**
 * Stands between each request of the API or the CDN and its answer, which `honest` gives; so tests make upstream fail.
 *
 * @returns undefined when the client went away
 */
export type Between = (
  asked: { endpoint: string; bot: string | undefined; signal: AbortSignal },
  honest: () => Promise<Response | undefined>,
) => Promise<Response | undefined>

/** The common ground; one per world. */
export class Core {
  readonly db: Database
  readonly dir: string
  readonly space: FreeSpace
  readonly clock: Clock
  readonly log: Log
  readonly bells = new Bells()
  /** By bot, what a receive side that is not open has met since its switch was set: its answers, and a notifystart. */
  readonly receiving = new Map<string, { answers: number; started: boolean }>()
  /** Aborts when the sandbox stops: streams end. */
  readonly closing: AbortSignal
  readonly #close = new AbortController()
  readonly stats = noStats()
  readonly #listeners = new Set<() => void>()
  #switches: Switches
  #offsetMs: number
  #announced = false
  #seq: number | undefined

  constructor(options: SandboxOptions & { db: Database }) {
    this.db = options.db
    this.dir = options.dir
    this.space = new FreeSpace(options.dir, options.keepFreeBytes ?? usualKeepFreeBytes)
    this.clock = options.clock
    this.log = options.log
    this.closing = this.#close.signal
    this.#offsetMs = Number(this.setting('clock_offset_ms') ?? 0)
    const kept: Partial<Switches> = JSON.parse(this.setting('switches') ?? '{}')
    this.#switches = { ...defaultSwitches(), ...kept }
  }

  /** Ends what is held: polls answer empty, streams close. */
  close(): void {
    this.#close.abort()
    this.bells.ringAll()
  }

  get switches(): Readonly<Switches> {
    return this.#switches
  }

  /** @throws SvcError `invalid_arguments` naming the switch */
  setSwitches(input: Record<string, unknown>): Switches {
    this.#switches = { ...this.#switches, ...readSwitches(input) }
    this.keep('switches', JSON.stringify(this.#switches))
    if ('receive' in input) this.receiving.clear()
    this.bells.ringAll()
    this.changed()
    return this.#switches
  }

  resetSwitches(): Switches {
    this.#switches = defaultSwitches()
    this.keep('switches', '{}')
    this.changed()
    return this.#switches
  }

  /** The world's time, Unix milliseconds: the clock's, moved by what `advance` added. */
  now(): number {
    return this.clock.now() + this.#offsetMs
  }

  /** Milliseconds by which that is ahead of the clock. */
  get aheadMs(): number {
    return this.#offsetMs
  }

  /** Moves the world's time forward; holds look again, QR codes and windows may have run out. */
  advance(ms: number): number {
    this.#offsetMs += ms
    this.keep('clock_offset_ms', String(this.#offsetMs))
    this.bells.ringAll()
    this.changed()
    return this.now()
  }

  /** The next message's row, known before it is written since ids are made of it; we alone write this file. */
  nextSeq(): number {
    this.#seq ??= Number(this.db.get`SELECT coalesce(max(seq), 0) AS n FROM message`?.n)
    this.#seq += 1
    return this.#seq
  }

  setting(key: string): string | undefined {
    return this.db.get<{ value: string }>`SELECT value FROM setting WHERE key = ${key}`?.value
  }

  keep(key: string, value: string): void {
    this.db.run`INSERT INTO setting (key, value) VALUES (${key}, ${value}) ON CONFLICT DO UPDATE
      SET value = excluded.value`
  }

  /** Tells the watchers, once per turn of the event loop however much happened. */
  changed(): void {
    if (this.#announced || this.#listeners.size === 0) return
    this.#announced = true
    queueMicrotask(() => {
      this.#announced = false
      for (const listener of this.#listeners) listener()
    })
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }
}

/** Who waits for which bell; a bell that nobody waits for rings in vain. */
class Bells {
  /** By name; each rings by its abort. */
  readonly #waiting = new Map<string, Set<AbortController>>()

  /**
   * Wakes one: two polls of one bot share its messages. It is the newest, for a client that begins another poll has most
   * likely left the one before, though that may not have been heard here yet.
   */
  ringOne(name: string): void {
    const waiting = this.#waiting.get(name)
    const newest = [...(waiting ?? [])].at(-1)
    if (!newest) return
    waiting?.delete(newest)
    newest.abort()
  }

  ring(name: string): void {
    for (const bell of this.#waiting.get(name) ?? []) bell.abort()
  }

  ringAll(): void {
    for (const name of this.#waiting.keys()) this.ring(name)
  }

  /** Until the bell rings, `ms` pass, or the client goes. */
  async wait(name: string, ms: number, clock: Clock, signal: AbortSignal): Promise<'rung' | 'late' | 'gone'> {
    const bell = new AbortController()
    const leave = following(signal, bell)
    const waiting = this.#waiting.get(name) ?? new Set()
    this.#waiting.set(name, waiting.add(bell))
    await clock.sleep(ms, bell.signal)
    leave()
    waiting.delete(bell)
    if (waiting.size === 0 && this.#waiting.get(name) === waiting) this.#waiting.delete(name)
    return signal.aborted ? 'gone' : bell.signal.aborted ? 'rung' : 'late'
  }
}
