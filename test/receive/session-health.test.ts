import { describe, expect, test } from 'bun:test'
import { formatStatus } from '../../src/cli/commands/status.ts'
import { readStatus } from '../../src/inspect/status-report.ts'
import { owner } from '../../src/model/principal.ts'
import { formatLocalTime } from '../../src/platform/format.ts'
import {
  nextHealth,
  type PollOutcome,
  retryAfterMs,
  type SessionHealth,
  sessionHealthOf,
} from '../../src/receive/session-health.ts'
import type { SendRequest } from '../../src/send/plan.ts'
import { testClock } from '../support/clock.ts'
import { failure } from '../support/failure.ts'
import { type TestGateway, type TestGatewayOptions, withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { withPoller } from '../support/poller.ts'

describe('what follows what', () => {
  const connected = sessionHealthOf({})
  const rows: [
    what: string,
    from: SessionHealth,
    heard: PollOutcome[],
    standings: SessionHealth['sessionStatus'][],
  ][] = [
    [
      '-14 expires it, any answer heals it',
      connected,
      ['refused', 'refused', 'alive'],
      ['expired', 'expired', 'connected'],
    ],
    ['a poll that is held heals an expired one', sessionHealthOf({ expired_at: 1 }), ['held'], ['connected']],
    [
      'of one that never gave both, bare answers say nothing',
      connected,
      ['alive', 'bare', 'bare', 'bare'],
      ['connected', 'connected', 'connected', 'connected'],
    ],
    [
      'of one that did, the third in a row is a lapse',
      connected,
      ['whole', 'bare', 'bare', 'bare'],
      ['connected', 'connected', 'connected', 'lapsed'],
    ],
    [
      'that it did is known of an earlier process too',
      sessionHealthOf({ idle_at: 1 }),
      ['bare', 'bare', 'bare'],
      ['connected', 'connected', 'lapsed'],
    ],
    [
      'one that a message ends may have been none: until it gives both again, bare answers say nothing',
      sessionHealthOf({ lapsed_at: 1, idle_at: 1 }),
      ['alive', 'bare', 'bare', 'bare', 'whole', 'bare', 'bare', 'bare'],
      [...Array<'connected'>(7).fill('connected'), 'lapsed'],
    ],
    [
      'in a row',
      connected,
      ['whole', 'bare', 'bare', 'alive', 'bare', 'bare'],
      Array<'connected'>(6).fill('connected'),
    ],
    [
      'messages or a cursor heal a lapse; a held poll does not',
      sessionHealthOf({ lapsed_at: 1 }),
      ['held', 'bare', 'alive'],
      ['lapsed', 'lapsed', 'connected'],
    ],
    [
      '-14 is worse than a lapse',
      sessionHealthOf({ lapsed_at: 1 }),
      ['refused', 'whole'],
      ['expired', 'connected'],
    ],
  ]
  for (const [what, from, heard, standings] of rows) {
    test(what, () => {
      let health = from
      const found = heard.map(one => {
        health = nextHealth(health, one)
        return health.sessionStatus
      })
      expect(found).toEqual(standings)
    })
  }

  test('the ladder: 5 s, 30 s, 2 min, 10 min, then every 30 min', () => {
    let health = connected
    const waits = Array.from({ length: 7 }, () => {
      health = nextHealth(health, 'refused')
      return retryAfterMs(health.refusals) / 1000
    })
    expect(waits).toEqual([5, 30, 120, 600, 1800, 1800, 1800])
  })
})

const statusOf = async (t: TestGateway) => (await t.gateway.accounts.list())[0]?.status

/** The user has written, and the poll is held. */
async function withTalk(options: TestGatewayOptions = {}): Promise<TestGateway> {
  const t = await withGateway(options)
  await t.sandbox.say('hello')
  await t.recv()
  await t.until('polled on', () => t.requests('getupdates') > 1)
  return t
}
/** The next poll is held for long enough to be accepted. */
async function accepted(t: TestGateway, polls: number): Promise<void> {
  const { stats } = t.sandbox.world.core
  await t.until('asked', () => t.requests('getupdates') > polls && stats.polls_now === 1)
  t.clock.advance(3000)
}
const atOnce = (t: TestGateway) => t.sandbox.pollsAtOnce[t.bots.get('default')!.bot_id]
/** Polls that have failed; it pauses after each. While none is under way time may pass: one of seconds counts as held. */
const failedPolls = (t: TestGateway) => t.lines.filter(line => line.includes('poll failed')).length
/** What another process asks for is seen, by a look that comes every second, and answered by a poll that is held. */
async function checked(t: TestGateway, polls: number): Promise<void> {
  const isAsked = async () => (await t.other.sessions.get('default'))?.bot?.check_at !== undefined
  await t.until('asked', isAsked)
  await t.pass(1500)
  await accepted(t, polls)
  await t.until('answered', async () => !(await isAsked()))
}
/** Lets time pass until `look` is true; what is due meanwhile is done. */
async function passUntil(
  t: TestGateway,
  stepMs: number,
  what: string,
  look: () => boolean | Promise<boolean>,
) {
  await t.until(what, async () => {
    if (await look()) return true
    t.clock.advance(stepMs)
    return false
  })
}
const it = given(withTalk)

describe('-14 of another endpoint', () => {
  const file = { kind: 'file' as const, data: Buffer.from('x').toString('base64') }
  const sends: ['sendmessage' | 'getuploadurl', Partial<SendRequest>][] = [
    ['sendmessage', { text: 'x' }],
    ['getuploadurl', { media: [file] }],
  ]
  for (const [endpoint, what] of sends) {
    it(`${endpoint}: getupdates is asked at once, and the send goes on where it works`, async t => {
      const polls = t.requests('getupdates')
      await t.sandbox.fail(endpoint, 'expired', { times: 1 })
      const sending = t.send(what)
      await accepted(t, polls)
      expect(await sending).toMatchObject({ status: 'accepted', remaining: 9 })
      expect(await statusOf(t)).toBe('connected')
      expect((await t.other.sessions.get('default'))!.bot).not.toHaveProperty('check_at')
      expect(t.requests(endpoint)).toBe(2)
      expect(atOnce(t)).toBe(1)
      await t.sandbox.say('still heard')
      expect(await t.recv()).toMatchObject([{ text: 'still heard' }])
    })

    it(`${endpoint}: where getupdates says so too, the session is expired, and nothing is tried again`, async t => {
      await t.sandbox.fail(endpoint, 'expired', { times: 1 })
      await t.sandbox.fail('getupdates', 'expired', { times: 0 })
      expect(await failure(t.send(what))).toMatchObject({ code: 'session_expired' })
      expect(await statusOf(t)).toBe('expired')
      expect(t.requests(endpoint)).toBe(1)
      await t.until('given back', async () => (await t.right())!.used === 0)
    })

    test(`${endpoint}: one that refuses all the same says so, is not asked about at every send, and ends no polling`, async () => {
      await using t = await withTalk({ switches: { refused: endpoint } })
      const polls = t.requests('getupdates')
      const failing = failure(t.send(what))
      await accepted(t, polls)
      expect(await failing).toMatchObject({ code: 'upstream_error' })
      expect(await failure(t.send(what))).toMatchObject({ code: 'upstream_error' })
      expect(t.requests(endpoint)).toBe(4)
      expect(await statusOf(t)).toBe('connected')
      await t.sandbox.switches({ refused: 'none' })
      await t.sandbox.say('heals')
      expect(await t.recv()).toMatchObject([{ text: 'heals' }])
      expect(await t.send(what)).toMatchObject({ status: 'accepted', remaining: 9 })
    })
  }

  test('of a queued send: it waits until the user writes', async () => {
    await using t = await withTalk({ switches: { quota: 10 } })
    for (let nth = 0; nth < 10; nth++) await t.send({ text: `${nth}` })
    expect(await t.send({ text: 'queued', when_closed: 'queue' })).toMatchObject({ status: 'queued' })
    await t.sandbox.switches({ refused: 'sendmessage' })
    const before = t.requests('sendmessage')
    const polls = t.requests('getupdates')
    await t.sandbox.say('go on')
    await t.until('refused', () => t.requests('sendmessage') === before + 1)
    await accepted(t, polls + 1)
    await t.until('refused twice', () => t.requests('sendmessage') === before + 2)
    await t.until('back', async () => (await t.gateway.outbox.list(owner))[0]?.parts[0]?.status === 'queued')
    for (let minute = 0; minute < 30; minute++) {
      t.clock.advance(60_000)
      await new Promise(resolve => setImmediate(resolve))
    }
    expect(t.requests('sendmessage')).toBe(before + 2)
    await t.sandbox.switches({ refused: 'none' })
    await t.sandbox.say('heals')
    await t.until('sent', async () => (await t.gateway.outbox.list(owner)).length === 0)
    expect(await statusOf(t)).toBe('connected')
  })

  test('a process that only follows has it asked by the one that polls', async () => {
    await using t = await withTalk({ clock: testClock({ runs: false }) })
    await using watcher = await t.beside()
    expect((await watcher.gateway.health()).role).toBe('watcher')
    await t.sandbox.fail('sendmessage', 'expired', { times: 1 })
    const { user_id } = t.bots.get('default')!
    const polls = t.requests('getupdates')
    const sending = watcher.send({ to: user_id, text: 'x' })
    await checked(t, polls)
    expect(await t.hurry(sending)).toMatchObject({ status: 'accepted' })
    expect(atOnce(t)).toBe(1)
  })
})

describe('an expired session', () => {
  it('is probed on the ladder, each time with a fresh notifystart; one that works heals it', async t => {
    const from = t.clock.monotonic()
    await t.sandbox.switches({ receive: 'expired' })
    await t.until('expired', async () => (await statusOf(t)) === 'expired')
    const probes = t.requests('getupdates')
    const starts = t.requests('notifystart')
    for (const [nth, seconds] of [5, 30, 120, 600, 1800].entries()) {
      const ms = seconds * 1000
      // Time does not pass while a probe is under way: one that takes seconds looks held, one that takes minutes is cut off.
      await t.until('it waits', () => t.clock.sleeps(Math.max(ms - 5000, 4000), ms))
      if (nth > 0) {
        t.clock.advance(ms / 3)
        await new Promise(resolve => setImmediate(resolve))
        expect(t.requests('getupdates')).toBe(probes + nth)
      }
      t.clock.advance(ms)
      await t.until('a probe', () => t.requests('getupdates') > probes + nth)
      expect(t.requests('notifystart')).toBe(starts + nth + 1)
    }
    expect(t.clock.monotonic() - from).toBeGreaterThan(2_500_000)
    await t.sandbox.switches({ receive: 'open' })
    await t.sandbox.say('meanwhile')
    await passUntil(t, 600_000, 'healed', async () => (await statusOf(t)) === 'connected')
    expect(await t.recv()).toMatchObject([{ text: 'meanwhile' }])
    expect((await t.other.sessions.get('default'))!.bot).not.toHaveProperty('expired_at')
  })

  test('is probed at once after a start', async () => {
    await using t = await withGateway({ start: false })
    const { token } = t.bots.get('default')!
    await t.other.sessions.mark('default', token, { expired_at: 5 })
    await t.gateway.start()
    await t.sandbox.say('hello')
    expect(await t.recv()).toMatchObject([{ text: 'hello' }])
    expect(await statusOf(t)).toBe('connected')
  })

  test('is probed on demand, by a process that polls and by one that does not; the answer is told', async () => {
    await using t = await withTalk({ clock: testClock({ runs: false }) })
    await t.sandbox.switches({ receive: 'expired' })
    await t.until('expired', async () => (await statusOf(t)) === 'expired')
    const before = t.requests('getupdates')
    const check = t.gateway.accounts.check('')
    await t.until('asked', () => t.requests('getupdates') > before)
    await t.until(
      'answered',
      async () => (await t.other.sessions.get('default'))?.bot?.check_at === undefined,
    )
    expect(await t.hurry(check)).toEqual({ session: 'default', status: 'expired', answered: true })
    await t.sandbox.switches({ receive: 'open' })
    await using watcher = await t.beside()
    const works = { session: 'default', status: 'connected', answered: true }
    const polls = t.requests('getupdates')
    const checking = watcher.gateway.accounts.check('default')
    await checked(t, polls)
    expect(await t.hurry(checking)).toEqual(works as never)
    expect(await failure(t.gateway.accounts.check('nobody'))).toMatchObject({ code: 'session_not_found' })
    expect(atOnce(t)).toBe(1)
  })

  it('is not known to be so when WeChat does not answer', async t => {
    await t.sandbox.fail('getupdates', '500', { times: 0 })
    const checking = t.gateway.accounts.check('')
    await t.until('it pauses', () => failedPolls(t) === 1)
    t.clock.advance(1000)
    await t.until('it pauses', () => failedPolls(t) === 2)
    t.clock.advance(10_000)
    expect(await checking).toEqual({ session: 'default', status: 'connected', answered: false })
  })
})

describe('a silent lapse', () => {
  test('is told after three bare answers with a notifystart anew; polls and sends go on, a message heals it', async () => {
    await using t = await withTalk({ switches: { hold_ms: 0 } })
    await t.until('idle polls', () => t.requests('getupdates') > 3)
    const starts = t.requests('notifystart')
    await t.sandbox.switches({ receive: 'lapsed' })
    await passUntil(t, 1000, 'lapsed', async () => (await statusOf(t)) === 'lapsed')
    expect((await t.gateway.accounts.list())[0]).toMatchObject({ connected: true })
    await t.until('notifystart', () => t.requests('notifystart') > starts)
    expect(await t.send({ text: 'x' })).toMatchObject({ status: 'accepted' })
    const polls = t.requests('getupdates')
    await passUntil(t, 1000, 'polled on', () => t.requests('getupdates') > polls + 3)
    expect(await statusOf(t)).toBe('lapsed')
    await t.sandbox.say('here')
    await t.sandbox.switches({ receive: 'open' })
    await passUntil(t, 1000, 'healed', async () => (await statusOf(t)) === 'connected')
    expect(await t.recv()).toMatchObject([{ text: 'here' }])
  })

  test('heals on the notifystart where that is what it takes, and is not told of a session that never gave both', async () => {
    await using t = await withTalk({ switches: { hold_ms: 0 } })
    await t.until('idle polls', () => t.requests('getupdates') > 3)
    await t.sandbox.switches({ receive: 'lapsed_until_start' })
    await passUntil(t, 1000, 'lapsed', () => t.lines.some(line => line.includes('lapsed')))
    await passUntil(t, 1000, 'healed', async () => (await statusOf(t)) === 'connected')
    await using other = await withGateway({ switches: { hold_ms: 0, receive: 'lapsed' } })
    await passUntil(other, 1000, 'many answers', () => other.requests('getupdates') > 9)
    expect(await statusOf(other)).toBe('connected')
  })
})

describe('a lapse that began earlier', () => {
  test('is told by a process that never saw the session well, where another one did', async () => {
    await using t = await withTalk({ switches: { hold_ms: 0 } })
    await t.until('known', async () => (await t.other.sessions.get('default'))?.bot?.idle_at !== undefined)
    await t.gateway.close()
    await t.sandbox.switches({ receive: 'lapsed' })
    await using next = await t.beside()
    await passUntil(next, 1000, 'lapsed', async () => (await statusOf(next)) === 'lapsed')
  })

  test('is not known of a login that never saw an idle poll: a check says that the answer is not clear', async () => {
    await using t = await withGateway({ switches: { hold_ms: 0, receive: 'lapsed' } })
    await passUntil(t, 1000, 'many answers', () => t.requests('getupdates') > 4)
    const check = () => t.gateway.accounts.check('')
    expect(await check()).toEqual({ session: 'default', status: 'connected', answered: false })
    await t.sandbox.switches({ receive: 'open' })
    const idleAt = async () => (await t.other.sessions.get('default'))?.bot?.idle_at
    await passUntil(t, 1000, 'well', async () => (await idleAt()) !== undefined)
    expect(await check()).toEqual({ session: 'default', status: 'connected', answered: true })
  })
})

describe('polls that fail', () => {
  test('for 30 s are told of with the last error, in other processes too, until one works', async () => {
    await using t = await withTalk({ switches: { hold_ms: 0 } })
    await t.sandbox.fail('getupdates', '500', { times: 0, delay_ms: 0 })
    const began = t.clock.monotonic()
    const failing = async () => (await t.gateway.accounts.list())[0]?.failing_since !== undefined
    await passUntil(t, 500, 'told', failing)
    expect(t.clock.monotonic() - began).toBeGreaterThanOrEqual(30_000)
    const poll_error = expect.any(String)
    const said = { poll_error, poll_error_code: 'upstream_error', poll_error_quote: 'HTTP 500' }
    expect((await t.gateway.accounts.list())[0]).toMatchObject({ connected: true, ...said })
    expect(await t.gateway.health()).toMatchObject({ status: 'degraded', connected: 1, failing: 1 })
    const status = () => readStatus({ basePath: t.dir, version: '0' })
    expect(await status()).toMatchObject({ ok: false, sessions: [{ status: 'connected', poll_error }] })
    const [failed] = (await status()).sessions
    const row = formatStatus(await status())
      .split('\n')
      .find(line => line.startsWith('* default'))
    expect(row).toContain(formatLocalTime(failed?.failing_since))
    await using watcher = await t.beside()
    expect((await watcher.gateway.accounts.list())[0]).toMatchObject({ poll_error })
    expect(await watcher.gateway.health()).toMatchObject({ role: 'watcher', status: 'degraded', failing: 1 })
    const checking = t.gateway.accounts.check('')
    await t.until('asked', async () => (await t.other.sessions.get('default'))?.bot?.check_at !== undefined)
    const failures = failedPolls(t)
    await t.until('it pauses', () => failedPolls(t) > failures)
    t.clock.advance(10_000)
    expect(await checking).toMatchObject({ answered: false, poll_error: expect.any(String) })
    await t.sandbox.mend()
    await passUntil(t, 500, 'over', async () => !(await failing()))
    const works = (await t.gateway.accounts.list())[0]!
    expect(Object.keys(works).filter(key => key in said)).toEqual([])
    expect(await t.gateway.health()).toMatchObject({ status: 'ok' })
    expect(await status()).toMatchObject({ ok: true })
  })

  // Where every error says the same there is nothing to tell apart.
  test.skipIf(Boolean(process.env.BUN_OPTIONS?.includes('nonsense')))(
    'tell the last error, not the first',
    async () => {
      await using t = await withTalk({ switches: { hold_ms: 0 } })
      const told = async () => (await t.gateway.accounts.list())[0]?.poll_error
      await t.sandbox.fail('getupdates', '500', { times: 0, delay_ms: 0 })
      await passUntil(t, 500, 'told', async () => (await told()) !== undefined)
      const first = await told()
      await t.sandbox.mend()
      await t.sandbox.fail('getupdates', 'malformed', { times: 0, delay_ms: 0 })
      await passUntil(t, 500, 'another error', async () => {
        const now = await told()
        return now !== undefined && now !== first
      })
    },
  )

  test('that began under a version which wrote no code get one, and have lasted since then', async () => {
    await using t = await withTalk({ switches: { hold_ms: 0 } })
    await t.sandbox.fail('getupdates', '500', { times: 0, delay_ms: 0 })
    const shown = async () => (await t.other.sessions.get('default'))?.bot
    await passUntil(t, 500, 'told', async () => (await shown())?.failing_since !== undefined)
    const before = (await shown())!
    await t.gateway.close()
    await t.other.sessions.mark('default', before.token, {
      poll_error_code: undefined,
      poll_error_quote: undefined,
    })
    await using next = await t.beside()
    const coded = async () => (await t.other.sessions.get('default'))?.bot?.poll_error_code !== undefined
    await passUntil(next, 500, 'told anew', coded)
    const { poll_error, poll_error_code, failing_since } = (await shown())!
    expect({ poll_error, poll_error_code, failing_since }).toEqual({
      poll_error: before.poll_error!,
      poll_error_code: 'upstream_error',
      failing_since: before.failing_since!,
    })
  })

  test('for less are not', async () => {
    await using t = await withTalk({ switches: { hold_ms: 0 } })
    await t.sandbox.fail('getupdates', '500', { times: 3, delay_ms: 0 })
    await passUntil(t, 500, 'failed thrice', () => failedPolls(t) === 3)
    await passUntil(t, 500, 'works', () => t.lines.some(line => line.includes('polling again')))
    expect(JSON.stringify((await t.other.sessions.get('default'))?.bot)).not.toContain('failing')
  })
})

describe('a gateway that cuts long polls', () => {
  for (const hold_cut of ['524', 'reset'] as const) {
    test(`${hold_cut}: an empty poll, asked again at once`, async () => {
      await using t = await withPoller({ switches: { hold_cut, hold_cut_after_ms: 100 } })
      const polls = () => t.sandbox.world.core.stats.requests.getupdates ?? 0
      for (let nth = 1; nth < 4; nth++) {
        await t.until('held', () => t.sandbox.world.core.stats.polls_now === 1 && polls() === nth)
        t.clock.advance(16_000)
        // Without time going by: no pause comes first.
        await t.until('asked again', () => polls() > nth)
      }
      expect(t.told('poll failed')).toBe(0)
      await t.sandbox.say('hi')
      await t.until('stored', async () => (await t.texts()).length === 1)
    })
  }

  test('a dead connection there is noticed earlier, and a poll that outlives the cut forgets it', async () => {
    await using t = await withPoller({ switches: { hold_cut: '524', hold_cut_after_ms: 100 } })
    await t.until('held', () => t.sandbox.world.core.stats.polls_now === 1)
    t.clock.advance(16_000)
    await t.until('the second poll', () => t.holds.length === 2)
    expect(t.holds[0]).toBe(35_000)
    expect(t.holds[1]).toBeLessThan(17_000)
  })
})

describe('notifystart and notifystop', () => {
  test('a notifystart that failed is tried again, on the ladder', async () => {
    await using t = await withGateway({ switches: { notifystart: 'fail' } })
    await t.until('one', () => t.requests('notifystart') === 1)
    await passUntil(t, 1000, 'two', () => t.requests('notifystart') === 2)
    await t.sandbox.switches({ notifystart: 'accept' })
    await passUntil(t, 5000, 'three', () => t.requests('notifystart') === 3)
    // Its answer comes before the clock moves on: time that passes meanwhile would cut the call off.
    for (let turns = 0; turns < 200; turns++) await new Promise(resolve => setImmediate(resolve))
    for (let minutes = 0; minutes < 40; minutes++) {
      t.clock.advance(60_000)
      await new Promise(resolve => setTimeout(resolve, 2))
    }
    expect(t.requests('notifystart')).toBe(3)
  })

  test('no notifystop where polling goes on: after a login with the same token, or without the right to poll', async () => {
    let sure = true
    await using t = await withPoller({ mayPoll: () => sure })
    const { requests } = t.sandbox.world.core.stats
    await t.until('started', () => requests.notifystart === 1)
    await t.login()
    await t.until('started anew', () => requests.notifystart === 2)
    expect(requests.notifystop ?? 0).toBe(0)
    sure = false
    await t.stop()
    expect(requests.notifystop ?? 0).toBe(0)
  })
})
