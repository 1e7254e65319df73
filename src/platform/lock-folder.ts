/**
 * proper-lockfile as a lock engine, for where there is no flock: a folder `<file>.lock` that its holder touches every
 * 2 s. A holder that was killed leaves it behind, so others must tell a dead holder from a live one.
 *
 * They watch: a folder that nobody touches while they look on for 8 s is nobody's. proper-lockfile compares its time
 * with the clock on the wall instead, so that a clock set forward takes the lock from a live holder, and one set back
 * leaves it with a dead one. One that is old by the clock is watched for a shorter time, and at once: callers may try
 * only once.
 */
import * as fs from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { AwakeTime, systemClock } from './clock.ts'
import { errorCodeOf } from './files.ts'
import { type LockEngine, leaveNote } from './lock-form.ts'

const touchEveryMs = 2000
/** A lock that was not touched for so long is free; by the clock on the wall, that is a first guess. */
export const staleMs = 8000
/** Of a folder that is stale by the clock: long enough to see a live holder touch it. */
const surelyTouchedMs = 3000
/** What one look adds to the watch at most: who was asleep between two looks has not watched. */
const longestLookMs = 1500
const lookEveryMs = 250
/** Whether a touch has told. */
const askEveryMs = 20
/** proper-lockfile's own judgement, switched off: no folder is so old. */
const never = 1e15

export async function openLockFolder(path: string): Promise<LockEngine> {
  const folder = `${path}.lock`
  const fd = fs.openSync(path, 'r+')
  const watch = new Watch()
  const held = await openHold(path)
  return {
    async take(note) {
      if (!(await held.tryOnce())) {
        const abandoned = await seenAbandoned(folder, watch)
        if (!abandoned || !clearedAway(folder, abandoned)) return false
        if (!(await held.tryOnce())) return false
      }
      watch.forget()
      leaveNote(fd, 'lockfile', note)
      return true
    },
    release: held.release,
    intact: held.intact,
    sure: held.sure,
    whenLost: held.whenLost,
    async close() {
      await held.release()
      fs.closeSync(fd)
    },
  }
}

/** This process's hold of the folder, by proper-lockfile. */
async function openHold(path: string) {
  const { lock } = await import('proper-lockfile')
  let release: (() => Promise<void>) | undefined
  let compromised = false
  let touchedAt = 0
  let removes = true
  let tell = () => {}
  const touched = (at: number) => {
    touchedAt = Math.max(touchedAt, at)
  }
  // Others may take it once they have seen nothing for so long. The next touch tells whether they did.
  const sure = () => performance.now() - touchedAt < staleMs
  const onCompromised = () => {
    compromised = true
    tell()
  }
  const options = {
    fs: fsThatTells(touched, () => removes),
    stale: never,
    update: touchEveryMs,
    realpath: false,
    retries: 0,
  }
  return {
    sure,
    intact: () => !compromised,
    whenLost(told: () => void) {
      tell = told
    },
    /** @returns false when somebody else has it */
    async tryOnce() {
      try {
        compromised = false
        removes = true
        const now = performance.now()
        release = await lock(path, { ...options, onCompromised })
        touched(now)
        return true
      } catch (error) {
        const code = errorCodeOf(error)
        if (code === 'ELOCKED') return false
        // Made, and gone again: somebody else was about to take it.
        const isMaking = error instanceof Error && 'syscall' in error && error.syscall === 'mkdir'
        if (code === 'ENOENT' && !isMaking) return false
        throw error
      }
    },
    async release() {
      const free = release
      release = undefined
      if (!free) return
      // It may be another's after a long sleep, and then it is not ours to remove: the next touch tells.
      const deadline = performance.now() + staleMs
      while (!compromised && !sure() && performance.now() < deadline) await systemClock.sleep(askEveryMs)
      // Without an answer it is no longer touched all the same, so that others find it abandoned.
      removes = sure()
      if (!compromised) await free()
    },
  }
}

/** `fs` as proper-lockfile uses it, which says when it touched the folder, and asks before it removes one. */
function fsThatTells(touched: (at: number) => void, removes: () => boolean) {
  /** Time of the folder by the last look. */
  let seen: number | undefined
  return {
    ...fs,
    mkdir(folder: string, done: fs.NoParamCallback) {
      seen = undefined
      fs.mkdir(folder, done)
    },
    stat(folder: string, done: (error: Error | null, info: fs.Stats) => void) {
      fs.stat(folder, (error, info) => {
        seen = error ? undefined : info.mtimeMs
        done(error, info)
      })
    },
    utimes(folder: string, accessed: Date, modified: Date, done: fs.NoParamCallback) {
      const now = performance.now()
      // Whoever slept between the look and this touch may have lost the folder, and would take it from the next one.
      try {
        if (seen !== undefined && fs.statSync(folder).mtimeMs !== seen) return done(lostMeanwhile())
      } catch (error) {
        return done(error as NodeJS.ErrnoException)
      }
      fs.utimes(folder, accessed, modified, error => {
        if (!error) touched(now)
        done(error)
      })
    },
    rmdir(folder: string, done: fs.NoParamCallback) {
      if (removes()) fs.rmdir(folder, done)
      else done(null)
    },
  }
}

interface Abandoned {
  /** When its holder touched it last, Unix ms. */
  touchedAt: number
  /** For how long it was seen untouched. */
  watchedMs: number
}

/** What proper-lockfile takes for the loss of a lock. */
const lostMeanwhile = () => Object.assign(new Error('the lock folder is another’s'), { code: 'ENOENT' })

/**
 * Whether a lock folder is nobody's; looks on for some seconds if it is old. Who slept between two looks looks once
 * more: the holder may have slept as well, on a machine that stood still, and touches it now that it is awake.
 *
 * @returns undefined when it is somebody's
 */
async function seenAbandoned(folder: string, watch: Watch): Promise<Abandoned | undefined> {
  for (;;) {
    const touchedAt = await stat(folder).then(
      info => info.mtimeMs,
      () => undefined,
    )
    if (touchedAt === undefined) return undefined
    const touched = !watch.look(touchedAt)
    const old = Date.now() - touchedAt > staleMs
    if (watch.watchedMs >= (old ? surelyTouchedMs : staleMs)) {
      if (!watch.slept) return { touchedAt, watchedMs: watch.watchedMs }
    } else if (!old || (touched && watch.looks > 1)) return undefined
    await systemClock.sleep(lookEveryMs)
  }
}

/**
 * Takes an abandoned folder away. Several may have watched it, and one of them may have its own of that name by now,
 * which must not be moved under its feet, not even for a moment: whoever makes `<folder>.clearing` looks again, alone.
 *
 * @returns whether this process did it
 */
function clearedAway(folder: string, { touchedAt, watchedMs }: Abandoned): boolean {
  const clearing = `${folder}.clearing`
  const aside = join(clearing, 'lock')
  const isIt = (path: string) => fs.statSync(path).mtimeMs === touchedAt
  const end = () => fs.rmSync(clearing, { recursive: true, force: true })
  try {
    // Nobody is at it for so long: a crash left it.
    if (watchedMs >= 2 * staleMs) end()
    fs.mkdirSync(clearing)
  } catch {
    return false // Somebody else was quicker.
  }
  try {
    if (!isIt(folder)) return false
    fs.renameSync(folder, aside)
    // A holder may have woken up in between.
    const dead = isIt(aside)
    if (!dead) fs.renameSync(aside, folder)
    return dead
  } catch {
    return false
  } finally {
    end()
  }
}

/** How long a folder has been looked at without a touch. */
class Watch {
  watchedMs = 0
  looks = 0
  /** Whether the last look came later than looks do. */
  slept = false
  readonly #awake = new AwakeTime(systemClock, longestLookMs)
  #touchedAt: number | undefined

  /**
   * @param touchedAt when the folder was touched, by whatever clock its holder has
   * @returns whether it is as the look before saw it
   */
  look(touchedAt: number): boolean {
    const same = touchedAt === this.#touchedAt
    const sinceMs = this.#awake.look()
    this.slept = same && this.#awake.slept
    this.watchedMs = same ? this.watchedMs + sinceMs : 0
    this.#touchedAt = touchedAt
    this.looks += 1
    return same
  }

  forget(): void {
    this.#touchedAt = undefined
    this.looks = 0
  }
}
