/** Deliveries of a real gateway to receivers on loopback. */

import { expect, onTestFinished, test } from 'bun:test'
import { brotliCompressSync, zstdCompressSync } from 'node:zlib'
import { SvcError } from '../../src/model/error.ts'
import { owner } from '../../src/model/principal.ts'
import { Bus } from '../../src/platform/runtime.ts'
import { WebhookDispatcher } from '../../src/push/delivery.ts'
import { Webhooks } from '../../src/push/webhooks.ts'
import { directoryOfTest } from '../storage/sqlite/support.ts'
import { type TestClock, testClock } from '../support/clock.ts'
import { failure, fieldsOf } from '../support/failure.ts'
import { type TestGateway, type TestGatewayOptions, withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { freePort } from '../support/port.ts'
import { quietPorts } from '../support/quiet-ports.ts'
import { runtimeOf } from '../support/runtime.ts'
import { letStoreAnswer } from '../support/shared-store.ts'
import { openInMemory } from '../support/store-in-memory.ts'
import { until } from '../support/until.ts'
import { makers } from '../support/waiting.ts'
import { receiver, verify } from './receiver.ts'

const it = given(withGateway)

const received = { types: ['message.received' as const], allow_private: true }
const tries = (t: TestGateway, id: string) => t.gateway.webhooks.listAttempts(owner, id)
const status = async (t: TestGateway, id: string) => (await t.gateway.webhooks.get(owner, id)).status

/** Messages of so many users in turn, all together. */
async function sayAll(t: TestGateway, count: number, users: readonly string[]): Promise<string[]> {
  const texts = Array.from({ length: count }, (_, nth) => `${nth}`)
  for (const [nth, text] of texts.entries()) await t.sandbox.say(text, { from: users[nth % users.length]! })
  return texts
}

async function withUsers(count: number, options: TestGatewayOptions = {}) {
  const t = await withGateway(options)
  const users = [t.bots.get('default')!.user_id]
  while (users.length < count) users.push(await t.sandbox.addUser())
  return Object.assign(t, { users })
}

/** Pushes the clock until `look` gives something: whoever waits for a time then has it. */
function later<T>(t: TestGateway, what: string, byMs: number, look: () => T | undefined | false) {
  return t.until(what, async () => {
    const found = look()
    if (!found) await letStoreAnswer(t.dir)
    if (!found) (t.clock as TestClock).advance(byMs)
    return found
  })
}

it('a message reaches an endpoint, signed, and people see what became of it', async t => {
  using r = receiver()
  const headers = { Authorization: 'Bearer hush' }
  const hook = await t.gateway.webhooks.add(owner, { url: r.url, ...received, headers })
  await t.sandbox.say('hello')
  await t.soon('delivered', () => r.got.length > 0)
  const [one] = r.got
  expect(verify(one!, hook.secret)).toEqual(one!.body)
  expect(one?.id).toBe(one!.body.id)
  expect(one?.id).not.toContain('.')
  expect(one?.headers.get('authorization')).toBe('Bearer hush')
  expect(one?.headers.get('content-length')).toBe(String(Buffer.byteLength(one!.text)))
  const [message] = await t.receive(1)
  expect(one?.body).toMatchObject({ type: 'message.received', data: message as never })
  const found = await t.soon('logged', async () => {
    const all = await tries(t, hook.id)
    return all.length > 0 && all
  })
  expect(found).toMatchObject([{ event: one!.id, outcome: 'done', status: 200 }])
  const [shown] = await t.gateway.webhooks.list(owner)
  expect(shown).toMatchObject({ status: 'active', headers: { Authorization: '***' }, tries: { done: 1 } })
  expect(JSON.stringify(shown)).not.toContain(hook.secret)
  expect(t.lines.join('')).not.toContain('hush')
  const endpoint = `{webhook="${hook.id}"`
  await t.soon('its metrics', async () => {
    const text = await t.gateway.metrics.text()
    expect(text).toContain(`svc_webhook_tries_total${endpoint},outcome="done"} 1\n`)
    return text.includes(`svc_webhook_lag_events${endpoint}} 0\n`)
  })
})

test('what a receiver refuses comes again, in order per conversation, and the others go on', async () => {
  await using t = await withUsers(4)
  using r = receiver()
  const bad = t.users[1]
  let refused = 0
  r.answer = ({ body }) => (body.data.from_user === bad && refused++ === 0 ? 500 : 200)
  const hook = await t.gateway.webhooks.add(owner, { url: r.url, ...received })
  const texts = await sayAll(t, 40, t.users)
  await t.soon('the others', () => r.texts().length >= 30)
  await later(t, 'all', 500, () => r.texts().length === texts.length)
  for (const nth of t.users.keys())
    expect(r.texts().filter(text => Number(text) % 4 === nth)).toEqual(
      texts.filter(text => Number(text) % 4 === nth),
    )
  expect(refused).toBe(11)
  expect(await tries(t, hook.id)).toContainEqual(expect.objectContaining({ outcome: 'failed', status: 500 }))
})

test('a receiver that was away gets all of it, once it answers', async () => {
  await using t = await withUsers(3)
  // Nobody else comes by its port while it is away.
  const r = receiver(() => 200, freePort())
  const hook = await t.gateway.webhooks.add(owner, { url: r.url, ...received })
  r[Symbol.dispose]()
  const texts = await sayAll(t, 30, t.users)
  const triedAt = await t.soon('failing', async () => {
    const { last_error_code, next_try_at, ...one } = await t.gateway.webhooks.get(owner, hook.id)
    return one.status === 'failing' && last_error_code === 'unreachable' && next_try_at
  })
  // Milliseconds, as all times.
  expect(triedAt).toSatisfy(Number.isInteger)
  const failingSeconds = async () =>
    Number(/^svc_webhook_failing_seconds\{.*\} (.*)$/m.exec(await t.gateway.metrics.text())?.[1])
  await t.soon('counted', async () => (await failingSeconds()) > 0)
  // One that goes on is tried at once: no time is told that is not so any more.
  await t.gateway.webhooks.pause(owner, hook.id)
  expect(await failingSeconds()).toBe(0)
  expect((await t.gateway.webhooks.resume(owner, hook.id)).next_try_at).toBeUndefined()
  using back = receiver(() => 200, r.port)
  await later(t, 'all', 1000, () => back.texts().length === texts.length)
  expect(new Set(back.texts())).toEqual(new Set(texts))
  await t.soon('active', async () => (await status(t, hook.id)) === 'active')
  const { last_error_code, next_try_at } = await t.gateway.webhooks.get(owner, hook.id)
  expect([last_error_code, next_try_at]).toEqual([undefined, undefined])
})

it('one endpoint that hangs holds up no other', async t => {
  using hanging = receiver(() => new Promise(() => {}))
  using r = receiver()
  for (const { url } of [hanging, r]) await t.gateway.webhooks.add(owner, { url, ...received })
  const texts = await sayAll(t, 20, [t.bots.get('default')!.user_id])
  await t.soon('all', () => r.texts().length === texts.length)
  expect(r.texts()).toEqual(texts)
})

it('410 switches an endpoint off, which is an event that others get', async t => {
  using gone = receiver(() => 410)
  using r = receiver()
  const hook = await t.gateway.webhooks.add(owner, { url: gone.url, ...received })
  await t.gateway.webhooks.add(owner, { url: r.url, types: ['endpoint.disabled'], allow_private: true })
  await t.sandbox.say('one')
  await t.soon('told', () => r.got.length > 0)
  expect(r.got[0]?.body).toMatchObject({
    ...{ type: 'endpoint.disabled', data: { id: hook.id, url: gone.url, reason_code: 'gone' } },
  })
  const off = await t.gateway.webhooks.get(owner, hook.id)
  expect(off).toMatchObject({ status: 'disabled', disabled_code: 'gone', last_error_code: 'http_status' })
  expect(off.next_try_at).toBeUndefined()
  gone.answer = () => 200
  await t.sandbox.say('two')
  await t.gateway.webhooks.resume(owner, hook.id)
  await later(t, 'both', 500, () => gone.texts().length === 2)
  expect(gone.texts()).toEqual(['one', 'two'])
})

test('resumed, a healthy endpoint gets nothing twice, be it paused before or not', async () => {
  for (const pauses of [false, true]) {
    await using t = await withUsers(2)
    using r = receiver()
    const slow = Promise.withResolvers<Response>()
    let asked = 0
    r.answer = ({ body }) => {
      asked++
      return body.data.text === '1' ? slow.promise : 200
    }
    const hook = await t.gateway.webhooks.add(owner, { url: r.url, ...received })
    await sayAll(t, 2, t.users)
    await t.soon('one is done, one under way', () => asked === 2 && r.got.length === 1)
    if (pauses) await t.gateway.webhooks.pause(owner, hook.id)
    // The look that sees another endpoint sees what became of this one.
    const seen = async (text: string) => {
      using other = receiver()
      const { id } = await t.gateway.webhooks.add(owner, { url: other.url, ...received })
      await t.sandbox.say(text, { from: t.users[0]! })
      await t.soon('seen', () => other.got.length > 0)
      await t.gateway.webhooks.remove(owner, id)
    }
    if (pauses) await seen('2')
    await t.gateway.webhooks.resume(owner, hook.id)
    await seen('3')
    slow.resolve(new Response())
    await t.sandbox.say('4', { from: t.users[1]! })
    await t.soon('all', () => ['3', '4'].every(text => r.texts().includes(text)))
    const texts = r.got.map(({ body }) => String(body.data.text))
    expect(texts.toSorted()).toEqual(pauses ? ['0', '1', '2', '3', '4'] : ['0', '1', '3', '4'])
    expect(asked).toBe(texts.length)
  }
})

test('resumed, an endpoint that fails is tried at once, and so is an event that failed alone', async () => {
  const clock = testClock()
  await using t = await withUsers(2, { clock })
  using busy = receiver(() => new Response(null, { status: 429, headers: { 'retry-after': '36000' } }))
  using r = receiver()
  const [good, bad] = t.users
  let refused = 0
  r.answer = ({ body }) => (body.data.from_user === bad && refused++ < 2 ? 500 : 200)
  const failing = await t.gateway.webhooks.add(owner, { url: busy.url, ...received })
  const one = await t.gateway.webhooks.add(owner, { url: r.url, ...received })
  await sayAll(t, 2, t.users)
  await t.soon('both were tried', async () => (await status(t, failing.id)) === 'failing' && refused === 1)
  // The other user's messages are delivered: the event that failed has waits of its own, the next one of 5 minutes.
  let said = 0
  await later(t, 'it failed twice', 500, () => {
    void t.sandbox.say(`more ${said++}`, { from: good! })
    return refused === 2
  })
  await t.soon(
    'noted',
    async () => (await tries(t, one.id)).filter(({ outcome }) => outcome === 'failed').length === 2,
  )
  busy.answer = () => 200
  for (const { id } of [failing, one]) await t.gateway.webhooks.resume(owner, id)
  const before = clock.monotonic()
  await later(t, 'both are there', 100, () => busy.texts().includes('1') && r.texts().includes('1'))
  expect(clock.monotonic() - before).toBeLessThan(60_000)
  await t.soon('active', async () => (await status(t, failing.id)) === 'active')
})

it('a redirect is not followed, and is told of', async t => {
  using other = receiver()
  using r = receiver(() => Response.redirect(other.url, 307))
  const hook = await t.gateway.webhooks.add(owner, { url: r.url, ...received })
  await t.sandbox.say('one')
  const [found] = await t.soon('logged', async () => {
    const all = await tries(t, hook.id)
    return all.length > 0 && all
  })
  expect(found).toMatchObject({ outcome: 'failed', status: 307, code: 'redirect' })
  expect(other.got).toHaveLength(0)
})

test('what a process of before had under way goes on in the next one, in order', async () => {
  await using t = await withUsers(2)
  using r = receiver()
  let answers = 0
  r.answer = () => (answers++ < 7 ? 200 : new Promise<Response>(() => {}))
  await t.gateway.webhooks.add(owner, { url: r.url, ...received })
  const texts = await sayAll(t, 20, t.users)
  await t.soon('some', () => answers > 7)
  await t.gateway.close()
  r.answer = () => 200
  await using next = await withGateway({ dir: t.dir, sandbox: t.sandbox, sessions: [] })
  await next.soon('all', () => r.texts().length === texts.length)
  for (const nth of [0, 1])
    expect(r.texts().filter(text => Number(text) % 2 === nth)).toEqual(
      texts.filter(text => Number(text) % 2 === nth),
    )
})

/** Delivery of a process to endpoints of these paths, whose log has one event; `data` makes what it says. */
async function withProcesses(url: string, paths: readonly string[], data = async (_id: string) => ({})) {
  let looks = 0
  let heads = 0
  const place = directoryOfTest()
  /** As a process of its own has them. */
  const webhooksOf = async () => {
    const storage = await place.open()
    onTestFinished(() => storage.close())
    const kept = storage.store.webhooks
    const list = () => {
      looks += 1
      return kept.list()
    }
    return { ...kept, list }
  }
  const webhooks = await webhooksOf()
  const clock = testClock()
  const { signal: closing } = new AbortController()
  const bus = new Bus()
  const add = (id: string) =>
    webhooks.add({
      ...{
        id,
        url: `${url}/${id}`,
        types: [],
        headers: {},
        secrets: [{ secret: 'whsec_AAAA' }],
        link_key: '',
      },
      ...{ allow_private: true, replies: false, created_at: 0, position: 's-0' },
    })
  for (const id of paths) await add(id)
  const event = { id: 's-1', type: 'session.status', at: 0, session: 's', user: 'u' }
  const broken = new Set<string>()
  const after = async (cursor: string, { id }: { id: string }) => {
    if (broken.has(id)) throw new Error('the log cannot be read')
    return page(cursor, id)
  }
  const page = (cursor: string, id: string) => ({
    events: cursor === 's-0' ? [{ ...event, data: () => data(id) }] : [],
    cursor: 's-1',
  })
  const ports = {
    events: {
      getHead: async () => {
        heads += 1
        return 's-1'
      },
      append: async () => true,
      wait: (_seen: string, ms: number, signal: AbortSignal) => clock.sleep(ms, signal),
    },
    feed: { readAfter: after } as never,
    createLinks: () => undefined,
    sendReply: async () => {},
    isClockReliable: async () => true,
  }
  const runtime = runtimeOf({ clock, closing, bus })
  const open = async (polls = () => true) => {
    const delivery = new WebhookDispatcher({ ...ports, webhooks: await webhooksOf() }, runtime)
    delivery.start(polls)
    return delivery
  }
  /** As `soon` of a gateway. */
  const soon = <T>(what: string, look: () => T | undefined | false | Promise<T | undefined | false>) =>
    until(what, 60_000, async () => {
      const found = await look()
      if (!found) clock.wake(500)
      return found
    })
  const failing = () => runtime.tasks.listFailing().map(({ name, error }) => `${name}: ${error}`)
  return { webhooks, bus, broken, add, open, soon, failing, looks: () => looks, heads: () => heads }
}

test('a right to poll that is lost and comes back at once is delivered under; without an endpoint no event is asked for', async () => {
  const { bus, open, soon, looks, heads } = await withProcesses('http://127.0.0.1:1', [])
  const delivery = await open()
  await soon('it looks', () => looks() > 0)
  bus.notify('roleChanged', 'watcher')
  bus.notify('roleChanged', 'poller')
  const before = looks()
  await soon('it looks on', () => looks() > before + 1)
  await delivery.stop()
  expect(heads()).toBe(0)
})

test('an endpoint whose events cannot be read is a failing task, and others go on', async () => {
  using r = receiver()
  const { broken, failing, open, soon } = await withProcesses(r.url, ['w', 'x'])
  broken.add('w')
  const delivery = await open()
  await soon('it is told', () => failing().length > 0)
  expect(failing()).toEqual(['webhook_deliveries: webhook w: the log cannot be read'])
  expect(r.got.length).toBe(1)
  broken.clear()
  await soon('it works again', () => failing().length === 0)
  await soon('both are delivered', () => r.got.length === 2)
  await delivery.stop()
})

test('one that stood still while another took over keeps nothing of what it had under way', async () => {
  const hung = Promise.withResolvers<Response>()
  using r = receiver(() => (asked++ === 0 ? hung.promise : 200))
  let asked = 0
  const { webhooks, open, soon } = await withProcesses(r.url, ['w'])
  let stoodStill = false
  const first = await open(() => !stoodStill)
  await soon('under way', () => asked > 0)
  stoodStill = true
  const second = await open()
  const done = async () => (await webhooks.list())[0]!.tries.done
  await soon('delivered by the other', async () => (await done()) > 0)
  hung.resolve(new Response())
  await soon('both', () => r.got.length === 2)
  await first.stop()
  expect(await done()).toBe(1)
  await second.stop()
})

test('an endpoint that cannot be changed at once holds up no other', async () => {
  using r = receiver()
  const held = Promise.withResolvers<object>()
  let asked = false
  const { webhooks, add, open, soon } = await withProcesses(r.url, ['slow'], async id => {
    asked ||= id === 'slow'
    return id === 'slow' ? held.promise : {}
  })
  const delivery = await open()
  await soon('under way', () => asked)
  await webhooks.change('slow', { paused: true })
  await add('other')
  await soon('the other', () => r.got.length > 0)
  held.resolve({})
  await delivery.stop()
})

it('paused it waits, and goes on from there', async t => {
  using r = receiver()
  const hook = await t.gateway.webhooks.add(owner, { url: r.url, ...received })
  await t.sandbox.say('one')
  await t.soon('one', () => r.texts().length === 1)
  await t.gateway.webhooks.pause(owner, hook.id)
  using other = receiver()
  await t.gateway.webhooks.add(owner, { url: other.url, ...received })
  // The look that sees the second endpoint sees that the first one is paused.
  await t.soon('seen', async () => {
    await t.sandbox.say('two')
    return other.got.length > 0
  })
  const before = r.got.length
  await t.sandbox.say('three')
  await t.soon('the other has it', () => other.texts().includes('three'))
  expect(r.got).toHaveLength(before)
  const lag = new RegExp(`^svc_webhook_lag_events.*${hook.id}.* (\\d+)$`, 'm')
  // Both messages, or more of the first.
  expect(Number(lag.exec(await t.gateway.metrics.text())?.[1])).toBeWithin(2, 1000)
  await t.gateway.webhooks.resume(owner, hook.id)
  await t.soon('three', () => r.texts().includes('three'))
})

it('a replay sends events again under their ids, also from a time', async t => {
  using r = receiver()
  const hook = await t.gateway.webhooks.add(owner, { url: r.url, ...received })
  const texts = await sayAll(t, 5, [t.bots.get('default')!.user_id])
  // As far as is kept: what is not comes again by itself.
  const kept = async (count: number) => (await t.gateway.webhooks.get(owner, hook.id)).tries.done === count
  await t.soon('all', () => kept(5))
  const from = { event: r.got[2]!.id }
  const only = await t.gateway.webhooks.replay(owner, hook.id, { ...from, dry_run: true })
  const since = Date.parse(r.got[2]!.body.timestamp)
  expect(only.replay).toEqual({ events: 3, events_is_lower_bound: false, since })
  expect((await t.gateway.webhooks.replay(owner, hook.id, from)).replay).toEqual(only.replay)
  await t.soon('again', () => kept(8))
  expect(r.got.slice(5).map(({ id }) => id)).toEqual(r.got.slice(2, 5).map(({ id }) => id))
  expect(
    (await t.gateway.webhooks.replay(owner, hook.id, { since: t.clock.now() + 1000 })).replay.events,
  ).toBe(0)
  for (const event of ['another-1000000', from.event.replace(/\d+$/, '9000000000')]) {
    expect(fieldsOf(await failure(t.gateway.webhooks.replay(owner, hook.id, { event })))).toEqual(['from'])
  }
  await t.gateway.webhooks.replay(owner, hook.id, { since: 0 })
  await t.soon('all again', () => kept(13))
  expect(r.got.slice(8).map(({ body }) => body.data.text)).toEqual(texts)
})

test('a replay from a later time passes over nothing that waits for its next try', async () => {
  await using t = await withUsers(2)
  using r = receiver()
  let isBad = true
  r.answer = ({ body }) => (isBad && body.data.from_user === t.users[1] ? 500 : 200)
  const hook = await t.gateway.webhooks.add(owner, { url: r.url, ...received })
  await sayAll(t, 6, t.users)
  await t.soon('some failed', async () => {
    const { tries } = await t.gateway.webhooks.get(owner, hook.id)
    return tries.done === 3 && tries.failed > 0
  })
  isBad = false
  await t.gateway.webhooks.replay(owner, hook.id, {
    event: r.got.find(({ body }) => body.data.text === '4')!.id,
  })
  await later(t, 'all', 500, () => r.texts().length === 6)
  expect(r.texts().filter(text => Number(text) % 2 === 1)).toEqual(['1', '3', '5'])
})

it('an answer may be a reply to the user: once, of an endpoint added for it, and never of a replay', async t => {
  using r = receiver(({ body }) => Response.json({ reply: { text: `you said ${body.data.text}` } }))
  const hook = await t.gateway.webhooks.add(owner, { url: r.url, ...received, replies: true })
  await t.sandbox.say('hello')
  const seen = await t.sandbox.seen(messages => messages.length > 0)
  expect(JSON.stringify(seen)).toContain('you said hello')
  await t.soon('done', async () => (await t.gateway.webhooks.get(owner, hook.id)).tries.done === 1)
  await t.gateway.webhooks.replay(owner, hook.id, { since: 0 })
  await t.soon('again', async () => (await t.gateway.webhooks.get(owner, hook.id)).tries.done === 2)
  expect(t.requests('sendmessage')).toBe(1)
  expect(await makers(t)).toEqual([{ made_by: `webhook:${hook.id}` }])
})

it('a reply that shows nothing is not sent, and the delivery says so', async t => {
  using r = receiver(() => Response.json({ reply: { text: ' \u200b' } }))
  const hook = await t.gateway.webhooks.add(owner, { url: r.url, ...received, replies: true })
  await t.sandbox.say('hello')
  await t.soon('done', async () => (await t.gateway.webhooks.get(owner, hook.id)).tries.done === 1)
  expect(t.requests('sendmessage')).toBe(0)
  const [tried] = await t.gateway.webhooks.listAttempts(owner, hook.id)
  expect(tried).toMatchObject({ outcome: 'done', code: 'reply_not_sent' })
})

it('an answer with a byte order mark is a reply; one that cannot be read says why there is none', async t => {
  const reply = JSON.stringify({ reply: { text: 'hi' } })
  const answers = [
    ...[`\ufeff${reply}`, '', 'OK', '{"ok":true}', '{"reply":null}'],
    ...[Bun.gzipSync(reply), brotliCompressSync(reply), Bun.deflateSync(reply), zstdCompressSync(reply)],
    ...[
      Buffer.from(`\ufeff${reply}`, 'utf16le'),
      '{"reply": {"text": "hi"',
      '{"reply":"hi"}',
      `{"x":"${'x'.repeat(200_000)}"}`,
    ],
  ]
  let next = 0
  using r = receiver(() => new Response(answers[next++]))
  const hook = await t.gateway.webhooks.add(owner, { url: r.url, ...received, replies: true })
  for (let nth = 1; nth <= answers.length; nth++) {
    await t.sandbox.say(`message ${nth}`)
    await t.soon(`${nth}`, async () => (await t.gateway.webhooks.get(owner, hook.id)).tries.done === nth)
  }
  // A reply is looked at after its delivery has counted.
  const tried = await t.soon('each is looked at', async () => {
    const all = (await t.gateway.webhooks.listAttempts(owner, hook.id)).toReversed()
    return all.at(-1)?.code !== undefined && all
  })
  const notSent = ['reply_not_sent' as const, true]
  expect(tried.map(({ code, detail }) => [code, detail !== undefined])).toEqual(
    answers.map((_answer, nth) => (nth < 5 ? [undefined, false] : notSent)),
  )
  expect(t.requests('sendmessage')).toBe(1)
})

it('without being asked for, an answer is no reply', async t => {
  using r = receiver(() => Response.json({ reply: { text: 'no' } }))
  const hook = await t.gateway.webhooks.add(owner, { url: r.url, ...received })
  await t.sandbox.say('hello')
  await t.soon('done', async () => (await t.gateway.webhooks.get(owner, hook.id)).tries.done === 1)
  expect(t.requests('sendmessage')).toBe(0)
})

test('only what an endpoint asked for reaches it', async () => {
  await using t = await withUsers(2)
  using mine = receiver()
  using sent = receiver()
  await t.gateway.webhooks.add(owner, { url: mine.url, ...received, user: t.users[1]! })
  await t.gateway.webhooks.add(owner, { url: sent.url, types: ['message.status'], allow_private: true })
  await sayAll(t, 4, t.users)
  await t.soon('hers', () => mine.texts().length === 2)
  expect(mine.texts()).toEqual(['1', '3'])
  await t.receive(4)
  await t.send({ text: 'answer' })
  await t.soon('sent', () => sent.got.some(({ body }) => body.data.status === 'accepted'))
  expect(sent.got.every(({ body }) => body.type === 'message.status')).toBe(true)
})

it('a try by hand is signed, and says what came of it', async t => {
  using r = receiver()
  const hook = await t.gateway.webhooks.add(owner, { url: r.url, ...received })
  const never = new AbortController().signal
  expect(await t.gateway.webhooks.sendTest(owner, hook.id, never)).toMatchObject({
    success: true,
    status: 200,
  })
  expect(verify(r.got[0]!, hook.secret)).toMatchObject({ type: 'webhook.test' })
  r.answer = () => 500
  expect(await t.gateway.webhooks.sendTest(owner, hook.id, never)).toMatchObject({
    success: false,
    status: 500,
  })
  const [failed, done] = await tries(t, hook.id)
  expect(failed).toMatchObject({ type: 'webhook.test', outcome: 'failed', status: 500, code: 'http_status' })
  expect(done).toMatchObject({ type: 'webhook.test', outcome: 'done', status: 200 })
  expect(done?.event).toBe(r.got[0]!.body.id)
  // It is tried by a person: whether svc can deliver is for svc's own tries to say.
  const shown = await t.gateway.webhooks.get(owner, hook.id)
  expect(shown).toMatchObject({ status: 'active', tries: { done: 1, failed: 1, gave_up: 0 } })
  expect([shown.last_success_at, shown.last_error]).toEqual([undefined, undefined])
})

test('a try by hand that the store cannot note was delivered all the same', async () => {
  using r = receiver()
  const kept = (await openInMemory()).webhooks
  const tried = async () => {
    throw new SvcError('store_unavailable', 'busy')
  }
  const webhooks = new Webhooks({
    ...quietPorts,
    webhooks: { ...kept, progress: { ...kept.progress, addTry: tried } },
    events: { getHead: async () => 'm-0', listAfter: async cursor => ({ events: [], cursor }) },
    resolveTarget: async who => who,
    getMessage: async () => undefined,
    isKeyOver: async () => false,
    listKeys: async () => [],
    clock: testClock(),
  })
  const hook = await webhooks.add(owner, { url: r.url, ...received })
  const tested = await webhooks.sendTest(owner, hook.id, new AbortController().signal)
  expect(tested).toMatchObject({ success: true, status: 200 })
  expect(r.got).toHaveLength(1)
  expect(await webhooks.listAttempts(owner, hook.id)).toEqual([])
})

it('the user of an endpoint is named by id or name, and is kept by id', async t => {
  const { user_id } = t.bots.get('default')!
  await t.sandbox.say('hello')
  await t.receive(1)
  await t.gateway.users.name({ user_id, name: 'Mum' })
  const url = 'http://127.0.0.1:1/'
  const userOf = async (user: string) =>
    (await t.gateway.webhooks.add(owner, { url, allow_private: true, user })).user
  expect(await userOf('mum')).toBe(user_id)
  // Somebody who is yet to write.
  expect(await userOf('new@im.wechat')).toBe('new@im.wechat')
})

test('what cannot be an endpoint is refused', async () => {
  await using t = await withGateway({ start: false })
  const { webhooks } = t.gateway
  const refused = (given: Parameters<typeof webhooks.add>[1]) =>
    webhooks.add(owner, given).then(
      () => 'added',
      (error: { code?: string }) => error.code,
    )
  expect(await refused({ url: 'http://127.0.0.1:1/' })).toBe('forbidden')
  expect(await refused({ url: 'http://169.254.169.254/', allow_private: true })).toBe('forbidden')
  for (const url of ['ftp://x.test/', 'nonsense', 'http://u:p@x.test/', 'file:///etc/passwd'])
    expect(await refused({ url, allow_private: true })).toBe('invalid_arguments')
  const url = 'http://127.0.0.1:1/'
  const pairs = { 'a b': 'x', Host: 'x', 'Webhook-Id': 'x', X: 'a\r\nb: c', Y: 'ü' }
  for (const [name, value] of Object.entries(pairs))
    expect(await refused({ url, allow_private: true, headers: { [name]: value } })).toBe('invalid_arguments')
  expect(await refused({ url, allow_private: true, session: 'none' })).toBe('session_not_found')
  expect(await refused({ url, allow_private: true, user: 'nobody' })).toBe('invalid_arguments')
  expect(await refused({ url, allow_private: true })).toBe('added')
})
