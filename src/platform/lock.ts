/**
 * Exclusion between processes that share a data directory, by lock files that are never deleted.
 *
 * Uses the kernel's flock where there is one: it is free within milliseconds when its holder dies, and a slow
 * holder never loses it. Elsewhere (Windows, file systems without flock) it uses proper-lockfile, which has
 * neither property. A lock of one kind does not exclude a lock of the other kind. So the kind is recorded
 * in the first line of the lock file, and a process that cannot use that kind does not open the data
 * directory.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import process from 'node:process'
import { SvcError } from '../model/error.ts'
import { systemClock } from './clock.ts'
import { createDurably, errorCodeOf, makePrivate, readText } from './files.ts'
import { flockWorks, openLockEngine } from './lock-engine.ts'
import { isLockKind, kindOf, type LockEngine, type LockKind, lockFileError } from './lock-form.ts'
import { isNode } from './process.ts'
import { storeErrorOf } from './system-error.ts'

const defaultTimeoutMs = 10_000
/** A process that takes the lock again and again for this long lets other processes try. */
const burstMs = 8

/**
 * Opens a lock file, and creates it if it is absent.
 *
 * @param options.kind the kind to record in a new file; by default flock where it works
 * @param options.checkEveryMs how often to check that a held lock is not lost, 1 s by default
 * @throws SvcError `store_unavailable` when the file, or its recorded kind, cannot be used here
 */
export const openLock = (path: string, options: LockOptions = {}): Promise<FileLock> =>
  openFileLock(path, options).catch(error => {
    throw storeErrorOf(error, `the lock file ${basename(path)} cannot be used`)
  })

interface LockOptions {
  kind?: LockKind
  checkEveryMs?: number
}

async function openFileLock(path: string, options: LockOptions): Promise<FileLock> {
  const recorded = (await recordedKind(path)) ?? (await recordKind(path, options.kind))
  await makePrivate(path)
  const createError = (why: string, cause?: unknown) => lockFileError(path, why, cause)
  if (!isLockKind(recorded)) {
    throw createError(`records the lock kind "${recorded.slice(0, 40)}", which this version does not know`)
  }
  if (options.kind && options.kind !== recorded) {
    throw createError(`records the lock kind "${recorded}", but "${options.kind}" was requested`)
  }
  try {
    return new FileLock(path, await openLockEngine(recorded, path), options.checkEveryMs ?? 1000)
  } catch (error) {
    // Only Node has no flock. Nothing is wrong with the directory, and its locks may be in use.
    if (isNode && recorded === 'flock') throw nodeLockError(path, error)
    if (error instanceof SvcError || errorCodeOf(error) !== undefined) throw error
    throw createError(`records the lock kind "${recorded}", which cannot be used here`, error)
  }
}

const nodeLockError = (path: string, cause: unknown) =>
  new SvcError('store_unavailable', `${dirname(path)} is used by svc under Bun or Deno, and this is Node`, {
    hint: 'Give programs under Node a data directory of their own, with another basePath.',
    details: { lock_kind: 'flock' },
    cause,
  })

/** Returns the kind in the first line of the lock file; undefined when the file is absent. */
async function recordedKind(path: string): Promise<string | undefined> {
  // An empty file is being written by another process right now, or a crash left it so.
  for (let tries = 0; tries < 20; tries++) {
    const text = await readText(path)
    if (text === undefined) return undefined
    const line = /^([^\n]*)\n/.exec(text)?.[1]
    if (line) return kindOf(line)
    await systemClock.sleep(5)
  }
  await writeFile(path, `${await bestKind(path)}\n`)
  return kindOf((await readFile(path, 'utf8')).split('\n')[0] ?? '')
}

const bestKind = async (path: string): Promise<LockKind> => ((await flockWorks(path)) ? 'flock' : 'lockfile')

/** Creates the lock file with its kind. The first process decides the kind. */
async function recordKind(path: string, kind?: LockKind): Promise<string> {
  await createDurably(path, `${kind ?? (await bestKind(path))}\n`)
  const recorded = await recordedKind(path)
  if (recorded === undefined) throw new Error(`the lock file ${basename(path)} vanished`)
  return recorded
}

interface HoldOptions {
  /** The longest wait, in ms. */
  timeoutMs?: number
  /** It is held for microseconds, so other processes get it between two holds, and it leaves no note. */
  brief?: boolean
}

interface Waiter {
  resume(): void
  reject(error: Error): void
}

/**
 * One lock, shared by all callers in this process, who get it in the order of their calls. Not re-entrant.
 */
export class FileLock {
  readonly #path: string
  readonly #engine: LockEngine
  readonly #waiters: Waiter[] = []
  readonly #watch: ReturnType<typeof setInterval>
  /** A caller in this process holds the lock or is trying to take it. */
  #busy = false
  #held = false
  #brief = false
  #closed = false
  #lost = new AbortController()
  /** When this process freed the lock last, and since when it takes it again and again. */
  #burst = { freedAt: Number.NEGATIVE_INFINITY, from: 0 }

  constructor(path: string, engine: LockEngine, checkEveryMs: number) {
    this.#path = path
    this.#engine = engine
    this.#watch = setInterval(() => this.#check(), checkEveryMs)
    this.#watch.unref?.()
    engine.onLost(() => this.#check())
  }

  /** Whether this process holds the lock, as far as it knows. */
  get held(): boolean {
    return this.#held
  }

  /**
   * Checks whether this process surely holds the lock now. A lock of kind `lockfile` may be lost during a
   * long sleep before this process notices. For work that only one process may do at a time.
   */
  get isReallyHeld(): boolean {
    return this.#check() && this.#engine.isSurelyHeld()
  }

  /**
   * Aborts when the current hold is lost (or the last one was), for instance because the lock file was
   * removed.
   */
  get lost(): AbortSignal {
    return this.#lost.signal
  }

  /**
   * Takes the lock if it is free and no caller in this process waits for it.
   *
   * @returns whether it was taken
   */
  async tryLock(): Promise<boolean> {
    this.#rejectClosed()
    if (this.#busy) return false
    this.#busy = true
    let taken = false
    try {
      taken = await this.#take()
      return taken
    } finally {
      if (!taken) this.#next()
    }
  }

  /**
   * Waits for the lock, at most `timeoutMs` (10 s by default).
   *
   * @throws SvcError `store_unavailable` when another process keeps it longer
   */
  async lock({ timeoutMs = defaultTimeoutMs, brief = false }: HoldOptions = {}): Promise<void> {
    const deadline = performance.now() + timeoutMs
    this.#rejectClosed()
    if (this.#busy) await this.#waitInQueue(timeoutMs)
    this.#busy = true
    try {
      if (!brief) await this.#pauseBurst()
      for (;;) {
        this.#rejectClosed()
        if (await this.#take(brief)) {
          this.#brief = brief
          return
        }
        const left = deadline - performance.now()
        if (left <= 0) throw await this.#timeoutError()
        // Holders keep the lock for milliseconds. The jitter keeps waiters of several processes out of step.
        await systemClock.sleep(Math.min(left, 1 + Math.random() * 2))
      }
    } catch (error) {
      this.#next()
      throw error
    }
  }

  /** Releases the lock; does nothing when it is not held. */
  async unlock(): Promise<void> {
    if (!this.#held) return
    this.#held = false
    try {
      await this.#engine.release()
    } finally {
      if (!this.#brief) this.#burst.freedAt = performance.now()
      this.#next()
    }
  }

  /** Runs `work` while holding the lock. */
  async run<T>(work: () => Promise<T>, options?: HoldOptions): Promise<T> {
    await this.lock(options)
    const { lost } = this
    try {
      return await work()
    } finally {
      // If the lock was lost during the work, another caller may hold it by now.
      if (!lost.aborted) await this.unlock()
    }
  }

  /** Releases the lock and rejects the callers that wait for it. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    clearInterval(this.#watch)
    for (const waiter of this.#waiters.splice(0)) waiter.reject(this.#closedError())
    await this.unlock()
    await this.#engine.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #take(brief = false): Promise<boolean> {
    const note = brief ? undefined : `taken by process ${process.pid} at ${new Date().toISOString()}`
    if (!(await this.#engine.take(note))) return false
    if (this.#closed) {
      await this.#engine.release()
      throw this.#closedError()
    }
    if (this.#lost.signal.aborted) this.#lost = new AbortController()
    this.#held = true
    return true
  }

  /** Waits until the earlier callers in this process are done. */
  #waitInQueue(timeoutMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (act: () => void) => {
        clearTimeout(timer)
        const at = this.#waiters.indexOf(waiter)
        if (at >= 0) this.#waiters.splice(at, 1)
        act()
      }
      const waiter: Waiter = { resume: () => settle(resolve), reject: error => settle(() => reject(error)) }
      const timer = setTimeout(() => void this.#timeoutError().then(waiter.reject), timeoutMs)
      this.#waiters.push(waiter)
    })
  }

  /**
   * Lets the next caller in this process go on. `#busy` stays set, so no other caller can step in between.
   */
  #next(): void {
    const waiter = this.#waiters[0]
    if (waiter) waiter.resume()
    else this.#busy = false
  }

  /**
   * The kernel gives a free lock to the process that asks first, which is always the process that has just
   * freed it. After 8 ms of taking it again and again, this process waits as long as the others sleep between
   * two tries.
   */
  async #pauseBurst(): Promise<void> {
    const now = performance.now()
    if (now - this.#burst.freedAt > 1) this.#burst.from = now
    else if (now - this.#burst.from > burstMs) {
      await systemClock.sleep(3)
      this.#burst.from = performance.now()
    }
  }

  /** @returns whether the lock is held, as far as this process can see */
  #check(): boolean {
    if (!this.#held) return false
    try {
      if (this.#engine.isIntact()) return true
    } catch {
      // A folder that cannot be entered for a while, or a disk that hangs, does not mean that the lock is
      // lost.
      return false
    }
    this.#held = false
    this.#lost.abort(new SvcError('store_unavailable', `the lock ${basename(this.#path)} was lost`))
    void this.#engine.release().finally(() => this.#next())
    return false
  }

  async #timeoutError(): Promise<SvcError> {
    const note = (await readText(this.#path).catch(() => undefined))?.split('\n')[1]?.trim()
    return new SvcError(
      'store_unavailable',
      // Other programs write no note, so it may be of an earlier holder.
      `the lock ${basename(this.#path)} stays held${note ? ` (among processes of svc, last ${note})` : ''}`,
      {
        hint: 'Another process that uses this data directory hangs. Inspect it or stop it, then try again.',
        retryAfter: 1,
      },
    )
  }

  #closedError(): SvcError {
    return new SvcError('shutting_down', `the lock ${basename(this.#path)} is closed`)
  }

  #rejectClosed(): void {
    if (this.#closed) throw this.#closedError()
  }
}
