/** Upstream gives an answer once. One that is on its way when a poll has to end is stored all the same. */
import { describe, expect, test } from 'bun:test'
import type { Fetch } from '../../src/ilink/http.ts'
import { testClock } from '../support/clock.ts'
import { withPoller } from '../support/poller.ts'

/** Holds the answer to the first poll on its way: all of it, or what comes after its head. An abort loses it. */
function heldAnswer(what: 'all' | 'body') {
  const given = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  let polls = 0
  const held = (signal: AbortSignal | undefined) =>
    new Promise<void>((resolve, reject) => {
      signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
      void gate.promise.then(resolve)
    })
  return {
    /** Resolves when upstream has given the answer away. */
    given: given.promise,
    arrive: () => gate.resolve(),
    polls: () => polls,
    fetch:
      (real: Fetch): Fetch =>
      async (url, { signal, ...uncut }) => {
        if (!url.includes('getupdates') || ++polls > 1)
          return real(url, { ...uncut, ...(signal && { signal }) })
        const text = await (await real(url, uncut)).text()
        given.resolve()
        if (what === 'all') {
          await held(signal)
          return new Response(text)
        }
        const body = new ReadableStream<Uint8Array>({
          async start(stream) {
            await held(signal).then(
              () => stream.enqueue(new TextEncoder().encode(text)),
              error => stream.error(error),
            )
            stream.close()
          },
        })
        return new Response(body)
      },
  }
}

const switches = { replay: 'never' } as const

/** A poller whose first answer, with one message, is on its way. */
async function withAnswer(what: 'all' | 'body', clock = testClock()) {
  const answer = heldAnswer(what)
  const t = await withPoller({ fetch: answer.fetch, switches, clock })
  await t.until('polled', () => t.atOnce() === 1)
  await t.sandbox.say('on its way')
  await answer.given
  return Object.assign(t, { answer })
}

describe('an answer on its way', () => {
  test('is waited for when another process is to have the session, which gets it after that', async () => {
    await using t = await withAnswer('all', testClock({ runs: false }))
    await t.move()
    // Shorter than the poll may be held.
    await t.pass(1, () => false)
    expect(t.givenUp).toEqual([])
    t.answer.arrive()
    await t.until('given up', () => t.givenUp.length > 0)
    expect(t.givenUp).toEqual(['s'])
    expect(await t.texts()).toEqual(['on its way'])
    expect(t.answer.polls()).toBe(1)
  })

  test('of which nothing comes ends the wait by the deadline of the poll', async () => {
    await using t = await withAnswer('all', testClock({ runs: false }))
    await t.move()
    await t.pass(60, () => t.givenUp.length > 0)
    expect(t.givenUp).toEqual(['s'])
    expect(t.answer.polls()).toBe(1)
  })

  test('has a moment to arrive when the lease of this process ends', async () => {
    await using t = await withAnswer('all', testClock({ runs: false }))
    const ended = t.lose()
    t.answer.arrive()
    await t.until('stored', async () => (await t.texts()).length > 0)
    await ended
    expect(t.answer.polls()).toBe(1)
  })

  test('does not keep the poll open for longer than that', async () => {
    await using t = await withAnswer('all', testClock({ runs: false }))
    const ended = t.lose()
    await t.pass(1, () => false)
    await ended
    expect(await t.texts()).toEqual([])
  })

  for (const why of ['the lease ends', 'the process is stopped'] as const)
    test(`is read to its end if it had begun when ${why}`, async () => {
      await using t = await withAnswer('body')
      const ended = why === 'the lease ends' ? t.lose() : t.stop()
      await t.until('the poll ends', () => t.clock.sleeps(0, 1000))
      t.answer.arrive()
      await ended
      expect(await t.texts()).toEqual(['on its way'])
    })
})
