/** Deno, from the npm package with its binary. Some platforms of Bun have no such package (musl). */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const modules = fileURLToPath(new URL('../../node_modules', import.meta.url))

/** Path of Deno; undefined if there is none. */
export const deno: string | undefined = [...new Bun.Glob('@deno/*/deno').scanSync(modules)].map(path =>
  join(modules, path),
)[0]

/** Returns the command that runs a program with Deno on the installed packages, without downloads. */
export const denoRun = (program: string, allowed: readonly string[] = ['--allow-all']): string[] => [
  deno ?? 'deno',
  'run',
  '--no-prompt',
  '--node-modules-dir=manual',
  ...allowed,
  program,
]

/** Cache of Deno. Outside the data directory, which is the HOME of the started programs. */
export const denoEnv: Record<string, string> = { DENO_DIR: join(modules, '.cache/deno') }

/** Name of the runtime in a test's title. */
export const denoOrNone: string = deno ? 'Deno' : 'Deno (there is none for this machine)'
