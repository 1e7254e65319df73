/** Programs lease messages: through the inbox, and over REST. */
import { expect, test } from 'bun:test'
import { createDirectCall } from '../../src/model/call.ts'
import type { LeasedMessage, LeaseRequest } from '../../src/model/message.ts'
import { owner } from '../../src/model/principal.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { type Json, type Rest, restOf } from '../support/rest.ts'
import { stopwatch } from '../support/stopwatch.ts'

const withTwo = () => withGateway({ sessions: ['default', 'other'] })
const it = given(withTwo)

const asked = (more: Partial<LeaseRequest> = {}): LeaseRequest => ({
  ...{ timeout: 30, limit: 100, consumer: 'default' },
  ...more,
})
const lease = ({ gateway }: TestGateway, more?: Partial<LeaseRequest>) =>
  gateway.inbox.lease(asked(more), createDirectCall())
const texts = (found: readonly LeasedMessage[]) =>
  found.map(({ message }) => message.text + (message.redelivered ? ' again' : ''))
const leasesOf = (found: readonly { lease: number }[]) => found.map(one => one.lease)
const say = async (t: TestGateway, text: string, session = 'default') => {
  const { user_id, bot_id } = t.bots.get(session)!
  const before = await t.gateway.inbox.getHead()
  await t.sandbox.say(text, { from: user_id, to: bot_id })
  await t.until('it is stored', async () => (await t.gateway.inbox.getHead()) > before)
}

it('a wait ends when a message comes, and when the one before it of the same person is settled, here or elsewhere', async t => {
  const { inbox } = t.gateway
  const waiting = lease(t)
  await say(t, 'one')
  const [first] = await waiting
  expect(first).toMatchObject({ message: { text: 'one' } })
  const leftMs = first!.expires_at - t.clock.now()
  expect(leftMs > 40_000 && leftMs <= 45_000).toBe(true)
  await say(t, 'two')
  expect(await lease(t, { timeout: 0 })).toEqual([])
  using watch = stopwatch()
  const second = lease(t)
  await inbox.settleLeases('default', [first!.lease], true)
  expect(texts(await second)).toEqual(['two'])
  await say(t, 'three')
  await using beside = await t.beside()
  const third = lease(beside)
  expect(await inbox.settleLeases('default', leasesOf(await second), false)).toEqual(leasesOf(await second))
  expect(texts(await third)).toEqual(['two again'])
  expect(watch.ms).toBeLessThan(20_000)
})

it('what the caller did not get comes again as before: it left, or it did not fit', async t => {
  await say(t, 'one')
  await say(t, 'two', 'other')
  const small = { ...createDirectCall(), startFitCheck: () => () => fitting-- > 0 }
  let fitting = 1
  expect(texts(await t.gateway.inbox.lease(asked(), small))).toEqual(['one'])
  const left = createDirectCall()
  const found = await t.gateway.inbox.lease(asked(), left)
  expect(texts(found)).toEqual(['two'])
  left.done(false)
  const again = await lease(t)
  expect(texts(again)).toEqual(['two'])
  await t.gateway.inbox.settleLeases('default', leasesOf(again), false)
  const gone = createDirectCall()
  expect(texts(await t.gateway.inbox.lease(asked(), gone))).toEqual(['two again'])
  gone.done(false)
  expect(texts(await lease(t))).toEqual(['two again'])
  expect(await t.gateway.inbox.lease(asked(), createDirectCall({ signal: AbortSignal.abort() }))).toEqual([])
})

async function post(rest: Pick<Rest, 'url'>, path: string, input: unknown, token?: string) {
  const answer = await fetch(`${rest.url}${path}`, {
    method: 'POST',
    body: JSON.stringify(input),
    headers: { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) },
  })
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Json }
}

test('over REST a key has leases of its own, of what is in its scope', async () => {
  await using t = await withTwo()
  await using rest = await restOf(t.gateway, { basePath: t.dir, clock: t.clock })
  await say(t, 'one')
  await say(t, 'two', 'other')
  const users = [t.bots.get('other')!.user_id]
  const [all, one] = await Promise.all(
    [{}, { users }].map((more, nth) =>
      t.gateway.keys.add({ name: `k${nth}`, can: ['recv'], ...more }, owner),
    ),
  )
  const at = '/consumers/default/leases'
  const [found, scoped] = await Promise.all(
    [all!, one!].map(({ key }) => post(rest, at, { limit: 9, timeout: 0 }, key)),
  )
  expect([texts(found!.body), texts(scoped!.body)]).toEqual([['one', 'two'], ['two']])
  const mine = { leases: leasesOf(found!.body) }
  expect([
    (await post(rest, `${at}/renew`, mine, one!.key)).body.leases,
    (await post(rest, `${at}/settle`, { ...mine, read: true }, one!.key)).body.leases,
  ]).toEqual([[], []])
  const renewed = (await post(rest, `${at}/renew`, mine, all!.key)).body
  expect(renewed).toEqual({ leases: mine.leases, expires_at: expect.any(Number) })
  expect(renewed.expires_at).toBeGreaterThanOrEqual(found!.body[0].expires_at)
  expect((await post(rest, `${at}/settle`, { ...mine, read: true }, all!.key)).body).toEqual(mine)
  expect((await post(rest, `${at}/settle`, { ...mine, read: true }, all!.key)).body).toEqual({ leases: [] })
  const other = await t.gateway.keys.add({ name: 'other', can: ['history'] }, owner)
  for (const [path, input] of [
    [at, {}],
    [`${at}/renew`, mine],
    [`${at}/settle`, { ...mine, read: true }],
  ] as const)
    expect((await post(rest, path, input, other.key)).status).toBe(403)
  expect((await post(rest, `${at}/settle`, { leases: [], read: true }, all!.key)).status).toBe(422)
  const refused = await post(rest, '/tools/default/recv', { consumer: 'acks', ack: 0, timeout: 0 }, all!.key)
  expect(refused.status).toBe(200)
  expect((await post(rest, '/consumers/acks/leases', { timeout: 0 }, all!.key)).body).toMatchObject({
    code: 'invalid_arguments',
  })
})

test('recv reads on from the end by the position that it answers with; a limit of 0 only acknowledges', async () => {
  await using t = await withTwo()
  await using rest = await restOf(t.gateway, { basePath: t.dir, clock: t.clock })
  const recv = async (input: object) => {
    const { body, headers, status } = await post(rest, '/tools/default/recv', { timeout: 0, ...input })
    return [
      status,
      status === 200 ? body.map(({ text }: Json) => text) : body.code,
      headers.get('svc-position'),
    ]
  }
  await say(t, 'one')
  const head = await t.gateway.inbox.getHead()
  expect(await recv({ after: 'end' })).toEqual([200, [], String(head)])
  await say(t, 'two')
  const next = await t.gateway.inbox.getHead()
  expect(await recv({ after: head })).toEqual([200, ['two'], String(next)])
  expect(await recv({ after: next })).toEqual([200, [], String(next)])
  const acks = { consumer: 'acks', limit: 0 }
  expect(await recv({ consumer: 'acks', ack: 0 })).toEqual([200, [], null])
  await say(t, 'three')
  expect(await recv({ ...acks, ack: 0, timeout: 300 })).toEqual([200, [], null])
  const last = await t.gateway.inbox.getHead()
  // What was not handed out cannot be acknowledged.
  expect(await recv({ ...acks, ack: last })).toEqual([422, 'invalid_arguments', null])
  expect(await recv({ consumer: 'acks', ack: 0 })).toEqual([200, ['three'], null])
  expect(await recv({ ...acks, ack: last })).toEqual([200, [], null])
  expect(await recv({ consumer: 'acks', ack: 0 })).toEqual([200, [], null])
  for (const input of [{ limit: 0 }, { limit: 0, after: 0 }, { after: 'start' }, { after: -1 }])
    expect(await recv(input)).toEqual([422, 'invalid_arguments', null])
})
