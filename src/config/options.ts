/** The table of all options. The command line, its help, the README and `readConfig` derive from it. */
import { join } from 'node:path'
import { dataFiles } from '../model/data-files.ts'
import { logFormats, logLevels } from '../platform/log.ts'
import {
  createWholeParser,
  parseBackupInterval,
  parseConsumerName,
  parseFolder,
  parseHosts,
  parseHttpsUrls,
  parseHttpUrl,
  parseNames,
  parsePace,
  parsePublicUrl,
  parseRanges,
  parseSize,
  parseSwitch,
  parseToken,
} from './values.ts'

/** The transports of `svc mcp`. */
type Transport = 'stdio' | 'http' | 'sse'
const transports: readonly Transport[] = ['stdio', 'http', 'sse']

/** Commands that take options; `tool` stands for every one-shot tool command, `agents` for `svc agent`. */
export type CommandName =
  | 'openapi'
  | 'mcp'
  | 'admin'
  | 'sandbox'
  | 'agents'
  | 'tool'
  | 'health'
  | 'setup'
  | 'migrate'
  | 'backup'
  | 'copy'

/** One option: how to read, display and document it. */
interface Spec {
  /** The long flag; absent for an option that is only a variable. */
  readonly flag?: `--${string}` | undefined
  readonly short?: `-${string}`
  /** The name of the value in help; absent for a switch. */
  readonly placeholder?: string
  /** Default, as a user would write it; a function if it depends on other options. */
  readonly default?: string | ((values: { sandbox?: unknown; basePath?: string }) => string)
  /** The default as help displays it, if that differs. */
  readonly displayedDefault?: string
  readonly help: string
  readonly commands: readonly CommandName[]
  /** All allowed values, if they are few. */
  readonly choices?: readonly string[]
  /**
   * Whether the flag may be repeated. The variable separates values by commas, and `parse` gets them that
   * way.
   */
  readonly repeatable?: boolean
  /** Whether messages must not contain its value. */
  readonly secret?: boolean
  /** Ends the sentence "expected …". */
  readonly expected: string
  /** Returns undefined for a text that is not what was expected. */
  parse(text: string): unknown
}

const servers = ['openapi', 'mcp', 'admin'] as const
const everywhere = [...servers, 'sandbox', 'agents', 'tool'] as const
const working = [...servers, 'agents', 'tool'] as const

const port = {
  placeholder: '<port>',
  expected: 'a whole number from 0 to 65535',
  parse: createWholeParser(0, 65_535),
} as const
const onOff = { default: '0', displayedDefault: 'off', expected: '1 or 0', parse: parseSwitch } as const
const address = {
  placeholder: '<address>',
  default: '127.0.0.1',
  expected: 'a host name or IP address',
  parse: (text: string) => /^\[?([a-z0-9.:_-]+(%[a-z0-9.-]+)?)\]?$/i.exec(text)?.[1],
} as const
const path = { placeholder: '<folder>', expected: 'a path', parse: parseFolder } as const
const file = { ...path, placeholder: '<file>', displayedDefault: 'none' } as const
/** A key that is not in a file. It has no flag: every user of the machine can read the arguments of a process. */
const keyText = {
  flag: undefined,
  displayedDefault: 'none',
  secret: true,
  expected: 'at least 32 printable ASCII characters without spaces',
  parse: (text: string) => (text.length >= 32 ? parseToken(text) : undefined),
} as const
const sizes = { placeholder: '<size>', expected: 'a size as in 500MB or 2GiB', parse: parseSize } as const
const days = {
  expected: 'a number of days from 0 to 36500',
  parse(text: string) {
    const days = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN
    return days <= 36_500 ? days : undefined
  },
} as const
const url = {
  placeholder: '<url>',
  expected: 'an http or https URL without user name, query and fragment',
  parse: parseHttpUrl,
} as const

/** All options in the order of the help. A comment adds what the help does not say about the value. */
const options = {
  /** How MCP clients connect. */
  transport: {
    short: '-t',
    placeholder: '<transport>',
    default: 'stdio',
    help: 'stdio: for one client, which starts svc itself; http: for any number of clients, at /mcp; sse: the older form of http, at /sse',
    commands: ['mcp'],
    choices: transports,
    expected: `one of ${transports.join(', ')}`,
    parse: text => transports.find(transport => transport === text.toLowerCase()),
  },
  host: {
    help: 'address to listen on, IPv4 or IPv6 (:: listens on all addresses of both); one that others can reach requires a token',
    commands: [...servers, 'sandbox', 'health'],
    ...address,
  },
  /** 0: a free port. */
  port: {
    short: '-p',
    default: '8000',
    help: 'port number; 0 picks a free one',
    commands: ['openapi', 'mcp', 'health'],
    ...port,
  },
  /** Absolute. A Unix socket that replaces `host` and `port`. */
  socket: {
    ...path,
    placeholder: '<path>',
    displayedDefault: 'none',
    help: 'listen on a Unix socket that only your user can open (mode 0600), instead of host and port',
    commands: ['openapi', 'mcp', 'health'],
  },
  /** Absolute. */
  basePath: {
    short: '-d',
    default: ({ sandbox }) => (sandbox ? '~/.svc-sandbox' : '~/.svc'),
    displayedDefault: '~/.svc, with --sandbox ~/.svc-sandbox',
    help: 'data directory',
    commands: [...everywhere, 'health', 'setup', 'migrate', 'backup'],
    ...path,
  },
  /** Absent: no admin panel. 0: a free port. */
  adminPort: {
    displayedDefault: 'no panel; with svc admin: 8080',
    help: 'serve the admin panel on this port of the same host; 0 picks a free one',
    commands: servers,
    ...port,
  },
  /** Absent: metrics only with the token. 0: a free port. */
  metricsPort: {
    displayedDefault: 'none',
    help: 'also serve /metrics on this port of the same host, without a token; 0 picks a free one',
    commands: servers,
    ...port,
  },
  /** Absent: the relay is only below /ilink of svc openapi. 0: a free port. */
  relayPort: {
    displayedDefault: 'none',
    help: 'also serve the relay on this port of the same host; 0 picks a free one',
    commands: ['openapi'],
    ...port,
  },
  logLevel: {
    placeholder: '<level>',
    default: 'INFO',
    help: `log this level and those above it: ${logLevels.join(', ')}`,
    commands: everywhere,
    choices: logLevels,
    expected: `one of ${logLevels.join(', ')}`,
    parse: text => logLevels.find(level => level === text.toUpperCase()),
  },
  logFormat: {
    placeholder: '<format>',
    default: 'text',
    help: 'text, or json: one JSON object a line',
    commands: [...servers, 'sandbox', 'agents'],
    choices: logFormats,
    expected: `one of ${logFormats.join(', ')}`,
    parse: text => logFormats.find(format => format === text.toLowerCase()),
  },
  banner: {
    flag: '--no-banner',
    default: '0',
    displayedDefault: onOff.displayedDefault,
    help: 'print no banner at startup',
    commands: [...servers, 'sandbox'],
    expected: onOff.expected,
    parse(text) {
      const off = parseSwitch(text)
      return off === undefined ? undefined : !off
    },
  },
  token: {
    placeholder: '<token>',
    displayedDefault:
      'none if only this machine can reach the service; otherwise svc makes one and keeps it in the file api_token',
    help: 'token that callers must send (Authorization: Bearer); set SVC_TOKEN instead to keep it out of the list of processes',
    commands: servers,
    secret: true,
    expected: 'printable ASCII characters without spaces',
    parse: parseToken,
  },
  /** Absolute. The file contains the token. */
  tokenFile: {
    ...file,
    help: 'file that holds the token, such as a secret of Docker or systemd',
    commands: servers,
  },
  /** Absolute. The file contains a key. */
  keyFile: {
    ...file,
    help: 'over MCP with stdio or --url, file that holds a key of svc key add: the client may do what the key may do',
    commands: ['mcp', 'setup'],
  },
  /** Lower case, each `host` or `host:port`. */
  allowHosts: {
    flag: '--allow-host',
    placeholder: '<host>',
    default: '',
    displayedDefault: 'loopback names',
    help: 'also accept requests for this host name, as a proxy sends them; without a port any port matches; requires a token; repeatable',
    commands: servers,
    repeatable: true,
    expected: 'a host name, with a port if it is not the usual one',
    parse: parseHosts,
  },
  /** Lower case, each an address or a range of addresses. */
  trustedProxies: {
    flag: '--trust-proxy',
    placeholder: '<address>',
    default: '',
    displayedDefault: 'none',
    help: 'address of a proxy in front, or a range such as 10.1.2.0/24: what it forwards about callers is believed (X-Forwarded-For, -Proto, -Prefix); repeatable',
    commands: servers,
    repeatable: true,
    expected: 'IP addresses, or ranges such as 10.1.2.0/24, separated by commas',
    parse: parseRanges,
  },
  /** The address at which others reach this service, without a slash at the end. */
  publicUrl: {
    ...url,
    displayedDefault: 'the address it listens on',
    help: 'address at which others reach this service: links in webhook deliveries start with it, and a proxy may serve svc below its path',
    expected: `${url.expected}, its path of letters, digits and . _ ~ : @ + -`,
    parse: parsePublicUrl,
    commands: servers,
  },
  /** Each an https URL. */
  eventsCallback: {
    placeholder: '<url>',
    default: '',
    displayedDefault: 'none',
    help: 'over MCP Events, also deliver to callbacks below this https URL if they are in a private network or on this machine; repeatable',
    commands: servers,
    repeatable: true,
    expected: 'https URLs without user name, query and fragment, separated by commas',
    parse: parseHttpsUrls,
  },
  /** Absolute. */
  eventsCallbackCa: {
    ...file,
    displayedDefault: "the system's",
    help: 'file of the certificates to trust below --events-callback, as PEM',
    commands: servers,
  },
  /** Whether a person confirms each send of an MCP client. */
  confirmSend: {
    ...onOff,
    help: 'over MCP, ask the person who uses the client before each send',
    commands: ['openapi', 'mcp', 'setup'],
  },
  /** Whether an MCP client that starts svc may name any file of its user. */
  anyFile: {
    ...onOff,
    displayedDefault: 'only files in the media root and the working folder',
    help: 'over MCP with stdio, let the client use any file of its user',
    commands: ['mcp', 'setup'],
  },
  /** Whether MCP clients also get every response as structured content, including texts that people wrote. */
  structured: {
    ...onOff,
    help: 'over MCP, add the answers of recv, history, download and login as structured content, for programs; a single connection gets it at /mcp?structured=1',
    commands: ['openapi', 'mcp', 'setup'],
  },
  /**
   * The consumer of recv over MCP if a call names none. A new one starts after the last message that any
   * consumer got.
   */
  consumer: {
    placeholder: '<name>',
    displayedDefault: 'default',
    help: 'over MCP, the consumer that recv reads for if a call names none; a single connection names it with /mcp?consumer=NAME',
    commands: ['mcp', 'setup'],
    expected: '1 to 64 letters (a-z), digits, ".", "_" or "-"',
    parse: parseConsumerName,
  },
  /** Names of the tools for MCP clients, or `read-only`; absent: all. */
  tools: {
    placeholder: '<names>',
    displayedDefault: 'all',
    help: 'over MCP, offer only these tools, separated by commas; read-only: those that change nothing (history, sessions)',
    commands: ['openapi', 'mcp', 'setup'],
    expected: 'names of tools separated by commas, or read-only',
    parse: parseNames,
  },
  /** Without a slash at the end, like `cdnUrl`. */
  upstreamUrl: {
    default: 'https://ilinkai.weixin.qq.com',
    help: 'address of the messaging API',
    commands: working,
    ...url,
  },
  cdnUrl: {
    default: 'https://novac2c.cdn.weixin.qq.com/c2c',
    help: 'address of the CDN for media',
    commands: working,
    ...url,
  },
  /** Absolute. */
  mediaRoot: {
    default: ({ basePath }) => join(basePath ?? '', dataFiles.media),
    displayedDefault: '<base-path>/media',
    help: 'folder from which remote callers may send files, and into which they may save them',
    commands: [...working, 'backup', 'copy'],
    ...path,
  },
  /** 0: no limit. */
  storeMaxAgeDays: {
    placeholder: '<days>',
    default: '30',
    help: 'remove messages that are older than this; 0 keeps all',
    commands: [...working, 'migrate'],
    ...days,
  },
  /** 0: no limit. */
  storeMaxCount: {
    placeholder: '<count>',
    default: '100000',
    help: 'keep at most this many messages, read or not: 100000 are 42 minutes at 40 a second; 0 keeps all',
    commands: [...working, 'migrate'],
    expected: 'a whole number from 0',
    parse: createWholeParser(0, Number.MAX_SAFE_INTEGER),
  },
  /** 0: none are kept. */
  auditDays: {
    placeholder: '<days>',
    default: '90',
    help: 'remove lines of the audit log that are older than this; 0 keeps none',
    commands: working,
    ...days,
  },
  /** Absent: no backups by schedule. Absolute. */
  backupTo: {
    ...path,
    displayedDefault: 'no backups by schedule',
    help: 'make backups by schedule in this folder',
    commands: servers,
  },
  /** Milliseconds. */
  backupEvery: {
    placeholder: '<time>',
    default: '1d',
    help: 'time between two backups by schedule',
    commands: servers,
    expected: 'a time as in 12h or 1d (units m, h, d), from 1m to 365d',
    parse: parseBackupInterval,
  },
  backupKeep: {
    placeholder: '<count>',
    default: '7',
    help: 'number of backups that the schedule keeps in its folder',
    commands: servers,
    expected: 'a whole number from 1 to 10000',
    parse: createWholeParser(1, 10_000),
  },
  /** Absolute. The file contains a passphrase. */
  passphraseFile: {
    ...file,
    displayedDefault: 'none: backups are not encrypted',
    help: 'file that holds the passphrase of backups',
    commands: [...servers, 'backup'],
  },
  /** Absolute. The file contains a secret key. */
  secretKeyFile: {
    ...file,
    displayedDefault: 'none, or the systemd credential svc_secret_key',
    help: 'file that holds the key with which the secrets in the data directory are encrypted; see svc secrets',
    commands: [...working, 'migrate', 'backup', 'copy'],
  },
  secretKey: {
    ...keyText,
    help: 'the same key itself, where no file is possible',
    commands: [...working, 'migrate', 'backup', 'copy'],
  },
  /** Absolute. The file contains a secret key. */
  newSecretKeyFile: {
    ...file,
    displayedDefault: 'none, or the systemd credential svc_new_secret_key',
    help: 'file that holds the next secret key: svc secrets rotate makes it the one that encrypts; a node on PostgreSQL only decrypts with it until then',
    commands: [...working, 'copy'],
  },
  newSecretKey: {
    ...keyText,
    help: 'the same key itself, where no file is possible',
    commands: [...working, 'copy'],
  },
  /** Absolute. The file contains the address of a store on PostgreSQL. */
  storeUrlFile: {
    ...file,
    displayedDefault: 'none, or the systemd credential svc_store_url: the store is in the data directory',
    help: 'file that holds the address of a store on PostgreSQL, which several machines share: postgres://user:password@host/database',
    commands: [...working, 'migrate', 'backup', 'copy'],
  },
  /** Has no flag: every user of the machine can read the arguments of a process. */
  storeUrl: {
    flag: undefined,
    displayedDefault: 'none',
    help: 'the same address itself, where no file is possible',
    commands: [...working, 'migrate', 'backup', 'copy'],
    secret: true,
    expected: 'an address as in postgres://user:password@host:5432/database',
    parse: text => (/^postgres(ql)?:/.test(text) ? text : undefined),
  },
  /** Seconds. */
  drain: {
    placeholder: '<seconds>',
    default: '0',
    help: 'after a signal to stop, serve calls for so long, so that a load balancer which asks /readyz notices; a second signal ends that',
    commands: servers,
    expected: 'a number of seconds from 0 to 3600',
    parse: createWholeParser(0, 3600),
  },
  /** Absolute. */
  tlsCert: {
    ...file,
    displayedDefault: 'none: plain http',
    help: 'serve https with this certificate chain (PEM); a replaced file is used from then on',
    commands: servers,
  },
  /** Absolute. */
  tlsKey: {
    ...file,
    help: 'the private key of that certificate (PEM)',
    commands: servers,
  },
  pace: {
    placeholder: '<pace>',
    default: '1/s,10/5m',
    help: 'how fast svc sends: messages per second for each session, messages to one user in a period; off: no limit',
    commands: working,
    expected: 'a rate as in 1/s,10/5m (units s, m, h), or off',
    parse: parsePace,
  },
  maxUploadBytes: {
    flag: '--max-upload',
    default: '2GiB',
    help: 'largest file to upload or send',
    commands: working,
    ...sizes,
  },
  /** On the disk of the data directory. */
  keepFreeBytes: {
    flag: '--keep-free',
    placeholder: '<size>',
    default: '256MiB',
    help: 'disk space that uploads, downloads and backups leave free for messages',
    commands: [...everywhere, 'backup', 'copy'],
    expected: 'a size as in 500MB or 2GiB, or 0',
    parse: text => (text === '0' ? 0 : parseSize(text)),
  },
  sandbox: {
    ...onOff,
    help: 'use the built-in simulated WeChat and its simulated phone',
    commands: [...working, 'health', 'setup', 'migrate', 'backup'],
  },
  /** 0: a free port. */
  sandboxPort: {
    default: '8001',
    help: 'port of the simulated phone; 0 picks a free one',
    commands: [...servers, 'sandbox', 'agents', 'setup'],
    ...port,
  },
  /** The address of the simulated phone of a service. */
  sandboxHost: {
    help: 'address that the simulated phone listens on; it asks for no token',
    commands: [...servers, 'agents'],
    ...address,
  },
  channelVersion: {
    flag: undefined,
    default: '2.4.9',
    help: 'client version that svc reports to WeChat',
    commands: working,
    expected: 'three numbers as in 2.4.9',
    parse: text => (/^\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(text) ? text : undefined),
  },
} as const satisfies Record<string, Spec>

type Options = typeof options
type Name = keyof Options
type Value<N extends Name> = Exclude<ReturnType<Options[N]['parse']>, undefined>
type WithDefault = { [N in Name]: Options[N] extends { default: unknown } ? N : never }[Name]

/**
 * The checked configuration, by the names in the table; frozen. Options without default and value are absent.
 */
export type Config = { readonly [N in WithDefault]: Value<N> } & {
  readonly [N in Exclude<Name, WithDefault>]?: Value<N>
}

/** A row of the table. */
export interface OptionSpec extends Spec {
  readonly name: Name
  readonly env: `SVC_${string}`
  parse(text: string): Config[Name] | undefined
}

/** Adds the default flag and variable, named after the option: basePath, `--base-path`, SVC_BASE_PATH. */
const toRow = (name: Name, spec: Omit<OptionSpec, 'name' | 'env'>): OptionSpec => {
  const { flag = `--${name.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)}` } = spec
  return { name, env: `SVC_${flag.slice(2).replaceAll('-', '_').toUpperCase()}`, flag, ...spec }
}

/** The table `options`, one row for each. */
export const optionTable: readonly OptionSpec[] = (Object.keys(options) as Name[]).map(name =>
  toRow(name, options[name]),
)
