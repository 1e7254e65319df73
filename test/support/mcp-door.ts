/** The MCP server over HTTP on a socket, with a gateway in memory or one of the test. */
import type { Gateway } from '../../src/gateway/gateway-api.ts'
import { createMcpHttp, type McpHttpOptions } from '../../src/mcp/http.ts'
import { tools } from '../../src/operations/tools.ts'
import { silentLog } from '../../src/platform/log.ts'
import { serve } from '../../src/platform/serve.ts'
import { MemoryGateway } from './memory-gateway.ts'

/** Context that all connections share. */
export const sharedOver = <Over extends Gateway>(gateway: Over) => ({
  gateway,
  tools,
  log: silentLog,
  version: '1.2.3',
  confirmSend: false,
  structured: true,
  changes: { subscribe: () => () => {}, followed: async () => {} },
})

type DoorOptions<Over extends Gateway> = Partial<Omit<McpHttpOptions, 'config'>> & {
  gateway?: Over
  config?: Partial<McpHttpOptions['config']>
}

export async function startDoor<Over extends Gateway = MemoryGateway>(options: DoorOptions<Over> = {}) {
  const gateway = options.gateway ?? (new MemoryGateway() as unknown as Over)
  const transport = options.transport ?? 'http'
  const config = { host: '127.0.0.1', allowHosts: [], ...options.config }
  const door = createMcpHttp({ ...sharedOver(gateway), ...options, gateway, transport, config })
  const server = await serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: (request, peer) => door.fetch(request, peer),
  })
  return {
    gateway,
    door,
    server,
    url: `${server.url}/${transport === 'sse' ? 'sse' : 'mcp'}`,
    async [Symbol.asyncDispose]() {
      await door.close(0)
      await server.stop(0)
    },
  }
}
