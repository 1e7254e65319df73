/** The REST server on a real port over a gateway of the test, and a client for raw bytes. */
import { connect, type Socket } from 'node:net'
import type { Clock } from '../../src/platform/clock.ts'
import { type Log, silentLog } from '../../src/platform/log.ts'
import { type RunningServer, serve } from '../../src/platform/serve.ts'
import { withoutPrefix } from '../../src/server/behind-proxy.ts'
import { createOpenApiApp, type OpenApiApp, type OpenApiOptions } from '../../src/server/openapi.ts'
import { MemoryGateway } from './memory-gateway.ts'

type RestGateway = OpenApiOptions['gateway']

export interface Rest<Gateway = MemoryGateway> extends AsyncDisposable {
  readonly gateway: Gateway
  readonly app: OpenApiApp
  readonly server: RunningServer
  readonly url: string
  /** POSTs a tool call. */
  call(tool: string, input?: unknown, init?: RequestInit): Promise<{ status: number; body: Json }>
}

// biome-ignore lint/suspicious/noExplicitAny: tests read any field of an answer
export type Json = any

type RestOptions = Partial<OpenApiOptions['config']> & {
  log?: Log
  bind?: string
  clock?: Clock
  trustedProxies?: string[]
}

export const startRest = (options: RestOptions = {}): Promise<Rest> => restOf(new MemoryGateway(), options)

export async function restOf<Gateway extends RestGateway>(
  gateway: Gateway,
  options: RestOptions = {},
): Promise<Rest<Gateway>> {
  const { log, bind, clock, trustedProxies = [], ...config } = options
  const host = { host: '127.0.0.1', allowHosts: [], ...config }
  const app = createOpenApiApp({
    gateway,
    config: { ...host, maxUploadBytes: 2 ** 31, ...config },
    log: log ?? silentLog,
    version: '1.2.3',
    clock,
  })
  const server = await serve({
    hostname: bind ?? '127.0.0.1',
    port: 0,
    fetch: withoutPrefix({ ...host, trustedProxies }, (request, peer) => app.fetch(request, peer)),
  })
  return {
    gateway,
    app,
    server,
    url: server.url,
    async call(tool, input = {}, init = {}) {
      const response = await fetch(`${server.url}/tools/default/${tool}`, {
        method: 'POST',
        body: JSON.stringify(input),
        headers: { 'content-type': 'application/json' },
        ...init,
      })
      return { status: response.status, body: await response.json() }
    },
    [Symbol.asyncDispose]: async () => {
      app.beginShutdown()
      await server.stop(0)
    },
  }
}

/**
 * Sends raw bytes on one connection. Returns the answer when the server closes it, or when `until` returns
 * true.
 */
export async function raw(
  server: Pick<RunningServer, 'port'>,
  send: string | Uint8Array | ((socket: Socket) => void),
  until: (text: string) => boolean = text =>
    isWhole(text, typeof send === 'string' && send.startsWith('HEAD ')),
): Promise<string> {
  const socket = connect(server.port, '127.0.0.1')
  const chunks: Buffer[] = []
  const done = Promise.withResolvers<void>()
  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
    if (until(Buffer.concat(chunks).toString('utf8'))) done.resolve()
  })
  socket.on('close', () => done.resolve())
  socket.on('error', () => done.resolve())
  socket.on('connect', () => (typeof send === 'function' ? send(socket) : socket.write(send)))
  const late = setTimeout(() => done.resolve(), 30_000)
  await done.promise
  clearTimeout(late)
  socket.destroy()
  return Buffer.concat(chunks).toString('utf8')
}

/**
 * Returns status and headers of HEAD and GET of one URL. If HEAD is correct, both are equal: HEAD has no
 * Content-Length if GET streams without one.
 */
export async function headAndGet(url: string, headers: Record<string, string> = {}) {
  const ask = async (method: string) => {
    const answer = await fetch(url, {
      method,
      headers: { 'accept-encoding': 'identity', 'x-request-id': 'same', ...headers },
      redirect: 'manual',
    })
    const { status } = answer
    const body = method === 'HEAD' ? await answer.text() : ''
    if (method === 'GET') await answer.body?.cancel()
    const passing = ['date', 'transfer-encoding', 'connection', 'keep-alive', 'set-cookie']
    const kept = [...answer.headers].filter(([name]) => !passing.includes(name))
    return { status, body, headers: Object.fromEntries(kept) as Record<string, string> }
  }
  // HEAD first: anything that HEAD consumes would then be missing from GET.
  return { head: await ask('HEAD'), get: await ask('GET') }
}

/** Returns true if the text contains one complete answer. */
function isWhole(text: string, headOnly: boolean): boolean {
  const end = text.indexOf('\r\n\r\n')
  if (end < 0) return false
  if (headOnly) return true
  const head = text.slice(0, end).toLowerCase()
  const length = /content-length: (\d+)/.exec(head)?.[1]
  if (length !== undefined) return Buffer.byteLength(text.slice(end + 4)) >= Number(length)
  return head.includes('transfer-encoding: chunked') ? text.endsWith('0\r\n\r\n') : true
}
