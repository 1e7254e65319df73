/** What is changed in one service is taken up by the others within 2 s: several on one directory, none knows of another. */
import { describe, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { openLock } from '../../src/platform/lock.ts'
import { testClock } from '../support/clock.ts'
import type { Json } from '../support/service.ts'
import { type Hosted, hosted } from './support/hosted.ts'
import { until } from './support/program.ts'
import { openSite, roleOf, type Site } from './support/upstream.ts'

/** The poller and the watcher, to be had in either order. Their time passes only as a test lets it pass. */
async function twoOf(site: Site) {
  const clock = testClock({ runs: false })
  const both = [await hosted(site, { clock }), await hosted(site, { clock })] as const
  expect([await roleOf(both[0]), await roleOf(both[1])]).toEqual(['poller', 'watcher'])
  return {
    both,
    async [Symbol.asyncDispose]() {
      for (const one of both) await one.stop()
    },
  }
}

const names = async (service: Hosted): Promise<string> => {
  const { body } = await service.call('sessions')
  return body.map((one: Json) => `${one.name}${one.is_default ? '*' : ''}`).join(' ')
}
const pollsNow = (site: Site) => site.sandbox.world.core.stats.polls_now

/** The time within which all is taken up. */
const soon = (service: Hosted) => service.gateway.pass(2000)

for (const [where, at] of [
  ['the poller', 0],
  ['a watcher', 1],
] as const) {
  describe(`done in ${where}`, () => {
    test('rename and set_default show in the other process within 2 s, and messages come under the new name', async () => {
      await using site = await openSite()
      const user = await site.sandbox.addUser('Other')
      const bot = site.sandbox.bot(user)
      await site.connect('other', bot)
      await using services = await twoOf(site)
      const [here, there] = [services.both[at]!, services.both[1 - at]!]
      await here.gateway.hurry(until('both are polled', 30_000, () => pollsNow(site) === 2))
      await here.call('set_default', { session_name: 'other' })
      await soon(there)
      await until('the default', 30_000, async () => (await names(there)) === 'other* s')
      await here.call('rename_session', { old_name: 'other', new_name: 'work' })
      await soon(there)
      await until('the name', 30_000, async () => (await names(there)) === 'work* s')
      await site.sandbox.say('to the new name', { from: user, to: bot.bot_id })
      const { body } = await there.call('recv', { timeout: 30, session: 'work' })
      expect(body).toMatchObject([{ text: 'to the new name', session: 'work' }])
      expect(site.sandbox.pollsAtOnce[bot.bot_id]).toBe(1)
    })

    test('a login is polled within 2 s, a logout ends the poll within 2 s', async () => {
      await using site = await openSite()
      await using services = await twoOf(site)
      const [here, there] = [services.both[at]!, services.both[1 - at]!]
      await until('polled', 30_000, () => pollsNow(site) === 1)
      const user = await site.sandbox.addUser('New')
      const { qr_url } = (await here.call('login', { session_name: 'new' })).body
      await site.sandbox.scan({ qrcode: qr_url, user, confirm: true })
      await here.gateway.hurry(
        until('confirmed', 30_000, async () => {
          const { body } = await here.call('login', { session_name: 'new', timeout: 5 })
          return body.status === 'confirmed'
        }),
      )
      await soon(there)
      await until('polled', 30_000, () => pollsNow(site) === 2)
      await until('it shows', 30_000, async () => (await names(there)) === 's* new')
      await here.call('logout', { session_name: 'new' })
      await soon(there)
      await until('the poll ended', 30_000, () => pollsNow(site) === 1)
      await until('it is gone', 30_000, async () => (await names(there)) === 's*')
    })

    test('a logout during a long poll, and while a batch is being committed, never brings the credentials back', async () => {
      await using site = await openSite()
      await using services = await twoOf(site)
      const [here, poller] = [services.both[at]!, services.both[0]]
      await until('polled', 30_000, () => pollsNow(site) === 1)
      // The batch is stored; its cursor and context tokens wait for the lock, and the logout for its turn behind them.
      const lock = await openLock(join(site.dir, '.data.lock'))
      await lock.lock()
      await site.heard('in hand')
      const out = here.call('logout', { session_name: 's' })
      await lock.close()
      expect((await here.gateway.hurry(out)).body).toEqual({ success: true, session: 's' })
      expect(existsSync(join(site.dir, 's'))).toBe(false)
      await site.say('too late')
      await poller.gateway.hurry(until('nobody polls', 30_000, () => pollsNow(site) === 0))
      // Looks of the poller later it is still so.
      await poller.gateway.pass(2500)
      expect(existsSync(join(site.dir, 's'))).toBe(false)
      expect((await poller.call('sessions')).body).toEqual([])
      const { body } = await poller.call('send', { to: site.user, text: 'x' })
      expect(body.code).toBe('not_connected')
    })
  })
}
