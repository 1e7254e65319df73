import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { mkdir, rename, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { SvcError } from '../../src/model/error.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { type BatchPorts, ingest } from '../../src/receive/ingest.ts'
import { testClock } from '../support/clock.ts'
import type { FaultKind } from '../support/faults.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { knownUsers } from '../support/known-users.ts'
import { stopwatch } from '../support/stopwatch.ts'

const it = given(withGateway)

const texts = (messages: { text: string }[]) => messages.map(message => message.text)
const cursorOf = async (t: TestGateway, name = 'default') =>
  (await t.other.sessions.get(name))?.bot?.cursor ?? ''
const stored = async (t: TestGateway) =>
  texts((await t.gateway.history.page({ limit: 200, offset: 0 })).messages).reverse()

/** Whether a batch could not be stored. */
const hasFailed = (t: TestGateway) => t.lines.some(line => / ERROR poller: .* messages=\d/.test(line))

/** The store takes no message until this is disposed of. storage/sqlite/faults shows that a busy one refuses them too. */
function refusingStore(t: TestGateway): Disposable {
  using db = new Database(join(t.dir, 'messages.db'))
  db.exec(`CREATE TRIGGER refusing BEFORE INSERT ON message BEGIN SELECT RAISE(ABORT, 'refused'); END`)
  return {
    [Symbol.dispose]() {
      using db = new Database(join(t.dir, 'messages.db'))
      db.exec('DROP TRIGGER refusing')
      // As long as it waits before the next try, at most.
      t.clock.advance(250)
    },
  }
}

describe('the inbox', () => {
  for (const replay of ['until_advance', 'never'] as const) {
    test(`a batch that cannot be stored waits in memory and leaves token and cursor alone (replay: ${replay})`, async () => {
      await using t = await withGateway({ switches: { replay } })
      const { user_id } = t.bots.get('default')!
      await t.sandbox.say('first')
      expect(texts(await t.recv())).toEqual(['first'])
      await t.until('the cursor of the first', async () => (await cursorOf(t)) !== '')
      const cursor = await cursorOf(t)
      const context = await t.other.contexts.find('default', user_id)
      {
        using _refusing = refusingStore(t)
        await t.sandbox.say('second')
        await t.until('a failed commit', () => hasFailed(t))
        expect(await cursorOf(t)).toBe(cursor)
        expect(await t.other.contexts.find('default', user_id)).toEqual(context!)
      }
      await t.sandbox.say('third')
      expect(texts(await t.receive(2))).toEqual(['second', 'third'])
      expect(await stored(t)).toEqual(['first', 'second', 'third'])
      await t.until('the cursor moves on', async () => (await cursorOf(t)) !== cursor)
    })

    test(`contexts that cannot be written hold the cursor back, and nothing comes twice (replay: ${replay})`, async () => {
      await using t = await withGateway({ switches: { replay } })
      const contexts = join(t.dir, 'default', 'contexts.json')
      await mkdir(contexts)
      await t.sandbox.say('hello')
      expect(texts(await t.recv())).toEqual(['hello'])
      await t.until('a failed commit', () => hasFailed(t))
      expect(await stored(t)).toEqual(['hello'])
      expect(await cursorOf(t)).toBe('')
      await rmdir(contexts)
      t.clock.advance(250)
      await t.until('the cursor moves', async () => (await cursorOf(t)) !== '')
      expect((await t.other.contexts.find('default', t.bots.get('default')!.user_id))?.token).toBeString()
      await t.sandbox.say('again')
      expect(texts(await t.recv())).toEqual(['again'])
      expect(await stored(t)).toEqual(['hello', 'again'])
    })
  }

  test('a batch in hand when the service stops is stored before it ends', async () => {
    await using t = await withGateway({ switches: { replay: 'never' } })
    {
      using _refusing = refusingStore(t)
      await t.sandbox.say('late')
      await t.until('a failed commit', () => hasFailed(t))
    }
    await t.gateway.close()
    await using again = await t.beside({ clock: testClock() })
    expect(texts(await again.recv())).toEqual(['late'])
  })

  test('a new context token of a repeated message is the one that answers', async () => {
    await using t = await withGateway({ switches: { duplicate: 'new_token', duplicate_after_ms: 50 } })
    const { user_id } = t.bots.get('default')!
    const tokenNow = async () => (await t.other.contexts.find('default', user_id))?.token
    await t.sandbox.say('once')
    await t.recv()
    const first = await t.until('a token', tokenNow)
    await t.until('another token', async () => (await tokenNow()) !== first)
  })

  it('a message that cannot be read is shown as far as it goes, and stops nobody', async t => {
    const user = t.bots.get('default')!.user_id
    const said = (text: string, partial_text?: unknown) => ({
      from_user_id: user,
      message_type: 1,
      item_list: [{ type: 1, text_item: { text }, ref_msg: { title: 'ab', partial_text } }],
    })
    await t.sandbox.raw(said('odd', { start: 'a', end: 'b', startindex: { toString: 1 }, endindex: [[]] }))
    await t.sandbox.raw(said('damaged'))
    await t.sandbox.say('after them')
    expect(texts(await t.receive(3))).toEqual(['odd', 'damaged', 'after them'])

    const db = new Database(join(t.dir, 'messages.db'))
    db.run("UPDATE message SET raw = '{' WHERE id = 2")
    db.close()
    const read = await t.recv({ after: 0 })
    expect(texts(read)).toEqual(['odd', '', 'after them'])
    expect(read[1]).toMatchObject({
      id: 2,
      session: 'default',
      from_user: user,
      msg_type: 'UNKNOWN',
      items: [],
    })
    expect(read[1]!.timestamp).toBeGreaterThan(0)
    expect(await stored(t)).toEqual(['odd', '', 'after them'])
    expect(await t.gateway.conversations.list()).toHaveLength(1)
    expect(t.lines.filter(line => line.includes('ERROR'))).toHaveLength(1)
  })

  test('what cannot be told of a message does not keep its batch from being stored', async () => {
    await using t = await withGateway({ start: false })
    const bot = (await t.other.sessions.get('default'))!.bot!
    const message = (text: string) => ({ item_list: [{ type: 1, text_item: { text } }] })
    const unreadable = {
      get item_list(): never {
        throw new RangeError('nested too deep')
      },
    }
    const messages = [message('one'), unreadable, message('two')].map((one, n) => ({
      raw: `{"n":${n}}`,
      message: one,
    }))
    const polled = { bot, cursor: '', updates: { messages, cursor: 'next' }, clearAt: undefined }
    let stored: readonly { text: string; msg_type: string }[] = []
    const ports: BatchPorts = {
      sessions: t.other.sessions,
      async ingest(batch) {
        stored = batch.messages
        return { rows: stored.map((_, nth) => nth + 1), cursor: 'moved' }
      },
    }
    const { signal } = new AbortController()
    const taken = { ...polled, clock: t.clock, log: silentLog }
    expect(
      await ingest(ports, { name: 'default', token: bot.token }, taken, {
        stopping: signal,
        closing: signal,
      }),
    ).toBe('next')
    expect(stored.map(({ text, msg_type }) => [text, msg_type])).toEqual([
      ['one', 'TEXT'],
      ['', 'UNKNOWN'],
      ['two', 'TEXT'],
    ])
  })

  test('without the right to poll, a batch waits for a store that is away, and for nothing else', async () => {
    await using t = await withGateway({ start: false })
    const bot = (await t.other.sessions.get('default'))!.bot!
    const polled = { bot, cursor: '', updates: { messages: [], cursor: 'next' }, log: silentLog }
    const clock = { ...systemClock, sleep: async () => {} }
    const away = new SvcError('store_unavailable', 'away')
    const take = (errors: readonly Error[], closing = new AbortController().signal) => {
      const left = [...errors]
      const ports: BatchPorts = {
        sessions: t.other.sessions,
        async ingest() {
          const error = left.shift()
          if (error) throw error
          return { rows: [], cursor: 'moved' }
        },
      }
      const signals = { stopping: AbortSignal.abort(), closing }
      return ingest(ports, { name: 'default', token: bot.token }, { ...polled, clock }, signals)
    }
    expect(await take([away, away, away])).toBe('next')
    expect(await take([away, new Error('it is at fault')])).toBe(undefined)
    expect(await take([away], AbortSignal.abort())).toBe(undefined)
    expect(await take([], AbortSignal.abort())).toBe('next')
  })

  it('a time in seconds is read, and another mistake is the time of receipt', async t => {
    const { bot_id, user_id } = t.bots.get('default')!
    const now = t.clock.now()
    const second = Math.floor(now / 1000) - 3600
    const item_list = [
      { type: 1, text_item: { text: 'x' }, ref_msg: { message_item: { create_time_ms: second } } },
    ]
    for (const create_time_ms of [second, now * 1000, -1])
      await t.sandbox.raw({
        from_user_id: user_id,
        to_user_id: bot_id,
        message_type: 1,
        create_time_ms,
        item_list,
      })
    const received = [...(await t.recv())]
    while (received.length < 3) received.push(...(await t.recv()))
    expect(received[0]).toMatchObject({ timestamp: second * 1000, ref_msg: { timestamp: second * 1000 } })
    for (const { timestamp } of received.slice(1)) expect(timestamp).toBeWithin(now, t.clock.now() + 1)
    const { messages } = await t.gateway.history.page({ until: now, limit: 9, offset: 0 })
    expect(messages.map(({ timestamp }) => timestamp)).toEqual([second * 1000])
  })

  it('the bot never hears itself', async t => {
    const { bot_id, user_id } = t.bots.get('default')!
    const item_list = [{ type: 1, text_item: { text: 'echo' } }]
    await t.sandbox.raw({
      message_id: 1,
      from_user_id: bot_id,
      to_user_id: bot_id,
      message_type: 1,
      item_list,
    })
    await t.sandbox.raw({
      message_id: 2,
      from_user_id: user_id,
      to_user_id: bot_id,
      message_type: 2,
      item_list,
    })
    await t.sandbox.say('a person')
    expect(texts(await t.recv())).toEqual(['a person'])
    expect(await stored(t)).toEqual(['a person'])
  })
})

describe('a session in trouble', () => {
  const kinds: FaultKind[] = [
    ...(['500', '502', '524', '401', 'hang', 'reset', 'truncated', 'cut', 'malformed', 'html'] as const),
    ...(['404', 'empty_body', 'nulls', 'ret', 'errcode', 'expired', 'empty', 'lapsed'] as const),
  ]
  for (const kind of kinds) {
    test(`${kind}: does not delay another one, is not polled in a circle, and loses nothing`, async () => {
      await using t = await withGateway({ sessions: ['sick', 'well'], start: false })
      const sick = t.bots.get('sick')!
      const well = t.bots.get('well')!
      await t.sandbox.fail('getupdates', kind, { times: 0, bot: sick.bot_id, delay_ms: 0 })
      await t.gateway.start()
      await t.sandbox.say('for the sick one', { to: sick.bot_id, from: sick.user_id })
      for (const text of ['one', 'two', 'three']) {
        using watch = stopwatch()
        await t.sandbox.say(text, { to: well.bot_id, from: well.user_id })
        expect(texts(await t.recv())).toEqual([text])
        expect(watch.ms).toBeLessThan(3000)
      }
      // The well one needs a few polls; the sick one had at most some tries in that time.
      expect(t.requests('getupdates')).toBeLessThan(20)
      await t.sandbox.mend()
      if (kind === 'hang') {
        // Deadlines of requests run by the system's clock; who starts anew need not wait for them.
        await t.gateway.close()
        await using again = await t.beside({ clock: testClock() })
        expect(texts(await again.recv())).toEqual(['for the sick one'])
        return
      }
      for (let minutes = 0; minutes < 35; minutes++) t.clock.advance(60_000)
      expect(texts(await t.recv({ timeout: 30 }))).toEqual(['for the sick one'])
    })
  }

  test('answers that bring nothing but a new cursor slow the loop down', async () => {
    await using t = await withGateway({ switches: { hold_ms: 0 }, clock: testClock({ runs: false }) })
    await t.until('three polls', () => t.requests('getupdates') === 3)
    // The pauses: one second, two, three.
    for (const [ms, polls] of [
      [900, 3],
      [1600, 4],
      [2000, 5],
    ] as const) {
      await t.pass(ms)
      expect(t.requests('getupdates')).toBe(polls)
    }
  })
})

describe('expiry', () => {
  for (const expired_form of ['ret', 'errcode', 'both'] as const) {
    test(`-14 (${expired_form}): files kept, said in sessions, healed by a new login`, async () => {
      await using t = await withGateway({ switches: { expired_form } })
      const { user_id } = t.bots.get('default')!
      await t.sandbox.say('before')
      await t.recv()
      await t.until('the cursor', async () => (await cursorOf(t)) !== '')
      const file = (await t.other.sessions.get('default'))!.bot!
      // The same person logs in elsewhere.
      t.sandbox.bot(user_id)
      await t.until('expired', async () => (await t.gateway.accounts.list())[0]?.status === 'expired')
      const kept = (await t.other.sessions.get('default'))!.bot!
      expect(kept).toMatchObject({ token: file.token, cursor: file.cursor })
      expect((await t.other.contexts.find('default', user_id)) !== undefined).toBe(true)
      expect(t.lines.filter(line => line.includes('session expired'))).toHaveLength(1)

      const bot = t.sandbox.bot(user_id)
      await t.other.sessions.save('default', { ...bot, cursor: '', created_at: t.clock.now() })
      await t.sandbox.say('after')
      expect(texts(await t.hurry(t.recv()))).toEqual(['after'])
      expect((await t.gateway.accounts.list())[0]).toMatchObject({ status: 'connected', bot_id: bot.bot_id })
    })
  }
})

describe('changes during a long poll', () => {
  for (const replay of ['until_advance', 'never'] as const) {
    test(`rename keeps receiving, under the new name, without a gap (replay: ${replay})`, async () => {
      await using t = await withGateway({ switches: { replay } })
      await t.until('a held poll', () => t.sandbox.world.core.stats.polls_now === 1)
      const all = ['1', '2', '3', '4', '5', '6']
      const renamed = t.gateway.accounts.rename('default', 'work')
      for (const text of all) await t.sandbox.say(text)
      await renamed
      const messages = await t.receive(all.length)
      expect(texts(messages)).toEqual(all)
      const listed = await t.gateway.history.page({ limit: 50, offset: 0, session: 'work' })
      expect(listed.total).toBe(all.length)
      await t.until('the cursor', async () => (await cursorOf(t, 'work')) !== '')
      expect((await knownUsers(t.other.contexts, 'work')).size).toBe(1)
      expect((await t.gateway.accounts.list()).map(session => session.name)).toEqual(['work'])
      expect((await t.gateway.accounts.list())[0]?.last_poll_at).toBeNumber()
    })
  }

  it('a folder copied by hand is not polled a second time', async t => {
    const record = (await t.other.sessions.get('default'))!.bot!
    await t.until('a held poll', () => t.sandbox.world.core.stats.polls_now === 1)
    await t.other.sessions.save('copy', record)
    t.clock.advance(2000)
    await t.sandbox.say('x')
    expect(texts(await t.recv())).toEqual(['x'])
    expect(t.sandbox.pollsAtOnce[record.bot_id]).toBe(1)
    // Where both are there from the start, one of them brings what arrives.
    await t.gateway.close()
    await using next = await t.beside()
    await t.sandbox.say('w')
    const [brought] = await next.recv()
    expect(brought?.text).toBe('w')
    expect(['default', 'copy']).toContain(brought!.session)
    // Once its folder is gone it goes on with the other, by one poll.
    await t.other.sessions.remove(brought!.session)
    await t.sandbox.say('y')
    const session = brought!.session === 'copy' ? 'default' : 'copy'
    expect(await next.recv()).toMatchObject([{ text: 'y', session }])
    expect(t.sandbox.pollsAtOnce[record.bot_id]).toBe(1)
  })

  it('a cursor that somebody put back does not end polling', async t => {
    await t.sandbox.say('a')
    await t.recv()
    await t.until('the cursor', async () => (await cursorOf(t)) !== '')
    const bot = (await t.other.sessions.get('default'))!.bot!
    await t.other.sessions.save('default', { ...bot, cursor: '' })
    for (const text of ['b', 'c', 'd', 'e']) {
      await t.sandbox.say(text)
      expect(texts(await t.hurry(t.recv()))).toEqual([text])
    }
    await t.until('the cursor again', async () => (await cursorOf(t)) !== '')
  })
})

describe('two gateways on one directory', () => {
  it('one polls, the other reads the store, and takes over after the first closes', async first => {
    await using second = await first.beside({ clock: testClock({ runs: false }) })
    const { bot_id } = first.bots.get('default')!
    expect((await first.gateway.health()).role).toBe('poller')
    expect((await second.gateway.health()).role).toBe('watcher')
    const waiting = second.recv({ consumer: 'default', timeout: 30 })
    await first.sandbox.say('hello')
    expect(texts(await waiting)).toEqual(['hello'])
    expect(first.sandbox.pollsAtOnce[bot_id]).toBe(1)

    await first.gateway.close()
    await second.pass(2500)
    await first.sandbox.say('after')
    expect(texts(await second.recv())).toEqual(['after'])
    expect((await second.gateway.health()).role).toBe('poller')
  })

  it('a lost poll lock makes a watcher, and then a poller again', async t => {
    await rename(join(t.dir, '.poll.lock'), join(t.dir, 'gone'))
    await t.hurry(
      t.until('the loss is noticed', () => t.lines.some(line => line.includes(' WARNING polling: '))),
    )
    await t.sandbox.say('still there')
    expect(texts(await t.hurry(t.recv()))).toEqual(['still there'])
  })
})
