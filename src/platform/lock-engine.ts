/**
 * Two methods to lock a file between processes: the kernel's flock, and proper-lockfile where there is no
 * flock.
 */
import { closeSync, fstatSync, openSync, statSync } from 'node:fs'
import { readFile, unlink, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import process from 'node:process'
import { randomBytes } from './lazy-crypto.ts'
import { openLibc } from './libc.ts'
import { openLockFolder, staleLockMs } from './lock-folder.ts'
import { kindOf, type LockEngine, type LockKind, lockFileError, writeNote } from './lock-form.ts'
import { noLocksError } from './system-error.ts'

/**
 * @throws Error when the kind cannot be used here; SvcError `store_unavailable` when the file system has no
 *   locks
 */
export async function openLockEngine(kind: LockKind, path: string): Promise<LockEngine> {
  if (kind === 'lockfile') return openLockFolder(path)
  const file = await openFlockFile(path)
  if (!file) throw new Error('this runtime has no flock')
  // Where locks never succeed, it would look as if another process held the lock. If the test itself fails,
  // trust flock.
  if (await flockWorks(path).catch(() => true)) return openFlockEngine(path, file)
  file.close()
  throw noLocksError(dirname(path))
}

/**
 * Returns whether flock works in the folder of `path`. Tests it on a temporary file: some file systems lack
 * flock, and some grant a lock twice.
 */
export async function flockWorks(path: string): Promise<boolean> {
  const probe = `${path}.${randomBytes(6).toString('hex')}.tmp`
  await writeFile(probe, '', { flag: 'wx', mode: 0o600 })
  const files: (FlockFile | undefined)[] = []
  try {
    for (let opened = 0; opened < 2; opened++) files.push(await openFlockFile(probe))
    const [first, second] = files
    return (await first?.tryLock()) === true && (await second?.tryLock()) === false
  } finally {
    for (const file of files) file?.close()
    await unlink(probe).catch(() => {})
  }
}

/**
 * Returns whether a process holds the lock file; undefined if this runtime has no locks of this kind. Does
 * not change the file. For `flock` it takes a shared lock for a moment.
 */
export async function isTaken(kind: LockKind, path: string): Promise<boolean | undefined> {
  if (kind === 'lockfile') {
    const { check } = await import('proper-lockfile')
    return check(path, { stale: staleLockMs, realpath: false })
  }
  const file = await openFlockFile(path, 'r')
  if (!file) return undefined
  try {
    return !(await file.tryLock())
  } finally {
    file.close()
  }
}

/** An open file that the kernel can lock. Closing it, or the death of the process, frees the lock. */
interface FlockFile {
  tryLock(): Promise<boolean>
  unlock(): Promise<void>
  close(): void
}

interface DenoRuntime {
  open(path: string, options: { read: true; write: boolean }): Promise<FlockDenoFile>
}
interface FlockDenoFile {
  tryLock(exclusive: boolean): Promise<boolean>
  unlock(): Promise<void>
  close(): void
}

/**
 * Opens a file for locking, close-on-exec; undefined where the runtime has no flock. `r` allows only a shared
 * lock.
 */
async function openFlockFile(path: string, mode: 'r' | 'r+' = 'r+'): Promise<FlockFile | undefined> {
  const shared = mode === 'r'
  // Windows locks are mandatory: no other process could read the kind in the first line.
  if (process.platform === 'win32') return undefined
  if (process.versions.bun) {
    const flock = await loadFlock()
    if (!flock) return undefined
    const fd = openSync(path, mode)
    return {
      tryLock: async () => flock(fd, (shared ? share : exclusive) | nonBlocking) === 0,
      unlock: async () => void flock(fd, free),
      close: () => closeSync(fd),
    }
  }
  const { Deno } = globalThis as { Deno?: DenoRuntime }
  const file = await Deno?.open(path, { read: true, write: !shared })
  return (
    file && { tryLock: () => file.tryLock(!shared), unlock: () => file.unlock(), close: () => file.close() }
  )
}

// sys/file.h, the same on Linux and macOS.
const share = 1
const exclusive = 2
const nonBlocking = 4
const free = 8

const loadFlock = async () => (await openLibc({ flock: { args: ['i32', 'i32'], returns: 'i32' } }))?.flock

async function openFlockEngine(path: string, opened: FlockFile): Promise<LockEngine> {
  let file = opened
  let fd = openSync(path, 'r+')
  let ours = fstatSync(fd)
  const isOurFile = () => {
    const theirs = statSync(path, { throwIfNoEntry: false })
    return theirs?.ino === ours.ino && theirs.dev === ours.dev
  }
  const close = () => {
    file.close()
    closeSync(fd)
  }
  return {
    isIntact: isOurFile,
    async take(note) {
      // If the file was removed or replaced, a lock on the old one excludes no other process.
      for (let tries = 0; tries < 10; tries++) {
        if (!(await file.tryLock())) return false
        if (isOurFile()) {
          if (note !== undefined) writeNote(fd, 'flock', note)
          return true
        }
        await writeFile(path, 'flock\n', { flag: 'wx', mode: 0o600 }).catch(() => {})
        if (kindOf((await readFile(path, 'utf8')).split('\n', 1)[0] ?? '') !== 'flock')
          throw lockFileError(path, 'was replaced by one of another kind')
        const next = await openFlockFile(path)
        if (!next) return false
        const nextFd = openSync(path, 'r+')
        close()
        file = next
        fd = nextFd
        ours = fstatSync(fd)
      }
      return false
    },
    release: () => file.unlock(),
    isSurelyHeld: () => true,
    // The kernel takes no lock away. A removed file is found by the regular check.
    onLost: () => {},
    close: async () => close(),
  }
}
