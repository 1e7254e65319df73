/** The audit log. The engines' triggers write the lines of sends, in the write of the message. */
import type { AuditLine, AuditOutcome } from '../../model/audit.ts'
import { SharedTurns } from '../../platform/clock.ts'
import { Permits } from '../../platform/permits.ts'
import { constantSql, joinSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import type { AuditFilter, AuditStore, NewAuditLine } from '../audit.ts'
import {
  type Noun,
  type NounContext,
  openNoun,
  type Routine,
  type RoutineStep,
  type Runner,
  readAll,
  readFirst,
  write,
} from '../routine.ts'
import { likePatternOf } from '../search-text.ts'

/** Principals whose lines one statement reads: SQLite composes at most 500 of them. */
const principalsAtOnce = 100
/** Ids of a first window. */
const firstWidth = 4096
/** Readers that ask the store at the same time: other work needs connections too. */
const mostAtOnce = 2

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
    messages: sql`('[' || coalesce(CAST(a.message AS text), trim(a.decided, ',')) || ']')`,
    draft_by: sql`a.draft_by`,
    draft_by_name: keyName('a.draft_by'),
    changed: sql`a.changed`,
  }
  const selected = joinSql(
    Object.entries(columns).map(([name, column]) => sql`${column} AS ${constantSql(name)}`),
  )
  const json = dialect.jsonOf({ ...columns, messages: dialect.json(columns.messages) })
  return {
    selected,
    announce: (id: Sql) => addEvent({ type: 'audit.line' }, json, sql`audit a WHERE a.id = ${id}`),
    insert: (line: NewAuditLine): Sql[] => [
      ...dialect.lock(head),
      sql`INSERT INTO audit (at, principal, operation, subject, outcome, address, request_id, count, decided, draft_by,
          changed) VALUES (${line.at}, ${line.principal}, ${line.operation}, ${withoutErased(line.subject)},
        ${line.outcome}, ${line.address}, ${line.request_id}, ${line.count}, ${line.messages && `,${line.messages.join(',')},`},
        ${line.draft_by}, ${line.changed}) RETURNING id`,
    ],
  }
}

/** The verbs that add to the log. */
export function createAudit(context: LineContext): Noun<Pick<AuditStore, 'add' | 'settle'>> {
  const { withoutErased } = context
  const { announce, insert } = createAuditLines(context)
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
    },
    modes: { add: 'intake', settle: 'redelivery' },
  }
}

type AuditRow = Omit<AuditLine, 'messages'> & { messages?: string }

const toLine = ({ messages, ...line }: AuditRow): AuditLine =>
  messages === undefined ? line : { ...line, messages: JSON.parse(messages) }

/** Lines after the first id up to the second one. */
type IdWindow = readonly [low: number, high: number]

const isIn = ([low, high]: IdWindow): Sql => sql`id > ${low} AND id <= ${high}`

/** The filters on a line. */
type Wanted = Omit<AuditFilter, 'after' | 'before' | 'since' | 'principals' | 'limit'>

function conditionOf(window: IdWindow, wanted: Wanted): Sql {
  const { address, message, operations, outcome, request_id, subjects = [], until } = wanted
  const words = subjects.map(one => likePatternOf(` ${one} `))
  const conditions = [
    isIn(window),
    ...(operations === undefined ? [] : [sql`operation IN (${joinSql(operations.map(one => sql`${one}`))})`]),
    ...(outcome === undefined ? [] : [outcomes[outcome]]),
    ...(until === undefined ? [] : [sql`at < ${until}`]),
    ...words.map(pattern => sql`' ' || subject || ' ' LIKE ${pattern} ESCAPE '\\'`),
    ...(address === undefined ? [] : [sql`address = ${address}`]),
    ...(request_id === undefined ? [] : [sql`request_id = ${request_id}`]),
    ...(message === undefined
      ? []
      : [
          sql`id IN (SELECT id FROM audit WHERE message = ${message} UNION ALL
            SELECT id FROM audit WHERE ${isIn(window)} AND decided IS NOT NULL AND decided LIKE ${`%,${message},%`})`,
        ]),
  ]
  return joinSql(conditions, ' AND ')
}

/**
 * Opens the log. Most filters have no index, and one may match none of a million lines. So the log is read in windows of
 * ids, each one statement, and other work runs between two of them.
 *
 * @param briskMs windows that are faster get wider, and those that take four times as long get narrower
 */
export function openAudit(context: NounContext, run: Runner, briskMs: number): AuditStore {
  const { clock } = context
  const { selected } = createAuditLines(context)
  const turns = new SharedTurns(clock)
  const permits = new Permits(mostAtOnce)

  async function* windowsOf(
    [low, high]: IdWindow,
    isDown: boolean,
    signal?: AbortSignal,
  ): AsyncGenerator<IdWindow> {
    const turn = turns.join()
    let [from, to, width] = [low, high, firstWidth]
    while (from < to) {
      await turn()
      using _permit = await permits.take(signal)
      const began = clock.monotonic()
      const window = [
        isDown ? Math.max(from, to - width) : from,
        isDown ? to : Math.min(to, from + width),
      ] as const
      yield window
      const tookMs = clock.monotonic() - began
      if (tookMs < briskMs) width *= 4
      else if (tookMs > 4 * briskMs) width = Math.max(firstWidth, width / 4)
      if (isDown) to = window[0]
      else from = window[1]
    }
  }

  function* readPage(where: Sql, order: Sql, principals: readonly string[] | undefined): Routine<AuditRow[]> {
    if (principals === undefined)
      return yield* readAll<AuditRow>(sql`SELECT ${selected} FROM audit a WHERE ${where} ${order}`)
    // Most lines are of the owner, who needs no index to be found.
    const linesOf = (
      principal: string,
    ) => sql`SELECT * FROM (SELECT * FROM audit WHERE principal = ${principal}
      ${principal === 'owner' ? noSql : sql`AND principal <> 'owner'`} AND ${where} ${order}) AS own`
    const found: AuditRow[] = []
    for (let from = 0; from < principals.length; from += principalsAtOnce) {
      const lines = joinSql(principals.slice(from, from + principalsAtOnce).map(linesOf), ' UNION ALL ')
      found.push(...(yield* readAll<AuditRow>(sql`SELECT ${selected} FROM (${lines}) a ${order}`)))
    }
    return found
  }

  return {
    ...openNoun(createAudit(context), run),
    async list({ after, before, since, principals, limit, ...wanted }, signal) {
      const isDown = after === undefined
      const order = (most: number) => sql`ORDER BY id ${constantSql(isDown ? 'DESC' : 'ASC')} LIMIT ${most}`
      const ends = await run('plain', () =>
        readFirst<{
          low: number
          high: number
        }>(sql`SELECT coalesce((SELECT min(id) FROM audit), 1) - 1 AS low,
          coalesce((SELECT max(id) FROM audit), 0) AS high`),
      )
      const high = Math.min(ends!.high, (before ?? Number.POSITIVE_INFINITY) - 1)
      let low = Math.max(ends!.low, after ?? 0)
      if (since !== undefined)
        for await (const window of windowsOf([low, high], true, signal)) {
          // Ids grow with time.
          const older = await run('plain', () =>
            readFirst<{ id: number }>(
              sql`SELECT id FROM audit WHERE ${isIn(window)} AND at < ${since} ORDER BY id DESC LIMIT 1`,
            ),
          )
          if (older === undefined) continue
          low = older.id
          break
        }
      const found: AuditLine[] = []
      for await (const window of windowsOf([low, high], isDown, signal)) {
        const most = limit - found.length
        const lines = await run('plain', () => readPage(conditionOf(window, wanted), order(most), principals))
        lines.sort((a, b) => (isDown ? b.id - a.id : a.id - b.id))
        found.push(...lines.slice(0, most).map(toLine))
        if (found.length >= limit) break
      }
      return found
    },
  }
}
