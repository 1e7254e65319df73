/** Rewrites the secrets in messages.db, in two parts: the rows, then a new file without the old content of pages. */
import { open, rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import { createDurably, syncDir } from '../../platform/files.ts'
import { randomBytes } from '../../platform/lazy-crypto.ts'
import { type Database, openDatabase, type Row } from '../../platform/sqlite.ts'
import type { SecretChange } from '../sealed-places.ts'
import { type SecretRow, type SecretTable, secretTables } from '../secret-tables.ts'
import { rejectDamaged } from './exclusive.ts'

/** Rows, and characters in them, that are rewritten in one transaction. */
const [stepRows, stepCharacters] = [2000, 4_000_000]

/** Rewrites the rows of all tables. Their old content stays in free parts of the file. */
export function resealRows(db: Database, change: SecretChange): void {
  for (const table of secretTables)
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

function readRows(db: Database, { table, columns }: SecretTable, after: number): NumberedRow[] {
  const rows: NumberedRow[] = []
  let characters = 0
  const select = `SELECT rowid AS row, ${columns.join(', ')} FROM ${table} WHERE rowid > ? ORDER BY rowid`
  db.each<NumberedRow>(select, [after], row => {
    rows.push(row)
    for (const column of columns) characters += String(row[column]).length
    return rows.length < stepRows && characters < stepCharacters
  })
  return rows
}

function updateRow(
  db: Database,
  { table, map }: SecretTable,
  { row, ...before }: NumberedRow,
  change: SecretChange,
): void {
  const after = map(before as SecretRow, change)
  for (const [column, text] of Object.entries(after))
    if (text !== before[column]) db.run(`UPDATE ${table} SET ${column} = ? WHERE rowid = ?`, text, row)
}

/** Replaces the store by a copy without free pages. The copy is complete and on the disk before that. */
export async function replaceStore(db: Database, path: string): Promise<void> {
  const copy = `${path}.${randomBytes(6).toString('hex')}.tmp`
  await createDurably(copy, '')
  db.run`VACUUM INTO ${copy}`
  const copied = await openDatabase(copy)
  try {
    rejectDamaged(copied)
    copied.exec('PRAGMA journal_mode = WAL')
  } finally {
    copied.close()
  }
  {
    await using file = await open(copy, 'r+')
    await file.sync()
  }
  await rename(copy, path)
  await syncDir(dirname(path))
}
