/** Several services on one directory send to one user: upstream sees one pace. Each has locks and memory of its own. */
import { describe, expect, test } from 'bun:test'
import { configFromValues } from '../../src/config.ts'
import { openGateway } from '../../src/gateway/gateway.ts'
import { createDirectCall } from '../../src/model/call.ts'
import { silentLog } from '../../src/platform/log.ts'
import { type TestClock, testClock } from '../support/clock.ts'
import { hosted } from './support/hosted.ts'
import { openSite, type Site } from './support/upstream.ts'

const onePerSecond = { perSecond: 1, perWindow: 10, windowMs: 300_000 }
const fourPerWindow = { perSecond: 100, perWindow: 4, windowMs: 300_000 }

/** A site and services whose time passes only as they wait for it. */
async function timed(switches: { burst?: 'on' } = {}) {
  const clock = testClock({ runs: false })
  return { clock, site: await openSite({ switches, clock }) }
}

/** When upstream took each message of the bot, oldest first. */
const arrivals = async (site: Site) =>
  (await site.sandbox.messages({ from: 'bot', limit: 1000 })).map(({ at }) => at).sort((a, b) => a - b)

/** As a command sends: from a gateway that neither polls nor outlives it. */
async function sendOnce(site: Site, clock: TestClock, text: string) {
  await using gateway = await openGateway({
    config: { ...configFromValues({ basePath: site.dir }), pace: onePerSecond },
    log: silentLog,
    version: '0',
    sandboxUrl: site.sandbox.url,
    clock,
    oneShot: true,
  })
  return await gateway.sender.send({ to: site.user, text, media: [] }, createDirectCall())
}

describe('the pace of several services', () => {
  test('two that send to one user at once keep one send per second together, and upstream refuses none', async () => {
    const { clock, site } = await timed({ burst: 'on' })
    await using _site = site
    const config = { pace: onePerSecond }
    await using a = await hosted(site, { clock, config })
    await using b = await hosted(site, { clock, config })
    await site.heard('hi')
    const sends = [a, b].flatMap((service, which) =>
      [0, 1].map(nth => service.call('send', { to: site.user, text: `${which}.${nth}` })),
    )
    const answers = await a.gateway.hurry(Promise.all(sends))
    expect(answers.map(({ body }) => body.status)).toEqual(Array(4).fill('accepted'))
    expectSecondsApart(await arrivals(site))
  })

  test('commands of one send each, in a shell loop or all at once, keep one send per second', async () => {
    const { clock, site } = await timed({ burst: 'on' })
    await using _site = site
    const service = await hosted(site, { clock })
    await site.heard('hi')
    await service.stop()
    const { hurry } = service.gateway
    const send = (text: string) => sendOnce(site, clock, text)
    const results = [
      await hurry(send('1')),
      await hurry(send('2')),
      ...(await hurry(Promise.all([send('3'), send('4')]))),
    ]
    expect(results.map(({ status }) => status)).toEqual(Array(4).fill('accepted'))
    expectSecondsApart(await arrivals(site))
  })

  test('what one has sent counts against the ten in five minutes of the other, and of one that starts later', async () => {
    const { clock, site } = await timed()
    await using _site = site
    const config = { pace: fourPerWindow }
    await using a = await hosted(site, { clock, config })
    await using b = await hosted(site, { clock, config })
    await site.heard('hi')
    const { hurry } = a.gateway
    for (const service of [a, b, a, b]) {
      const { body } = await hurry(service.call('send', { to: site.user, text: 'x' }))
      expect(body.status).toBe('accepted')
    }
    // None has ended, so what this one knows was written as it was sent.
    await using again = await hosted(site, { clock, config })
    for (const service of [b, again]) {
      const { body } = await service.call('send', { to: site.user, text: 'one too many' })
      expect(body.code).toBe('rate_limited')
      expect(body.retry_after).toBeGreaterThan(240)
    }
    expect(await arrivals(site)).toHaveLength(4)
  })
})

/** What holds up a request on its way shortens what is between two, by a step of the clock or some. */
function expectSecondsApart(times: readonly number[]): void {
  expect(times).toHaveLength(4)
  expect(times[3]! - times[0]!).toBeGreaterThan(2500)
}
