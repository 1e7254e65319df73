/** The PostgreSQL engine for the tests: its storage on a database of its own, and other processes beside it. */
import { onTestFinished } from 'bun:test'
import { fileURLToPath } from 'node:url'
import { type Clock, systemClock } from '../../../src/platform/clock.ts'
import { createLog, silentLog } from '../../../src/platform/log.ts'
import { connectPg, type PgConnection } from '../../../src/platform/postgres.ts'
import { constantSql, sql } from '../../../src/platform/sql.ts'
import { openPgStorage, type PgStorage } from '../../../src/storage/postgres/open.ts'
import { sharedPostgres } from '../../support/postgres.ts'
import { type Opened, type Place, testClock } from '../support.ts'

/** The secret key of the stores of the tests. */
export const secret = 'N3v1aJr0oQxK-4mZb8HtYw2LcPdGfSuE'
const template = 'svc_template'

let nth = 0
let admin: Promise<PgConnection> | undefined

/** A connection of the superuser; the first call makes a database with the tables, of which the others are copies. */
const asAdmin = () => {
  admin ??= (async () => {
    const server = await sharedPostgres()
    const connection = await connectPg({ url: server.superUrl('postgres'), name: 'tests', answerMs: 60_000 })
    await connection.run(constantSql(`CREATE DATABASE ${template} OWNER svc`))
    const storage = await openPgStorage({ url: server.url(template), ...options(systemClock) })
    await storage.close()
    await connection.run(sql`SELECT 1`)
    return connection
  })()
  return admin
}

const options = (clock: Clock, log = silentLog) => ({ secret, clock, log, maxAgeDays: 0, maxCount: 0 })

/** A database with the tables of svc, for one test. @returns its URL */
export async function newDatabase(): Promise<{ url: string } & AsyncDisposable> {
  const connection = await asAdmin()
  const name = `t${++nth}`
  await connection.run(constantSql(`CREATE DATABASE ${name} TEMPLATE ${template} OWNER svc`))
  const server = await sharedPostgres()
  // A copy has the id of its template: here each is a store of its own.
  const own = await connectPg({ url: server.superUrl(name), name: 'tests', answerMs: 60_000 })
  await own.run(sql`UPDATE svc.meta SET store_id = ${name}, home = svc.home()`)
  own.destroy()
  return {
    url: server.url(name),
    [Symbol.asyncDispose]: async () =>
      void (await connection.run(constantSql(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`))),
  }
}

type Limits = { maxAgeDays?: number; maxCount?: number }

/** A storage on a database of its own. */
export async function openPostgres(
  limits: Limits = {},
): Promise<Opened & { storage: PgStorage; url: string }> {
  const database = await newDatabase()
  const { url } = database
  const clock = testClock()
  const lines: string[] = []
  const log = createLog('DEBUG', line => void lines.push(line))
  const open = (own = log) => openPgStorage({ url, ...options(clock, own), ...limits })
  const test: Opened & { storage: PgStorage; url: string } = {
    url,
    clock,
    lines,
    storage: await open(),
    get store() {
      return test.storage.store
    },
    async reopen() {
      await test.storage.close()
      test.storage = await open()
    },
    async dump() {
      const connection = await connectPg({ url, name: 'tests', answerMs: 60_000 })
      const tables = await connection.all<{ name: string }>(
        sql`SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'svc'`,
      )
      const rows: [string, object[]][] = []
      for (const { name } of tables)
        rows.push([name, await connection.all(constantSql(`SELECT * FROM svc."${name}"`))])
      connection.destroy()
      return JSON.stringify(rows)
    },
    async second() {
      const storage = await open(silentLog)
      return { storage, store: storage.store, [Symbol.asyncDispose]: () => storage.close() }
    },
    async [Symbol.asyncDispose]() {
      await test.storage.close()
      await database[Symbol.asyncDispose]()
    },
  }
  return test
}

const urlOf = (file: string) => JSON.stringify(fileURLToPath(new URL(`../../../${file}`, import.meta.url)))

/** What several processes share, for one test. */
export function databaseOfTest(): Place {
  let url: string | undefined
  return {
    async open() {
      if (url === undefined) {
        const database = await newDatabase()
        onTestFinished(() => database[Symbol.asyncDispose]())
        url = database.url
      }
      const storage = await openPgStorage({ url, ...options(systemClock) })
      return Object.assign(storage, { [Symbol.asyncDispose]: () => storage.close() })
    },
    start(body) {
      if (url === undefined) throw new Error('open the place first')
      const program = `const { openPgStorage } = await import(${urlOf('src/storage/postgres/open.ts')})
        const { systemClock } = await import(${urlOf('src/platform/clock.ts')})
        const { silentLog } = await import(${urlOf('src/platform/log.ts')})
        const { insert } = await import(${urlOf('test/storage/support.ts')})
        const options = { url: ${JSON.stringify(url)}, secret: ${JSON.stringify(secret)}, clock: systemClock, log: silentLog }
        const storage = await openPgStorage({ ...options, maxAgeDays: 0, maxCount: 0 })
        const { store } = storage
        const hold = () => new Promise(() => setTimeout(() => process.exit(9), 30_000))
        ${body}`
      const child = Bun.spawn([process.execPath, '-e', program], {
        stdout: 'pipe',
        stderr: 'inherit',
        stdin: 'pipe',
      })
      onTestFinished(() => child.kill('SIGKILL'))
      return child
    },
    async noticeDeaths() {
      const connection = await connectPg({ url: url!, name: 'tests', answerMs: 60_000 })
      await connection.run(sql`UPDATE svc.node SET lease_until = clock_timestamp() - interval '1 s'`)
      connection.destroy()
    },
  }
}
