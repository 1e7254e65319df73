import { describe, expect, test } from 'bun:test'
import type { Fetch } from '../../src/ilink/http.ts'
import { withGateway } from '../support/gateway.ts'
import { withPoller } from '../support/poller.ts'
import { stopwatch } from '../support/stopwatch.ts'

/** The first poll's request ends neither by itself nor when it is cut off, until the test lets it. */
function stuckFirst() {
  let polls = 0
  const gate = Promise.withResolvers<void>()
  return {
    polls: () => polls,
    release: () => gate.resolve(),
    fetch:
      (real: Fetch): Fetch =>
      async (url, init) => {
        if (!url.includes('getupdates') || ++polls > 1) return real(url, init)
        const { signal: _, ...unstoppable } = init
        const response = await real(url, unstoppable)
        await gate.promise
        return response
      },
  }
}

describe('a poll that looks alive and is not', () => {
  test('a request that outlives its deadline begins anew, is told of once, and nothing is lost', async () => {
    const stuck = stuckFirst()
    await using t = await withPoller({ fetch: stuck.fetch })
    await t.until('the first poll', () => stuck.polls() === 1)
    await t.sandbox.say('one')
    // Not before its time: the hold of 35 s and a minute.
    await t.pass(4, () => stuck.polls() > 1)
    expect(stuck.polls()).toBe(1)
    await t.pass(60, () => stuck.polls() > 1)
    await t.until('stored', async () => (await t.texts()).length === 1)
    await t.sandbox.say('two')
    await t.until('stored', async () => (await t.texts()).length === 2)
    expect(await t.texts()).toEqual(['one', 'two'])
    expect(t.told('waitsFor=answer')).toBe(1)
    stuck.release()
  })

  test('what a request brings after it was left to itself is stored all the same, once, and polling goes on', async () => {
    const stuck = stuckFirst()
    await using t = await withPoller({ fetch: stuck.fetch, switches: { replay: 'never' } })
    await t.until('the first poll', () => t.atOnce() === 1)
    await t.sandbox.say('late')
    await t.pass(60, () => stuck.polls() > 1)
    await t.until('another poll', () => stuck.polls() > 1)
    await t.sandbox.say('early')
    await t.until('stored', async () => (await t.texts()).includes('early'))
    stuck.release()
    await t.until('stored', async () => (await t.texts()).includes('late'))
    for (const text of ['a', 'b', 'c']) {
      await t.sandbox.say(text)
      await t.until('stored', async () => (await t.texts()).includes(text))
    }
    expect(await t.texts()).toEqual(['early', 'late', 'a', 'b', 'c'])
  })

  test('a message on its way to a poll that a check ends comes again with the next one, once', async () => {
    const cursors: string[] = []
    const handedOver = Promise.withResolvers<void>()
    const fetch =
      (real: Fetch): Fetch =>
      async (url, init) => {
        if (!url.includes('getupdates')) return real(url, init)
        cursors.push(JSON.parse(String(init.body)).get_updates_buf)
        if (cursors.length > 1) return real(url, init)
        const { signal, ...uncut } = init
        await real(url, uncut)
        handedOver.resolve()
        return new Promise((_, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
        })
      }
    await using t = await withPoller({ fetch })
    await t.until('polled', () => t.atOnce() === 1)
    await t.sandbox.say('on its way')
    await handedOver.promise
    expect(await t.texts()).toEqual([])
    await t.check()
    await t.until('stored', async () => (await t.texts()).length > 0)
    await t.sandbox.say('after')
    await t.until('stored', async () => (await t.texts()).includes('after'))
    expect(await t.texts()).toEqual(['on its way', 'after'])
    expect(cursors.slice(0, 2)).toEqual(['', ''])
  })

  test('a request that never ends does not keep the poller from ending', async () => {
    const stuck = stuckFirst()
    await using t = await withPoller({ fetch: stuck.fetch })
    await t.until('the first poll', () => stuck.polls() === 1)
    using watch = stopwatch()
    await t.stop()
    expect(watch.ms).toBeLessThan(4000)
    stuck.release()
  })

  test('while it is not sure that polling is this process’s right, nothing is asked; what is in hand is committed', async () => {
    let sure = true
    await using t = await withPoller({ mayPoll: () => sure })
    await t.until('polled', () => t.atOnce() === 1)
    sure = false
    await t.sandbox.say('in hand')
    await t.until('committed', async () => (await t.cursor()) !== '')
    const polls = t.sandbox.world.core.stats.requests.getupdates!
    await t.sandbox.say('later')
    await t.tick(10_000, 1000)
    expect(t.sandbox.world.core.stats.requests.getupdates).toBe(polls)
    sure = true
    await t.until('stored', async () => (await t.texts()).length === 2)
    expect(await t.texts()).toEqual(['in hand', 'later'])
  })

  test('a commit that does not end is waited for and told of; nobody polls beside it, and it is not made twice', async () => {
    const gate = Promise.withResolvers<void>()
    let commits = 0
    await using t = await withPoller({
      ingest: real => async batch => {
        commits += 1
        if (commits === 1) await gate.promise
        return real(batch)
      },
    })
    await t.until('polled', () => t.atOnce() === 1)
    await t.sandbox.say('in hand')
    await t.until('a commit', () => commits === 1)
    const polls = t.sandbox.world.core.stats.requests.getupdates
    expect(t.poller.isStuck).toBe(false)
    await t.pass(60, () => t.poller.isStuck)
    await t.pass(5, () => false)
    expect(t.poller.isStuck).toBe(true)
    expect(t.told(' ERROR ')).toBe(1)
    expect(commits).toBe(1)
    expect(t.sandbox.world.core.stats.requests.getupdates).toBe(polls!)
    gate.resolve()
    await t.until('well again', () => !t.poller.isStuck)
    await t.sandbox.say('after')
    await t.until('stored', async () => (await t.texts()).length === 2)
    expect(await t.texts()).toEqual(['in hand', 'after'])
    expect(await t.cursor()).not.toBe('')
  })
})

describe('after a long sleep of the machine', () => {
  for (const [how, pass] of [
    ['the clock on the wall alone shows it', 'step'],
    ['both clocks show it', 'advance'],
  ] as const) {
    test(`a dead connection is not waited for (${how})`, async () => {
      await using t = await withGateway()
      await t.until('held', () => t.sandbox.world.core.stats.polls_now === 1)
      // The poll under way is not answered any more: to us, its connection is dead.
      await t.sandbox.fail('getupdates', 'hang', { times: 1 })
      await t.sandbox.say('first')
      expect((await t.recv()).map(({ text }) => text)).toEqual(['first'])
      const polls = await t.until(
        'a poll that hangs',
        () => t.requests('getupdates') >= 2 && t.requests('getupdates'),
      )
      const lastPoll = async () => (await t.gateway.accounts.list())[0]?.last_poll_at
      const before = await lastPoll()
      expect(before).toBeNumber()
      t.clock[pass](3_600_000)
      await t.until('the look', async () => {
        t.clock.advance(1000)
        return t.requests('getupdates') > polls
      })
      // That WeChat answered then is still so.
      expect(await lastPoll()).toBe(before)
      await t.sandbox.say('second')
      expect((await t.recv()).map(({ text }) => text)).toEqual(['second'])
      // Nothing is wrong: whether that connection lives was not waited for.
      expect(t.lines.filter(line => line.includes('WARN'))).toEqual([])
      expect(t.sandbox.pollsAtOnce[t.bots.get('default')!.bot_id]).toBe(1)
    })
  }

  test('what arrived during the sleep is read before anything is cut off', async () => {
    await using t = await withGateway({ switches: { replay: 'never' } })
    await t.until('held', () => t.sandbox.world.core.stats.polls_now === 1)
    await t.sandbox.say('while it slept')
    t.clock.advance(3_600_000)
    expect((await t.recv()).map(({ text }) => text)).toEqual(['while it slept'])
    expect(t.lines.some(line => line.includes('no life'))).toBe(false)
  })
})
