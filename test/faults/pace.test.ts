/** Several processes on one directory send to one user: upstream sees one pace. */
import { describe, expect, test } from 'bun:test'
import { openSite, type Site } from './support/upstream.ts'

/** When upstream took each message of the bot, Unix ms, oldest first. */
const arrivals = async (site: Site) =>
  (await site.sandbox.messages({ from: 'bot', limit: 1000 })).map(({ at }) => at).sort((a, b) => a - b)

describe('the pace of several processes', () => {
  test('two that send to one user at once keep one send per second together, and upstream refuses none', async () => {
    await using site = await openSite({ switches: { burst: 'on' } })
    const both = [
      await site.start({ args: paced('1/s,10/5m') }),
      await site.start({ args: paced('1/s,10/5m') }),
    ]
    await site.heard('hi')
    const began = Date.now()
    const answers = await Promise.all(
      both.flatMap((program, p) =>
        [0, 1].map(n => program.call('send', { to: site.user, text: `${p}.${n}` })),
      ),
    )
    expect(answers.map(({ body }) => body.status)).toEqual(Array(4).fill('accepted'))
    const times = await arrivals(site)
    expect(times).toHaveLength(4)
    // Alone each would have been done after one second. What holds up a request on its way shortens what is between two.
    expect(times[3]! - began).toBeGreaterThan(2500)
  })

  test('commands of one send each, in a shell loop or all at once, keep one send per second', async () => {
    await using site = await openSite({ switches: { burst: 'on' } })
    const service = await site.start()
    await site.heard('hi')
    await service.kill('SIGTERM')
    const send = (text: string) => site.once('send', site.user, text, '--pace', '1/s,10/5m')
    const began = Date.now()
    const results = [await send('1'), await send('2'), ...(await Promise.all([send('3'), send('4')]))]
    expect(results.map(({ status }) => status)).toEqual(Array(4).fill('accepted'))
    const times = await arrivals(site)
    expect(times).toHaveLength(4)
    expect(times[3]! - began).toBeGreaterThan(2500)
  })

  test('what one has sent counts against the ten in five minutes of the other, and after a restart too', async () => {
    await using site = await openSite()
    const [a, b] = [
      await site.start({ args: paced('100/s,4/5m') }),
      await site.start({ args: paced('100/s,4/5m') }),
    ]
    await site.heard('hi')
    for (const program of [a, b, a, b]) {
      const { body } = await program.call('send', { to: site.user, text: 'x' })
      expect(body.status).toBe('accepted')
    }
    await a.kill('SIGKILL')
    const again = await site.start({ args: paced('100/s,4/5m') })
    for (const program of [b, again]) {
      const { body } = await program.call('send', { to: site.user, text: 'one too many' })
      expect(body.code).toBe('rate_limited')
      expect(body.retry_after).toBeGreaterThan(240)
    }
    expect(await arrivals(site)).toHaveLength(4)
  })
})

const paced = (pace: string) => ['--pace', pace]
