/**
 * State that all parts of the simulated WeChat share: its database, clock, switches, and the calls that
 * wait.
 */
import type { Clock } from '../platform/clock.ts'
import { defaultKeepFreeBytes, FreeSpace } from '../platform/free-space.ts'
import type { Log } from '../platform/log.ts'
import { RoomPart } from '../platform/runtime.ts'
import { followSignal } from '../platform/signals.ts'
import type { Database } from '../platform/sqlite.ts'
import { defaultSwitches, readSwitches, type Switches } from './switches.ts'

/** Creates the request counters, all zero. They count from the start of the sandbox. */
const createStats = () => ({
  requests: {} as Record<string, number>,
  polls_now: 0,
  sends: { accepted: 0, refused: 0, dropped: 0 },
  uploads: { accepted: 0, refused: 0, bytes: 0 },
  downloads: 0,
})

/** Options of the simulated WeChat: its folder, its clock and its log. */
export interface SandboxOptions {
  /** Data folder: `<base-path>/sandbox`. */
  dir: string
  clock: Clock
  log: Log
  /** Free bytes to leave on its disk; default `defaultKeepFreeBytes`. */
  keepFreeBytes?: number
  intercept?: RequestInterceptor
}

/**
 * Interceptor of each request to the API or the CDN. Tests use it to make WeChat fail.
 *
 * @param request body: of a call to the API; empty for the CDN
 * @param honest computes the normal answer
 * @returns undefined if the client disconnected
 */
export type RequestInterceptor = (
  request: { endpoint: string; bot: string | undefined; body: string; signal: AbortSignal },
  honest: () => Promise<Response | undefined>,
) => Promise<Response | undefined>

/**
 * Shared state of the simulated WeChat; one per sandbox. More than ten fields: each part of the sandbox uses its own
 * few of them, and a test sees all in one place.
 */
export class Core extends RoomPart<SandboxOptions & { db: Database }> {
  readonly db = this.ports.db
  readonly dir = this.ports.dir
  readonly space = new FreeSpace(this.dir, this.ports.keepFreeBytes ?? defaultKeepFreeBytes)
  readonly clock = this.ports.clock
  readonly log = this.ports.log
  readonly waiters = new Waiters()
  /**
   * Per bot, what its receive side did since the switch `receive` was set: failing answers, and whether
   * notifystart came.
   */
  readonly receiving = new Map<string, { answers: number; started: boolean }>()
  readonly #close = new AbortController()
  /** Aborts when the sandbox stops; open streams end then. */
  readonly closing = this.#close.signal
  readonly stats = createStats()
  readonly #listeners = new Set<() => void>()
  #switches: Switches = { ...defaultSwitches(), ...JSON.parse(this.readSetting('switches') ?? '{}') }
  #offsetMs = Number(this.readSetting('clock_offset_ms') ?? 0)
  #announced = false
  #seq: number | undefined

  /** Ends pending requests: polls answer empty, streams close. */
  close(): void {
    this.#close.abort()
    this.waiters.notifyAll()
  }

  get switches(): Readonly<Switches> {
    return this.#switches
  }

  /**
   * Changes switches and saves them.
   *
   * @throws SvcError `invalid_arguments` naming the switch
   */
  setSwitches(input: Record<string, unknown>): Switches {
    this.#switches = { ...this.#switches, ...readSwitches(input) }
    this.saveSetting('switches', JSON.stringify(this.#switches))
    if ('receive' in input) this.receiving.clear()
    this.waiters.notifyAll()
    this.notifyChange()
    return this.#switches
  }

  resetSwitches(): Switches {
    this.#switches = defaultSwitches()
    this.saveSetting('switches', '{}')
    this.notifyChange()
    return this.#switches
  }

  /**
   * Returns the current time of the simulated WeChat in Unix milliseconds: the clock's time plus what
   * `advance` added.
   */
  now(): number {
    return this.clock.now() + this.#offsetMs
  }

  /** Milliseconds by which `now()` is ahead of the clock. */
  get aheadMs(): number {
    return this.#offsetMs
  }

  /**
   * Moves the simulated time forward and wakes all pending calls, since QR codes and windows may have
   * expired.
   */
  advance(ms: number): number {
    this.#offsetMs += ms
    this.saveSetting('clock_offset_ms', String(this.#offsetMs))
    this.waiters.notifyAll()
    this.notifyChange()
    return this.now()
  }

  /**
   * Returns the `seq` of the next message before it is written, since ids contain it. No other process
   * writes this file.
   */
  takeSeq(): number {
    this.#seq ??= Number(this.db.get`SELECT coalesce(max(seq), 0) AS n FROM message`?.n)
    this.#seq += 1
    return this.#seq
  }

  readSetting(key: string): string | undefined {
    return this.db.get<{ value: string }>`SELECT value FROM setting WHERE key = ${key}`?.value
  }

  saveSetting(key: string, value: string): void {
    this.db.run`INSERT INTO setting (key, value) VALUES (${key}, ${value}) ON CONFLICT DO UPDATE
      SET value = excluded.value`
  }

  /** Notifies the listeners of a change, once for all changes of the same event-loop turn. */
  notifyChange(): void {
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

/** Pending calls by what they wait for. Ringing a name without waiting calls does nothing. */
class Waiters {
  /** Waiting calls by name; aborting a controller wakes its call. */
  readonly #waiting = new Map<string, Set<AbortController>>()

  /**
   * Wakes one waiting call, since two polls of one bot share its messages. The newest is woken: a client
   * that starts another poll has probably left the previous one, even if its disconnect has not been
   * noticed here yet.
   */
  notifyNewest(name: string): void {
    const waiting = this.#waiting.get(name)
    const newest = [...(waiting ?? [])].at(-1)
    if (!newest) return
    waiting?.delete(newest)
    newest.abort()
  }

  notify(name: string): void {
    for (const bell of this.#waiting.get(name) ?? []) bell.abort()
  }

  notifyAll(): void {
    for (const name of this.#waiting.keys()) this.notify(name)
  }

  /** Waits until the name is rung (`rung`), `ms` pass (`late`), or the client disconnects (`gone`). */
  async wait(name: string, ms: number, clock: Clock, signal: AbortSignal): Promise<'rung' | 'late' | 'gone'> {
    const bell = new AbortController()
    const leave = followSignal(signal, bell)
    const waiting = this.#waiting.get(name) ?? new Set()
    this.#waiting.set(name, waiting.add(bell))
    await clock.sleep(ms, bell.signal)
    leave()
    waiting.delete(bell)
    if (waiting.size === 0 && this.#waiting.get(name) === waiting) this.#waiting.delete(name)
    return signal.aborted ? 'gone' : bell.signal.aborted ? 'rung' : 'late'
  }
}
