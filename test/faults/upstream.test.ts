/**
 * Every kind of trouble that upstream can make, on every endpoint: what it means for the message, the session and the
 * others. getupdates has the same kinds in receive/receive, "a session in trouble", and receive/poller-backoff; the CDN in
 * media/media-*.
 */

import { describe, expect, test } from 'bun:test'
import { owner } from '../../src/model/principal.ts'
import { testClock } from '../support/clock.ts'
import { failure } from '../support/failure.ts'
import type { FaultEndpoint, FaultKind } from '../support/faults.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { withTalk } from '../support/talk.ts'
import { until } from '../support/until.ts'

type Trouble = { kind: FaultKind; code?: number; named: string }
const trouble = (kind: FaultKind, code?: number): Trouble => ({
  kind,
  ...(code !== undefined && { code }),
  named: code === undefined ? kind : `${kind} ${code} alone`,
})
const strike = (t: TestGateway, endpoint: FaultEndpoint, { kind, code }: Trouble, times = 1) =>
  t.sandbox.fail(endpoint, kind, { times, delay_ms: 0, ...(code !== undefined && { code }) })

/** No clear answer: an error page, a broken line, half an answer, something that is no answer. */
const unclear = ['500', '502', '524', 'reset', 'truncated', 'cut', 'malformed', 'html'] as const
const refusals = [trouble('ret', -1), trouble('errcode', -1)]
/** Everything but the end of the login, and silence. */
const troubles = [...unclear, 'nulls' as const, 'empty_body' as const]
  .map(kind => trouble(kind))
  .concat(refusals)
const expired = [trouble('ret', -14), trouble('errcode', -14)]

const context = (t: TestGateway) => t.right()
const sent = async (t: TestGateway) =>
  (await t.gateway.history.page({ direction: 'sent', limit: 50, offset: 0 })).messages
/** What recv gives, once there is something. */
const received = (t: TestGateway) =>
  until('a message', 30_000, async () => {
    const messages = await t.recv({ timeout: 0 })
    return messages.length > 0 && messages
  })
const statusOf = async (t: TestGateway) => (await t.gateway.accounts.list())[0]?.status
const file = { kind: 'file' as const, data: Buffer.from('12345').toString('base64'), file_name: 'a.txt' }
/** So slow that a second send shows the typing indicator while it waits. */
const slowPace = { config: { pace: { perSecond: 0.1, perWindow: 100, windowMs: 300_000 } } }

/** Sends while the typing indicator is asked for, and shown if it can be. */
async function sendTyping(t: TestGateway, endpoint: 'getconfig' | 'sendtyping') {
  const before = t.requests(endpoint)
  const sending = t.send({ text: 'second' })
  // Not until its turn: the answers on the way may take their time.
  let passed = 0
  await t.until(`${endpoint} asked`, () => {
    if (passed < 3000) t.clock.advance(100)
    passed += 100
    return t.requests(endpoint) > before
  })
  t.clock.advance(10_000)
  // The phone's time goes on as well: else the user's next message would be older than the last one that svc got.
  await t.sandbox.advance(Math.min(passed, 3000) + 10_000)
  return sending
}

describe('sendmessage', () => {
  for (const one of refusals) {
    test(`${one.named}: refused, told, asked once`, async () => {
      await using t = await withTalk()
      await strike(t, 'sendmessage', one)
      expect(await failure(t.send({ text: 'x' }))).toMatchObject({ code: 'upstream_error' })
      expect(t.requests('sendmessage')).toBe(1)
      expect(await sent(t)).toMatchObject([{ status: 'refused' }])
    })
  }
})

describe('getuploadurl', () => {
  for (const one of troubles) {
    test(`${one.named}: upstream_error, nothing sent, nothing spent, no row`, async () => {
      await using t = await withTalk()
      await strike(t, 'getuploadurl', one)
      expect(await failure(t.send({ text: 'see', media: [file] }))).toMatchObject({ code: 'upstream_error' })
      expect(t.requests('sendmessage')).toBe(0)
      await t.until('given back', async () => (await context(t))!.used === 0)
      expect(await sent(t)).toEqual([])
      expect(await t.send({ media: [file] })).toMatchObject({ status: 'accepted' })
    })
  }
})

describe('-14', () => {
  for (const one of expired) {
    for (const endpoint of ['getconfig', 'sendtyping'] as const) {
      test(`on ${endpoint}, as ${one.named}: the message goes its own way, getupdates is asked, and the session stays`, async () => {
        await using t = await withTalk(slowPace)
        await t.send({ text: 'first' })
        const polls = t.requests('getupdates')
        await strike(t, endpoint, one)
        expect(await sendTyping(t, endpoint)).toMatchObject({ status: 'accepted' })
        await t.until('asked', () => t.requests('getupdates') > polls)
        expect(await statusOf(t)).toBe('connected')
      })
    }
  }
})

describe('getconfig and sendtyping', () => {
  for (const endpoint of ['getconfig', 'sendtyping'] as const) {
    test(`${endpoint} in every other trouble: the message goes all the same, and the session stays`, async () => {
      await using t = await withTalk(slowPace)
      await t.send({ text: 'first' })
      for (const one of [...troubles, trouble('hang')]) {
        await strike(t, endpoint, one, 0)
        expect(await sendTyping(t, endpoint)).toMatchObject({ status: 'accepted' })
        expect(await statusOf(t)).toBe('connected')
        await t.sandbox.mend()
        // A word of its own: the message of the round before may be on its way still.
        const text = `all may be answered again after ${one.named}`
        await t.sandbox.say(text)
        const came = () => t.gateway.history.page({ text_contains: text, limit: 1, offset: 0 })
        await t.until('it is known', async () => (await came()).total > 0 && (await context(t))!.used === 0)
      }
      await t.hurry(t.gateway.close())
    })
  }
})

describe('notifystart and notifystop', () => {
  for (const one of [...troubles, trouble('hang')]) {
    test(`${one.named}: messages come all the same, and the service stops in time`, async () => {
      await using t = await withGateway({ start: false, clock: testClock({ runs: false }) })
      for (const endpoint of ['notifystart', 'notifystop'] as const) {
        await strike(t, endpoint, one, 0)
      }
      await t.gateway.start()
      await t.sandbox.say('hello')
      expect(await received(t)).toMatchObject([{ text: 'hello' }])
      await t.closeUnheard()
    })
  }
})

test('-14 on notifystart alone expires nothing: messages come', async () => {
  await using t = await withGateway({ start: false })
  await t.sandbox.fail('notifystart', 'expired', { times: 1 })
  await t.gateway.start()
  await t.sandbox.say('hello')
  expect(await received(t)).toMatchObject([{ text: 'hello' }])
  expect(await statusOf(t)).toBe('connected')
})

describe('login', () => {
  for (const one of troubles) {
    test(`get_bot_qrcode ${one.named}: upstream_error at once, and the next call starts anew`, async () => {
      await using t = await withGateway({ sessions: [] })
      await strike(t, 'get_bot_qrcode', one)
      const login = () =>
        t.gateway.logins.login(
          owner,
          { session_name: 'x', timeout: 5, force: false },
          new AbortController().signal,
        )
      expect(await failure(login())).toMatchObject({ code: 'upstream_error' })
      expect(t.lines.join('')).toContain('no QR code could be had')
      await t.until('over', async () => (await t.gateway.accounts.list()).length === 0)
      expect(await login()).toMatchObject({ status: 'waiting' })
    })
  }

  test('get_qrcode_status in every trouble, one after the other: the login goes on to its end, and does not ask in a circle', async () => {
    await using t = await withGateway({ sessions: [] })
    const login = (timeout: number) =>
      t.gateway.logins.login(
        owner,
        { session_name: 'x', timeout, force: false },
        new AbortController().signal,
      )
    for (const one of troubles) await strike(t, 'get_qrcode_status', one)
    const { qr_url } = await login(0)
    await t.sandbox.scan({ qrcode: qr_url!, confirm: true })
    await t.until('confirmed', async () => {
      t.clock.advance(500)
      return (await login(0)).status === 'confirmed'
    })
    expect(await statusOf(t)).toBe('connected')
    expect(t.requests('get_qrcode_status')).toBe(troubles.length + 1)
  })
})
