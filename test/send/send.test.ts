import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { readStatus } from '../../src/inspect/status-report.ts'
import { createDirectCall } from '../../src/model/call.ts'
import type { SvcError } from '../../src/model/error.ts'
import { owner } from '../../src/model/principal.ts'
import { openLock } from '../../src/platform/lock.ts'
import { codeOf, failure } from '../support/failure.ts'
import type { FaultKind } from '../support/faults.ts'
import { type TestGateway, type TestGatewayOptions, withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { withTalk } from '../support/talk.ts'
import { write } from '../support/waiting.ts'

const it = given(withTalk)

const history = async (t: TestGateway) =>
  (await t.gateway.history.page({ direction: 'sent', limit: 50, offset: 0 })).messages.reverse()
const context = (t: TestGateway, session?: string) => t.right(session)

/** Records the context tokens of the messages that WeChat is sent. */
function sentTokens({ sandbox }: TestGateway): unknown[] {
  const { outbox } = sandbox.world
  const tokens: unknown[] = []
  const send = outbox.send.bind(outbox)
  outbox.send = (bot, body) => {
    tokens.push((body.msg as { context_token?: string }).context_token)
    return send(bot, body)
  }
  return tokens
}

describe('which session sends', () => {
  test('the one that most recently got a context token for that user', async () => {
    await using t = await withTalk({ sessions: ['old', 'new'] })
    const { user_id: to } = t.bots.get('old')!
    // The same person has written to both, last to the first one.
    const write = async (name: string) => {
      const { bot_id } = t.bots.get(name)!
      const before = (await t.other.contexts.find(name, to))?.received_at ?? 0
      t.clock.advance(1000)
      await t.sandbox.say(`to ${name}`, { from: to, to: bot_id })
      await t.until(
        'context',
        async () => ((await t.other.contexts.find(name, to))?.received_at ?? 0) > before,
      )
    }
    await write('new')
    expect((await t.send({ to, text: '1' })).session).toBe('new')
    await write('old')
    expect((await t.send({ to, text: '2' })).session).toBe('old')
    await t.gateway.accounts.setDefault('new')
    expect((await t.send({ to, text: '3' })).session).toBe('old')
    expect((await t.send({ to, text: '4', session: 'NEW' })).session).toBe('new')
  })

  test('else the default one, else the oldest; none is not_connected', async () => {
    await using t = await withGateway({ sessions: ['b', 'a'], switches: { window: 'off' } })
    const to = await t.sandbox.addUser('stranger')
    await t.gateway.accounts.setDefault('a')
    expect((await t.send({ to, text: '1' })).session).toBe('a')
    await t.gateway.accounts.logout('a')
    expect((await t.send({ to, text: '2' })).session).toBe('b')
    expect(await codeOf(t.send({ to, text: '3', session: 'a' }))).toBe('session_not_found')
    await t.gateway.accounts.logout('b')
    expect(await failure(t.send({ to, text: '4' }))).toMatchObject({ code: 'not_connected' })
  })

  test('of a session that is logged out the error says which one to log in', async () => {
    await using t = await withTalk({
      sessions: ['default', 'work'],
      switches: { missing_context_token: 'refuse' },
    })
    const { user_id: to } = t.bots.get('work')!
    await t.gateway.accounts.logout('work')
    const next = { action: 'login', session: 'work' }
    const details = { wrote: 'elsewhere', session: 'work', tried: 'default' }
    // The other session cannot answer them either.
    const refused = (await failure(t.send({ to, text: '1' }))) as SvcError
    expect(refused).toMatchObject({ code: 'window_closed', advice: { next }, details })
    // WeChat's words stand apart.
    expect(refused.options.quote).toBe('prepare failed')
    // Kept there, it would wait for a message that never comes.
    expect(await failure(t.send({ to, text: '1', when_closed: 'queue' }))).toMatchObject({
      code: 'window_closed',
      advice: { next },
      details,
    })
    expect(await t.gateway.outbox.list(owner)).toEqual([])
    await t.gateway.accounts.logout('default')
    expect(await failure(t.send({ to, text: '2' }))).toMatchObject({
      code: 'not_connected',
      advice: { next },
    })
  })

  test('looked ahead, a closed window and a user whose account is gone are told, and nothing is sent', async () => {
    await using t = await withTalk({ sessions: ['default', 'work'] })
    const [to, other] = [t.bots.get('default')!.user_id, t.bots.get('work')!.user_id]
    const ahead = (request: object) =>
      t.gateway.sender.foresee({ to, media: [], text: 'x', ...request }, createDirectCall())
    expect(await ahead({})).toBe('new')
    await t.gateway.accounts.logout('work')
    expect(await failure(ahead({ to: other, when_closed: 'queue' }))).toMatchObject({ code: 'window_closed' })
    t.clock.advance(25 * 3_600_000)
    expect(await failure(ahead({}))).toMatchObject({ code: 'window_closed' })
    expect(await ahead({ when_closed: 'queue' })).toBe('new')
    expect(await t.sandbox.messages({ from: 'bot' })).toEqual([])
  })

  test('logged in anew under another name, the account keeps what its owner is to get', async () => {
    await using t = await withTalk({ switches: { missing_context_token: 'refuse' } })
    const { user_id: to } = t.bots.get('default')!
    await t.gateway.accounts.logout('default')
    await t.connect('main', to)
    const never = await failure(t.send({ to, text: '1' }))
    expect(never).toMatchObject({ code: 'window_closed', advice: { next: undefined } })
    const kept = await t.send({ to, text: '2', when_closed: 'queue' })
    expect([kept.session, kept.status]).toEqual(['main', 'queued'])
  })

  for (const bot of ['the same bot', 'another bot'])
    test(`logged in anew as ${bot}, a session tells that its users have not written since`, async () => {
      await using t = await withTalk({ switches: { missing_context_token: 'refuse' } })
      const { user_id: to } = t.bots.get('default')!
      const other = await t.sandbox.addUser('stranger')
      if (bot === 'the same bot') {
        await t.gateway.accounts.logout('default')
        await t.connect('default', to)
      } else {
        const asked = { session_name: 'default', timeout: 0, force: true }
        const { qr_url } = await t.gateway.logins.login(owner, asked, AbortSignal.timeout(30_000))
        const user = await t.sandbox.addUser('owner')
        await t.sandbox.scan({ ...(qr_url && { qrcode: qr_url }), user, confirm: true })
        await t.until('another bot', async () => {
          t.clock.advance(2000)
          return (await t.other.sessions.get('default'))?.bot?.user_id === user
        })
      }
      const since = {
        code: 'window_closed',
        details: { wrote: 'before_login', session: 'default' },
        advice: { next: { action: 'queue' } },
      }
      const said = { options: { quote: expect.any(String) } }
      const once = { ...since, details: { ...since.details, quote: expect.any(String) } }
      expect(await failure(t.send({ to, text: '1' }))).toMatchObject(once)
      expect(await failure(t.send({ to, text: '2', session: 'default' }))).toMatchObject(since)
      const never = await failure(t.send({ to: other, text: '3' }))
      expect(never).toMatchObject({ code: 'window_closed', ...said })
      expect(never).not.toHaveProperty('details.wrote')
    })

  test('who logged a session in, and has not written yet, is reached through it, also if another one is the default', async () => {
    await using t = await withGateway({ sessions: ['first', 'second', 'third'] })
    const { user_id: to } = t.bots.get('second')!
    expect((await t.send({ to, text: '1', when_closed: 'queue' })).session).toBe('second')
    const { user_id: stranger } = t.sandbox.bot(await t.sandbox.addUser('stranger'))
    expect((await t.send({ to: stranger, text: '2', when_closed: 'queue' })).session).toBe('first')
  })

  test('who answers a first message in the moment it comes answers by the session that got it', async () => {
    await using t = await withGateway({
      ...{ sessions: ['first', 'second'], switches: { missing_context_token: 'refuse', burst: 'off' } },
    })
    for (let round = 0; round < 5; round++) {
      const user = await t.sandbox.addUser(`stranger ${round}`)
      const heard = t.receive(1)
      await t.sandbox.say('hi', { from: user, to: t.bots.get('second')!.bot_id })
      const [message] = await heard
      const sent = await t.send({ to: message!.from_user, text: 'hello' })
      expect([sent.status, sent.session, sent.remaining]).toEqual(['accepted', 'second', 9])
    }
  })

  const whoAnswers = ['this process', 'another process'].flatMap(process =>
    ['a stranger', 'a known user'].flatMap(user =>
      (['fail', 'queue'] as const).map(mode => ({ process, user, mode })),
    ),
  )
  test.each(whoAnswers)(
    '$process answers $user with the newest token, which the files get meanwhile: $mode',
    async ({ process, user, mode }) => {
      await using t = await withGateway({
        ...{ sessions: ['first', 'second'], switches: { missing_context_token: 'refuse' } },
      })
      await using other = await t.beside()
      const from = await t.sandbox.addUser('friend')
      const say = (text: string) => t.sandbox.say(text, { from, to: t.bots.get('second')!.bot_id })
      const inFile = async () => (await t.other.contexts.find('second', from))?.token
      const isKnown = user === 'a known user'
      if (isKnown) {
        await say('before')
        await t.receive(1)
        await t.until('the file knows', inFile)
        t.clock.advance(1000)
      }
      const former = await inFile()
      // The files are written under this lock, the message without.
      const lock = await openLock(join(t.dir, '.data.lock'))
      await lock.lock()
      const answering = process === 'this process' ? t : other
      const tokens = sentTokens(t)
      const heard = answering.receive(1)
      await say('hi')
      await heard
      expect(await inFile()).toBe(former)
      const sending = answering.send({ to: from, text: 'hello', when_closed: mode })
      await lock.close()
      const sent = await sending
      expect([sent.status, sent.session, sent.remaining]).toEqual(['accepted', 'second', 9])
      const token = await t.until('the file has the new token', async () => {
        const now = await inFile()
        return now !== former && now
      })
      expect(tokens).toEqual([token!])
      const known = (await t.gateway.accounts.listUsers('second')).filter(one => one.user_id === from)
      expect(known).toMatchObject([{ remaining: 9 }])
    },
  )
})

describe('what may be sent', () => {
  it('two processes at once never send more than ten', async t => {
    await using second = await t.beside()
    const to = t.bots.get('default')!.user_id
    const all = await Promise.allSettled(
      Array.from({ length: 16 }, (_, i) => (i % 2 ? t : second).send({ to, text: `${i}` })),
    )
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(10)
    expect(t.requests('sendmessage')).toBe(10)
  })

  it('half of a surrogate pair goes as U+FFFD, on the wire, in the log, and for the key', async t => {
    const sent = await t.send({ text: 'a\ud800b 👋', idempotency_key: 'k' })
    expect((await t.sandbox.messages({ from: 'bot' })).map(({ items }) => items[0]?.text)).toEqual([
      'a\ufffdb 👋',
    ])
    const { messages } = await t.gateway.history.page({ direction: 'sent', limit: 1, offset: 0 })
    expect(messages[0]?.text).toBe('a\ufffdb 👋')
    const again = await t.send({ text: 'a\udfffb 👋', idempotency_key: 'k' })
    expect(again).toMatchObject({ repeated: true, message_id: sent.message_id })
  })

  it('a long text goes in parts that each fit, in order, and costs a unit each', async t => {
    const text = Array.from({ length: 900 }, (_, i) => `第${i}段:你好,世界,这是一个很长的故事。`).join('\n')
    const result = await t.send({ text })
    const seen = await t.sandbox.messages({ from: 'bot' })
    const bodies = seen.map(({ items }) => items[0]!.text!)
    expect(result).toMatchObject({ status: 'accepted', remaining: 10 - bodies.length })
    expect(bodies.length).toBe(Math.ceil(Buffer.byteLength(text) / 16_384))
    for (const body of bodies) expect(Buffer.byteLength(body)).toBeLessThanOrEqual(16_384)
    expect(bodies.join('\n')).toBe(text)
    expect(result.parts.map(({ message_id }) => message_id)).toEqual(seen.map(({ message_id }) => message_id))
  })

  it('text_too_long when the quota left cannot hold the parts', async t => {
    await t.send({ text: 'one' })
    expect(await failure(t.send({ text: 'x'.repeat(16_384 * 10) }))).toMatchObject({ code: 'text_too_long' })
    expect((await t.send({ text: 'x'.repeat(16_384 * 9) })).remaining).toBe(0)
  })

  it('a user that WeChat does not know costs nothing', async t => {
    const to = 'nobody@im.wechat'
    expect(await failure(t.send({ to, text: 'x' }))).toMatchObject({ code: 'invalid_arguments' })
    // Who never wrote is no user of this session.
    expect((await t.gateway.accounts.list())[0]?.user_count).toBe(1)
  })
})

describe('a text that shows nothing', () => {
  it('is rejected at each call before it costs an answer, beside media too', async t => {
    const media = [{ kind: 'file' as const, data: Buffer.from('x').toString('base64') }]
    for (const text of [' ', '\u200b', '\u2800', '\0', '\n\u3164\ufeff'])
      for (const more of [
        {},
        { media },
        { typing: true },
        { when_closed: 'queue' as const },
        { approval: 'draft' as const },
        { idempotency_key: text },
      ])
        expect(await failure(t.send({ text, ...more }))).toMatchObject({
          code: 'invalid_arguments',
          details: { errors: [{ field: 'text' }] },
        })
    const foreseen = t.gateway.sender.foresee(
      { to: t.bots.get('default')!.user_id, text: ' ', media: [] },
      createDirectCall(),
    )
    expect(await codeOf(foreseen)).toBe('invalid_arguments')
    expect(t.requests('sendmessage') + t.requests('getuploadurl')).toBe(0)
    expect(await history(t)).toEqual([])
    expect(await t.send({ text: 'a\0b' })).toMatchObject({ status: 'accepted', remaining: 9 })
    expect((await history(t))[0]).toMatchObject({ text: 'a\0b' })
    expect(await t.send({ text: '', media })).toMatchObject({ parts: [{ kind: 'file' }], remaining: 8 })
  })
})

describe('what became of it', () => {
  it('-2 that our counters do not explain is believed for half an hour, longer each time, or until the user writes', async t => {
    await t.sandbox.fail('sendmessage', 'ret', { code: -2, delay_ms: 0, times: 0 })
    let asked = 0
    for (const minutes of [30, 60, 120, 240, 360, 360]) {
      const held = { code: 'rate_limited', retryAfter: minutes * 60 }
      expect(await failure(t.send({ text: 'refused' }))).toMatchObject(held)
      expect(await failure(t.send({ text: 'not tried' }))).toMatchObject({ code: 'rate_limited' })
      await t.until('asked once', () => t.requests('sendmessage') === asked + 1)
      asked += 1
      t.clock.advance(minutes * 60_000)
    }
    await t.sandbox.mend()
    const write = async () => {
      const before = (await context(t))!.received_at!
      await t.sandbox.say('hi')
      await t.until('written', async () => (await context(t))!.received_at! > before)
    }
    await t.sandbox.fail('sendmessage', 'errcode', { code: -2, delay_ms: 0 })
    await write()
    expect(await failure(t.send({ text: 'refused' }))).toMatchObject({ retryAfter: 1800 })
    await write()
    expect((await t.send({ text: 'good' })).status).toBe('accepted')
  })

  test('-2 for the tenth answer means the quota, and not before', async () => {
    await using t = await withTalk({ switches: { quota: 9 } })
    const { parts, status, success } = await t.send({ text: 'x'.repeat(16_384 * 10) })
    expect({ status, success }).toEqual({ status: 'partial', success: false })
    expect(parts.slice(0, 9).every(part => part.status === 'accepted')).toBe(true)
    expect(parts[9]).toMatchObject({ status: 'refused', error: { code: 'quota_exhausted' } })
  })

  test('a part that is refused ends the rest; what went is told', async () => {
    await using t = await withTalk({ switches: { quota: 1 } })
    const result = await t.send({ text: 'x'.repeat(16_384 * 3) })
    expect(result).toMatchObject({ success: false, status: 'partial' })
    expect(result.parts.map(({ status }) => status)).toEqual(['accepted', 'refused', 'refused'])
    expect(result.message_id).toBe(result.parts[0]!.message_id!)
    expect(t.requests('sendmessage')).toBe(2)
    // The one never tried is given back.
    expect(result.remaining).toBe(8)
    expect((await history(t)).map(({ status }) => status)).toEqual(['accepted', 'refused'])
  })

  for (const { name, switches, fault } of [
    { name: 'dropped silently', switches: { window: 'silent_drop', window_ms: 0 } },
    { name: 'answered with ret alone', switches: { send_reply: 'ret' } },
    { name: 'answered with {}', switches: { send_reply: 'empty' } },
    { name: 'answered with nulls', fault: 'nulls' },
    { name: 'answered with nothing', fault: 'empty_body' },
  ] as { name: string; switches?: TestGatewayOptions['switches']; fault?: FaultKind }[]) {
    test(`${name}: accepted, and suspect`, async () => {
      await using t = await withTalk({ switches })
      if (fault) await t.sandbox.fail('sendmessage', fault, { after: true })
      const result = await t.send({ text: 'there?' })
      expect(result).toMatchObject({ success: true, status: 'accepted', suspect: true })
      expect(result).not.toHaveProperty('message_id')
      const [row] = await history(t)
      expect(row).toMatchObject({ status: 'suspect', text: 'there?' })
      expect(row!.message_id).toStartWith('local:svc:')
    })
  }

  test('suspect messages of the last 24 hours are counted by session, where somebody looks', async () => {
    await using t = await withTalk({ switches: { send_reply: 'ret' }, sessions: ['default', 'other'] })
    for (const text of ['one', 'two']) await t.send({ text, session: 'default' })
    const counts = async () => (await t.gateway.accounts.list()).map(one => one.suspect_count)
    expect(await counts()).toEqual([2, undefined])
    const seen = await readStatus({ basePath: t.dir, version: '0' })
    expect(seen.sessions.map(one => one.suspect_count)).toEqual([2, undefined])
    // Those with an id are none.
    await t.sandbox.switches({ send_reply: 'message_id' })
    await t.send({ text: 'three', session: 'default' })
    expect(await counts()).toEqual([2, undefined])
    t.clock.step(24 * 60 * 60_000 + 1000)
    await t.until('they are of the past', async () => (await counts()).every(count => count === undefined))
  })

  it('no answer is unknown: kept so, not repeated, and it counts', async t => {
    await t.sandbox.fail('sendmessage', 'hang', { after: true })
    // The deadline of a send is 15 s of real time; stopping the service ends it too.
    const sending = t.send({ text: 'lost?' })
    await t.until('asked', () => t.requests('sendmessage') === 1)
    const closing = t.gateway.close()
    await t.until('it is given a moment', () => t.clock.sleeps(1000, 1500))
    t.clock.advance(1500)
    using watch = stopwatch()
    await closing
    expect(watch.ms).toBeLessThan(10_000)
    expect(await sending).toMatchObject({ success: false, status: 'unknown' })
    await using again = await withGateway({ sandbox: t.sandbox, dir: t.dir, sessions: [] })
    expect(await history(again)).toMatchObject([{ text: 'lost?', status: 'unknown' }])
    expect(t.requests('sendmessage')).toBe(1)
    expect((await context(t))!.used).toBe(1)
  })

  for (const after of [false, true]) {
    it(`whatever comes in place of an answer ${after ? 'after' : 'before'} the effect: unknown, asked once`, async t => {
      const kinds = ['reset', '500', '502', '524', 'truncated', 'cut', 'malformed', 'html'] as const
      for (const [nth, kind] of kinds.entries()) {
        await write(t)
        await t.sandbox.fail('sendmessage', kind, { after })
        const result = await t.send({ text: kind })
        expect(result).toMatchObject({ success: false, status: 'unknown', remaining: 9 })
        expect(result.parts[0]!.error).toMatchObject({ code: 'upstream_error' })
        expect(t.requests('sendmessage')).toBe(nth + 1)
        expect((await history(t)).at(-1)).toMatchObject({ text: kind, status: 'unknown' })
        expect((await t.gateway.accounts.list())[0]?.status).toBe('connected')
      }
      expect(await history(t)).toHaveLength(kinds.length)
    })
  }

  it('a server that cannot be reached refuses for certain, and costs nothing', async t => {
    await t.gateway.close()
    // Port 1 is nobody's: one that was just given up may be another test's by now.
    const gone = { ...t.sandbox, url: 'http://127.0.0.1:1' }
    await using again = await withGateway({ sandbox: gone, dir: t.dir, sessions: [], clock: t.clock })
    const to = t.bots.get('default')!.user_id
    expect(await failure(again.send({ to, text: 'x' }))).toMatchObject({ code: 'upstream_error' })
    expect((await context(t))!.used).toBe(0)
    expect(await history(again)).toMatchObject([{ status: 'refused' }])
  })

  it('a caller who leaves before his turn sends nothing; one who leaves during the request changes nothing', async t => {
    expect(await codeOf(t.send({ text: 'x' }, { signal: AbortSignal.abort() }))).toBe('shutting_down')
    await t.until('given back', async () => (await context(t))!.used === 0)
    expect(t.requests('sendmessage')).toBe(0)
    const leaving = new AbortController()
    const held = Promise.withResolvers<void>()
    await t.sandbox.fail('sendmessage', 'slow', { until: held.promise })
    const sending = t.send({ text: 'y' }, { signal: leaving.signal })
    await t.until('asked', () => t.requests('sendmessage') === 1)
    leaving.abort()
    held.resolve()
    expect((await sending).status).toBe('accepted')
    expect(await history(t)).toMatchObject([{ text: 'y', status: 'accepted' }])
  })

  it('the data lock is free while the network takes its time', async t => {
    const held = Promise.withResolvers<void>()
    await t.sandbox.fail('sendmessage', 'slow', { until: held.promise })
    const sending = t.send({ text: 'slowly' })
    await t.until('asked', () => t.requests('sendmessage') === 1)
    await t.other.sessions.setDefault('default')
    held.resolve()
    expect((await sending).status).toBe('accepted')
  })
})

describe('pace', () => {
  const pace = { perSecond: 1, perWindow: 10, windowMs: 300_000 }

  test('a send waits its turn; order is kept; beyond 30 s it is refused at once', async () => {
    await using t = await withTalk({ config: { pace: { ...pace, perSecond: 0.1 } } })
    const order: string[] = []
    const send = (text: string) => t.send({ text }).then(() => order.push(text))
    await send('now')
    const [b, c, d] = [send('b'), send('c'), send('d')]
    await t.setApart(4)
    const error = await t.send({ text: 'e' }).catch(error => error)
    expect(error).toMatchObject({ code: 'rate_limited' })
    expect(error.retryAfter).toBeGreaterThan(30)
    expect(error.retryAfter).toBeLessThanOrEqual(41)
    expect(t.requests('sendmessage')).toBe(1)
    const waiting = Promise.all([b, c, d])
    for (const count of [2, 3, 4]) {
      t.clock.advance(10_000)
      await t.until(`${count} sent`, () => t.requests('sendmessage') === count)
    }
    await waiting
    expect(order).toEqual(['now', 'b', 'c', 'd'])
    const seen = await t.sandbox.messages({ from: 'bot' })
    expect(seen.map(({ items }) => items[0]!.text!)).toEqual(['now', 'b', 'c', 'd'])
    expect((await context(t))!.used).toBe(4)
  })

  test('what never went out does not count: refused by our own pace, given up while it waited, WeChat out of reach', async () => {
    await using t = await withTalk({ config: { pace: { ...pace, perSecond: 0.1, perWindow: 2 } } })
    await t.send({ text: 'first' })
    for (let tries = 0; tries < 3; tries++) {
      const caller = new AbortController()
      const waiting = t.send({ text: 'given up' }, { signal: caller.signal })
      await t.setApart(2)
      expect(await failure(t.send({ text: 'x'.repeat(20_000) }))).toMatchObject({ code: 'rate_limited' })
      caller.abort()
      expect(await failure(waiting)).toMatchObject({ code: 'shutting_down' })
      expect((await context(t))!.used).toBe(1)
    }
    const second = t.send({ text: 'second' })
    await t.setApart(2)
    t.clock.advance(10_000)
    expect((await second).status).toBe('accepted')
    expect(await failure(t.send({ text: 'third' }))).toMatchObject({ code: 'rate_limited' })
  })

  it('the parts of two sends never mix', async t => {
    await t.sandbox.fail('sendmessage', 'slow', { delay_ms: 30, times: 0 })
    await Promise.all(['a', 'b'].map(letter => t.send({ text: letter.repeat(16_384 * 3) })))
    const seen = (await t.sandbox.messages({ from: 'bot' })).map(({ items }) => items[0]!.text![0]).join('')
    expect(['aaabbb', 'bbbaaa']).toContain(seen)
  })
})

describe('typing', () => {
  const typing = async (t: TestGateway) => {
    const { users } = await t.sandbox.phone<{ users: { peers: { typing: boolean }[] }[] }>('GET', 'state')
    return users.some(({ peers }) => peers.some(peer => peer.typing))
  }

  test('shows during a slow send and is taken back', async () => {
    await using t = await withTalk({ config: { pace: { perSecond: 0.1, perWindow: 10, windowMs: 300_000 } } })
    await t.send({ text: 'first' })
    const sending = t.send({ text: 'second' })
    await t.until('waiting', () => t.requests('sendmessage') === 1)
    t.clock.advance(800)
    // WeChat shows it before its answer is here, with which the wait for the next one begins; no lease waits that long.
    await t.until('typing', async () => (await typing(t)) && t.clock.sleeps(4001, 4500))
    t.clock.advance(5000)
    await t.until('still typing', () => t.requests('sendtyping') >= 2)
    t.clock.advance(10_000)
    expect((await sending).status).toBe('accepted')
    await t.until('taken back', async () => !(await typing(t)) && t.requests('sendtyping') >= 3)
  })

  it('asked for alone it is shown at once, sends nothing and uses no answer', async t => {
    const result = await t.send({ typing: true })
    expect(result).toMatchObject({ success: true, status: 'accepted', parts: [], remaining: 10 })
    expect(await typing(t)).toBe(true)
    expect(t.requests('sendmessage')).toBe(0)
    expect((await t.gateway.history.page({ direction: 'sent', limit: 1, offset: 0 })).total).toBe(0)
    const stranger = await t.sandbox.addUser('stranger')
    expect(await failure(t.send({ to: stranger, typing: true }))).toMatchObject({ code: 'window_closed' })
    await t.sandbox.fail('getconfig', '500', { times: 0 })
    expect(await failure(t.send({ typing: true }))).toMatchObject({ code: 'upstream_error' })
  })

  test('asked for with a message it is shown from the start, and not at all where it is not wanted', async () => {
    await using t = await withTalk({ config: { pace: { perSecond: 0.1, perWindow: 10, windowMs: 300_000 } } })
    await t.send({ text: 'first', typing: false })
    const second = t.send({ text: 'second', typing: true })
    await t.until('typing', () => typing(t))
    expect(t.requests('sendmessage')).toBe(1)
    const before = t.requests('getconfig')
    const third = t.send({ text: 'third', typing: false })
    t.clock.advance(10_000)
    await second
    t.clock.advance(10_000)
    expect((await third).status).toBe('accepted')
    expect(t.requests('getconfig')).toBe(before)
  })
})

describe('stopping', () => {
  test('a send that waits its turn is refused, its quota given back', async () => {
    await using t = await withTalk({ config: { pace: { perSecond: 0.1, perWindow: 10, windowMs: 300_000 } } })
    await t.send({ text: 'first' })
    const refused = failure(t.send({ text: 'second' }))
    await t.setApart(2)
    await t.gateway.close()
    expect(await refused).toMatchObject({ code: 'shutting_down' })
    expect((await context(t))!.used).toBe(1)
    expect(
      await failure(t.gateway.sender.send({ to: 'a@b', text: 'x', media: [] }, createDirectCall())),
    ).toMatchObject({ code: 'shutting_down' })
  })
})
