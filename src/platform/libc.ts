/** The C library of the system, under Bun. */

type Functions = Parameters<typeof import('bun:ffi').dlopen>[1]

import process from 'node:process'

/** Its functions; undefined where there is none that we know. */
export async function openLibc<const Symbols extends Functions>(
  symbols: Symbols,
): Promise<import('bun:ffi').Library<Symbols>['symbols'] | undefined> {
  const { dlopen } = await import('bun:ffi')
  const libraries =
    process.platform === 'darwin'
      ? ['libSystem.B.dylib']
      : ['libc.so.6', `libc.musl-${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}.so.1`]
  for (const library of libraries) {
    try {
      return dlopen(library, symbols).symbols
    } catch {
      // Another C library, then.
    }
  }
  return undefined
}
