/** The options of `Svc.open`: their types, their checks and their defaults. */

import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { withSecrets } from '../config/secrets.ts'
import { parseFolder } from '../config/values.ts'
import { type Config, type ConfigValues, configFromValues } from '../config.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { problemsOf } from '../operations/parse.ts'
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
  /** Age in days after which lines of the audit log are deleted. Default: 90. 0 keeps none. */
  auditDays?: number
  /** File with the secret key of the data directory, if its secrets are encrypted (`svc secrets`). */
  secretKeyFile?: string
  /** The same key itself. Use only one of the two. */
  secretKey?: string
  /** File with the next secret key of a store on PostgreSQL, while `svc secrets rotate` changes it. */
  newSecretKeyFile?: string
  /** The same key itself. Use only one of the two. */
  newSecretKey?: string
  /**
   * File with the address of a store on PostgreSQL, which programs on several machines share. It needs a secret key.
   * Then leave `store` out.
   */
  storeUrlFile?: string
  /** The same address itself: `postgres://user:password@host/database`. Use only one of the two. */
  storeUrl?: string
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
export interface ResolvedOptions {
  config: Config
  log: Log
  /** Path of the store. false: in memory. undefined: `messages.db` of the data directory, or `config.storeUrl`. */
  store: string | false | undefined
  sandboxUrl: string | undefined
}

const [text, flag, number] = [
  Type.Optional(Type.String()),
  Type.Optional(Type.Boolean()),
  Type.Optional(Type.Number()),
]
const anything = Type.Optional(Type.Any())
const closed = <P extends TProperties>(properties: P) =>
  Type.Object(properties, { additionalProperties: false })

/** Whose options are checked. */
type OptionKind = 'open' | 'call' | 'handler' | 'messages' | 'events' | 'part'

const optionSchemas: Readonly<Record<OptionKind, TSchema>> = {
  open: closed({
    basePath: text,
    upstreamUrl: text,
    cdnUrl: text,
    sandboxUrl: text,
    mediaRoot: text,
    pace: text,
    secretKeyFile: text,
    secretKey: text,
    newSecretKeyFile: text,
    newSecretKey: text,
    storeUrlFile: text,
    storeUrl: text,
    channelVersion: text,
    logLevel: text,
    storeMaxAgeDays: number,
    storeMaxCount: number,
    auditDays: number,
    maxUploadBytes: number,
    log: anything,
    sandbox: flag,
    store: Type.Optional(Type.Union([Type.Boolean(), Type.String()])),
  }),
  call: closed({ signal: anything, below: text }),
  handler: closed({ consumer: text, session: text }),
  messages: closed({ consumer: text, session: text, signal: anything }),
  events: closed({
    after: text,
    session: text,
    user: text,
    signal: anything,
    onGone: anything,
    types: Type.Optional(Type.Array(Type.String())),
  }),
  part: closed({
    name: Type.String(),
    can: Type.Array(Type.String()),
    users: Type.Optional(Type.Array(Type.String())),
  }),
}

/**
 * Checks options of the library, as the inputs of operations are checked.
 *
 * @throws SvcError `invalid_arguments` with the name of the option and what was expected
 */
export function checkOptions(kind: OptionKind, options: unknown): void {
  const [found] = problemsOf(optionSchemas[kind], options)
  if (found) throw badOption(found.field || 'options', found.problem.replace('a JSON object', 'an object'))
  const { signal, onGone } = options as { signal?: unknown; onGone?: unknown }
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw badOption('signal', 'expected an AbortSignal')
  if (onGone !== undefined && typeof onGone !== 'function') throw badOption('onGone', 'expected a function')
}

/**
 * Checks the options and fills in the defaults.
 *
 * @throws SvcError `invalid_arguments` with the name of the option and what was expected;
 *   `store_unavailable` if the folder of the store cannot be created
 */
export async function resolveOptions(options: SvcOptions): Promise<ResolvedOptions> {
  checkOptions('open', options)
  const { log, sandboxUrl, store = false, ...rest } = options
  if (store !== false && (options.storeUrl !== undefined || options.storeUrlFile !== undefined))
    throw badOption('store', 'cannot be combined with storeUrl: the store is in that database')
  if (sandboxUrl !== undefined && !/^https?:\/\//i.test(sandboxUrl)) {
    throw badOption('sandboxUrl', 'expected an http or https URL')
  }
  const sandbox = options.sandbox === true || sandboxUrl !== undefined
  if (sandbox && (options.upstreamUrl !== undefined || options.cdnUrl !== undefined)) {
    throw badOption('sandbox', 'cannot be combined with upstreamUrl or cdnUrl: the sandbox sets both')
  }
  // Port 0 takes any free port: `phoneUrl` tells the program the address.
  const values: ConfigValues = { logLevel: 'WARNING', sandboxPort: 0, ...rest, sandbox }
  // The environment is not read, so systemd's credentials are not either.
  const config = withSecrets(configFromValues(values), undefined, fileOptions)
  return {
    config,
    log: log ?? createLog(config.logLevel),
    store:
      typeof store === 'string'
        ? await prepareStoreFile(store)
        : store || config.storeUrl !== undefined
          ? undefined
          : false,
    sandboxUrl: sandboxUrl?.replace(/\/+$/, ''),
  }
}

const fileOptions = {
  secretKeyFile: 'secretKeyFile',
  newSecretKeyFile: 'newSecretKeyFile',
  storeUrlFile: 'storeUrlFile',
}

async function prepareStoreFile(text: string): Promise<string> {
  const path = parseFolder(text)
  if (path === undefined) throw badOption('store', 'expected true, false or a path')
  await mkdir(dirname(path), { recursive: true, mode: 0o700 }).catch(cause => {
    throw new SvcError('store_unavailable', `cannot create the folder of ${path}`, {
      field: 'store',
      cause,
    })
  })
  return path
}

const badOption = (field: string, problem: string) =>
  badArgument(field, problem, {
    hint: 'See SvcOptions for the options of Svc.open, and the types of the methods for theirs.',
  })
