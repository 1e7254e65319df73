/** Drives routines on SQLite: within one call. */
import type { Clock } from '../../platform/clock.ts'
import { constantSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import type { Database, Row } from '../../platform/sqlite.ts'
import type { NewAuditLine } from '../audit.ts'
import { createAudit, type LineContext } from '../nouns/audit.ts'
import { type NounContext, type Routine, readAll } from '../routine.ts'
import { sqliteDialect } from './dialect.ts'
import type { SqliteContext } from './engine-part.ts'
import { findErased, rejectErased, withoutErased } from './erased-users.ts'
import { insertEvent } from './events.ts'
import { keyNameOf } from './messages.ts'
import type { SqliteOutboxPlans } from './outbox-plans.ts'

export { sqliteDialect } from './dialect.ts'

/** @param clock gives the time of rows that are added */
const createLineContext = (db: Database, clock: Pick<Clock, 'now'>): LineContext => ({
  dialect: sqliteDialect,
  withoutErased: text => withoutErased(db, text),
  keyName: column => constantSql(keyNameOf(column)),
  addEvent: (event, data, from = sql`(SELECT 1)`) => insertEvent({ ...event, at: clock.now() }, data, from),
})

/** Adds a line to the audit log of a store that only this process has open. */
export const addAuditLine = (db: Database, line: NewAuditLine): number =>
  drive(db, createAudit(createLineContext(db, { now: () => line.at })).verbs.add(line))

export const createNounContext = (
  { db, clock, messages, owner, sealer }: SqliteContext,
  plans: SqliteOutboxPlans,
): NounContext => ({
  ...createLineContext(db, clock),
  clock,
  sealer,
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
  // biome-ignore lint/correctness/useYield: PostgreSQL needs statements for it
  *rejectErased(user) {
    rejectErased(db, user)
  },
  *erasedOf(users) {
    return users.filter(user => findErased(db, user) !== undefined)
  },
  keyChanges: {
    row: noSql,
    begin: [],
    revision: constantSql('(SELECT coalesce(max(revision), 0) + 1 FROM access_key)'),
  },
  *changeEntries(which, decide) {
    const found = yield* readAll<{ id: number }>(sql`SELECT e.id FROM outbox e WHERE ${which} ORDER BY e.id`)
    for (const { id } of found) plans.change(id, decide)
    return []
  },
})

export function drive<T>(db: Database, routine: Routine<T>): T {
  const rowsOf = (statement: Sql): Row[] => db.all(statement)
  for (let step = routine.next(); ; ) {
    if (step.done) return step.value
    const { value } = step
    if ('hold' in value) step = routine.next([])
    else if ('read' in value) step = routine.next([rowsOf(value.read)])
    else {
      const { write } = value
      step = routine.next(write.length === 1 ? write.map(rowsOf) : db.transaction(() => write.map(rowsOf)))
    }
  }
}
