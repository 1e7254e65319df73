/**
 * A lock engine for systems without flock: a folder `<file>.lock` that its holder touches every 2 s. A killed
 * holder leaves the folder behind, so others must tell a dead holder from a live one.
 *
 * proper-lockfile creates the folder, touches it on a timer, and removes it when the process exits. This file
 * does the rest: it finds and clears abandoned folders, and notices a lost lock.
 *
 * Waiting processes watch the folder: if it is not touched for 8 s while they watch, it is abandoned.
 * proper-lockfile itself compares the folder's time with the wall clock instead. Then a clock set forward
 * takes the lock from a live holder, and a clock set back leaves it with a dead one. A folder that is old
 * by the wall clock is watched for only 3 s, and within the same call, because a caller may try only once.
 */
import * as fs from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { AwakeTime, systemClock } from './clock.ts'
import { errorCodeOf } from './files.ts'
import { type LockEngine, writeNote } from './lock-form.ts'

const touchEveryMs = 2000
/**
 * A lock that is not touched for this long is free. Compared with the wall clock, this is only a first guess.
 */
export const staleLockMs = 8000
/** How long to watch a folder that is old by the wall clock: long enough to see a live holder touch it. */
const oldFolderWatchMs = 3000
/**
 * The most that one check adds to the watched time: a process that slept between two checks did not watch.
 */
const longestGapMs = 1500
const checkEveryMs = 250
/** Interval of the check whether a touch has shown who holds the folder. */
const releaseCheckMs = 20
/** Switches off proper-lockfile's own test for stale folders: no folder is this old. */
const neverStale = 1e15

export async function openLockFolder(path: string): Promise<LockEngine> {
  const folder = `${path}.lock`
  const fd = fs.openSync(path, 'r+')
  const watch = new FolderWatch()
  const held = await openHold(path)
  return {
    async take(note) {
      if (!(await held.tryOnce())) {
        const abandoned = await findAbandoned(folder, watch)
        if (!abandoned || !clearAway(folder, abandoned)) return false
        if (!(await held.tryOnce())) return false
      }
      watch.forget()
      if (note !== undefined) writeNote(fd, 'lockfile', note)
      return true
    },
    release: held.release,
    isIntact: held.intact,
    isSurelyHeld: held.sure,
    onLost: held.whenLost,
    async close() {
      await held.release()
      fs.closeSync(fd)
    },
  }
}

/** Lets this process hold the folder through proper-lockfile. */
async function openHold(path: string) {
  const { lock } = await import('proper-lockfile')
  let release: (() => Promise<void>) | undefined
  let compromised = false
  let touchedAt = 0
  let mayRemove = true
  let notifyLost = () => {}
  const touched = (at: number) => {
    touchedAt = Math.max(touchedAt, at)
  }
  // After this time without a touch, others may take the lock. The next touch shows whether they did.
  const sure = () => performance.now() - touchedAt < staleLockMs
  const onCompromised = () => {
    compromised = true
    notifyLost()
  }
  const options = {
    fs: createObservedFs(touched, () => mayRemove),
    stale: neverStale,
    update: touchEveryMs,
    realpath: false,
    retries: 0,
  }
  return {
    sure,
    intact: () => !compromised,
    whenLost(listener: () => void) {
      notifyLost = listener
    },
    /** @returns false when another process holds the lock */
    async tryOnce() {
      try {
        compromised = false
        mayRemove = true
        const now = performance.now()
        release = await lock(path, { ...options, onCompromised })
        touched(now)
        return true
      } catch (error) {
        const code = errorCodeOf(error)
        if (code === 'ELOCKED') return false
        // The folder was created and is gone again: another process was about to take it.
        const isMaking = error instanceof Error && 'syscall' in error && error.syscall === 'mkdir'
        if (code === 'ENOENT' && !isMaking) return false
        throw error
      }
    },
    async release() {
      const releaseFolder = release
      release = undefined
      if (!releaseFolder) return
      // After a long sleep the folder may belong to another process and must not be removed: the next touch
      // shows it.
      const deadline = performance.now() + staleLockMs
      while (!compromised && !sure() && performance.now() < deadline) await systemClock.sleep(releaseCheckMs)
      // If that is still unknown, do not remove the folder. It is no longer touched, so others will find it
      // abandoned.
      mayRemove = sure()
      if (!compromised) await releaseFolder()
    },
  }
}

/**
 * Returns `fs` for proper-lockfile. It reports each touch of the folder, and asks before it removes the
 * folder.
 */
function createObservedFs(touched: (at: number) => void, mayRemoveFolder: () => boolean) {
  /** The folder's time as last read. */
  let seenTime: number | undefined
  return {
    ...fs,
    mkdir(folder: string, done: fs.NoParamCallback) {
      seenTime = undefined
      fs.mkdir(folder, done)
    },
    stat(folder: string, done: (error: Error | null, info: fs.Stats) => void) {
      fs.stat(folder, (error, info) => {
        seenTime = error ? undefined : info.mtimeMs
        done(error, info)
      })
    },
    utimes(folder: string, accessed: Date, modified: Date, done: fs.NoParamCallback) {
      const now = performance.now()
      // A process that slept between the `stat` and this touch may have lost the folder, and would take it
      // from the new holder.
      try {
        if (seenTime !== undefined && fs.statSync(folder).mtimeMs !== seenTime) return done(lockLostError())
      } catch (error) {
        return done(error as NodeJS.ErrnoException)
      }
      fs.utimes(folder, accessed, modified, error => {
        if (!error) touched(now)
        done(error)
      })
    },
    rmdir(folder: string, done: fs.NoParamCallback) {
      if (mayRemoveFolder()) fs.rmdir(folder, done)
      else done(null)
    },
  }
}

interface Abandoned {
  /** When the holder last touched the folder, Unix ms. */
  touchedAt: number
  /** How long it was seen untouched, in ms. */
  watchedMs: number
}

/** Returns the error that proper-lockfile treats as the loss of a lock. */
const lockLostError = () => Object.assign(new Error('the lock folder is another’s'), { code: 'ENOENT' })

/**
 * Checks whether a lock folder is abandoned; watches an old one for some seconds. If this process slept
 * between two checks, it checks once more: on a machine that stood still, the holder slept too and touches
 * the folder when it wakes.
 *
 * @returns undefined when the folder has a holder or is absent
 */
async function findAbandoned(folder: string, watch: FolderWatch): Promise<Abandoned | undefined> {
  for (;;) {
    const touchedAt = await stat(folder).then(
      info => info.mtimeMs,
      () => undefined,
    )
    if (touchedAt === undefined) return undefined
    const isTouched = !watch.check(touchedAt)
    const isOld = Date.now() - touchedAt > staleLockMs
    if (watch.watchedMs >= (isOld ? oldFolderWatchMs : staleLockMs)) {
      if (!watch.hasSlept) return { touchedAt, watchedMs: watch.watchedMs }
    } else if (!isOld || (isTouched && watch.checks > 1)) return undefined
    await systemClock.sleep(checkEveryMs)
  }
}

/**
 * Removes an abandoned folder. Several processes may have watched it, and one of them may already hold a new
 * folder of that name, which must not be moved even for a moment. So the process that creates
 * `<folder>.clearing` checks again, alone.
 *
 * @returns whether this process removed it
 */
function clearAway(folder: string, { touchedAt, watchedMs }: Abandoned): boolean {
  const clearing = `${folder}.clearing`
  const aside = join(clearing, 'lock')
  const isSameFolder = (path: string) => fs.statSync(path).mtimeMs === touchedAt
  const removeClearing = () => fs.rmSync(clearing, { recursive: true, force: true })
  try {
    // No process needs this long to clear a folder: a crash left `.clearing` behind.
    if (watchedMs >= 2 * staleLockMs) removeClearing()
    fs.mkdirSync(clearing)
  } catch {
    return false // Another process was quicker.
  }
  try {
    if (!isSameFolder(folder)) return false
    fs.renameSync(folder, aside)
    // The holder may have woken up in between.
    const isDead = isSameFolder(aside)
    if (!isDead) fs.renameSync(aside, folder)
    return isDead
  } catch {
    return false
  } finally {
    removeClearing()
  }
}

/** Measures how long a folder has been watched without a touch. */
class FolderWatch {
  watchedMs = 0
  checks = 0
  /** Whether this process slept before the last check. */
  hasSlept = false
  readonly #awake = new AwakeTime(systemClock, longestGapMs)
  #touchedAt: number | undefined

  /**
   * @param touchedAt when the folder was touched, by the clock of its holder
   * @returns whether the folder is unchanged since the last check
   */
  check(touchedAt: number): boolean {
    const isSame = touchedAt === this.#touchedAt
    const sinceMs = this.#awake.measure()
    this.hasSlept = isSame && this.#awake.hasSlept
    this.watchedMs = isSame ? this.watchedMs + sinceMs : 0
    this.#touchedAt = touchedAt
    this.checks += 1
    return isSame
  }

  forget(): void {
    this.#touchedAt = undefined
    this.checks = 0
  }
}
