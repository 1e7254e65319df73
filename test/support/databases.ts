/**
 * Databases with the tables of svc, on the server that the test files of a process share. Emptying one takes
 * milliseconds, creating one half a second: so a test gets one that an earlier test gave back.
 */
import { systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { connectPg, type PgConnection } from '../../src/platform/postgres.ts'
import { constantSql, sql } from '../../src/platform/sql.ts'
import { openPgStorage } from '../../src/storage/postgres/open.ts'
import { sharedPostgres } from './postgres.ts'
import { password, role } from './postgres-program.ts'

/** The secret key of the stores of the tests. */
export const secret = 'N3v1aJr0oQxK-4mZb8HtYw2LcPdGfSuE'
const template = 'svc_template'
/** A role that owns nothing, with the rights that the page of the engine names. */
export const guest = 'svc_guest'
const guestRights = [
  'USAGE ON SCHEMA',
  'SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA',
  'USAGE, SELECT ON ALL SEQUENCES IN SCHEMA',
  'EXECUTE ON ALL FUNCTIONS IN SCHEMA',
]

export interface TestDatabase extends AsyncDisposable {
  url: string
}

interface Pool {
  /** The superuser's connection to no database of svc. */
  admin: PgConnection
  /** Everything but rows, as a new database has it. */
  form: string
  /** Statements that bring the rows back to those of a new database. */
  emptying: string
}

/** Names of databases that no test has. */
const idle: string[] = []
const kept = new Map<string, PgConnection>()
let pool: Promise<Pool> | undefined
let created = 0
let given = 0

const connect = async (database: string) =>
  connectPg({ url: (await sharedPostgres()).superUrl(database), name: 'tests', answerMs: 60_000 })

/**
 * The superuser's connection to a database of the pool, kept: a connection costs the server 10 ms of processor time,
 * and its first statements as much again.
 */
async function connectionTo(name: string): Promise<PgConnection> {
  const before = kept.get(name)
  if (before && !before.lost.aborted) return before
  const connection = await connect(name)
  kept.set(name, connection)
  return connection
}

/** The first call creates a database with the tables, of which the others are copies. */
async function openPool(): Promise<Pool> {
  const admin = await connect('postgres')
  await admin.run(constantSql(`CREATE DATABASE ${template} OWNER svc`))
  const { url } = await sharedPostgres()
  const options = { secret, clock: systemClock, log: silentLog, maxAgeDays: 0, maxCount: 0 }
  const storage = await openPgStorage({ url: url(template), ...options })
  await storage.close()
  const own = await connect(template)
  await own.run(constantSql(`CREATE ROLE ${guest} LOGIN PASSWORD '${password}'`))
  await own.run(constantSql(`GRANT ${guest} TO ${role}`))
  for (const rights of guestRights) await own.run(constantSql(`GRANT ${rights} svc TO ${guest}`))
  const made = { admin, form: await formOf(own), emptying: await emptyingOf(own) }
  own.destroy()
  return made
}

/** Tables, columns, functions, triggers, rights and settings of a database, as one text. */
async function formOf(connection: PgConnection): Promise<string> {
  const { form } = await connection.one<{ form: string }>(
    constantSql(`SELECT concat_ws(' ',
      (SELECT string_agg(concat_ws(',', relname, relkind, relacl, relowner, reloptions), ';' ORDER BY relname)
         FROM pg_class WHERE relnamespace = 'svc'::regnamespace),
      (SELECT string_agg(concat_ws(',', attrelid::regclass, attname, atttypid, attnotnull), ';' ORDER BY attrelid, attnum)
         FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'svc'::regnamespace AND relkind = 'r' AND attnum > 0),
      (SELECT string_agg(concat_ws(',', tgname, tgenabled), ';' ORDER BY tgname) FROM pg_trigger WHERE NOT tgisinternal),
      (SELECT string_agg(conname, ';' ORDER BY conname) FROM pg_constraint),
      (SELECT string_agg(proname || md5(prosrc), ';' ORDER BY proname, prosrc)
         FROM pg_proc WHERE pronamespace = 'svc'::regnamespace),
      (SELECT string_agg(concat_ws(',', nspname, nspacl), ';' ORDER BY nspname)
         FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp'),
      (SELECT concat_ws(',', datdba, datacl, datconnlimit) FROM pg_database WHERE datname = current_database()),
      (SELECT string_agg(setconfig::text, ';') FROM pg_db_role_setting JOIN pg_database ON pg_database.oid = setdatabase
        WHERE datname = current_database())) AS form`),
  )
  return form
}

/** Triggers and foreign keys of these deletions do not fire. */
async function emptyingOf(connection: PgConnection): Promise<string> {
  const tables = await connection.all<{ name: string }>(
    sql`SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'svc' ORDER BY 1`,
  )
  const statements = ['SET session_replication_role = replica']
  for (const { name } of tables) {
    statements.push(`DELETE FROM svc."${name}"`)
    const { rows } = await connection.one<{ rows: string | null }>(
      constantSql(`SELECT json_agg(t)::text AS rows FROM svc."${name}" AS t`),
    )
    if (rows)
      statements.push(
        `INSERT INTO svc."${name}" OVERRIDING SYSTEM VALUE
         SELECT * FROM json_populate_recordset(NULL::svc."${name}", '${rows.replaceAll("'", "''")}')`,
      )
  }
  const sequences = await connection.all<{ name: string; last: string | null }>(
    sql`SELECT sequencename AS name, last_value::text AS last FROM pg_sequences WHERE schemaname = 'svc'`,
  )
  for (const { name, last } of sequences)
    statements.push(`SELECT setval('svc."${name}"', ${last ?? 1}, ${last !== null && last !== undefined})`)
  return [...statements, 'SET session_replication_role = origin'].join(';\n')
}

function poolOfWorker(): Promise<Pool> {
  pool ??= openPool()
  return pool
}

async function create(): Promise<string> {
  const { admin } = await poolOfWorker()
  const name = `t${++created}`
  await admin.run(constantSql(`CREATE DATABASE ${name} TEMPLATE ${template} OWNER svc`))
  const connection = await connect(name)
  await connection.run(newId())
  connection.destroy()
  return name
}

/** A copy has the id of its template: here each is a store of its own. */
const newId = () => sql`UPDATE svc.meta SET store_id = ${`s${++given}`}, home = svc.home()`

/**
 * Ends the connections of a test, and makes its database one for the next test.
 *
 * @returns false if more than rows was changed
 */
async function empty(name: string): Promise<boolean> {
  const { form, emptying } = await poolOfWorker()
  const connection = await connectionTo(name)
  const others = sql`FROM pg_stat_activity WHERE datname = ${name} AND pid <> pg_backend_pid()`
  await connection.all(sql`SELECT pg_terminate_backend(pid, 60000) ${others}`)
  if ((await formOf(connection)) !== form) return false
  await connection.script([constantSql(emptying), newId()])
  return true
}

/**
 * Returns a database for one test.
 *
 * @param isNew true: one that no test had before, and to which nobody else is connected, for tests of plans, statistics,
 *   files of the server and connections
 */
export async function newDatabase({ isNew = false } = {}): Promise<TestDatabase> {
  const name = (isNew ? undefined : idle.pop()) ?? (await create())
  return {
    url: (await sharedPostgres()).url(name),
    async [Symbol.asyncDispose]() {
      if (await empty(name)) idle.push(name)
      else await (await sharedPostgres()).dropDatabase(name)
    },
  }
}
