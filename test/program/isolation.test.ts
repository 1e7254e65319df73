import { describe, expect, test } from 'bun:test'
import { faultKinds } from '../../src/sandbox/faults.ts'
import { type Json, logIn, type Service, startService } from '../support/service.ts'
import { stopwatch } from '../support/stopwatch.ts'

/** What upstream's getupdates can do wrong to one session. */
const troubles = Object.keys(faultKinds).filter(kind => !['201', 'no_param', 'corrupt'].includes(kind))

describe('two sessions', () => {
  test('that receive in the same moment lose nothing', async () => {
    await using service = await startService()
    const { a, b } = await twoSessions(service)
    const each = 50
    await Promise.all(
      Array.from({ length: each }, (_, n) => [
        service.phone('say', { from: a.user, to: a.bot, text: `a${n}` }),
        service.phone('say', { from: b.user, to: b.bot, text: `b${n}` }),
      ]).flat(),
    )
    const texts = (await receive(service, 2 * each)).map(message => `${message.session}:${message.text}`)
    const wanted = Array.from({ length: each }, (_, n) => [`one:a${n}`, `two:b${n}`]).flat()
    expect(texts.sort()).toEqual(wanted.sort())
  })

  for (const kind of troubles) {
    test(`where one meets "${kind}" on every poll: the other neither waits nor loses anything`, async () => {
      await using service = await startService()
      const { a, b } = await twoSessions(service)
      await service.phone('faults', { endpoint: 'getupdates', kind, times: 0, bot: a.bot })
      // The poll that is held now was asked before; this one is answered into the trouble, or after it.
      await service.phone('say', { from: a.user, to: a.bot, text: 'held up' })
      for (let n = 0; n < 5; n++) {
        using watch = stopwatch()
        await service.phone('say', { from: b.user, to: b.bot, text: `b${n}` })
        const [message] = await receive(service, 1, 'two')
        expect(message).toMatchObject({ session: 'two', text: `b${n}` })
        // Far below any back-off or hold of the session in trouble.
        expect(watch.ms).toBeLessThan(5000)
      }
      expect(service.log()).not.toContain('poll loop failed')
    })
  }

  test('the one in trouble receives what waited for it as soon as upstream is well again', async () => {
    await using service = await startService()
    const { a } = await twoSessions(service)
    await service.phone('faults', { endpoint: 'getupdates', kind: 'truncated', times: 2, bot: a.bot })
    const texts: string[] = []
    for (const text of ['before', 'meanwhile']) {
      await service.phone('say', { from: a.user, to: a.bot, text })
      texts.push(...(await receive(service, 1, 'one')).map(message => message.text))
    }
    expect(texts).toEqual(['before', 'meanwhile'])
    expect(service.log()).toContain('poll failed')
    expect(service.log()).toContain('polling again')
  })
})

interface Side {
  user: string
  bot: string
}

async function twoSessions(service: Service): Promise<{ a: Side; b: Side }> {
  const other = await service.phone('users', { name: 'Hong' })
  const one = await logIn(service, 'one')
  const two = await logIn(service, 'two', other.id)
  const { bots }: Json = await (await fetch(`${service.phoneUrl}/phone/state`)).json()
  const userOf = (bot: string) => bots.find((entry: Json) => entry.id === bot).user_id
  return {
    a: { user: userOf(one.bot_id), bot: one.bot_id },
    b: { user: userOf(two.bot_id), bot: two.bot_id },
  }
}

async function receive(service: Service, wanted: number, session?: string): Promise<Json[]> {
  const received: Json[] = []
  using watch = stopwatch()
  while (received.length < wanted && watch.ms < 25_000) {
    const { body } = await service.call('recv', { timeout: 5, ...(session && { session }) })
    received.push(...body)
  }
  return received
}
