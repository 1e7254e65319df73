/**
 * Load from a process of its own: `load.ts <url> <path> <json body> <connections> <seconds>` over plain sockets, one
 * request at a time on each connection. Ends with a line `{requests, seconds}`. Sockets, because a `fetch` client
 * costs several times what the servers measured here cost.
 */
import process from 'node:process'

const [url = '', path = '/', body = '{}', connections = '32', seconds = '3'] = process.argv.slice(2)
const { hostname, port, host } = new URL(url)
const request = Buffer.from(
  `POST ${path} HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
)
let requests = 0
let running = true
let failure: string | undefined

async function connect(): Promise<void> {
  const closed = Promise.withResolvers<void>()
  let seen = ''
  await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      open: socket => void socket.write(request),
      data(socket, chunk) {
        seen += chunk.toString('latin1')
        const head = seen.indexOf('\r\n\r\n')
        if (head < 0) return
        const length = Number(/content-length: (\d+)/i.exec(seen)?.[1] ?? Number.NaN)
        if (!seen.startsWith('HTTP/1.1 200') || Number.isNaN(length)) {
          failure = seen.slice(0, 500)
          socket.end()
          return
        }
        if (seen.length < head + 4 + length) return
        seen = seen.slice(head + 4 + length)
        requests++
        if (running) socket.write(request)
        else socket.end()
      },
      close: () => closed.resolve(),
      error: () => closed.resolve(),
    },
  })
  await closed.promise
}

console.log('ready')
const from = performance.now()
const all = Array.from({ length: Number(connections) }, connect)
await Bun.sleep(Number(seconds) * 1000)
const took = (performance.now() - from) / 1000
const counted = requests
running = false
await Promise.all(all)
if (failure !== undefined) throw new Error(`not answered with 200: ${failure}`)
console.log(JSON.stringify({ requests: counted, seconds: took }))
