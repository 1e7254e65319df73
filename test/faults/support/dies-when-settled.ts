/**
 * A door that is gone the moment it counts an answer as written: REST over TCP or a socket, or MCP without a session or in one;
 * `now` or `later`: when the message comes.
 */
import { createMcpHttp } from '../../../src/mcp/http.ts'
import { serve } from '../../../src/platform/serve.ts'
import { createOpenApiApp } from '../../../src/server/openapi.ts'
import { sharedOver } from '../../support/mcp-door.ts'
import { MemoryGateway } from '../../support/memory-gateway.ts'

const [, , kind, when, size, socket] = process.argv
const gateway = new MemoryGateway()
const die = () => {
  process.kill(process.pid, 'SIGKILL')
  return 0
}
// Over MCP, a written answer waits for a sign of life.
gateway.handedOut.push = die
gateway.settled.push = die
const config = { host: '127.0.0.1', allowHosts: [], maxUploadBytes: 2 ** 31 }
const shared = sharedOver(gateway)
const door =
  kind === 'mcp'
    ? createMcpHttp({ ...shared, config, transport: 'http' })
    : createOpenApiApp({ ...shared, config })
const { url } = await serve({
  hostname: '127.0.0.1',
  port: 0,
  socket: kind === 'socket' ? socket : undefined,
  fetch: (request, peer) => door.fetch(request, peer),
})
const text = 'x'.repeat(Number(size))
if (when === 'now') gateway.say(text)
else void gateway.nextCall.then(() => setImmediate(() => gateway.say(text)))
console.log(`listening on ${url}`)
