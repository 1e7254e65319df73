/** The C library of the system, under Bun. */
import process from 'node:process'

type Functions = Parameters<typeof import('bun:ffi').dlopen>[1]

/** Its functions; undefined where there is none that we know. */
export async function openLibc<const Symbols extends Functions>(
  symbols: Symbols,
): Promise<import('bun:ffi').Library<Symbols>['symbols'] | undefined> {
  const { dlopen } = await import('bun:ffi')
  // musl's own file is called otherwise on each kind of machine, but it takes the name of glibc's for itself.
  const library = process.platform === 'darwin' ? 'libSystem.B.dylib' : 'libc.so.6'
  try {
    return dlopen(library, symbols).symbols
  } catch {
    return undefined
  }
}
