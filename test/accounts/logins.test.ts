import { describe, expect, test } from 'bun:test'
import { mkdir, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { checkCapacity, checkInvitedShare } from '../../src/accounts/login-room.ts'
import type { SvcError } from '../../src/model/error.ts'
import type { LoginRequest, LoginStatus } from '../../src/model/login.ts'
import { owner } from '../../src/model/principal.ts'
import { codeOf, failure } from '../support/failure.ts'
import { changeIn, loginIn, type TestGateway, withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { isOnPostgres } from '../support/shared-store.ts'
import { stopwatch } from '../support/stopwatch.ts'

const login = (
  t: TestGateway,
  session_name?: string,
  more: Partial<LoginRequest> = {},
  signal?: AbortSignal,
) =>
  t.gateway.logins.login(
    owner,
    { session_name, timeout: 4, force: false, ...more },
    signal ?? new AbortController().signal,
  )

/** Follows a login until it says one of these; time flies between two polls, and what is asked is answered meanwhile. */
async function follow(
  t: TestGateway,
  until: LoginStatus['status'][],
  session_name?: string,
  more: Partial<LoginRequest> = {},
): Promise<LoginStatus> {
  for (let tries = 0; tries < 40; tries++) {
    const pending = login(t, session_name, { timeout: 0.2, ...more })
    t.clock.advance(2000)
    const status = await pending
    if (until.includes(status.status)) return status
    for (let ways = 0; ways < 2; ways++) await t.sandbox.phone('GET', 'state')
  }
  throw new Error(`never ${until}:\n${t.lines.join('')}`)
}

/** How logins ended without a session, as the log has it at INFO. */
const endsIn = (t: TestGateway) =>
  t.lines.flatMap(line => / INFO logins: .* status=(\w+)/.exec(line)?.[1] ?? [])

/** Lets no credentials of a session be stored. @returns a function that ends this */
async function blockCredentials(dir: string, session: string): Promise<() => Promise<void>> {
  if (isOnPostgres) {
    await changeIn(
      dir,
      `CREATE FUNCTION svc.refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$BEGIN RAISE EXCEPTION 'no space left'; END$$`,
    )
    await changeIn(
      dir,
      `CREATE TRIGGER refused BEFORE INSERT OR UPDATE ON svc.account FOR EACH ROW
      WHEN (new.name = '${session}') EXECUTE FUNCTION svc.refuse()`,
    )
    return () => changeIn(dir, 'DROP TRIGGER refused ON svc.account')
  }
  const place = join(dir, session, 'token.json')
  await mkdir(place, { recursive: true })
  return () => rmdir(place)
}

const fresh = (switches = {}) => withGateway({ sessions: [], switches })
const it = given(fresh)

describe('login', () => {
  it('gives a QR code at once, then scaned, then confirmed; the session is polled', async t => {
    const first = await login(t, 'work')
    expect(first).toMatchObject({ status: 'waiting', session: 'work' })
    expect(first.qr_url).toStartWith('http')
    expect(first.qr_text!.split('\n').length).toBeGreaterThan(10)
    expect((await t.gateway.accounts.list())[0]).toMatchObject({ name: 'work', status: 'logging_in' })
    await t.sandbox.scan({ qrcode: first.qr_url! })
    expect(await follow(t, ['scaned'], 'work')).toMatchObject({ status: 'scaned' })
    await t.sandbox.phone('POST', 'confirm', { qrcode: first.qr_url })
    const confirmed = await follow(t, ['confirmed'], 'work')
    expect(confirmed).toMatchObject({ session: 'work', bot_id: expect.stringMatching(/@im\.bot$/) })
    expect(confirmed).not.toHaveProperty('qr_url')
    await t.sandbox.say('hello')
    expect((await t.recv())[0]).toMatchObject({ text: 'hello', session: 'work' })
    expect(t.lines.join('')).not.toContain((await t.other.sessions.get('work'))!.bot!.token.split(':')[1]!)
  })

  it('a call waits for the change it is told of, no longer than its timeout', async t => {
    const { qr_url } = await login(t)
    using watch = stopwatch()
    expect((await login(t, '', { timeout: 0 })).status).toBe('waiting')
    expect(watch.ms).toBeLessThan(2000)
    expect((await login(t, '', { timeout: 0.3 })).status).toBe('waiting')
    expect(watch.ms).toBeLessThan(4000)
    const waiting = login(t, '', { timeout: 30 })
    await t.sandbox.scan({ qrcode: qr_url! })
    expect((await waiting).status).toBe('scaned')
    expect(watch.ms).toBeLessThan(4000)
    const leaving = new AbortController()
    const left = login(t, '', { timeout: 30 }, leaving.signal)
    leaving.abort()
    expect((await left).status).toBe('scaned')
  })

  test('what changed between two calls is told at once, to the next one alone', async () => {
    await using t = await fresh({ verify_code: 'on' })
    const { qr_url } = await login(t, 'a')
    await t.sandbox.scan({ qrcode: qr_url! })
    const onlooker = () => t.gateway.logins.follow(owner, { session: 'a' }, 0, new AbortController().signal)
    await t.until('svc hears of the scan', async () => {
      t.clock.advance(500)
      return (await onlooker()).status === 'need_verifycode'
    })
    using watch = stopwatch()
    expect((await login(t, 'a', { timeout: 20 })).status).toBe('need_verifycode')
    expect(watch.ms).toBeLessThan(10_000)
    let answered = false
    const leaving = new AbortController()
    const again = login(t, 'a', { timeout: 30 }, leaving.signal).finally(() => (answered = true))
    await t.sandbox.phone('GET', 'state')
    expect(answered).toBe(false)
    leaving.abort()
    expect((await again).status).toBe('need_verifycode')
  })

  test('the digits: wrong ones are asked for again, right ones go through', async () => {
    await using t = await fresh({ verify_code: 'on' })
    const { qr_url } = await login(t, 'a')
    const seen = await t.sandbox.scan({ qrcode: qr_url!, confirm: true })
    expect((await follow(t, ['need_verifycode'], 'a')).message).toContain('verify_code')
    const wrong = seen.verify_code === '0000' ? '1111' : '0000'
    const again = await login(t, 'a', { verify_code: wrong, timeout: 30 })
    expect(again).toMatchObject({ status: 'need_verifycode', message: expect.stringContaining('wrong') })
    const polls = t.requests('get_qrcode_status')
    t.clock.advance(20_000)
    await login(t, 'a', { timeout: 0.2 })
    // Nothing is asked while the human types: it might count as a wrong code.
    expect(t.requests('get_qrcode_status')).toBe(polls)
    const right = login(t, 'a', { verify_code: seen.verify_code, timeout: 30 })
    expect(['scaned', 'confirmed']).toContain((await right).status)
    await follow(t, ['confirmed'], 'a')
  })

  test('digits of which upstream has said nothing yet are not asked for again', async () => {
    await using t = await fresh({ verify_code: 'on' })
    const { qr_url } = await login(t, 'a')
    const seen = await t.sandbox.scan({ qrcode: qr_url!, confirm: true })
    await follow(t, ['need_verifycode'], 'a')
    const slowly = async () => {
      const { promise, resolve } = Promise.withResolvers<void>()
      await t.sandbox.fail('get_qrcode_status', 'slow', { until: promise })
      return resolve
    }
    const first = await slowly()
    const wrong = seen.verify_code === '0000' ? '1111' : '0000'
    const early = await login(t, 'a', { verify_code: wrong, timeout: 0.2 })
    expect(early).toMatchObject({ status: 'scaned', message: expect.stringContaining('number was sent') })
    first()
    const late = await login(t, 'a', { timeout: 30 })
    expect(late).toMatchObject({ status: 'need_verifycode', message: expect.stringContaining('wrong') })
    const second = await slowly()
    const right = await login(t, 'a', { verify_code: seen.verify_code!, timeout: 0.2 })
    expect(right).toMatchObject({ status: 'scaned', message: expect.stringContaining('number was sent') })
    second()
    await follow(t, ['confirmed'], 'a')
  })

  it('an expired QR code is renewed three times, then it is over; the next call starts anew', async t => {
    let { qr_url } = await login(t)
    for (let renewals = 1; renewals <= 3; renewals++) {
      await t.sandbox.phone('POST', 'expire', {})
      const old = qr_url
      await t.until(`renewal ${renewals}`, async () => {
        t.clock.advance(2000)
        qr_url = (await login(t, '', { timeout: 0.05 })).qr_url
        return qr_url !== old
      })
    }
    // Who waits is told.
    const ended = login(t, '', { timeout: 300 })
    await t.sandbox.phone('POST', 'expire', {})
    await t.until('it is over', () => {
      t.clock.wake(2000)
      return endsIn(t).length > 0
    })
    const over = await ended
    expect([over.status, over]).toEqual([
      'expired',
      expect.not.objectContaining({ qr_url: expect.anything() }),
    ])
    expect((await login(t)).status).toBe('waiting')
  })

  it('who calls after a code ran out is given a new one at once, however it ran out', async t => {
    const first = await login(t)
    // Nobody asked while it ran out, and the caller has no time.
    await t.sandbox.phone('POST', 'expire', {})
    t.clock.advance(6 * 60_000)
    const second = await login(t, '', { timeout: 0 })
    expect([second.status, second.qr_url]).toEqual(['waiting', expect.any(String)])
    expect(second.qr_url).not.toBe(first.qr_url)
    // Renewed as often as it is, and nobody waited for the end.
    await t.until('it is over', async () => {
      // Between two codes there is none.
      await t.sandbox.phone('POST', 'expire', {}).catch(() => {})
      t.clock.advance(2000)
      return endsIn(t).length > 0
    })
    const third = await login(t, '', { timeout: 0 })
    expect([third.status, third.qr_url]).toEqual(['waiting', expect.any(String)])
    expect(third.qr_url).not.toBe(second.qr_url)
  })

  test('who begins is not told how an earlier login ended, and goes on with one that can still be scanned', async () => {
    await using t = await withGateway({ sessions: ['first'] })
    const { qr_url } = await login(t, 'second')
    const { user_id } = t.bots.get('first')!
    await t.gateway.logins.forget(owner, 'second')
    expect((await login(t, 'second', { timeout: 0 })).qr_url).toBe(qr_url)
    await t.sandbox.scan({ qrcode: qr_url!, user: user_id, confirm: true })
    await t.until('it ended', async () => {
      t.clock.advance(2000)
      return (await t.gateway.accounts.list()).every(({ name }) => name === 'first')
    })
    await t.gateway.logins.forget(owner, 'second')
    expect((await login(t, 'second', { timeout: 0 })).status).toBe('waiting')
  })

  it('a redirect is followed silently', async t => {
    const { host, port } = new URL(t.sandbox.url)
    await t.sandbox.switches({ redirect_host: `localhost:${port}` })
    expect(host).not.toContain('localhost')
    const { qr_url } = await login(t, 'moved')
    await t.sandbox.scan({ qrcode: qr_url!, confirm: true })
    expect((await follow(t, ['confirmed'], 'moved')).session).toBe('moved')
  })

  test('a scanned account that is connected here already stays where it is', async () => {
    await using t = await withGateway({ sessions: ['first'] })
    const { user_id, bot_id } = t.bots.get('first')!
    const { qr_url } = await login(t, 'second')
    await t.sandbox.scan({ qrcode: qr_url!, user: user_id, confirm: true })
    expect((await follow(t, ['already_bound'], 'second')).message).toEndWith(
      'already, under another session; nothing was changed. In the sandbox: press Add under People on the phone, call login again, and scan as that person.',
    )
    expect((await t.gateway.accounts.list()).map(({ name, bot_id }) => ({ name, bot_id }))).toEqual([
      { name: 'first', bot_id },
    ])
    expect(endsIn(t)).toEqual(['already_bound'])
  })

  it('two flows at once never complete each other’s', async t => {
    const [a, b] = await Promise.all([login(t, 'a'), login(t, 'b')])
    expect(a.qr_url).not.toBe(b.qr_url)
    await t.sandbox.scan({ qrcode: b.qr_url!, user: await t.sandbox.addUser('B'), confirm: true })
    expect((await follow(t, ['confirmed'], 'b')).session).toBe('b')
    expect((await login(t, 'a', { timeout: 0 })).status).toBe('waiting')
    expect((await t.other.sessions.list()).map(session => session.name)).toEqual(['b'])
    // Now only one is pending, and a call without a name follows it.
    await t.sandbox.scan({ qrcode: a.qr_url!, user: await t.sandbox.addUser('A'), confirm: true })
    expect((await follow(t, ['confirmed'])).session).toBe('a')
  })

  it('a call without a name: refused with several, told of the end of the only one', async t => {
    const { qr_url } = await login(t, 'only')
    expect((await login(t, undefined, { timeout: 0 })).session).toBe('only')
    await login(t, 'other')
    for (const more of [{}, { force: true }, { verify_code: '1234' }]) {
      const error = await failure(login(t, undefined, more))
      expect(error).toMatchObject({ code: 'invalid_arguments', field: 'session_name' })
      expect((error as SvcError).details?.sessions).toEqual(['only', 'other'])
    }
    expect(await t.gateway.accounts.logout('other')).toEqual({ success: true, session: 'other' })
    await t.sandbox.scan({ qrcode: qr_url!, confirm: true })
    await t.until('stored', async () => {
      t.clock.advance(2000)
      return t.other.sessions.get('only')
    })
    await t.until('the driver is done', () => t.lines.some(line => line.includes('logged in')))
    // It ended while nobody asked; starting another one now would be wrong.
    expect(await login(t, undefined, { timeout: 0 })).toMatchObject({ status: 'confirmed', session: 'only' })
    expect(t.requests('get_bot_qrcode')).toBe(2)
    // Nothing is left to follow.
    expect(await login(t)).toMatchObject({ status: 'waiting', session: 'default' })
  })

  it('an empty name is the session default, whatever else is in progress or has just ended', async t => {
    const work = await login(t, 'work')
    const own = await login(t, '')
    expect(own).toMatchObject({ status: 'waiting', session: 'default' })
    expect(own.qr_url).not.toBe(work.qr_url)
    await t.sandbox.scan({ qrcode: work.qr_url!, confirm: true })
    await t.until('work is connected', async () => {
      t.clock.advance(2000)
      return t.lines.some(line => line.includes('logged in'))
    })
    const same = { session: 'default', qr_url: own.qr_url }
    expect(await login(t, '', { timeout: 0 })).toMatchObject(same)
    // Without a name, too: the one that goes on, not the one of whose end nobody was told.
    expect(await login(t, undefined, { timeout: 0 })).toMatchObject(same)
    await t.gateway.accounts.logout('default')
    expect(await login(t, '', { timeout: 0 })).toMatchObject({ status: 'waiting', session: 'default' })
    expect(await login(t, 'work')).toMatchObject({ status: 'confirmed', session: 'work' })
  })

  it('a login that expired unseen is not followed without a name', async t => {
    for (const [expired, next] of [
      ['default', '客服'],
      ['客服', 'default'],
    ] as const) {
      await login(t, expired)
      const before = endsIn(t).length
      await t.until('it is over', async () => {
        await t.sandbox.phone('POST', 'expire', {}).catch(() => {})
        t.clock.advance(2000)
        return endsIn(t).length > before
      })
      const { qr_url } = next === 'default' ? await login(t) : await login(t, next)
      for (let times = 0; times < 2; times++)
        expect(await login(t, undefined, { timeout: 0 })).toMatchObject({ session: next, qr_url })
      await t.gateway.accounts.logout(next)
    }
  })

  it('calls that start together share one flow and one QR code', async t => {
    await t.sandbox.fail('get_bot_qrcode', 'slow', { delay_ms: 200 })
    const all = await Promise.all([1, 2, 3].map(() => login(t, 'same', { timeout: 0 })))
    expect(new Set(all.map(({ qr_url }) => qr_url)).size).toBe(1)
    expect(all[0]!.qr_url).toBeString()
    expect(t.requests('get_bot_qrcode')).toBe(1)
  })

  test('a connected session starts nothing without force', async () => {
    await using t = await withGateway()
    const { bot_id } = t.bots.get('default')!
    expect(await login(t)).toMatchObject({ status: 'confirmed', session: 'default', bot_id })
    expect(t.requests('get_bot_qrcode')).toBe(0)
  })

  test('force: a new bot, the same name and history, contexts begin anew', async () => {
    await using t = await withGateway()
    const before = t.bots.get('default')!
    await t.sandbox.say('to the old bot')
    const [old] = await t.recv()
    await t.until('context', async () => (await t.other.contexts.find('default', before.user_id))?.token)
    const { qr_url, status } = await login(t, '', { force: true })
    expect(status).toBe('waiting')
    await t.sandbox.scan({ qrcode: qr_url!, user: before.user_id, confirm: true })
    // Somebody who says force each time is told of the end all the same.
    const confirmed = await follow(t, ['confirmed'], '', { force: true })
    expect(confirmed.bot_id).not.toBe(before.bot_id)
    const context = await t.other.contexts.find('default', before.user_id)
    expect(context).toMatchObject({ used: 0 })
    expect(context).not.toHaveProperty('token')
    expect((await t.other.sessions.get('default'))!.bot).not.toHaveProperty('expired_at')
    await t.sandbox.say('to the new bot')
    expect((await t.recv())[0]).toMatchObject({ text: 'to the new bot', session: 'default' })
    const { messages } = await t.gateway.history.page({ session: 'default', limit: 9, offset: 0 })
    expect(messages.map(({ text }) => text)).toEqual(['to the new bot', 'to the old bot'])
    expect(messages[1]!.id).toBe(old!.id)
    await t.until('one user', async () => (await t.gateway.accounts.list())[0]?.user_count === 1)
    expect((await t.gateway.accounts.list())[0]?.status).toBe('connected')
  })

  for (const store of ['in a file', 'in memory']) {
    test(`after a new login the user has to write first, whatever was sent by the former bot; log ${store}`, async () => {
      await using t = await withGateway(store === 'in memory' ? { store: false } : {})
      const { bot_id, user_id: user } = t.bots.get('default')!
      await t.sandbox.say('to the old bot')
      await t.recv()
      expect((await t.send({ text: 'one' })).remaining).toBe(9)
      // What WeChat refused then says nothing of the new bot.
      await t.sandbox.fail('sendmessage', 'ret', { code: -2, delay_ms: 0 })
      expect(await failure(t.send({ text: 'two' }))).toMatchObject({ code: 'rate_limited' })
      const { qr_url } = await login(t, '', { force: true })
      await t.sandbox.scan({ qrcode: qr_url!, user, confirm: true })
      expect((await follow(t, ['confirmed'], '', { force: true })).bot_id).not.toBe(bot_id)
      for (const text of ['refused by WeChat', 'not tried'])
        expect(await failure(t.send({ text }))).toMatchObject({ code: 'window_closed' })
      await t.sandbox.say('to the new bot')
      await t.recv()
      expect((await t.send({ text: 'hello' })).remaining).toBe(9)
    })
  }

  for (const { minutes, status } of [
    { minutes: 9, status: 'already_bound' },
    { minutes: 11, status: 'waiting' },
  ] as const) {
    test(`how a login ended unseen: after ${minutes} minutes a call says ${status}`, async () => {
      await using t = await withGateway({ sessions: ['first'] })
      const { qr_url } = await login(t, 'second')
      const { user_id } = t.bots.get('first')!
      await t.sandbox.scan({ qrcode: qr_url!, user: user_id, confirm: true })
      await t.until('it ended', async () => {
        // In small steps: a minute of them leaves room for what takes real time, the writing of the end.
        t.clock.advance(100)
        return (await t.gateway.accounts.list()).every(({ name }) => name === 'first')
      })
      t.clock.advance(minutes * 60_000)
      expect((await login(t, 'second', { timeout: 0 })).status).toBe(status)
      expect((await login(t, 'second', { timeout: 0 })).status).toBe('waiting')
    })
  }

  it('credentials that cannot be stored at once are not lost', async t => {
    const { qr_url } = await login(t, 'x')
    const mend = await blockCredentials(t.dir, 'x')
    await t.sandbox.scan({ qrcode: qr_url!, confirm: true })
    await t.until('a failed try', () => {
      t.clock.advance(500)
      return t.lines.some(line => / ERROR logins: .* session=x .* tries=/.test(line))
    })
    await mend()
    expect((await follow(t, ['confirmed'], 'x')).status).toBe('confirmed')
  })

  it('logout calls a login off, and whoever waits for it is told', async t => {
    const { qr_url } = await login(t, 'x')
    const waiting = login(t, 'x', { timeout: 60 })
    expect(await t.gateway.accounts.logout('x')).toEqual({ success: true, session: 'x' })
    expect(await waiting).toMatchObject({ status: 'expired', message: expect.stringContaining('called off') })
    await t.sandbox.scan({ qrcode: qr_url!, confirm: true })
    expect(await t.gateway.accounts.list()).toEqual([])
    expect(await failure(t.gateway.accounts.logout('x'))).toMatchObject({ code: 'session_not_found' })
  })

  const stopped = { code: 'shutting_down' }
  const calledOff = { status: 'expired', message: expect.stringContaining('called off') }
  for (const [how, end, told] of [
    ['a logout', (t: TestGateway) => t.gateway.accounts.logout('x'), calledOff],
    ['the end of the service', (t: TestGateway) => t.gateway.close(), stopped],
  ] as const) {
    it(`${how} before there is a QR code: all who wait for it are told`, async t => {
      await t.sandbox.fail('get_bot_qrcode', 'slow', { delay_ms: 60_000 })
      const together = [login(t, 'x'), login(t, 'x')]
      await t.until('asked for', () => t.requests('get_bot_qrcode') === 1)
      const { signal } = new AbortController()
      const calls = [
        ...together,
        login(t, 'x'),
        t.gateway.logins.begin(owner, 'x', true, signal),
        t.gateway.logins.follow(owner, { session: 'x' }, 1000, signal),
      ].map(call => call.catch(error => error))
      await end(t)
      for (const call of calls) expect(await call).toMatchObject(told)
      if (told === stopped) return
      // Of the panel's calls: which flow it was, and that somebody ended it.
      for (const call of calls.slice(-2))
        expect(await call).toMatchObject({ login_id: expect.stringMatching(/./), notice: 'called_off' })
      expect(await login(t, 'x')).toMatchObject({ status: 'waiting', qr_url: expect.any(String) })
    })
  }

  it('two begin a login of one session, and one of them calls it off: the other is told so', async t => {
    const { signal } = new AbortController()
    const [one, two] = await Promise.all([1, 2].map(() => t.gateway.logins.begin(owner, 'x', false, signal)))
    expect(one!.login_id).toBe(two!.login_id)
    const waiting = t.gateway.logins.follow(
      owner,
      { login_id: two!.login_id, seen: two!.revision },
      60_000,
      signal,
    )
    expect(await t.gateway.logins.callOff(owner, one!.login_id)).toBe(true)
    expect(await waiting).toMatchObject({ ...calledOff, notice: 'called_off' })
    expect((await t.gateway.logins.begin(owner, 'x', false, signal)).login_id).not.toBe(one!.login_id)
  })

  for (const isOpenElsewhere of [false, true])
    it(`a page was left, ${isOpenElsewhere ? 'another one goes on' : 'and its last question came after its farewell'}`, async t => {
      const gone = new AbortController()
      const { login_id, revision: seen } = await t.gateway.logins.begin(owner, 'x', false, gone.signal)
      const leaving = t.gateway.logins.leave(owner, login_id)
      await t.until('it is known to be left', async () => {
        return (await loginIn(t.dir, 'x')).left_at !== undefined
      })
      await t.until('its time runs', () => t.clock.sleeps(45_000, 50_000))
      const asked = t.gateway.logins.follow(
        owner,
        { login_id, seen },
        isOpenElsewhere ? 0 : 25_000,
        gone.signal,
      )
      if (!isOpenElsewhere) gone.abort()
      await asked.catch(() => {})
      t.clock.advance(55_000)
      await leaving
      expect((await t.gateway.accounts.list()).map(({ name }) => name)).toEqual(isOpenElsewhere ? ['x'] : [])
    })

  test('a name that is being logged in cannot be taken by a rename', async () => {
    await using t = await withGateway()
    await login(t, 'wanted')
    expect(await codeOf(t.gateway.accounts.rename('default', 'Wanted'))).toBe('session_exists')
    expect((await t.gateway.accounts.list()).map(({ name }) => name)).toEqual(['default', 'wanted'])
  })

  it('bad names are refused, and nothing starts after the end', async t => {
    for (const name of ['..', 'a/b', 'media', 'con', '.x']) {
      expect(await failure(login(t, name))).toMatchObject({ code: 'invalid_arguments' })
    }
    await t.gateway.close()
    expect(await failure(login(t, 'x'))).toMatchObject({ code: 'shutting_down' })
  })
})

test('the logins of a key and those around it take half of the room at most', async () => {
  const check = (all: number, own: number) =>
    failure(Promise.try(() => checkCapacity({ all, own }, 's', [], { pending: 9, sessions: 99 })))
  for (const [all, own] of [
    [9, 0],
    [9, 5],
    [5, 5],
  ] as const)
    expect(await check(all, own)).toMatchObject({ code: 'rate_limited' })
  checkCapacity({ all: 8, own: 4 }, 's', [], { pending: 9, sessions: 99 })
})

test('logins by invitation have half of the places and leave a quarter to others; a link and an address have a part of these', () => {
  const share =
    (count: number, others: number, pending: number, { id = 'i', address = 'a', from = 'a' } = {}) =>
    () => {
      const invited = Array.from({ length: count }, (_, nth) => ({
        invitation: { id, browser: `${nth}`, address },
      }))
      const logins = [...invited, ...Array.from({ length: others }, () => ({}))]
      checkInvitedShare(logins, { id: 'i', address: from }, { pending })
    }
  const other = { id: 'other' }
  const refused = expect.objectContaining({ code: 'rate_limited' })
  expect(share(3, 2, 8, other)).not.toThrow()
  expect(share(4, 0, 8, other)).toThrow(refused)
  expect(share(1, 5, 8, other)).toThrow(refused)
  expect(share(1, 0, 8)).not.toThrow()
  expect(share(2, 0, 8)).toThrow(refused)
  expect(share(50, 0, 1000)).toThrow(refused)
  expect(share(50, 0, 1000, { address: 'b' })).not.toThrow()
  expect(share(50, 0, 1000, other)).not.toThrow()
  // The last half of an IPv6 address is the visitor's choice.
  const from = '2001:db8:1:2::1'
  expect(share(50, 0, 1000, { address: '2001:db8:1:2:3:4:5:6', from })).toThrow(refused)
  expect(share(50, 0, 1000, { address: '2001:db8:1:3::1', from })).not.toThrow()
})
