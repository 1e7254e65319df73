/**
 * Starts files of a release where nothing of the builder's is: in a root directory of their own, as an ordinary user, with a
 * network that reaches only itself.
 */
import { chownSync, cpSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { canContain, startIn } from '../../test/support/container.ts'
import { librariesOf, makeRoot } from '../../test/support/root.ts'
import type { Trial } from './trials.ts'

const sh = Bun.which('sh') ?? 'sh'

/** Returns the command in a network of its own, which has only loopback. */
export const withoutNetwork = (command: readonly string[]): string[] => [
  ...['unshare', '--net', '--', sh, '-c', 'ip link set lo up && exec "$@"', 'sh'],
  ...command,
]

/** Whether this machine and user can do that. */
const canIsolate =
  canContain && Bun.which('ldd') !== null && Bun.spawnSync(withoutNetwork(['true'])).exitCode === 0

/** A way to start a file of a release. */
export interface Way {
  file: string
  /** What starts it, for the notes. */
  by: string
  /** The program with paths as they are in the root directory. */
  program: readonly string[]
  /** Programs and folders by their paths in the root directory; undefined for one that this machine lacks. */
  files: Readonly<Record<string, string | undefined>>
  /** It is used as a library, by `scripts/smoke/talk.mjs`. */
  isLibrary?: true
}

/** Returns the trial of a way: in a root directory of its own if that can be had, otherwise as it is here. */
export function tryElsewhere({ file, by, program, files, isLibrary }: Way, stack: DisposableStack): Trial {
  const present = Object.entries(files).filter((entry): entry is [string, string] => entry[1] !== undefined)
  const missing = Object.keys(files).length - present.length
  if (missing > 0) return { file, where: `${by}: this machine lacks that program` }
  if (!canIsolate) {
    const outside = (word: string) =>
      present.reduce(
        (path, [inside, here]) => (word.startsWith(inside) ? word.replace(inside, here) : path),
        word,
      )
    return { file, command: program.map(outside), where: by, isLibrary }
  }
  const root = stack.use(makeRoot())
  // svc starts agents by a shell.
  for (const [inside, here] of [...present, ['/bin/sh', '/bin/sh'] as const]) {
    if (statSync(here).isDirectory())
      cpSync(here, join(root.root, inside), { recursive: true, verbatimSymlinks: true })
    else
      for (const [to, from] of [[inside, here], ...librariesOf(here).map(path => [path, path])])
        root.add(to!, from)
  }
  const outside = join(root.data, 'svc')
  mkdirSync(outside)
  chownSync(outside, root.user, root.user)
  const where = `${by}, in an empty root directory without a network`
  return { file, command: startIn(root, program), where, data: { outside, inside: '/data/svc' }, isLibrary }
}
