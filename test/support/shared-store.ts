/**
 * With SVC_TEST_STORE=postgres the gateways and libraries of the tests have their store on PostgreSQL: each data
 * directory has a database, which the helpers of the tests read too.
 */
import type { Clock } from '../../src/platform/clock.ts'
import { connectPg, type PgConnection } from '../../src/platform/postgres.ts'
import { sql } from '../../src/platform/sql.ts'
import type { Storage } from '../../src/storage/storage.ts'

export const isOnPostgres = process.env.SVC_TEST_STORE === 'postgres'

interface SharedStore {
  storeUrl: string
  secretKey: string
}

const stores = new Map<string, Promise<SharedStore & AsyncDisposable & { connection: PgConnection }>>()

async function createStore() {
  const { newDatabase } = await import('./databases.ts')
  const database = await newDatabase()
  const connection = await connectPg({ url: database.url, name: 'tests', answerMs: 60_000 })
  // Each has a secret key of its own, as data directories have: the first who opens it says which.
  await connection.run(sql`UPDATE meta SET secret_key = NULL`)
  return {
    storeUrl: database.url,
    secretKey: crypto.randomUUID(),
    connection,
    async [Symbol.asyncDispose]() {
      connection.destroy()
      await database[Symbol.asyncDispose]()
    },
  }
}

function openStoreOf(dir: string) {
  const store = stores.get(dir) ?? createStore()
  stores.set(dir, store)
  return store
}

/** The options of svc for the database of a data directory; none if the store is in the directory. */
export async function storeOf(dir: string): Promise<SharedStore | undefined> {
  if (!isOnPostgres) return undefined
  const { storeUrl, secretKey } = await openStoreOf(dir)
  return { storeUrl, secretKey }
}

/** The same for the library, whose store is off unless it is asked for. */
export const libraryStoreOf = async (dir: string): Promise<SharedStore | { store: true }> =>
  (await storeOf(dir)) ?? { store: true }

/** The variables with which a program has its store there too; none if the store is in the directory. */
export async function storeVariablesOf(dir: string): Promise<Record<string, string>> {
  const store = await storeOf(dir)
  return store ? { SVC_STORE_URL: store.storeUrl, SVC_SECRET_KEY: store.secretKey } : {}
}

/** A connection to the database of a data directory. */
export const connectionTo = async (dir: string): Promise<PgConnection> => (await openStoreOf(dir)).connection

/**
 * Waits until the database has answered something. Time that a test pushes passes no faster than that: else the lease
 * of a node is over before it could renew it, as if its machine had stood still.
 */
export async function letStoreAnswer(dir: string): Promise<void> {
  await (await stores.get(dir))?.connection.run(sql`SELECT 1`)
}

/** The storage on that database, as another process has it. */
export async function openSharedStorage(dir: string, clock: Clock): Promise<Storage> {
  const { openPgStorage } = await import('../../src/storage/postgres/open.ts')
  const { silentLog } = await import('../../src/platform/log.ts')
  const { storeUrl: url, secretKey: secret } = await openStoreOf(dir)
  return await openPgStorage({ url, secret, clock, log: silentLog, maxAgeDays: 0, maxCount: 0 })
}

/** Drops the database of a data directory, if it has one. */
export async function dropStoreOf(dir: string): Promise<void> {
  const store = await stores.get(dir)
  stores.delete(dir)
  await store?.[Symbol.asyncDispose]()
}
