/** The tables as src/README.md tells of them. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { openDatabase } from '../../src/platform/sqlite.ts'
import { migrate } from '../../src/store/migrations.ts'

test('src/README.md names every table of messages.db with every column, and says what each holds', async () => {
  const db = await openDatabase(':memory:')
  migrate(db)
  const tables = db.all<{ name: string }>`SELECT name FROM sqlite_schema
    WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'gram_%'`
  const real = tables.flatMap(({ name }) =>
    db.all<{ name: string }>(`PRAGMA table_info(${name})`).map(column => `${name}.${column.name}`),
  )
  db.close()
  const page = readFileSync(join(import.meta.dir, '../../src/README.md'), 'utf8')
  const told: string[] = []
  let table = ''
  for (const [, named, column, what] of page.matchAll(/^\|(?: `(\w+)`)? \|(?: `(\w+)`)? \| ([^|]+) \|$/gm)) {
    expect(what?.trim()).not.toBe('')
    table = named ?? table
    if (column) told.push(`${table}.${column}`)
  }
  expect(told.sort()).toEqual(real.sort())
})
