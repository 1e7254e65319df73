/** The engines there are: what every one of them must do is tested on each. */
import { describe } from 'bun:test'
import { silentLog } from '../../src/platform/log.ts'
import { SqliteStore, type StoreOptions } from '../../src/storage/sqlite/store.ts'
import { given } from '../support/given.ts'
import { MemoryStore } from './memory-store.ts'
import { Tables } from './memory-tables.ts'
import { type EngineStore, openStore, type TestStore, testClock } from './support.ts'

type Limits = Partial<Pick<StoreOptions, 'maxAgeDays' | 'maxCount'>>

/** A store of an engine, on its own. */
export interface Opened extends Pick<TestStore, 'clock' | 'reopen' | 'lines'>, AsyncDisposable {
  store: EngineStore
  /** The same content once more, as another process has it. */
  second(): Promise<{ store: EngineStore } & AsyncDisposable>
}

type Open = (limits?: Limits) => Promise<Opened>

const closing = (store: EngineStore) => ({ store, [Symbol.asyncDispose]: () => store.upkeep.close() })

async function openSqlite(limits: Limits = {}): Promise<Opened> {
  const t = await openStore(limits)
  const { clock, path } = t
  const rest = { path, clock, log: silentLog, maxAgeDays: 0, maxCount: 0, ...limits }
  return Object.assign(t, { second: async () => closing(await SqliteStore.open(rest)) })
}

async function openMemory({ maxAgeDays = 0, maxCount = 0 }: Limits = {}): Promise<Opened> {
  const tables = new Tables()
  const clock = testClock()
  const open = () => new MemoryStore(tables, clock, { maxAgeDays, maxCount })
  const t = {
    ...{ store: open() as EngineStore, clock, lines: [] },
    async reopen() {
      await t.store.upkeep.close()
      t.store = open()
    },
    second: async () => closing(open()),
    [Symbol.asyncDispose]: () => t.store.upkeep.close(),
  }
  return t
}

/** `it` gives each test a store of the engine, which `openStore` opens; `share` of the random cases are enough for it. */
type Tests = (it: ReturnType<typeof given<Opened>>, openStore: Open, share: number) => void

/** Runs the tests that `body` declares on every engine. */
export function onEach(body: Tests): void {
  describe('SQLite', () => body(given(openSqlite), openSqlite, 1))
  describe('in memory', () => body(given(openMemory), openMemory, 0.1))
}
