/** MCP Events by webhook, as SEP-3415 describes them, with a client and a callback that were written from its text alone. */
import { expect, test } from 'bun:test'
import { owner } from '../../src/model/principal.ts'
import { eventsReceiver, newSecret } from '../support/events-receiver.ts'
import { failure } from '../support/failure.ts'
import { changeIn, rowsIn, withGateway } from '../support/gateway.ts'
import { startDoor } from '../support/mcp-door.ts'
import { EventsClient, type Json } from '../support/mcp-events.ts'

const received = 'message.received'

/** @param beside the door is that of another process, which does not poll, and alone knows what is allowed */
async function withCallback({ beside = false } = {}) {
  await using stack = new AsyncDisposableStack()
  const secret = newSecret()
  const secrets = [secret]
  const hook = stack.use(eventsReceiver(secrets))
  const config = { eventsCallback: [hook.prefix], eventsCallbackCa: hook.caFile }
  const poller = beside && stack.use(await withGateway({ sessions: ['work'] }))
  const t = stack.use(
    poller ? await poller.beside({ config }) : await withGateway({ sessions: ['work'], config }),
  )
  const door = stack.use(
    await startDoor({ gateway: t.gateway, config: { token: 'master-token-of-the-test' } }),
  )
  const keyed = async (can: Json, more: object = {}) => {
    const made = await t.gateway.keys.add({ name: `key ${Math.random()}`, can, ...more }, owner)
    const headers = { authorization: `Bearer ${made.key}` }
    return { id: made.id, headers, client: new EventsClient(door.url, headers) }
  }
  const { id: keyId, ...own } = await keyed(['events', 'webhooks'])
  const { client } = own
  const request = (more: object = {}) => ({
    name: received,
    arguments: {},
    delivery: { mode: 'webhook', url: hook.url, secret },
    ...more,
  })
  const subscribe = (more: object = {}) => client.call('events/subscribe', request(more))
  /** The look that sees another subscription has seen all changes before it. */
  const waitForLook = async () => {
    const other = { arguments: { words: ['look'] } }
    const { id } = await subscribe(other)
    await t.sandbox.say('look')
    await t.until('the look', () => hook.events().some(({ subscription }) => subscription === id))
    await client.call('events/unsubscribe', request(other))
  }
  const opened = stack.move()
  return {
    ...own,
    poller: poller || t,
    ...{ t, door, hook, secret, secrets, client, keyId, keyed, request, subscribe, waitForLook },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}

test('a callback is asked once, and gets what happens, signed', async () => {
  await using s = await withCallback()
  const [type] = (await s.client.call('events/list')).events
  expect(type.delivery).toEqual(['poll', 'push', 'webhook'])
  const before = Date.now()
  const made = await s.subscribe({ ttlMs: 3_600_000 })
  expect(made).toMatchObject({ resultType: 'complete', truncated: false })
  expect(Date.parse(made.refreshBefore)).toBeGreaterThan(before)
  expect(s.hook.got.map(({ body, subscription }) => [body.type, subscription])).toEqual([
    ['verification', made.id],
  ])
  await s.t.sandbox.say('hello')
  const [event] = await s.t.until('delivered', () => s.hook.events().length > 0 && s.hook.events())
  expect(event).toMatchObject({ subscription: made.id, body: { name: received, data: { text: 'hello' } } })
  expect(event!.id).toBe(event!.body.eventId)
  expect(event!.body.cursor).toBe(event!.body.eventId)
  expect(event!.id).not.toInclude('.')
  await s.subscribe({ arguments: { words: ['x'] } })
  expect(s.hook.ofType('verification')).toHaveLength(1)
})

test('a renewal keeps the subscription, and says how its deliveries go', async () => {
  await using s = await withCallback()
  const made = await s.subscribe()
  await s.t.sandbox.say('one')
  await s.t.until('delivered', () => s.hook.events().length === 1)
  const renewed = await s.t.until('stored', async () => {
    const { deliveryStatus, ...rest } = await s.subscribe({ ttlMs: null, cursor: made.cursor })
    return deliveryStatus.lastDeliveryAt !== null && { deliveryStatus, ...rest }
  })
  expect(renewed).toMatchObject({ id: made.id, deliveryStatus: { active: true, lastError: null } })
  expect(Date.parse(renewed.refreshBefore) - Date.parse(made.refreshBefore)).toBeGreaterThan(20 * 3_600_000)
  expect(renewed.cursor).not.toBe(made.cursor)
  expect(s.hook.events()).toHaveLength(1)
})

test('the process that polls delivers to a callback that another one allowed, until that one no longer does', async () => {
  await using s = await withCallback({ beside: true })
  const made = await s.subscribe()
  await s.t.sandbox.say('hello')
  const [event] = await s.t.until('delivered', () => s.hook.events().length > 0 && s.hook.events())
  expect(event).toMatchObject({ subscription: made.id, body: { data: { text: 'hello' } } })
  expect((await s.poller.gateway.webhooks.list(owner)).map(one => one.allow_private)).toEqual([true])
  // A service that was started without the option renews it.
  await using door = await startDoor({ gateway: s.poller.gateway })
  await new EventsClient(door.url, s.headers).call('events/subscribe', s.request())
  await s.t.sandbox.say('too late')
  await s.poller.soon('not delivered', async () =>
    (await s.poller.gateway.webhooks.list(owner)).some(one => one.last_error_code === 'forbidden'),
  )
  expect(s.hook.events()).toHaveLength(1)
})

test('a new secret signs beside the old one', async () => {
  await using s = await withCallback()
  await s.subscribe()
  const next = newSecret()
  await s.subscribe({ delivery: { mode: 'webhook', url: s.hook.url, secret: next } })
  await s.waitForLook()
  await s.t.sandbox.say('signed twice')
  const event = await s.t.until('delivered', () =>
    s.hook.events().find(({ body }) => body.data.text === 'signed twice'),
  )
  expect(event.headers.get('webhook-signature')!.split(' ')).toHaveLength(2)
})

test('410 and 413 end one delivery, and nothing else', async () => {
  await using s = await withCallback()
  await s.subscribe()
  const refused: Json[] = []
  s.hook.answer = ({ body }) => {
    if (!/^no/.test(body.data.text)) return 204
    refused.push(body.data.text)
    return body.data.text === 'no 1' ? 410 : 413
  }
  for (const text of ['no 1', 'no 2', 'yes']) await s.t.sandbox.say(text)
  await s.t.until('the next', () => s.hook.events().length === 1)
  expect(refused).toEqual(['no 1', 'no 2'])
  expect(await s.t.gateway.webhooks.list(owner)).toMatchObject([{ status: 'active' }])
})

test('what failed comes again, and a renewal tries it at once', async () => {
  await using s = await withCallback()
  await s.subscribe()
  let isUp = false
  s.hook.answer = () => (isUp ? 204 : 500)
  await s.t.sandbox.say('later')
  const failing = await s.t.until('failing', async () => {
    const { deliveryStatus } = await s.subscribe()
    return deliveryStatus.lastError !== null && deliveryStatus
  })
  expect(failing).toMatchObject({ lastError: 'http_5xx' })
  isUp = true
  await s.subscribe()
  await s.t.until('delivered', () => s.hook.events().length === 1)
})

test('a renewal tries one event at once, also while those of other people arrive', async () => {
  await using s = await withCallback()
  await s.subscribe()
  const other = await s.t.sandbox.addUser()
  let isUp = false
  let tries = 0
  s.hook.answer = ({ body }) => {
    if (body.data.text !== 'first') return 204
    tries += 1
    return isUp ? 204 : 500
  }
  await s.t.sandbox.say('first')
  await s.t.until('tried', () => tries > 0)
  await s.t.sandbox.say('of another person', { from: other })
  const waits = () => rowsIn(s.t.dir, 'SELECT * FROM webhook_lane WHERE retry_at > 0')
  await s.t.until('one event waits, and the endpoint works', async () => {
    const [endpoint] = await s.t.gateway.webhooks.list(owner)
    const isOneHeard = s.hook.events().length === 1 && endpoint?.failing_since === undefined
    return isOneHeard && (await waits()).length === 1
  })
  isUp = true
  await s.subscribe()
  expect(await waits()).toEqual([])
  await s.t.until('delivered', () => s.hook.events().length === 2)
})

test('a subscription ends when its client ends it, or does not renew it', async () => {
  await using s = await withCallback()
  const gone = { code: -32023, data: { kind: 'subscription' } }
  await s.subscribe()
  expect(await s.client.call('events/unsubscribe', s.request())).toMatchObject({ resultType: 'complete' })
  expect(await failure(s.client.call('events/unsubscribe', s.request()))).toMatchObject(gone)
  await s.subscribe({ ttlMs: 1 })
  s.t.clock.advance(61_000)
  await s.t.until('gone', async () => (await s.t.gateway.webhooks.list(owner)).length === 0)
  expect(await failure(s.client.call('events/unsubscribe', s.request()))).toMatchObject(gone)
  await s.t.sandbox.say('nobody hears')
  await s.t.receive(1)
  expect(s.hook.events()).toEqual([])
})

test('the end of a key is told once, and nothing comes after it', async () => {
  await using s = await withCallback()
  const { id } = await s.subscribe()
  await s.t.gateway.keys.revoke(s.keyId, owner)
  await s.t.until('told', () => s.hook.ofType('terminated').length > 0)
  expect(s.hook.ofType('terminated')).toMatchObject([{ subscription: id, body: { error: { code: -32024 } } }])
  expect(s.hook.ofType('terminated')[0]!.id).toStartWith('msg_terminated_')
  await s.t.sandbox.say('unheard')
  await s.t.receive(1)
  expect(await s.t.gateway.webhooks.list(owner)).toEqual([])
  expect(s.hook.events()).toEqual([])
})

test('a renewal never undoes what a person did', async () => {
  await using s = await withCallback()
  await s.subscribe()
  const [{ id } = { id: '' }] = await s.t.gateway.webhooks.list(owner)
  await s.t.gateway.webhooks.pause(owner, id)
  expect(await s.subscribe()).toMatchObject({ deliveryStatus: { active: false } })
  expect(await s.t.gateway.webhooks.get(owner, id)).toMatchObject({ status: 'paused' })
  expect(await failure(s.t.gateway.webhooks.rotate(owner, id))).toMatchObject({ code: 'forbidden' })
  await s.t.gateway.webhooks.remove(owner, id)
  expect(await failure(s.subscribe())).toMatchObject({ code: -32024 })
  expect(await s.t.gateway.webhooks.list(owner)).toEqual([])
  await s.t.until('told', () => s.hook.ofType('terminated').length === 1)
})

test('a subscription goes on from a cursor, and says when its place is gone', async () => {
  await using s = await withCallback()
  const { cursor } = await s.client.poll(received)
  await s.t.sandbox.say('missed')
  await s.t.receive(1)
  expect(await s.subscribe({ cursor })).toMatchObject({ cursor, truncated: false })
  await s.t.until('delivered', () => s.hook.events().length === 1)
  const lost = await s.subscribe({ cursor: 'other-1', arguments: { words: ['missed'] } })
  expect(lost).toMatchObject({ truncated: true })
  await s.t.until('delivered', () => s.hook.events().length === 2)
})

test('a log that was shortened between renewals is announced', async () => {
  await using s = await withCallback()
  await s.subscribe()
  const [{ id } = { id: '' }] = await s.t.gateway.webhooks.list(owner)
  await s.t.gateway.webhooks.pause(owner, id)
  await s.waitForLook()
  for (const text of ['one', 'two', 'three']) await s.t.sandbox.say(text)
  await s.t.receive(4)
  await changeIn(s.t.dir, 'DELETE FROM message WHERE id <= 3')
  expect(await s.subscribe()).toMatchObject({ truncated: true })
  await s.t.gateway.webhooks.resume(owner, id)
  const texts = () => s.hook.events().map(({ body }) => body.data.text)
  await s.t.until('the rest', () => texts().includes('three'))
  const [gap] = s.hook.ofType('gap')
  expect(gap!.id).toStartWith('msg_gap_')
  expect(texts().filter(text => text !== 'look')).toEqual(['three'])
  expect(await s.client.poll(received, gap!.body.cursor)).toMatchObject({ truncated: false })
})

test('challenges to one host are bounded, whoever asks', async () => {
  await using s = await withCallback()
  s.hook.echo = () => new Response(null, { status: 500 })
  const reasons = new Map<string, number>()
  for (let nth = 0; nth < 12; nth++) {
    const arguments_ = { words: [`w${nth}`] }
    // Other ports are the same host.
    const delivery = { ...s.request().delivery, ...(nth >= 10 && { url: `https://127.0.0.1:${nth}/` }) }
    const { data } = (await failure(s.subscribe({ arguments: arguments_, delivery }))) as Json
    const reason = data.reason ?? data.limit
    reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
  }
  expect(Object.fromEntries(reasons)).toEqual({ http_5xx: 10, challenges: 2 })
})

const refused: [what: string, change: object, expected: object][] = [
  ['http', { delivery: { url: 'http://127.0.0.1:1/' } }, { code: -32602 }],
  ['a user name', { delivery: { url: 'https://a:b@1.1.1.1/' } }, { code: -32602 }],
  ['no secret', { delivery: { secret: undefined } }, { code: -32602 }],
  ['a short secret', { delivery: { secret: newSecret(23) } }, { code: -32602 }],
  ['a long secret', { delivery: { secret: newSecret(65) } }, { code: -32602 }],
  ['another secret', { delivery: { secret: `x${newSecret()}` } }, { code: -32602 }],
  ['another mode', { delivery: { mode: 'push' } }, { code: -32026, data: { feature: 'deliveryMode' } }],
  ['an unknown type', { name: 'no.such' }, { code: -32023, data: { kind: 'event' } }],
  ['unknown arguments', { arguments: { a: 1 } }, { code: -32602 }],
  [
    'a private address',
    { delivery: { url: 'https://10.0.0.1/' } },
    { code: -32027, data: { reason: 'connection_refused' } },
  ],
  ['a port that nobody serves', { delivery: { url: 'https://127.0.0.1:1/' } }, { code: -32027 }],
]

test('what the extension refuses', async () => {
  await using s = await withCallback()
  const delivery = { mode: 'webhook', url: s.hook.url, secret: s.secret }
  for (const [what, change, expected] of refused) {
    const asked = s.request({ ...change, delivery: { ...delivery, ...(change as Json).delivery } })
    expect([what, await failure(s.client.call('events/subscribe', asked))]).toMatchObject([what, expected])
  }
  expect(s.hook.got).toEqual([])
  for (const [echo, reason] of [
    [() => Response.json({ challenge: 'x' }), 'challenge_failed'],
    [() => new Response('secret words', { status: 403 }), 'http_4xx'],
    [() => Response.redirect('https://1.1.1.1/'), 'http_4xx'],
  ] as const) {
    s.hook.echo = echo
    expect(await failure(s.subscribe())).toMatchObject({ code: -32027, data: { reason } })
  }
  expect(await s.t.gateway.webhooks.list(owner)).toEqual([])
})

test('who may not subscribe', async () => {
  await using s = await withCallback()
  const { client } = await s.keyed(['events'])
  expect((await client.call('events/list')).events[0].delivery).toEqual(['poll', 'push'])
  expect(await failure(client.call('events/subscribe', s.request()))).toMatchObject({ code: -32024 })
  expect(await failure(client.call('events/unsubscribe', s.request()))).toMatchObject({ code: -32024 })
  const master = new EventsClient(s.door.url, { authorization: 'Bearer master-token-of-the-test' })
  await master.call('events/subscribe', s.request())
  // The key of another caller finds no subscription of the owner.
  expect(await failure(s.client.call('events/unsubscribe', s.request()))).toMatchObject({ code: -32023 })
})

test('a key gets what is within its grant', async () => {
  await using s = await withCallback()
  const ann = s.t.bots.get('work')!.user_id
  const bob = await s.t.sandbox.addUser('Bob')
  const { client } = await s.keyed(['events', 'webhooks'], { users: [ann] })
  await client.call('events/subscribe', s.request())
  const foreign = s.request({ arguments: { person: bob } })
  expect(await failure(client.call('events/subscribe', foreign))).toMatchObject({ code: -32602 })
  await s.t.sandbox.say('from Bob', { from: bob })
  await s.t.sandbox.say('from Ann', { from: ann })
  await s.t.until('delivered', () => s.hook.events().length > 0)
  expect(s.hook.events().map(({ body }) => body.data.text)).toEqual(['from Ann'])
})

test('a key has a bounded number of subscriptions', async () => {
  await using s = await withCallback()
  for (let nth = 0; nth < 20; nth++) await s.subscribe({ arguments: { words: [`w${nth}`] } })
  expect(await failure(s.subscribe())).toMatchObject({
    code: -32025,
    data: { limit: 'subscriptions', max: 20 },
  })
  expect(s.hook.ofType('verification')).toHaveLength(1)
})
