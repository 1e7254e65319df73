/** The wrapper of the driver for PostgreSQL. */
import { describe, expect, test } from 'bun:test'
import { connectPg } from '../../src/platform/postgres.ts'
import { createPgPool } from '../../src/platform/postgres-pool.ts'
import { rowsAsJson, rowsOfJson } from '../../src/platform/postgres-values.ts'
import { prepared, sql } from '../../src/platform/sql.ts'
import { isPostgresThere, sharedPostgres } from '../support/postgres.ts'

const options = async () => {
  const server = await sharedPostgres()
  const name = `wrapper_${crypto.randomUUID().slice(0, 8)}`
  await server.createDatabase(name)
  return { url: server.url(name), name: 'test', answerMs: 10_000 }
}

describe.skipIf(!isPostgresThere())('PostgreSQL', () => {
  test('a prepared statement works after a column got another type, and where names are not kept', async () => {
    const connection = await connectPg(await options())
    await connection.script([
      sql`CREATE SCHEMA svc`,
      sql`CREATE TABLE one (n integer)`,
      sql`INSERT INTO one VALUES (1)`,
    ])
    const read = () => connection.all(prepared(sql`SELECT * FROM one WHERE n <= ${5}`))
    const names = async () =>
      (await connection.all<{ name: string }>(sql`SELECT name FROM pg_prepared_statements`)).length
    expect(await read()).toEqual([{ n: 1 }])
    expect(await read()).toEqual([{ n: 1 }])
    expect(await names()).toBe(1)
    await connection.run(sql`ALTER TABLE one ADD COLUMN m text DEFAULT 'new'`)
    expect(await read()).toEqual([{ n: 1, m: 'new' }])
    expect(await read()).toEqual([{ n: 1, m: 'new' }])
    expect(await names()).toBe(2)
    // As if a proxy had given the connection to another client.
    await connection.run(sql`DEALLOCATE ALL`)
    expect(await read()).toEqual([{ n: 1, m: 'new' }])
    expect(await read()).toEqual([{ n: 1, m: 'new' }])
    expect(await names()).toBe(0)
    connection.destroy()
  })

  test('every number of a statement has 64 bits, whatever is next to it', async () => {
    const address = await options()
    const connection = await connectPg(address)
    const pool = createPgPool(address, { usual: 1, prepared: 1 })
    const computed = (n: number) => sql`SELECT ${n} * 1000000 AS product, coalesce(${n}, 0) + 1 AS chosen,
      CASE WHEN true THEN ${n} ELSE 0 END * 2 AS one, greatest(${n}, 1) AS most, -${n} AS less, abs(${n} - 1) AS distance,
      pg_typeof(${n})::text AS type`
    for (const n of [5, 2148, 2 ** 31 + 1, 2 ** 32]) {
      const right = {
        product: n * 1e6,
        chosen: n + 1,
        one: 2 * n,
        most: n,
        less: -n,
        distance: n - 1,
        type: 'bigint',
      }
      for (const queries of [connection, pool])
        for (const statement of [computed(n), prepared(computed(n))]) {
          expect(await queries.one<object>(statement)).toEqual(right)
          expect(await queries.script([statement, statement])).toEqual([[right], [right]])
        }
    }
    expect(
      await pool.one<object>(
        sql`SELECT ${0.5} * 3.0 AS half, ${-3} % 2 AS rest, ${Number.POSITIVE_INFINITY} - 1 AS endless`,
      ),
    ).toEqual({ half: 1.5, rest: -1, endless: Number.MAX_SAFE_INTEGER - 1 })
    connection.destroy()
    await pool.close()
  })

  test('rows come back as JSON as they come back as rows', async () => {
    const pool = createPgPool(await options(), { usual: 1, prepared: 1 })
    const text = 'a\0b\ud800c\ue0fe "d" 好'
    const rows = sql`SELECT ${text} AS text, NULL::text AS nothing, 12345678901 AS big, 0.1::float8 AS small, '{1,2}'::bigint[] AS list`
    const found = await pool.one(
      sql`SELECT ${rowsAsJson(rows)} AS all_rows, ${rowsAsJson(sql`SELECT 1 WHERE false`)} AS none`,
    )
    expect(rowsOfJson(found.all_rows)).toEqual(await pool.all(rows))
    expect(rowsOfJson(found.all_rows)).toEqual([
      { text, nothing: undefined, big: 12345678901, small: 0.1, list: [1, 2] },
    ])
    expect(rowsOfJson(found.none)).toEqual([])
    await pool.close()
  })

  test('statements that wait for a connection run in order, and a failed one lets the next run', async () => {
    const pool = createPgPool(await options(), { usual: 1, prepared: 1 })
    await pool.script([sql`CREATE SCHEMA svc`, sql`CREATE TABLE one (id serial, n integer)`])
    const all = Array.from({ length: 100 }, (_none, n) =>
      pool.run(sql`INSERT INTO one (n) VALUES (${n % 10 === 9 ? 'none' : n})`),
    )
    expect(pool.waiting).toBe(99)
    const ended = await Promise.allSettled(all)
    expect(ended.filter(({ status }) => status === 'rejected')).toHaveLength(10)
    expect(pool.waiting).toBe(0)
    const rows = await pool.all<{ n: number }>(sql`SELECT n FROM one ORDER BY id`)
    expect(rows.map(({ n }) => n)).toEqual(
      Array.from({ length: 100 }, (_none, n) => n).filter(n => n % 10 !== 9),
    )
    await pool.close()
  })
})
