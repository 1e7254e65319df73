/**
 * Runs `svc mcp`: serves the nine tools to agents, over standard input and output or over HTTP. The code of
 * MCP over HTTP is loaded at its first request, since most services never get one.
 */
import { localFilesOf } from '../config/local-files.ts'
import type { Config } from '../config.ts'
import type { Gateway } from '../gateway/gateway-api.ts'
import type { McpShared } from '../mcp/context.ts'
import type { McpHttpDoor } from '../mcp/http.ts'
import { listWorkingFolders } from '../media/own-files.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { type Principal, stdio } from '../model/principal.ts'
import { ask } from '../operations/questions.ts'
import { type Tool, tools } from '../operations/tools.ts'
import { createLog, type Log } from '../platform/log.ts'
import { keepStdoutClean } from '../platform/process.ts'
import type { Peer } from '../platform/serve.ts'
import { waitForAbort } from '../platform/signals.ts'
import { observeCalls, type RequestHandler } from '../server/observed.ts'
import type { OpenApiApp } from '../server/openapi.ts'
import { ensureSecret, readKeyFile } from '../server/token.ts'
import { version } from '../version.ts'
import type { Command } from './command.ts'
import { listenMain } from './listening.ts'
import { type OpenedService, runService, stopGraceMs } from './serving.ts'

/**
 * Serves until SIGINT or SIGTERM; over stdio also until the client disconnects.
 *
 * @param isPhoneFree true: nobody chose the simulated phone's port, so over stdio any free port may replace
 *   it
 */
export async function serveMcp(
  config: Config,
  command: Command,
  { isPhoneFree = false } = {},
): Promise<void> {
  if (config.transport === 'stdio') await serveOverStdio(config, command, isPhoneFree)
  else await serveOverHttp(config, command, config.transport)
}

async function serveOverStdio(config: Config, command: Command, isPhoneFree: boolean): Promise<void> {
  // Everything that svc prints must go to stderr.
  keepStdoutClean()
  const listens = config.adminPort !== undefined || config.metricsPort !== undefined
  const log = createLog(config.logLevel, command.io.log, config.logFormat)
  const start = async ({ by, gateway }: Pick<McpShared, 'gateway'> & { by: Principal }) => {
    const { serveMcpStdio } = await import('../mcp/stdio.ts')
    const local = config.anyFile || (await listWorkingFolders(config.basePath))
    return serveMcpStdio({ ...(await createMcpShared({ config, log, gateway })), by, local })
  }
  // Some clients give a server three seconds, and a store may take longer to open. With a key, the store has to
  // say first what it may do.
  const opening = Promise.withResolvers<OpenedService>()
  const later = opening.promise.then(opened => opened.gateway)
  later.catch(() => {})
  const early = config.keyFile === undefined ? await start({ gateway: later, by: stdio }) : undefined
  const open = async (opened: OpenedService) => {
    const by = await readCaller(opened)
    const server = early ?? (await start({ ...opened, by }))
    opened.stack.defer(() => server.close())
    opening.resolve(opened)
    return {
      lines: [{ text: 'serving MCP on standard input and output' }],
      ended: Promise.race([server.ended.then(() => 'the client is gone'), waitForKeyEnd(by)]),
      stop: () => server.close(),
    }
  }
  try {
    await runService({ ...config, banner: false }, command, open, { listens, isPhoneFree })
  } catch (error) {
    opening.reject(error)
    await early?.close()
    throw error
  }
}

/**
 * Returns the client on standard input and output: the key of `--key-file`, else the program of this user.
 *
 * @throws SvcError `unauthorized` if the file has no key that is valid now
 */
async function readCaller({ config: { keyFile }, gateway }: OpenedService): Promise<Principal> {
  if (keyFile === undefined) return stdio
  const by = await gateway.keys.authenticate(readKeyFile(keyFile))
  if (by) return by
  throw new SvcError('unauthorized', `--key-file: the key in ${keyFile} does not exist, or has ended`, {
    hint: 'svc key list shows the keys; svc key add makes one.',
  })
}

/** Rejects when the key of a client ends. */
async function waitForKeyEnd({ ended, name }: Principal): Promise<never> {
  if (ended) await waitForAbort(ended)
  else await new Promise(() => {})
  throw new SvcError('unauthorized', `the key "${name}" was revoked, or has expired`, {
    hint: 'Put another key into the file of --key-file, and start svc again.',
  })
}

const serveOverHttp = (requested: Config, command: Command, transport: 'http' | 'sse'): Promise<void> =>
  runService(requested, command, async opened => {
    const { config } = opened
    const mcp = createLazyMcpDoor({ ...opened, transport })
    const side = createLazySideDoor(opened)
    const server = await listenMain(opened, (request, peer) =>
      isSidePath(request.url) ? side.fetch(request, peer) : mcp.fetch(request, peer),
    )
    const path = transport === 'sse' ? '/sse' : '/mcp'
    const where = config.socket === undefined ? path : ` at http://localhost${path}`
    return {
      lines: [
        {
          text: `listening on ${server.url}${where}`,
          url: `${server.url}${config.socket === undefined ? path : ''}`,
        },
      ],
      pages: {},
      drain() {
        server.drain()
        mcp.drain()
        side.drain()
      },
      stop() {
        side.beginShutdown()
        return Promise.all([mcp.close(stopGraceMs), server.stop(stopGraceMs)])
      },
    }
  })

interface McpDoorOptions {
  readonly gateway: Gateway
  readonly config: Config
  readonly log: Log
  /**
   * Transport: Streamable HTTP at /mcp (`http`, the default), or the one of 2024 at /sse and /messages
   * (`sse`).
   */
  readonly transport?: 'http' | 'sse'
}

/** Returns true if the URL is that of MCP beside REST. */
export const isMcpPath = (url: string): boolean => /^[^/]*\/\/[^/]*\/mcp\/?(?:[?#]|$)/.test(url)

/** Returns the tools that MCP clients get. @throws SvcError `invalid_arguments` for an unknown name */
export function listOfferedTools(filter: Config['tools']): readonly Tool[] {
  if (filter === undefined) return tools
  if (filter === 'read-only') return tools.filter(({ effect }) => effect === 'read')
  const all = [...tools, ask]
  const unknown = filter.find(name => !all.some(tool => tool.name === name))
  if (unknown !== undefined)
    throw badArgument('--tools', `there is no tool "${unknown}"`, {
      hint: `The tools are ${all.map(({ name }) => name).join(', ')}.`,
    })
  return all.filter(({ name }) => filter.includes(name))
}

/** Creates the dependencies that all MCP connections of this process share. */
async function createMcpShared({
  gateway,
  config,
  log,
}: Pick<McpDoorOptions, 'config' | 'log'> & Pick<McpShared, 'gateway'>) {
  const { ResourceChangeNotifier } = await import('../mcp/announcements.ts')
  const mcpLog = log.child('mcp')
  return {
    version,
    gateway,
    log: mcpLog,
    basePath: config.basePath,
    tools: listOfferedTools(config.tools),
    confirmSend: config.confirmSend,
    structured: config.structured,
    ...(config.consumer !== undefined && { consumer: config.consumer }),
    changes: new ResourceChangeNotifier({ gateway, log: mcpLog }),
  }
}

/** Returns the key that keeps MCP sessions valid over a restart; undefined if its file cannot be used. */
async function sessionKeyOf({ config, log }: McpDoorOptions): Promise<string | undefined> {
  try {
    return (await ensureSecret(config, localFilesOf(config.basePath).mcpKey)).token
  } catch (error) {
    log.warn('sessions of MCP will end with this process', { error })
    return undefined
  }
}

/** Returns the MCP interface over HTTP. The first request loads it. */
export function createLazyMcpDoor(
  options: McpDoorOptions,
): Pick<McpHttpDoor, 'close' | 'drain'> & { fetch: RequestHandler } {
  // A wrong name in --tools fails the start, not the first request.
  listOfferedTools(options.config.tools)
  let door: Promise<McpHttpDoor> | undefined
  const open = async () => {
    const [{ createMcpHttp }, shared, sessionKey] = await Promise.all([
      import('../mcp/http.ts'),
      createMcpShared(options),
      sessionKeyOf(options),
    ])
    return createMcpHttp({
      ...shared,
      gateway: options.gateway,
      config: options.config,
      transport: options.transport ?? 'http',
      ...(sessionKey !== undefined && { sessionKey }),
    })
  }
  const fetch = async (request: Request, peer?: Peer) => {
    door ??= open()
    return (await door).fetch(request, peer)
  }
  const paths = new Set(['/mcp', '/sse', '/messages'])
  const observer = { gateway: options.gateway, log: options.log.child('mcp') }
  return {
    fetch: observeCalls(fetch, observer, path => (paths.has(path) ? path : undefined)),
    drain: () => void door?.then(opened => opened.drain()),
    async close(graceMs) {
      await (await door)?.close(graceMs)
    },
  }
}

/** Returns true for the paths served beside MCP without REST: uploads, media, the outbox, health, metrics. */
const isSidePath = (url: string): boolean =>
  /^[^/]*\/\/[^/]*\/(?:healthz|readyz|metrics|(?:media|outbox|shared)(?:\/[^?#]*)?)(?:[?#]|$)/.test(url)

/** Returns the interface for these paths (`isSidePath`). The first request loads it. */
function createLazySideDoor(
  options: Pick<McpDoorOptions, 'gateway' | 'config' | 'log'>,
): Omit<OpenApiApp, 'document'> {
  let door: Promise<Omit<OpenApiApp, 'document'>> | undefined
  return {
    async fetch(request, peer) {
      door ??= import('../server/openapi.ts').then(({ createAppBesideMcp }) => createAppBesideMcp(options))
      return (await door).fetch(request, peer)
    },
    drain: () => void door?.then(opened => opened.drain()),
    beginShutdown: () => void door?.then(opened => opened.beginShutdown()),
  }
}
