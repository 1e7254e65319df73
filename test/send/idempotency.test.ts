import { describe, expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { owner } from '../../src/model/principal.ts'
import { testClock } from '../support/clock.ts'
import { failure } from '../support/failure.ts'
import type { withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { withTalk } from '../support/talk.ts'

const it = given(withTalk)

const hourMs = 60 * 60_000

const key = { idempotency_key: 'k' }

test('the same key answers with the first result and sends nothing, after a restart too', async () => {
  const t = await withTalk()
  const first = await t.send({ text: 'once', ...key })
  await t.send({ text: 'between' })
  expect(await t.send({ text: 'once', ...key })).toEqual({ ...first, repeated: true })
  await t.gateway.close()
  await using again = await t.beside()
  const to = t.bots.get('default')!.user_id
  expect(await again.send({ to, text: 'once', ...key })).toEqual({ ...first, repeated: true })
  expect(t.requests('sendmessage')).toBe(2)
  await t[Symbol.asyncDispose]()
})

test('other content under the key is refused, whatever differs; the same said otherwise is the same', async () => {
  await using t = await withTalk({ sessions: ['default', 'two'] })
  const media = [{ kind: 'file' as const, data: Buffer.from('x').toString('base64'), file_name: 'a' }]
  const request = { text: 'a', media, ...key }
  const first = await t.send(request)
  const others = [
    { ...request, text: 'b' },
    { ...request, text: undefined },
    { ...request, to: t.bots.get('two')!.user_id },
    { ...request, session: 'default' },
    { ...request, when_closed: 'queue' as const },
    { ...request, media: [] },
    { ...request, media: [{ ...media[0]!, data: Buffer.from('y').toString('base64') }] },
    { ...request, media: [{ ...media[0]!, kind: 'image' as const }] },
    { ...request, media: [{ ...media[0]!, file_name: 'b' }] },
    { ...request, media: [{ kind: 'file' as const, path: 'x', file_name: 'a' }] },
    { ...request, media: [media[0]!, media[0]!] },
  ]
  for (const other of others) {
    expect(await failure(t.send(other))).toMatchObject({ code: 'idempotency_conflict' })
  }
  expect(await t.send({ ...request, when_closed: 'fail' })).toEqual({ ...first, repeated: true })
  expect(t.requests('sendmessage')).toBe(2)
})

it('a file that is gone by now does not matter', async t => {
  const path = join(t.mediaRoot, 'x')
  await writeFile(path, 'bytes')
  const first = await t.send({ media: [{ kind: 'file', path }], ...key })
  await Bun.file(path).delete()
  expect(await t.send({ media: [{ kind: 'file', path }], ...key })).toEqual({ ...first, repeated: true })
})

it('the bytes decide: uploaded again, or given as data, they are the same; written anew they are not', async t => {
  const upload = async () => {
    const body = new Blob(['bytes']).stream()
    return (await t.gateway.media.accept({ body, file_name: 'x' }, new AbortController().signal)).upload_id
  }
  const send = (media: object) => t.send({ media: [{ kind: 'file', ...media }], ...key })
  const first = await send({ upload_id: await upload() })
  expect(await send({ upload_id: await upload() })).toEqual({ ...first, repeated: true })
  expect(await send({ data: Buffer.from('bytes').toString('base64'), file_name: 'x' })).toEqual({
    ...first,
    repeated: true,
  })
  const path = join(t.mediaRoot, 'x')
  await writeFile(path, 'bytes')
  expect(await send({ path })).toEqual({ ...first, repeated: true })
  await writeFile(path, 'other')
  expect(await failure(send({ path }))).toMatchObject({ code: 'idempotency_conflict' })
  expect(t.requests('sendmessage')).toBe(1)
})

it('calls at the same time send once and get one result', async t => {
  await t.sandbox.fail('sendmessage', 'slow', { delay_ms: 200 })
  const results = await Promise.all(Array.from({ length: 20 }, () => t.send({ text: 'once', ...key })))
  const [first, ...others] = results
  expect(first).not.toHaveProperty('repeated')
  for (const result of others) expect(result).toEqual({ ...first!, repeated: true })
  expect(t.requests('sendmessage')).toBe(1)
})

test('a second caller who leaves ends his wait alone; when the first leaves before his turn the second sends', async () => {
  await using t = await withTalk({ config: { pace: { perSecond: 0.1, perWindow: 10, windowMs: 300_000 } } })
  await t.send({ text: 'takes the turn' })
  const [first, second, third] = [new AbortController(), new AbortController(), new AbortController()]
  const calls = [first, second, third].map(({ signal }) => t.send({ text: 'a', ...key }, { signal }))
  await t.setApart(2)
  second.abort()
  expect(await failure(calls[1]!)).toMatchObject({ code: 'shutting_down' })
  first.abort()
  expect(await failure(calls[0]!)).toMatchObject({ code: 'shutting_down' })
  await t.setApart(2)
  t.clock.advance(10_000)
  expect((await calls[2]!).status).toBe('accepted')
  expect(t.requests('sendmessage')).toBe(2)
})

test('the first leaves at any moment before its message is on its way: the second sends', async () => {
  for (const step of ['getuploadurl', 'upload'] as const) {
    await using t = await withTalk()
    const held = Promise.withResolvers<void>()
    await t.sandbox.fail(step, 'slow', { until: held.promise })
    const request = { media: [{ kind: 'file' as const, data: 'eA==', file_name: 'x' }], ...key }
    const first = new AbortController()
    const calls = [t.send(request, { signal: first.signal }), t.send(request)]
    await t.until(step, () => t.requests(step) === 1)
    first.abort()
    expect(await failure(calls[0]!)).toMatchObject({ code: 'shutting_down' })
    held.resolve()
    expect((await calls[1]!).status).toBe('accepted')
    expect(t.requests('sendmessage')).toBe(1)
  }
})

test('the first leaves between two messages of its text: for who still waits the rest goes out too', async () => {
  await using t = await withTalk({ config: { pace: { perSecond: 0.1, perWindow: 10, windowMs: 300_000 } } })
  const request = { text: `${'a'.repeat(16_000)}\n\n${'b'.repeat(16_000)}`, ...key }
  const first = new AbortController()
  const calls = [t.send(request, { signal: first.signal }), t.send(request), t.send(request)]
  await t.until('the first message', () => t.requests('sendmessage') === 1)
  first.abort()
  expect(await failure(calls[0]!)).toMatchObject({ code: 'shutting_down' })
  await t.setApart(2)
  t.clock.advance(10_000)
  const [second, third] = await Promise.all(calls.slice(1))
  expect(t.requests('sendmessage')).toBe(2)
  expect(second).toMatchObject({
    status: 'accepted',
    parts: [{ status: 'accepted' }, { status: 'accepted' }],
  })
  expect(third).toEqual(second!)
})

test('it ends when the last one leaves, who hears what became of it', async () => {
  await using t = await withTalk({ config: { pace: { perSecond: 0.1, perWindow: 10, windowMs: 300_000 } } })
  const request = { text: `${'a'.repeat(16_000)}\n\n${'b'.repeat(16_000)}`, ...key }
  const callers = [new AbortController(), new AbortController()]
  const calls = callers.map(({ signal }) => t.send(request, { signal }))
  await t.until('the first message', async () => (await t.sandbox.messages({ from: 'bot' })).length === 1)
  callers[0]!.abort()
  expect(await failure(calls[0]!)).toMatchObject({ code: 'shutting_down' })
  callers[1]!.abort()
  expect(await calls[1]!).toMatchObject({
    status: 'partial',
    parts: [{ status: 'accepted' }, { status: 'refused', error: { code: 'shutting_down' } }],
  })
  expect(t.requests('sendmessage')).toBe(1)
})

it('a first call in another process is waited for, at most 30 s', async t => {
  // By a clock of its own: while that one jumps, the first call's own deadlines do not come.
  const clock = testClock()
  await using other = await t.beside({ clock })
  const to = t.bots.get('default')!.user_id
  const held = Promise.withResolvers<void>()
  await t.sandbox.fail('sendmessage', 'slow', { until: held.promise })
  const first = t.send({ text: 'a', ...key })
  await t.until('asked', () => t.requests('sendmessage') === 1)
  expect(await failure(other.send({ to, text: 'b', ...key }))).toMatchObject({ code: 'idempotency_conflict' })
  const second = other.send({ to, text: 'a', ...key })
  held.resolve()
  expect(await second).toEqual({ ...(await first), repeated: true })
  expect(t.requests('sendmessage')).toBe(1)

  const longer = Promise.withResolvers<void>()
  await t.sandbox.fail('sendmessage', 'slow', { until: longer.promise })
  const slow = t.send({ text: 'a', idempotency_key: 'l' })
  await t.until('asked', () => t.requests('sendmessage') === 2)
  const refused = failure(other.send({ to, text: 'a', idempotency_key: 'l' }))
  // Its time runs by the end of this turn of the event loop.
  await new Promise(resolve => setImmediate(resolve))
  clock.advance(30_000)
  expect(await refused).toMatchObject({ code: 'rate_limited', retryAfter: 5 })
  longer.resolve()
  expect((await slow).status).toBe('accepted')
})

describe('a first call that is taken for dead, and is only slow', () => {
  /** Beside it a process by whose clock it has been at it for hours, once that is `late`. */
  async function withTwo(pace: NonNullable<Parameters<typeof withGateway>[0]>['config'] = {}) {
    const t = await withTalk({ config: pace })
    const clock = testClock()
    const other = await t.beside({ clock })
    const to = t.bots.get('default')!.user_id
    return {
      ...{ t, other, to },
      late: () => clock.step(2 * hourMs),
      async [Symbol.asyncDispose]() {
        await other[Symbol.asyncDispose]()
        await t[Symbol.asyncDispose]()
      },
    }
  }

  for (const slower of [false, true]) {
    test(`sends nothing any more: its key is ${slower ? 'that of a call under way' : 'spent'}`, async () => {
      await using two = await withTwo()
      const { t, other, to } = two
      const request = { to, media: [{ kind: 'file' as const, data: 'eA==', file_name: 'x' }], ...key }
      const held = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const
      await t.sandbox.fail('getuploadurl', 'slow', { until: held[0].promise })
      const slow = t.send(request).catch((error: unknown) => error)
      await t.until('at it', () => t.requests('getuploadurl') === 1)
      two.late()
      if (slower) await t.sandbox.fail('getuploadurl', 'slow', { until: held[1].promise })
      const second = other.send(request)
      if (slower) await t.until('at it too', () => t.requests('getuploadurl') === 2)
      else await second
      held[0].resolve()
      expect(await slow).toMatchObject({ code: 'rate_limited', retryAfter: 5 })
      // Nor has it freed the key.
      const third = t.send(request)
      held[1].resolve()
      expect((await second).status).toBe('accepted')
      expect(await third).toEqual({ ...(await second), repeated: true })
      expect(t.requests('sendmessage')).toBe(1)
    })
  }

  test('between two messages: no further one goes out, and both calls say so', async () => {
    await using two = await withTwo({ pace: { perSecond: 0.1, perWindow: 10, windowMs: 300_000 } })
    const { t, other, to } = two
    const request = { to, text: `${'a'.repeat(16_000)}\n\n${'b'.repeat(16_000)}`, ...key }
    const slow = t.send(request)
    await t.until('the first message', async () => {
      const { messages } = await t.gateway.history.page({ direction: 'sent', limit: 1, offset: 0 })
      return messages[0]?.status === 'accepted'
    })
    two.late()
    const sight = { status: 'partial', parts: [{ status: 'accepted' }, { status: 'refused' }] }
    expect(await other.send(request)).toMatchObject(sight)
    t.clock.advance(10_000)
    expect(await slow).toMatchObject(sight)
    expect(t.requests('sendmessage')).toBe(1)
  })
})

it('a queued call answers as queued again, and waits once', async t => {
  t.clock.advance(25 * hourMs)
  const request = { text: 'later', when_closed: 'queue' as const, ...key }
  const first = await t.send(request)
  expect(first.status).toBe('queued')
  expect(await t.send(request)).toEqual({ ...first, repeated: true })
  expect(await t.gateway.outbox.list(owner)).toHaveLength(1)
})
