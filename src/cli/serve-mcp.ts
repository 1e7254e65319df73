/** `svc mcp`: the nine tools for agents, over standard input and output or over HTTP. */

import type { Config } from '../config.ts'
import { workingFolders } from '../media/own-files.ts'
import { keepStdoutClean } from '../platform/console.ts'
import { createLog } from '../platform/log.ts'
import { reachable } from '../platform/serve.ts'
import { isSidePath, lazyMcpDoor, lazySideDoor, mcpShared } from './mcp-door.ts'
import { openPanel } from './panel.ts'
import { print } from './print.ts'
import { announce, graceMs, linksOf, listenMain, openMetrics, openService, stopSignal } from './serving.ts'

/**
 * Serves until SIGINT or SIGTERM; over stdio also until the client is gone.
 *
 * @param isPhoneFree nobody chose the port of the simulated phone: over stdio another will do where it is taken
 */
export async function serveMcp(config: Config, { isPhoneFree = false } = {}): Promise<void> {
  if (config.transport === 'stdio') await serveOverStdio(config, isPhoneFree)
  else await serveOverHttp(config, config.transport)
}

async function serveOverStdio(given: Config, isPhoneFree: boolean): Promise<void> {
  keepStdoutClean()
  const log = createLog(given.logLevel, undefined, given.logFormat)
  const stopping = stopSignal()
  await using stack = new AsyncDisposableStack()
  const { serveMcpStdio } = await import('../mcp/stdio.ts')
  const listens = given.adminPort !== undefined || given.metricsPort !== undefined
  const opened = await openService(given, log, stack, { listens, isPhoneFree })
  const { config, gateway, sandbox } = opened
  const local = config.anyFile || (await workingFolders(config.basePath))
  const server = serveMcpStdio({ ...(await mcpShared({ gateway, config, log })), local })
  stack.defer(() => server.close())
  const panel = await openPanel({ config, gateway, log, stack, links: linksOf(sandbox) })
  const metrics = await openMetrics(opened, log, stack)
  await gateway.start()
  // All of it goes to stderr here.
  for (const line of metrics) print(line)
  panel?.announce()
  if (sandbox) print(`phone on ${sandbox.url}/phone`)
  print('serving MCP on standard input and output')
  const reason = await Promise.race([stopping, server.ended.then(() => 'the client is gone')])
  log.info('stopping', { reason })
  await Promise.all([server.close(), panel?.stop()])
}

async function serveOverHttp(given: Config, transport: 'http' | 'sse'): Promise<void> {
  const log = createLog(given.logLevel, undefined, given.logFormat)
  const stopping = stopSignal()
  await using stack = new AsyncDisposableStack()
  const opened = await openService(given, log, stack)
  const { config, gateway, sandbox } = opened
  const mcp = lazyMcpDoor({ gateway, config, log, transport })
  const side = lazySideDoor({ gateway, config, log })
  const server = await listenMain(config, stack, (request, peer) =>
    isSidePath(request.url) ? side.fetch(request, peer) : mcp.fetch(request, peer),
  )
  if (config.socket === undefined) gateway.listensAt(reachable(server.url))
  const panel = await openPanel({ config, gateway, log, stack, links: linksOf(sandbox) })
  const metrics = await openMetrics(opened, log, stack)
  await gateway.start()

  const path = transport === 'sse' ? '/sse' : '/mcp'
  const where = config.socket === undefined ? path : ` at http://localhost${path}`
  announce(opened, [`listening on ${server.url}${where}`, ...metrics], panel)

  log.info('stopping', { signal: await stopping })
  side.beginShutdown()
  await Promise.all([mcp.close(graceMs), server.stop(graceMs), panel?.stop()])
}
