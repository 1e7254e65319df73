/** The index of texts, by a role that owns nothing. */
import { describe, expect, test } from 'bun:test'
import { silentLog } from '../../../src/platform/log.ts'
import { connectPg } from '../../../src/platform/postgres.ts'
import { constantSql, sql } from '../../../src/platform/sql.ts'
import { PgDatabase } from '../../../src/storage/postgres/database.ts'
import { GramIndexer } from '../../../src/storage/postgres/grams.ts'
import { isPostgresThere } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { insert, message } from '../support.ts'
import { asGuest, openPostgres } from './support.ts'

const many = (count: number) => Array.from({ length: count }, (_, nth) => message(`text ${nth}`))
const warned = (lines: readonly string[]) => lines.filter(line => line.includes('index of texts'))

describe.skipIf(!isPostgresThere())('PostgreSQL', () => {
  test('a role that owns nothing builds the index, and merges what waits to be merged', async () => {
    await using t = await openPostgres()
    const owner = await connectPg({ url: t.url, name: 'test', answerMs: 10_000 })
    await insert(t, many(500))
    const { clock } = t
    const db = new PgDatabase({ url: asGuest(t.url), clock, log: silentLog, node: 'test' })
    expect(await new GramIndexer({ clock, db, log: silentLog }).step(1)).toBe(true)
    expect(await owner.one(sql`SELECT count(*) AS rows FROM gram`)).toEqual({ rows: 500 })
    // Nothing is left to be merged.
    expect(await owner.one(sql`SELECT gin_clean_pending_list('gram_pairs') AS pages`)).toEqual({ pages: 0 })
    await db.close()
    owner.destroy()
  })

  test('rows stay indexed where they cannot be merged, and the log says it once', async () => {
    await using t = await openPostgres()
    const owner = await connectPg({ url: t.url, name: 'test', answerMs: 10_000 })
    await owner.run(
      constantSql(`CREATE OR REPLACE FUNCTION merge_grams() RETURNS bigint LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '42501'; END $$`),
    )
    for (let nth = 0; nth < 9; nth++) await insert(t, many(500))
    await until('the log says it', 60_000, () => warned(t.lines).length > 0)
    expect(
      await owner.one(
        sql`SELECT (SELECT upto FROM indexed) >= 4000 AS upto, count(*) >= 4000 AS rows FROM gram`,
      ),
    ).toEqual({ upto: true, rows: true })
    expect(warned(t.lines)).toHaveLength(1)
    owner.destroy()
  }, 120_000)
})
