/** A minimal root directory for a program, to run as a container. Needs root on Linux. */
import { chmodSync, chownSync, copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Container } from './container.ts'

export interface Root extends Container, Disposable {
  /** Copies a file of this machine to a path inside; follows links. */
  add(path: string, from?: string): void
}

/** Creates the root of an ordinary user, with the empty folders `proc` and `data`. */
export function makeRoot(): Root {
  const root = mkdtempSync(join(tmpdir(), 'svc-root-'))
  chmodSync(root, 0o755) // Other users must be able to run programs in it.
  const [data, user] = [join(root, 'data'), 65532]
  for (const name of ['proc', 'data']) mkdirSync(join(root, name))
  chownSync(data, user, user)
  return {
    root,
    data,
    user,
    env: { HOME: '/data' },
    add(path, from = path) {
      mkdirSync(dirname(join(root, path)), { recursive: true })
      copyFileSync(from, join(root, path))
    },
    [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }),
  }
}

/** Returns the paths of the loader and the libraries that a program of this machine needs. */
export function librariesOf(program: string): string[] {
  const { stdout } = Bun.spawnSync(['ldd', program], { stderr: 'ignore' })
  return stdout.toString().match(/\/\S+(?= \(0x)/g) ?? []
}
