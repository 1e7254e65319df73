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
    const rows =
      'read' in value
        ? [await queries.all(value.isHeld ? sql`${value.read}${queries.lock ?? noSql}` : value.read)]
        : await queries.script(value.write)
    step = routine.next(rows as Record<string, unknown>[][])
  }
}
