/** The audit log. The engines' triggers write the lines of sends, in the write of the message. */
import type { AuditLine, AuditOutcome } from '../../model/audit.ts'
import { constantSql, joinSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import type { AuditFilter, AuditStore, NewAuditLine } from '../audit.ts'
import { type Noun, type NounContext, type RoutineStep, readAll, readFirst, write } from '../routine.ts'
import { likePatternOf } from '../search-text.ts'

/** Principals whose lines one statement reads: SQLite composes at most 500 of them. */
const principalsAtOnce = 100

/** What adds to the log has its head: a reader who follows the lines by id misses none. SQLite has one writer anyway. */
const head = constantSql('SELECT last FROM head')

const outcomes: Readonly<Record<AuditOutcome, Sql>> = {
  done: constantSql(`outcome IN ('done', 'accepted')`),
  open: constantSql(`(outcome IS NULL OR outcome IN ('queued', 'sending'))`),
  denied: constantSql(`outcome = 'denied'`),
  failed: constantSql(`outcome NOT IN ('done', 'accepted', 'queued', 'sending', 'denied')`),
}

/** What lines need of an engine. */
export type LineContext = Pick<NounContext, 'addEvent' | 'dialect' | 'keyName' | 'withoutErased'>

/** The statements by which a line is added, the last of which returns its id; and that of its event, once it has an outcome. */
export function createAuditLines({ addEvent, dialect, keyName, withoutErased }: LineContext) {
  const columns: Record<keyof AuditLine, Sql> = {
    id: sql`a.id`,
    at: sql`a.at`,
    principal: sql`a.principal`,
    name: keyName('a.principal'),
    operation: sql`a.operation`,
    subject: sql`a.subject`,
    outcome: sql`a.outcome`,
    address: sql`a.address`,
    request_id: sql`a.request_id`,
    count: sql`a.count`,
    messages: sql`coalesce(CAST(a.message AS text), trim(a.decided, ','))`,
    draft_by: sql`a.draft_by`,
    draft_by_name: keyName('a.draft_by'),
    changed: sql`a.changed`,
  }
  const selected = joinSql(
    Object.entries(columns).map(([name, column]) => sql`${column} AS ${constantSql(name)}`),
  )
  const json = dialect.jsonOf(columns)
  return {
    selected,
    announce: (id: Sql) => addEvent({ type: 'audit.line' }, json, sql`audit a WHERE a.id = ${id}`),
    insert: (line: NewAuditLine): Sql[] => [
      ...dialect.lock(head),
      sql`INSERT INTO audit (at, principal, operation, subject, outcome, address, request_id, count, decided, draft_by,
          changed) VALUES (${line.at}, ${line.principal}, ${line.operation}, ${withoutErased(line.subject)},
        ${line.outcome}, ${line.address}, ${line.request_id}, ${line.count}, ${line.messages && `,${line.messages},`},
        ${line.draft_by}, ${line.changed}) RETURNING id`,
    ],
  }
}

export function createAudit(context: LineContext): Noun<AuditStore> {
  const { withoutErased } = context
  const { announce, insert, selected } = createAuditLines(context)
  /** The filters that no index serves, and the one for a message. */
  const furtherOf = ({ until, subjects = [], address, request_id, message }: Partial<AuditFilter>): Sql => {
    const words = subjects.map(one => likePatternOf(` ${one} `))
    const conditions = [
      ...(until === undefined ? [] : [sql`at < ${until}`]),
      ...words.map(pattern => sql`' ' || subject || ' ' LIKE ${pattern} ESCAPE '\\'`),
      ...(address === undefined ? [] : [sql`address = ${address}`]),
      ...(request_id === undefined ? [] : [sql`request_id = ${request_id}`]),
      ...(message === undefined
        ? []
        : [
            sql`id IN (SELECT id FROM audit WHERE message = ${message} UNION ALL
              SELECT id FROM audit WHERE decided IS NOT NULL AND decided LIKE ${`%,${message},%`})`,
          ]),
    ]
    return joinSql([noSql, ...conditions], ' AND ')
  }
  return {
    verbs: {
      *add(line) {
        const added = insert(line)
        const event = line.outcome === undefined ? [] : [announce(sql`(SELECT max(id) FROM audit)`)]
        const rows = yield { write: [...added, ...event] } satisfies RoutineStep
        return (rows[added.length - 1] as unknown as { id: number }[])[0]!.id
      },

      *settle(id, outcome, subject) {
        yield* write(
          sql`UPDATE audit SET outcome = ${outcome}, subject = coalesce(${withoutErased(subject)}, subject)
            WHERE id = ${id}`,
          announce(sql`${id}`),
        )
      },

      *list({ after, before, since, principals, operations, outcome, limit, ...filter }) {
        // Ids grow with time, so one walk from the end finds the start.
        const older =
          since === undefined
            ? undefined
            : yield* readFirst<{ id: number }>(
                sql`SELECT id FROM audit WHERE at < ${since} ORDER BY id DESC LIMIT 1`,
              )
        const where = sql`id > ${Math.max(after ?? 0, older?.id ?? 0)}
          ${before === undefined ? noSql : sql`AND id < ${before}`}
          ${operations === undefined ? noSql : sql`AND operation IN (${joinSql(operations.map(one => sql`${one}`))})`}
          ${outcome === undefined ? noSql : sql`AND ${outcomes[outcome]}`} ${furtherOf(filter)}`
        const order = sql`ORDER BY id ${constantSql(after === undefined ? 'DESC' : 'ASC')} LIMIT ${limit}`
        if (principals === undefined)
          return yield* readAll<AuditLine>(sql`SELECT ${selected} FROM audit a WHERE ${where} ${order}`)
        // Most lines are of the owner, who needs no index to be found.
        const linesOf = (
          principal: string,
        ) => sql`SELECT * FROM (SELECT * FROM audit WHERE principal = ${principal}
          ${principal === 'owner' ? noSql : sql`AND principal <> 'owner'`} AND ${where} ${order}) AS own`
        const found: AuditLine[] = []
        for (let from = 0; from < principals.length; from += principalsAtOnce) {
          const lines = joinSql(principals.slice(from, from + principalsAtOnce).map(linesOf), ' UNION ALL ')
          found.push(...(yield* readAll<AuditLine>(sql`SELECT ${selected} FROM (${lines}) a ${order}`)))
        }
        return found.sort((a, b) => (after === undefined ? b.id - a.id : a.id - b.id)).slice(0, limit)
      },
    },
    modes: { add: 'intake', settle: 'redelivery', list: 'plain' },
  }
}
