/**
 * Makes load from its own process: `load.ts <url> <path> <json body, or '' for a GET> <connections>
 * <seconds> [<token>]`. It uses plain sockets with one request at a time per connection; `%n` in the body is the number
 * of the connection. Ends with a line `{requests, seconds, p50, p99}`, the last two in ms. It uses sockets
 * because a `fetch` client costs several times as much as the measured servers.
 */
import process from 'node:process'

const [url = '', path = '/', body = '{}', connections = '32', seconds = '3', token] = process.argv.slice(2)
const { hostname, port, host } = new URL(url)
const authorization = token === undefined ? '' : `Authorization: Bearer ${token}\r\n`
const requestOf = (text: string) =>
  Buffer.from(
    text === ''
      ? `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${authorization}\r\n`
      : `POST ${path} HTTP/1.1\r\nHost: ${host}\r\n${authorization}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  )
const took: number[] = []
let requests = 0
let running = true
let failure: string | undefined

async function connect(nth: number): Promise<void> {
  // With %n each connection can name its own session or user.
  const request = requestOf(body.replaceAll('%n', String(nth)))
  let at = performance.now()
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
        const now = performance.now()
        took.push(now - at)
        at = now
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
const all = Array.from({ length: Number(connections) }, (_none, nth) => connect(nth))
await Bun.sleep(Number(seconds) * 1000)
const lasted = (performance.now() - from) / 1000
const counted = requests
running = false
await Promise.all(all)
if (failure !== undefined) throw new Error(`not answered with 200: ${failure}`)
took.sort((a, b) => a - b)
const percentile = (p: number) => took[Math.floor(took.length * p)]
console.log(
  JSON.stringify({ requests: counted, seconds: lasted, p50: percentile(0.5), p99: percentile(0.99) }),
)
