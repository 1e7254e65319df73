/**
 * The audit log in PostgreSQL. `add_messages` and a trigger write the lines of sends. Each writer of a line locks the
 * head, so that a reader who follows the lines by id misses none.
 */
import type { AuditLine } from '../../model/audit.ts'
import { constantSql, joinSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import type { AuditFilter, AuditStore, NewAuditLine } from '../audit.ts'
import { eventDataOf, lockHead, placesKept } from './events.ts'
import { keyNameOf } from './message-rows.ts'
import { PgPart } from './part.ts'

/** Maximum number of lines removed in one step. */
const pruneStep = 1000

const nameOfLine = keyNameOf(constantSql('a.principal'))

/** SQL that adds the event of the line `a`. */
const announced = (at: number): Sql => {
  const data = sql`json_strip_nulls(json_build_object('id', a.id, 'at', a.at, 'principal', a.principal,
    'name', ${nameOfLine}, 'operation', a.operation, 'subject', a.subject, 'outcome', a.outcome,
    'address', a.address, 'count', a.count))`
  return sql`add_events(jsonb_build_array(jsonb_build_object('type', 'audit.line', 'at', ${at}::bigint,
    'data', ${eventDataOf(data)})), ${placesKept})`
}

export class PgAudit extends PgPart implements AuditStore {
  add({ at, principal, operation, subject, outcome, address, count }: NewAuditLine): Promise<number> {
    return this.durably(async () => {
      const added = sql`INSERT INTO audit (at, principal, operation, subject, outcome, address, count)
        VALUES (${at}, ${principal}, ${operation}, ${subject}, ${outcome}, ${address}, ${count}) RETURNING *`
      const event = outcome === undefined ? noSql : sql`, ${announced(this.clock.now())}`
      const [, rows] = await this.db.script([lockHead, sql`WITH a AS (${added}) SELECT a.id${event} FROM a`])
      return (rows as { id: number }[])[0]!.id
    })
  }

  settle(id: number, outcome: string, subject?: string): Promise<void> {
    return this.durably(async () => {
      await this.db.run(sql`WITH a AS (UPDATE audit SET outcome = ${outcome},
          subject = coalesce(${subject}, subject) WHERE id = ${id} RETURNING *)
        SELECT ${announced(this.clock.now())} FROM a`)
    })
  }

  list({ after, before, since, principals, operation, limit }: AuditFilter): Promise<AuditLine[]> {
    // Ids grow with time, so one walk from the end finds the start.
    const where = sql`a.id > ${after ?? 0}
      ${since === undefined ? noSql : sql`AND a.id > coalesce((SELECT id FROM audit WHERE at < ${since} ORDER BY id DESC LIMIT 1), 0)`}
      ${before === undefined ? noSql : sql`AND a.id < ${before}`}
      ${operation === undefined ? noSql : sql`AND a.operation = ${operation}`}`
    const order = sql`ORDER BY id ${constantSql(after === undefined ? 'DESC' : 'ASC')} LIMIT ${limit}`
    const all = sql`(SELECT * FROM audit a WHERE ${where} ${order})`
    // Most lines are of the owner, who needs no index to be found.
    const of = (principal: string) => sql`(SELECT * FROM audit a WHERE a.principal = ${principal}
      ${principal === 'owner' ? noSql : sql`AND a.principal <> 'owner'`} AND ${where} ${order})`
    if (principals?.length === 0) return Promise.resolve([])
    return this.db.all(sql`SELECT a.id, a.at, a.principal, ${nameOfLine} AS name, a.operation, a.subject, a.outcome,
      a.address, a.count FROM (${principals ? joinSql(principals.map(of), ' UNION ALL ') : all}) a ${order}`)
  }

  async prune(before: number): Promise<boolean> {
    const removed = await this.db.run(sql`DELETE FROM audit WHERE id IN (SELECT id FROM
      (SELECT id, at FROM audit ORDER BY id LIMIT ${pruneStep}) AS oldest WHERE at < ${before})`)
    return removed === pruneStep
  }
}
