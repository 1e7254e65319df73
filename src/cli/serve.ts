/** The commands that serve over HTTP: open, bind, say where, wait for the signal, stop cleanly. */
import { type Config, notifySocket } from '../config.ts'
import { claimDirectory } from '../gateway/directory.ts'
import type { RunningGateway } from '../gateway/gateway.ts'
import { svcCommand } from '../inspect/advised-commands.ts'
import type { Session } from '../model/session.ts'
import { createLog, type Log } from '../platform/log.ts'
import { notifyManager } from '../platform/notify.ts'
import { reachable } from '../platform/serve.ts'
import { shellWord } from '../platform/shell.ts'
import { createOpenApiApp } from '../server/openapi.ts'
import { tools } from '../tools/index.ts'
import { version } from '../version.ts'
import { isMcpPath, lazyMcpDoor } from './mcp-door.ts'
import { openPanel } from './panel.ts'
import { banner, print } from './print.ts'
import {
  announce,
  graceMs,
  linksOf,
  listenError,
  listenMain,
  openMetrics,
  openService,
  sandboxOptions,
  sandboxRoom,
  stopSignal,
} from './serving.ts'
import { NobodyReads } from './terminal.ts'
import { oneLine } from './text.ts'

/** A service that listens, for what goes on beside it. */
export interface Serving {
  readonly gateway: RunningGateway
  /** With the token that callers must send, if they must. */
  readonly config: Config
  readonly log: Log
  readonly url: string
  readonly phoneUrl: string | undefined
  /** Aborts when the service stops. */
  readonly stopping: AbortSignal
}

/**
 * `svc openapi`: the nine tools over REST, and over MCP beside it, until SIGINT or SIGTERM.
 *
 * @param beside runs once it listens, and tells what comes next itself
 */
export async function serveOpenApi(
  given: Config,
  beside?: (serving: Serving) => Promise<void>,
): Promise<void> {
  const log = createLog(given.logLevel, undefined, given.logFormat)
  const stopping = stopSignal()
  await using stack = new AsyncDisposableStack()
  const opened = await openService(given, log, stack)
  const { config, gateway, sandbox } = opened
  const app = createOpenApiApp({ gateway, config, tools, log, version })
  const mcp = lazyMcpDoor({ gateway, config, log })
  const server = await listenMain(config, stack, (request, peer) =>
    isMcpPath(request.url) ? mcp.fetch(request, peer) : app.fetch(request, peer),
  )
  if (config.socket === undefined) gateway.listensAt(reachable(server.url))
  const links = {
    ...(config.socket === undefined && { rest_url: reachable(server.url) }),
    ...linksOf(sandbox),
  }
  const phoneUrl = links.sandbox_phone
  const panel = await openPanel({ config, gateway, log, stack, links })
  const metrics = await openMetrics(opened, log, stack)
  await gateway.start()

  const { url } = server
  const doors =
    config.socket === undefined
      ? [`docs on ${url}/docs`, `mcp on ${url}/mcp`]
      : [`call it as in: curl --unix-socket ${shellWord(config.socket)} http://localhost/tools`]
  announce(opened, [`listening on ${url}`, ...doors, ...metrics], panel)
  await notifyManager(notifySocket(), 'READY=1', `STATUS=svc ${version}, listening on ${server.url}`)
  const over = new AbortController()
  const meanwhile = beside?.({ gateway, config, log, url: server.url, phoneUrl, stopping: over.signal })
  meanwhile?.catch(error => {
    // The service goes on, even if nobody reads its output.
    if (!over.signal.aborted && !(error instanceof NobodyReads)) log.error('quick start ended', { error })
  })
  const sessions = await gateway.accounts.list()
  if (!beside && sessions.length === 0) {
    print(
      `no session yet: call the tool login, then scan its QR code ${sandbox ? 'on that phone' : 'in WeChat'}`,
    )
  } else if (!beside && sessions.every(({ status }) => status !== 'connected')) {
    const [{ name, status }] = sessions as [Session]
    const again = svcCommand(`login ${shellWord(name)}`, config.basePath, config.sandbox)
    print(`no session works: ${oneLine(name)} is ${status}; log in again with: ${again}`)
  }

  log.info('stopping', { signal: await stopping })
  await notifyManager(notifySocket(), 'STOPPING=1')
  over.abort()
  // First the waits end with their normal empty answers, then what is written gets out, then the files close.
  app.beginShutdown()
  await Promise.all([mcp.close(graceMs), server.stop(graceMs), panel?.stop()])
}

/** `svc sandbox`: the simulated WeChat alone, for several processes. */
export async function serveSandbox(config: Config): Promise<void> {
  const log = createLog(config.logLevel, undefined, config.logFormat)
  const stopping = stopSignal()
  await using stack = new AsyncDisposableStack()
  await claimDirectory({ ...config, sandbox: true })
  const { startSandbox } = await sandboxRoom()
  const sandbox = await startSandbox(sandboxOptions(config, log, config.host)).catch(error => {
    throw listenError(error, '--sandbox-port', config.sandboxPort, config.host)
  })
  stack.defer(() => sandbox.stop())
  if (config.banner) print(banner(version))
  print(`phone on ${sandbox.url}/phone`)
  print(`use it with: svc openapi --sandbox -d ${config.basePath}`)
  log.info('stopping', { signal: await stopping })
}
