/** Drives routines on SQLite: within one call. */
import { constantSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import type { Database, Row, SqlValue } from '../../platform/sqlite.ts'
import type { Dialect, NounContext, Routine } from '../routine.ts'
import type { SqliteContext } from './engine-part.ts'
import { rejectErased } from './erased-users.ts'

/** One writer at a time needs no locks. */
export const sqliteDialect: Dialect = {
  isOneOf: (value, list) => sql`${value} IN (SELECT value FROM json_each(${JSON.stringify(list)}))`,
  expect: () => [],
  lock: () => [],
  holding: () => noSql,
  oneAtATime: () => [],
  by: index => constantSql(` INDEXED BY ${index}`),
  inOrderJoin: constantSql('CROSS JOIN'),
}

export const createNounContext = ({ db, clock, messages, owner }: SqliteContext): NounContext => ({
  clock,
  dialect: sqliteDialect,
  claims: {
    owner: owner.name,
    dead: () => constantSql('NULL'),
    isDead: row => row.owner !== undefined && owner.isDead(row.owner),
  },
  sessionKey: name =>
    sql`(SELECT key FROM session WHERE name = ${name} ORDER BY named DESC, key DESC LIMIT 1)`,
  sessionKeys: name => sql`(SELECT value FROM json_each(${JSON.stringify(messages.listSessionKeys(name))}))`,
  // biome-ignore lint/correctness/useYield: PostgreSQL needs statements for it
  *ensureSession(name) {
    return messages.ensureKey(name)
  },
  rejectErased: user => rejectErased(db, user),
})

export function drive<T>(db: Database, routine: Routine<T>): T {
  const rowsOf = ({ texts, values }: Sql): Row[] => db.all(texts.join('?'), ...(values as SqlValue[]))
  for (let step = routine.next(); ; ) {
    if (step.done) return step.value
    const { value } = step
    if ('read' in value) step = routine.next([rowsOf(value.read)])
    else {
      const { write } = value
      step = routine.next(write.length === 1 ? write.map(rowsOf) : db.transaction(() => write.map(rowsOf)))
    }
  }
}
