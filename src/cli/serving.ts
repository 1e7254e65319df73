/** The one way of the commands that serve: the directory, the sandbox, the token, the gateway, the socket; say where, wait for the end, stop cleanly. */
import { join, resolve } from 'node:path'
import process from 'node:process'
import { localFiles } from '../config/local-files.ts'
import { type Config, isJournalled } from '../config.ts'
import { claimDirectory } from '../gateway/directory.ts'
import { openGateway, type RunningGateway } from '../gateway/gateway.ts'
import { addressIn, type NotedAddress, notedAddresses } from '../inspect/healthz.ts'
import { SvcError } from '../model/error.ts'
import { systemClock } from '../platform/clock.ts'
import { errorCodeOf, removeQuietly, writeWhole } from '../platform/files.ts'
import { createLog, type Log } from '../platform/log.ts'
import { spareLoopbackTheProxy } from '../platform/process.ts'
import { type RunningServer, reachable, type ServeOptions, serve } from '../platform/serve.ts'
import { reasonOf } from '../platform/system-error.ts'
import { isExposed } from '../server/auth.ts'
import { behindProxy } from '../server/paths.ts'
import { type EnsuredToken, ensureToken, givenToken, guessableToken, isGuessable } from '../server/token.ts'
import { version } from '../version.ts'
import { banner } from './print.ts'
import type { Io } from './terminal.ts'

/** What a command serves besides the panel and the metrics. */
export interface Door {
  /** Where it is, as it is told once everything runs. */
  readonly lines: readonly string[]
  /** For the panel, to lead to it. */
  readonly links?: { rest_url?: string }
  /** Runs when all is told. */
  running?(phoneUrl: string | undefined): Promise<void> | void
  /** Resolves when it ends by itself, with the reason. */
  readonly ended?: Promise<string>
  /** Lets answers under way finish, and closes. */
  stop(): unknown
}

/** Serves until SIGINT, SIGTERM, or the door's own end. `options` as of `openService`. */
export async function runService(
  given: Config,
  io: Io,
  open: (opened: Opened) => Promise<Door>,
  options?: { listens?: boolean; isPhoneFree?: boolean },
): Promise<void> {
  const log = createLog(given.logLevel, io.log, given.logFormat)
  const stopping = stopSignal(io)
  await using stack = new AsyncDisposableStack()
  const opened = await openService(given, { io, log, stack }, options)
  const door = await open(opened)
  const { gateway, generated, sandbox } = opened
  const phoneUrl = sandbox && `${sandbox.url}/phone`
  const panel = await openPanel(opened, { ...door.links, ...(phoneUrl && { sandbox_phone: phoneUrl }) })
  const metrics = await openMetrics(opened)
  await gateway.start()
  if (given.banner) io.out.print(banner(version))
  for (const line of [...door.lines, ...metrics, ...panel.lines]) io.out.print(line)
  if (phoneUrl) io.out.print(`phone on ${phoneUrl}`)
  // Of a client's child the standard error is a log: no token in there.
  if (generated && !door.ended) io.out.print(tokenLine(generated, io))
  await door.running?.(phoneUrl)
  log.info('stopping', { reason: await Promise.race([stopping, ...(door.ended ? [door.ended] : [])]) })
  await Promise.all([door.stop(), panel.stop()])
}

/** `svc admin`: the panel alone. */
export const serveAdmin = (config: Config, io: Io): Promise<void> =>
  runService(config, io, async () => ({ lines: [], stop() {} }))

/** Resolves with the first signal to stop. */
export const stopSignal = (io: Io) => new Promise<string>(resolve => io.onStop(resolve))

/** Where the built panel lies: inside the binary, or beside the sources. */
const folders = [join(import.meta.dirname, 'panel'), join(import.meta.dirname, '../../dist/panel')]

/**
 * Serves the panel on `--admin-port`; nothing without one.
 *
 * @param links addresses worth a link
 * @returns where it is, and the link that signs in where that is needed; `stop` ends live streams too
 */
async function openPanel(
  { config, gateway, io, log, stack }: Opened,
  links: { rest_url?: string; sandbox_phone?: string },
): Promise<Pick<Door, 'lines' | 'stop'>> {
  if (config.adminPort === undefined) return { lines: [], stop() {} }
  const { createAdminApp } = await import('../server/admin.ts')
  const app = createAdminApp({ gateway, config, log, version, folders, links })
  const server = await listen(config, '--admin-port', config.adminPort, (request, peer) =>
    app.fetch(request, peer),
  )
  stack.defer(() => server.stop(0))
  await notePanel(config.basePath, reachable(server.url))
  const missing = await app.pageMissing()
  if (missing) log.warn('there is no panel to show', { why: missing.message, hint: missing.hint })
  const path = await app.signInLink()
  const here = reachable(server.url)
  const elsewhere =
    here === server.url
      ? ''
      : ` (from another machine: with this one's address for ${new URL(here).hostname})`
  const signIn =
    path === undefined || isJournalled(io.env) ? [] : [`sign in once with ${here}${path}${elsewhere}`]
  return {
    lines: [`admin on ${server.url}`, ...signIn],
    async stop() {
      app.beginShutdown()
      await server.stop(graceMs)
    },
  }
}

/** Answers under way may take this long after a stop signal; the whole stop stays under 5 s. */
export const graceMs = 3000

/** An open data directory, and what was decided on the way. */
export interface Opened {
  readonly gateway: RunningGateway
  readonly sandbox: { url: string } | undefined
  /** Set when others may reach the service and no token was given. */
  readonly generated: EnsuredToken | undefined
  /** The configuration with the token that callers must send, if they must. */
  readonly config: Config
  readonly io: Io
  readonly log: Log
  /** Closes what is opened. */
  readonly stack: AsyncDisposableStack
}

/**
 * Claims the data directory and opens the gateway over it; `stack` closes what was opened. Nothing is polled yet. Where
 * others may reach a service that `listens`, a token is made if none was given, and one that can be guessed is refused;
 * elsewhere it is warned of. `isPhoneFree` as of `openSandboxFor`.
 */
async function openService(
  given: Config,
  { io, log, stack }: Pick<Opened, 'io' | 'log' | 'stack'>,
  { listens = true, isPhoneFree = false } = {},
): Promise<Opened> {
  spareLoopbackTheProxy()
  const token = await givenToken(given)
  await claimDirectory(given)
  const sandbox = given.sandbox ? await openSandboxFor(given, log, stack, { isPhoneFree }) : undefined
  const exposed = listens && isExposed(given)
  const generated = exposed && token === undefined ? await ensureToken(given.basePath) : undefined
  const required = token ?? generated?.token
  if (listens && required !== undefined && isGuessable(required)) {
    if (exposed) throw guessableToken(generated?.path)
    log.warn('the token can be guessed by other users of this machine: use a longer one, or --socket')
  }
  const config = Object.freeze({ ...given, token: required })
  const gateway = stack.use(await openGateway({ config, log, version, sandboxUrl: sandbox?.url }))
  return { gateway, sandbox, generated, config, io, log, stack }
}

/** Loaded on use: a service on the real WeChat starts without it. */
export const sandboxRoom = () => import('../sandbox/sandbox.ts')

/** How the sandbox of this directory is started. */
export const sandboxOptions = (config: Config, log: Log, host: string) => ({
  dir: localFiles(config.basePath).sandbox,
  host,
  port: config.sandboxPort,
  clock: systemClock,
  keepFreeBytes: config.keepFreeBytes,
  log: log.child('sandbox'),
})

/**
 * Starts the sandbox of this directory, or uses the one that another process runs for it, and takes its place when that ends.
 *
 * @param isPhoneFree another port will do where the phone's is taken
 */
export async function openSandboxFor(
  config: Config,
  log: Log,
  stack: AsyncDisposableStack,
  { isPhoneFree = false } = {},
): Promise<{ url: string }> {
  const { followSandbox, startSandbox } = await sandboxRoom()
  const options = sandboxOptions(config, log, config.sandboxHost)
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
    .catch(error => {
      throw listenError(error, '--sandbox-port', config.sandboxPort, config.sandboxHost)
    })
  stack.defer(() => sandbox.stop())
  // Who wants to send without waiting is not to be refused for it by our own WeChat.
  if (config.pace === 'off') sandbox.world.core.setSwitches({ burst: 'off' })
  return sandbox
}

/** A generated token is shown the one time it is made; later, and to a journal that others read, only where it is. */
const tokenLine = ({ token, created, path }: EnsuredToken, { env }: Io) =>
  created && !isJournalled(env)
    ? `token ${token} (kept in ${path}; shown this once)`
    : `token as kept in ${path}; svc token prints it`

/**
 * The server of the service itself, on its socket, else on its port; noted in the data directory for those who look for
 * it, until `stack` ends.
 */
export async function listenMain(
  { config, gateway, stack }: Opened,
  fetch: ServeOptions['fetch'],
): Promise<RunningServer> {
  const server = await listenWhere(config, fetch).catch(async error => {
    throw (await runsAlready(config, error)) ?? error
  })
  stack.defer(() => server.stop(0))
  const url = config.socket === undefined ? reachable(server.url) : `unix:${resolve(config.socket)}`
  await noteAddress(config.basePath, { url })
  stack.defer(() => noteAddress(config.basePath))
  if (config.socket === undefined) gateway.listensAt(url)
  return server
}

/** What is wrong where the address is taken by a service of this directory. */
async function runsAlready(config: Config, error: unknown): Promise<SvcError | undefined> {
  const url = addressIn(config.socket === undefined ? config : { ...config, socket: resolve(config.socket) })
  const there = (await notedAddresses(config.basePath)).find(one => one.url === url)
  if (!there || !(error instanceof SvcError)) return undefined
  const panel = there.panel === undefined ? '' : `, its panel at ${there.panel}`
  return new SvcError(
    'internal',
    `svc already runs on ${config.basePath}: process ${there.pid} at ${url}${panel}`,
    {
      hint: `Use that one, stop it first, or choose another ${config.socket === undefined ? 'port with --port' : 'socket with --socket'}.`,
      cause: error,
    },
  )
}

/** Notes where this process listens, or that it does so no more, beside what other services that run noted. */
async function noteAddress(dir: string, own?: Omit<NotedAddress, 'pid'>): Promise<void> {
  const { pid } = process
  const path = localFiles(dir).address
  const noted = (await notedAddresses(dir)).filter(other => other.pid !== pid)
  if (own !== undefined) noted.push({ ...own, pid })
  const lines = noted.map(one => JSON.stringify(one))
  // One that cannot be noted is found by its port. After a power cut nobody listens there, so the disk is not waited for.
  await (lines.length === 0 ? removeQuietly(path) : writeWhole(path, lines.join('\n')).catch(() => {}))
}

/** Notes beside it where the panel of this process is. */
async function notePanel(dir: string, panel: string): Promise<void> {
  const own = (await notedAddresses(dir)).find(({ pid }) => pid === process.pid)
  if (own) await noteAddress(dir, { ...own, panel })
}

async function listenWhere(config: Config, fetch: ServeOptions['fetch']): Promise<RunningServer> {
  const { socket, host, port } = config
  if (socket === undefined) return listen(config, '--port', port, fetch)
  if (process.platform === 'win32') {
    throw new SvcError('internal', `${socket} cannot be served on Windows`, {
      ...{ field: '--socket', hint: 'Use --host and --port there, with --token.' },
    })
  }
  return serve({ hostname: host, port, socket, fetch: behindProxy(config, fetch) }).catch(error => {
    const hint = socketHints[errorCodeOf(error) ?? ''] ?? 'Choose a folder you may write to.'
    throw unserved(socket, error, hint, '--socket')
  })
}

/** What cannot be served, and why; an error that no system call gave stays as it is. */
const unserved = (what: string, error: unknown, hint: string, field?: string): unknown =>
  errorCodeOf(error) === undefined
    ? error
    : new SvcError('internal', `${what} cannot be served: ${reasonOf(error)}`, { field, hint, cause: error })

const socketHints: Readonly<Record<string, string>> = {
  EADDRINUSE: 'Use the service that listens there, or choose another path.',
  EEXIST: 'Choose another path; svc removes no file of yours.',
  ENOENT: 'Make the folder first, for your own user alone.',
  ENOTDIR: 'Make the folder first, for your own user alone.',
  ENAMETOOLONG: 'Choose a path of at most 100 bytes.',
}

/** The server, or why there is none in one clear line. */
const listen = (config: Config, flag: string, port: number, fetch: ServeOptions['fetch']) =>
  serve({ hostname: config.host, port, fetch: behindProxy(config, fetch) }).catch((error): never => {
    throw listenError(error, flag, port, config.host)
  })

/** The port of `/metrics` alone, if one is wanted. @returns the line that says where it is */
async function openMetrics({ config, gateway, log, stack }: Opened): Promise<string[]> {
  if (config.metricsPort === undefined) return []
  const { createMetricsApp } = await import('../server/openapi.ts')
  const app = createMetricsApp({ gateway, config, log })
  const server = await listen(config, '--metrics-port', config.metricsPort, app.fetch)
  stack.defer(() => server.stop(0))
  return [`metrics on ${server.url}/metrics`]
}

/** A failed bind as one clear line; anything else as it is. */
export function listenError(error: unknown, flag: string, port: number, host: string): unknown {
  const code = errorCodeOf(error) ?? ''
  const own = `port ${port} on ${host}`
  if (code === 'EADDRINUSE') return unserved(own, error, `Choose another with ${flag}, or 0 for a free one.`)
  if (code === 'EACCES' || code === 'EPERM')
    return unserved(own, error, `Choose a port above 1023 with ${flag}.`)
  // Of a name that cannot be resolved Bun gives whatever code came last, as of a file that is not there.
  const isListen = error instanceof Error && 'syscall' in error && error.syscall === 'listen'
  const isNoAddress = isListen || code === 'ENOTFOUND' || code === 'EADDRNOTAVAIL'
  if (!isNoAddress || code === 'EMFILE' || code === 'ENFILE') return error
  return new SvcError('internal', `${host} is not an address of this machine`, {
    hint: 'Choose another with --host: 127.0.0.1 for this machine alone, 0.0.0.0 for everybody.',
    cause: error,
  })
}
