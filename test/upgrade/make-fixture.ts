/**
 * `bun test/upgrade/make-fixture.ts VERSION COMMAND…`: lets the svc that COMMAND starts live for a while, and keeps what it
 * left in each form as `fixtures/VERSION-….tar.gz`. Every later build has to open it. Fails if a table has no row.
 *
 * To be done once for each release, by its own binary: `bun test/upgrade/make-fixture.ts 1.2.3 dist/svc`.
 */
import { Database } from 'bun:sqlite'
import { mkdtemp, realpath, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import process from 'node:process'
import { type StoreTable, storeTables } from '../../src/storage/table-list.ts'
import { useFixturePorts } from '../support/port.ts'
import { until } from '../support/until.ts'
import { kinds, makeDump, makeFiles, type Open, pack } from './fixtures.ts'
import { callbackOf, openProgram } from './home.ts'

const mostBytes = 2_000_000
/** Tables that may be empty, and why. */
const mayBeEmpty: Readonly<Record<string, string>> = {
  gap: 'rows come when another server takes over a database',
}
/** The same on PostgreSQL. */
const mayBeEmptyThere: Readonly<Record<string, string>> = {
  ...mayBeEmpty,
  backup_failure: 'nothing makes backups by schedule there',
}

const tablesOf = (engine: StoreTable['only']) =>
  storeTables.filter(({ only }) => only === undefined || only === engine).map(({ name }) => name)
const rejectEmpty = (where: string, empty: readonly string[]) => {
  if (empty.length > 0) throw new Error(`no row in ${where}: ${empty.join(', ')}`)
}

const [version, program = '', ...args] = process.argv.slice(2)
if (!version || program === '') {
  throw new Error('expected a version and a command, as in `make-fixture.ts 1.2.3 dist/svc`')
}
const command = [
  program.includes('/') ? resolve(program) : program,
  ...args.map(one => (one.endsWith('.ts') ? resolve(one) : one)),
]
useFixturePorts()
const place = await realpath(await mkdtemp(join(tmpdir(), 'svc-fixture-')))
try {
  const open: Open = (dir, options) => openProgram(dir, command, options)
  await makeFiles(place, open, async ({ dir, token }) => {
    using callback = callbackOf()
    // No backup by schedule succeeds there, and the next that succeeds would remove the row.
    await using home = await open(dir, {
      callback,
      args: ['--backup-to', '/dev/null/none'],
      ...(token !== undefined && { token }),
    })
    await until(
      'the backup by schedule has failed',
      30_000,
      async () => 'failure' in (await home.ask<object>('GET /backups')),
    )
    await home.end()
    using db = new Database(join(dir, 'messages.db'), { readonly: true })
    const empty = tablesOf('sqlite').filter(
      name => !(name in mayBeEmpty) && !db.query(`SELECT 1 FROM ${name}`).get(),
    )
    rejectEmpty('messages.db', empty)
  })
  await makeDump(place, open, async query => {
    const names = tablesOf('postgres').filter(name => !(name in mayBeEmptyThere))
    const rows = names.map(name => `SELECT '${name}' WHERE NOT EXISTS (SELECT FROM svc."${name}")`)
    const empty = await query(`${rows.join(' UNION ALL ')};`)
    rejectEmpty('the database', empty === '' ? [] : empty.split('\n'))
  })
  let bytes = 0
  for (const kind of kinds) {
    const path = await pack(join(place, kind), version, kind)
    const { size } = await stat(path)
    bytes += size
    console.log(`${path} (${size} bytes)`)
  }
  if (bytes > mostBytes) throw new Error(`${bytes} bytes are more than ${mostBytes}`)
} finally {
  await rm(place, { recursive: true, force: true })
}
process.exit(0)
