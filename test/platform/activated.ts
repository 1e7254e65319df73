/** A server that answers with the address of its caller; it is started with the socket of its port, and stops when stdin ends. */
import process from 'node:process'
import { followCertificate } from '../../src/platform/certificate.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { serve } from '../../src/platform/serve.ts'
import { Tasks } from '../../src/platform/tasks.ts'

const [port = '', cert, key] = process.argv.slice(2)
const certificate =
  cert && key ? await followCertificate({ cert, key }, silentLog, new Tasks(systemClock), 20) : undefined
const server = await serve({
  hostname: '127.0.0.1',
  port: Number(port),
  ...(certificate && { certificate }),
  fetch: (_, peer) => new Response(peer.remoteAddress ?? 'unknown'),
})
console.log(server.url)
await Bun.stdin.text()
await server.stop(1000)
process.exit(0)
