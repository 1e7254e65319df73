/** A root directory of its own for a program: what it needs, and nothing else. For root on Linux alone. */
import { chmodSync, chownSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

export interface Root extends Disposable {
  readonly dir: string
  /** The data directory as it is seen from here; the program sees `/data`. */
  readonly data: string
  /** Copies a file of this machine to a path in there, what links lead to included. */
  add(path: string, from?: string): void
  link(path: string, to: string): void
  /** How to start a program in there. What gets mounted for it goes when its last process ends, come what may. */
  command(program: string, options?: { user?: number; readOnly?: boolean }): string[]
}

/** With `proc`, `tmp` and `data`, all of them empty. */
export function makeRoot(): Root {
  const dir = mkdtempSync(join(tmpdir(), 'svc-root-'))
  chmodSync(dir, 0o755) // Not for its owner alone: others run in there.
  const data = join(dir, 'data')
  for (const name of ['proc', 'tmp', 'data']) mkdirSync(join(dir, name), { mode: 0o777 })
  const place = (path: string) => {
    mkdirSync(dirname(join(dir, path)), { recursive: true })
    return join(dir, path)
  }
  return {
    dir,
    data,
    add: (path, from = path) => copyFileSync(from, place(path)),
    link: (path, to) => symlinkSync(to, place(path)),
    command(program, { user = 0, readOnly = false } = {}) {
      chownSync(data, user, user)
      const bind = readOnly ? 'mount --bind "$0" "$0" && mount --bind "$0/data" "$0/data" &&' : ''
      const lock = readOnly ? 'mount -o remount,bind,ro "$0" &&' : ''
      const script = `${bind} mount -t proc proc "$0/proc" && ${lock} exec chroot --userspec=${user}:${user} "$0" "$@"`
      // Nothing that is mounted in there is seen outside.
      return ['unshare', '--mount', 'sh', '-c', script, dir, program]
    },
    [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }),
  }
}

/** The loader and the libraries that a program of this machine asks for, as their paths. */
export function librariesOf(program: string): string[] {
  const { stdout } = Bun.spawnSync(['ldd', program], { stderr: 'ignore' })
  return stdout.toString().match(/\/\S+(?= \(0x)/g) ?? []
}
