/**
 * Exclusion between processes that share a data directory, by lock files that are never deleted.
 *
 * The kernel's flock where there is one: free within milliseconds when its holder dies, and never lost by a holder
 * that is merely slow. Elsewhere (Windows, file systems without flock) proper-lockfile, which is neither. Two kinds do
 * not exclude each other, so the kind is recorded in the lock file's first line, and a process that cannot use it
 * refuses.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import process from 'node:process'
import { SvcError } from '../model/error.ts'
import { systemClock } from './clock.ts'
import { createDurably, errorCodeOf, makePrivate, readText } from './files.ts'
import { flockWorks, openEngine } from './lock-engine.ts'
import { isLockKind, type LockEngine, type LockKind, refused } from './lock-form.ts'
import { isNode } from './process.ts'
import { unavailable } from './system-error.ts'

const defaultTimeoutMs = 10_000
/** A process that goes on taking the lock in one breath lets others have a try after this long. */
const breathMs = 8

/**
 * Opens (and creates) a lock file.
 *
 * @param options.kind the kind to record in a new file; by default flock where it works
 * @param options.checkEveryMs how often a held lock is looked after, 1 s
 * @throws SvcError `store_unavailable` when the file, or its recorded kind, cannot be used here
 */
export const openLock = (path: string, options: LockOptions = {}): Promise<FileLock> =>
  opened(path, options).catch(error => {
    throw unavailable(error, `the lock file ${basename(path)} cannot be used`)
  })

interface LockOptions {
  kind?: LockKind
  checkEveryMs?: number
}

async function opened(path: string, options: LockOptions): Promise<FileLock> {
  const recorded = (await recordedKind(path)) ?? (await recordKind(path, options.kind))
  await makePrivate(path)
  const refuse = (why: string, cause?: unknown) => refused(path, why, cause)
  if (!isLockKind(recorded)) {
    throw refuse(`records the lock kind "${recorded.slice(0, 40)}", which this version does not know`)
  }
  if (options.kind && options.kind !== recorded) {
    throw refuse(`records the lock kind "${recorded}", and "${options.kind}" was asked for`)
  }
  try {
    return new FileLock(path, await openEngine(recorded, path), options.checkEveryMs ?? 1000)
  } catch (error) {
    // Node alone has no flock: the directory is sound, and its locks are in use.
    if (isNode && recorded === 'flock') throw notForNode(path, error)
    if (error instanceof SvcError || errorCodeOf(error) !== undefined) throw error
    throw refuse(`records the lock kind "${recorded}", which cannot be used here`, error)
  }
}

const notForNode = (path: string, cause: unknown) =>
  new SvcError('store_unavailable', `${dirname(path)} is used by svc under Bun or Deno, and this is Node`, {
    hint: 'Give programs under Node a data directory of their own, with another basePath.',
    details: { lock_kind: 'flock' },
    cause,
  })

/** The first line of the lock file; undefined when there is no such file. */
async function recordedKind(path: string): Promise<string | undefined> {
  // A file that is still empty is being written by another process right now, or was left so by a crash.
  for (let tries = 0; tries < 20; tries++) {
    const text = await readText(path)
    if (text === undefined) return undefined
    const line = /^([^\n]*)\n/.exec(text)?.[1]
    if (line) return line
    await systemClock.sleep(5)
  }
  await writeFile(path, `${await bestKind(path)}\n`)
  return (await readFile(path, 'utf8')).split('\n')[0]
}

const bestKind = async (path: string): Promise<LockKind> => ((await flockWorks(path)) ? 'flock' : 'lockfile')

/** Creates the lock file with its kind; the first process decides. */
async function recordKind(path: string, kind?: LockKind): Promise<string> {
  await createDurably(path, `${kind ?? (await bestKind(path))}\n`)
  const recorded = await recordedKind(path)
  if (recorded === undefined) throw new Error(`the lock file ${basename(path)} vanished`)
  return recorded
}

interface Waiter {
  go(): void
  refuse(error: Error): void
}

/** One lock, shared by everybody in this process: calls in it are served in their order. Not re-entrant. */
export class FileLock {
  readonly #path: string
  readonly #engine: LockEngine
  readonly #waiters: Waiter[] = []
  readonly #watch: ReturnType<typeof setInterval>
  /** Somebody in this process holds the lock or is trying to. */
  #busy = false
  #held = false
  #closed = false
  #lost = new AbortController()
  #freedAt = Number.NEGATIVE_INFINITY
  #breathFrom = 0

  constructor(path: string, engine: LockEngine, checkEveryMs: number) {
    this.#path = path
    this.#engine = engine
    this.#watch = setInterval(() => this.#check(), checkEveryMs)
    this.#watch.unref?.()
    engine.whenLost(() => this.#check())
  }

  /** Whether this process holds the lock, as far as it knows. */
  get held(): boolean {
    return this.#held
  }

  /**
   * Looks whether this process surely holds it now: a lock of the second kind may be another's after a long sleep,
   * before that is known here. For whatever only one may do at a time.
   */
  get sure(): boolean {
    return this.#check() && this.#engine.sure()
  }

  /** Of the current (or else the last) hold: aborts when the lock is lost, for instance because its file was removed. */
  get lost(): AbortSignal {
    return this.#lost.signal
  }

  /** Takes the lock if nobody has it or waits for it in this process, and no other process has it. */
  async tryLock(): Promise<boolean> {
    this.#refuseClosed()
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
   * Waits for the lock, at most `timeoutMs` (10 s).
   *
   * @throws SvcError `store_unavailable` when another process keeps it longer
   */
  async lock({ timeoutMs = defaultTimeoutMs }: { timeoutMs?: number } = {}): Promise<void> {
    const deadline = performance.now() + timeoutMs
    this.#refuseClosed()
    if (this.#busy) await this.#turn(timeoutMs)
    this.#busy = true
    try {
      await this.#breathe()
      for (;;) {
        this.#refuseClosed()
        if (await this.#take()) return
        const left = deadline - performance.now()
        if (left <= 0) throw await this.#timedOut()
        // Holders keep it for milliseconds. The jitter keeps waiters of several processes out of step.
        await systemClock.sleep(Math.min(left, 1 + Math.random() * 2))
      }
    } catch (error) {
      this.#next()
      throw error
    }
  }

  /** Gives the lock back; nothing happens when it is not held. */
  async unlock(): Promise<void> {
    if (!this.#held) return
    this.#held = false
    try {
      await this.#engine.release()
    } finally {
      this.#freedAt = performance.now()
      this.#next()
    }
  }

  /** `work` between lock and unlock. */
  async run<T>(work: () => Promise<T>, options?: { timeoutMs?: number }): Promise<T> {
    await this.lock(options)
    const { lost } = this
    try {
      return await work()
    } finally {
      // Lost meanwhile, it may be the next one's by now.
      if (!lost.aborted) await this.unlock()
    }
  }

  /** Gives the lock back and refuses those that wait. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    clearInterval(this.#watch)
    for (const waiter of this.#waiters.splice(0)) waiter.refuse(this.#closedError())
    await this.unlock()
    await this.#engine.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #take(): Promise<boolean> {
    const note = `taken by process ${process.pid} at ${new Date().toISOString()}`
    if (!(await this.#engine.take(note))) return false
    if (this.#closed) {
      await this.#engine.release()
      throw this.#closedError()
    }
    if (this.#lost.signal.aborted) this.#lost = new AbortController()
    this.#held = true
    return true
  }

  /** Waits until the ones before in this process are done. */
  #turn(timeoutMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (act: () => void) => {
        clearTimeout(timer)
        const at = this.#waiters.indexOf(waiter)
        if (at >= 0) this.#waiters.splice(at, 1)
        act()
      }
      const waiter: Waiter = { go: () => settle(resolve), refuse: error => settle(() => reject(error)) }
      const timer = setTimeout(() => void this.#timedOut().then(waiter.refuse), timeoutMs)
      this.#waiters.push(waiter)
    })
  }

  /** Hands the turn to the next one in this process; it stays busy, so nobody can step in between. */
  #next(): void {
    const waiter = this.#waiters[0]
    if (waiter) waiter.go()
    else this.#busy = false
  }

  /**
   * The kernel gives a free lock to the process that asks first, and a process that has just freed it always asks first: after
   * a while in one breath it steps back for as long as the others sleep between two tries.
   */
  async #breathe(): Promise<void> {
    const now = performance.now()
    if (now - this.#freedAt > 1) this.#breathFrom = now
    else if (now - this.#breathFrom > breathMs) {
      await systemClock.sleep(3)
      this.#breathFrom = performance.now()
    }
  }

  /** @returns whether it is held, as far as that can be seen */
  #check(): boolean {
    if (!this.#held) return false
    try {
      if (this.#engine.intact()) return true
    } catch {
      // A folder that may not be entered for a while, a disk that hangs: nothing says that it is lost.
      return false
    }
    this.#held = false
    this.#lost.abort(new SvcError('store_unavailable', `the lock ${basename(this.#path)} was lost`))
    void this.#engine.release().finally(() => this.#next())
    return false
  }

  async #timedOut(): Promise<SvcError> {
    const note = (await readText(this.#path).catch(() => undefined))?.split('\n')[1]?.trim()
    return new SvcError(
      'store_unavailable',
      `the lock ${basename(this.#path)} stays held${note ? ` (${note})` : ''}`,
      {
        hint: 'Another process that uses this data directory hangs; look at it, or stop it, then try again.',
        retryAfter: 1,
      },
    )
  }

  #closedError(): SvcError {
    return new SvcError('shutting_down', `the lock ${basename(this.#path)} is closed`)
  }

  #refuseClosed(): void {
    if (this.#closed) throw this.#closedError()
  }
}
