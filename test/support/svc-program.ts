/** What the tests start when they start svc. */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url))

/**
 * SVC_TEST_PROGRAM names it: a path, or words between blanks. `./scripts/test` builds the binary once for all files, which
 * starts in a third of the time. By hand the sources run under the Bun that runs the tests;
 * `SVC_TEST_PROGRAM="deno run -A $PWD/src/main.ts" bun test test/faults` tries them under Deno.
 */
export const svcProgram: readonly string[] = named(process.env.SVC_TEST_PROGRAM) ?? [bun(), main]

/** As svc names it: npm's Bun is called bun.exe on every system, and has a link of the usual name. */
function bun(): string {
  const link = process.execPath.replace(/\/bun\/bin\/bun\.exe$/, '/.bin/bun')
  return existsSync(link) ? link : process.execPath
}

function named(program: string | undefined): string[] | undefined {
  if (!program) return undefined
  return existsSync(program) ? [program] : program.split(' ')
}
