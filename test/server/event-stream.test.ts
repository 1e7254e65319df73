/** `GET /events`: what a reader sees, over any number of connections. */
import { expect, test } from 'bun:test'
import type { Gateway } from '../../src/gateway/gateway-api.ts'
import type { Scope } from '../../src/model/access.ts'
import { eventTypes } from '../../src/model/event.ts'
import { owner } from '../../src/model/principal.ts'
import { parse } from '../../src/operations/parse.ts'
import { receiver } from '../push/receiver.ts'
import { eventSource } from '../support/event-source.ts'
import { failure } from '../support/failure.ts'
import { type TestBot, withGateway } from '../support/gateway.ts'
import { restOf } from '../support/rest.ts'
import { cutAndResume, writer } from './cut-streams.ts'

test('what happens comes as it happens: received, queued, sent; as recv and history give it', async () => {
  await using t = await withGateway()
  await using rest = await restOf(t.gateway)
  await using stream = await eventSource(`${rest.url}/events?types=message.received,message.status`)
  expect(stream.response.headers.get('content-type')).toBe('text/event-stream')
  await t.sandbox.say('hi')
  const [first] = await t.receive(1)
  const received = (await stream.next())!
  expect(received.data).toEqual({
    ...{ id: received.id, type: 'message.received', data: first },
    timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
  })
  await t.send({ text: 'hello' })
  const { data: sent } = (await stream.next())!
  expect(sent).toMatchObject({ type: 'message.status', data: { status: 'accepted', text: 'hello' } })
  const { messages } = await t.gateway.history.page({ limit: 1, offset: 0 })
  expect(sent.data).toEqual(messages[0])
  expect(JSON.stringify([received, sent])).not.toContain('context_token')
})

test('a reader with a key leaves the others what it may not see itself', async () => {
  await using t = await withGateway()
  const token = 'correct-horse-battery-staple'
  await using rest = await restOf(t.gateway, { token })
  const { user_id } = t.bots.get('default')!
  const add = (name: string, users: string[]) => t.gateway.keys.add({ name, can: ['read'], users }, owner)
  const [few, own] = [await add('few', ['nobody@im.wechat']), await add('own', [user_id])]
  const open = (key: string) => eventSource(`${rest.url}/events`, { authorization: `Bearer ${key}` })
  await using first = await open(few.key)
  await using ofUser = await open(own.key)
  await using all = await open(token)
  await t.sandbox.say('hi')
  for (const stream of [ofUser, all])
    expect((await stream.next())?.data).toMatchObject({ type: 'message.received', data: { text: 'hi' } })
  await t.gateway.keys.revoke(few.id, owner)
  expect(await first.next()).toBeUndefined()
  await t.sandbox.say('again')
  for (const stream of [ofUser, all]) expect((await stream.next())?.data.data.text).toBe('again')
})

test('the reader of one session goes on after a rename, and gets nothing of the account that gets its name', async () => {
  await using t = await withGateway({ sessions: ['default', 'other'] })
  await using rest = await restOf(t.gateway)
  // From the start: the node may tell only now that the session is connected.
  await using stream = await eventSource(`${rest.url}/events?after=0&session=default`)
  const connected = { name: 'default', change: 'connected' }
  expect((await stream.next())?.data).toMatchObject({ type: 'session.status', data: connected })
  const { accounts } = t.gateway
  await accounts.rename('default', 'shop')
  const renamed = { name: 'shop', change: 'renamed', previous_name: 'default' }
  expect((await stream.next())?.data).toMatchObject({ type: 'session.status', data: renamed })
  await accounts.rename('other', 'default')
  const [first, second] = [...t.bots.values()]
  await t.sandbox.say('not mine', { from: second!.user_id, to: second!.bot_id })
  await t.sandbox.say('mine', { from: first!.user_id, to: first!.bot_id })
  expect((await stream.next())?.data).toMatchObject({ data: { text: 'mine', session: 'shop' } })
})

test('the reader of one session gets what is logged between its rename and the event of that', async () => {
  await using t = await withGateway({ sessions: ['default', 'other'] })
  await using rest = await restOf(t.gateway)
  await using stream = await eventSource(`${rest.url}/events?session=default&types=message.received`)
  const [first, second] = [...t.bots.values()]
  const say = async (text: string, { user_id, bot_id }: TestBot) => {
    await t.sandbox.say(text, { from: user_id, to: bot_id })
    expect((await t.receive(1)).map(message => message.text)).toEqual([text])
  }
  await say('before', first!)
  expect((await stream.next())?.data).toMatchObject({ data: { text: 'before', session: 'default' } })
  // Nothing tells this process, as if another one had renamed them.
  await t.other.sessions.rename('default', 'shop')
  await t.other.sessions.rename('other', 'default')
  await say('not mine', second!)
  await say('mine', first!)
  expect((await stream.next())?.data).toMatchObject({ data: { text: 'mine', session: 'shop' } })
})

test('a name that nobody has is refused, and one that a user has stands for the id', async () => {
  await using t = await withGateway()
  await using rest = await restOf(t.gateway)
  const { user_id } = t.bots.get('default')!
  await t.sandbox.say('hi')
  await t.receive(1)
  await t.gateway.users.name({ user_id, name: 'Mum' })
  for (const [query, code] of [
    ['session=nobody', 'session_not_found'],
    ['user=nobody', 'invalid_arguments'],
  ] as const) {
    const refused = await fetch(`${rest.url}/events?${query}`)
    expect(await refused.json()).toMatchObject({ code })
  }
  await using stream = await eventSource(`${rest.url}/events?after=0&session=DEFAULT&user=mum`)
  expect((await stream.next())?.data).toMatchObject({ type: 'message.received', data: { text: 'hi' } })
  // Logged out, it is known by what it left.
  await t.gateway.accounts.logout('default')
  await using left = await eventSource(`${rest.url}/events?after=0&session=default&types=message.received`)
  expect((await left.next())?.data.data.text).toBe('hi')
})

test('a reader reads on by the id it has seen, in header or query, and is given nothing twice', async () => {
  await using t = await withGateway({ start: false })
  await using rest = await restOf(t.gateway)
  await using log = await writer(t)
  await log.say('before')
  let lastId: string | undefined
  {
    await using stream = await eventSource(`${rest.url}/events`)
    // Its place comes with the first bytes, before any event.
    await t.until('the place is known', async () => {
      await log.say('now')
      return (await stream.next())?.data.data.text === 'now'
    })
    lastId = stream.lastId!
  }
  for (const nth of [1, 2, 3]) await log.say(`missed ${nth}`)
  for (const [query, headers] of [
    [`?after=${lastId}`, {}],
    ['', { 'last-event-id': lastId }],
    [`?after=${encodeURIComponent('unused-1')}`, { 'last-event-id': lastId }],
  ] as const) {
    await using stream = await eventSource(`${rest.url}/events${query}`, headers)
    for (const nth of [1, 2, 3]) expect((await stream.next())?.data.data.text).toBe(`missed ${nth}`)
  }
  for (const query of ['after=0', 'after=2000-01-01T00:00:00Z', 'after=0&consumer=whole']) {
    await using stream = await eventSource(`${rest.url}/events?types=message.received&${query}`)
    expect((await stream.next())?.data.data.text).toBe('before')
  }
  for (const query of ['after=x', 'after=0-99999999999999999', 'types=a', 'consumer=', 'what=1']) {
    const response = await fetch(`${rest.url}/events?${query}`)
    expect([query, response.status, (await response.json()).code]).toEqual([query, 422, 'invalid_arguments'])
  }
})

test('a reader whose place is lost is told, and goes on with the oldest that is kept', async () => {
  await using t = await withGateway({ start: false })
  await using rest = await restOf(t.gateway)
  await using log = await writer(t)
  await log.say('oldest')
  const place = '0123456789-5'
  for (const [query, headers] of [
    ['', { 'last-event-id': place }],
    [`&after=${place}`, {}],
    [`&consumer=away&after=${place}`, {}],
  ] as const) {
    await using stream = await eventSource(`${rest.url}/events?types=message.received${query}`, headers)
    expect(await stream.next()).toMatchObject({ event: 'gone', data: { after: place } })
    expect((await stream.next())?.data.data.text).toBe('oldest')
  }
})

test('a stream is narrowed by type, session and user, while it catches up and while it is live', async () => {
  await using t = await withGateway({ start: false })
  await using rest = await restOf(t.gateway)
  await using log = await writer(t)
  const from = await t.gateway.events.getHead()
  const all = async () => {
    await log.say('1', 'u@x')
    await log.say('2', 'v@x')
    await log.say('3', 'v@x', 'Work')
    await log.store.events.append([{ type: 'session.status', session: 'Work', data: { name: 'Work' } }])
  }
  await all()
  const seen = async (query: string, count: number) => {
    await using stream = await eventSource(`${rest.url}/events?after=${from}&${query}`)
    const told: string[] = []
    while (told.length < count) {
      const { data } = (await stream.next())!
      told.push(data.data.text ?? data.type)
      // From here on it is live.
      if (told.length === count / 2) await all()
    }
    return told.slice(count / 2)
  }
  expect(await seen('user=v@x', 4)).toEqual(['2', '3'])
  const before = await t.gateway.events.getHead()
  expect(before).not.toBe(from)
  await using sessions = await eventSource(`${rest.url}/events?after=${before}&types=session.status`)
  await using work = await eventSource(`${rest.url}/events?after=${before}&session=WORK`)
  await all()
  expect((await sessions.next())?.data.data).toEqual({ name: 'Work' })
  expect((await work.next())?.data.data.text).toBe('3')
  expect((await work.next())?.data.type).toBe('session.status')
})

test('a stream with a scope carries only what is in it, while it catches up and while it is live', async () => {
  await using t = await withGateway({ start: false })
  await using log = await writer(t)
  const { events } = t.gateway
  const happen = async (round: string) => {
    for (const bot of ['a', 'b'])
      for (const user of ['u', 'v']) await log.say(`${round} ${bot} ${user}`, user, 'Work', bot)
    for (const bot_id of ['a', 'b']) {
      const data = { name: 'Work', text: `${round} session ${bot_id}`, bot_id }
      await log.store.events.append([{ type: 'session.status', session: 'Work', data }])
    }
    const data = { text: `${round} endpoint` }
    await log.store.events.append([{ type: 'endpoint.disabled', data }])
  }
  const scopes: [Scope, string[]][] = [
    [{ bots: ['a'] }, ['a u', 'a v', 'session a']],
    [{ users: ['v'] }, ['a v', 'b v']],
    [{ bots: ['b'], users: ['u'] }, ['b u']],
    [{}, ['a u', 'a v', 'b u', 'b v', 'session a', 'session b']],
  ]
  for (const [scope, own] of scopes) {
    const resolveFilter: Gateway['events']['resolveFilter'] = filter =>
      events.resolveFilter({ ...filter, scope })
    const scoped: Gateway['events'] = {
      startReader: (...given) => events.startReader(...given),
      getHead: before => events.getHead(before),
      wait: (...given) => events.wait(...given),
      readPage: (...given) => events.readPage(...given),
      follow: (...given) => events.follow(...given),
      followSession: name => events.followSession(name),
      markActive: consumer => events.markActive(consumer),
      resolveFilter,
    }
    await using rest = await restOf({ ...t.gateway, events: scoped })
    const from = await events.getHead()
    await happen('missed')
    await using stream = await eventSource(`${rest.url}/events?after=${from}`)
    for (const round of ['missed', 'live', 'also live']) {
      if (round !== 'missed') await happen(round)
      for (const text of own) expect((await stream.next())?.data.data.text).toBe(`${round} ${text}`)
    }
  }
})

test('the place of a named reader is kept, and moves when it comes again with what it has seen', async () => {
  await using t = await withGateway({ start: false })
  await using rest = await restOf(t.gateway)
  await using log = await writer(t)
  const url = `${rest.url}/events?consumer=bot`
  const read = async (count: number, headers: Record<string, string> = {}) => {
    await using stream = await eventSource(url, headers)
    const texts: string[] = []
    while (texts.length < count) texts.push((await stream.next())!.data.data.text)
    return { texts, lastId: stream.lastId! }
  }
  await read(0)
  for (const text of ['1', '2', '3']) await log.say(text)
  const first = await read(2)
  expect(first.texts).toEqual(['1', '2'])
  // It never said that it has seen them.
  expect((await read(3)).texts).toEqual(['1', '2', '3'])
  expect((await read(1, { 'last-event-id': first.lastId })).texts).toEqual(['3'])
  expect((await read(1)).texts).toEqual(['3'])
})

test('a place that is none is refused by the name that it came under', async () => {
  await using t = await withGateway({ start: false })
  await using rest = await restOf(t.gateway)
  for (const [query, headers, field] of [
    ['?after=x', {}, 'after'],
    ['', { 'last-event-id': 'x' }, 'Last-Event-ID'],
    ['?after=0', { 'last-event-id': '-1' }, 'Last-Event-ID'],
  ] as const) {
    const refused = await fetch(`${rest.url}/events${query}`, { headers })
    const { code, details, detail } = await refused.json()
    expect([code, details.errors[0].field]).toEqual(['invalid_arguments', field])
    expect(detail).toStartWith(`${field}: `)
  }
})

test('streams end with the service, and a token is wanted where one is set', async () => {
  await using t = await withGateway({ start: false })
  const rest = await restOf(t.gateway, { token: 'a-long-enough-token' })
  expect((await fetch(`${rest.url}/events`)).status).toBe(401)
  await using stream = await eventSource(`${rest.url}/events`, {
    authorization: 'Bearer a-long-enough-token',
  })
  await rest[Symbol.asyncDispose]()
  expect(await stream.next()).toBeUndefined()
})

test('cut at any moment and resumed, a stream has no gap and no repeat', async () => {
  expect(await cutAndResume(15)).toMatchObject({ cuts: 15, missing: 0, repeated: 0 })
})

test('what is told is as /asyncapi.json describes it, which anybody may read', async () => {
  const missing = { config: { backupTo: '/missing' }, ownCommand: ['false'] }
  await using t = await withGateway(missing)
  await using rest = await restOf(t.gateway, { token: 'a-long-enough-token' })
  const response = await fetch(`${rest.url}/asyncapi.json`)
  const { asyncapi, channels, components } = await response.json()
  expect([response.status, asyncapi]).toEqual([200, '3.1.0'])
  expect(Object.keys(channels.events.messages)).toEqual([...eventTypes, 'gone'])
  await using lost = await eventSource(`${rest.url}/events?after=another-1`, {
    authorization: 'Bearer a-long-enough-token',
  })
  const { event, data: told } = (await lost.next())!
  expect(event).toBe('gone')
  expect(parse(components.messages.gone.payload, told) as object).toEqual(told)
  expect(Object.keys(channels.webhooks.messages)).toEqual([...eventTypes, 'webhook.test'])
  const from = await t.gateway.events.getHead()
  await using stream = await eventSource(`${rest.url}/events?after=${from}&types=${eventTypes}`, {
    authorization: 'Bearer a-long-enough-token',
  })
  await t.sandbox.say('hi')
  await t.receive(1)
  await t.send({ text: 'hello' })
  // An accepted send notes that the account is not muted; it does not wait for that note itself.
  await t.until('the send is noted', async () => (await t.other.sessions.get('default'))?.bot?.ids_at)
  const { token } = t.bots.get('default')!
  await t.other.sessions.mark('default', token, { muted_at: 1, muted_because: 'no_ids' })
  const renamed = await fetch(`${rest.url}/tools/default/rename_session`, {
    method: 'POST',
    headers: { authorization: 'Bearer a-long-enough-token', 'content-type': 'application/json' },
    body: JSON.stringify({ old_name: 'default', new_name: 'work' }),
  })
  expect(renamed.status).toBe(200)
  const { link } = await t.gateway.invitations.add(owner, { name: 'mum' })
  await t.gateway.invitations.join({ secret: link.slice(link.indexOf('#') + 1), browser: 'b'.repeat(32) })
  await t.sandbox.scanAndConfirm({ user: await t.sandbox.addUser('mum') })
  using gone = receiver(() => 410)
  await t.gateway.webhooks.add(owner, { url: gone.url, allow_private: true })
  await t.sandbox.say('to an endpoint that is gone')
  expect(await failure(t.gateway.backups.make())).toMatchObject({ code: 'store_unavailable' })
  const seen = new Set<string>()
  while (seen.size < eventTypes.length) {
    // New endpoints are looked for every half a second.
    const { data } = (await t.clock.hurry(stream.next(), 500))!
    // Throws where it does not fit.
    expect(parse(components.messages[data.type].payload, data)).toEqual(data)
    seen.add(data.type)
  }
  using tried = receiver()
  const { id } = await t.gateway.webhooks.add(owner, { url: tried.url, allow_private: true })
  await t.gateway.webhooks.sendTest(owner, id, AbortSignal.timeout(60_000))
  const { body } = tried.got.find(one => one.body.type === 'webhook.test')!
  expect(parse(components.messages['webhook.test'].payload, body)).toEqual(body)
})
