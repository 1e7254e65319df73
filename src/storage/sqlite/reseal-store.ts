/** Rewrites the secrets in messages.db, in two parts: the rows, then a new file without the old content of pages. */
import { open, rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import { createDurably, syncDir } from '../../platform/files.ts'
import { randomBytes } from '../../platform/lazy-crypto.ts'
import { type Database, openDatabase, type Row } from '../../platform/sqlite.ts'
import type { SecretChange } from '../sealed-places.ts'
import { changeSecrets, type StoreTable, storeTables } from '../table-list.ts'
import { rejectDamaged } from './exclusive.ts'

const sealedTables = storeTables.filter(({ only, secrets }) => secrets && only !== 'postgres')

/** Rows, and characters in them, that are rewritten in one transaction. */
const [stepRows, stepCharacters] = [2000, 4_000_000]

/** Rewrites the rows of all tables. Their old content stays in free parts of the file. */
export function resealRows(db: Database, change: SecretChange): void {
  for (const table of sealedTables)
    for (let after = 0; ; ) {
      const rows = readRows(db, table, after)
      const last = rows.at(-1)
      if (!last) break
      after = last.row
      db.transaction(() => {
        for (const row of rows) updateRow(db, table, row, change)
      })
    }
}

type NumberedRow = Row & { row: number }

function readRows(db: Database, { name, secrets }: StoreTable, after: number): NumberedRow[] {
  const columns = [secrets!.by, ...Object.keys(secrets!.columns)]
  const rows: NumberedRow[] = []
  let characters = 0
  const select = `SELECT rowid AS row, ${columns.join(', ')} FROM ${name} WHERE rowid > ? ORDER BY rowid`
  db.each<NumberedRow>(select, [after], row => {
    rows.push(row)
    for (const column of columns) characters += String(row[column]).length
    return rows.length < stepRows && characters < stepCharacters
  })
  return rows
}

function updateRow(
  db: Database,
  table: StoreTable,
  { row, ...before }: NumberedRow,
  change: SecretChange,
): void {
  for (const [column, value] of Object.entries(changeSecrets(table, before, change)))
    if (value !== before[column]) db.run(`UPDATE ${table.name} SET ${column} = ? WHERE rowid = ?`, value, row)
}

/** Replaces the store by a copy without free pages. The copy is complete and on the disk before that. */
export async function replaceStore(db: Database, path: string): Promise<void> {
  const copy = `${path}.${randomBytes(6).toString('hex')}.tmp`
  await createDurably(copy, '')
  db.run`VACUUM INTO ${copy}`
  {
    using copied = await openDatabase(copy)
    rejectDamaged(copied)
    copied.exec('PRAGMA journal_mode = WAL')
  }
  {
    await using file = await open(copy, 'r+')
    await file.sync()
  }
  await rename(copy, path)
  await syncDir(dirname(path))
}
