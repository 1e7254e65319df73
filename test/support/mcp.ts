/**
 * Official MCP clients of both major versions on every transport, connected to `svc mcp` as its own
 * process, or to the same servers in the test's process.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from '@modelcontextprotocol/client'
import { StdioClientTransport as Stdio2 } from '@modelcontextprotocol/client/stdio'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { SSEClientTransport as Sse1 } from '@modelcontextprotocol/sdk/client/sse.js'
import { StdioClientTransport as Stdio1 } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport as Http1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { createLazyMcpDoor, listOfferedTools } from '../../src/cli/serve-mcp.ts'
import type { Config } from '../../src/config.ts'
import { ResourceChangeNotifier } from '../../src/mcp/announcements.ts'
import { bridgeMcp } from '../../src/mcp/bridge.ts'
import { createMcpHttp } from '../../src/mcp/http.ts'
import { LineTransport, type StdioServer, type StdioStreams, serveMcpStdio } from '../../src/mcp/stdio.ts'
import type { Call } from '../../src/model/call.ts'
import { type Principal, stdio } from '../../src/model/principal.ts'
import type { startAwakeTimer } from '../../src/platform/clock.ts'
import { createLog, silentLog } from '../../src/platform/log.ts'
import { serve } from '../../src/platform/serve.ts'
import { version } from '../../src/version.ts'
import { type TestGateway, type TestGatewayOptions, withGateway } from './gateway.ts'
import { overhear } from './overheard.ts'
import type { TestSandbox } from './sandbox.ts'
import { dropStoreOf, storeVariablesOf } from './shared-store.ts'
import { svcProgram } from './svc-program.ts'
import { until } from './until.ts'

/** The clients: 2.x with the 2026 and the 2025 revision of the protocol, and the 1.x SDK. */
export type ClientKind = '2026' | '2025' | 'sdk1'

// biome-ignore lint/suspicious/noExplicitAny: tests read any field of an answer
type Json = any

export interface Told {
  progress: number
  total?: number
  message?: string
}

interface CallOptions {
  onprogress?: (told: Told) => void
  signal?: AbortSignal
  /** How long the client waits for the answer, in ms; by default 60 s. */
  timeout?: number
}

export interface McpClient extends AsyncDisposable {
  /** Negotiated revision, such as `2026-07-28`. */
  readonly version: string | undefined
  readonly instructions: string | undefined
  /** The underlying client. */
  readonly raw: Client1 | Client2
  tools(): Promise<Json[]>
  call(name: string, input?: object, options?: CallOptions): Promise<Json>
  /**
   * Returns the structured result.
   *
   * @throws Error with the text of an error result
   */
  value(name: string, input?: object, options?: CallOptions): Promise<Json>
  /** Returns what the process wrote to stderr so far; only over stdio. */
  log(): string
  close(): Promise<void>
}

export interface ConnectOptions {
  kind?: ClientKind
  /**
   * True: text and images, as an agent gets them. By default the client asks for structured content, which
   * tests read.
   */
  plain?: boolean
  /** Answers elicitations; without it the client does not support them. */
  answer?: (params: Json) => { action: string; content?: Record<string, unknown> }
}

interface Wire {
  transport: Json
  log?: (() => string) | undefined
  end?: () => Promise<void>
}

async function connect(wire: Wire, { kind = '2025', answer }: ConnectOptions): Promise<McpClient> {
  const about = { name: 'test', version: '1.0.0' }
  const capabilities = answer ? { elicitation: {} } : {}
  let raw: Client1 | Client2
  let version: () => string | undefined
  let send: (name: string, input: object, options: CallOptions) => Promise<Json>
  if (kind === 'sdk1') {
    const client = new Client1(about, { capabilities })
    if (answer) client.setRequestHandler(ElicitRequestSchema, ({ params }) => answer(params) as never)
    raw = client
    // Only the transport of this client has the version.
    version = () => wire.transport.protocolVersion ?? wire.transport._protocolVersion
    send = (name, input, options) =>
      client.callTool({ name, arguments: input as never }, CallToolResultSchema, options as never)
  } else {
    const mode = kind === '2026' ? 'auto' : 'legacy'
    const client = new Client2(about, { capabilities, versionNegotiation: { mode } })
    if (answer) client.setRequestHandler('elicitation/create', ({ params }) => answer(params) as never)
    raw = client
    version = () => client.getNegotiatedProtocolVersion()
    send = (name, input, options) => client.callTool({ name, arguments: input as never }, options as never)
  }
  await raw.connect(wire.transport)
  const client: McpClient = {
    raw,
    get version() {
      return version()
    },
    instructions: raw.getInstructions(),
    tools: async () => (await raw.listTools()).tools,
    call: (name, input = {}, options = {}) => send(name, input, options),
    async value(name, input, options) {
      const result = await client.call(name, input, options)
      if (result.isError) throw new Error(result.content[0].text)
      const { structuredContent } = result
      return 'result' in structuredContent ? structuredContent.result : structuredContent
    },
    log: wire.log ?? (() => ''),
    async close() {
      await raw.close()
      await wire.end?.()
    },
    [Symbol.asyncDispose]: () => client.close(),
  }
  return client
}

export interface ProcessOptions extends ConnectOptions {
  sandbox: Pick<TestSandbox, 'url' | 'cdnUrl'>
  /** Existing data directory; default: a temporary one, removed at the end. */
  dir?: string
  args?: string[]
  command?: readonly string[]
  /** Over stdio: working directory of the process; default: its home, which is the data directory. */
  cwd?: string
}

/** Returns the flags that make the sandbox the upstream. */
export const upstreamFlags = ({ url, cdnUrl }: Pick<TestSandbox, 'url' | 'cdnUrl'>) => [
  '--upstream-url',
  url,
  '--cdn-url',
  cdnUrl,
]

const environment = (dir: string) => ({ PATH: process.env.PATH ?? '', HOME: dir })

/** Starts `svc mcp` as a client does, and connects over its standard input and output. */
export async function connectStdio(options: ProcessOptions): Promise<McpClient> {
  const dir = options.dir ?? (await mkdtemp(join(tmpdir(), 'svc-mcp-')))
  const [command, ...first] = options.command ?? svcProgram
  const Stdio = options.kind === 'sdk1' ? Stdio1 : Stdio2
  const transport = new Stdio({
    command: command!,
    args: [
      ...first,
      'mcp',
      '-d',
      dir,
      ...upstreamFlags(options.sandbox),
      ...(options.plain ? [] : ['--structured']),
      ...(options.args ?? []),
    ],
    env: { ...environment(dir), ...(await storeVariablesOf(dir)) },
    cwd: options.cwd ?? dir,
    stderr: 'pipe',
  })
  let log = ''
  transport.stderr?.on('data', chunk => {
    log += chunk
  })
  return connect(
    {
      transport,
      log: () => log,
      end: async () => {
        if (options.dir) return
        await dropStoreOf(dir)
        await rm(dir, { recursive: true, force: true })
      },
    },
    options,
  )
}

export const bridgeCommand: readonly string[] = [...svcProgram, 'mcp']

/**
 * Connects to a running service by the bridge `svc mcp --url`, over the bridge's standard input and output.
 */
export async function connectBridge(
  url: string,
  options: ConnectOptions & { command?: readonly string[]; env?: Record<string, string> } = {},
): Promise<McpClient> {
  const [command, ...args] = [...(options.command ?? bridgeCommand), '--url', url]
  const Stdio = options.kind === 'sdk1' ? Stdio1 : Stdio2
  const env = { ...environment(tmpdir()), ...options.env }
  const transport = new Stdio({ command: command!, args, env, cwd: tmpdir(), stderr: 'pipe' })
  let log = ''
  transport.stderr?.on('data', chunk => {
    log += chunk
  })
  return connect({ transport, log: () => log }, options)
}

export interface McpProcess extends AsyncDisposable {
  /** URL from its ready line. */
  readonly url: string
  readonly dir: string
  readonly pid: number
  readonly exited: Promise<number>
  log(): string
  stdout(): string
  kill(signal: NodeJS.Signals): Promise<number>
}

/** Starts `svc mcp -t http`, `-t sse` or `svc openapi` on a free port. */
export async function startMcp(
  transport: 'http' | 'sse' | 'openapi',
  options: ProcessOptions,
): Promise<McpProcess> {
  const dir = options.dir ?? (await mkdtemp(join(tmpdir(), 'svc-mcp-')))
  const words = transport === 'openapi' ? ['openapi'] : ['mcp', '-t', transport]
  const env = { ...environment(dir), ...(await storeVariablesOf(dir)) }
  const child = Bun.spawn(
    [
      ...(options.command ?? svcProgram),
      ...words,
      '--no-banner',
      '--port',
      '0',
      '-d',
      dir,
      ...upstreamFlags(options.sandbox),
      ...(options.args ?? []),
    ],
    { cwd: dir, env, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
  )
  const output = overhear(child)
  const { exited } = output
  const ready = () => /^(?:mcp|listening) on (http\S+\/(?:mcp|sse))$/m.exec(output.stdout)?.[1]
  await until('it is ready', 30_000, () => ready() !== undefined || child.exitCode !== null).catch(() =>
    child.kill('SIGKILL'),
  )
  if (!ready())
    throw new Error(
      `svc ${words.join(' ')} did not start (${await exited}):\n${output.stdout}${output.stderr}`,
    )
  return {
    url: ready()!,
    dir,
    pid: child.pid,
    exited,
    log: () => output.stderr,
    stdout: () => output.stdout,
    async kill(signal) {
      child.kill(signal)
      return exited
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await exited
      if (options.dir) return
      await dropStoreOf(dir)
      await rm(dir, { recursive: true, force: true })
    },
  }
}

/** Connects to a running service by the URL of its ready line. */
export function connectHttp(
  url: string,
  options: ConnectOptions & { headers?: Record<string, string> } = {},
): Promise<McpClient> {
  const init = options.headers ? { requestInit: { headers: options.headers } } : {}
  const address = new URL(url)
  if (!options.plain) address.searchParams.set('structured', '1')
  if (address.pathname === '/sse') return connect({ transport: new Sse1(address, init) }, options)
  const transport = options.kind === 'sdk1' ? new Http1(address, init) : new Http2(address, init)
  return connect({ transport }, options)
}

/** Logs a session in over MCP, with the sandbox's phone. */
export async function logInOver(client: McpClient, sandbox: TestSandbox, name = ''): Promise<void> {
  const { qr_url } = await client.value('login', { session_name: name, timeout: 0 })
  await sandbox.scanAndConfirm({ qrcode: qr_url })
  for (let tries = 0; tries < 20; tries++) {
    const { status } = await client.value('login', { session_name: name, timeout: 30 })
    if (status === 'confirmed') return
  }
  throw new Error('login was never confirmed')
}

export interface McpHereOptions extends TestGatewayOptions {
  /** Gateway of the test, which is not disposed of here; default: a new one without sessions. */
  gateway?: TestGateway
  /** Over HTTP: the port; default: any free one. */
  port?: number
  /** Over HTTP: a Unix socket instead of the port. */
  socket?: string
  /** Over HTTP: timer of the period in which a client may fetch a missed answer. */
  after?: typeof startAwakeTimer
  /** Over stdio: the caller; default: without a key. */
  by?: Principal
  /** Over stdio: files of this machine that the client may name; default: only the media root. */
  local?: Call['local']
}

export interface McpHere extends AsyncDisposable {
  readonly t: TestGateway
  /** Over HTTP: URL as in the ready line of a process. */
  readonly url: string
  connect(options?: ConnectOptions & { headers?: Record<string, string> }): Promise<McpClient>
  /** Over HTTP: breaks the connections and stops listening, as if the process died. */
  die(): Promise<void>
}

/**
 * Serves MCP in the test's process over a real gateway: faster than a process, and with the gateway's
 * clock.
 */
export async function mcpHere(
  transport: 'stdio' | 'http' | 'sse',
  options: McpHereOptions = {},
): Promise<McpHere> {
  await using stack = new AsyncDisposableStack()
  const t = options.gateway ?? stack.use(await withGateway({ sessions: [], ...options }))
  const { gateway } = t
  const config: Config = { ...t.config, ...options.config }
  const log = createLog('DEBUG', line => void t.lines.push(line))
  const { confirmSend, structured } = config
  const shared = {
    gateway,
    log,
    version,
    confirmSend,
    structured,
    tools: listOfferedTools(config.tools),
    changes: new ResourceChangeNotifier({ gateway, log }),
  }
  if (transport === 'stdio') {
    const { by = stdio, local = [] } = options
    const opened = stack.move()
    return {
      t,
      url: '',
      connect: more =>
        connectHere(
          streams => serveMcpStdio({ ...shared, structured: !more?.plain, by, local }, streams),
          more,
          () => t.lines.join(''),
        ),
      die: async () => {},
      [Symbol.asyncDispose]: () => opened.disposeAsync(),
    }
  }
  const { port = 0, socket, after } = options
  const door =
    after === undefined
      ? createLazyMcpDoor({ gateway, config, log, transport })
      : createMcpHttp({ ...shared, config, transport, after })
  const server = await serve({ hostname: '127.0.0.1', port, socket, fetch: door.fetch })
  stack.defer(async () => {
    await Promise.all([door.close(0), server.stop(0)])
  })
  const opened = stack.move()
  const url = socket === undefined ? `${server.url}/${transport === 'sse' ? 'sse' : 'mcp'}` : server.url
  return {
    t,
    url,
    connect: more => connectHttp(url, more),
    die: () => server.stop(0),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}

/** Connects to a running service by the bridge, in the test's process. */
export const bridgeHere = (
  url: string,
  options: ConnectOptions & { token?: string } = {},
): Promise<McpClient> => {
  const lines: string[] = []
  const log = createLog('DEBUG', line => void lines.push(line))
  return connectHere(
    streams => bridgeMcp({ url, token: options.token, log, streams }),
    options,
    () => lines.join(''),
  )
}

/** Connects to a server on streams of this process. */
async function connectHere(
  serving: (streams: StdioStreams) => StdioServer,
  options: ConnectOptions = {},
  log?: () => string,
): Promise<McpClient> {
  const [there, back] = [new PassThrough(), new PassThrough()]
  const server = serving({ input: there, output: back })
  const transport = new LineTransport({ input: back, output: there }, silentLog)
  return connect(
    {
      transport,
      log,
      end: async () => {
        there.end()
        await server.ended
      },
    },
    options,
  )
}
