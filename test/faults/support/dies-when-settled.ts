/**
 * A door that is gone the moment it counts an answer as written: REST over TCP or a socket, or MCP without a session or in one;
 * `now` or `later`: when the message comes.
 */
import { createMcpHttp } from '../../../src/mcp/http.ts'
import { tools } from '../../../src/operations/tools.ts'
import { silentLog } from '../../../src/platform/log.ts'
import { serve } from '../../../src/platform/serve.ts'
import { createOpenApiApp } from '../../../src/server/openapi.ts'
import { MemoryGateway } from '../../support/memory-gateway.ts'

const [, , kind, when, size, socket] = process.argv
const gateway = new MemoryGateway()
gateway.settled.push = () => {
  process.kill(process.pid, 'SIGKILL')
  return 0
}
const common = { gateway, tools, log: silentLog, version: '1.2.3' }
const config = { host: '127.0.0.1', allowHosts: [], maxUploadBytes: 2 ** 31 }
const door =
  kind === 'mcp'
    ? createMcpHttp({
        ...common,
        config,
        transport: 'http',
        confirmSend: false,
        structured: true,
        changes: { subscribe: () => () => {} },
      })
    : createOpenApiApp({ ...common, config })
const { url } = await serve({
  hostname: '127.0.0.1',
  port: 0,
  socket: kind === 'socket' ? socket : undefined,
  fetch: (request, peer) => door.fetch(request, peer),
})
const text = 'x'.repeat(Number(size))
if (when === 'now') gateway.say(text)
else void gateway.nextCall.then(() => setTimeout(() => gateway.say(text), 50))
console.log(`listening on ${url}`)
