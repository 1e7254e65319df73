/** What a receiver answered, what was sent to it, and sending one event again. */
import { expect, test } from 'bun:test'
import { owner, type Principal } from '../../src/model/principal.ts'
import { excerptOf } from '../../src/push/attempt.ts'
import { failure, fieldsOf } from '../support/failure.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { receiver } from './receiver.ts'

const it = given(withGateway)
const received = { types: ['message.received' as const], allow_private: true }

const attemptsAt = (t: TestGateway, id: string, event: string, by: Principal = owner) =>
  t.gateway.webhooks.listAttempts(by, id, { event })

/** Says something, and waits until its delivery is in the log. @returns the id of the event */
async function deliver(t: TestGateway, id: string, text: string): Promise<string> {
  const count = async () => (await t.gateway.webhooks.listAttempts(owner, id)).length
  const before = await count()
  await t.sandbox.say(text)
  await t.soon(`the delivery of ${text}`, async () => (await count()) > before)
  return (await t.gateway.webhooks.listAttempts(owner, id))[0]!.event
}

async function holder(t: TestGateway, users?: string[]): Promise<Principal> {
  const { key } = await t.gateway.keys.add(
    { name: `k${Math.random()}`, can: ['webhooks', 'read'], users },
    owner,
  )
  return (await t.gateway.keys.authenticate(key))!
}

test('an excerpt has no control characters, no secret of the endpoint, and at most 2048 bytes', () => {
  const headers = {
    Authorization: 'Bearer abc/def"1',
    Cookie: 'sid=cookie-1; theme=dark-mode',
    'X-Short': 'ok',
  }
  const secrets = [{ secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' }]
  const excerpt = (answer: string) => excerptOf(answer, { headers, secrets })
  expect(excerpt('a\0b\u001b[31mc\r\nd\te\u009b')).toBe('ab[31mc\nd\te')
  expect(excerpt('')).toBeUndefined()
  expect(excerpt('Bearer token missing, ok')).toBe('Bearer token missing, ok')
  const repeats = [
    'Bearer abc/def"1',
    JSON.stringify({ got: 'abc/def"1' }),
    String.raw`"abc\/def\"1"`,
    encodeURIComponent('abc/def"1'),
    'cookie-1',
    'dark-mode',
    secrets[0]!.secret,
  ]
  for (const one of repeats) expect(excerpt(`<${one}>`)).not.toMatch(/abc|def|cookie|dark|MfKQ/)
  // A secret across the end is found before the cut.
  expect(excerpt(`${'x'.repeat(2040)}cookie-1`)).toBe(`${'x'.repeat(2040)}***`)
  expect(excerpt(`x${'\u{1f600}'.repeat(600)}`)).toBe(`x${'\u{1f600}'.repeat(511)}`)
})

it('the attempts at an event have the answers, what was sent, and the next try', async t => {
  using r = receiver(() => new Response('database is locked: Bearer hush', { status: 500 }))
  const { id } = await t.gateway.webhooks.add(owner, {
    url: r.url,
    ...received,
    headers: { Authorization: 'Bearer hush' },
  })
  const event = await deliver(t, id, 'hello')
  const [failed] = await attemptsAt(t, id, event)
  expect(failed).toMatchObject({ outcome: 'failed', status: 500, response: 'database is locked: ***' })
  expect(failed!.payload).toEqual(r.got[0]!.body)
  expect(failed!.next_try_at).toBeGreaterThan(failed!.at)
  r.answer = () => new Response('thanks')
  await t.gateway.webhooks.resume(owner, id)
  await t.soon('delivered', async () => (await attemptsAt(t, id, event)).length > 1)
  const [done, before] = await attemptsAt(t, id, event)
  expect(done).toMatchObject({ outcome: 'done', response: 'thanks', payload: failed!.payload! })
  expect(done!.next_try_at).toBeUndefined()
  const { payload: _, next_try_at: _next, ...rest } = failed!
  expect(before).toEqual(rest)
  // The list of all has neither.
  for (const one of await t.gateway.webhooks.listAttempts(owner, id))
    expect([one.response, one.payload, one.next_try_at]).toEqual([undefined, undefined, undefined])
})

it('a test has its answer too, and no reply is read from an answer that is only kept', async t => {
  using r = receiver(() => Response.json({ reply: { text: 'not wanted' } }))
  const { id } = await t.gateway.webhooks.add(owner, { url: r.url, ...received })
  await t.gateway.webhooks.sendTest(owner, id, new AbortController().signal)
  const [test] = await t.gateway.webhooks.listAttempts(owner, id)
  expect(await attemptsAt(t, id, test!.event)).toEqual([
    { ...test!, response: '{"reply":{"text":"not wanted"}}' },
  ])
  const event = await deliver(t, id, 'hello')
  expect((await attemptsAt(t, id, event))[0]).toMatchObject({ response: '{"reply":{"text":"not wanted"}}' })
  expect((await t.gateway.outbox.list(owner)).length).toBe(0)
})

it('who made an endpoint and the owner see its attempts, and nobody else does', async t => {
  using r = receiver(() => new Response('hush'))
  const [maker, other] = [await holder(t), await holder(t)]
  const { id } = await t.gateway.webhooks.add(maker, { url: r.url, ...received })
  const event = await deliver(t, id, 'hello')
  for (const by of [maker, owner])
    expect((await attemptsAt(t, id, event, by))[0]).toMatchObject({
      response: 'hush',
      payload: { id: event },
    })
  expect(await failure(attemptsAt(t, id, event, other))).toMatchObject({ code: 'not_found' })
  const again = t.gateway.webhooks.replay(other, id, { event, only: true })
  expect(await failure(again)).toMatchObject({ code: 'not_found' })
  expect(r.got).toHaveLength(1)
})

it('one event is sent again alone, also while the endpoint is paused', async t => {
  using r = receiver()
  const { webhooks } = t.gateway
  const { id } = await webhooks.add(owner, { url: r.url, ...received })
  const first = await deliver(t, id, 'first')
  const second = await deliver(t, id, 'second')
  await webhooks.pause(owner, id)
  expect((await webhooks.replay(owner, id, { event: first, only: true, dry_run: true })).replay).toEqual({
    ...{ events: 1, events_is_lower_bound: false, since: expect.any(Number) },
  })
  expect(r.got).toHaveLength(2)
  r.answer = () => new Response('no', { status: 503 })
  const { replay, tries } = await webhooks.replay(owner, id, { event: first, only: true })
  expect(replay).toMatchObject({ events: 1, result: { success: false, status: 503, detail: 'HTTP 503' } })
  expect(tries).toEqual({ done: 2, failed: 1, gave_up: 0 })
  expect(r.got.map(one => one.id)).toEqual([first, second, first])
  expect(r.got[2]!.text).toBe(r.got[0]!.text)
  expect((await attemptsAt(t, id, first)).map(one => one.response)).toEqual(['no', undefined])
  // Nothing moved: resumed, it gets what is new.
  r.answer = () => 200
  await webhooks.resume(owner, id)
  await deliver(t, id, 'third')
  expect(r.got.map(one => one.body.data.text)).toEqual(['first', 'second', 'first', 'third'])
})

it('an event is not sent again to an endpoint that does not get it, and not for a key that ended', async t => {
  using r = receiver()
  const { webhooks } = t.gateway
  const by = await holder(t)
  const all = await webhooks.add(by, { url: r.url, ...received })
  const event = await deliver(t, all.id, 'hello')
  const changes = await webhooks.add(owner, { url: r.url, types: ['session.status'], allow_private: true })
  // A key that sees another contact alone.
  const few = await webhooks.add(await holder(t, ['other@im.wechat']), { url: r.url, ...received })
  const refused = async (id: string, from: Parameters<typeof webhooks.replay>[2]) =>
    fieldsOf(await failure(webhooks.replay(owner, id, { ...from, only: true })))
  for (const { id } of [changes, few]) expect(await refused(id, { event })).toEqual(['from'])
  expect(await refused(all.id, { event: event.replace(/\d+$/, '99999999999') })).toEqual(['from'])
  expect(await refused(all.id, { event: 'nonsense-1' })).toEqual(['from'])
  expect(await refused(all.id, { since: 0 })).toEqual(['from'])
  await t.gateway.keys.revoke(by.kind === 'owner' ? '' : by.id!, owner)
  const again = webhooks.replay(owner, all.id, { event, only: true })
  expect(await failure(again)).toMatchObject({ code: 'forbidden' })
  expect(r.got).toHaveLength(1)
})
