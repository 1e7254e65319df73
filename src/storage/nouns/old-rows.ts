/**
 * What is removed because it is over, an entry for each kind of row: which ones are over, and what goes with them. A row that
 * cannot be removed is set aside, and the others go.
 */

import { sessionKeyOf } from '../../model/session.ts'
import { stepApart } from '../../platform/apart.ts'
import { constantSql, joinSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import { keyLifeMs, partsPerEntry, resultLifeMs } from '../outbox-limits.ts'
import { type Dialect, type NounContext, type Routine, type Runner, readAll, write } from '../routine.ts'
import type { OldKind, StoreMaintenance } from '../store.ts'

/** Rows of one step, which is a transaction of its own. */
const stepRows = 300
/** A bulletin that may not have arrived is named in a later one for so long. */
export const keptBulletinMs = 7 * 24 * 60 * 60_000

interface Kind {
  readonly table: string
  /** The column with its ids; absent: `id`. */
  readonly ids?: string
  /** A row may be in use again: it is locked before what goes with it is removed. */
  readonly mayReturn?: true
  /** The index by which they are found, where the planner may choose a worse one. */
  readonly index?: string
  /**
   * The condition of a row that is over. It holds when the row is removed, too.
   *
   * @param before Unix ms
   * @param kept ids of rows that stay
   */
  isOver(before: number, dialect: Dialect, kept: readonly string[]): Sql
  /** Tables whose rows go with them. `are`: the condition that a column has one of their ids. */
  readonly with?: Readonly<Record<string, (are: (column: string) => Sql) => Sql>>
  /** What is changed in them in place of a removal. */
  readonly set?: Sql
}

/** Tables of which a row keeps the name of its session. */
const namedIn = [
  'acknowledged',
  'agent_conversation',
  'agent_question',
  'agent_time',
  'bulletin',
  'relay_client',
  'topic_member',
  'user_name',
]

/** The condition of a session to which nothing refers but what goes with it, and which has nothing left to send. */
const isUnused = sql`NOT EXISTS (SELECT 1 FROM message m WHERE m.session = session.key)
  AND key NOT IN (SELECT l.session FROM outbox o JOIN outbox_lane l ON l.id = o.lane
    WHERE o.mode = 'queue' AND o.ended_at IS NULL UNION ALL ${joinSql(
      namedIn.map(name => sql`SELECT session FROM ${constantSql(name)} WHERE session IS NOT NULL`),
      ' UNION ALL ',
    )})`

const kinds: Readonly<Record<OldKind, Kind>> = {
  line: {
    table: 'audit',
    // No index has the times, but ids grow with them.
    isOver: before => sql`id IN (SELECT id FROM audit ORDER BY id LIMIT ${stepRows}) AND at < ${before}`,
  },
  turn: {
    table: 'agent_turn',
    index: 'agent_turn_ended',
    isOver: before => sql`ended_at < ${before}`,
    with: { agent_question: are => are('turn') },
  },
  question: {
    table: 'agent_question',
    isOver: before => sql`turn IS NULL AND expires_at < ${before}`,
  },
  key: {
    table: 'access_key',
    // The newest stays, so that the service stays closed, and the one that changed last, for readers of changes.
    isOver: before => sql`revoked_at < ${before} AND nth < (SELECT max(nth) FROM access_key)
      AND revision < (SELECT max(revision) FROM access_key) AND NOT EXISTS
        (SELECT 1 FROM webhook w WHERE w.made_by IN ('key:' || access_key.id, 'panel:' || access_key.id))`,
    with: { relay_client: are => are('key') },
  },
  invitation: {
    table: 'invitation',
    isOver: (before, dialect, kept) =>
      sql`coalesce(revoked_at, expires_at) < ${before} AND NOT ${dialect.isOneOf(sql`id`, kept)}`,
    with: { invitation_use: are => are('invitation') },
  },
  session: {
    table: 'session',
    ids: 'key',
    mayReturn: true,
    isOver: before => sql`unused_since < ${before} AND ${isUnused}`,
    with: {
      session_bot: are => are('session'),
      outbox_lane: are => are('session'),
      consumer_ahead: are => are('session'),
      read_mark: are => are('session'),
      person_mark: are => are('session'),
      turn: are => are('session'),
    },
  },
  'key of send': {
    table: 'outbox',
    isOver: before => sql`key IS NOT NULL AND mode = 'queue' AND created_at <= ${before - keyLifeMs}`,
    set: sql`key = NULL`,
  },
  send: {
    table: 'outbox',
    isOver: before => sql`ended_at IS NOT NULL AND CASE mode
      WHEN 'queue' THEN created_at <= ${before - resultLifeMs} AND ended_at <= ${before - keyLifeMs}
      ELSE key IS NULL OR ended_at <= ${before - keyLifeMs} END`,
    // By their ids, which have an index in both engines.
    with: {
      outbox_part: are => sql`id IN (SELECT p.id FROM outbox e JOIN outbox_part p
        ON p.id >= e.id * ${partsPerEntry} AND p.id < (e.id + 1) * ${partsPerEntry} WHERE ${are('e.id')})`,
    },
  },
  answer: {
    table: 'webhook_try',
    isOver: before => sql`answer IS NOT NULL AND at < ${before}`,
    set: sql`answer = NULL`,
  },
  notice: {
    table: 'notice',
    isOver: before => sql`state IN ('sent', 'unknown', 'over') AND expires_at <= ${before}`,
  },
  bulletin: {
    table: 'bulletin',
    isOver: before => sql`state <> 'sending' AND created_at <= ${before - keptBulletinMs}`,
  },
}

/** The statements that remove rows, or change them. `areThese`: the condition of the rows. */
function* statementsOf({ set, table, ...kind }: Kind, { lock }: Dialect, areThese: Sql): Generator<Sql> {
  const [from, id] = [constantSql(table), constantSql(kind.ids ?? 'id')]
  const these = sql`SELECT ${id} FROM ${from} WHERE ${areThese}`
  if (kind.mayReturn) yield* lock(these)
  for (const [name, ofThese] of Object.entries(kind.with ?? {}))
    yield sql`DELETE FROM ${constantSql(name)} WHERE ${ofThese(column => sql`${constantSql(column)} IN (${these})`)}`
  yield sql`${set ? sql`UPDATE ${from} SET ${set}` : sql`DELETE FROM ${from}`} WHERE ${areThese}`
}

/**
 * Notes since when sessions are unused.
 *
 * @param names of sessions with an account
 */
function* noteUnused(
  { clock, dialect }: Pick<NounContext, 'clock' | 'dialect'>,
  names: readonly string[],
): Routine<void> {
  const rows = yield* readAll<{ key: number; name: string; unused: number; unused_since?: number }>(
    sql`SELECT key, name, unused_since, CASE WHEN ${isUnused} THEN 1 ELSE 0 END AS unused FROM session`,
  )
  const used = new Set(names.map(sessionKeyOf))
  const isOver = (row: (typeof rows)[number]) => row.unused === 1 && !used.has(sessionKeyOf(row.name))
  const changed = rows.filter(row => isOver(row) !== (row.unused_since !== undefined))
  for (const [over, some] of Map.groupBy(changed, isOver)) {
    const areThese = dialect.isOneOf(
      sql`key`,
      some.map(({ key }) => key),
    )
    const [since, condition] = over ? [clock.now(), isUnused] : [undefined, sql`true`]
    yield* write(sql`UPDATE session SET unused_since = ${since} WHERE ${areThese} AND ${condition}`)
  }
}

/** @param ofSessions what an engine demands besides of a session that is removed: a condition after AND */
export const createRemoveOld =
  (
    context: Pick<NounContext, 'clock' | 'dialect'>,
    run: Runner,
    ofSessions: Sql = noSql,
  ): StoreMaintenance['removeOld'] =>
  async (name, before, kept = []) => {
    const { dialect } = context
    const kind = kinds[name]
    const isOver = sql`${kind.isOver(before, dialect, kept)}${name === 'session' ? ofSessions : noSql}`
    if (name === 'session') await run('light', () => noteUnused(context, kept))
    const from = sql`${constantSql(kind.table)}${kind.index === undefined ? noSql : dialect.by(kind.index)}`
    const id = constantSql(kind.ids ?? 'id')
    const rows = await run('plain', () =>
      readAll<{ id: number | string }>(
        sql`SELECT ${id} AS id FROM ${from} WHERE ${isOver} LIMIT ${stepRows}`,
      ),
    )
    const remove = (ids: readonly (number | string)[]) => {
      const areThese = sql`${dialect.isOneOf(id, ids as readonly number[])} AND ${isOver}`
      return run('light', () => write(...statementsOf(kind, dialect, areThese)))
    }
    return stepApart(
      rows.map(({ id }) => id),
      stepRows,
      id => `${name} ${id}`,
      remove,
    )
  }
