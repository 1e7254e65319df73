/** What nouns need of PostgreSQL, and how their verbs run: a lost attempt is repeated. */
import { constantSql, joinSql, noSql, sql } from '../../platform/sql.ts'
import type { Dialect, Mode, NounContext, Runner } from '../routine.ts'
import type { PgDatabase } from './database.ts'
import { drive } from './drive.ts'
import { eventDataOf, placesKept } from './events.ts'
import { keyNameOf } from './message-rows.ts'
import type { EngineContext } from './part.ts'
import { ensureSession, keyOfName, keysOfName } from './session-keys.ts'

export const postgresDialect: Dialect = {
  isOneOf: (value, list) =>
    sql`${value} = ANY (${list}::${constantSql(typeof list[0] === 'number' ? 'bigint[]' : 'text[]')})`,
  expect: condition => [sql`SELECT expect(${condition})`],
  lock: select => [sql`${select} FOR UPDATE`],
  holding: table => constantSql(` FOR SHARE OF ${table}`),
  oneAtATime: lock => [sql`SELECT pg_advisory_xact_lock(${constantSql(String(lock))})`],
  by: () => noSql,
  inOrderJoin: constantSql('JOIN'),
}

export const createNounContext = ({ clock, db }: EngineContext): NounContext => ({
  clock,
  dialect: postgresDialect,
  claims: {
    owner: db.node,
    dead: table => constantSql(`NOT lives(${table}.owner)`),
    isDead: row => row.dead === true,
  },
  sessionKey: keyOfName,
  sessionKeys: name => sql`(SELECT unnest(${keysOfName(name)}))`,
  ensureSession,
  // Triggers do both.
  rejectErased: () => {},
  withoutErased: text => text,
  keyName: column => keyNameOf(constantSql(column)),
  eventOfRow(type, data) {
    const columns = Object.entries(data).map(([name, column]) => sql`${constantSql(`'${name}'`)}, ${column}`)
    const json = sql`json_strip_nulls(json_build_object(${joinSql(columns)}))`
    return from => sql`SELECT add_events(jsonb_build_array(jsonb_build_object('type', ${type}::text,
      'at', ${clock.now()}::bigint, 'data', ${eventDataOf(json)})), ${type === 'audit.line' ? placesKept : 0}) FROM ${from}`
  },
})

const durableModes: ReadonlySet<Mode> = new Set(['write', 'intake', 'redelivery'])

export const createRunner =
  (db: PgDatabase): Runner =>
  async (mode, begin) => {
    const attempt = () => db.retry(queries => drive(queries, begin()))
    return await (durableModes.has(mode) ? db.durably(attempt) : attempt())
  }
