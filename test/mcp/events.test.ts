/** MCP Events by poll and push, as SEP-3415 describes them, with a client that was written from its text alone. */
import { describe, expect, test } from 'bun:test'
import { PassThrough } from 'node:stream'
import { serveMcpStdio } from '../../src/mcp/stdio.ts'
import { owner, stdio } from '../../src/model/principal.ts'
import { failure } from '../support/failure.ts'
import { changeIn, withGateway } from '../support/gateway.ts'
import { sharedOver, startDoor } from '../support/mcp-door.ts'
import { EventsClient, type Json } from '../support/mcp-events.ts'
import { modernMeta, openSession } from '../support/mcp-raw.ts'

const received = 'message.received'

async function withEvents() {
  await using stack = new AsyncDisposableStack()
  const t = stack.use(await withGateway({ sessions: ['work'] }))
  const door = stack.use(await startDoor({ gateway: t.gateway }))
  const opened = stack.move()
  return { t, door, client: new EventsClient(door.url), [Symbol.asyncDispose]: () => opened.disposeAsync() }
}

const textsOf = ({ events }: Json) => events.map(({ data }: Json) => data.text)

test('the extension is advertised in both eras', async () => {
  await using s = await withEvents()
  const { capabilities } = await s.client.call('server/discover')
  expect(capabilities.extensions['io.modelcontextprotocol/events']).toEqual({})
  expect(capabilities.events).toEqual({})
  const session = await openSession(s.door.url)
  expect((await new EventsClient(s.door.url, {}, session).call('events/list')).events.length).toBeGreaterThan(
    3,
  )
})

test('events/list describes each type', async () => {
  await using s = await withEvents()
  const list = await s.client.call('events/list')
  expect(list.resultType).toBe('complete')
  const [type] = list.events.filter(({ name }: Json) => name === received)
  expect(type.delivery).toEqual(['poll', 'push'])
  expect(Object.keys(type.inputSchema.properties)).toEqual(['account', 'person', 'kinds', 'words'])
  expect(type.payloadSchema.properties.text.description).toStartWith('Untrusted')
})

const errors: [what: string, method: string, params: object, expected: object][] = [
  ['an unknown type', 'events/poll', { name: 'no.such' }, { code: -32023, data: { kind: 'event' } }],
  ['no name', 'events/poll', {}, { code: -32602 }],
  ['an unknown argument', 'events/poll', { name: received, arguments: { a: 1 } }, { code: -32602 }],
  ['a wrong argument', 'events/poll', { name: received, arguments: { kinds: ['X'] } }, { code: -32602 }],
  ['an unknown account', 'events/poll', { name: received, arguments: { account: 'no' } }, { code: -32602 }],
  ['a cursor that is none', 'events/poll', { name: received, cursor: '0' }, { code: -32602 }],
  ['a stream of an unknown type', 'events/stream', { name: 'no.such' }, { code: -32023 }],
  [
    'a subscription of nobody',
    'events/subscribe',
    { name: received, delivery: { url: 'https://1.1.1.1/', secret: 'whsec_' } },
    { code: -32024 },
  ],
  ['an unknown method', 'events/nothing', {}, { code: -32601 }],
]

test('errors are those of the extension', async () => {
  await using s = await withEvents()
  for (const [what, method, params, expected] of errors)
    expect([what, await failure(s.client.call(method, params))]).toMatchObject([what, expected])
})

test('a wrong argument is named as events have it, and the advice names no tool', async () => {
  await using s = await withEvents()
  for (const [params, field] of [
    [{ arguments: { person: 'Nobody' } }, 'person: '],
    [{ arguments: { account: 'no' } }, '"no"'],
    [{ cursor: '0' }, 'cursor: '],
  ] as const) {
    const { message } = await failure(s.client.call('events/poll', { name: received, ...params }))
    expect(message).toContain(field)
    if (field === 'cursor: ') expect(message).toMatch(/events\/list/)
    expect(message).not.toMatch(/\btool\b/)
  }
})

describe('poll', () => {
  test('begins now, and reads on from its cursor, in bounded parts', async () => {
    await using s = await withEvents()
    await s.t.sandbox.say('before')
    await s.t.receive(1)
    const begun = await s.client.poll(received)
    expect(begun).toMatchObject({ resultType: 'complete', events: [], truncated: false, hasMore: false })
    expect(begun.nextPollMs).toBeGreaterThanOrEqual(1000)
    for (const text of ['one', 'two', 'three']) await s.t.sandbox.say(text)
    await s.t.receive(3)
    const first = await s.client.poll(received, begun.cursor, { maxEvents: 2 })
    expect(first).toMatchObject({ hasMore: true })
    expect(textsOf(first)).toEqual(['one', 'two'])
    const rest = await s.client.poll(received, first.cursor)
    expect(rest).toMatchObject({ hasMore: false, truncated: false })
    expect(textsOf(rest)).toEqual(['three'])
    expect(textsOf(await s.client.poll(received, first.cursor))).toEqual(['three'])
    expect(textsOf(await s.client.poll(received, rest.cursor))).toEqual([])
  })

  test('arguments narrow it, and the cursor moves past what they leave out', async () => {
    await using s = await withEvents()
    const { cursor } = await s.client.poll(received)
    await s.t.sandbox.say('Red apples')
    await s.t.sandbox.say('green pears')
    await s.t.receive(2)
    const { client } = s
    const polled = (wanted: object) => client.poll(received, cursor, { arguments: wanted })
    expect(textsOf(await polled({ words: ['RED', 'apple'] }))).toEqual(['Red apples'])
    expect(textsOf(await polled({ kinds: ['IMAGE'] }))).toEqual([])
    expect(textsOf(await polled({ kinds: ['TEXT'], account: 'work' }))).toHaveLength(2)
    const { cursor: after } = await polled({ words: ['grapes'] })
    expect(textsOf(await client.poll(received, after))).toEqual([])
  })

  test('a cursor whose place is gone, and an age, are answered with truncated', async () => {
    await using s = await withEvents()
    await s.t.sandbox.say('old')
    await s.t.receive(1)
    const { cursor } = await s.client.poll(received)
    const foreign = `other${cursor.slice(cursor.indexOf('-'))}`
    const lost = await s.client.poll(received, foreign)
    expect(lost.truncated).toBe(true)
    expect(lost.cursor).not.toBe(foreign)
    expect(await s.client.poll(received, lost.cursor)).toMatchObject({ truncated: false })
    await s.t.sandbox.say('later')
    await s.t.receive(1)
    s.t.clock.advance(60_000)
    const aged = await s.client.poll(received, cursor, { maxAgeMs: 1000 })
    expect(aged).toMatchObject({ events: [], truncated: true })
    expect(textsOf(await s.client.poll(received, cursor, { maxAgeMs: 3_600_000 }))).toEqual(['later'])
  })
})

test('a log that was shortened is answered with truncated, and what is left comes', async () => {
  await using s = await withEvents()
  const { cursor } = await s.client.poll(received)
  for (const text of ['one', 'two', 'three']) await s.t.sandbox.say(text)
  await s.t.receive(3)
  await changeIn(s.t.dir, 'DELETE FROM message WHERE id <= 2')
  const polled = await s.client.poll(received, cursor)
  expect([polled.truncated, textsOf(polled)]).toEqual([true, ['three']])
  await using stream = await s.client.stream({ name: received, cursor })
  expect(await stream.nextOf('active')).toMatchObject({ truncated: true })
  expect(await stream.nextOf('event')).toMatchObject({ data: { text: 'three' } })
})

describe('push', () => {
  test('confirms first, sends what happens, and goes on from a cursor', async () => {
    await using s = await withEvents()
    const sessions = [undefined, await openSession(s.door.url), {}]
    for (const session of sessions) {
      const client = new EventsClient(s.door.url, {}, session)
      await using stream = await client.stream({ name: received })
      const active = await stream.next()
      expect(active).toMatchObject({
        method: 'notifications/events/active',
        params: { truncated: false, _meta: { 'io.modelcontextprotocol/subscriptionId': 1 } },
      })
      await s.t.sandbox.say('hello')
      const event = await stream.nextOf('event')
      expect(event).toMatchObject({ name: received, data: { text: 'hello' } })
      expect(event._meta).toEqual({ 'io.modelcontextprotocol/subscriptionId': 1 })
      // More than may be under way at a time.
      const missed = Array.from({ length: 20 }, (_, nth) => `missed ${nth}`)
      for (const text of missed) await s.t.sandbox.say(text)
      await using again = await client.stream({ name: received, cursor: event.cursor })
      for (const text of missed) expect(await again.nextOf('event')).toMatchObject({ data: { text } })
    }
  })

  test('a quiet stream shows its life, with a cursor that moves', async () => {
    await using s = await withEvents()
    await using stream = await s.client.stream({ name: received, arguments: { words: ['never'] } })
    const { cursor } = await stream.nextOf('active')
    await s.t.sandbox.say('other')
    await s.t.receive(1)
    const beat = stream.nextOf('heartbeat')
    const ticking = setInterval(() => s.t.clock.advance(1000), 20)
    expect((await beat.finally(() => clearInterval(ticking))).cursor).not.toBe(cursor)
  })

  test('a lost place is announced, and the stream goes on', async () => {
    await using s = await withEvents()
    await s.t.sandbox.say('first')
    await s.t.receive(1)
    await using stream = await s.client.stream({ name: received, cursor: 'other-5000000' })
    expect(await stream.nextOf('active')).toMatchObject({ truncated: true })
    expect(await stream.nextOf('event')).toMatchObject({ data: { text: 'first' } })
  })
})

test('stdio has push too, until the client cancels', async () => {
  await using s = await withEvents()
  const [input, output] = [new PassThrough(), new PassThrough()]
  const lines: Json[] = []
  output.on('data', chunk =>
    lines.push(
      ...String(chunk)
        .split('\n')
        .filter(Boolean)
        .map(line => JSON.parse(line)),
    ),
  )
  const server = serveMcpStdio({ ...sharedOver(s.t.gateway), by: stdio, local: true }, { input, output })
  const write = (message: object) => input.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  const textsSent = () =>
    lines.flatMap(({ method, params }) => (method?.endsWith('/event') ? params.data.text : []))
  write({ id: 1, method: 'events/stream', params: { name: received, _meta: modernMeta() } })
  await s.t.until('active', () => lines.some(({ method }) => method === 'notifications/events/active'))
  await s.t.sandbox.say('woken')
  await s.t.until('woken', () => textsSent().length === 1)
  write({ method: 'notifications/cancelled', params: { requestId: 1, _meta: modernMeta() } })
  write({ id: 2, method: 'events/list', params: { _meta: modernMeta() } })
  await s.t.until('the next answer', () => lines.some(({ id }) => id === 2))
  const [{ delivery }] = lines.find(({ id }) => id === 2).result.events
  expect(delivery).toEqual(['poll', 'push'])
  await s.t.sandbox.say('unheard')
  await s.t.receive(2)
  expect(textsSent()).toEqual(['woken'])
  await server.close()
})

test('a key sees its own people alone, and is told when it ends', async () => {
  await using s = await withEvents()
  const { t, door } = s
  const ann = t.bots.get('work')!.user_id
  const bob = await t.sandbox.addUser('Bob')
  await t.sandbox.say('hi', { from: bob })
  await t.receive(1)
  const { key, id } = await t.gateway.keys.add({ name: 'a', can: ['events'], users: [ann] }, owner)
  const client = new EventsClient(door.url, { authorization: `Bearer ${key}` })
  expect((await client.call('events/list')).events.map(({ name }: Json) => name)).toEqual([
    received,
    'message.status',
  ])
  await using stream = await client.stream({ name: received })
  await stream.nextOf('active')
  await t.sandbox.say('from Bob', { from: bob })
  await t.sandbox.say('from Ann', { from: ann })
  expect(await stream.nextOf('event')).toMatchObject({ data: { text: 'from Ann' } })
  await t.gateway.keys.revoke(id, owner)
  const ticking = setInterval(() => t.clock.advance(1000), 20)
  const ended = await stream.nextOf('terminated').finally(() => clearInterval(ticking))
  expect(ended).toMatchObject({ error: { code: -32024 } })
})

test('a key without the right, and a service without the tools, are offered nothing', async () => {
  await using s = await withEvents()
  const { key } = await s.t.gateway.keys.add({ name: 'a', can: ['recv'] }, owner)
  const client = new EventsClient(s.door.url, { authorization: `Bearer ${key}` })
  expect((await client.call('server/discover')).capabilities.extensions).toBeUndefined()
  expect(await failure(client.call('events/list'))).toMatchObject({ code: -32601 })
  await using bare = await startDoor({ gateway: s.t.gateway, tools: [] })
  const limited = new EventsClient(bare.url, { authorization: `Bearer ${key}` })
  expect(await failure(limited.poll(received))).toMatchObject({ code: -32601 })
})
