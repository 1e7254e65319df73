/** The system's C library under Bun, and what it alone shows. */
import process from 'node:process'
import { attempt } from './fields.ts'

type Functions = Parameters<typeof import('bun:ffi').dlopen>[1]

/** Returns its functions; undefined on a system whose library is not known. */
export async function openLibc<const Symbols extends Functions>(
  symbols: Symbols,
): Promise<import('bun:ffi').Library<Symbols>['symbols'] | undefined> {
  const { dlopen } = await import('bun:ffi')
  // The file of musl has another name on each architecture, but musl also answers to the name of glibc's.
  const library = process.platform === 'darwin' ? 'libSystem.B.dylib' : 'libc.so.6'
  return attempt(() => dlopen(library, symbols).symbols)
}

/** `poll` reports these for a pipe or socket whose other end is closed: POLLERR, POLLHUP, POLLNVAL. */
const closedEvents = 0x8 | 0x10 | 0x20

/**
 * Returns whether the other end of an open pipe or socket is still open, without writing to it; undefined where
 * the runtime or the system cannot tell.
 */
export async function isPeerOpen(fd: number): Promise<boolean | undefined> {
  if (!process.versions.bun || process.platform === 'win32') return undefined
  const libc = await openLibc({ poll: { args: ['ptr', 'u64', 'i32'], returns: 'i32' } })
  // A `pollfd`: the descriptor, and the wanted and the reported events as two short integers.
  const asked = new Int32Array([fd, 0])
  if (!libc || libc.poll(asked, 1, 0) < 0) return undefined
  return ((asked[1]! >> 16) & closedEvents) === 0
}
