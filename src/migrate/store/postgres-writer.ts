/** Writes a copy into a database of PostgreSQL. */
import { sessionKeyOf } from '../../model/session.ts'
import type { PgQueries } from '../../platform/postgres.ts'
import { toJsonb } from '../../platform/postgres-values.ts'
import type { Sealer } from '../../platform/sealing.ts'
import { constantSql, joinSql, type Sql, type SqlParameter, sql } from '../../platform/sql.ts'
import type { PgDatabase } from '../../storage/postgres/database.ts'
import { addAuditLine } from '../../storage/postgres/routines.ts'
import { placesPerMessage } from '../../storage/postgres/tables.ts'
import { mapToken } from '../../storage/sealed-places.ts'
import { copiedTables, type StoreRow, type StoreTable } from '../../storage/table-list.ts'
import { type CopySide, type CopyTarget, pageRows, type TargetState } from './side.ts'

export const columnsOf = (columns: readonly string[]): Sql =>
  constantSql(columns.map(column => `"${column}"`).join(', '))

/** The sequence that numbers the rows of a table. */
export const sequenceOf = (table: string, column = ''): Sql => constantSql(`svc.${table}_${column}_seq`)

/** Returns a row as the tables of PostgreSQL have it. */
function toRow({ name }: StoreTable, row: StoreRow): Record<string, unknown> {
  if (name === 'lease') return { ...row, ids: JSON.parse(String(row.ids)) }
  return name === 'session' ? { ...row, name_key: sessionKeyOf(String(row.name)) } : row
}

interface Writing {
  from: { place: string }
  sealer: Sealer
  side: { decide(statement: Sql): Promise<void> }
  state: TargetState
}

type Writer = Omit<CopyTarget, keyof CopySide>

/** Returns what writes a copy into a database that no process uses. */
export function writerOf(db: PgDatabase, { from, sealer, side, state }: Writing): Writer {
  const note = (verified: boolean): SqlParameter => JSON.stringify({ from: from.place, verified })
  const insert = (table: string, columns: readonly string[], rows: readonly object[]): Sql =>
    sql`INSERT INTO ${constantSql(table)} (${columnsOf(columns)}) SELECT ${columnsOf(columns)}
      FROM json_populate_recordset(NULL::${constantSql(table)}, ${toJsonb(rows)}::json)`
  return {
    state,
    seal: (value, place) => sealer.seal(sealer.open(value, place), place),
    async begin({ id, hash_key, events_removed }) {
      await db.script([
        sql`UPDATE meta SET copying = ${note(false)}, store_id = ${id}, hash_key = ${hash_key},
          events_removed = ${events_removed}`,
        // An engine makes these by itself, or every copy writes them again.
        sql`TRUNCATE gram, gap, upload, blob, account, node, durable`,
        sql`UPDATE indexed SET upto = 0`,
      ])
      await db.barrier()
    },
    async readLast({ key, name }) {
      const order = joinSql(key.map(column => sql`${columnsOf([column])} DESC`))
      return db.get<StoreRow>(
        sql`SELECT ${columnsOf(key)} FROM ${constantSql(name)} ORDER BY ${order} LIMIT 1`,
      )
    },
    clear: async ({ name }) => void (await db.run(sql`TRUNCATE ${constantSql(name)}`)),
    async write(table, rows) {
      const columns = table.name === 'session' ? [...table.columns, 'name_key'] : table.columns
      await db.run(
        insert(
          table.name,
          columns,
          rows.map(row => toRow(table, row)),
        ),
      )
    },
    async writeState({ accounts }) {
      const rows = accounts.map(account => ({
        ...account,
        token: String(mapToken({ ...account }, sealer.seal).token),
        name_key: sessionKeyOf(account.name),
        changed: 1,
      }))
      const columns = [
        'name_key',
        'name',
        'bot_id',
        'token',
        'info',
        'cursor',
        'created_at',
        'chosen',
        'changed',
      ]
      await db.script([
        sql`TRUNCATE account`,
        ...inParts(rows).map(part => insert('account', columns, part)),
        sql`UPDATE head SET revision = 1`,
      ])
    },
    async complete(numbers) {
      await db.script([
        ...copiedTables.flatMap(({ name, numbered }) =>
          numbered === undefined || name === 'message'
            ? []
            : setNumber(name, numbered, numbers.get(name) ?? 0),
        ),
        sql`INSERT INTO gap SELECT id, next - id - 1, (id + 1) * ${placesPerMessage}::bigint - 1
          FROM (SELECT id, lead(id) OVER (ORDER BY id) AS next FROM message) m WHERE next > id + 1
          ON CONFLICT (after) DO NOTHING`,
        sql`WITH newest AS (SELECT greatest(coalesce(max(id), 0), ${numbers.get('message') ?? 0}) AS id FROM message)
          UPDATE head SET last = newest.id, place = greatest(newest.id * ${placesPerMessage},
            (SELECT coalesce(max(place), 0) FROM event)) FROM newest`,
      ])
      // Without it the planner knows nothing of the rows for a minute. It may take longer than an answer may.
      for (const name of ['message', 'event', 'audit', 'outbox_lane']) await analyze(db, name).catch(() => 0)
      await db.barrier()
    },
    markVerified: () => side.decide(sql`UPDATE meta SET copying = ${note(true)}`),
    async release(line) {
      if (line) await addAuditLine(db, line)
      await side.decide(sql`UPDATE meta SET copying = NULL`)
    },
  }
}

const analyze = (db: PgQueries, name: string): Promise<number> => db.run(sql`ANALYZE ${constantSql(name)}`)

const setNumber = (table: string, column: string, least: number): Sql =>
  sql`SELECT setval('${sequenceOf(table, column)}', greatest(most, 1), most > 0)
    FROM (SELECT greatest(coalesce(max(${columnsOf([column])}), 0), ${least}) AS most FROM ${constantSql(table)}) found`

const inParts = <T>(rows: readonly T[]): T[][] =>
  Array.from({ length: Math.ceil(rows.length / pageRows) }, (_, nth) =>
    rows.slice(nth * pageRows, (nth + 1) * pageRows),
  )
