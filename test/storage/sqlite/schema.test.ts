/** The tables as src/README.md tells of them, and the steps that make them. */
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Database, openDatabase } from '../../../src/platform/sqlite.ts'
import {
  migrate,
  newestSchemaVersion,
  rejectOtherForm,
  steps,
} from '../../../src/storage/sqlite/migrations.ts'
import { failure } from '../../support/failure.ts'
import { folderOfTest } from '../../support/folder.ts'

test('src/README.md names every table of messages.db with every column, and says what each holds', async () => {
  const db = await openDatabase(':memory:')
  migrate(db)
  const names = db.all<{ name: string }>`SELECT name FROM pragma_table_list
    WHERE schema = 'main' AND type <> 'shadow' AND name NOT LIKE 'sqlite_%'`.map(({ name }) => name)
  const real = names.map((table): [string, string[]] => [
    table,
    db.all<{ name: string }>(`PRAGMA table_info(${table})`).map(({ name }) => name),
  ])
  db.close()
  const page = readFileSync(join(import.meta.dir, '../../../src/README.md'), 'utf8')
  const block = /^## Tables\n[\s\S]*?^```\n([\s\S]*?)^```$/m.exec(page)![1]!
  const listed = block.split('\n\n').map(part => {
    const [head = '', ...lines] = part.trimEnd().split('\n')
    // Lines that are indented further go on with the line before.
    const columns = lines.flatMap(line => /^ {2}(\w+(?:, \w+)*)(?: |$)/.exec(line)?.[1]?.split(', ') ?? [])
    return { head, columns }
  })
  const [anyTable, ...own] = listed
  expect(own.map(({ head }) => /^(\w+) +\w/.exec(head)?.[1]).sort()).toEqual(names.sort())
  const used = new Set<string>()
  for (const { head, columns } of own) {
    const [, inTable = []] = real.find(([table]) => head.startsWith(`${table} `))!
    const common = inTable.filter(column => !columns.includes(column))
    for (const column of common) used.add(column)
    expect([head, columns.filter(column => !inTable.includes(column))]).toEqual([head, []])
    expect([head, common.filter(column => !anyTable!.columns.includes(column))]).toEqual([head, []])
  }
  expect(anyTable!.columns.filter(column => !used.has(column))).toEqual([])
})

/** What the next version would add. */
const next = [...steps, 'ALTER TABLE message ADD COLUMN mood TEXT; UPDATE message SET mood = msg_type;']

describe('a step of the next version', () => {
  const formOf = (db: Database) => db.one<{ user_version: number }>`PRAGMA user_version`.user_version

  test('is done once, beside what is stored; then this version refuses the store', async () => {
    const path = join(folderOfTest(), 'messages.db')
    const db = await openDatabase(path)
    migrate(db)
    db.run`INSERT INTO message (message_id, session, sent, bot_id, peer, msg_type, timestamp, stored_at, text, raw)
      VALUES ('1', 1, 0, 'b', 'u', 'FILE', 1, 1, '', '')`
    await rejectOtherForm(path)
    for (let nth = 0; nth < 2; nth++) migrate(db, { steps: next })
    expect([formOf(db), db.all`SELECT message_id, mood FROM message`]).toEqual([
      newestSchemaVersion + 1,
      [{ message_id: '1', mood: 'FILE' }],
    ])
    const refused = { code: 'store_unavailable', details: { form: newestSchemaVersion + 1 } }
    expect(await failure(Promise.try(() => migrate(db)))).toMatchObject(refused)
    db.close()
    expect(await failure(rejectOtherForm(path))).toMatchObject(refused)
  })

  test('that fails changes nothing', async () => {
    const db = await openDatabase(':memory:')
    migrate(db)
    const failing = [...steps, 'CREATE TABLE mood (id INTEGER); ALTER TABLE absent ADD COLUMN mood TEXT;']
    expect(() => migrate(db, { steps: failing })).toThrow('absent')
    expect(formOf(db)).toBe(newestSchemaVersion)
    expect(db.get`SELECT 1 FROM sqlite_schema WHERE name = 'mood'`).toBeUndefined()
    db.close()
  })
})
