/**
 * What every engine must do, with the ids that the usual run leaves out: SQLite with those of a store that is years old (past
 * 2^31, places of events near 2^53), PostgreSQL with those of a new one.
 */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { ended } from '../support/ended.ts'

const root = join(import.meta.dir, '../..')
const files = [...new Bun.Glob('test/**/*.test.ts').scanSync(root)].filter(
  file => !file.includes('.long.') && readFileSync(join(root, file), 'utf8').includes('\nonEach('),
)

test('every file of the contract is found', () => expect(files.length).toBeGreaterThan(20))

test.each(files)(
  '%s passes with the other ids',
  async file => {
    const { status, stderr } = await ended([process.execPath, 'test', '--timeout=240000', join(root, file)], {
      cwd: root,
      env: { ...(process.env as Record<string, string>), SVC_TEST_IDS: 'swapped' },
      withinMs: 900_000,
    })
    expect([status, status === 0 ? '' : stderr]).toEqual([0, ''])
  },
  900_000,
)
