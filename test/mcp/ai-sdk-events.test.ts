/** The AI SDK subscribes to events, checks them, renews and ends its subscription: unchanged, over https on loopback. */
import { expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { createMCPClient, experimental_createMCPEventWebhook as createMCPEventWebhook } from '@ai-sdk/mcp'
import { owner } from '../../src/model/principal.ts'
import { makeCertificate } from '../support/events-receiver.ts'
import { withGateway } from '../support/gateway.ts'
import { startDoor } from '../support/mcp-door.ts'
import type { Json } from '../support/mcp-events.ts'

/** The subscriptions of the client, as an application keeps them. */
function createStore() {
  const all = new Map<string, Json>()
  return {
    all,
    get: async (key: string) => all.get(key),
    getById: async (id: string) => [...all.values()].find(one => one.id === id),
    set: async (one: Json) => void all.set(one.key, one),
    update: async (key: string, patch: Json) => void all.set(key, { ...all.get(key), ...patch }),
    delete: async (key: string) => void all.delete(key),
  }
}

test('@ai-sdk/mcp subscribes, verifies, renews and unsubscribes', async () => {
  const { caFile, cert, folder, key: tlsKey } = makeCertificate()
  const store = createStore()
  const heard: Json[] = []
  const ended: Json[] = []
  const failures: unknown[] = []
  const handle = createMCPEventWebhook({
    store,
    onEvent: async ({ event }) => void heard.push(event),
    onTerminated: async ({ termination }) => void ended.push(termination),
    onError: error => failures.push(error),
  })
  const server = Bun.serve({ hostname: '127.0.0.1', port: 0, tls: { cert, key: tlsKey }, fetch: handle })
  const prefix = `https://127.0.0.1:${server.port}/`
  const config = { eventsCallback: [prefix], eventsCallbackCa: caFile }
  await using t = await withGateway({ config })
  await using door = await startDoor({ gateway: t.gateway })
  const { id, key } = await t.gateway.keys.add({ name: 'sdk', can: ['recv', 'events', 'webhooks'] }, owner)
  const client = await createMCPClient({
    transport: { type: 'http', url: door.url, headers: { authorization: `Bearer ${key}` } },
    experimental_events: { store },
  })
  const events = client.experimental_events
  try {
    const { events: types } = await events.list()
    expect(types.map(({ name }) => name)).toContain('message.received')
    const delivery = { mode: 'webhook', url: `${prefix}hook` } as const
    const made = await events.subscribe({ name: 'message.received', delivery, ttlMs: 600_000 })
    await t.sandbox.say('wake up')
    await t.soon('woken', () => heard.length > 0)
    expect(heard).toMatchObject([{ name: 'message.received', data: { text: 'wake up' } }])
    const before = [...store.all.values()][0].refreshBefore
    t.clock.advance(60_000)
    expect((await events.refresh({ id: made.id })).refreshBefore! > before).toBe(true)
    await t.sandbox.say('again')
    await t.soon('woken again', () => heard.length > 1)
    await events.unsubscribe({ id: made.id })
    expect(await t.gateway.webhooks.list(owner)).toEqual([])
    await events.subscribe({ name: 'message.received', delivery })
    await t.gateway.keys.revoke(id, owner)
    await t.soon('ended', () => ended.length > 0)
    expect(ended).toMatchObject([{ error: { code: -32024 } }])
    expect(failures).toEqual([])
  } finally {
    await client.close()
    await server.stop(true)
    rmSync(folder, { recursive: true })
  }
})
