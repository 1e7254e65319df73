/** The doors of the service of the matrix, as callers with keys reach them. */
import { createLazyMcpDoor, isMcpPath } from '../../src/cli/serve-mcp.ts'
import { createDirectCall } from '../../src/model/call.ts'
import { errorKindOf, isSvcError } from '../../src/model/error.ts'
import type { Principal } from '../../src/model/principal.ts'
import { invoke } from '../../src/operations/gate.ts'
import type { Operation } from '../../src/operations/operation.ts'
import { panelOperations } from '../../src/operations/operations.ts'
import { silentLog } from '../../src/platform/log.ts'
import { serve } from '../../src/platform/serve.ts'
import { createAdminApp } from '../../src/server/admin.ts'
import { createOpenApiApp } from '../../src/server/openapi.ts'
import { requestOf } from '../operations/doors.ts'
import { cookieOf, pageHeaders } from '../support/admin.ts'
import { testClock } from '../support/clock.ts'
import type { TestGateway } from '../support/gateway.ts'
import { modernHeaders, modernMeta, post } from '../support/mcp-raw.ts'
import type { Json } from '../support/rest.ts'
import { letStoreAnswer } from '../support/shared-store.ts'

/** A caller, as each door knows it. */
export interface Caller {
  /** Token. */
  readonly token?: string
  /** Cookie of its sign-in to the panel. */
  readonly cookie?: string
  readonly by: Principal
}

export interface Answer {
  readonly status: number
  readonly code?: string
  readonly right?: string
  /** Everything that the caller got: headers and body. */
  readonly text: string
}

type Input = Readonly<Record<string, unknown>>

export interface Door {
  offers(operation: Operation): boolean
  call(operation: Operation, input: Input, caller: Caller): Promise<Answer>
}

const panelCalls = new Set<Operation>(Object.values(panelOperations).flat())
/** Streams are read until they are silent for so many rounds of the event loop. */
const silentRounds = 60

/**
 * Rounds are counted, not time: a machine that stands still for a while would pass for a silent stream. The server is in
 * this process, so each round lets it go on; its store has answered several times.
 */
async function silence(dir: string): Promise<void> {
  for (let round = 0; round < silentRounds; round++) {
    await Bun.sleep(1)
    if (round % 8 === 0) await letStoreAnswer(dir)
  }
}

/** Reads a body to its end; a stream until it is silent. */
async function readBody(response: Response, dir: string): Promise<string> {
  if (!response.headers.get('content-type')?.includes('text/event-stream')) return await response.text()
  return await readStream(response, () => false, dir)
}

/** Reads a stream until the text is enough, or until it is silent. Without the folder of its store it waits. */
export async function readStream(
  response: Response,
  isEnough: (text: string) => boolean,
  dir?: string,
): Promise<string> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  while (!isEnough(text)) {
    const reading = reader.read()
    const next = await (dir === undefined ? reading : Promise.race([reading, silence(dir)]))
    if (!next || next.done) break
    text += next.value
  }
  reader.cancel().catch(() => {})
  return text
}

/** Headers that say nothing about the data. */
const passing = new Set(['date', 'etag', 'connection', 'keep-alive', 'transfer-encoding', 'x-request-id'])

async function answerOf(response: Response, dir: string): Promise<Answer> {
  const body = await readBody(response, dir)
  const headers = [...response.headers].filter(([name]) => !passing.has(name)).sort()
  const isProblem = response.headers.get('content-type') === 'application/problem+json'
  const { code, details } = isProblem ? (JSON.parse(body) as Json) : {}
  return {
    status: response.status,
    ...(code && { code }),
    ...(details?.right && { right: details.right }),
    text: `${JSON.stringify(headers)}\n${body}`,
  }
}

/** Reads what an operation gives a door as streams. */
async function textOfOutput(output: unknown, dir: string): Promise<string> {
  const { follow, media } = Object(output) as {
    follow?: (signal: AbortSignal, options: object) => AsyncGenerator
    media?: { stream: ReadableStream<Uint8Array> }
  }
  let text = JSON.stringify(output) ?? ''
  if (media) text += await new Response(media.stream).text()
  if (follow) {
    const silent = new AbortController()
    const stop = () => silent.abort()
    void silence(dir).then(stop, stop)
    for await (const one of follow(silent.signal, { toEnd: true })) text += JSON.stringify(one)
  }
  return text
}

/** Starts the doors over a gateway. */
export async function startDoors(t: TestGateway, token: string) {
  const { gateway } = t
  const config = { ...t.config, host: '127.0.0.1', token, structured: true }
  /** Of the delays for wrong tokens. */
  const clock = testClock()
  const own = { gateway, config, log: silentLog, version: '0.0.0', clock }
  const app = createOpenApiApp(own)
  const admin = createAdminApp({ ...own, folders: [] })
  const mcp = createLazyMcpDoor(own)
  const listen = (fetch: Parameters<typeof serve>[0]['fetch']) =>
    serve({ hostname: '127.0.0.1', port: 0, fetch })
  const server = await listen((request, peer) =>
    isMcpPath(request.url) ? mcp.fetch(request, peer) : app.fetch(request, peer),
  )
  const panel = await listen((request, peer) => admin.fetch(request, peer))
  const send = async (url: string, init: RequestInit, more: Record<string, string>) =>
    fetch(url, { ...init, redirect: 'manual', headers: { ...(init.headers as object), ...more } })

  const doors = {
    rest: {
      offers: ({ rest }) => rest !== undefined && !rest.panelOnly,
      async call({ rest }, input, caller) {
        const { path, init } = requestOf(rest!, input)
        return await answerOf(await send(server.url + path, init, bearerOf(caller)), t.dir)
      },
    },
    panel: {
      offers: operation => panelCalls.has(operation) || operation.rest?.panelOnly === true,
      async call(operation, input, { cookie }) {
        const { name, rest } = operation
        const shape = panelCalls.has(operation)
          ? ({ route: `POST /call/${name}`, tag: 'panel' } as const)
          : rest!
        const { path, init } = requestOf(shape, input)
        return await answerOf(
          await send(`${panel.url}/api${path}`, init, cookie ? pageHeaders(cookie) : {}),
          t.dir,
        )
      },
    },
    gate: {
      // What only programs on this machine and other doors call.
      offers: operation => operation.rest === undefined && !panelCalls.has(operation),
      async call(operation, input, { by }) {
        const bytes = new Blob(['the bytes']).stream()
        const given = operation.rest?.hasFileBody ? { ...input, file: { body: bytes, size: 9 } } : input
        try {
          const call = createDirectCall({ by, local: false })
          const output = await invoke(operation, gateway, given, call, silentLog)
          return { status: 200, text: await textOfOutput(output, t.dir) }
        } catch (error) {
          if (!isSvcError(error)) throw error
          const { code, details, hint, message } = error
          return {
            status: errorKindOf(code).status,
            code,
            ...(details?.right !== undefined && { right: String(details.right) }),
            text: JSON.stringify({ code, details, hint, message }),
          }
        }
      },
    },
  } satisfies Record<string, Door>

  return {
    doors,
    clock,
    url: server.url,
    panelUrl: panel.url,
    /** Makes a request of MCP. @returns status, and the result or error */
    async mcp(
      method: string,
      params: object,
      caller: Caller,
    ): Promise<{ status: number; body: Json; text: string }> {
      const response = await openMcp(server.url, method, params, caller)
      const text = await response.text()
      const data = /^data: (\{.*"(?:result|error)".*\})$/m.exec(text)?.[1] ?? text
      return { status: response.status, body: data.startsWith('{') ? JSON.parse(data) : {}, text }
    },
    openMcp: (method: string, params: object, caller: Caller) => openMcp(server.url, method, params, caller),
    /** Signs in to the panel. @returns the cookie */
    async signIn(token: string): Promise<string> {
      const body = JSON.stringify({ token })
      const headers = { 'content-type': 'application/json' }
      const response = await fetch(`${panel.url}/api/sign-in`, { method: 'POST', body, headers })
      return cookieOf(response.headers)
    },
    async [Symbol.asyncDispose]() {
      app.beginShutdown()
      admin.beginShutdown()
      await Promise.all([mcp.close(0), server.stop(0), panel.stop(0)])
    },
  }
}

export type Doors = Awaited<ReturnType<typeof startDoors>>

export const bearerOf = ({ token }: Caller): Record<string, string> =>
  token === undefined ? {} : { authorization: `Bearer ${token}` }

function openMcp(url: string, method: string, params: object, caller: Caller): Promise<Response> {
  const { name, uri } = params as { name?: string; uri?: string }
  const body = { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: modernMeta() } }
  const headers = { ...modernHeaders(name ?? uri ?? ''), 'mcp-method': method }
  return post(`${url}/mcp?structured=1`, body, { ...headers, ...bearerOf(caller) })
}
