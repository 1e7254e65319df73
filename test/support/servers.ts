/** Real servers on 127.0.0.1, for faults of servers other than WeChat's. */
import { createServer, type Socket } from 'node:net'
import type { FetchInit } from '../../src/ilink/http.ts'

/** Starts an HTTP server; `await using` stops it. */
export function httpServer(handler: (request: Request) => Response | Promise<Response>) {
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    fetch: handler,
    maxRequestBodySize: 2 ** 40,
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    async [Symbol.asyncDispose]() {
      await server.stop(true)
    },
  }
}

/** Starts a TCP server that calls `talk` when the first bytes of a request arrive; `await using` stops it. */
export async function rawServer(talk: (socket: Socket, request: string) => void) {
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    socket.once('data', data => talk(socket, data.toString('latin1')))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

/** Fetch of the runtime, with streamed bodies and without redirects. */
export const plainFetch = (url: string, init: FetchInit): Promise<Response> =>
  fetch(url, { ...init, body: (init.body ?? null) as BodyInit | null, redirect: 'manual' })

export const json = (value: unknown, init?: ResponseInit): Response =>
  new Response(typeof value === 'string' ? value : JSON.stringify(value), {
    headers: { 'content-type': 'application/json' },
    ...init,
  })
