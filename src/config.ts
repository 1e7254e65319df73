/**
 * Combines flags, SVC_* variables and defaults into one frozen Config. Only this file reads the environment.
 */
import { delimiter, isAbsolute, join } from 'node:path'
import process from 'node:process'
import { type CommandName, type Config, type OptionSpec, optionTable } from './config/options.ts'
import { parseSwitch, requireHomeFolder } from './config/values.ts'
import { badArgument, isSvcError, withFieldNames } from './model/error.ts'
import { formatList } from './platform/format.ts'
import { maskText } from './platform/log.ts'

export { type CommandName, type Config, type OptionSpec, optionTable } from './config/options.ts'
export type { Pace } from './config/values.ts'

/** The parsed flags by name in camel case, as commander gives them. `--no-banner` is `banner: false`. */
export type Flags = Readonly<Record<string, string | boolean | readonly string[] | undefined>>

/** Variables by name. An own type, because projects that use these types may not have Node's. */
export type Environment = Readonly<Record<string, string | undefined>>

/** Returns the variables of this process. */
export const getEnvironment = (): Environment => process.env

/** Returns the key of an option in `Flags`. */
export const flagKeyOf = (option: OptionSpec): string | undefined =>
  option.flag?.replace(/^--(no-)?/, '').replace(/-(.)/g, (_all, letter: string) => letter.toUpperCase())

/**
 * Reads the configuration: a flag wins over a variable, and a variable over a default. An empty variable
 * counts as absent. `usual` replaces defaults of the table.
 *
 * @throws SvcError `invalid_arguments` with the name of the option and what was expected
 */
export function readConfig(
  flags: Flags = {},
  env: Environment = process.env,
  usual: ConfigDefaults = {},
): Config {
  return checkConfig(
    collectOptions(option => findGiven(option, flags, env), usual),
    flags,
  )
}

/** Defaults of one command that differ from the table, by the option's name. */
export type ConfigDefaults = { readonly [Name in keyof Config]?: string }

/** Option values from a program: as text, the way a user writes them, or as numbers and booleans. */
export type ConfigValues = {
  readonly [Name in Exclude<keyof Config, 'banner'>]?: string | number | boolean | undefined
}

/**
 * Makes a configuration from a program's values, by their names in `Config`, and defaults. It does not read
 * the environment: a program states its own configuration.
 *
 * @throws SvcError `invalid_arguments` with the name of the option and what was expected
 */
export function configFromValues(values: ConfigValues): Config {
  const config = collectOptions(({ name }) => {
    const value = (values as Readonly<Record<string, string | number | boolean | undefined>>)[name]
    return value === undefined ? undefined : { text: String(value), from: name }
  })
  return checkConfig(config, {})
}

/** The options of a command, written out so that they can be repeated elsewhere. */
export interface WrittenOptions {
  /** The options as flags, even if they came from variables. Paths are absolute. */
  readonly args: readonly string[]
  /** Options that have no flag, as variables. */
  readonly variables: Readonly<Record<string, string>>
}

/**
 * Writes out the options that flags and environment gave to a command.
 *
 * @param config the configuration that they resulted in
 * @param without names of options that the caller writes itself; secrets are always left out
 */
export function writeOptions(
  command: CommandName,
  flags: Flags,
  config: Config,
  { without = [], env = process.env }: { without?: readonly (keyof Config)[]; env?: Environment } = {},
): WrittenOptions {
  const args: string[] = []
  const variables: Record<string, string> = {}
  for (const option of optionTable) {
    if (option.flag && !option.commands.includes(command)) continue
    const found = findGiven(option, flags, env)
    if (!found) continue
    if (option.secret || without.includes(option.name)) continue
    const value = config[option.name]
    if (!option.flag) variables[option.env] = found.text.trim()
    else if (option.placeholder === undefined) {
      if (value === !option.flag.startsWith('--no-')) args.push(option.flag)
    } else {
      // A number or a pace is passed on as it was written.
      const isAsRead = typeof value === 'string' || Array.isArray(value)
      const words = option.repeatable ? [value].flat() : [isAsRead ? value : found.text.trim()]
      for (const word of words) args.push(option.flag, String(word))
    }
  }
  return { args, variables }
}

/** SVC_ variables that are not options: those of the tests and of the install script. */
const otherVariables = /^SVC_(TEST_\w+|FROM)$/

/**
 * Kubernetes sets variables in every pod for each service of the namespace. For a service named svc, or
 * svc-something, they begin with SVC_: `SVC_SERVICE_HOST`, `SVC_PORT_8000_TCP_ADDR`, and
 * `SVC_PORT=tcp://10.0.0.1:8000`.
 */
const isKubernetes = (name: string, value: string): boolean =>
  /^SVC_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/.test(name) ||
  (/_PORT$/.test(name) && /^(tcp|udp|sctp):\/\//.test(value))

/** Returns the names of unknown variables that begin with SVC_ and have a value; sorted. */
export const listUnknownVariables = (env: Environment = process.env): string[] =>
  Object.entries(env)
    .filter(([name, value]) => name.startsWith('SVC_') && value && !isKubernetes(name, value))
    .map(([name]) => name)
    .filter(name => !otherVariables.test(name) && !optionTable.some(option => option.env === name))
    .sort()

/** What the names of options with secrets, and of files with secrets, consist of. */
const secretNames = /^SVC_(TOKEN|KEY|PASSPHRASE|SECRET_KEY|STORE_URL)(_FILE)?$/

/**
 * Rejects an unknown variable that seems to hold a secret for one of these options. Ignoring it would leave something
 * open, such as a backup without encryption.
 *
 * @throws SvcError `invalid_arguments`
 */
export function rejectUnreadSecrets(env: Environment, options: readonly OptionSpec[]): void {
  for (const name of listUnknownVariables(env)) {
    const word = name.slice('SVC_'.length).replace(/_FILE$/, '')
    const meant = options.filter(option => {
      const [, secret = ''] = secretNames.exec(option.env) ?? []
      const isPart = word.length > 2 && secret.startsWith(word)
      return secret !== '' && (isPart || word.includes(secret === 'PASSPHRASE' ? 'PASS' : secret))
    })
    if (meant.length === 0) continue
    throw badArgument(name, 'nothing reads this variable', {
      hint: `Use ${meant.map(option => option.env).join(' or ')}, or unset it.`,
    })
  }
}

/**
 * Returns the options that name the data directory, as given by flags or environment: for suggested commands.
 */
export function findGivenPlace(
  flags: Flags,
  env: Environment = process.env,
): { sandbox: boolean; basePath: string | undefined } {
  const basePath = findGivenText('basePath', flags, env)
  return { sandbox: parseSwitch(findGivenText('sandbox', flags, env) ?? '') === true, basePath }
}

/** Returns the requested log format: for errors in the other options. */
export const findGivenLogFormat = (flags: Flags, env: Environment = process.env): string | undefined =>
  findGivenText('logFormat', flags, env)?.trim().toLowerCase()

function findGivenText(optionName: keyof Config, flags: Flags, env: Environment): string | undefined {
  const option = optionTable.find(({ name }) => name === optionName)
  return option && findGiven(option, flags, env)?.text
}

/** Other variables that programs read: how to reach the network. */
const networkVariables =
  /^((https?|all|no)_proxy|(HTTPS?|ALL|NO)_PROXY|SSL_CERT_(FILE|DIR)|NODE_EXTRA_CA_CERTS)$/

/** Returns the network variables that are set. */
export const pickNetworkVariables = (env: Environment = process.env): Record<string, string> =>
  Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) =>
      networkVariables.test(name) && value ? [[name, value]] : [],
    ),
  )

/** Returns the user who became root with sudo to run this, if any. */
export const findSudoUser = (env: Environment = process.env): string | undefined =>
  env.SUDO_USER && env.SUDO_USER !== 'root' ? env.SUDO_USER : undefined

/** Returns the socket where systemd waits for the ready message, if there is one. */
export const findNotifySocket = (env: Environment = process.env): string | undefined =>
  env.NOTIFY_SOCKET || undefined

/** Returns systemd's folder with the credentials of this process, if there is one. */
export const findCredentials = (env: Environment = process.env): string | undefined =>
  env.CREDENTIALS_DIRECTORY || undefined

/** The folders in which this user's programs keep their settings. */
export interface UserFolders {
  readonly home: string
  readonly platform: string
  /** The project: the folder in which the command was called. */
  readonly project: string
  /** Only on Windows. */
  readonly appData: string
  readonly localAppData: string
  /** Only on Linux. */
  readonly xdgConfig: string
  /** Set if a variable moves the settings of a program elsewhere. */
  readonly claudeCode?: string
  readonly codex?: string
  readonly geminiHome?: string
  /** Folders in which a shell finds programs. */
  readonly path: readonly string[]
}

/** Reads the folders from the environment. */
export function findUserFolders(env: Environment = process.env): UserFolders {
  const home = requireHomeFolder()
  const readAbsolute = (name: string) => (isAbsolute(env[name] ?? '') ? env[name] : undefined)
  return {
    home,
    platform: process.platform,
    project: process.cwd(),
    appData: readAbsolute('APPDATA') ?? join(home, 'AppData', 'Roaming'),
    localAppData: readAbsolute('LOCALAPPDATA') ?? join(home, 'AppData', 'Local'),
    xdgConfig: readAbsolute('XDG_CONFIG_HOME') ?? join(home, '.config'),
    claudeCode: readAbsolute('CLAUDE_CONFIG_DIR'),
    codex: readAbsolute('CODEX_HOME'),
    geminiHome: readAbsolute('GEMINI_CLI_HOME'),
    path: (env.PATH ?? '').split(delimiter).filter(isAbsolute),
  }
}

/** Parses every option: the value from `find`, or else its default. Errors call the option `from`. */
function collectOptions(
  find: (option: OptionSpec) => { text: string; from: string } | undefined,
  usual: ConfigDefaults = {},
): Config {
  const config: Record<string, unknown> = {}
  const remaining = optionTable.filter(option => {
    const found = find(option)
    if (found) config[option.name] = parseOption(option, found.text, found.from)
    return !found
  })
  // An option whose default depends on other options comes after them.
  const rank = (option: OptionSpec) =>
    typeof option.default !== 'function' ? 0 : option.name === 'basePath' ? 1 : 2
  for (const option of remaining.sort((a, b) => rank(a) - rank(b))) {
    const text =
      usual[option.name] ?? (typeof option.default === 'function' ? option.default(config) : option.default)
    if (text !== undefined) config[option.name] = parseOption(option, text, option.flag ?? option.env)
  }
  return config as unknown as Config
}

function findGiven(
  option: OptionSpec,
  flags: Flags,
  env: Environment,
): { text: string; from: string } | undefined {
  const key = flagKeyOf(option)
  const flag = key === undefined ? undefined : flags[key]
  const from = option.flag ?? option.env
  if (option.flag?.startsWith('--no-')) {
    // Commander sets `true` when such a flag is absent.
    if (flag === false) return { text: '1', from }
  } else if (typeof flag === 'boolean') {
    if (flag || option.placeholder === undefined) return { text: flag ? '1' : '0', from }
  } else if (typeof flag === 'string') return { text: flag, from }
  else if (flag !== undefined && flag.length > 0) return { text: flag.join(','), from }
  const text = env[option.env] ?? ''
  return text === '' || isKubernetes(option.env, text) ? undefined : { text, from: option.env }
}

function parseOption(option: OptionSpec, text: string, from: string): Config[keyof Config] {
  const value = parseValue(option, text.trim(), from)
  if (value !== undefined) return value
  const displayed = maskText(text)
  const got = option.secret
    ? ''
    : `, got ${JSON.stringify(displayed.length > 80 ? `${displayed.slice(0, 80)}…` : displayed)}`
  throw badArgument(from, `expected ${option.expected}${got}`)
}

/** @throws SvcError `invalid_arguments` about this option when a folder's name matches several on the disk */
function parseValue(option: OptionSpec, text: string, from: string) {
  try {
    return option.parse(text)
  } catch (error) {
    throw isSvcError(error) ? withFieldNames(error, problem => ({ ...problem, field: from })) : error
  }
}

/** Returns the ports at the host of the service, by their flags; undefined for one that it does not use. */
export const portsOf = ({ socket, port, adminPort, metricsPort, relayPort }: Config) => ({
  '--port': socket === undefined ? port : undefined,
  '--admin-port': adminPort,
  '--metrics-port': metricsPort,
  '--relay-port': relayPort,
})

/** Checks what depends on several options, and freezes the config. */
function checkConfig(config: Config, flags: Flags): Config {
  const { sandbox, sandboxPort, socket } = config
  if (socket !== undefined && flags.port !== undefined) {
    throw badArgument('--socket', 'expected without --port', {
      hint: 'Use one of them: a socket replaces host and port.',
    })
  }
  const ports = Object.entries({
    ...portsOf(config),
    '--sandbox-port': sandbox ? sandboxPort : undefined,
  })
  for (const [nth, [flag, value]] of ports.entries()) {
    const others = ports.slice(0, nth)
    if (!value || others.every(([, other]) => other !== value)) continue
    const otherFlags = formatList(others.map(([other]) => other))
    throw badArgument(flag, `expected another port than ${otherFlags}, got ${value} again`, {
      hint: 'Use a different port for each, or 0 for a free port.',
    })
  }
  if (sandbox && (config.storeUrl !== undefined || config.storeUrlFile !== undefined))
    throw badArgument('--sandbox', 'expected without a store on PostgreSQL', {
      hint: 'Run svc sandbox on its own, and give its address to each node with --upstream-url and --cdn-url.',
    })
  for (const flag of ['upstreamUrl', 'cdnUrl']) {
    if (!sandbox || flags[flag] === undefined) continue
    throw badArgument('--sandbox', 'expected without --upstream-url and --cdn-url, which it sets', {
      hint: 'To use a sandbox that is already running, pass its address with --upstream-url and --cdn-url instead of --sandbox.',
    })
  }
  Object.freeze(config.allowHosts)
  Object.freeze(config.trustedProxies)
  Object.freeze(config.eventsCallback)
  return Object.freeze(config)
}
