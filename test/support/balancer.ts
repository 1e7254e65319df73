/** A load balancer on loopback, as simple as it gets: it asks each node for /readyz, and repeats no call. */

export interface Balancer extends Disposable {
  readonly url: string
  /** Nodes that get calls now. */
  readonly ready: ReadonlySet<string>
}

const askEveryMs = 500

/** @param nodes their addresses */
export function startBalancer(nodes: readonly string[]): Balancer {
  const ready = new Set<string>()
  let turn = 0
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const urls = [...ready]
      const { pathname, search } = new URL(request.url)
      const to = urls[turn++ % urls.length]
      if (to === undefined) return new Response('no node is ready', { status: 503 })
      try {
        const { body, headers, method } = request
        const answer = await fetch(`${to}${pathname}${search}`, { method, headers, body, redirect: 'manual' })
        return new Response(answer.body, { status: answer.status, headers: answer.headers })
      } catch (error) {
        return new Response(String(error), { status: 502 })
      }
    },
  })
  const ask = async () => {
    await Promise.all(
      nodes.map(async node => {
        const answer = await fetch(`${node}/readyz`).catch(() => undefined)
        if (answer?.status === 200) ready.add(node)
        else ready.delete(node)
      }),
    )
  }
  const asking = setInterval(() => void ask(), askEveryMs)
  return {
    url: server.url.origin,
    ready,
    [Symbol.dispose]() {
      clearInterval(asking)
      server.stop(true)
    },
  }
}
