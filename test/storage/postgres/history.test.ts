/** The index of pairs of characters: searches find the same with it as without it. */
import { describe, expect, test } from 'bun:test'
import { silentLog } from '../../../src/platform/log.ts'
import { constantSql, sql } from '../../../src/platform/sql.ts'
import { PgDatabase } from '../../../src/storage/postgres/database.ts'
import { candidatesOf, GramIndexer, reindex } from '../../../src/storage/postgres/grams.ts'
import { isPostgresThere } from '../../support/postgres.ts'
import { insert, message } from '../support.ts'
import { openPostgres } from './support.ts'

const needles = [
  '苹果',
  '果',
  'word',
  'WORD 1',
  'd',
  '9',
  '1 苹',
  'é',
  'e\u0301',
  '%',
  'changed',
  'nowhere',
  '龘龘龘',
  'xy',
  '好',
]

describe.skipIf(!isPostgresThere())('PostgreSQL', () => {
  test('a search finds the same without the index, with a part of it, and with all of it', async () => {
    await using t = await openPostgres({}, { isNew: true })
    const db = new PgDatabase({ url: t.url, clock: t.clock, log: silentLog, node: 'test' })
    // The rows are in two blocks.
    const before = 65_536 - 1500
    await db.script([sql`UPDATE indexed SET upto = ${before}`, sql`UPDATE head SET last = ${before}`])
    const words = ['苹果', 'word', 'Word', 'é', 'e\u0301', '50%', 'xyz', '1', '']
    const texts = Array.from({ length: 3000 }, (_, nth) => {
      const word = (step: number) => words[Math.floor(nth / step) % words.length]
      return nth % 1000 === 7 ? `${'x'.repeat(20_000)}好` : `${word(1)} ${word(9)} ${nth % 100}`
    })
    for (let from = 0; from < texts.length; from += 1000)
      await insert(
        t,
        texts.slice(from, from + 1000).map(text => message(text, { timed: false })),
      )
    const find = async () => {
      const found: unknown[] = []
      for (const text_contains of needles)
        for (const more of [{}, { before: 65_536 + 20 }]) {
          const page = await t.store.log.search({ text_contains, limit: 5, offset: 2, ...more })
          found.push([text_contains, page.total, page.next_before, page.rows.map(({ id }) => id)])
        }
      return found
    }
    const expected = await find()
    const indexer = new GramIndexer({ clock: t.clock, db, log: silentLog })
    expect(await indexer.step(1_000_000)).toBe(false)
    let steps = 0
    for (; await indexer.step(1, 700); steps++) expect(await find()).toEqual(expected)
    expect(steps).toBe(5)
    const { upto } = await db.one<{ upto: number }>(sql`SELECT upto FROM indexed`)
    expect(upto).toBe(before + 3000)
    // A text that changes is found by the new one alone.
    const id = before + 3
    await db.script([sql`UPDATE message SET text = 'changed' WHERE id = ${id}`, reindex(id, 'changed')])
    expect((await t.store.log.search({ text_contains: 'changed', limit: 5, offset: 0 })).rows).toHaveLength(1)
    // The index answers, whatever the server expects of the tables.
    const plan = await db.script([
      constantSql('SET LOCAL enable_seqscan = off'),
      sql`EXPLAIN ${candidatesOf(['苹果', '果 w'])!(65_536)}`,
    ])
    expect(JSON.stringify(plan[1])).toContain('gram_pairs')
    await db.close()
  })

  test('of two nodes that index at the same time one does it', async () => {
    await using t = await openPostgres()
    await insert(
      t,
      Array.from({ length: 50 }, (_, nth) => message(`text ${nth}`)),
    )
    const db = new PgDatabase({ url: t.url, clock: t.clock, log: silentLog, node: 'test' })
    const indexers = [1, 2, 3].map(() => new GramIndexer({ clock: t.clock, db, log: silentLog }))
    const done = await Promise.all(indexers.map(indexer => indexer.step(1)))
    expect(done.filter(one => one)).toHaveLength(1)
    expect(await db.one(sql`SELECT count(*) AS n FROM gram`)).toEqual({ n: 50 })
    await db.close()
  })
})
