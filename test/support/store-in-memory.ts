/** The store of SQLite in memory, for tests that need a store and no file. */
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { openSqliteStore, type SqliteStore } from '../../src/storage/sqlite/store.ts'
import { inMemory } from '../../src/storage/sqlite/work.ts'
import type { Store } from '../../src/storage/store.ts'

export const openInMemory = (clock: Clock = systemClock): Promise<SqliteStore> =>
  openSqliteStore({ path: inMemory, clock, log: silentLog, maxAgeDays: 0, maxCount: 0 })

/** The same where it must be there at once: its first call opens it. */
export function storeInMemory(clock?: Clock): Omit<Store, 'durable'> {
  let opening: Promise<SqliteStore> | undefined
  return awaiting(() => (opening ??= openInMemory(clock))) as unknown as Store
}

type Method = (...args: unknown[]) => unknown

/** Stands for what `find` gives: its parts stand for parts, and its call is a call of that. */
function awaiting(find: () => Promise<object>): Method {
  return new Proxy<Method>(() => {}, {
    get(target, name) {
      // It is no promise.
      if (name === 'then') return undefined
      // What a test sets is kept too.
      if (!Object.hasOwn(target, name))
        Object.assign(target, { [name]: awaiting(async () => Reflect.get(await find(), name)) })
      return Reflect.get(target, name)
    },
    apply: async (_, _self, args) => ((await find()) as Method)(...args),
  })
}
