/** Free ports, for programs that cannot choose one themselves, or that need the same one again later. */

// The ports are below the ranges from which systems assign ports. Each process has its own block: it
// listens on the first port of the block and uses the others.
const first = 20_000
const size = 500
const blocks = 24
/** The block whose ports the fixtures of releases remember: no other test gets them. */
const ofFixtures = 27_000
let block: number | undefined
let given = 0

/**
 * Returns a port that is free now. No other program gets it by chance, neither before it is used nor
 * between two uses.
 */
export function freePort(hostname = '127.0.0.1'): number {
  block ??= ownBlock()
  for (let tries = 1; tries < size; tries++) {
    // A port is not returned a second time before all were used.
    const port = block + 1 + (given++ % (size - 1))
    const server = listening(hostname, port)
    if (!server) continue
    server.stop(true)
    return port
  }
  throw new Error(`no free port on ${hostname}`)
}

/** Lets this process make fixtures: its free ports are those that no other test gets. */
export function useFixturePorts(): void {
  block = ofFixtures
}

/**
 * Claims a block for this process.
 *
 * @returns the first port of the block
 */
function ownBlock(): number {
  const any = Math.floor(Math.random() * blocks)
  for (let n = 0; n < blocks; n++) {
    const port = first + ((any + n) % blocks) * size
    if (port === ofFixtures) continue
    const guard = listening('127.0.0.1', port)
    guard?.unref()
    if (guard) return port
  }
  throw new Error(`${blocks} processes have all ports from ${first} on`)
}

/** Whether a port is the first of a block, on which a process listens until it ends. */
export const isGuard = (port: number): boolean =>
  port >= first && port < first + blocks * size && (port - first) % size === 0

/** Returns undefined if the port is in use. */
function listening(hostname: string, port: number) {
  try {
    return Bun.serve({ hostname, port, reusePort: false, fetch: () => new Response() })
  } catch {
    return undefined
  }
}
