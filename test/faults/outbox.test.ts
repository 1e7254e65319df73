import { expect } from 'bun:test'
import { testClock } from '../support/clock.ts'
import { given } from '../support/given.ts'
import { hosted } from './support/hosted.ts'
import { until } from './support/program.ts'
import { fileNamed as file, openSite, queue, arrived as seen, sentRows } from './support/upstream.ts'

const it = given(openSite)

for (const reached of [true, false]) {
  it(`killed while it sends what waited, ${reached ? 'after it had' : 'before it'} arrived: that one is unknown, the rest goes once`, async site => {
    const first = await site.start()
    await queue(site, first, { text: 'a' })
    await queue(site, first, { media: [file('b'), file('c')] })
    await queue(site, first, { text: 'd' })
    const asked = site.requests('sendmessage')
    await site.sandbox.fail('sendmessage', 'hang', { after: reached })
    await site.say('hi')
    await site.asked('sendmessage', asked + 1)
    await until('upstream has it', 30_000, async () => !reached || (await seen(site)).length === 1)
    await first.kill('SIGKILL')
    expect(sentRows(site).map(({ status }) => status)).toEqual(['sending', 'queued', 'queued', 'queued'])

    // The next one is killed with another message on its way.
    const second = await site.start()
    await site.sandbox.fail('sendmessage', 'slow', { delay_ms: 1 })
    await site.sandbox.fail('sendmessage', 'hang', { after: reached })
    await site.say('go on')
    await site.asked('sendmessage', asked + 3)
    await until('upstream has it', 30_000, async () => !reached || (await seen(site)).length === 3)
    await second.kill('SIGKILL')
    expect(sentRows(site).map(({ status }) => status)).toEqual(['unknown', 'accepted', 'sending', 'queued'])

    await using last = await hosted(site)
    await last.gateway.hurry(
      until('the rest is sent', 30_000, () => sentRows(site)[3]?.status === 'accepted'),
    )
    expect(sentRows(site).map(({ status }) => status)).toEqual(['unknown', 'accepted', 'unknown', 'accepted'])
    expect(await seen(site)).toEqual(reached ? ['a', 'b', 'c', 'd'] : ['b', 'd'])
    expect((await last.get('/outbox')).body).toEqual([])
    expect(site.requests('sendmessage')).toBe(asked + 4)
  })
}

it('the poller killed while it sends what waited: a watcher goes on within seconds', async site => {
  const poller = await site.start()
  await site.asked('getupdates', 1)
  await using watcher = await hosted(site, { clock: testClock({ runs: false }) })
  await queue(site, watcher, { text: 'a' })
  await queue(site, watcher, { media: [file('b')] })
  const asked = site.requests('sendmessage')
  await site.sandbox.fail('sendmessage', 'hang', { after: true })
  await site.say('hi')
  await site.asked('sendmessage', asked + 1)
  await poller.kill('SIGKILL')
  await watcher.gateway.pass(6000)
  await until('the rest is sent', 30_000, () => sentRows(site)[1]?.status === 'accepted')
  expect(sentRows(site).map(({ status }) => status)).toEqual(['unknown', 'accepted'])
  expect(await seen(site)).toEqual(['a', 'b'])
})

it('a send of one process that dies is unknown in seconds where another one runs', async site => {
  await using one = await hosted(site)
  await site.heard('hi')
  const other = await site.start()
  await until('the context is there', 30_000, async () => (await other.call('sessions')).body[0].user_count)
  await site.sandbox.fail('sendmessage', 'hang')
  const broken = other.call('send', { to: site.user, text: 'x' }).catch(() => 'broken')
  await site.asked('sendmessage', 1)
  await other.kill('SIGKILL')
  expect(await broken).toBe('broken')
  await one.gateway.hurry(until('it is unknown', 30_000, () => sentRows(site)[0]?.status === 'unknown'))
})

it('killed in the middle of a send with a key: the same key answers unknown and sends nothing', async site => {
  const first = await site.start()
  await site.heard('hi')
  await until('the context is there', 30_000, async () => (await first.call('sessions')).body[0].user_count)
  const input = { to: site.user, text: 'once', media: [file('b')], idempotency_key: 'k' }
  await site.sandbox.fail('sendmessage', 'hang', { after: true })
  const broken = first.call('send', input).catch(() => 'broken')
  await site.asked('sendmessage', 1)
  await until('upstream has it', 30_000, async () => (await seen(site)).length === 1)
  await first.kill('SIGKILL')
  expect(await broken).toBe('broken')

  await using second = await hosted(site)
  const answer = await second.call('send', input)
  expect(answer.body).toMatchObject({
    success: false,
    status: 'unknown',
    session: 's',
    parts: [
      { kind: 'text', status: 'unknown', error: { code: 'upstream_error' } },
      { kind: 'file', status: 'refused' },
    ],
  })
  expect((await second.call('send', input)).body).toEqual(answer.body)
  expect((await second.call('send', { ...input, text: 'other' })).body.code).toBe('idempotency_conflict')
  expect(site.requests('sendmessage')).toBe(1)
})
