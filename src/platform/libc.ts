/** Opens the system's C library under Bun. */
import process from 'node:process'

type Functions = Parameters<typeof import('bun:ffi').dlopen>[1]

/** Returns its functions; undefined on a system whose library is not known. */
export async function openLibc<const Symbols extends Functions>(
  symbols: Symbols,
): Promise<import('bun:ffi').Library<Symbols>['symbols'] | undefined> {
  const { dlopen } = await import('bun:ffi')
  // The file of musl has another name on each architecture, but musl also answers to the name of glibc's.
  const library = process.platform === 'darwin' ? 'libSystem.B.dylib' : 'libc.so.6'
  try {
    return dlopen(library, symbols).symbols
  } catch {
    return undefined
  }
}
