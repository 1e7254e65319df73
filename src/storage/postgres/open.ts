/** Opens the storage on PostgreSQL, which any number of nodes share. */
import { SvcError } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'
import type { Log } from '../../platform/log.ts'
import type { PgOptions } from '../../platform/postgres.ts'
import { createKeyRing } from '../../platform/sealing.ts'
import type { Tasks } from '../../platform/tasks.ts'
import { ClockTrust } from '../clock-trust.ts'
import type { MediaRules, MediaStores } from '../media-store.ts'
import { readClock } from '../nouns/retention.ts'
import type { Node, Storage } from '../storage.ts'
import { PgDatabase } from './database.ts'
import { drive } from './drive.ts'
import { GramIndexer } from './grams.ts'
import { PgIngest } from './ingest.ts'
import { storeTable } from './maintenance.ts'
import { PgMediaStore } from './media.ts'
import { migrate } from './migrate.ts'
import { PgNode } from './nodes.ts'
import type { EngineContext } from './part.ts'
import { createState } from './state.ts'
import { createStore } from './store.ts'

export interface PgStorageOptions {
  /** Same as `PgOptions.url`. */
  url: PgOptions['url']
  /** Text of the secret key, which is required here. */
  secret: string | undefined
  /** Text of a second one, which svc secrets rotate will make the one that seals. */
  newSecret?: string | undefined
  /** Version of this program, and the name of this node, as they are shown. */
  version?: string
  name?: string
  clock: Clock
  log: Log
  /** Where its work in the background is registered. */
  tasks?: Tasks
  /** Steps that make the tables; default: those of this program. Tests open a store as another version would. */
  steps?: readonly string[]
  /** 0: no limit. */
  maxAgeDays: number
  /** 0: no limit. */
  maxCount: number
}

/** The storage, with what a node on PostgreSQL has besides. */
export interface PgStorage extends Storage {
  /** This process among those that use the store. */
  readonly node: Node
  /** Opens the media stores, which all nodes share. */
  openMediaStores(rules: { uploads: MediaRules }): MediaStores
}

/** @throws SvcError `store_unavailable`, `invalid_arguments` without a secret key; nothing stays open then */
export async function openPgStorage(options: PgStorageOptions): Promise<PgStorage> {
  const { clock, log, newSecret, secret, tasks, url } = options
  if (secret === undefined)
    throw new SvcError('invalid_arguments', 'a store on PostgreSQL needs a secret key', {
      hint: 'Give it with --secret-key-file or SVC_SECRET_KEY; head -c 32 /dev/urandom | base64 | tr -d /+= prints one.',
    })
  const db = new PgDatabase({ url, clock, log: log.child('store'), tasks, node: crypto.randomUUID() })
  const keys = createKeyRing(secret, newSecret)
  try {
    await migrate(db, { log, keys, steps: options.steps })
    const clockTrust = new ClockTrust(clock, await drive(db, readClock(clock.now(), storeTable)))
    const context: EngineContext = { db, clock, log: log.child('store'), sealer: keys, clockTrust }
    const node = await PgNode.join(context, { ...options, keys })
    await db.start()
    const state = createState(context)
    const ingest = new PgIngest(context)
    const indexer = new GramIndexer(context)
    indexer.start()
    return {
      store: createStore(context, options),
      state,
      node,
      leases: node.leases(state.sessions),
      ingest: batch => ingest.ingest(batch),
      openMediaStores: ({ uploads }) => ({
        uploads: new PgMediaStore(context, 'uploads', uploads),
        queued: new PgMediaStore(context, 'queued'),
      }),
      async close() {
        await indexer.close()
        await node.leave()
        await db.close()
      },
    }
  } catch (error) {
    await db.close()
    throw error
  }
}
