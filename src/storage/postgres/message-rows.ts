/** Rows of the message log: their columns, and how they are read. */
import type { PgQueries } from '../../platform/postgres.ts'
import { constantSql, prepared, type Sql, sql } from '../../platform/sql.ts'
import type { ReadFilter, StoredMessage } from '../messages.ts'
import { createRowBudget } from '../row-budget.ts'
import { erasedSession, horizon } from './tables.ts'

/** Condition on a row `m` of `message`: its content was not erased. */
export const isKept: Sql = constantSql(`m.session <> ${erasedSession}`)

/** SQL for the name of the key in a principal; NULL if it is not one of a key, as `agent:NAME` is. */
export const keyNameOf = (principal: Sql): Sql =>
  sql`(SELECT name FROM access_key WHERE id = substr(${principal}, strpos(${principal}, ':') + 1)
    AND ${principal} NOT LIKE 'agent:%')`

const sender = constantSql(`split_part(m.sent_by, ' ', 1)`)

/** Columns of a `StoredMessage`, of the row `m` of `message`. */
const storedColumns: Sql = sql`m.id, m.message_id, (SELECT name FROM session WHERE key = m.session) AS session,
  m.bot_id, m.peer, CASE m.sent WHEN 1 THEN 'sent' ELSE 'received' END AS direction, m.status,
  CASE m.sent WHEN 1 THEN m.bot_id ELSE m.peer END AS from_user, m.msg_type, m.text, m.timestamp, m.raw, m.reason,
  m.reason_code, m.reason_quote, m.sent_with, ${sender} AS sent_by, ${keyNameOf(sender)} AS sent_by_name,
  (SELECT name FROM user_name u WHERE u.session = m.session AND u.peer = m.peer) AS user_name,
  CASE m.sent WHEN 2 THEN true END AS past`

/** Joins the row `m` of `message`. LATERAL makes the server look up each id in the index, whatever it knows of the table. */
const rowOf = (id: Sql): Sql => sql`LATERAL (SELECT * FROM message WHERE id = ${id} LIMIT 1) m`

/** Rows, and the place (`nth`) of the first row that exceeded the limit of characters, if there is one. */
export interface ReadRows {
  rows: StoredMessage[]
  cut?: number
}

/**
 * Reads rows in the order of `nth`, up to the first row that exceeds the limit.
 *
 * @param source item of a FROM, with the columns `nth` and `id` (of a row). If it is prepared, so is the statement
 * @param characters same as `ReadFilter.characters`
 * @param condition on the rows `m`
 */
export async function readRows(
  queries: Pick<PgQueries, 'all'>,
  source: Sql,
  characters: number | undefined,
  condition: Sql = isKept,
): Promise<ReadRows> {
  const toStatement = source.isPrepared ? prepared : (statement: Sql) => statement
  const chosen = sql`FROM ${source} CROSS JOIN ${rowOf(constantSql('chosen.id'))}
    WHERE m.id <= ${horizon} AND ${condition}`
  if (characters === undefined)
    return {
      rows: await queries.all<StoredMessage>(
        toStatement(sql`SELECT ${storedColumns} ${chosen} ORDER BY chosen.nth`),
      ),
    }
  // A character has at most three bytes. Rows far beyond the limit do not leave the server.
  const found = await queries.all<StoredMessage & { nth: number; others: number }>(
    toStatement(sql`
    SELECT s.nth, s.others, ${storedColumns} FROM (
      SELECT chosen.nth, m.id, count(*) OVER () - row_number() OVER (ORDER BY chosen.nth) AS others,
        sum(octet_length(m.raw)) OVER (ORDER BY chosen.nth) - octet_length(m.raw) AS before ${chosen}
    ) s CROSS JOIN ${rowOf(constantSql('s.id'))} WHERE s.before <= ${characters * 3} ORDER BY s.nth`),
  )
  const fits = createRowBudget(characters)
  const rows: StoredMessage[] = []
  for (const { nth, others: _, ...row } of found) {
    if (!fits(row)) return { rows, cut: nth }
    rows.push(row)
  }
  const last = found.at(-1)
  return last && last.others > 0 ? { rows, cut: last.nth + 1 } : { rows }
}

/** Rows of these ids, as a source of `readRows`. */
export const rowsOf = (ids: readonly number[]): Sql =>
  prepared(sql`unnest(${ids}::bigint[]) WITH ORDINALITY AS chosen(id, nth)`)

/** SQL that continues a WHERE: the direction as `ReadFilter` has it, of rows that were not erased. */
export const ofDirection = (direction: ReadFilter['direction']): Sql =>
  direction === undefined ? sql` AND ${isKept}` : sql` AND m.sent = ${direction === 'sent' ? 1 : 0}`
