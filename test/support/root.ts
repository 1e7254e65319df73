/** A root directory with what a program needs, and nothing else; to be run as a container. For root on Linux alone. */
import { chmodSync, chownSync, copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Container } from './container.ts'

export interface Root extends Container, Disposable {
  /** Copies a file of this machine to a path in there, what links lead to included. */
  add(path: string, from?: string): void
}

/** Of an ordinary user, with `proc` and `data` alone, both of them empty. */
export function makeRoot(): Root {
  const root = mkdtempSync(join(tmpdir(), 'svc-root-'))
  chmodSync(root, 0o755) // Not for its owner alone: others run in there.
  const [data, user] = [join(root, 'data'), 65532]
  for (const name of ['proc', 'data']) mkdirSync(join(root, name))
  chownSync(data, user, user)
  return {
    ...{ root, data, user, env: { HOME: '/data' } },
    add(path, from = path) {
      mkdirSync(dirname(join(root, path)), { recursive: true })
      copyFileSync(from, join(root, path))
    },
    [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }),
  }
}

/** The loader and the libraries that a program of this machine asks for, as their paths. */
export function librariesOf(program: string): string[] {
  const { stdout } = Bun.spawnSync(['ldd', program], { stderr: 'ignore' })
  return stdout.toString().match(/\/\S+(?= \(0x)/g) ?? []
}
