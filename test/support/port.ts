/** Ports for what cannot choose one itself, or is to have the same one again later. */

/**
 * One that was free a moment ago. It lies below those that systems give to whoever asks for any, and to connections of
 * their own: nobody comes by it by chance, neither before it is used nor between two uses.
 */
export function freePort(hostname = '127.0.0.1'): number {
  for (let tries = 0; tries < 100; tries++) {
    const port = 20_000 + Math.floor(Math.random() * 12_000)
    try {
      Bun.serve({ hostname, port, reusePort: false, fetch: () => new Response() }).stop(true)
      return port
    } catch {
      // Somebody has it.
    }
  }
  throw new Error(`no free port on ${hostname}`)
}
