/**
 * With SVC_TEST_STORE=postgres the gateways and libraries of the tests have their store on PostgreSQL: each data
 * directory has a database, which the helpers of the tests read too.
 */
import type { Clock } from '../../src/platform/clock.ts'
import type { PgConnection } from '../../src/platform/postgres.ts'
import type { Storage } from '../../src/storage/storage.ts'

export const isOnPostgres = process.env.SVC_TEST_STORE === 'postgres'

interface SharedStore {
  storeUrl: string
  secretKey: string
}

const stores = new Map<string, Promise<SharedStore & AsyncDisposable & { connection: PgConnection }>>()

async function createStore() {
  const { newDatabase, secret } = await import('../storage/postgres/support.ts')
  const { connectPg } = await import('../../src/platform/postgres.ts')
  const database = await newDatabase()
  const connection = await connectPg({ url: database.url, name: 'tests', answerMs: 60_000 })
  return {
    storeUrl: database.url,
    secretKey: secret,
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

/** A connection to the database of a data directory. */
export const connectionTo = async (dir: string): Promise<PgConnection> => (await openStoreOf(dir)).connection

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
