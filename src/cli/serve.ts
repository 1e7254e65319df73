/** The commands that serve over HTTP: open, bind, say where, wait for the signal, stop cleanly. */
import { type Config, notifySocket } from '../config.ts'
import { claimDirectory } from '../gateway/directory.ts'
import type { RunningGateway } from '../gateway/gateway.ts'
import { svcCommand } from '../inspect/advised-commands.ts'
import { shellWord } from '../platform/format.ts'
import { createLog, type Log } from '../platform/log.ts'
import { notifyManager } from '../platform/notify.ts'
import { reachable } from '../platform/serve.ts'
import { createOpenApiApp } from '../server/openapi.ts'
import { tools } from '../tools/index.ts'
import { version } from '../version.ts'
import { banner } from './print.ts'
import { isMcpPath, lazyMcpDoor } from './serve-mcp.ts'
import {
  graceMs,
  listenError,
  listenMain,
  type Opened,
  runService,
  sandboxOptions,
  sandboxRoom,
  stopSignal,
} from './serving.ts'
import { type Io, NobodyReads, oneLine } from './terminal.ts'

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
export const serveOpenApi = (
  given: Config,
  io: Io,
  beside?: (serving: Serving) => Promise<void>,
): Promise<void> =>
  runService(given, io, async opened => {
    const { config, gateway, log } = opened
    const app = createOpenApiApp({ gateway, config, tools, log, version })
    const mcp = lazyMcpDoor(opened)
    const server = await listenMain(opened, (request, peer) =>
      isMcpPath(request.url) ? mcp.fetch(request, peer) : app.fetch(request, peer),
    )
    const { url } = server
    const over = new AbortController()
    const doors =
      config.socket === undefined
        ? [`docs on ${url}/docs`, `mcp on ${url}/mcp`]
        : [`call it as in: curl --unix-socket ${shellWord(config.socket)} http://localhost/tools`]
    return {
      lines: [`listening on ${url}`, ...doors],
      ...(config.socket === undefined && { links: { rest_url: config.publicUrl ?? reachable(url) } }),
      async running(phoneUrl) {
        await notifyManager(notifySocket(io.env), 'READY=1', `STATUS=svc ${version}, listening on ${url}`)
        if (!beside) return sayWhatIsNext(opened)
        beside({ gateway, config, log, url, phoneUrl, stopping: over.signal }).catch(error => {
          // The service goes on, even if nobody reads its output.
          if (!over.signal.aborted && !(error instanceof NobodyReads))
            log.error('quick start ended', { error })
        })
      },
      async stop() {
        await notifyManager(notifySocket(io.env), 'STOPPING=1')
        over.abort()
        // First the waits end with their normal empty answers, then what is written gets out, then the files close.
        app.beginShutdown()
        await Promise.all([mcp.close(graceMs), server.stop(graceMs)])
      },
    }
  })

/** What to do where no account works. */
async function sayWhatIsNext({ config, gateway, io, sandbox }: Opened): Promise<void> {
  const sessions = await gateway.accounts.list()
  const [first] = sessions
  if (!first) {
    io.out.print(
      `no session yet: call the tool login, then scan its QR code ${sandbox ? 'on that phone' : 'in WeChat'}`,
    )
  } else if (sessions.every(({ status }) => status !== 'connected')) {
    const again = svcCommand(`login ${shellWord(first.name)}`, config.basePath, config.sandbox)
    io.out.print(`no session works: ${oneLine(first.name)} is ${first.status}; log in again with: ${again}`)
  }
}

/** `svc sandbox`: the simulated WeChat alone, for several processes. */
export async function serveSandbox(config: Config, io: Io): Promise<void> {
  const log = createLog(config.logLevel, io.log, config.logFormat)
  const stopping = stopSignal(io)
  await using stack = new AsyncDisposableStack()
  await claimDirectory({ basePath: config.basePath, sandbox: true })
  const { startSandbox } = await sandboxRoom()
  const sandbox = await startSandbox(sandboxOptions(config, log, config.host)).catch(error => {
    throw listenError(error, '--sandbox-port', config.sandboxPort, config.host)
  })
  stack.defer(() => sandbox.stop())
  if (config.banner) io.out.print(banner(version))
  io.out.print(`phone on ${sandbox.url}/phone`)
  io.out.print(`use it with: svc openapi --sandbox -d ${config.basePath}`)
  log.info('stopping', { signal: await stopping })
}
