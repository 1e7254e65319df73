/** What svc keeps, on one machine: the session folders, the message log, and who polls, in one data directory. */
import { join } from 'node:path'
import { dataFiles } from '../../model/data-files.ts'
import { openLock } from '../../platform/lock.ts'
import type { Leases } from '../leases.ts'
import type { State } from '../state.ts'
import type { Store } from '../store.ts'
import { openLeases } from './leases.ts'
import { openState } from './state/state.ts'
import { inMemory, SqliteStore, type StoreOptions } from './store.ts'

export interface Storage {
  readonly state: State
  readonly store: Store
  readonly leases: Leases
  /** Gives everything back, the store first. */
  close(): Promise<void>
}

export interface StorageOptions extends Omit<StoreOptions, 'path'> {
  /** The data directory. */
  dir: string
  /** Where the message log is: `messages.db` of the directory by default, false for one in memory alone. */
  path?: string | false | undefined
}

/** A log in memory keeps at most this many messages, some 10 MB. */
const memoryRows = 10_000

/** @throws SvcError `store_unavailable` */
export async function openStorage({ dir, path, ...options }: StorageOptions): Promise<Storage> {
  const { clock, log, maxCount } = options
  const lock = await openLock(join(dir, dataFiles.dataLock))
  const state = openState({ dir, lock, log: log.child('state') })
  const { sessions } = state
  const ports = { sessions, clock, log: log.child('poller') }
  const leases = await openLeases(join(dir, dataFiles.pollLock), ports)
  const store = await SqliteStore.open({
    ...options,
    ...{ log: log.child('store'), path: path === false ? inMemory : (path ?? join(dir, dataFiles.store)) },
    maxCount: path === false ? Math.min(maxCount || memoryRows, memoryRows) : maxCount,
  })
  state.contexts.archive = store.contexts
  state.contexts.archives = store.durable
  return {
    ...{ state, store, leases },
    async close() {
      await store.upkeep.close()
      await leases.close()
      await lock.close()
    },
  }
}
