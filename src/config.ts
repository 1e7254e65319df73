/** Flags over SVC_* over defaults → one frozen Config. The only reader of the environment. */
import { fstatSync } from 'node:fs'
import { delimiter, isAbsolute, join } from 'node:path'
import process from 'node:process'
import { type CommandName, type Config, type OptionSpec, optionTable } from './config/options.ts'
import { switched } from './config/values.ts'
import { badArgument, isSvcError, renamed } from './model/error.ts'
import { listed } from './platform/format.ts'
import { maskText } from './platform/log.ts'
import { homeFolder } from './platform/process.ts'

export { type CommandName, type Config, type OptionSpec, optionTable } from './config/options.ts'
export type { Pace } from './config/values.ts'

/** What the command line gave: by the flag's name in camel case (`--no-banner` is `banner: false`), as commander does. */
export type Flags = Readonly<Record<string, string | boolean | readonly string[] | undefined>>

/** Variables by name. Not Node's word for it: these types must do in projects that have none of Node's. */
export type Environment = Readonly<Record<string, string | undefined>>

/** Those of this process. */
export const ownEnvironment = (): Environment => process.env

/** The name under which `Flags` holds the option's value. */
export const flagKey = (option: OptionSpec): string | undefined =>
  option.flag?.replace(/^--(no-)?/, '').replace(/-(.)/g, (_all, letter: string) => letter.toUpperCase())

/**
 * Flags over environment over defaults; an empty variable counts as absent. `usual` goes before the table's defaults.
 *
 * @throws SvcError `invalid_arguments` naming the option and what was expected
 */
export function readConfig(flags: Flags = {}, env: Environment = process.env, usual: Usual = {}): Config {
  return checked(
    collected(option => given(option, flags, env), usual),
    flags,
  )
}

/** Defaults of one command, by the option's name, where they are not those of the table. */
export type Usual = { readonly [Name in keyof Config]?: string }

/** What a program may give as the value of an option: as a user would write it, or as it is. */
export type ConfigValues = {
  readonly [Name in Exclude<keyof Config, 'banner'>]?: string | number | boolean | undefined
}

/**
 * The same from a program: values by their names in `Config`, over defaults. The environment is not read: what a program
 * works with stands in the program.
 *
 * @throws SvcError `invalid_arguments` naming the option and what was expected
 */
export function configOf(values: ConfigValues): Config {
  const config = collected(({ name }) => {
    const value = (values as Readonly<Record<string, string | number | boolean | undefined>>)[name]
    return value === undefined ? undefined : { text: String(value), from: name }
  })
  return checked(config, {})
}

/** What was given for a command, to be said again elsewhere. */
export interface Spelled {
  /** By flags, whichever way it was given; paths absolute. */
  readonly args: readonly string[]
  /** What no flag stands for, as variables. */
  readonly variables: Readonly<Record<string, string>>
}

/**
 * The options of a command as they were given by `flags` and environment.
 *
 * @param config what they came to
 * @param without those that the caller states itself, by name; secrets are never among them
 */
export function spelledOut(
  command: CommandName,
  flags: Flags,
  config: Config,
  { without = [], env = process.env }: { without?: readonly (keyof Config)[]; env?: Environment } = {},
): Spelled {
  const args: string[] = []
  const variables: Record<string, string> = {}
  for (const option of optionTable) {
    if (option.flag && !option.commands.includes(command)) continue
    const found = given(option, flags, env)
    if (!found) continue
    if (option.secret || without.includes(option.name)) continue
    const value = config[option.name]
    if (!option.flag) variables[option.env] = found.text.trim()
    else if (option.placeholder === undefined) {
      if (value === !option.flag.startsWith('--no-')) args.push(option.flag)
    } else {
      // A number or a pace goes along as it was written.
      const isAsRead = typeof value === 'string' || Array.isArray(value)
      const words = option.repeatable ? [value].flat() : [isAsRead ? value : found.text.trim()]
      for (const word of words) args.push(option.flag, String(word))
    }
  }
  return { args, variables }
}

/** Variables of ours that are no option: of the tests, and of the install script. */
const otherVariables = /^SVC_(TEST_\w+|FROM)$/

/**
 * Kubernetes sets variables in every pod for each service of the namespace. For a service named svc, or svc-something, they
 * begin with SVC_: `SVC_SERVICE_HOST`, `SVC_PORT_8000_TCP_ADDR`, and `SVC_PORT=tcp://10.0.0.1:8000`.
 */
const isKubernetes = (name: string, value: string): boolean =>
  /^SVC_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/.test(name) ||
  (/_PORT$/.test(name) && /^(tcp|udp|sctp):\/\//.test(value))

/** Names of the variables that begin with SVC_, have a value, and mean nothing to svc; sorted. */
export const unknownVariables = (env: Environment = process.env): string[] =>
  Object.entries(env)
    .filter(([name, value]) => name.startsWith('SVC_') && value && !isKubernetes(name, value))
    .map(([name]) => name)
    .filter(name => !otherVariables.test(name) && !optionTable.some(option => option.env === name))
    .sort()

/** What names the data directory, as it was given by flags or environment: for commands that are proposed. */
export function placeGiven(
  flags: Flags,
  env: Environment = process.env,
): { sandbox: boolean; basePath: string | undefined } {
  const basePath = textGiven('basePath', flags, env)
  return { sandbox: switched(textGiven('sandbox', flags, env) ?? '') === true, basePath }
}

/** The format of the log, as it was given: for an error of the other options. */
export const logFormatGiven = (flags: Flags, env: Environment = process.env): string | undefined =>
  textGiven('logFormat', flags, env)?.trim().toLowerCase()

function textGiven(wanted: keyof Config, flags: Flags, env: Environment): string | undefined {
  const option = optionTable.find(({ name }) => name === wanted)
  return option && given(option, flags, env)?.text
}

/** What programs read of the environment besides: how they reach the network. */
const networkVariables =
  /^((https?|all|no)_proxy|(HTTPS?|ALL|NO)_PROXY|SSL_CERT_(FILE|DIR)|NODE_EXTRA_CA_CERTS)$/

/** Those that are set here. */
export const networkEnvironment = (env: Environment = process.env): Record<string, string> =>
  Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) =>
      networkVariables.test(name) && value ? [[name, value]] : [],
    ),
  )

/** Who became root by sudo to call this, if anybody did. */
export const calledBySudo = (env: Environment = process.env): string | undefined =>
  env.SUDO_USER && env.SUDO_USER !== 'root' ? env.SUDO_USER : undefined

/** Whether what is printed is kept by systemd's journal, for other eyes and for long. */
export function isJournalled(env: Environment = process.env): boolean {
  if (!env.JOURNAL_STREAM) return false
  // A terminal started by systemd hands the variable on: it counts for the very stream that it names.
  const { dev, ino } = fstatSync(1)
  return env.JOURNAL_STREAM === `${dev}:${ino}`
}

/** Where systemd waits to hear that the service is ready, if it does. */
export const notifySocket = (env: Environment = process.env): string | undefined =>
  env.NOTIFY_SOCKET || undefined

/** Where this user's programs keep their settings, as the environment has it. */
export interface UserFolders {
  readonly home: string
  readonly platform: string
  /** Of the project: where the command was called. */
  readonly project: string
  /** Windows. */
  readonly appData: string
  readonly localAppData: string
  /** Linux. */
  readonly xdgConfig: string
  /** Where programs were told to keep theirs elsewhere. */
  readonly claudeCode?: string
  readonly codex?: string
  readonly geminiHome?: string
  /** Of the programs that a shell finds. */
  readonly path: readonly string[]
}

/** Reads them. */
export function userFolders(env: Environment = process.env): UserFolders {
  const home = homeFolder()
  const told = (name: string) => (isAbsolute(env[name] ?? '') ? env[name] : undefined)
  return {
    home,
    platform: process.platform,
    project: process.cwd(),
    appData: told('APPDATA') ?? join(home, 'AppData', 'Roaming'),
    localAppData: told('LOCALAPPDATA') ?? join(home, 'AppData', 'Local'),
    xdgConfig: told('XDG_CONFIG_HOME') ?? join(home, '.config'),
    claudeCode: told('CLAUDE_CONFIG_DIR'),
    codex: told('CODEX_HOME'),
    geminiHome: told('GEMINI_CLI_HOME'),
    path: (env.PATH ?? '').split(delimiter).filter(isAbsolute),
  }
}

/** Every option parsed: as `find` gives it, else its default. `from` is what an error calls it. */
function collected(
  find: (option: OptionSpec) => { text: string; from: string } | undefined,
  usual: Usual = {},
): Config {
  const config: Record<string, unknown> = {}
  const late = optionTable.filter(option => {
    const found = find(option)
    if (found) config[option.name] = parsed(option, found.text, found.from)
    return !found
  })
  // Options whose default depends on others come after those.
  const rank = (option: OptionSpec) =>
    typeof option.default !== 'function' ? 0 : option.name === 'basePath' ? 1 : 2
  for (const option of late.sort((a, b) => rank(a) - rank(b))) {
    const text =
      usual[option.name] ?? (typeof option.default === 'function' ? option.default(config) : option.default)
    if (text !== undefined) config[option.name] = parsed(option, text, option.flag ?? option.env)
  }
  return config as unknown as Config
}

function given(
  option: OptionSpec,
  flags: Flags,
  env: Environment,
): { text: string; from: string } | undefined {
  const key = flagKey(option)
  const flag = key === undefined ? undefined : flags[key]
  const from = option.flag ?? option.env
  if (option.flag?.startsWith('--no-')) {
    // Commander says `true` when such a flag was not given.
    if (flag === false) return { text: '1', from }
  } else if (typeof flag === 'boolean') {
    if (flag || option.placeholder === undefined) return { text: flag ? '1' : '0', from }
  } else if (typeof flag === 'string') return { text: flag, from }
  else if (flag !== undefined && flag.length > 0) return { text: flag.join(','), from }
  const text = env[option.env] ?? ''
  return text === '' || isKubernetes(option.env, text) ? undefined : { text, from: option.env }
}

function parsed(option: OptionSpec, text: string, from: string): Config[keyof Config] {
  const value = valueIn(option, text.trim(), from)
  if (value !== undefined) return value
  const shown = maskText(text.replace(/\/\/[^/@]*@/, '//***@'))
  const got = option.secret
    ? ''
    : `, got ${JSON.stringify(shown.length > 80 ? `${shown.slice(0, 80)}…` : shown)}`
  throw badArgument(from, `expected ${option.expected}${got}`)
}

/** @throws SvcError `invalid_arguments`, of this option, for a folder whose name fits several on the disk */
function valueIn(option: OptionSpec, text: string, from: string) {
  try {
    return option.parse(text)
  } catch (error) {
    throw isSvcError(error) ? renamed(error, problem => ({ ...problem, field: from })) : error
  }
}

/** What no single option can tell. */
function checked(config: Config, flags: Flags): Config {
  const { port, adminPort, metricsPort, sandbox, sandboxPort, socket } = config
  if (socket !== undefined && flags.port !== undefined) {
    throw badArgument('--socket', 'expected without --port', {
      hint: 'Give one of them: a socket is in place of host and port.',
    })
  }
  const ports = Object.entries({
    '--port': socket === undefined ? port : undefined,
    '--admin-port': adminPort,
    '--metrics-port': metricsPort,
    '--sandbox-port': sandbox ? sandboxPort : undefined,
  })
  for (const [nth, [flag, value]] of ports.entries()) {
    const others = ports.slice(0, nth)
    if (!value || others.every(([, other]) => other !== value)) continue
    const named = listed(others.map(([other]) => other))
    throw badArgument(flag, `expected another port than ${named}, got ${value} again`, {
      hint: 'Give each its own, or 0 for a free port.',
    })
  }
  for (const flag of ['upstreamUrl', 'cdnUrl']) {
    if (!sandbox || flags[flag] === undefined) continue
    throw badArgument('--sandbox', 'expected without --upstream-url and --cdn-url, which it sets', {
      hint: 'To use a sandbox that runs already, name its address with --upstream-url and --cdn-url instead of --sandbox.',
    })
  }
  Object.freeze(config.allowHosts)
  return Object.freeze(config)
}
