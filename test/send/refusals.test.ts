/** What waits because WeChat refused it or gave no clear answer. */

import { describe, expect, test } from 'bun:test'
import type { SvcError } from '../../src/model/error.ts'
import { owner } from '../../src/model/principal.ts'
import { failure } from '../support/failure.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { keptFiles, nothingWaits, pass, seen, sent, states, withClosed, write } from '../support/waiting.ts'

const it = given(withClosed)

const queue = { when_closed: 'queue' } as const
const context = (t: TestGateway) => t.right()

describe('a refusal of upstream', () => {
  test('a user who has never written: the message waits for the first one', async () => {
    await using t = await withGateway()
    const result = await t.send({ text: 'hello?', ...queue })
    expect(result).toMatchObject({ status: 'queued', waits_for: 'user', parts: [{ status: 'queued' }] })
    expect(t.requests('sendmessage')).toBe(1)
    expect(await states(t)).toEqual([['hello?', 'queued']])
    await write(t)
    await nothingWaits(t)
    expect(await seen(t)).toEqual(['hello?'])
    expect(await states(t)).toEqual([['hello?', 'accepted']])
  })

  test('in the middle of a send, explained by the quota: what went is told, the rest waits', async () => {
    await using t = await withGateway({ switches: { quota: 9 } })
    await write(t)
    for (let i = 0; i < 8; i++) await t.send({ text: `${i}` })
    const media = [{ kind: 'file' as const, data: Buffer.from('bytes').toString('base64') }]
    const result = await t.send({ text: 'goes', media, ...queue })
    expect(result).toMatchObject({ success: false, status: 'queued', outbox_id: expect.any(String) })
    expect(result.parts.map(({ status }) => status)).toEqual(['accepted', 'queued'])
    expect(result.message_id).toBe(result.parts[0]!.message_id!)
    expect((await sent(t)).slice(8).map(({ status }) => status)).toEqual(['accepted', 'queued'])
    await write(t)
    await nothingWaits(t)
    expect((await sent(t)).slice(8).map(({ status }) => status)).toEqual(['accepted', 'accepted'])
    expect((await seen(t)).slice(8)).toEqual(['goes', 'file'])
  })

  test('one that our counters do not explain: it waits until the user writes, or for half an hour, and sends are told', async () => {
    await using t = await withGateway({ switches: { quota: 1 } })
    await write(t)
    await t.send({ text: 'a' })
    const held = await t.send({ text: 'b', ...queue })
    expect(held).toMatchObject({ status: 'queued', success: false, waits_for: 'refusal' })
    expect(held.not_before).toBeWithin(t.clock.now() + 29 * 60_000, t.clock.now() + 30 * 60_000 + 1)
    expect(await states(t)).toEqual([
      ['a', 'accepted'],
      ['b', 'queued'],
    ])
    const told = (await failure(t.send({ text: 'no' }))) as SvcError
    expect(told.code).toBe('rate_limited')
    expect(told.retryAfter).toBeWithin(29 * 60, 30 * 60 + 1)
    await pass(t, 29 * 60_000)
    expect(t.requests('sendmessage')).toBe(2)
    await t.sandbox.switches({ quota: 10 })
    await pass(t, 61_000)
    await nothingWaits(t)
    expect(await seen(t)).toEqual(['a', 'b'])
  })

  it('again right after the user wrote: that one is refused, and the next goes on', async t => {
    await t.send({ text: 'a', ...queue })
    await t.send({ text: 'b', ...queue })
    await t.sandbox.fail('sendmessage', 'ret', { code: -2, delay_ms: 0, times: 2 })
    await write(t)
    await t.until('refused', () => t.requests('sendmessage') === 1)
    await t.until('back', async () => (await sent(t))[0]!.status === 'queued')
    await pass(t, 29 * 60_000)
    expect(t.requests('sendmessage')).toBe(1)
    await write(t)
    await nothingWaits(t)
    expect(await states(t)).toEqual([
      ['a', 'refused'],
      ['b', 'accepted'],
    ])
    expect((await sent(t))[0]!.reason).toBeString()
    expect(t.requests('sendmessage')).toBe(3)
  })

  it('of the login: what waits stays, and goes when the session works again', async t => {
    await t.send({ text: 'a', ...queue })
    await t.sandbox.fail('sendmessage', 'expired')
    await write(t)
    await t.until('asked', () => t.requests('sendmessage') === 1)
    // What getupdates says when it is asked.
    await t.sandbox.switches({ receive: 'expired' })
    await t.soon('expired', async () => (await t.gateway.accounts.list())[0]!.status === 'expired')
    await t.soon('back', async () => (await sent(t))[0]!.status === 'queued')
    expect(t.requests('sendmessage')).toBe(1)
    expect(await failure(t.send({ text: 'b', ...queue }))).toMatchObject({ code: 'session_expired' })
    expect(await t.gateway.outbox.list(owner)).toMatchObject([{ waits_for: 'login' }])
    await t.sandbox.switches({ receive: 'open' })
    await pass(t, 31 * 60_000)
    await nothingWaits(t)
    expect(await states(t)).toEqual([['a', 'accepted']])
    expect(await seen(t)).toEqual(['a'])
  })

  it('of an upload: not repeated before the user writes again, and only so often', async t => {
    const file = { kind: 'file' as const, data: Buffer.from('x').toString('base64') }
    await t.send({ media: [file], ...queue })
    await t.send({ text: 'behind', ...queue })
    await t.sandbox.fail('getuploadurl', 'ret', { times: 0, delay_ms: 1 })
    for (const tries of [1, 2]) {
      await write(t)
      await t.until('asked', () => t.requests('getuploadurl') === tries)
      await t.until(
        'its answer is noted',
        () => t.lines.join('').split('queued message not sent').length > tries,
      )
      // The clock is not to jump while something is on its way: that would be taken for a process that hangs.
      if (tries === 2)
        await t.until('the next went out', async () => (await sent(t))[1]?.status === 'accepted')
      await pass(t, 10 * 60_000)
    }
    await nothingWaits(t)
    expect((await sent(t)).map(({ status }) => status)).toEqual(['refused', 'accepted'])
    expect(t.requests('getuploadurl')).toBe(2)
    await t.until('no file left', async () => (await keptFiles(t)).length === 0)
  })

  it('an upload that breaks is tried again after a while', async t => {
    const file = { kind: 'file' as const, data: Buffer.from('x').toString('base64') }
    await t.send({ media: [file], ...queue })
    await t.sandbox.fail('getuploadurl', '500', { times: 1 })
    await write(t)
    await t.until('asked', () => t.requests('getuploadurl') === 1)
    await t.until('held', () => t.lines.join('').includes(' WARNING send: '))
    await pass(t, 10_000)
    await nothingWaits(t)
    expect((await sent(t)).map(({ status }) => status)).toEqual(['accepted'])
    expect((await context(t))!.used).toBe(1)
  })
})

describe('an HTTP status', () => {
  const withoutBurst = () => withGateway({ switches: { burst: 'off' } })
  const text = 'hello'

  test('that proves a refusal is one, and tells the status; what came before WeChat costs no answer', async () => {
    await using t = await withoutBurst()
    await write(t)
    let used = 0
    for (const status of [
      301, 302, 307, 308, 400, 401, 402, 403, 404, 405, 410, 411, 413, 414, 415, 418, 421, 422, 423, 425, 426,
      429, 431, 451,
    ]) {
      await write(t)
      await t.sandbox.fail('sendmessage', 'status', { code: status })
      const told = await failure(t.send({ text }))
      expect(told).toMatchObject({
        code: 'upstream_error',
        message: expect.stringContaining(String(status)),
      })
      expect((await sent(t)).at(-1)).toMatchObject({
        status: 'refused',
        reason: expect.stringContaining(String(status)),
      })
      used = [400, 413, 422, 429].includes(status) ? 1 : 0
      expect([status, (await context(t))!.used]).toEqual([status, used])
    }
    expect(await t.send({ text })).toMatchObject({ status: 'accepted', remaining: 9 - used })
  })

  test('that proves nothing leaves the message unknown', async () => {
    await using t = await withoutBurst()
    for (const status of [303, 304, 406, 408, 409, 499, 500, 501, 502, 503, 504, 524]) {
      await write(t)
      await t.sandbox.fail('sendmessage', 'status', { code: status })
      expect([status, await t.send({ text })]).toMatchObject([status, { status: 'unknown', remaining: 9 }])
    }
  })

  test('tells itself beside the text of WeChat', async () => {
    await using t = await withoutBurst()
    await write(t)
    await t.sandbox.fail('sendmessage', '401')
    const told = await failure(t.send({ text }))
    expect(told).toMatchObject({
      message: expect.stringContaining('401'),
      options: { quote: 'Invalid token' },
    })
    expect((await context(t))!.used).toBe(0)
  })

  it('queued: it waits for the user or half an hour; one about the message ends when it comes again', async t => {
    await t.send({ text: 'a', ...queue })
    await t.send({ text: 'b', ...queue })
    await t.sandbox.fail('sendmessage', 'status', { code: 413, times: 2 })
    await write(t)
    await t.until(
      'refused',
      async () => t.requests('sendmessage') === 1 && (await sent(t))[0]!.status === 'queued',
    )
    await pass(t, 29 * 60_000)
    expect(t.requests('sendmessage')).toBe(1)
    await write(t)
    await nothingWaits(t)
    expect(await states(t)).toEqual([
      ['a', 'refused'],
      ['b', 'accepted'],
    ])
  })

  it('of an upload: the file is not sent again and again', async t => {
    const file = { kind: 'file' as const, data: Buffer.from('x').toString('base64') }
    await t.send({ media: [file], ...queue })
    await t.sandbox.fail('upload', 'status', { code: 413, times: 0 })
    await write(t)
    await t.until('asked', () => t.lines.join('').includes('queued message not sent'))
    const uploads = t.requests('getuploadurl')
    await pass(t, 29 * 60_000)
    expect(t.requests('getuploadurl')).toBe(uploads)
    await write(t)
    await nothingWaits(t)
    expect((await sent(t))[0]).toMatchObject({
      status: 'refused',
      reason_quote: 'HTTP 413',
    })
  })
})

describe('no clear answer', () => {
  it('that message is unknown and never sent again; the ones behind it go after a calm', async t => {
    const file = { kind: 'file' as const, data: Buffer.from('x').toString('base64') }
    await t.send({ text: 'perhaps', media: [file], ...queue })
    await t.sandbox.fail('sendmessage', 'reset', { after: true })
    await write(t)
    await t.until('unknown', async () => (await sent(t))[0]!.status === 'unknown')
    expect((await sent(t)).map(({ status }) => status)).toEqual(['unknown', 'queued'])
    expect((await sent(t))[0]!.reason).toBeString()
    await pass(t, 4 * 60_000)
    expect(t.requests('sendmessage')).toBe(1)
    await pass(t, 61_000)
    await nothingWaits(t)
    expect((await sent(t)).map(({ status }) => status)).toEqual(['unknown', 'accepted'])
    expect(t.requests('sendmessage')).toBe(2)
  })
})
