import { expect, test } from 'bun:test'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { openDatabase } from '../../src/platform/sqlite.ts'
import { folderOfTest } from '../support/folder.ts'

test('a transaction leaves nothing when its work throws, or when the commit fails', async () => {
  const db = await openDatabase(':memory:')
  db.exec('PRAGMA foreign_keys = ON')
  db.exec('CREATE TABLE a (id INTEGER PRIMARY KEY)')
  db.exec('CREATE TABLE b (a INTEGER REFERENCES a (id) DEFERRABLE INITIALLY DEFERRED)')
  const count = () => db.get`SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b) AS n`?.n
  expect(() =>
    db.transaction(() => {
      db.run`INSERT INTO a (id) VALUES (1)`
      throw new Error('mine')
    }),
  ).toThrow('mine')
  expect(count()).toBe(0)
  // The engine refuses at COMMIT, and leaves the transaction open.
  expect(() => db.transaction(() => db.run`INSERT INTO b (a) VALUES (7)`)).toThrow('FOREIGN KEY')
  expect(count()).toBe(0)
  db.transaction(() => db.run`INSERT INTO a (id) VALUES (1)`)
  expect(count()).toBe(1)
  db.close()
})

test('an inner transaction is part of the outer one', async () => {
  const db = await openDatabase(':memory:')
  db.exec('CREATE TABLE a (id INTEGER PRIMARY KEY)')
  expect(() =>
    db.transaction(() => {
      db.transaction(() => db.run`INSERT INTO a (id) VALUES (1)`)
      throw new Error('outer')
    }),
  ).toThrow('outer')
  expect(db.get`SELECT count(*) AS n FROM a`?.n).toBe(0)
  db.close()
})

test('a thousand different statements can be asked for and used', async () => {
  const db = await openDatabase(':memory:')
  for (let i = 0; i < 1000; i++) expect(db.get(`SELECT ${i} AS n`)?.n).toBe(i)
  expect(db.get`SELECT 0 AS n`?.n).toBe(0)
  db.close()
})

test('a closed database is closed: its side files are gone', async () => {
  const dir = folderOfTest()
  const db = await openDatabase(join(dir, 'a.db'))
  db.exec('PRAGMA journal_mode = WAL')
  db.exec('CREATE TABLE a (id INTEGER PRIMARY KEY)')
  db.run`INSERT INTO a (id) VALUES (${1})`
  db.all`SELECT id FROM a`
  db.close()
  expect(await readdir(dir)).toEqual(['a.db'])
})

test('parameters keep their kinds, and a question mark in a text is text', async () => {
  const db = await openDatabase(':memory:')
  const row = db.get`SELECT '?' AS mark, 'it''s ?' AS quoted, typeof(${'1'}) AS text, typeof(${1}) AS number,
    typeof(${undefined}) AS none LIMIT ${1}`
  expect(row).toEqual({ mark: '?', quoted: "it's ?", text: 'text', number: 'integer', none: 'null' })
  const none = db.get`SELECT NULL AS a, ${undefined} AS b, 0 AS c`
  expect(none && [none.a, none.b, none.c]).toEqual([undefined, undefined, 0])
  db.close()
})
