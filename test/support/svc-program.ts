/** What the tests start when they start svc. */
import { fileURLToPath } from 'node:url'

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url))

/**
 * The sources under the Bun that runs the tests. SVC_TEST_PROGRAM names another, as words between blanks: by hand,
 * `SVC_TEST_PROGRAM="deno run -A $PWD/src/main.ts" bun test test/faults` tries them under Deno.
 */
export const svcProgram: readonly string[] = process.env.SVC_TEST_PROGRAM?.split(' ') ?? [
  process.execPath,
  main,
]
