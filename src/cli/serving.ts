/**
 * Start and stop of every command that serves: opens the directory, the sandbox, the token, the gateway and
 * the socket, prints the addresses, waits for the end, and stops cleanly.
 */

import { join } from 'node:path'
import { hasKeyForm } from '../access/secret.ts'
import { localFilesOf } from '../config/local-files.ts'
import { withSecrets } from '../config/secrets.ts'
import { isGuessable, listOpenFiles, openFileWarning, secretFilesOf } from '../config/token-file.ts'
import { type Config, findCredentials } from '../config.ts'
import { claimDirectory } from '../gateway/directory.ts'
import { openGateway, type RunningGateway } from '../gateway/gateway.ts'
import { svcCommand } from '../inspect/advised-commands.ts'
import { badArgument, SvcError } from '../model/error.ts'
import type { LiveCertificate } from '../platform/certificate.ts'
import type { Clock } from '../platform/clock.ts'
import { statOf } from '../platform/files.ts'
import { createLog, type Log } from '../platform/log.ts'
import { bypassProxyForLoopback, findOwnCommand, runProgram } from '../platform/process.ts'
import { toReachableUrl } from '../platform/serve.ts'
import { Tasks } from '../platform/tasks.ts'
import { isExposed } from '../server/auth.ts'
import { lacksTrustedProxy, untrustedProxy } from '../server/behind-proxy.ts'
import { type EnsuredToken, ensureToken, guessableTokenError, readTokenOption } from '../server/token.ts'
import { version } from '../version.ts'
import type { Command } from './command.ts'
import { warnAtStart } from './environment.ts'
import { listFirstSteps, type ServicePages } from './first-step.ts'
import {
  certificateFilesOf,
  type ListenOptions,
  listen,
  noteAddress,
  noteFailingTasks,
  noteMore,
  toListenError,
  tryAddresses,
} from './listening.ts'
import { createLinePrinter, formatBanner, type ServiceLine } from './print.ts'
import type { Io } from './terminal.ts'

/** The interface that a command serves, besides the panel and the metrics. */
export interface ServedDoor {
  /** Lines with its addresses, printed once everything runs. */
  readonly lines: readonly ServiceLine[]
  /** Its address, for links in the panel. */
  readonly links?: { rest_url?: string }
  /** Pages on which a person can add an account. Undefined if the command tells what to do by itself. */
  readonly pages?: ServicePages | undefined
  /** Runs after all lines are printed. */
  onRunning?(phoneUrl: string | undefined): Promise<void> | void
  /** Resolves with the reason when the interface ends by itself. */
  readonly ended?: Promise<string>
  /** Ends waiting calls and streams, and goes on serving others. */
  drain?(): unknown
  /** Lets responses in progress finish, then closes. */
  stop(): unknown
}

/** Serves until SIGINT, SIGTERM, or the interface ends by itself. `options` are those of `openService`. */
export async function runService(
  requested: Config,
  command: Command,
  open: (opened: OpenedService) => Promise<ServedDoor>,
  options?: { listens?: boolean; isPhoneFree?: boolean },
): Promise<void> {
  const { io } = command
  const drainMs = requested.drain * 1000
  const drained = new AbortController()
  const stopping = waitForStop(io, drainMs > 0 ? () => drained.abort() : undefined)
  const log = await serverLog(requested, command)
  await using stack = new AsyncDisposableStack()
  const opened = await openService(requested, { io, log, stack }, options)
  const door = await open(opened)
  const { gateway, generated, hasKeys, sandbox } = opened
  const phoneUrl = sandbox && `${sandbox.url}/phone`
  // A command that a client starts uses stdout for the protocol.
  const output = door.ended ? io.err : io.out
  const links = { ...door.links, ...(phoneUrl && { sandbox_phone: phoneUrl }) }
  const panel = await openPanel(opened, links, output.isTerminal)
  const metrics = await openMetrics(opened)
  log.info('svc starts', { version })
  await gateway.start()
  noteFailingTasks(requested.basePath, opened.tasks, log, opened.ending)
  stack.defer(() => noteAddress(requested.basePath))
  // The log line helps if the directory's name was mistyped.
  if (opened.isNew) log.info('a new data directory was made', { path: requested.basePath })
  const { docs } = door.pages ?? {}
  const pages = { panel: panel.entry, docs: generated || hasKeys || opened.config.token ? undefined : docs }
  const firstSteps = door.pages ? await listFirstSteps(opened, pages) : []
  const printLine = createLinePrinter(output, requested.logFormat)
  if (requested.banner && requested.logFormat === 'text') io.out.print(formatBanner(version))
  for (const line of [...firstSteps, ...door.lines, ...metrics, ...panel.lines]) printLine(line)
  if (phoneUrl) printLine({ text: `phone on ${phoneUrl}`, url: phoneUrl })
  if (generated) {
    printLine(tokenLineOf(generated, output.isTerminal, requested.basePath))
    if (hasKeys)
      printLine({ text: 'there are keys: callers need one of them, or the token, on this machine too' })
  }
  await door.onRunning?.(phoneUrl)
  const reason = await Promise.race([stopping, ...(door.ended ? [door.ended] : [])])
  // A program that starts svc for itself has no balancer.
  if (drainMs > 0 && !door.ended) {
    log.info('draining', { reason, seconds: requested.drain })
    gateway.leave().catch(error => log.warn('sessions cannot be given up now', { error }))
    await Promise.all([door.drain?.(), panel.drain?.()])
    await io.clock.sleep(drainMs, drained.signal)
  }
  log.info('stopping', { reason })
  await Promise.all([door.stop(), panel.stop(), gateway.endSends()])
}

/**
 * Creates the log of a command that serves, and logs likely mistakes in its settings. A JSON log also takes
 * what the runtime itself would print.
 */
export async function serverLog(config: Config, command: Command): Promise<Log> {
  const { io } = command
  const log = createLog(config.logLevel, io.log, config.logFormat)
  if (config.logFormat === 'json') io.logRuntime?.(log)
  await warnAtStart(command, log, config)
  return log
}

/** Runs `svc admin`: serves only the panel. */
export const serveAdmin = (config: Config, command: Command): Promise<void> =>
  runService(config, command, async () => ({ lines: [], pages: {}, stop() {} }))

/**
 * Resolves with the first signal to stop.
 *
 * @param onSecond called at the second, which then does not end the process
 */
export const waitForStop = (io: Io, onSecond?: () => void) =>
  new Promise<string>(resolve => {
    let signals = 0
    io.onStop(signal => {
      if (++signals === 1) resolve(signal)
      else onSecond?.()
      return signals === 1 && onSecond !== undefined
    })
  })

/** A store of many gigabytes takes minutes. */
const scrubPatienceMs = 60 * 60_000

/** Folders that may hold the built panel: inside the binary, or beside the sources. */
const panelFolders = [join(import.meta.dirname, 'panel'), join(import.meta.dirname, '../../dist/panel')]

/**
 * Serves the panel on `--admin-port`. Does nothing without that option.
 *
 * @param links addresses that the panel links to
 * @param isTerminal whether the lines are for a person alone, so that a secret may stand in them
 * @returns lines with its address and, if sign-in is required, the sign-in link or the command that prints one;
 *   `entry` is the `panel` of `ServicePages`; `stop` also ends live streams
 */
async function openPanel(
  opened: OpenedService,
  links: { rest_url?: string; sandbox_phone?: string },
  isTerminal: boolean,
): Promise<Pick<ServedDoor, 'lines' | 'drain' | 'stop'> & { entry?: string }> {
  const { config, gateway, generated, log, stack } = opened
  if (config.adminPort === undefined) return { lines: [], stop() {} }
  const { createAdminApp } = await import('../server/admin.ts')
  const app = createAdminApp({
    gateway,
    config: { ...config, token: config.token ?? generated?.token },
    log,
    version,
    folders: panelFolders,
    links,
  })
  const server = await listen(opened, '--admin-port', config.adminPort, (request, peer) =>
    app.fetch(request, peer),
  )
  stack.defer(() => server.stop(0))
  await noteMore(config.basePath, { panel: toReachableUrl(server.url) })
  stack.defer(() => noteAddress(config.basePath))
  const missing = await app.getPageError()
  if (missing) log.warn('there is no panel to show', { why: missing.message, hint: missing.hint })
  const path = await app.createSignInLink()
  const here = toReachableUrl(server.url)
  const elsewhere =
    here === server.url
      ? ''
      : ` (from another machine: with this one's address for ${new URL(here).hostname})`
  const signIn =
    path === undefined
      ? []
      : isTerminal
        ? [{ text: `sign in once with ${here}${path}${elsewhere}`, url: `${here}${path}` }]
        : [
            {
              text: `sign in with the link that this prints: ${svcCommand('panel link', config.basePath)}`,
              url: here,
            },
          ]
  return {
    lines: [{ text: `admin on ${server.url}`, url: server.url }, ...signIn],
    entry: missing ? undefined : path === undefined ? here : '',
    drain() {
      server.drain()
      app.drain()
    },
    async stop() {
      app.beginShutdown()
      await server.stop(stopGraceMs)
    },
  }
}

/** Responses in progress may take this long after a stop signal. The whole stop takes less than 5 s. */
export const stopGraceMs = 3000

/** An open data directory, with everything that was set up for the service. */
export interface OpenedService extends ListenOptions {
  readonly gateway: RunningGateway
  readonly sandbox: { url: string } | undefined
  /**
   * The token that svc made. Set if other machines may reach the service, or there are keys, and you gave no
   * token.
   */
  readonly generated: EnsuredToken | undefined
  /** Whether there were keys at the start, so that callers over TCP need a token. */
  readonly hasKeys: boolean
  /** The configuration. `token` is the one that callers must send, or undefined if none is required. */
  readonly config: Config
  /** True if this start made the data directory. */
  readonly isNew: boolean
  readonly io: Io
  readonly log: Log
  readonly tasks: Tasks
  /** Aborts when everything is closed. */
  readonly ending: AbortSignal
  /** Closes everything that was opened. */
  readonly stack: AsyncDisposableStack
}

/**
 * Claims the data directory and opens its gateway, without polling yet. `stack` closes what was opened. If
 * `listens` and other machines may reach the service, a missing token is made and a guessable one is
 * rejected. If there are keys, a missing token is made too. Otherwise a guessable token only gets a warning. `isPhoneFree` is that of `openSandboxFor`.
 *
 * @throws SvcError for a guessable token, an address that cannot be used, or a directory that cannot be
 *   opened
 */
async function openService(
  given: Config,
  { io, log, stack }: Pick<OpenedService, 'io' | 'log' | 'stack'>,
  { listens = true, isPhoneFree = false } = {},
): Promise<OpenedService> {
  bypassProxyForLoopback()
  const requested = withSecrets(given, findCredentials(io.env))
  if (requested.storeUrl !== undefined && requested.backupTo !== undefined)
    throw badArgument('--backup-to', 'expected without a store on PostgreSQL', {
      hint: 'Let pg_dump or the provider back up the database. svc backup FILE, as from cron, makes a portable one.',
    })
  if (requested.passphraseFile !== undefined) await rejectBadPassphrase(requested.passphraseFile)
  const token = await readTokenOption(requested)
  const exposed = listens && isExposed(requested)
  if (token !== undefined && hasKeyForm(token))
    throw badArgument('--token', 'a key cannot be the master token: its caller would be the owner', {
      hint: 'Unset SVC_TOKEN, or give --token another value.',
    })
  if (exposed && token !== undefined && isGuessable(token)) throw guessableTokenError()
  const tasks = new Tasks(io.clock)
  const certificate = listens ? await openCertificate(requested, log, tasks, stack) : undefined
  if (listens) await tryAddresses(requested, isPhoneFree)
  const isNew = await claimDirectory(requested)
  const sandbox = requested.sandbox ? await openSandboxFor(requested, log, stack, io, isPhoneFree) : undefined
  const made = exposed && token === undefined ? await ensureToken(requested) : undefined
  const required = token ?? made?.token
  if (listens && required !== undefined && isGuessable(required)) {
    if (exposed) throw guessableTokenError(made?.path)
    log.warn('the token can be guessed by other users of this machine: use a longer one, or --socket')
  }
  const config = Object.freeze({ ...requested, token: required })
  const gateway = stack.use(
    await openGateway({
      config,
      log,
      version,
      sandboxUrl: sandbox?.url,
      wallClock: io.clock,
      ownCommand: findOwnCommand(),
      tasks,
      // A database rewrites its tables by itself.
      ...(config.storeUrl === undefined && { scrub: () => scrubElsewhere(config) }),
    }),
  )
  if (certificate) gateway.watchCertificate(certificate)
  if (listens && lacksTrustedProxy(config)) log.warn(untrustedProxy)
  for (const path of listOpenFiles(secretFilesOf(config))) log.warn(openFileWarning(path))
  const hasKeys = listens && (await gateway.keys.hasAny())
  const generated = hasKeys && token === undefined ? await ensureToken(requested) : made
  const ending = new AbortController()
  stack.defer(() => ending.abort())
  return {
    gateway,
    sandbox,
    generated,
    hasKeys,
    config,
    certificate,
    isNew,
    io,
    log,
    stack,
    tasks,
    ending: ending.signal,
  }
}

/**
 * Checks a passphrase that the schedule reads later, in a process of its own. A pipe is not read here: its
 * content comes once.
 *
 * @throws SvcError `invalid_arguments`
 */
async function rejectBadPassphrase(path: string): Promise<void> {
  const found = await statOf(path).catch(() => undefined)
  if (found && !found.isFile()) return
  const { readPassphrase } = await import('../backup/passphrase.ts')
  await readPassphrase(path)
}

/**
 * Opens the certificate of --tls-cert and --tls-key, until `stack` is disposed. Returns undefined without
 * these options.
 *
 * @throws SvcError `invalid_arguments` for one option without the other, and for files that cannot be used
 */
async function openCertificate(
  config: Config,
  log: Log,
  tasks: Tasks,
  stack: AsyncDisposableStack,
): Promise<LiveCertificate | undefined> {
  const files = certificateFilesOf(config)
  if (!files) return undefined
  const { followCertificate } = await import('../platform/certificate.ts')
  const live = await followCertificate(files, log.child('tls'), tasks)
  stack.defer(() => live.close())
  return live
}

/** Rewrites the store in another process, since that holds the event loop for seconds. @throws SvcError */
async function scrubElsewhere({ basePath }: Config): Promise<void> {
  const [program = '', ...own] = findOwnCommand()
  const args = [...own, 'scrub', '--base-path', basePath]
  const { status, stderr } = await runProgram(program, args, { withinMs: scrubPatienceMs })
  if (status === 0) return
  throw new SvcError('store_unavailable', `messages.db was not rewritten: ${stderr.trim()}`, {
    hint: 'The data is erased, but messages.db and messages.db-wal may still have it in free space. Call again.',
  })
}

/** Loads the sandbox only on use: a service on the real WeChat starts without it. */
export const loadSandbox = () => import('../sandbox/sandbox.ts')

/** Returns the options that start the sandbox of this directory. */
export const sandboxOptionsOf = (config: Config, log: Log, host: string, clock: Clock) => ({
  dir: localFilesOf(config.basePath).sandbox,
  host,
  port: config.sandboxPort,
  clock,
  keepFreeBytes: config.keepFreeBytes,
  log: log.child('sandbox'),
})

/**
 * Starts the sandbox of this directory, or uses the one that another process runs and takes over when that
 * process ends.
 *
 * @param isPhoneFree true: if the phone's port is in use, take any free one
 */
export async function openSandboxFor(
  config: Config,
  log: Log,
  stack: AsyncDisposableStack,
  { clock }: Pick<Io, 'clock'>,
  isPhoneFree = false,
): Promise<{ url: string }> {
  const { followSandbox, startSandbox } = await loadSandbox()
  const options = sandboxOptionsOf(config, log, config.sandboxHost, clock)
  const running = await followSandbox(options)
  if (running) {
    log.info('using the sandbox of another process', { url: running.url })
    stack.defer(() => running.stop())
    return running
  }
  const sandbox = await startSandbox(options)
    .catch(error => {
      if (!isPhoneFree || error.code !== 'EADDRINUSE') throw error
      return startSandbox({ ...options, port: 0 })
    })
    .catch(async error => {
      throw await toListenError(error, '--sandbox-port', config.sandboxPort, config.sandboxHost)
    })
  stack.defer(() => sandbox.stop())
  // With --pace off you want to send without waiting, so the simulated WeChat must not refuse bursts.
  if (config.pace === 'off') sandbox.world.core.setSwitches({ burst: 'off' })
  return sandbox
}

/**
 * Returns the line about a generated token. The token itself is printed only by the start that makes it, and only to a
 * terminal: others can read a log, where it is kept for long. Otherwise the line names its file.
 */
const tokenLineOf = (
  { token, created, path }: EnsuredToken,
  isTerminal: boolean,
  dir: string,
): ServiceLine =>
  created && isTerminal
    ? { text: `token ${token} (kept in ${path}; shown this once)`, token }
    : {
        text: `token as ${path === undefined ? 'all nodes have it' : `kept in ${path}`}; ${svcCommand('token', dir)} prints it`,
      }

/** Serves only `/metrics` on `--metrics-port`, if that is set. @returns a line with its address */
async function openMetrics(opened: OpenedService): Promise<ServiceLine[]> {
  const { config, gateway, log, stack } = opened
  if (config.metricsPort === undefined) return []
  const { createMetricsApp } = await import('../server/openapi.ts')
  const app = createMetricsApp({ gateway, config, log })
  const server = await listen(opened, '--metrics-port', config.metricsPort, app.fetch)
  stack.defer(() => server.stop(0))
  const url = `${server.url}/metrics`
  return [{ text: `metrics on ${url}`, url }]
}
