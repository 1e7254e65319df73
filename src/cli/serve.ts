/** The commands that serve: open, bind, say where, wait for the signal, stop cleanly. */

import { join } from 'node:path'
import type { Config } from '../config.ts'
import { claimDirectory, claimMediaRoot } from '../gateway/directory.ts'
import { openGateway } from '../gateway/gateway.ts'
import { SvcError } from '../model/error.ts'
import { systemClock } from '../platform/clock.ts'
import { createLog, type Log } from '../platform/log.ts'
import { onStopSignals, raiseFetchLimit, spareLoopbackTheProxy } from '../platform/process.ts'
import { type RunningServer, serve } from '../platform/serve.ts'
import { type EnsuredToken, ensureToken, isLoopback } from '../server/auth.ts'
import { createOpenApiApp } from '../server/openapi.ts'
import { tools } from '../tools/index.ts'
import { version } from '../version.ts'
import { banner, print } from './print.ts'

/** Answers under way may take this long after a stop signal; the whole stop stays under 5 s. */
const graceMs = 3000
/** Each session holds one fetch, and Bun allows 256: from here on the limit is worth a new start of the process. */
const manySessions = 100

/** `svc openapi`: the nine tools over REST until SIGINT or SIGTERM. */
export async function serveOpenApi(config: Config): Promise<void> {
  if (config.adminPort !== undefined) {
    throw new SvcError('invalid_arguments', '--admin-port: this version has no admin panel yet', {
      hint: 'Leave the option out; sessions are managed with the tools login, logout, rename_session and set_default.',
    })
  }
  const log = createLog(config.logLevel)
  spareLoopbackTheProxy()
  const { sessions } = await claimDirectory(config)
  await claimMediaRoot(config)
  if (sessions >= manySessions) raiseFetchLimit()
  const stopping = stopSignal()
  await using stack = new AsyncDisposableStack()
  const sandbox = config.sandbox ? await openSandboxFor(config, log, stack) : undefined
  const generated =
    config.token === undefined && !isLoopback(config.host) ? await ensureToken(config.basePath) : undefined
  const token = config.token ?? generated?.token
  const gateway = stack.use(
    await openGateway({ config, log, version, ...(sandbox && { sandboxUrl: sandbox.url }) }),
  )
  const app = createOpenApiApp({
    gateway,
    config: token === undefined ? config : { ...config, token },
    tools,
    log,
    version,
  })
  const server = await listen(config, '--port', config.port, request => app.fetch(request))
  stack.defer(() => server.stop(0))
  await gateway.start()

  if (config.banner) print(banner(version))
  print(`listening on ${server.url}`)
  print(`docs on ${server.url}/docs`)
  if (sandbox) print(`phone on ${reachable(sandbox.url)}/phone`)
  if (generated) print(tokenLine(generated))
  if ((await gateway.accounts.list()).length === 0) {
    print(
      `no session yet: call the tool login, then scan its QR code ${sandbox ? 'on that phone' : 'in WeChat'}`,
    )
  }

  log.info('stopping', { signal: await stopping })
  // First the waits end with their normal empty answers, then what is written gets out, then the files close.
  app.beginShutdown()
  await server.stop(graceMs)
}

/** `svc sandbox`: the pretend WeChat alone, for several processes. */
export async function serveSandbox(config: Config): Promise<void> {
  const log = createLog(config.logLevel)
  const stopping = stopSignal()
  await using stack = new AsyncDisposableStack()
  await claimDirectory({ ...config, sandbox: true })
  const { startSandbox } = await sandboxRoom()
  const sandbox = await startSandbox(sandboxOptions(config, log, config.host)).catch(error => {
    throw listenError(error, '--sandbox-port', config.sandboxPort, config.host)
  })
  stack.defer(() => sandbox.stop())
  if (config.banner) print(banner(version))
  print(`phone on ${reachable(sandbox.url)}/phone`)
  print(`use it with: svc openapi --sandbox -d ${config.basePath}`)
  log.info('stopping', { signal: await stopping })
}

/** Loaded on use: whoever talks to the real WeChat starts without it. */
const sandboxRoom = () => import('../sandbox/sandbox.ts')

const stopSignal = () => new Promise<string>(resolve => onStopSignals(resolve))

/** The phone has no token: beside a service that others may reach, it stays on this machine. */
const phoneHost = '127.0.0.1'

const sandboxOptions = (config: Config, log: Log, host: string) => ({
  dir: join(config.basePath, 'sandbox'),
  host,
  port: config.sandboxPort,
  clock: systemClock,
  log: log.child('sandbox'),
})

/** Starts the sandbox of this directory, or joins the one that another process runs for it. */
async function openSandboxFor(
  config: Config,
  log: Log,
  stack: AsyncDisposableStack,
): Promise<{ url: string }> {
  const { joinSandbox, startSandbox } = await sandboxRoom()
  const running = await joinSandbox(join(config.basePath, 'sandbox'))
  if (running) {
    log.info('using the sandbox of another process', { url: running.url })
    return running
  }
  const sandbox = await startSandbox(sandboxOptions(config, log, phoneHost)).catch(error => {
    throw listenError(error, '--sandbox-port', config.sandboxPort, phoneHost)
  })
  stack.defer(() => sandbox.stop())
  return sandbox
}

/** A generated token is shown the one time it is made; later only where it is. */
const tokenLine = ({ token, created, path }: EnsuredToken) =>
  created ? `token ${token} (kept in ${path}; shown this once)` : `token as kept in ${path}`

/** The address as this machine's browser can open it: the phone answers loopback names alone. */
const reachable = (url: string) => url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')

async function listen(
  config: Config,
  flag: string,
  port: number,
  fetch: (request: Request) => Response | Promise<Response>,
): Promise<RunningServer> {
  try {
    return await serve({ hostname: config.host, port, fetch })
  } catch (error) {
    throw listenError(error, flag, port, config.host)
  }
}

/** A failed bind as one clear line; anything else as it is. */
function listenError(error: unknown, flag: string, port: number, host: string): unknown {
  const { code } = error as { code?: string }
  if (code === 'EADDRINUSE') {
    return new SvcError('internal', `port ${port} on ${host} is in use`, {
      hint: `Choose another with ${flag}, or 0 for a free one.`,
      cause: error,
    })
  }
  if (code === 'EACCES' || code === 'EPERM') {
    return new SvcError('internal', `this user has no right to port ${port} on ${host}`, {
      hint: `Choose a port above 1023 with ${flag}.`,
      cause: error,
    })
  }
  // Bun says EINVAL of a name that cannot be resolved.
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EINVAL') {
    return new SvcError('internal', `${host} is not an address of this machine`, {
      hint: 'Choose another with --host: 127.0.0.1 for this machine alone, 0.0.0.0 for everybody.',
      cause: error,
    })
  }
  return error
}
