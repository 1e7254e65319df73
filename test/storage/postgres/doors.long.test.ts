/**
 * Every operation at every door, keys, webhooks, MCP and the panel's calls, with the store on PostgreSQL: the tests of
 * the doors run once more, in a process whose gateways have a database each (`test/support/shared-store.ts`).
 */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import process from 'node:process'
import { ended } from '../../support/ended.ts'
import { isPostgresThere } from '../../support/postgres.ts'

const root = join(import.meta.dir, '../../..')

/** Folders whose usual tests run. */
const folders = ['access', 'operations', 'mcp', 'relay', 'server', 'push', 'library']

/**
 * Files of these folders that are about SQLite's engine or a data directory as a whole. Single tests of that kind in other
 * files are `testOfFiles` (`test/support/given.ts`).
 */
const apart: Readonly<Record<string, string>> = {
  'library/processes.test.ts': 'starts programs on one data directory',
  'server/long-poll.test.ts': 'counts statements of SQLite',
}

const files = folders
  .flatMap(folder => [...new Bun.Glob(`${folder}/*.test.ts`).scanSync(join(root, 'test'))])
  .filter(file => !file.includes('.long.') && apart[file] === undefined)
  .sort()

test('files are left out by their names', () => {
  for (const file of Object.keys(apart))
    expect([...new Bun.Glob(file).scanSync(join(root, 'test'))]).toEqual([file])
})

test.skipIf(!isPostgresThere()).each(files)(
  '%s passes with its store on PostgreSQL',
  async file => {
    const { status, stderr } = await ended(
      [process.execPath, 'test', '--timeout=240000', join(root, 'test', file)],
      {
        cwd: root,
        env: { ...(process.env as Record<string, string>), SVC_TEST_STORE: 'postgres' },
        withinMs: 900_000,
      },
    )
    expect([status, status === 0 ? '' : stderr]).toEqual([0, ''])
  },
  900_000,
)
