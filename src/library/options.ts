/** The options of `Svc.open`: their types, their checks and their defaults. */

import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { folder } from '../config/values.ts'
import { type Config, type ConfigValues, configOf } from '../config.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { createLog, type Log, type LogLevel } from '../platform/log.ts'

export interface SvcOptions {
  /**
   * Data directory. Every process that names it shares it. Default: `~/.svc`, with `sandbox`
   * `~/.svc-sandbox`.
   */
  basePath?: string
  /**
   * Where messages are stored. false (the default): in memory, only for this program and only while it runs.
   * true: in `messages.db` of the data directory, shared with the service and other programs. A path: in that
   * file.
   */
  store?: boolean | string
  /** URL of the messaging API. Default: WeChat's. */
  upstreamUrl?: string
  /** URL of the media CDN. Default: WeChat's. */
  cdnUrl?: string
  /** Use the simulated WeChat of the data directory. If none runs, this program starts one. */
  sandbox?: boolean
  /** Use the simulated WeChat that runs at this address. */
  sandboxUrl?: string
  /** Folder for `download` without `save_dir`, and for relative paths. Default: `<basePath>/media`. */
  mediaRoot?: string
  /** Age in days after which stored messages are deleted. Default: 30. 0 keeps all. */
  storeMaxAgeDays?: number
  /** Maximum number of stored messages. Default: 100000. 0 keeps all. In memory at most 10000. */
  storeMaxCount?: number
  /** Limits of sends: per session, and to one user. Default: `1/s,10/5m`. `off` sets no limit. */
  pace?: string
  /** Largest file to send, in bytes. Default: 2 GiB. */
  maxUploadBytes?: number
  /** Client version that svc reports to WeChat. */
  channelVersion?: string
  /** Lowest log level that is written to stderr. Default: `WARNING`. */
  logLevel?: LogLevel
  /** Receives the log lines in place of stderr. `silentLog` drops them. */
  log?: Log
}

/** Checked options. */
export interface OpenedOptions {
  config: Config
  log: Log
  /** Path of the store. false: in memory. undefined: `messages.db` of the data directory. */
  store: string | false | undefined
  sandboxUrl: string | undefined
}

const known: ReadonlySet<string> = new Set<keyof SvcOptions>([
  'basePath',
  'store',
  'upstreamUrl',
  'cdnUrl',
  'sandbox',
  'sandboxUrl',
  'mediaRoot',
  'storeMaxAgeDays',
  'storeMaxCount',
  'pace',
  'maxUploadBytes',
  'channelVersion',
  'logLevel',
  'log',
])

/**
 * Checks the options and fills in the defaults.
 *
 * @throws SvcError `invalid_arguments` with the name of the option and what was expected;
 *   `store_unavailable` if the folder of the store cannot be created
 */
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
    throw bad('sandbox', 'cannot be combined with upstreamUrl or cdnUrl: the sandbox sets both')
  }
  // Port 0 takes any free port: `phoneUrl` tells the program the address.
  const values: ConfigValues = { logLevel: 'WARNING', sandboxPort: 0, ...rest, sandbox }
  const config = configOf(values)
  return {
    config,
    log: log ?? createLog(config.logLevel),
    store: typeof store === 'string' ? await storeFile(store) : store ? undefined : false,
    sandboxUrl: sandboxUrl?.replace(/\/+$/, ''),
  }
}

async function storeFile(text: string): Promise<string> {
  const path = folder(text)
  if (path === undefined) throw bad('store', 'expected true, false or a path')
  await mkdir(dirname(path), { recursive: true, mode: 0o700 }).catch(cause => {
    throw new SvcError('store_unavailable', `cannot create the folder of ${path}`, {
      field: 'store',
      cause,
    })
  })
  return path
}

const bad = (field: string, problem: string) =>
  badArgument(field, problem, { hint: 'See SvcOptions for the options of Svc.open.' })
