/**
 * The register of the work that svc does by itself in the background: its name, its interval, its last success and its last
 * error. The health, the metrics, the notes for other processes and the panel read it.
 */
import { SvcError } from '../model/error.ts'
import { type RowFailure, type SetAside, settingAside } from './apart.ts'
import type { Clock } from './clock.ts'
import type { Log } from './log.ts'
import { linkSignals } from './signals.ts'
import { reasonOf } from './system-error.ts'

export interface TaskState {
  readonly name: string
  /** Usual time between two runs, in ms. */
  readonly every_ms: number
  /** Age of the last success in ms; without one, the time since the task was started. */
  readonly success_age_ms: number
  /** Runs that failed, since the process started. */
  readonly failures: number
  /** Set while the task fails, or does not end. */
  readonly trouble?: TaskTrouble
}

interface TaskTrouble {
  /** Unix ms. */
  readonly since: number
  readonly error: string
  /** What to do, if the error says that. */
  readonly hint?: string
}

/** A task that fails. */
export interface FailingTask extends TaskTrouble {
  readonly name: string
}

export interface TaskOptions {
  readonly name: string
  /** Time from the end of a run to the next one, in ms, unless the run returns another time. */
  readonly everyMs: number
  readonly log: Log
  /** What the log says when a run fails, for the first time and then once an hour. */
  readonly failure: string
  /** Ends the repetition. */
  readonly signal: AbortSignal
  /** Time before the first run, in ms. */
  readonly firstMs?: number
  /** Time after a run that failed. `failures`: of how many in a row. Default: `everyMs`. */
  retryMs?(failures: number): number
  /** Waits between runs. Default: sleeps. It must end when the signal aborts, and not reject. */
  wait?(ms: number, signal: AbortSignal): Promise<void>
}

/** The work of a task. What it sets aside counts as a failure, and the run goes on. */
export type TaskWork<T = unknown> = (setAside: SetAside) => T | Promise<T>

/** A failure is reported if no run succeeds for this time: a write may once be too late for another process. */
const graceMs = 10_000
/** A run that lasts longer is reported. */
const hangsMs = 60 * 60_000
/** The failure of a run, or of a row, is logged again after this time. */
const logAgainMs = 60 * 60_000
/** Rows of one run that are noted as failed. */
const mostRows = 100

export class Tasks {
  readonly #clock: Clock
  readonly #all = new Map<string, Task>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Returns the tasks that run in this process, by name. */
  list(): TaskState[] {
    const running = [...this.#all.values()].filter(task => task.holders > 0)
    return running.map(task => task.state()).sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** Returns those that fail. */
  listFailing(): FailingTask[] {
    return this.list().flatMap(({ name, trouble }) => (trouble ? { name, ...trouble } : []))
  }

  /** Registers work that is begun by something else than an interval, until the task is disposed. */
  register(options: Pick<TaskOptions, 'name' | 'everyMs' | 'log' | 'failure'>): Task {
    const task = this.#all.get(options.name) ?? new Task(options, this.#clock)
    this.#all.set(options.name, task)
    task.begin()
    return task
  }

  /** Runs work now, and then again and again until the signal aborts. It registers it under its name. */
  repeat(options: TaskOptions, work: TaskWork): Repetition {
    return new Repetition(this.register(options), options, work, this.#clock)
  }
}

/** One task. Several may use it at the same time, such as the end of one repetition and the beginning of the next. */
class Task implements Disposable {
  readonly #options: Pick<TaskOptions, 'name' | 'everyMs' | 'log' | 'failure'>
  readonly #clock: Clock
  holders = 0
  #failures = 0
  /** Monotonic, like all times here. */
  #succeededAt = 0
  #runsSince: number | undefined
  readonly #loggedAt = new Map<string, number>()
  /** By what failed: a row, or '' for a whole run. */
  readonly #failed = new Map<string, TaskTrouble>()

  constructor(options: Pick<TaskOptions, 'name' | 'everyMs' | 'log' | 'failure'>, clock: Clock) {
    this.#options = options
    this.#clock = clock
  }

  begin(): void {
    if (this.holders++ === 0) this.#succeededAt = this.#clock.monotonic()
  }

  [Symbol.dispose](): void {
    this.holders--
  }

  state(): TaskState {
    const { everyMs, name } = this.#options
    const success_age_ms = this.#clock.monotonic() - this.#succeededAt
    const trouble = this.#trouble(success_age_ms)
    return { name, every_ms: everyMs, success_age_ms, failures: this.#failures, ...(trouble && { trouble }) }
  }

  #trouble(ageMs: number): TaskTrouble | undefined {
    const [failed] = this.#failed.values()
    if (failed && ageMs >= graceMs) return failed
    const lastsMs = this.#runsSince === undefined ? 0 : this.#clock.monotonic() - this.#runsSince
    if (lastsMs < hangsMs) return undefined
    return { since: this.#clock.now() - lastsMs, error: 'a run has not ended for an hour' }
  }

  /** Runs `work` once, and notes how it ended. @returns undefined if it failed */
  async run<T>(work: TaskWork<T>, signal?: AbortSignal): Promise<T | undefined> {
    const failed = new Set<string>()
    const note = (...failures: readonly RowFailure[]) => {
      for (const { error, row } of failures) {
        if (failed.has(row) || failed.size >= mostRows) continue
        failed.add(row)
        this.#fail(error, row)
      }
    }
    this.#runsSince = this.#clock.monotonic()
    try {
      const result = await settingAside(note, Promise.resolve(work(note)))
      this.#succeed(failed)
      return result
    } catch (error) {
      // What is ended by the end of svc has not failed.
      if (!signal?.aborted) note({ row: '', error })
      return undefined
    } finally {
      this.#runsSince = undefined
    }
  }

  /** @param failed rows that were set aside */
  #succeed(failed: ReadonlySet<string>): void {
    const { log, name } = this.#options
    const wasFailing = this.#failed.size > 0
    for (const row of this.#failed.keys()) if (!failed.has(row)) this.#failed.delete(row)
    if (failed.size > 0) return
    if (wasFailing) log.info('a task works again', { task: name })
    this.#loggedAt.clear()
    this.#succeededAt = this.#clock.monotonic()
  }

  #fail(error: unknown, row: string): void {
    const { failure, log, name } = this.#options
    const now = this.#clock.monotonic()
    const said = reasonOf(error)
    // A bare code, such as that of a constraint of the store, says too little.
    const reason = error instanceof Error && /^\w+$/.test(said) ? error.message : said
    this.#failures++
    const { since = this.#clock.now() } = this.#failed.get(row) ?? {}
    this.#failed.set(row, {
      since,
      error: row === '' ? reason : `${row}: ${reason}`,
      ...(error instanceof SvcError && { hint: error.hint }),
    })
    if (now - (this.#loggedAt.get(row) ?? Number.NEGATIVE_INFINITY) < logAgainMs) return
    this.#loggedAt.set(row, now)
    log.error(failure, { task: name, ...(row !== '' && { row }), error })
  }

  get hasFailed(): boolean {
    return this.#failed.size > 0
  }
}

export type { Task }

export class Repetition {
  /** Resolves when the work runs no more. Never rejects. */
  readonly done: Promise<void>
  #nudge = new AbortController()

  constructor(task: Task, options: TaskOptions, work: TaskWork, clock: Clock) {
    this.done = this.#repeat(task, options, work, clock)
  }

  /** Ends the wait for the next run, or the wait after the run that is under way. */
  nudge(): void {
    this.#nudge.abort()
  }

  async #repeat(task: Task, options: TaskOptions, work: TaskWork, clock: Clock): Promise<void> {
    using _registered = task
    const { everyMs, firstMs = 0, retryMs = () => everyMs, signal } = options
    const { wait = (ms, signal) => clock.sleep(ms, signal) } = options
    if (firstMs > 0) await clock.sleep(firstMs, signal)
    for (let failures = 0; !signal.aborted; ) {
      this.#nudge = new AbortController()
      const next = await task.run(work, signal)
      failures = task.hasFailed ? failures + 1 : 0
      const waitMs = failures > 0 ? retryMs(failures - 1) : typeof next === 'number' ? next : everyMs
      using either = linkSignals(signal, this.#nudge.signal)
      if (waitMs > 0) await wait(waitMs, either.signal)
    }
  }
}
