/** Opens what every room of a gateway needs: the runtime, the data directory, and the connection to WeChat. */
import { mkdir, realpath } from 'node:fs/promises'
import { localFilesOf } from '../config/local-files.ts'
import { followStoreUrl } from '../config/secrets.ts'
import type { Config } from '../config.ts'
import { Api, type Upstream } from '../ilink/api.ts'
import { createCdn } from '../ilink/cdn.ts'
import type { Fetch } from '../ilink/http.ts'
import type { MediaUpstream } from '../media/ports.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import { apiFetch, fetchChecked } from '../platform/fetch.ts'
import { ensurePrivateDir } from '../platform/files.ts'
import { quoteForShell } from '../platform/format.ts'
import { FreeSpace } from '../platform/free-space.ts'
import type { Log } from '../platform/log.ts'
import { requestPermits as permits } from '../platform/permits.ts'
import { nameOfProcess } from '../platform/process.ts'
import { Bus, type Runtime } from '../platform/runtime.ts'
import { Tasks } from '../platform/tasks.ts'
import { Views } from '../receive/view.ts'
import { type MediaRules, uploadRulesOf } from '../storage/media-store.ts'
import type { PgStorageOptions } from '../storage/postgres/open.ts'
import { noteDatabase } from '../storage/sqlite/closed-mark.ts'
import { openMediaStores } from '../storage/sqlite/media-folder.ts'
import { openStorage } from '../storage/sqlite/open.ts'
import { SandboxClock, wrapFetchToSandbox } from './sandbox-fetch.ts'

export interface GatewayOptions {
  config: Config
  log: Log
  version: string
  /** Address of a running sandbox. All sessions then use it, whatever their token.json says. */
  sandboxUrl?: string
  /** The message log: by default `messages.db` in the data directory; false for one in memory. */
  store?: string | false
  /**
   * Whether recv polls by itself until `start` is called; otherwise it waits for another process to poll.
   */
  oneShot?: boolean
  /** Rewrites the store after an erasure. Default: in this process, whose event loop it holds. */
  scrub?: () => Promise<void>
  /** By default the wall clock; in the sandbox, the sandbox's clock. */
  clock?: Clock
  /** By default the system's. The sandbox's clock follows it at a distance. */
  wallClock?: Clock | undefined
  /** Program and first arguments of svc. Without it, this process makes no backups. */
  ownCommand?: readonly string[]
  /** Where its tasks are registered, if more than the gateway has some. */
  tasks?: Tasks
}

/** Creates the runtime that every room gets, and the sandbox's clock if the gateway uses a sandbox. */
export function openRuntime({ log, sandboxUrl, ...given }: GatewayOptions, closing: AbortSignal) {
  const { wallClock = systemClock } = given
  const sandboxClock =
    sandboxUrl === undefined ? undefined : new SandboxClock({ clock: wallClock, url: sandboxUrl })
  const clock = given.clock ?? sandboxClock ?? wallClock
  const { tasks = new Tasks(clock) } = given
  const runtime: Runtime = { clock, log, closing, bus: new Bus(), tasks }
  return { ...runtime, sandboxClock }
}

/** Opens the data directory: the storage and the folders of files. */
export async function openDirectory(
  { config, oneShot = false, store: path, version }: GatewayOptions,
  { clock, log, tasks }: Runtime,
) {
  const { basePath } = config
  await ensurePrivateDir(basePath)
  // Private if created here; a folder that the user named keeps its permissions.
  await mkdir(config.mediaRoot, { recursive: true, mode: 0o700 })
  const dataDir = await realpath(basePath)
  const mediaRoot = await realpath(config.mediaRoot)
  const folders = { dataDir, mediaRoot, agents: localFilesOf(dataDir).agents }
  const space = new FreeSpace(basePath, config.keepFreeBytes)
  const retention = { maxAgeDays: config.storeMaxAgeDays, maxCount: config.storeMaxCount }
  const options = { secret: config.secretKey, clock, log, tasks, ...retention }
  const uploads = uploadRulesOf(config.maxUploadBytes)
  const { storage, places } =
    config.storeUrl === undefined
      ? {
          storage: await openStorage({ ...options, dir: basePath, path }),
          places: openMediaStores({ mediaRoot, space, clock, log: log.child('media') }, uploads),
        }
      : await openShared(
          {
            ...options,
            newSecret: config.newSecretKey,
            url: followStoreUrl(config, config.storeUrl),
            version,
            name: nameOfProcess(),
          },
          uploads,
        )
  if (config.storeUrl !== undefined && !oneShot) await noteNode(dataDir, config.storeUrl, log)
  const views = new Views({ store: storage.store.log, log: log.child('store') })
  return {
    ...storage,
    folders,
    places,
    views,
    shared: config.storeUrl !== undefined || path !== false,
    space,
  }
}

async function noteNode(dir: string, url: string, log: Log): Promise<void> {
  const { placeOf } = await import('../storage/postgres/errors.ts')
  const database = placeOf(url)
  // Without the note everything else works.
  if (await noteDatabase(dir, database).catch(() => true)) return
  log.warn('the store in the data directory is not used: the address of a database was given', {
    database,
    hint: `If it is to be used there: svc store copy ${quoteForShell(dir)} postgres`,
  })
}

/** Opens a store on PostgreSQL. Its driver is loaded for that only. */
async function openShared(options: PgStorageOptions, uploads: MediaRules) {
  const { openPgStorage } = await import('../storage/postgres/open.ts')
  const storage = await openPgStorage(options)
  return { storage, places: storage.openMediaStores({ uploads }) }
}

export type Directory = Awaited<ReturnType<typeof openDirectory>>

/** Creates the connection to WeChat, or to the sandbox. */
export function connect(
  { config, sandboxUrl, version }: GatewayOptions,
  { clock, log, sandboxClock }: ReturnType<typeof openRuntime>,
): Upstream & MediaUpstream {
  const loginUrl = sandboxUrl ?? config.upstreamUrl
  const cdnUrl = sandboxUrl === undefined ? config.cdnUrl : `${sandboxUrl}/c2c`
  const trustedHosts = new Set([new URL(loginUrl).host, new URL(cdnUrl).host])
  const trusted = (url: URL) => trustedHosts.has(url.host)
  // WeChat's answers contain further addresses for accounts and media. Those are checked.
  const judged: Fetch = (url, init) => (trusted(new URL(url)) ? apiFetch : fetchChecked)(url, init)
  const fetch =
    sandboxUrl === undefined ? judged : wrapFetchToSandbox(apiFetch, sandboxUrl, log, sandboxClock)
  return {
    api: new Api({ fetch, channelVersion: config.channelVersion, version, permits }),
    account: bot => ({ base_url: sandboxUrl ?? bot.base_url, token: bot.token }),
    loginUrl,
    sandboxed: sandboxUrl !== undefined,
    cdn: createCdn({ fetch: judged, trusted, permits: permits.media, clock }),
    cdnUrl,
    trusted,
  }
}
