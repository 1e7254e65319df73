/** Ports for what cannot choose one itself, or is to have the same one again later. */
import process from 'node:process'

// They lie below those that systems give to whoever asks for any, and to connections of their own. Files that run side
// by side have their own, and nobody gets one a second time until all were used.
const count = 1500
const first = 20_000 + (Number(process.env.BUN_TEST_WORKER_ID ?? 0) % 8) * count
let next = Math.floor(Math.random() * count)

/** One that was free a moment ago. Nobody comes by it by chance, neither before it is used nor between two uses. */
export function freePort(hostname = '127.0.0.1'): number {
  for (let tries = 0; tries < count; tries++) {
    const port = first + (next++ % count)
    try {
      Bun.serve({ hostname, port, reusePort: false, fetch: () => new Response() }).stop(true)
      return port
    } catch {
      // Somebody has it.
    }
  }
  throw new Error(`no free port on ${hostname}`)
}
