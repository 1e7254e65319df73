/** The table "Receive mode" of the specification, as a program meets it. */
import { describe, expect, test } from 'bun:test'
import { readFile, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { openLock } from '../../src/platform/lock.ts'
import { createTextItem } from '../../src/sandbox/compose.ts'
import { failure } from '../support/failure.ts'
import { changeIn, rowsIn } from '../support/gateway.ts'
import { testOfFiles } from '../support/given.ts'
import { type TestLibrary, texts, withLibrary } from '../support/library.ts'
import { isOnPostgres } from '../support/shared-store.ts'
import { stopwatch } from '../support/stopwatch.ts'

/** The cursors of the sessions, by name: from the session files, or from the database with the store. */
async function cursorsOf({ dir }: TestLibrary, names: readonly string[], store: boolean) {
  if (store && isOnPostgres) {
    const rows = await rowsIn<{ name: string; cursor: string }>(dir, 'SELECT name, cursor FROM account')
    return new Map(rows.map(({ name, cursor }) => [name, cursor]))
  }
  const files = names.map(async name => JSON.parse(await readFile(join(dir, name, 'token.json'), 'utf8')))
  return new Map((await Promise.all(files)).map(({ cursor }, at) => [names[at]!, String(cursor)]))
}

for (const store of [false, true]) {
  describe(`recv with the poll lock free, store ${store ? 'on' : 'off'}`, () => {
    test('polls every session at once and returns what all of them brought, cursor and context tokens written', async () => {
      await using t = await withLibrary({ sessions: ['work', 'home', 'quiet'] })
      const [work, home] = [t.bots.get('work')!, t.bots.get('home')!]
      const svc = await t.open({ store })
      await t.sandbox.say('to work', { to: work.bot_id, from: work.user_id })
      await t.sandbox.say('to home', { to: home.bot_id, from: home.user_id })
      const messages = await svc.recv({ timeout: 30 })
      expect(texts(messages).sort()).toEqual(['to home', 'to work'])
      expect(messages.map(({ id }) => id)).toEqual([1, 2])
      const cursors = await cursorsOf(t, ['work', 'home'], store)
      for (const name of ['work', 'home']) {
        expect(cursors.get(name)).toMatch(/./)
        const { user_id } = t.bots.get(name)!
        expect((await t.otherOf(store).contexts.find(name, user_id))?.token).toBeString()
      }
      expect(await t.quickly(svc.recv({ timeout: 0 }))).toEqual([])
      // What was received can be answered.
      expect(await svc.send({ to: home.user_id, text: 'hello' })).toMatchObject({
        success: true,
        session: 'home',
      })
    })

    const testOfLock = store ? testOfFiles : test
    testOfLock('waits for a message up to the timeout, and gives the lock back with its answer', async () => {
      await using t = await withLibrary()
      const svc = await t.open({ store })
      const waiting = svc.recv({ timeout: 30 })
      await t.until('polling', () => t.requests('getupdates') > 0)
      const lock = await openLock(join(t.dir, '.poll.lock'))
      expect(await lock.tryLock()).toBe(false)
      await t.sandbox.say('at last')
      expect(texts(await waiting)).toEqual(['at last'])
      expect(await lock.tryLock()).toBe(true)
      await lock.close()

      let isOver = false
      const empty = svc.recv({ timeout: 300 }).finally(() => {
        isOver = true
      })
      // Each that ends has the next one look.
      const beside = () => t.quickly(svc.recv({ timeout: 0 }))
      expect(await beside()).toEqual([])
      expect(isOver).toBe(false)
      t.clock.advance(300_000)
      expect(await beside()).toEqual([])
      expect(await empty).toEqual([])
    })

    test('nobody is greeted or bidden farewell, no poll runs on between the calls', async () => {
      await using t = await withLibrary()
      const svc = await t.open({ store })
      for (const text of ['a', 'b', 'c']) {
        await t.sandbox.say(text)
        expect(texts(await svc.recv({ timeout: 30 }))).toEqual([text])
      }
      expect(t.requests('getupdates')).toBe(3)
      expect(t.requests('msg/notifystart')).toBe(0)
      expect(t.requests('msg/notifystop')).toBe(0)
      expect(t.sandbox.pollsAtOnce[t.bots.get('default')!.bot_id]).toBe(1)
    })

    test('parallel calls share one poll and get each message once; a consumer of its own gets all', async () => {
      await using t = await withLibrary()
      const svc = await t.open({ store })
      const waiting = [
        ...Array.from({ length: 4 }, () => svc.recv({ timeout: 30, limit: 1 })),
        svc.recv({ timeout: 30, consumer: 'aside' }),
      ]
      await t.until('polling', () => t.requests('getupdates') > 0)
      await t.sandbox.bulk(4, '{n}')
      const answers = await Promise.all(waiting)
      expect(texts(answers.slice(0, 4).flat()).sort()).toEqual(['1', '2', '3', '4'])
      const aside = [...answers[4]!, ...(await t.quickly(svc.recv({ timeout: 0, consumer: 'aside' })))]
      expect(texts(aside).sort()).toEqual(['1', '2', '3', '4'])
      expect(t.sandbox.pollsAtOnce[t.bots.get('default')!.bot_id]).toBe(1)
    })

    test('a consumer that acknowledges is read with ack alone, by no loop', async () => {
      await using t = await withLibrary()
      const svc = await t.open({ store })
      const own = { consumer: 'bot', timeout: 0 }
      expect(await t.quickly(svc.recv({ ...own, ack: '0' }))).toEqual([])
      expect(await failure(svc.recv(own))).toMatchObject({ code: 'invalid_arguments' })
      const messages = svc.messages({ consumer: 'bot' })[Symbol.asyncIterator]()
      expect(await failure(messages.next())).toMatchObject({ code: 'invalid_arguments' })
    })

    test('an upstream in trouble costs patience, not messages', async () => {
      await using t = await withLibrary()
      const svc = await t.open({ store })
      await t.sandbox.fail('getupdates', '500', { times: 2 })
      await t.sandbox.say('after all')
      expect(texts(await t.quickly(svc.recv({ timeout: 300 })))).toEqual(['after all'])
    })

    test('an aborted call rejects with the reason and takes no message', async () => {
      await using t = await withLibrary()
      const svc = await t.open({ store })
      const leaving = new AbortController()
      const waiting = svc.recv({ timeout: 60 }, { signal: leaving.signal })
      await t.until('polling', () => t.requests('getupdates') > 0)
      leaving.abort(new Error('enough'))
      expect((await failure(waiting)).message).toContain('enough')
      await t.sandbox.say('for the next one')
      expect(texts(await svc.recv({ timeout: 30 }))).toEqual(['for the next one'])
    })
  })
}

testOfFiles(
  'a poll lock that is lost is taken anew by the calls that wait, whoever began the polling',
  async () => {
    await using t = await withLibrary()
    const svc = await t.open({ store: true })
    const leaving = new AbortController()
    const first = svc.recv({ timeout: 300 }, { signal: leaving.signal })
    await t.until('polling', () => t.requests('getupdates') > 0)
    const waiting = [svc.recv({ timeout: 300 }), svc.recv({ timeout: 300, consumer: 'aside' })]
    await unlink(join(t.dir, '.poll.lock'))
    await t.quickly(t.until('polling again', () => t.requests('getupdates') > 1))
    leaving.abort(new Error('enough'))
    await failure(first)
    await t.sandbox.say('after all')
    expect((await Promise.all(waiting)).map(texts)).toEqual([['after all'], ['after all']])
    expect(t.sandbox.pollsAtOnce[t.bots.get('default')!.bot_id]).toBe(1)
  },
)

describe('recv with the poll lock held by another process', () => {
  test('store on: the received messages of the last 60 seconds, whoever has read them, and nothing moves', async () => {
    await using t = await withLibrary()
    const poller = await t.open({ store: true })
    await poller.runBackground()
    const svc = await t.open({ store: true })
    await t.sandbox.say('one')
    await t.sandbox.say('two')
    await t.until('stored', async () => (await svc.history()).total === 2)
    await poller.send({ to: t.bots.get('default')!.user_id, text: 'sent' })
    expect(texts(await poller.recv())).toEqual(['one', 'two'])

    const first = await svc.recv({ timeout: 30 })
    expect(first).toMatchObject([{ text: 'one' }, { text: 'two' }])
    expect(first[0]).not.toHaveProperty('redelivered')
    // Again, and marked, until they are a minute old.
    expect(await svc.recv({ timeout: 0 })).toMatchObject([
      { text: 'one', redelivered: true },
      { text: 'two', redelivered: true },
    ])
    // New ones are waited for.
    const waiting = svc.recv({ timeout: 30 })
    await t.sandbox.say('three')
    expect(texts(await waiting)).toEqual(['one', 'two', 'three'])
    expect(texts(await svc.recv({ timeout: 0, limit: 1 }))).toEqual(['three'])
    // The poller's consumer stands where it stood.
    expect(texts(await poller.recv())).toEqual(['three'])
    expect(texts(await svc.recv({ after: 1, timeout: 0 }))).toEqual(['two', 'three'])
  })

  test('store on: of more than 4 MiB what is new goes first, and each is new once', async () => {
    await using t = await withLibrary()
    const poller = await t.open({ store: true })
    await poller.runBackground()
    await t.sandbox.bulk(20, `n{n} ${'€'.repeat(100_000)}`)
    await t.until('stored', async () => (await poller.history({ limit: 1 })).total === 20)
    const svc = await t.open({ store: true })
    const shown: number[] = []
    for (let calls = 0; calls < 20 && shown.length < 20; calls++) {
      const messages = await svc.recv({ timeout: 0, limit: 1000 })
      expect(Buffer.byteLength(JSON.stringify(messages))).toBeLessThanOrEqual(4 * 1024 * 1024)
      expect(messages.more).toBe(true)
      shown.push(...messages.filter(({ redelivered }) => !redelivered).map(({ id }) => id))
    }
    expect(shown).toEqual(Array.from({ length: 20 }, (_, at) => at + 1))
  })

  test('store on: the whole minute, up to 1000, and then a sign that there are more', async () => {
    await using t = await withLibrary()
    const poller = await t.open({ store: true })
    await poller.runBackground()
    const svc = await t.open({ store: true })
    const stored = async (count: number) =>
      await t.until(`${count} stored`, async () => (await poller.history({ limit: 1 })).total === count)
    await t.sandbox.bulk(1000, 'n{n}')
    await stored(1000)
    const whole = await svc.recv({ timeout: 0 })
    expect([whole.length, whole[0]!.id, whole.more]).toEqual([1000, 1, undefined])
    await t.sandbox.say('one more')
    await stored(1001)
    for (const [input, first] of [
      [{}, 2],
      [{ limit: 100 }, 902],
      [{ limit: 1 }, 1001],
    ] as const) {
      const newest = await svc.recv({ timeout: 0, ...input })
      expect([newest[0]!.id, newest.at(-1)!.id, newest.more]).toEqual([first, 1001, true])
      expect(Object.keys(newest)).toHaveLength(newest.length)
    }
    const rest = await svc.recv({ timeout: 0, after: 0, limit: 1 })
    expect([rest[0]!.id, rest.more]).toEqual([1, undefined])
  })

  test('store on: what is older than 60 seconds is not shown', async () => {
    await using t = await withLibrary()
    const poller = await t.open({ store: true })
    await poller.runBackground()
    await t.sandbox.say('old')
    expect(texts(await poller.recv({ timeout: 30 }))).toEqual(['old'])
    await changeIn(t.dir, 'UPDATE message SET stored_at = stored_at - 61000')
    const svc = await t.open({ store: true })
    expect(await svc.recv({ timeout: 0 })).toEqual([])
  })

  testOfFiles('store off: an empty list, at once', async () => {
    await using t = await withLibrary()
    const poller = await t.open({ store: true })
    await poller.runBackground()
    const svc = await t.open()
    await t.sandbox.say('not for you')
    expect(texts(await poller.recv({ timeout: 30 }))).toEqual(['not for you'])
    using watch = stopwatch()
    expect(await svc.recv({ timeout: 30 })).toEqual([])
    expect(watch.ms).toBeLessThan(10_000)
  })

  test('a call that waits takes over when the poller goes', async () => {
    await using t = await withLibrary()
    const poller = await t.open({ store: true })
    await poller.runBackground()
    const svc = await t.open({ store: true })
    const waiting = svc.recv({ timeout: 30 })
    await poller.close()
    await t.sandbox.say('whoever is there')
    expect(texts(await waiting)).toEqual(['whoever is there'])
  })
})

test('while the program runs in the background recv drains what was dispatched', async () => {
  await using t = await withLibrary()
  const svc = await t.open()
  const before = svc.recv({ timeout: 30 })
  await t.until('polling', () => t.requests('getupdates') > 0)
  await svc.runBackground()
  expect((await svc.health()).role).toBe('poller')
  await t.sandbox.say('a')
  // A call that waited before goes on.
  expect(texts(await before)).toEqual(['a'])
  await t.sandbox.say('b')
  expect(texts(await svc.recv({ timeout: 30 }))).toEqual(['b'])
  expect(t.sandbox.pollsAtOnce[t.bots.get('default')!.bot_id]).toBe(1)
})

test('a loop of recv over busy sessions misses nothing, also where upstream sends nothing twice', async () => {
  await using t = await withLibrary({ sessions: ['a', 'b', 'c'], switches: { replay: 'never' } })
  // A call that has something waits for the others for 200 ms only: of a poll that is left then, what is on its way is
  // lost to an upstream that says it once. On this clock that is two seconds, for a busy machine.
  t.clock.monotonic = () => performance.now() / 10
  const svc = await t.open()
  const bots = [...t.bots.values()]
  const all = Array.from({ length: 60 }, (_, n) => `${n}`)
  const got: string[] = []
  const loop = (async () => {
    for (let empty = 0; got.length < all.length && empty < 10; ) {
      const some = texts(await svc.recv({ timeout: 2 }))
      got.push(...some)
      if (some.length === 0) empty++
    }
  })()
  // To all at once.
  const { inbox } = t.sandbox.world
  for (let n = 0; n < all.length; n += bots.length) {
    for (const [nth, { bot_id, user_id }] of bots.entries())
      inbox.addMessage(user_id, bot_id, [createTextItem(all[n + nth]!)])
    await Bun.sleep(5)
  }
  await loop
  expect(got.sort()).toEqual(all.sort())
  expect(Math.max(...Object.values(t.sandbox.pollsAtOnce))).toBe(1)
})
