/** MCP Events at two nodes on one database: a subscription of one node is one of both, whichever delivers. */
import { afterAll, describe, expect, test } from 'bun:test'
import { deriveSecret } from '../../src/platform/sealing.ts'
import { type ClusterNode, clusterSecret, startCluster } from '../support/cluster.ts'
import { eventsReceiver, newSecret } from '../support/events-receiver.ts'
import { failure } from '../support/failure.ts'
import { EventsClient, type Json } from '../support/mcp-events.ts'
import { isPostgresThere } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const name = 'message.received'
const within = 120_000
const stack = new AsyncDisposableStack()
afterAll(() => stack.disposeAsync())

async function open() {
  const secret = newSecret()
  const hook = stack.use(eventsReceiver([secret]))
  const args = ['--pace', 'off', '--events-callback', hook.prefix, '--events-callback-ca', hook.caFile]
  const cluster = stack.use(await startCluster({ nodes: 2, args }))
  const [a, b] = cluster.nodes as [ClusterNode, ClusterNode]
  await cluster.logIn('work')
  const [{ bot_id: to, user_id: from }] = (await a.call('sessions')).body
  const master = deriveSecret(clusterSecret, 'api_token')
  const rest = async (method: string, path: string, body?: object): Promise<Json> =>
    (
      await fetch(`${a.url}${path}`, {
        method,
        headers: { authorization: `Bearer ${master}`, 'content-type': 'application/json' },
        ...(body && { body: JSON.stringify(body) }),
      })
    ).json()
  const { id, key } = await rest('POST', '/keys', { name: 'n', can: ['events', 'webhooks'] })
  const clients = [a, b].map(
    ({ url }) => new EventsClient(`${url}/mcp`, { authorization: `Bearer ${key}` }),
  ) as [EventsClient, EventsClient]
  const request = { name, delivery: { mode: 'webhook', url: hook.url, secret } }
  return {
    ...{ a, b, hook, clients, request, rest, keyId: id },
    say: (text: string) => cluster.phone('say', { text, from, to }),
    heard: () => new Set(hook.events().map(({ body }) => body.data.text)),
  }
}

describe.skipIf(!isPostgresThere())('two nodes', () => {
  test(
    'both nodes poll, push and deliver one subscription, also after one of them was killed',
    async () => {
      const { a, b, clients, heard, hook, keyId, request, rest, say } = await open()
      const { cursor } = await clients[0].poll(name)
      await using stream = await clients[1].stream({ name })
      await stream.nextOf('active')
      const made = await Promise.all(clients.map(client => client.call('events/subscribe', request)))
      expect(made[0].id).toBe(made[1].id)
      expect(await rest('GET', '/webhooks')).toHaveLength(1)
      await say('one')
      expect(await stream.nextOf('event')).toMatchObject({ data: { text: 'one' } })
      await until('delivered', 20_000, () => heard().size === 1)
      const polled = await until('polled', 20_000, async () => {
        const { events } = await clients[1].poll(name, cursor)
        return events.length > 0 && events
      })
      expect(polled[0].data.text).toBe('one')
      // Only one of both delivers.
      expect(hook.events()).toHaveLength(1)
      await b.kill('SIGKILL')
      for (const text of ['two', 'three']) await say(text)
      await until('the other node delivers', 60_000, () => heard().size === 3)
      expect(await clients[0].call('events/subscribe', request)).toMatchObject({ id: made[0].id })
      await rest('DELETE', `/keys/${keyId}`)
      await until('ended', 20_000, () => hook.ofType('terminated').length > 0)
      expect(hook.ofType('terminated')).toHaveLength(1)
      expect(await failure(clients[0].poll(name))).toMatchObject({ code: 401 })
      expect(a.log()).not.toContain('unexpected error')
    },
    within,
  )
})
