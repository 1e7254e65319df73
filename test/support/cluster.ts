/** A cluster as an operator runs it: nodes on one database on PostgreSQL, each behind a proxy, and a simulated WeChat. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type FreezingProxy, freezingProxy } from './freezing-proxy.ts'
import { overhear } from './overheard.ts'
import { type Postgres, startPostgres } from './postgres.ts'
import { type Json, type Service, type ServiceOptions, startService } from './service.ts'
import { svcProgram } from './svc-program.ts'
import { until } from './until.ts'

/** The secret key of all nodes. */
export const clusterSecret = 'K9wq2-hTzVbN71xPmRfAaYdL04sGeJcU'

export interface ClusterNode extends Service {
  /** Between this node and the database. */
  readonly database: FreezingProxy
  /** The client version that it reports to WeChat: another one for each node, so that a simulated WeChat can tell them. */
  readonly channelVersion: string
}

export interface Cluster extends AsyncDisposable {
  /** The server that the nodes use now. */
  readonly postgres: Postgres
  /** Name of the database on it. */
  readonly databaseName: string
  readonly nodes: ClusterNode[]
  /** Address of the simulated WeChat. */
  readonly wechat: string
  /** Starts one more node, or one again on the folder of a node that has ended. */
  addNode(options?: ServiceOptions): Promise<ClusterNode>
  /** Leads the nodes to another server, as a failover does. Connections to the earlier one end. */
  moveTo(server: Postgres): Promise<void>
  /** POSTs to the simulated phone. */
  phone<T = Json>(path: string, body?: unknown): Promise<T>
  /** GETs from the simulated phone. */
  seen<T = Json>(path: string): Promise<T>
  /** Logs a session in: the call begins on one node and ends on another. */
  logIn(name: string, user?: string): Promise<Json>
}

export interface ClusterOptions extends Pick<ServiceOptions, 'args' | 'env' | 'command'> {
  nodes?: number
  /** A running server; default: one of its own. */
  postgres?: Postgres
  /** Address of a simulated WeChat; default: one in a process of its own. */
  wechat?: string
}

/** Starts everything, and waits until every node is ready. `await using` ends it. */
export async function startCluster(options: ClusterOptions = {}): Promise<Cluster> {
  await using stack = new AsyncDisposableStack()
  let postgres = options.postgres ?? stack.use(await startPostgres())
  const database = `cluster_${crypto.randomUUID().slice(0, 8)}`
  await postgres.createDatabase(database)
  const dir = await mkdtemp(join(tmpdir(), 'svc-cluster-'))
  stack.defer(() => rm(dir, { recursive: true, force: true }))
  const wechat = options.wechat ?? stack.use(await startWeChat(join(dir, 'wechat'), options.command)).url
  const nodes: ClusterNode[] = []
  const proxies: FreezingProxy[] = []
  stack.defer(async () => void (await Promise.all(proxies.map(proxy => proxy.close()))))
  stack.defer(async () => void (await Promise.all(nodes.map(node => node[Symbol.asyncDispose]()))))
  const addNode = async (more: ServiceOptions = {}): Promise<ClusterNode> => {
    const toDatabase = await freezingProxy(postgres.port)
    proxies.push(toDatabase)
    const url = new URL(postgres.url(database))
    url.port = String(toDatabase.port)
    const channelVersion = `2.4.${nodes.length + 1}`
    const service = await startService({
      sandbox: false,
      ...options,
      ...more,
      args: [
        '--upstream-url',
        wechat,
        '--cdn-url',
        `${wechat}/c2c`,
        ...(options.args ?? []),
        ...(more.args ?? []),
      ],
      env: {
        SVC_STORE_URL: url.href,
        SVC_SECRET_KEY: clusterSecret,
        SVC_CHANNEL_VERSION: channelVersion,
        ...options.env,
        ...more.env,
      },
    })
    const node = Object.assign(service, { database: toDatabase, channelVersion })
    nodes.push(node)
    return node
  }
  // The first one makes the tables.
  for (let nth = 0; nth < (options.nodes ?? 3); nth++) await addNode()
  const phone = async <T>(path: string, body?: unknown): Promise<T> => {
    const response = await fetch(`${wechat}/phone/${path}`, {
      ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
      headers: { 'content-type': 'application/json' },
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`phone ${path}: ${response.status} ${text}`)
    return JSON.parse(text)
  }
  const own = stack.move()
  return {
    get postgres() {
      return postgres
    },
    async moveTo(server) {
      postgres = server
      for (const { database: proxy } of nodes) {
        await proxy.cut()
        proxy.retarget(server.port)
        await proxy.mend()
      }
    },
    databaseName: database,
    nodes,
    wechat,
    addNode,
    phone: (path, body = {}) => phone(path, body),
    seen: path => phone(path),
    async logIn(name, user) {
      const [first, ...others] = nodes
      const begun = await first!.call('login', { session_name: name })
      if (begun.body.status !== 'waiting') throw new Error(`login: ${JSON.stringify(begun.body)}`)
      await phone('scan', { confirm: true, qrcode: begun.body.qr_url, ...(user && { user }) })
      let last: Json
      await until('the login is confirmed', 30_000, async () => {
        last = (await (others.at(-1) ?? first!).call('login', { session_name: name, timeout: 5 })).body
        return last.status === 'confirmed'
      })
      return last
    },
    [Symbol.asyncDispose]: () => own.disposeAsync(),
  }
}

/** Starts the simulated WeChat in a process of its own. */
export async function startWeChat(
  dir: string,
  command: readonly string[] = svcProgram,
): Promise<{ url: string } & AsyncDisposable> {
  const child = Bun.spawn([...command, 'sandbox', '--no-banner', '--sandbox-port', '0', '-d', dir], {
    env: { PATH: process.env.PATH ?? '', HOME: dirname(dir) },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const output = overhear(child)
  const phoneUrl = () => /phone on (\S+?)\/phone/m.exec(output.stdout)?.[1]
  await until(
    'the simulated WeChat is ready',
    30_000,
    () => phoneUrl() !== undefined,
    () => output.stderr,
  )
  return {
    url: phoneUrl()!,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await output.exited
    },
  }
}
