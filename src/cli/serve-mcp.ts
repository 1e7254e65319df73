/** `svc mcp`: the nine tools for agents, over standard input and output or over HTTP. */

import type { Config } from '../config.ts'
import { workingFolders } from '../media/own-files.ts'
import { keepStdoutClean } from '../platform/console.ts'
import { isSidePath, lazyMcpDoor, lazySideDoor, mcpShared } from './mcp-door.ts'
import { print } from './print.ts'
import { runService } from './run-service.ts'
import { graceMs, listenMain, type Opened } from './serving.ts'

/**
 * Serves until SIGINT or SIGTERM; over stdio also until the client is gone.
 *
 * @param isPhoneFree nobody chose the port of the simulated phone: over stdio another will do where it is taken
 */
export async function serveMcp(config: Config, { isPhoneFree = false } = {}): Promise<void> {
  if (config.transport === 'stdio') await serveOverStdio(config, isPhoneFree)
  else await serveOverHttp(config, config.transport)
}

async function serveOverStdio(config: Config, isPhoneFree: boolean): Promise<void> {
  // All that is printed goes to stderr here.
  keepStdoutClean()
  const listens = config.adminPort !== undefined || config.metricsPort !== undefined
  const open = async (opened: Opened) => {
    const { serveMcpStdio } = await import('../mcp/stdio.ts')
    const local = config.anyFile || (await workingFolders(opened.config.basePath))
    const server = serveMcpStdio({ ...(await mcpShared(opened)), local })
    opened.stack.defer(() => server.close())
    return {
      lines: [],
      running: () => print('serving MCP on standard input and output'),
      ended: server.ended.then(() => 'the client is gone'),
      stop: () => server.close(),
    }
  }
  await runService({ ...config, banner: false }, open, { listens, isPhoneFree })
}

const serveOverHttp = (given: Config, transport: 'http' | 'sse'): Promise<void> =>
  runService(given, async opened => {
    const { config } = opened
    const mcp = lazyMcpDoor({ ...opened, transport })
    const side = lazySideDoor(opened)
    const server = await listenMain(opened, (request, peer) =>
      isSidePath(request.url) ? side.fetch(request, peer) : mcp.fetch(request, peer),
    )
    const path = transport === 'sse' ? '/sse' : '/mcp'
    const where = config.socket === undefined ? path : ` at http://localhost${path}`
    return {
      lines: [`listening on ${server.url}${where}`],
      stop() {
        side.beginShutdown()
        return Promise.all([mcp.close(graceMs), server.stop(graceMs)])
      },
    }
  })
