/** Every computation of SQL has 64 bits: ids, places, times, bytes and counts grow for years. */
import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { connectPg } from '../../../src/platform/postgres.ts'
import { sql } from '../../../src/platform/sql.ts'
import { newDatabase } from '../../support/databases.ts'
import { isPostgresThere } from '../../support/postgres.ts'

const short = /\b(int[24]?|integer|smallint|(small)?serial)\b/i

describe.skipIf(!isPostgresThere())('PostgreSQL', () => {
  test('no column and no function has numbers of less than 64 bits, but for two columns', async () => {
    await using database = await newDatabase()
    const connection = await connectPg({ url: database.url, name: 'test', answerMs: 10_000 })
    const columns = await connection.all<{
      name: string
    }>(sql`SELECT attrelid::regclass || '.' || attname AS name
      FROM pg_attribute JOIN pg_class c ON c.oid = attrelid JOIN pg_type t ON t.oid = atttypid
      WHERE relnamespace = 'svc'::regnamespace AND relkind = 'r' AND attnum > 0
        AND (atttypid::regtype::text IN ('integer', 'smallint') OR typelem::regtype::text IN ('integer', 'smallint'))
      ORDER BY 1`)
    // Hashes of characters; and one of three directions.
    expect(columns.map(({ name }) => name)).toEqual(['gram.pairs', 'message.sent'])
    const functions = await connection.all<{ name: string; text: string }>(
      sql`SELECT proname AS name, pg_get_functiondef(oid) AS text FROM pg_proc WHERE pronamespace = 'svc'::regnamespace`,
    )
    expect(functions.length).toBeGreaterThan(20)
    expect(functions.filter(({ text }) => short.test(text)).map(({ name }) => name)).toEqual([])
    connection.destroy()
  })
})

/** Numbers of characters and of elements, which functions take so; and hashes. */
const allowed = /CAST\(\$\{[^}]+\} AS integer\)|\bpairs integer\[\]|\}::integer\[\]|\bsent smallint\b/g

test('no statement has a type of less than 64 bits, but for lengths and hashes', async () => {
  const folder = join(import.meta.dir, '../../../src/storage')
  const found: string[] = []
  for await (const path of new Bun.Glob('{*,{postgres,nouns,rules}/*}.ts').scan(folder)) {
    const lines = (await Bun.file(join(folder, path)).text()).split('\n')
    const named = lines.filter(
      line => !/^\s*(\/?\*|\/\/)/.test(line) && short.test(line.replace(allowed, '')),
    )
    found.push(...named.map(line => `${path}: ${line.trim()}`))
  }
  expect(found).toEqual([])
})
