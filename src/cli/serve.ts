/** Runs `svc openapi` and `svc sandbox`, which serve over HTTP until a signal. */
import { localFilesOf } from '../config/local-files.ts'
import { type Config, findNotifySocket } from '../config.ts'
import { claimDirectory } from '../gateway/directory.ts'
import type { RunningGateway } from '../gateway/gateway.ts'
import { fileExists } from '../platform/files.ts'
import { quoteForShell } from '../platform/format.ts'
import type { Log } from '../platform/log.ts'
import { notifyManager } from '../platform/notify.ts'
import { type RunningServer, toReachableUrl } from '../platform/serve.ts'
import { createRelay, isRelayPath, type RelayDoor } from '../relay/relay.ts'
import { createOpenApiApp } from '../server/openapi.ts'
import { version } from '../version.ts'
import type { Command } from './command.ts'
import { listen, listenMain, noteMore, toListenError, tryAddress } from './listening.ts'
import { createLinePrinter, formatBanner, type ServiceLine } from './print.ts'
import { createLazyMcpDoor, isMcpPath } from './serve-mcp.ts'
import {
  loadSandbox,
  type OpenedService,
  runService,
  sandboxOptionsOf,
  serverLog,
  stopGraceMs,
  waitForStop,
} from './serving.ts'
import { BrokenPipeError } from './terminal.ts'

/** A running service, for code that runs beside it, such as the quick start. */
export interface RunningService {
  readonly gateway: RunningGateway
  /** Configuration with the token that callers must send, if one is required. */
  readonly config: Config
  readonly log: Log
  readonly url: string
  readonly phoneUrl: string | undefined
  /** Aborts when the service stops. */
  readonly stopping: AbortSignal
}

/**
 * Runs `svc openapi`: serves the nine tools over REST and MCP until SIGINT or SIGTERM.
 *
 * @param beside runs once the service listens, and prints the next steps itself
 */
export const serveOpenApi = (
  requested: Config,
  command: Command,
  beside?: (serving: RunningService) => Promise<void>,
): Promise<void> =>
  runService(requested, command, async opened => {
    const { config, gateway, generated, io, log } = opened
    const app = createOpenApiApp({ gateway, config, log, version })
    const mcp = createLazyMcpDoor(opened)
    const relay = createRelay({
      ...opened,
      log: log.child('relay'),
      off: (request, peer) => app.fetch(request, peer),
    })
    const server = await listenMain(opened, (request, peer) =>
      isMcpPath(request.url)
        ? mcp.fetch(request, peer)
        : isRelayPath(request.url)
          ? relay.fetch(request, peer)
          : app.fetch(request, peer),
    )
    const relayServer = await listenForRelay(opened, relay)
    const { url } = server
    const over = new AbortController()
    const doors: ServiceLine[] =
      config.socket === undefined
        ? ['docs', 'mcp'].map(path => ({ text: `${path} on ${url}/${path}`, url: `${url}/${path}` }))
        : [
            {
              text: `call it as in: curl --unix-socket ${quoteForShell(config.socket)} http://localhost/tools`,
            },
          ]
    if (relayServer) doors.push({ text: `relay on ${relayServer.url}`, url: relayServer.url })
    return {
      lines: [{ text: `listening on ${url}`, url }, ...doors],
      pages: beside ? undefined : config.socket === undefined ? { docs: `${toReachableUrl(url)}/docs` } : {},
      ...(config.socket === undefined && { links: { rest_url: config.publicUrl ?? toReachableUrl(url) } }),
      async onRunning(phoneUrl) {
        await notifyManager(findNotifySocket(io.env), 'READY=1', `STATUS=svc ${version}, listening on ${url}`)
        if (!beside) return
        const token = config.token ?? generated?.token
        beside({ gateway, config: { ...config, token }, log, url, phoneUrl, stopping: over.signal }).catch(
          error => {
            // The service goes on, even if nobody reads its output.
            if (!over.signal.aborted && !(error instanceof BrokenPipeError))
              log.error('quick start ended', { error })
          },
        )
      },
      async drain() {
        server.drain()
        relayServer?.drain()
        app.drain()
        relay.drain()
        mcp.drain()
        await notifyManager(findNotifySocket(io.env), 'STOPPING=1')
      },
      async stop() {
        await notifyManager(findNotifySocket(io.env), 'STOPPING=1')
        over.abort()
        // First, waiting calls end with their normal empty answer. Then responses are sent. Then the files
        // close.
        app.beginShutdown()
        relay.beginShutdown()
        await Promise.all([mcp.close(stopGraceMs), server.stop(stopGraceMs), relayServer?.stop(stopGraceMs)])
      },
    }
  })

/** Serves only the relay on `--relay-port`, if that is set. */
async function listenForRelay(opened: OpenedService, relay: RelayDoor): Promise<RunningServer | undefined> {
  const { config, stack } = opened
  if (config.relayPort === undefined) return undefined
  const server = await listen(opened, '--relay-port', config.relayPort, (request, peer) =>
    isRelayPath(request.url) ? relay.fetch(request, peer) : new Response(null, { status: 404 }),
  )
  stack.defer(() => server.stop(0))
  await noteMore(config.basePath, { relay: toReachableUrl(server.url) })
  return server
}

/** Runs `svc sandbox`: only the simulated WeChat, for several processes. */
export async function serveSandbox(config: Config, command: Command): Promise<void> {
  const { io } = command
  const stopping = waitForStop(io)
  const log = await serverLog(config, command)
  await using stack = new AsyncDisposableStack()
  if (!(await fileExists(localFilesOf(config.basePath).sandbox)))
    await tryAddress(config.host, '--sandbox-port', config.sandboxPort)
  const isNew = await claimDirectory({ basePath: config.basePath, sandbox: true })
  const options = sandboxOptionsOf(config, log, config.host, io.clock)
  const sandbox = await (await loadSandbox()).startSandbox(options).catch(async error => {
    throw await toListenError(error, '--sandbox-port', config.sandboxPort, config.host)
  })
  stack.defer(() => sandbox.stop())
  if (isNew) log.info('a new data directory was made', { path: config.basePath })
  const printLine = createLinePrinter(io.out, config.logFormat)
  if (config.banner && config.logFormat === 'text') io.out.print(formatBanner(version))
  printLine({ text: `phone on ${sandbox.url}/phone`, url: `${sandbox.url}/phone` })
  printLine({ text: `use it with: svc openapi --sandbox -d ${config.basePath}` })
  log.info('stopping', { signal: await stopping })
}
