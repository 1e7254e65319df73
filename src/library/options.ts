/** What a program says when it opens svc. */

import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { folder } from '../config/values.ts'
import { type Config, type ConfigValues, configOf } from '../config.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { createLog, type Log, type LogLevel } from '../platform/log.ts'

export interface SvcOptions {
  /** Data directory, shared with every other process that names it; `~/.svc` by default, with `sandbox` `~/.svc-sandbox`. */
  basePath?: string
  /**
   * Where messages are kept. false (the default): in memory, by this program alone and as long as it runs. true: in
   * `messages.db` of the data directory, together with the service and other programs. A path: in that file.
   */
  store?: boolean | string
  /** Messaging API; WeChat's by default. */
  upstreamUrl?: string
  /** Media CDN; WeChat's by default. */
  cdnUrl?: string
  /** Use the simulated WeChat of the data directory: the one that runs already, else one of this program's. */
  sandbox?: boolean
  /** Use the simulated WeChat that runs at this address. */
  sandboxUrl?: string
  /** Where `download` saves without `save_dir`, and where relative paths lead; `<basePath>/media` by default. */
  mediaRoot?: string
  /** Stored messages older than this are removed; 30 by default, 0 keeps all. */
  storeMaxAgeDays?: number
  /** At most so many messages are kept; 100000 by default, 0 keeps all. In memory at most 10000. */
  storeMaxCount?: number
  /** Sends per second and session, and to one user per time; `1/s,10/5m` by default, or `off`. */
  pace?: string
  /** Largest file to send, in bytes; 2 GiB by default. */
  maxUploadBytes?: number
  /** Client version told upstream. */
  channelVersion?: string
  /** Least level written to stderr; `WARNING` by default. */
  logLevel?: LogLevel
  /** Takes the log lines instead of stderr; `silentLog` for none. */
  log?: Log
}

/** The options, checked. */
export interface OpenedOptions {
  config: Config
  log: Log
  /** false: in memory; undefined: `messages.db` of the data directory. */
  store: string | false | undefined
  sandboxUrl: string | undefined
}

const known: ReadonlySet<string> = new Set<keyof SvcOptions>([
  ...(['basePath', 'store', 'upstreamUrl', 'cdnUrl', 'sandbox', 'sandboxUrl', 'mediaRoot'] as const),
  ...(['storeMaxAgeDays', 'storeMaxCount', 'pace', 'maxUploadBytes', 'channelVersion'] as const),
  ...(['logLevel', 'log'] as const),
])

/** @throws SvcError `invalid_arguments` naming the option and what was expected */
export async function openedOptions(options: SvcOptions): Promise<OpenedOptions> {
  for (const name of Object.keys(options)) {
    if (!known.has(name)) throw bad(name, `unknown; expected one of ${[...known].join(', ')}`)
  }
  const { log, sandboxUrl, store = false, ...rest } = options
  if (sandboxUrl !== undefined && !/^https?:\/\//i.test(sandboxUrl)) {
    throw bad('sandboxUrl', 'expected an http or https URL')
  }
  const sandbox = options.sandbox === true || sandboxUrl !== undefined
  if (sandbox && (options.upstreamUrl !== undefined || options.cdnUrl !== undefined)) {
    throw bad('sandbox', 'expected without upstreamUrl and cdnUrl, which it sets')
  }
  // A free port: a program knows the address from `phoneUrl`.
  const values: ConfigValues = { logLevel: 'WARNING', sandboxPort: 0, ...rest, sandbox }
  const config = configOf(values)
  return {
    config,
    log: log ?? createLog(config.logLevel),
    store: typeof store === 'string' ? await storeFile(store) : store ? undefined : false,
    sandboxUrl: sandboxUrl?.replace(/\/+$/, ''),
  }
}

async function storeFile(given: string): Promise<string> {
  const path = folder(given)
  if (path === undefined) throw bad('store', 'expected true, false or a path')
  await mkdir(dirname(path), { recursive: true, mode: 0o700 }).catch(cause => {
    throw new SvcError('store_unavailable', `the folder of ${path} cannot be made`, { field: 'store', cause })
  })
  return path
}

const bad = (field: string, problem: string) =>
  badArgument(field, problem, { hint: 'See SvcOptions for what Svc.open takes.' })
