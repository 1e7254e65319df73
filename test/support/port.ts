/** Ports for what cannot choose one itself, or is to have the same one again later. */

// They lie below those that systems give to whoever asks for any, and to connections of their own. Processes that run side
// by side have blocks of their own: the one that listens on the first port of a block has the others.
const first = 20_000
const size = 500
const blocks = 24
let block: number | undefined
let given = 0

/** One that was free a moment ago. Nobody comes by it by chance, neither before it is used nor between two uses. */
export function freePort(hostname = '127.0.0.1'): number {
  block ??= ownBlock()
  for (let tries = 1; tries < size; tries++) {
    // Nobody gets one a second time until all were used.
    const port = block + 1 + (given++ % (size - 1))
    const server = listening(hostname, port)
    if (!server) continue
    server.stop(true)
    return port
  }
  throw new Error(`no free port on ${hostname}`)
}

/** @returns the first port of a block, which this process keeps */
function ownBlock(): number {
  const any = Math.floor(Math.random() * blocks)
  for (let n = 0; n < blocks; n++) {
    const port = first + ((any + n) % blocks) * size
    const guard = listening('127.0.0.1', port)
    guard?.unref()
    if (guard) return port
  }
  throw new Error(`${blocks} processes have all ports from ${first} on`)
}

/** @returns undefined where somebody has the port */
function listening(hostname: string, port: number) {
  try {
    return Bun.serve({ hostname, port, reusePort: false, fetch: () => new Response() })
  } catch {
    return undefined
  }
}
