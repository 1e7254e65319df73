/** Binds the addresses of a service, says in one line why one cannot be bound, and notes in the data directory where it listens. */
import { lookup } from 'node:dns/promises'
import { resolve } from 'node:path'
import process from 'node:process'
import { localFiles } from '../config/local-files.ts'
import type { Config } from '../config.ts'
import type { RunningGateway } from '../gateway/gateway.ts'
import { addressIn, type NotedAddress, notedAddresses } from '../inspect/healthz.ts'
import { SvcError } from '../model/error.ts'
import { errorCodeOf, fileExists, removeQuietly, writeWhole } from '../platform/files.ts'
import { type RunningServer, reachable, type ServeOptions, serve } from '../platform/serve.ts'
import { reasonOf } from '../platform/system-error.ts'
import { isLoopback } from '../server/auth.ts'
import { behindProxy } from '../server/behind-proxy.ts'

/**
 * The server of the service itself, on its socket, else on its port; noted in the data directory for those who look for
 * it, until `stack` ends.
 */
export async function listenMain(
  { config, gateway, stack }: { config: Config; gateway: RunningGateway; stack: AsyncDisposableStack },
  fetch: ServeOptions['fetch'],
): Promise<RunningServer> {
  const server = await listenWhere(config, fetch).catch(async error => {
    throw (await runsAlready(config, error)) ?? error
  })
  stack.defer(() => server.stop(0))
  const url = config.socket === undefined ? reachable(server.url) : `unix:${resolve(config.socket)}`
  const isOpen = config.socket === undefined && !isLoopback(config.host)
  await noteAddress(config.basePath, { url, ...(isOpen && { open: true }) })
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
export async function notePanel(dir: string, panel: string): Promise<void> {
  const own = (await notedAddresses(dir)).find(({ pid }) => pid === process.pid)
  if (own) await noteAddress(dir, { ...own, panel })
}

async function listenWhere(config: Config, fetch: ServeOptions['fetch']): Promise<RunningServer> {
  const { socket, host, port } = config
  if (socket === undefined) return listen(config, '--port', port, fetch)
  if (process.platform === 'win32') {
    throw new SvcError('internal', `${socket} cannot be served on Windows`, {
      field: '--socket',
      hint: 'Use --host and --port there, with --token.',
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
export const listen = (config: Config, flag: string, port: number, fetch: ServeOptions['fetch']) =>
  serve({ hostname: config.host, port, fetch: behindProxy(config, fetch) }).catch(
    async (error): Promise<never> => {
      throw await listenError(error, flag, port, config.host)
    },
  )

/** A failed bind as one clear line; anything else as it is. */
export async function listenError(
  error: unknown,
  flag: string,
  port: number,
  host: string,
): Promise<unknown> {
  const given = errorCodeOf(error) ?? ''
  if (['', 'EMFILE', 'ENFILE'].includes(given)) return error
  // For a name that cannot be resolved Bun gives the code of whatever failed last, such as a port in use.
  const code = await lookup(host).then(
    () => given,
    () => 'ENOTFOUND',
  )
  const own = `port ${port} on ${host}`
  if (code === 'EADDRINUSE') return unserved(own, error, `Choose another with ${flag}, or 0 for a free one.`)
  if (code === 'EACCES' || code === 'EPERM')
    return unserved(own, error, `Choose a port above 1023 with ${flag}.`)
  const isListen = error instanceof Error && 'syscall' in error && error.syscall === 'listen'
  const isNoAddress = isListen || code === 'ENOTFOUND' || code === 'EADDRNOTAVAIL'
  if (!isNoAddress) return error
  return new SvcError('internal', `${host} is not an address of this machine`, {
    hint: 'Choose another with --host: 127.0.0.1 for this machine alone, 0.0.0.0 for everybody.',
    cause: error,
  })
}

/** Listens for a moment where the service will: a start that cannot do that is to leave nothing behind in the directory. */
export async function tryAddresses(config: Config, isPhoneFree: boolean): Promise<void> {
  const { adminPort, basePath, host, metricsPort, port, sandbox, sandboxHost, sandboxPort, socket } = config
  const addresses: [host: string, flag: string, port: number | undefined][] = [
    [host, '--port', socket === undefined ? port : 0],
    [host, '--admin-port', adminPort],
    [host, '--metrics-port', metricsPort],
  ]
  // Where there is a sandbox already, another process may run it.
  if (sandbox && !isPhoneFree && !(await fileExists(localFiles(basePath).sandbox)))
    addresses.push([sandboxHost, '--sandbox-port', sandboxPort])
  for (const [hostname, flag, port] of addresses)
    await tryAddress(hostname, flag, port).catch(async error => {
      throw (flag === '--port' && (await runsAlready(config, error))) || error
    })
}

/** @throws SvcError when nothing can listen there */
export async function tryAddress(hostname: string, flag: string, port: number | undefined): Promise<void> {
  if (port === undefined) return
  const starting = () => new Response('svc is starting\n', { status: 503 })
  const server = await serve({ hostname, port, fetch: starting }).catch(async (error): Promise<never> => {
    throw await listenError(error, flag, port, hostname)
  })
  await server.stop(0)
}
