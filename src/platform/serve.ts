/**
 * Serves a fetch handler on Bun or Deno: request bodies are streamed with back-pressure, connections without
 * an accepted call have deadlines, and a stop always ends.
 */
import process from 'node:process'
import type { RunningServer, ServeOptions } from './http-server.ts'
import { serveOnBun } from './serve-on-bun.ts'
import { serveOnDeno } from './serve-on-deno.ts'
import { findActivatedSocket } from './socket-activation.ts'

export type { Peer, RunningServer, ServeOptions } from './http-server.ts'

/**
 * @throws Error with `code` EADDRINUSE, EACCES, EADDRNOTAVAIL … when it cannot listen; EEXIST when `socket`
 *   is not a socket
 */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const { port, socket } = options
  const start = process.versions.bun ? serveOnBun : serveOnDeno
  if (socket === undefined) return start(options, await findActivatedSocket(port))
  // Loaded on use: node:net is 1 ms of a start.
  const { clearSocket, trackSocket, runPrivately } = await import('./socket-file.ts')
  await clearSocket(socket)
  const server = runPrivately(() => start(options))
  const remove = await trackSocket(socket)
  return { ...server, url: `unix:${socket}`, stop: graceMs => server.stop(graceMs).finally(remove) }
}

/**
 * Returns the URL in a form that this machine can open. Matters where the server listens on all addresses.
 */
export const toReachableUrl = (url: string): string =>
  url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')

/**
 * Whether a host name or address always means this machine. `0.0.0.0` and `::` do not: they listen to other
 * machines too.
 */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[(.*)\]$/, '$1')
  if (name === 'localhost' || name.endsWith('.localhost')) return true
  if (name === '::1' || name === '0:0:0:0:0:0:0:1') return true
  const v4 = /^(?:::ffff:)?127\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(name)
  return v4?.slice(1).every(part => Number(part) <= 255) === true
}
