/** The tables as src/README.md tells of them. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { openDatabase } from '../../../src/platform/sqlite.ts'
import { gramQueryOf } from '../../../src/storage/sqlite/bigram-index.ts'
import { migrate } from '../../../src/storage/sqlite/migrations.ts'

test('src/README.md names every table of messages.db with every column, and says what each holds', async () => {
  const db = await openDatabase(':memory:')
  migrate(db)
  const tables = db.all<{ name: string }>`SELECT name FROM pragma_table_list
    WHERE schema = 'main' AND type <> 'shadow' AND name NOT LIKE 'sqlite_%'`
  const real = tables.flatMap(({ name }) =>
    db.all<{ name: string }>(`PRAGMA table_info(${name})`).map(column => `${name}.${column.name}`),
  )
  db.close()
  const page = readFileSync(join(import.meta.dir, '../../../src/README.md'), 'utf8')
  const told: string[] = []
  let table = ''
  for (const [, named, column, what] of page.matchAll(/^\|(?: `(\w+)`)? \|(?: `(\w+)`)? \| ([^|]+) \|$/gm)) {
    expect(what?.trim()).not.toBe('')
    table = named ?? table
    if (column) told.push(`${table}.${column}`)
  }
  expect(told.sort()).toEqual(real.sort())
})

test('files and voices that an older version stored are found by their names and transcripts', async () => {
  const db = await openDatabase(':memory:')
  migrate(db, 12)
  const store = (id: number, kind: string, raw: string) => {
    db.run`INSERT INTO message (id, message_id, session, sent, bot_id, peer, msg_type, timestamp, stored_at, text, raw)
      VALUES (${id}, ${`m${id}`}, 1, 0, 'b', 'u', ${kind}, 1, 1, '', ${raw})`
  }
  store(
    1,
    'FILE',
    '{"item_list":[{"file_item":{"file_name":"Preise 2026.pdf"}},{"file_item":{"file_name":"two.txt"}}]}',
  )
  store(
    2,
    'VOICE',
    '{"item_list":[{"voice_item":{"text":"see you"},"ref_msg":{"message_item":{"text_item":{"text":"quoted"}}}}]}',
  )
  store(3, 'FILE', 'no JSON')
  store(4, 'VOICE', '{"item_list":7}')
  db.exec('UPDATE gram_position SET position = 3')
  migrate(db)
  const texts = db.all<{ text: string }>`SELECT text FROM message ORDER BY id`.map(({ text }) => text)
  expect(texts).toEqual(['Preise 2026.pdf\ntwo.txt', 'see you', '', ''])
  const found = db.all<{ id: number }>`SELECT rowid AS id FROM gram WHERE gram MATCH ${gramQueryOf('reise')}`
  db.close()
  expect(found.map(({ id }) => id)).toEqual([1])
})

test('messages queued by an earlier version wait for no approval, and have no principal', async () => {
  const db = await openDatabase(':memory:')
  migrate(db, 13)
  db.exec("INSERT INTO outbox (lane, mode, created_at, expires_at) VALUES (1, 'queue', 1, 2)")
  migrate(db)
  const rows = db.all`SELECT mode, asked, expires_at, made_by, approved_by, ended_by FROM outbox`
  db.close()
  const nobody = { asked: undefined, made_by: undefined, approved_by: undefined, ended_by: undefined }
  expect(rows).toEqual([{ mode: 'queue', expires_at: 2, ...nobody }])
})
