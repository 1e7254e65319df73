/**
 * Binds the addresses of a service, explains in one line why one cannot be bound, and notes in the data
 * directory where the service listens.
 */
import { lookup } from 'node:dns/promises'
import { resolve } from 'node:path'
import process from 'node:process'
import { localFilesOf } from '../config/local-files.ts'
import { listNotes, type NotedAddress } from '../config/notes.ts'
import { type Config, portsOf } from '../config.ts'
import type { RunningGateway } from '../gateway/gateway.ts'
import { findConfigured } from '../inspect/healthz.ts'
import { badArgument, SvcError } from '../model/error.ts'
import type { Certificate, CertificateFiles, LiveCertificate } from '../platform/certificate.ts'
import { errorCodeOf, fileExists, removeQuietly, replaceFile } from '../platform/files.ts'
import type { Log } from '../platform/log.ts'
import {
  isLoopback,
  type RunningServer,
  type ServeOptions,
  serve,
  toReachableUrl,
} from '../platform/serve.ts'
import { findActivatedSocket } from '../platform/socket-activation.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { Repetition, Tasks } from '../platform/tasks.ts'
import { lacksTrustedProxy, withoutPrefix } from '../server/behind-proxy.ts'
import { withStrictTransport } from '../server/strict-transport.ts'

/**
 * Starts the server of the service itself, on its socket or else its port. The data directory holds its
 * address, for other commands, until `stack` is disposed.
 *
 * @throws SvcError if the address cannot be used, with the process that has it if that is svc on this
 *   directory
 */
export async function listenMain(
  opened: ListenOptions & { gateway: RunningGateway; stack: AsyncDisposableStack },
  fetch: ServeOptions['fetch'],
): Promise<RunningServer> {
  const { config, gateway, stack } = opened
  const server = await listenConfigured(opened, fetch).catch(async error => {
    throw (await findRunningError(config, error)) ?? error
  })
  stack.defer(() => server.stop(0))
  const url = config.socket === undefined ? toReachableUrl(server.url) : `unix:${resolve(config.socket)}`
  const isOpen = config.socket === undefined && !isLoopback(config.host)
  const certificate = config.socket === undefined ? opened.certificate : undefined
  await noteAddress(config.basePath, {
    url,
    ...(config.publicUrl !== undefined && { public_url: config.publicUrl }),
    ...(isOpen && { open: true }),
    ...(lacksTrustedProxy(config) && { untrusted_proxy: true }),
    ...(certificate && { certificate: toNoted(certificate.current) }),
  })
  certificate?.onReplace(next => noteMore(config.basePath, { certificate: toNoted(next) }))
  stack.defer(() => noteAddress(config.basePath))
  if (config.socket === undefined) gateway.listensAt(url, config.token)
  return server
}

/** What every server of a command needs to listen. */
export interface ListenOptions {
  readonly config: Config
  /** Serves https with it, except on a socket. */
  readonly certificate?: LiveCertificate | undefined
}

/**
 * Returns the files of --tls-cert and --tls-key; undefined without these options.
 *
 * @throws SvcError `invalid_arguments` for one option without the other
 */
export function certificateFilesOf({ tlsCert, tlsKey }: Config): CertificateFiles | undefined {
  if (tlsCert !== undefined && tlsKey !== undefined) return { cert: tlsCert, key: tlsKey }
  if (tlsCert === undefined && tlsKey === undefined) return undefined
  const [given, missing] = tlsKey === undefined ? ['cert', 'key'] : ['key', 'cert']
  throw badArgument(`--tls-${given}`, `expected together with --tls-${missing}`, {
    hint: 'https needs both: the certificate chain, and its private key.',
  })
}

const toNoted = ({ fingerprint, expiresAt }: Certificate) => ({ fingerprint, expires_at: expiresAt })

/** Returns an error if a service on this directory already has the address; else undefined. */
async function findRunningError(config: Config, error: unknown): Promise<SvcError | undefined> {
  const there = await findConfigured(
    config.socket === undefined ? config : { ...config, socket: resolve(config.socket) },
  )
  if (there.pid === undefined || !(error instanceof SvcError)) return undefined
  const panel = there.panel === undefined ? '' : `, its panel at ${there.panel}`
  return new SvcError(
    'internal',
    `svc already runs on ${config.basePath}: process ${there.pid} at ${there.url}${panel}`,
    {
      hint: `Use that one, stop it first, or choose another ${config.socket === undefined ? 'port with --port' : 'socket with --socket'}.`,
      cause: error,
    },
  )
}

/**
 * Notes in the data directory where this process listens. Addresses of other running services stay.
 *
 * @param own the address; undefined removes it
 */
export async function noteAddress(dir: string, own?: Omit<NotedAddress, 'pid'>): Promise<void> {
  const { pid } = process
  const path = localFilesOf(dir).address
  const noted = (await listNotes(dir)).filter(other => other.pid !== pid)
  if (own !== undefined) noted.push({ ...own, pid })
  const lines = noted.map(one => JSON.stringify(one))
  // A failed write does no harm: the service is then found by its port. No fsync: after a power cut
  // nobody listens.
  await (lines.length === 0 ? removeQuietly(path) : replaceFile(path, lines.join('\n')).catch(() => {}))
}

/**
 * Adds to the note of this process: its other doors, its new certificate, or its tasks that fail. A process that listens
 * to no calls has no other note.
 */
export async function noteMore(dir: string, more: Omit<Partial<NotedAddress>, 'pid' | 'url'>): Promise<void> {
  const own = (await listNotes(dir)).find(({ pid }) => pid === process.pid)
  if (own) await noteAddress(dir, { ...own, ...more })
  else if (more.panel || more.failing_tasks?.length) await noteAddress(dir, { url: '', ...more })
}

/** How often other processes get to know which tasks fail. */
const noteTasksMs = 10_000

/** Notes which tasks of this process fail, until the signal aborts. */
export function noteFailingTasks(dir: string, tasks: Tasks, log: Log, signal: AbortSignal): Repetition {
  let noted = '[]'
  const failure = 'other processes are not told which tasks fail'
  return tasks.repeat({ name: 'task_notes', everyMs: noteTasksMs, failure, log, signal }, async () => {
    const failing_tasks = tasks.listFailing()
    const text = JSON.stringify(failing_tasks)
    if (text === noted) return
    await noteMore(dir, { failing_tasks })
    noted = text
  })
}

async function listenConfigured(opened: ListenOptions, fetch: ServeOptions['fetch']): Promise<RunningServer> {
  const { config } = opened
  const { socket, host, port } = config
  if (socket === undefined) return listen(opened, '--port', port, fetch)
  if (process.platform === 'win32') {
    throw new SvcError('internal', `${socket} cannot be served on Windows`, {
      field: '--socket',
      hint: 'Use --host and --port there, with --token.',
    })
  }
  return serve({ hostname: host, port, socket, fetch: withoutPrefix(config, fetch) }).catch(error => {
    const hint = socketHints[errorCodeOf(error) ?? ''] ?? 'Choose a folder you may write to.'
    throw unservedError(socket, error, hint, '--socket')
  })
}

/**
 * Returns an error that says what cannot be served and why. An error without a system code is returned
 * unchanged.
 */
const unservedError = (what: string, error: unknown, hint: string, field?: string): unknown =>
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

/** Starts a server on this port. @throws SvcError with one clear line if the address cannot be used */
export function listen(
  { config, certificate }: ListenOptions,
  flag: string,
  port: number,
  fetch: ServeOptions['fetch'],
): Promise<RunningServer> {
  const plain = withoutPrefix(config, fetch)
  return serve({
    hostname: config.host,
    port,
    certificate,
    fetch: certificate ? withStrictTransport(plain) : plain,
  }).catch(async (error): Promise<never> => {
    throw await toListenError(error, flag, port, config.host)
  })
}

/** Converts a failed bind to an error of one clear line. Any other error is returned unchanged. */
export async function toListenError(
  error: unknown,
  flag: string,
  port: number,
  host: string,
): Promise<unknown> {
  const systemCode = errorCodeOf(error) ?? ''
  if (['', 'EMFILE', 'ENFILE'].includes(systemCode)) return error
  // For a name that cannot be resolved, Bun gives the code of an earlier failure, such as a port in use.
  const code = await lookup(host).then(
    () => systemCode,
    () => 'ENOTFOUND',
  )
  const own = `port ${port} on ${host}`
  if (code === 'EADDRINUSE')
    return unservedError(own, error, `Choose another with ${flag}, or 0 for a free one.`)
  if (code === 'EACCES' || code === 'EPERM')
    return unservedError(own, error, `Choose a port above 1023 with ${flag}.`)
  const isListen = error instanceof Error && 'syscall' in error && error.syscall === 'listen'
  const isNoAddress = isListen || code === 'ENOTFOUND' || code === 'EADDRNOTAVAIL'
  if (!isNoAddress) return error
  return new SvcError('internal', `${host} is not an address of this machine`, {
    hint: 'Choose another with --host: 127.0.0.1 for this machine alone, 0.0.0.0 for everybody.',
    cause: error,
  })
}

/**
 * Listens for a moment on every address of the service, before anything is made: a start that fails on an
 * address leaves nothing in the data directory.
 *
 * @throws SvcError if an address cannot be used
 */
export async function tryAddresses(config: Config, isPhoneFree: boolean): Promise<void> {
  const { basePath, host, sandbox, sandboxHost, sandboxPort } = config
  const ports = Object.entries(portsOf(config))
  const addresses = ports.map(([flag, port]): [string, string, number | undefined] => [host, flag, port])
  // Another process may already run an existing sandbox on that port.
  if (sandbox && !isPhoneFree && !(await fileExists(localFilesOf(basePath).sandbox)))
    addresses.push([sandboxHost, '--sandbox-port', sandboxPort])
  for (const [hostname, flag, port] of addresses)
    await tryAddress(hostname, flag, port).catch(async error => {
      throw (flag === '--port' && (await findRunningError(config, error))) || error
    })
}

/** Listens for a moment on this address. @throws SvcError if that fails */
export async function tryAddress(hostname: string, flag: string, port: number | undefined): Promise<void> {
  // Those whose connections wait in systemd's socket must not get this answer.
  if (port === undefined || (await findActivatedSocket(port))) return
  const starting = () => new Response('svc is starting\n', { status: 503 })
  const server = await serve({ hostname, port, fetch: starting }).catch(async (error): Promise<never> => {
    throw await toListenError(error, flag, port, hostname)
  })
  await server.stop(0)
}
