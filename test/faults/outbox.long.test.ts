import { expect, test } from 'bun:test'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { stopwatch } from '../support/stopwatch.ts'
import { until } from './support/program.ts'
import { fileNamed as file, openSite, queue, arrived as seen, sentRows } from './support/upstream.ts'

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
