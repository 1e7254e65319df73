import { expect, test } from 'bun:test'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { stopwatch, stopwatchOf } from '../support/stopwatch.ts'
import { type Program, until } from './support/program.ts'
import { openSite, roleOf, type Site, sentRows } from './support/upstream.ts'

const seen = async (site: Site) =>
  (await site.sandbox.messages({ from: 'bot', limit: 1000 })).map(
    ({ items }) => items[0]?.text ?? items[0]?.file_name,
  )
const file = (name: string) => ({
  ...{ kind: 'file', file_name: name },
  data: Buffer.from(name).toString('base64'),
})

/** Queues to a user who has never written: upstream refuses the first, the others join it. */
async function queue(site: Site, program: Program, input: object): Promise<void> {
  const { body } = await program.call('send', { to: site.user, when_closed: 'queue', ...input })
  expect(body.status).toBe('queued')
}

for (const reached of [true, false]) {
  test(`killed while it sends what waited, ${reached ? 'after it had' : 'before it'} arrived: that one is unknown, the rest goes once`, async () => {
    await using site = await openSite()
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

    const second = await site.start()
    await until('the rest is sent', 30_000, () => sentRows(site)[3]?.status === 'accepted')
    expect(sentRows(site).map(({ status }) => status)).toEqual([
      'unknown',
      'accepted',
      'accepted',
      'accepted',
    ])
    expect(await seen(site)).toEqual(reached ? ['a', 'b', 'c', 'd'] : ['b', 'c', 'd'])
    expect((await second.get('/outbox')).body).toEqual([])
    expect(site.requests('sendmessage')).toBe(asked + 4)
  })
}

test('the poller killed while it sends what waited: a watcher goes on within seconds', async () => {
  await using site = await openSite()
  const poller = await site.start()
  await site.asked('getupdates', 1)
  const watcher = await site.start()
  await queue(site, watcher, { text: 'a' })
  await queue(site, watcher, { media: [file('b')] })
  const asked = site.requests('sendmessage')
  await site.sandbox.fail('sendmessage', 'hang', { after: true })
  await site.say('hi')
  await site.asked('sendmessage', asked + 1)
  await poller.kill('SIGKILL')
  await using watch = stopwatchOf(() => roleOf(watcher))
  await until('the rest is sent', 30_000, () => sentRows(site)[1]?.status === 'accepted')
  expect(watch.ms).toBeLessThan(6000)
  expect(sentRows(site).map(({ status }) => status)).toEqual(['unknown', 'accepted'])
  expect(await seen(site)).toEqual(['a', 'b'])
})

test('a send of one process that dies is unknown in seconds where another one runs', async () => {
  await using site = await openSite()
  await site.start()
  await site.heard('hi')
  const other = await site.start()
  await until('the context is there', 30_000, async () => (await other.call('sessions')).body[0].user_count)
  await site.sandbox.fail('sendmessage', 'hang')
  const broken = other.call('send', { to: site.user, text: 'x' }).catch(() => 'broken')
  await site.asked('sendmessage', 1)
  await other.kill('SIGKILL')
  expect(await broken).toBe('broken')
  await until('it is unknown', 30_000, () => sentRows(site)[0]?.status === 'unknown')
})

test('killed in the middle of a send with a key: the same key answers unknown and sends nothing', async () => {
  await using site = await openSite()
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

  const second = await site.start()
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

test('killed again and again while much waits: nothing arrives twice, nothing is lost in silence, order stays', async () => {
  await using site = await openSite()
  let program = await site.start()
  const names = Array.from({ length: 24 }, (_, i) => `f${i}`)
  for (let i = 0; i < names.length; i += 4) {
    await queue(site, program, { media: names.slice(i, i + 4).map(file) })
  }
  await site.sandbox.fail('sendmessage', 'slow', { delay_ms: 40, times: 0 })
  let kills = 0
  using watch = stopwatch()
  while (watch.ms < 40_000) {
    await site.say('go on')
    const asked = site.requests('sendmessage')
    // Somewhere in the middle of one of the next sends.
    await until(
      'some are sent',
      30_000,
      () => {
        const left = sentRows(site).filter(({ status }) => status === 'queued').length
        return left === 0 || site.requests('sendmessage') >= asked + 1 + (kills % 4)
      },
      () => program.log(),
    )
    if (sentRows(site).every(({ status }) => status !== 'queued')) break
    await Bun.sleep((kills * 17) % 45)
    await program.kill('SIGKILL')
    kills += 1
    program = await site.start()
  }
  await until('all settled', 30_000, () =>
    sentRows(site).every(({ status }) => status === 'accepted' || status === 'unknown'),
  )
  expect(kills).toBeGreaterThan(2)
  const states = sentRows(site).map(({ status }) => status)
  expect(states).toHaveLength(names.length)
  const arrived = await seen(site)
  expect(arrived).toEqual([...new Set(arrived)])
  expect(arrived).toEqual(names.filter(name => arrived.includes(name)))
  for (const [i, name] of names.entries()) {
    if (states[i] === 'accepted') expect(arrived).toContain(name)
  }
  // At most the one message in flight at each kill is in doubt.
  expect(states.filter(status => status === 'unknown').length).toBeLessThanOrEqual(kills)
  expect((await program.get('/outbox')).body).toEqual([])
  const kept = join(site.dir, 'media/outbox')
  // The last one goes a moment after its send; a kill in between leaves a file, which is swept an hour later.
  await until('the files are gone', 30_000, () => !existsSync(kept) || readdirSync(kept).length <= kills)
})
