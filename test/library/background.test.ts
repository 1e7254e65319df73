/** Handlers, iterations and the end: the table "Dispatcher mode" of the specification, as a program meets it. */
import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import type { Message, Svc } from '../../src/index.ts'
import { openLock } from '../../src/platform/lock.ts'
import { failure } from '../support/failure.ts'
import { testOfFiles } from '../support/given.ts'
import { texts, withLibrary } from '../support/library.ts'
import { stopwatch } from '../support/stopwatch.ts'

describe('runBackground', () => {
  test('polls when nobody else does, and again after close', async () => {
    await using t = await withLibrary()
    for (const text of ['first', 'second']) {
      const svc = await t.open()
      const got: Message[] = []
      svc.onMessage(message => got.push(message))
      await svc.runBackground()
      await svc.runBackground()
      expect(await svc.health()).toMatchObject({ role: 'poller', connected: 1 })
      await t.sandbox.say(text)
      await t.until('handled', () => got.length > 0)
      expect(texts(got)).toEqual([text])
      await svc.close()
    }
  })

  test('without a session it says so once, and not where there is one', async () => {
    await using t = await withLibrary({ sessions: [] })
    const warnings = () => t.lines.filter(line => / WARN/.test(line)).length
    const svc = await t.open()
    await svc.runBackground()
    await svc.runBackground()
    expect(warnings()).toBe(1)
    await svc.close()
    await t.connect('default')
    await (await t.open()).runBackground()
    expect(warnings()).toBe(1)
  })

  test('another process polls, store off: poll_lock_held; it works once that one is gone', async () => {
    await using t = await withLibrary()
    const poller = await t.open()
    await poller.runBackground()
    const svc = await t.open()
    const got: Message[] = []
    svc.onMessage(message => got.push(message))
    expect(await failure(svc.runBackground())).toMatchObject({ code: 'poll_lock_held' })
    expect(await failure(svc.messages().next())).toMatchObject({ code: 'poll_lock_held' })
    expect(await failure(svc.runForever())).toMatchObject({ code: 'poll_lock_held' })
    // Nothing runs, so recv goes by its table.
    expect(await svc.recv({ timeout: 30 })).toEqual([])
    await poller.close()
    await svc.runBackground()
    await t.sandbox.say('now')
    await t.until('handled', () => got.length > 0)
  })

  // Programs that share a database poll together.
  testOfFiles(
    'another process polls, store on: follows from the end of the log, and takes over',
    async () => {
      await using t = await withLibrary()
      const poller = await t.open({ store: true })
      await poller.runBackground()
      await t.sandbox.say('before')
      expect(texts(await poller.recv({ timeout: 30 }))).toEqual(['before'])

      const watcher = await t.open({ store: true })
      const got: string[] = []
      using said = stopwatch()
      let heardMs = 0
      watcher.onMessage(message => {
        got.push(message.text)
        heardMs = said.ms
      })
      await watcher.runBackground()
      expect((await watcher.health()).role).toBe('watcher')
      const saidMs = said.ms
      await t.sandbox.say('while watching')
      await t.until('handled', () => got.length > 0)
      expect(heardMs - saidMs).toBeLessThan(2000)
      // Enqueued for recv too.
      expect(texts(await watcher.recv({ timeout: 30 }))).toEqual(['while watching'])
      await watcher.send({ to: t.bots.get('default')!.user_id, text: 'never heard by itself' })

      await poller.close()
      await t.sandbox.say('after takeover')
      await t.quickly(t.until('taken over', () => got.length > 1))
      expect((await watcher.health()).role).toBe('poller')
      expect(got).toEqual(['while watching', 'after takeover'])
      expect(t.sandbox.pollsAtOnce[t.bots.get('default')!.bot_id]).toBe(1)
    },
  )
})

test('recv after runBackground begins with what came since then, and goes on from there after a restart', async () => {
  await using t = await withLibrary()
  {
    await using before = await t.open({ store: true })
    await t.sandbox.say('long ago')
    await before.recv({ timeout: 30, consumer: 'other' })
  }
  {
    await using svc = await t.open({ store: true })
    const handled: string[] = []
    svc.onMessage(({ text }) => handled.push(text))
    await svc.runBackground()
    await t.sandbox.say('since then')
    await t.until('handled', () => handled.length > 0)
    expect(texts(await svc.recv({ timeout: 30 }))).toEqual(['since then'])
    expect(texts(await svc.recv({ timeout: 0, after: 0 }))).toEqual(['long ago', 'since then'])
    await t.sandbox.say('not asked for')
    await t.until('handled', () => handled.length > 1)
  }
  await using again = await t.open({ store: true })
  await again.runBackground()
  expect(texts(await again.recv({ timeout: 30 }))).toEqual(['not asked for'])
})

describe('handlers', () => {
  test('each gets every message, one at a time and in order, whatever the others do', async () => {
    await using t = await withLibrary({ sessions: ['work', 'home'] })
    const home = t.bots.get('home')!
    const svc = await t.open()
    const slow: string[] = []
    const fast: string[] = []
    const ofHome: string[] = []
    let atOnce = 0
    let most = 0
    svc.onMessage(() => new Promise(() => {}))
    svc.onMessage(async message => {
      most = Math.max(most, ++atOnce)
      for (let turn = 0; turn < 5; turn++) await new Promise(resolve => setImmediate(resolve))
      slow.push(message.text)
      atOnce -= 1
    })
    await svc.runBackground()
    svc.onMessage(message => fast.push(message.text))
    svc.onMessage(message => ofHome.push(message.text), { session: 'HOME' })
    await t.sandbox.bulk(5, '{n}')
    await t.sandbox.say('home', { to: home.bot_id, from: home.user_id })
    await t.until('all handled', () => slow.length === 6)
    expect(most).toBe(1)
    expect(slow).toEqual(fast)
    expect(slow.filter(text => text !== 'home')).toEqual(['1', '2', '3', '4', '5'])
    expect(ofHome).toEqual(['home'])
  })

  test('one that throws gets the message again, marked, then the next; nobody else notices', async () => {
    await using t = await withLibrary()
    const svc = await t.open()
    const seen: string[] = []
    const other: string[] = []
    svc.onMessage(message => {
      seen.push(`${message.text}${message.redelivered ? ' again' : ''}`)
      if (message.text === 'bad') throw new Error('always')
      if (message.text === 'odd' && !message.redelivered) return Promise.reject(new Error('once'))
    })
    svc.onMessage(message => other.push(message.text))
    await svc.runBackground()
    await t.sandbox.say('bad')
    await t.sandbox.say('odd')
    await t.sandbox.say('good')
    await t.quickly(t.until('the last handled', () => seen.includes('good')))
    expect(seen).toEqual(['bad', 'bad again', 'bad again', 'odd', 'odd again', 'good'])
    expect(other).toEqual(['bad', 'odd', 'good'])
    expect(t.lines.filter(line => /ERROR .*handler failed/.test(line))).toHaveLength(1)
  })

  test('one that hangs holds up neither polling nor recv nor close', async () => {
    await using t = await withLibrary()
    const svc = await t.open()
    const aborted = Promise.withResolvers<void>()
    let calls = 0
    svc.onMessage((_message, { signal }) => {
      calls += 1
      signal.addEventListener('abort', () => aborted.resolve())
      return new Promise(() => {})
    })
    await svc.runBackground()
    for (const text of ['a', 'b', 'c']) {
      await t.sandbox.say(text)
      expect(texts(await svc.recv({ timeout: 30 }))).toEqual([text])
    }
    expect(calls).toBe(1)
    using watch = stopwatch()
    await svc.close()
    expect(watch.ms).toBeLessThan(4000)
    await aborted.promise
  })

  test('unsubscribed from within, it is not called again', async () => {
    await using t = await withLibrary()
    const svc = await t.open()
    const once: string[] = []
    const all: string[] = []
    const stop = svc.onMessage(message => {
      once.push(message.text)
      stop()
    })
    svc.onMessage(message => all.push(message.text))
    await svc.runBackground()
    await t.sandbox.bulk(3, '{n}')
    await t.until('all handled', () => all.length === 3)
    expect(once).toEqual(['1'])
  })

  test('with a consumer it goes on where it was; what was in hand at the end comes again, marked', async () => {
    await using t = await withLibrary()
    const first = await t.open({ store: true })
    const seen: string[] = []
    first.onMessage(
      message => {
        seen.push(message.text)
        if (message.text === '2') return new Promise(() => {})
      },
      { consumer: 'bot' },
    )
    await first.runBackground()
    // The position of a new name is the end of the log at its first look.
    await t.until('consumer known', () => first.recv({ timeout: 0, consumer: 'bot' }).then(() => true))
    await t.sandbox.bulk(3, '{n}')
    await t.until('hanging', () => seen.length === 2)
    await first.close()
    await t.sandbox.say('while away')

    const second = await t.open({ store: true })
    const again: Message[] = []
    second.onMessage(message => again.push(message), { consumer: 'bot' })
    await second.runBackground()
    await t.until('all handled', () => again.length === 3)
    expect(texts(again)).toEqual(['2', '3', 'while away'])
    expect(again.map(message => message.redelivered ?? false)).toEqual([true, false, false])
  })
})

describe('for await', () => {
  test('gives messages as they come, and answers reach the user', async () => {
    await using t = await withLibrary()
    const svc = await t.open()
    const reading = (async () => {
      for await (const message of svc) {
        await svc.send({ to: message.from_user, text: `echo ${message.text}` })
        if (message.text === 'b') return
      }
    })()
    await t.until('running', async () => (await svc.health()).role === 'poller')
    await t.sandbox.say('a')
    await t.sandbox.say('b')
    await reading
    const seen = await t.sandbox.seen(messages => messages.length === 2)
    expect(seen.flatMap(({ items }) => items)).toMatchObject([{ text: 'echo a' }, { text: 'echo b' }])
  })

  test('ends with close and with the signal', async () => {
    await using t = await withLibrary()
    const svc = await t.open()
    const leaving = new AbortController()
    const one = Array.fromAsync(svc.messages({ signal: leaving.signal }))
    const other = Array.fromAsync(svc)
    await t.until('running', async () => (await svc.health()).role === 'poller')
    leaving.abort()
    expect(await one).toEqual([])
    await svc.close()
    expect(await other).toEqual([])
    expect(await failure(svc.messages().next())).toMatchObject({ code: 'shutting_down' })
  })

  test('with a consumer, what the loop was left at comes again, marked', async () => {
    await using t = await withLibrary()
    const svc = await t.open({ store: true })
    expect(await t.quickly(svc.recv({ timeout: 0, consumer: 'job' }))).toEqual([])
    await t.sandbox.bulk(3, '{n}')
    for await (const message of svc.messages({ consumer: 'job' })) if (message.text === '2') break
    const rest: Message[] = []
    for await (const message of svc.messages({ consumer: 'job' })) {
      rest.push(message)
      if (message.text === '3') break
    }
    expect(rest).toMatchObject([{ text: '2', redelivered: true }, { text: '3' }])
  })
})

describe('the end', () => {
  test('runForever lasts until close; calls that wait end, later ones are refused', async () => {
    await using t = await withLibrary()
    const svc = await t.open()
    const forever = svc.runForever()
    const waiting = svc.recv({ timeout: 300 })
    await t.until('polling', () => t.requests('getupdates') > 0)
    await Promise.all([svc.close(), svc.close()])
    await forever
    expect(await waiting).toEqual([])
    expect(await failure(svc.recv())).toMatchObject({ code: 'shutting_down' })
    expect(await failure(svc.sessions())).toMatchObject({ code: 'shutting_down' })
    expect(await failure(svc.runBackground())).toMatchObject({ code: 'shutting_down' })
    expect(() => svc.onMessage(() => {})).toThrow()
  })

  test('await using closes at the end of its block, also when that throws: nobody polls, the lock is free', async () => {
    await using t = await withLibrary()
    let kept: Svc | undefined
    const block = async () => {
      await using svc = await t.open()
      kept = svc
      await svc.runBackground()
      await t.until('polling', () => t.sandbox.world.core.stats.polls_now === 1)
      throw new Error('in the block')
    }
    expect((await failure(block())).message).toContain('in the block')
    expect(await failure(kept!.recv())).toMatchObject({ code: 'shutting_down' })
    await t.until('nobody polls', () => t.sandbox.world.core.stats.polls_now === 0)
    const lock = await openLock(join(t.dir, '.poll.lock'))
    expect(await lock.tryLock()).toBe(true)
    await lock.close()
  })

  test('a handler may close', async () => {
    await using t = await withLibrary()
    const svc = await t.open({}, { graceMs: 60_000 })
    const seen: string[] = []
    svc.onMessage(message => {
      seen.push(message.text)
      void svc.close()
    })
    const forever = svc.runForever()
    await t.until('polling', () => t.requests('getupdates') > 0)
    using watch = stopwatch()
    await t.sandbox.say('stop')
    await forever
    // Nobody waits for a handler that has returned.
    expect(watch.ms).toBeLessThan(30_000)
    expect(seen).toEqual(['stop'])
  })
})
