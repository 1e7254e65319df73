/** News over HTTP in both eras: who asked hears of it, and nothing is left when the connection is over. */
import { describe, expect, test } from 'bun:test'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { ResourceChangeNotifier } from '../../src/mcp/announcements.ts'
import type { ResourceChanges } from '../../src/mcp/context.ts'
import { silentLog } from '../../src/platform/log.ts'
import { withGateway } from '../support/gateway.ts'
import { startDoor } from '../support/mcp-door.ts'

/** The HTTP door over a real gateway, and how many listen to its news. */
async function withDoor(followed?: Promise<void>) {
  const t = await withGateway({ sessions: ['工作', 'other'] })
  const inner = new ResourceChangeNotifier({ gateway: t.gateway, log: silentLog })
  const listening = new Set<object>()
  const changes: ResourceChanges = {
    followed: by => followed ?? inner.followed(by),
    subscribe(by, listener) {
      const one = {}
      listening.add(one)
      const stop = inner.subscribe(by, listener)
      return () => {
        listening.delete(one)
        stop()
      }
    },
  }
  const door = await startDoor({ gateway: t.gateway, changes })
  const connect = async (mode: 'auto' | 'legacy') => {
    const client = new Client({ name: 'test', version: '0.0.0' }, { versionNegotiation: { mode } })
    const heard: string[] = []
    client.setNotificationHandler(
      'notifications/resources/updated',
      ({ params }) => void heard.push(params.uri),
    )
    client.setNotificationHandler('notifications/resources/list_changed', () => void heard.push('list'))
    const transport = new StreamableHTTPClientTransport(new URL(door.url))
    await client.connect(transport)
    return { client, heard, transport }
  }
  return {
    ...{ t, listening, connect },
    async [Symbol.asyncDispose]() {
      await door[Symbol.asyncDispose]()
      await t[Symbol.asyncDispose]()
    },
  }
}

describe('news over HTTP', () => {
  for (const mode of ['auto', 'legacy'] as const)
    test(`of the era ${mode}: what was asked for, as it was spelt, until the connection ends`, async () => {
      await using d = await withDoor()
      const { bot_id, user_id } = d.t.bots.get('工作')!
      await d.t.sandbox.say('before', { from: user_id, to: bot_id })
      await d.t.receive(1)
      await d.t.gateway.users.name({ user_id, name: 'Aunt May' })
      // The first look at the sessions, with which later ones are compared, tells nobody.
      let looks = 0
      d.t.gateway.changes.subscribe({ sessions: () => void looks++ })
      await d.t.until('a look', () => {
        d.t.clock.advance(1000)
        return looks > 0
      })
      const { client, heard, transport } = await d.connect(mode)
      expect(client.getServerCapabilities()?.resources).toMatchObject({ subscribe: true, listChanged: true })
      const encoded = `svc://conversations/${encodeURIComponent('工作')}/${encodeURIComponent(user_id)}`
      const spelt = [
        'svc://inbox',
        encoded,
        encoded.replace('%40', '@'),
        `svc://conversations/工作/${user_id}`,
        `svc://conversations/${encodeURIComponent('工作')}/${mode === 'legacy' ? 'aunt' : 'Aunt'}%20May`,
        'svc://sessions/other/users',
      ]
      if (mode === 'auto') await client.listen({ resourceSubscriptions: spelt, resourcesListChanged: true })
      else for (const uri of spelt) await client.subscribeResource({ uri })
      expect(d.listening.size).toBe(1)

      // Somebody new: the list is another one.
      await d.t.sandbox.say('hi', { from: await d.t.sandbox.addUser('new'), to: bot_id })
      await d.t.until('the list is told', () => heard.includes('list') && heard.length >= 2)
      expect(heard.splice(0).sort()).toEqual(['list', 'svc://inbox'])
      await d.t.sandbox.say('hi', { from: user_id, to: bot_id })
      await d.t.until('all is told', () => heard.length >= 5)
      expect(heard.sort()).toEqual(spelt.slice(0, 5).sort())

      if (mode === 'legacy') await transport.terminateSession()
      await client.close()
      await d.t.until('nobody listens', () => d.listening.size === 0)
    })

  test('a store that does not answer holds up no client that listens', async () => {
    await using d = await withDoor(new Promise(() => {}))
    const { client } = await d.connect('auto')
    await client.listen({ resourceSubscriptions: ['svc://inbox'] })
    expect(d.listening.size).toBe(1)
    await client.close()
    await d.t.until('nobody listens', () => d.listening.size === 0)
  })

  test('many listeners of one process are told by one follower', async () => {
    await using d = await withDoor()
    const clients = await Promise.all(Array.from({ length: 5 }, () => d.connect('auto')))
    await Promise.all(clients.map(({ client }) => client.listen({ resourceSubscriptions: ['svc://inbox'] })))
    let followers = 0
    const { changes } = d.t.gateway
    const subscribe = changes.subscribe.bind(changes)
    changes.subscribe = listener => {
      followers++
      return subscribe(listener)
    }
    await d.t.sandbox.say('hi')
    await d.t.until('all have heard', () => clients.every(({ heard }) => heard.includes('svc://inbox')))
    // It was there before; nobody began another one.
    expect(followers).toBe(0)
    for (const { client } of clients) await client.close()
    await d.t.until('nobody listens', () => d.listening.size === 0)
    const again = await d.connect('auto')
    await again.client.listen({ resourceSubscriptions: ['svc://inbox'] })
    expect(followers).toBe(1)
    await again.client.close()
  })
})
