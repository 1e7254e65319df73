/** The file of a Unix socket that a server listens on: private to its user, and removed with the server. */
import { lstat, unlink } from 'node:fs/promises'
import { connect } from 'node:net'
import process from 'node:process'
import { errorCodeOf, lstatOf, removeQuietly } from './files.ts'

/**
 * Removes the socket that a dead process left at `path`.
 *
 * @throws Error with `code` EADDRINUSE when a process listens there, EEXIST when something else than a socket
 *   is there
 */
export async function clearSocket(path: string): Promise<void> {
  const found = await lstatOf(path)
  if (!found) return
  if (!found.isSocket()) throw Object.assign(new Error(`${path} is no socket`), { code: 'EEXIST' })
  if (await isListening(path)) throw Object.assign(new Error(`${path} is in use`), { code: 'EADDRINUSE' })
  await unlink(path)
}

/** Returns whether a process listens there. Only a refused connection means no. */
const isListening = (path: string): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect(path, () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', error => resolve(errorCodeOf(error) !== 'ECONNREFUSED'))
  })

/** Runs `listen`, so that the socket it creates is private to this user from its first moment. */
export function runPrivately<T>(listen: () => T): T {
  const before = process.umask(0o177)
  try {
    return listen()
  } finally {
    process.umask(before)
  }
}

/** @returns a function that removes the file at `path` if it is still the same file as now */
export async function trackSocket(path: string): Promise<() => Promise<void>> {
  const { ino } = await lstat(path)
  return async () => {
    const found = await lstat(path).catch(() => undefined)
    if (found?.ino === ino) await removeQuietly(path)
  }
}
