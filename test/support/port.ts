/** A port that was free a moment ago, for what cannot choose one itself. */
export function freePort(hostname = '127.0.0.1'): number {
  const server = Bun.serve({ hostname, port: 0, fetch: () => new Response() })
  const { port } = server
  server.stop(true)
  return port!
}
