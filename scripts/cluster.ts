/** A cluster on one machine, to try it: see `scripts/cluster`. */
import { type AddressInfo, createConnection, createServer } from 'node:net'
import { parseArgs } from 'node:util'
import { type ClusterNode, startCluster } from '../test/support/cluster.ts'
import { isThere } from '../test/support/postgres-program.ts'

function fail(message: string, status = 1): never {
  console.error(message)
  process.exit(status)
}

const options = {
  nodes: { type: 'string', default: '3' },
  port: { type: 'string', default: '8000' },
} as const

function readOptions(): { count: number; port: number } {
  try {
    const { values } = parseArgs({ options })
    const [count, port] = [Number(values.nodes), Number(values.port)]
    if (!Number.isInteger(count) || count < 1 || count > 20) fail('--nodes: expected 1 to 20', 2)
    if (!Number.isInteger(port) || port < 0 || port > 65_533) fail('--port: expected 0 to 65533', 2)
    return { count, port }
  } catch (error) {
    fail(`${(error as Error).message}; see ./scripts/cluster --help`, 2)
  }
}

const checkEveryMs = 500
const checkMs = 2000

/** A node as the proxy sees it. */
interface Target {
  readonly node: ClusterNode
  readonly panel: string
  /** GET /readyz answers 200. */
  isUp: boolean
}

/** Asks each node whether it is ready, as any proxy would. Says when it changes. */
async function watch(target: Target, name: string): Promise<void> {
  let hasEnded = false
  void target.node.exited.then(() => {
    hasEnded = true
  })
  while (!hasEnded) {
    const answer = await fetch(`${target.node.url}/readyz`, { signal: AbortSignal.timeout(checkMs) }).catch(
      () => undefined,
    )
    if (target.isUp !== (answer?.status === 200) && !hasEnded) {
      target.isUp = !target.isUp
      console.log(`${name} ${target.isUp ? 'works again' : 'does not work: the proxy leaves it out'}`)
    }
    await Bun.sleep(checkEveryMs)
  }
  target.isUp = false
  console.log(`${name} has ended; the others poll its accounts within seconds`)
}

/**
 * Serves a port by passing each connection on to a target that accepts it, each time to the next one.
 *
 * @returns the port
 */
function serve(port: number, targets: () => readonly string[]): Promise<number> {
  let turn = 0
  const server = createServer(client => {
    client.on('error', () => {})
    const urls = targets()
    const first = turn++
    const connect = (tries: number) => {
      if (tries >= urls.length) return client.destroy()
      const { hostname, port } = new URL(urls[(first + tries) % urls.length]!)
      const target = createConnection({ host: hostname, port: Number(port) })
      let isConnected = false
      target.on('connect', () => {
        isConnected = true
        client.on('close', () => target.destroy())
        client.pipe(target).pipe(client)
      })
      target.on('error', () => (isConnected ? client.destroy() : connect(tries + 1)))
      target.on('close', () => isConnected && client.destroy())
    }
    connect(0)
  })
  return new Promise((resolve, reject) =>
    server
      .on('error', reject)
      .listen(port, '127.0.0.1', () => resolve((server.address() as AddressInfo).port)),
  )
}

const { count, port } = readOptions()
if (!isThere)
  fail('This needs PostgreSQL 14 or later on Linux. On Debian and Ubuntu: sudo apt-get install postgresql')

const targets: Target[] = []
let phone = ''
const up = () => targets.filter(({ isUp }) => isUp)
const doors = [() => up().map(({ node }) => node.url), () => up().map(({ panel }) => panel), () => [phone]]
const ports: number[] = []
for (const [nth, door] of doors.entries()) {
  const wanted = port === 0 ? 0 : port + nth
  ports.push(
    await serve(wanted, door).catch(error =>
      fail(
        `The port ${wanted} is not free (${error.code}). Choose another one: ./scripts/cluster --port 8100`,
      ),
    ),
  )
}

console.log(`starting PostgreSQL, a simulated WeChat and ${count} nodes …`)
const [publicUrl, panelUrl, phoneUrl] = ports.map(one => `http://127.0.0.1:${one}`)
const cluster = await startCluster({
  nodes: count,
  args: ['--admin-port', '0', '--public-url', publicUrl!],
}).catch(error => fail(String(error.message)))
const { databaseName, nodes, postgres, wechat } = cluster
phone = wechat
console.log(`
svc       ${publicUrl}          without a token, since only this machine reaches it
panel     ${panelUrl}
phone     ${phoneUrl}/phone
database  psql ${postgres.url(databaseName)}`)
for (const [nth, node] of nodes.entries()) {
  const target = { node, panel: /admin on (\S+)/.exec(node.stdout())?.[1] ?? '', isUp: true }
  targets.push(target)
  console.log(`node ${nth + 1}    ${node.url}         process ${node.pid}`)
  void watch(target, `node ${nth + 1} (process ${node.pid})`)
}
console.log(`
Log in, and press "Scan and agree" on the phone:
  curl -s ${publicUrl}/tools/default/login -H 'Content-Type: application/json' -d '{}'
Write to the bot on the phone, and read it:
  curl -s ${publicUrl}/tools/default/recv -H 'Content-Type: application/json' -d '{"timeout": 20}'
Then kill a node, and go on:
  kill -9 ${nodes[0]!.pid}
Ctrl-C ends everything and removes it.`)

await new Promise(resolve => {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, resolve)
})
console.log('ending …')
// A second one does not wait.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => process.exit(1))
await cluster[Symbol.asyncDispose]()
process.exit(0)
