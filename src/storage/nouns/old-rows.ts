/**
 * What is removed because it is over, an entry for each kind of row: which ones are over, and what goes with them. A row that
 * cannot be removed is set aside, and the others go.
 */
import { stepApart } from '../../platform/apart.ts'
import { constantSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import { keyLifeMs, partsPerEntry, resultLifeMs } from '../outbox-limits.ts'
import { type Dialect, type NounContext, type Runner, readAll, write } from '../routine.ts'
import type { OldKind, StoreMaintenance } from '../store.ts'

/** Rows of one step, which is a transaction of its own. */
const stepRows = 300
/** A bulletin that may not have arrived is named in a later one for so long. */
export const keptBulletinMs = 7 * 24 * 60 * 60_000

interface Kind {
  readonly table: string
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
  },
  invitation: {
    table: 'invitation',
    isOver: (before, dialect, kept) =>
      sql`coalesce(revoked_at, expires_at) < ${before} AND NOT ${dialect.isOneOf(sql`id`, kept)}`,
    with: { invitation_use: are => are('invitation') },
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
  notice: {
    table: 'notice',
    isOver: before => sql`state IN ('sent', 'unknown', 'over') AND expires_at <= ${before}`,
  },
  bulletin: {
    table: 'bulletin',
    isOver: before => sql`state <> 'sending' AND created_at <= ${before - keptBulletinMs}`,
  },
}

/** The statements that remove rows, or change them. `are`: the condition that a column has one of their ids. */
function* statementsOf(
  { set, table, ...kind }: Kind,
  isOver: Sql,
  are: (column: string) => Sql,
): Generator<Sql> {
  for (const [name, ofThese] of Object.entries(kind.with ?? {}))
    yield sql`DELETE FROM ${constantSql(name)} WHERE ${ofThese(are)}`
  const verb = set ? sql`UPDATE ${constantSql(table)} SET ${set}` : sql`DELETE FROM ${constantSql(table)}`
  yield sql`${verb} WHERE ${are('id')} AND ${isOver}`
}

export const createRemoveOld =
  ({ dialect }: Pick<NounContext, 'dialect'>, run: Runner): StoreMaintenance['removeOld'] =>
  async (name, before, kept = []) => {
    const kind = kinds[name]
    const isOver = kind.isOver(before, dialect, kept)
    const from = sql`${constantSql(kind.table)}${kind.index === undefined ? noSql : dialect.by(kind.index)}`
    const rows = await run('plain', () =>
      readAll<{ id: number | string }>(sql`SELECT id FROM ${from} WHERE ${isOver} LIMIT ${stepRows}`),
    )
    const remove = (ids: readonly (number | string)[]) => {
      const are = (column: string) => dialect.isOneOf(constantSql(column), ids as readonly number[])
      return run('light', () => write(...statementsOf(kind, isOver, are)))
    }
    return stepApart(
      rows.map(({ id }) => id),
      stepRows,
      id => `${name} ${id}`,
      remove,
    )
  }
