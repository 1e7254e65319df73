/** Does what a database refuses, and prints the code of each refusal, a line each. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { errorCodeOf } from '../../src/platform/files.ts'
import { openDatabase } from '../../src/platform/sqlite.ts'

const dir = await mkdtemp(join(tmpdir(), 'svc-refusals-'))
const told = async (work: () => unknown) => {
  try {
    await work()
    process.stdout.write('no error\n')
  } catch (error) {
    process.stdout.write(`${errorCodeOf(error)}\n`)
  }
}
try {
  const path = join(dir, 'one.db')
  const [one, other] = [await openDatabase(path), await openDatabase(path)]
  one.exec('PRAGMA journal_mode = WAL; CREATE TABLE t (x)')
  other.exec('PRAGMA busy_timeout = 0')
  one.exec('BEGIN IMMEDIATE')
  await told(() => other.transaction(() => 1))
  await told(() => other.run`INSERT INTO t VALUES (${1})`)
  one.exec('ROLLBACK')
  const readonly = await openDatabase(path, { readonly: true })
  await told(() => readonly.exec('DELETE FROM t'))
  one.exec('PRAGMA max_page_count = 2')
  await told(() => one.run`INSERT INTO t VALUES (${'x'.repeat(100_000)})`)
  for (const database of [one, other, readonly]) database.close()
  await writeFile(join(dir, 'no.db'), 'x'.repeat(5000))
  const none = await openDatabase(join(dir, 'no.db'))
  await told(() => none.all`SELECT * FROM sqlite_master`)
  none.close()
  await told(() => openDatabase(join(dir, 'nowhere', 'one.db')))
} finally {
  await rm(dir, { recursive: true, force: true })
}
