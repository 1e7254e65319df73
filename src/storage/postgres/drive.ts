/** Drives routines on PostgreSQL: one request for each step. */
import type { PgQueries } from '../../platform/postgres.ts'
import { noSql, type Sql, sql } from '../../platform/sql.ts'
import type { Routine } from '../routine.ts'

/** `lock`: ends a SELECT of rows on which a routine rests, if they are to be locked. */
export type Statements = Pick<PgQueries, 'all' | 'script'> & { readonly lock?: Sql }

export async function drive<T>(queries: Statements, routine: Routine<T>): Promise<T> {
  for (let step = routine.next(); ; ) {
    if (step.done) return step.value
    const { value } = step
    const { lock = noSql } = queries
    const held = (rows: Sql) => queries.all(sql`${rows}${lock}`)
    let rows: object[][] = []
    if ('write' in value) rows = await queries.script(value.write)
    else if ('read' in value) rows = [await (value.isHeld ? held(value.read) : queries.all(value.read))]
    else if (lock !== noSql) await held(value.hold)
    step = routine.next(rows as Record<string, unknown>[][])
  }
}
