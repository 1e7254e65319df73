/** The svc program that tests start. */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url))

/**
 * Command that starts svc. SVC_TEST_PROGRAM can name it: a path, or words separated by spaces.
 * `./scripts/test` builds the binary once for all files, which starts in a third of the time. By default
 * the sources run under the Bun of the tests. `SVC_TEST_PROGRAM="deno run -A $PWD/src/main.ts" bun test
 * test/faults` uses Deno.
 */
export const svcProgram: readonly string[] = named(process.env.SVC_TEST_PROGRAM) ?? [bun(), main]

/**
 * Path of Bun in the form that svc uses: npm's Bun is called bun.exe on every system, and has a link with
 * the usual name.
 */
function bun(): string {
  const link = process.execPath.replace(/\/bun\/bin\/bun\.exe$/, '/.bin/bun')
  return existsSync(link) ? link : process.execPath
}

function named(program: string | undefined): string[] | undefined {
  if (!program) return undefined
  return existsSync(program) ? [program] : program.split(' ')
}
