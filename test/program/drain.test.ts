/** A node that is stopped politely goes on serving until the load balancer has noticed. */
import { describe, expect, test } from 'bun:test'
import { startBalancer } from '../support/balancer.ts'
import { startCluster } from '../support/cluster.ts'
import { isPostgresThere } from '../support/postgres.ts'
import { startService } from '../support/service.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { until } from '../support/until.ts'

const withinMs = 60_000

describe('a polite stop', () => {
  test.skipIf(!isPostgresThere())(
    'of one of two nodes behind a load balancer fails no call, and its accounts go at once',
    async () => {
      // Longer than the test: the second signal ends it.
      await using cluster = await startCluster({ nodes: 2, args: ['--drain', '3600'] })
      const [first, second] = cluster.nodes
      await cluster.logIn('work')
      using balancer = startBalancer(cluster.nodes.map(({ url }) => url))
      await until('both are ready', withinMs, () => balancer.ready.size === 2)
      const pollers = async () => {
        const { nodes } = await fetch(`${second!.url}/nodes`).then(answer => answer.json())
        return nodes.flatMap(({ sessions, url }: { sessions: string[]; url: string }) =>
          sessions.includes('work') ? [url] : [],
        )
      }
      await until('a node polls', withinMs, async () => (await pollers()).length === 1)
      const [poller] = await pollers()
      const [leaving, staying] = poller === first!.url ? [first!, second!] : [second!, first!]

      const failed: string[] = []
      let [calls, isOver] = [0, false]
      const caller = async () => {
        while (!isOver) {
          const answer = await fetch(`${balancer.url}/tools/default/sessions`, {
            method: 'POST',
            body: '{}',
            headers: { 'content-type': 'application/json' },
          })
          calls++
          if (answer.status !== 200) failed.push(`${answer.status} ${await answer.text()}`)
          else await answer.json()
        }
      }
      const callers = [caller(), caller(), caller(), caller()]
      const more = async (what: string) => {
        const before = calls
        await until(what, withinMs, () => calls > before + 100)
      }
      await more('calls are answered')
      // A client that keeps its connection, as one behind a balancer of connections does.
      const kept = () => fetch(`${leaving.url}/healthz`)
      expect((await kept()).headers.get('connection')).toBeNull()
      const waiting = leaving.call('recv', { timeout: 300 })
      const stream = await fetch(`${leaving.url}/events`)

      using watch = stopwatch()
      void leaving.kill('SIGTERM')
      await until('the other node polls', withinMs, async () => (await pollers())[0] === staying.url)
      expect(watch.ms).toBeLessThan(2000)
      expect(await waiting).toEqual({ status: 200, body: [] })
      expect(await stream.text()).toStartWith(': svc')
      await until('the balancer has noticed', withinMs, () => balancer.ready.size === 1)
      const last = await kept()
      expect([last.status, last.headers.get('connection')]).toEqual([200, 'close'])
      expect(await fetch(`${leaving.url}/readyz`).then(answer => answer.json())).toMatchObject({
        draining: true,
        store: 'ok',
      })
      // Who still calls it is served, and does not wait.
      expect(await leaving.call('sessions')).toMatchObject({ status: 200, body: [{ name: 'work' }] })
      expect(await leaving.call('recv', { timeout: 300 })).toEqual({ status: 200, body: [] })
      await more('the other node answers')
      expect(await leaving.kill('SIGINT')).toBe(0)
      await more('it answers after the end of the first, too')
      isOver = true
      await Promise.all(callers)
      expect(failed).toEqual([])
    },
    180_000,
  )

  test('lasts no longer than --drain', async () => {
    await using service = await startService({ args: ['--drain', '1', '--log-level', 'INFO'] })
    expect(await service.kill('SIGTERM')).toBe(0)
    expect(service.log()).toMatch(/draining .*seconds=1/)
  })
})
