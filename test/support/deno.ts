/** Deno, from the package that brings its binary; there is none for every machine that Bun runs on, such as with musl. */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const modules = fileURLToPath(new URL('../../node_modules', import.meta.url))

/** Its path; undefined where there is none. */
export const deno: string | undefined = [...new Bun.Glob('@deno/*/deno').scanSync(modules)].map(path =>
  join(modules, path),
)[0]

/** How it runs a program, on the packages that lie there: nothing is downloaded. */
export const denoRun = (program: string, allowed: readonly string[] = ['--allow-all']): string[] => [
  ...[deno ?? 'deno', 'run', '--no-prompt', '--node-modules-dir=manual', ...allowed],
  program,
]

/** Deno keeps what it translated; not in the data directory, which is the HOME of what the tests start. */
export const denoEnv: Record<string, string> = { DENO_DIR: join(modules, '.cache/deno') }

/** What a test says in its name where there is no Deno. */
export const denoOrNone: string = deno ? 'Deno' : 'Deno (there is none for this machine)'
