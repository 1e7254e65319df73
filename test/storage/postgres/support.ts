/** The PostgreSQL engine for the tests: its storage on a database of its own, and other processes beside it. */
import { onTestFinished } from 'bun:test'
import { fileURLToPath } from 'node:url'
import { type Clock, systemClock } from '../../../src/platform/clock.ts'
import { createLog, silentLog } from '../../../src/platform/log.ts'
import { connectPg } from '../../../src/platform/postgres.ts'
import { constantSql, sql } from '../../../src/platform/sql.ts'
import { placesPerMessage } from '../../../src/storage/log-rows.ts'
import { openPgStorage, type PgStorage } from '../../../src/storage/postgres/open.ts'
import { guest, newDatabase, secret } from '../../support/databases.ts'
import { type Opened, type Place, testClock } from '../support.ts'

const options = (clock: Clock, log = silentLog) => ({ secret, clock, log, maxAgeDays: 0, maxCount: 0 })

type Limits = { maxAgeDays?: number; maxCount?: number; after?: number }

/** The URL of a database for the role that owns nothing. */
export const asGuest = (url: string): string => url.replace('//svc:', `//${guest}:`)

async function continueIds(url: string, id: number): Promise<void> {
  const connection = await connectPg({ url, name: 'tests', answerMs: 60_000 })
  const place = id * placesPerMessage
  await connection.script([
    sql`UPDATE svc.head SET last = ${id}, place = ${place}`,
    sql`UPDATE svc.durable SET upto = ${id}, place = ${place}`,
    sql`UPDATE svc.indexed SET upto = ${id}`,
    sql`SELECT setval(format('svc.%I', sequencename)::regclass, ${id}) FROM pg_sequences WHERE schemaname = 'svc'`,
  ])
  connection.destroy()
}

/**
 * A storage on a database of its own, whose ids go on after `after`; `url` is for the owner. By default the storage has the role that owns nothing.
 * `isNew` is passed to `newDatabase`.
 */
export async function openPostgres(
  { after = 0, ...limits }: Limits = {},
  { isNew = false, isOwner = false } = {},
): Promise<Opened & { storage: PgStorage; url: string }> {
  const database = await newDatabase({ isNew })
  const { url } = database
  const clock = testClock()
  const lines: string[] = []
  const log = createLog('DEBUG', line => void lines.push(line))
  const ownUrl = isOwner ? url : asGuest(url)
  const open = (own = log) => openPgStorage({ url: ownUrl, ...options(clock, own), ...limits })
  if (after > 0) await continueIds(url, after)
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
    id: nth => after + nth,
    async continueAfter(id) {
      await test.storage.close()
      await continueIds(url, id)
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
    async query(statement) {
      const connection = await connectPg({ url, name: 'tests', answerMs: 60_000 })
      await connection.run(sql`SET search_path TO svc`)
      const rows = await connection.all<Record<string, unknown>>(statement)
      connection.destroy()
      return rows
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
