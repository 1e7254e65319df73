/** What nouns need of PostgreSQL, and how their verbs run: a lost attempt is repeated. */
import type { Clock } from '../../platform/clock.ts'
import { constantSql, noSql, sql } from '../../platform/sql.ts'
import type { NewAuditLine } from '../audit.ts'
import { createAudit, type LineContext } from '../nouns/audit.ts'
import { placesKept } from '../nouns/events.ts'
import { erasedUserError } from '../people.ts'
import {
  type Dialect,
  type KeyChanges,
  type Mode,
  type NounContext,
  namedColumns,
  type Runner,
  readAll,
  readFirst,
} from '../routine.ts'
import { OutboxPlan } from '../rules/outbox-plan.ts'
import type { PgDatabase } from './database.ts'
import { drive } from './drive.ts'
import { type LoadedRow, PgEntries } from './entries.ts'
import { PgLanes } from './lanes.ts'
import { keyNameOf } from './message-rows.ts'
import { type PgPlan, statementsOf } from './outbox-plans.ts'
import { type EngineContext, inScope } from './part.ts'
import { ensureSession, keyOfName, keysOfName } from './session-keys.ts'

export const postgresDialect: Dialect = {
  isOneOf: (value, list) =>
    sql`${value} = ANY (${list}::${constantSql(typeof list[0] === 'number' ? 'bigint[]' : 'text[]')})`,
  rowIds: column => sql`CROSS JOIN unnest(${column}) AS one(value)`,
  expect: condition => [sql`SELECT expect(${condition})`],
  lock: select => [sql`${select} FOR UPDATE`],
  holding: table => constantSql(` FOR SHARE OF ${table}`),
  oneAtATime: lock => [sql`SELECT pg_advisory_xact_lock(${constantSql(String(lock))})`],
  by: () => noSql,
  inScope,
  json: text => sql`${text}::json`,
  // What `toStorable` escaped becomes an escape of JSON.
  jsonOf: columns =>
    sql`replace(json_strip_nulls(json_build_object(${namedColumns(columns)}))::text, chr(57598), '\\u')`,
  least: constantSql('least'),
  greatest: constantSql('greatest'),
  inOrderJoin: constantSql('JOIN'),
  version: constantSql('xmin::text'),
}

/** Locks `head` and raises its revision above every revision that a node has read. */
const keyChanges: KeyChanges = {
  row: constantSql('SELECT FROM head'),
  begin: [constantSql('UPDATE head SET revision = revision + 1')],
  revision: constantSql('(SELECT greatest((SELECT max(revision) + 1 FROM access_key), revision) FROM head)'),
}

/** @param clock gives the time of rows that are added */
const createLineContext = (clock: Pick<Clock, 'now'>): LineContext => ({
  dialect: postgresDialect,
  // A trigger does that.
  withoutErased: text => text,
  keyName: column => keyNameOf(constantSql(column)),
  addEvent: (
    { session, type },
    data,
    from = sql`(SELECT 1) AS one`,
  ) => sql`SELECT add_events(jsonb_build_array(
    jsonb_build_object('type', ${type}::text, 'at', ${clock.now()}::bigint, 'session', ${session}::text,
      'data', ${data}::text)), ${type === 'audit.line' ? placesKept : 0}) FROM ${from}`,
})

/** Adds a line to the audit log, for a process that is no node of the store. */
export const addAuditLine = (db: PgDatabase, line: NewAuditLine): Promise<number> =>
  createRunner(db)('write', () => createAudit(createLineContext({ now: () => line.at })).verbs.add(line))

export const createNounContext = (context: EngineContext): NounContext => ({
  ...createLineContext(context.clock),
  clock: context.clock,
  sealer: context.sealer,
  claims: {
    owner: context.db.node,
    dead: table => constantSql(`NOT lives(${table}.owner)`),
    isDead: row => row.dead === true,
  },
  sessionKey: keyOfName,
  sessionKeys: name => sql`(SELECT unnest(${keysOfName(name)}))`,
  ensureSession,
  *rejectErased(user) {
    const row = yield* readFirst<{ hash?: string }>(sql`SELECT find_erased(${user}) AS hash`)
    if (row?.hash !== undefined) throw erasedUserError()
  },
  *erasedOf(users) {
    const rows = yield* readAll<{ one: string }>(
      sql`SELECT one FROM unnest(${users}::text[]) AS one WHERE find_erased(one) IS NOT NULL`,
    )
    return rows.map(({ one }) => one)
  },
  keyChanges,
  *changeEntries(which, decide) {
    const lanes = new PgLanes(context)
    const entries = new PgEntries(context, { lanes })
    yield* lanes.hold(sql`l.id IN (SELECT e.lane FROM outbox e WHERE ${which})`)
    const rows = yield* readAll<LoadedRow>(entries.select(which))
    const plan: PgPlan = new OutboxPlan(context.clock.now())
    for (const found of entries.loadedOf(rows, new Map())) decide(found, plan)
    return statementsOf(plan)
  },
})

const durableModes: ReadonlySet<Mode> = new Set(['write', 'intake', 'news', 'redelivery'])

export const createRunner =
  (db: PgDatabase): Runner =>
  async (mode, begin) => {
    const attempt = () => db.retry(queries => drive(queries, begin()))
    const result = await (durableModes.has(mode) ? db.durably(attempt) : attempt())
    if (mode === 'news' || mode === 'touch') await db.touch()
    return result
  }
