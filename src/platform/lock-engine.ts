/** The two ways to hold a lock file between processes: the kernel's flock, and proper-lockfile where there is none. */
import { closeSync, fstatSync, openSync, statSync, writeSync } from 'node:fs'
import { readFile, unlink, writeFile } from 'node:fs/promises'
import process from 'node:process'

export type LockKind = 'flock' | 'lockfile'

/** One lock file, opened. The file exists already, with its kind in the first line. */
export interface LockEngine {
  /** Takes the lock if it is free; `note` is left in the file for the messages of other processes. */
  take(note: string): Promise<boolean>
  release(): Promise<void>
  /** Whether the lock that was taken still excludes others. */
  intact(): boolean
  close(): Promise<void>
}

/** @throws Error when the kind cannot be used here */
export async function openEngine(kind: LockKind, path: string): Promise<LockEngine> {
  if (kind === 'lockfile') return openLockfileEngine(path)
  const file = await openFlockFile(path)
  if (!file) throw new Error('this runtime has no flock')
  return openFlockEngine(path, file)
}

/** Whether flock works in the folder of `probe`, a path to a file that does not exist: some file systems lack it. */
export async function flockWorks(probe: string): Promise<boolean> {
  await writeFile(probe, '', { flag: 'wx', mode: 0o600 })
  try {
    const file = await openFlockFile(probe)
    if (!file) return false
    try {
      return await file.tryLock()
    } finally {
      file.close()
    }
  } finally {
    await unlink(probe).catch(() => {})
  }
}

/** Puts who took the lock behind the first line; fixed width, so that no older text shows behind it. */
const leaveNote = (fd: number, kind: LockKind, note: string) =>
  void writeSync(fd, `${kind}\n${note.padEnd(62)}\n`, 0)

/** An open file that the kernel can lock. Closing it, or the death of the process, frees the lock. */
interface FlockFile {
  tryLock(): Promise<boolean>
  unlock(): Promise<void>
  close(): void
}

interface DenoRuntime {
  open(path: string, options: { read: true; write: true }): Promise<FlockDenoFile>
}
interface FlockDenoFile {
  tryLock(exclusive: boolean): Promise<boolean>
  unlock(): Promise<void>
  close(): void
}

/** Opens for locking, close-on-exec; undefined where the runtime has no flock. */
async function openFlockFile(path: string): Promise<FlockFile | undefined> {
  // Windows locks are mandatory: nobody else could read the kind in the first line.
  if (process.platform === 'win32') return undefined
  if (process.versions.bun) {
    const flock = await loadFlock()
    if (!flock) return undefined
    const fd = openSync(path, 'r+')
    return {
      tryLock: async () => flock(fd, exclusive | nonBlocking) === 0,
      unlock: async () => void flock(fd, free),
      close: () => closeSync(fd),
    }
  }
  const { Deno } = globalThis as { Deno?: DenoRuntime }
  const file = await Deno?.open(path, { read: true, write: true })
  return file && { tryLock: () => file.tryLock(true), unlock: () => file.unlock(), close: () => file.close() }
}

// sys/file.h, the same on Linux and macOS.
const exclusive = 2
const nonBlocking = 4
const free = 8

async function loadFlock(): Promise<((fd: number, operation: number) => number) | undefined> {
  const { dlopen } = await import('bun:ffi')
  const libraries =
    process.platform === 'darwin'
      ? ['libSystem.B.dylib']
      : ['libc.so.6', `libc.musl-${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}.so.1`]
  for (const library of libraries) {
    try {
      return dlopen(library, { flock: { args: ['i32', 'i32'], returns: 'i32' } }).symbols.flock
    } catch {
      // Another C library, then.
    }
  }
  return undefined
}

async function openFlockEngine(path: string, opened: FlockFile): Promise<LockEngine> {
  let file = opened
  let fd = openSync(path, 'r+')
  const intact = () => {
    const ours = fstatSync(fd)
    const theirs = statSync(path, { throwIfNoEntry: false })
    return theirs?.ino === ours.ino && theirs.dev === ours.dev
  }
  const close = () => {
    file.close()
    closeSync(fd)
  }
  return {
    intact,
    async take(note) {
      // Somebody may have removed or replaced the file: then the lock on the old one excludes nobody.
      for (let tries = 0; tries < 10; tries++) {
        if (!(await file.tryLock())) return false
        if (intact()) {
          leaveNote(fd, 'flock', note)
          return true
        }
        await writeFile(path, 'flock\n', { flag: 'wx', mode: 0o600 }).catch(() => {})
        if (!(await readFile(path, 'utf8')).startsWith('flock\n'))
          throw new Error('the lock file was replaced')
        const next = await openFlockFile(path)
        if (!next) return false
        close()
        file = next
        fd = openSync(path, 'r+')
      }
      return false
    },
    release: () => file.unlock(),
    close: async () => close(),
  }
}

async function openLockfileEngine(path: string): Promise<LockEngine> {
  const { lock } = await import('proper-lockfile')
  const fd = openSync(path, 'r+')
  let release: (() => Promise<void>) | undefined
  let compromised = false
  const free = async () => {
    const held = release
    release = undefined
    // A lock that was lost is not ours to remove.
    if (held && !compromised) await held()
  }
  return {
    async take(note) {
      try {
        compromised = false
        release = await lock(path, {
          stale: 15_000,
          update: 3000,
          realpath: false,
          retries: 0,
          onCompromised: () => {
            compromised = true
          },
        })
      } catch (error) {
        if (error instanceof Error && 'code' in error && error.code === 'ELOCKED') return false
        throw error
      }
      leaveNote(fd, 'lockfile', note)
      return true
    },
    release: free,
    intact: () => !compromised,
    async close() {
      await free()
      closeSync(fd)
    },
  }
}
