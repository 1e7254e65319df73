/** What is changed in one process is taken up by the others within 2 s: real processes on one directory. */
import { describe, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { openLock } from '../../src/platform/lock.ts'
import type { Json } from '../support/service.ts'
import { stopwatchOf } from '../support/stopwatch.ts'
import { type Program, until } from './support/program.ts'
import { openSite, roleOf, type Site } from './support/upstream.ts'

const takenUpMs = 2000

/** The poller and the watcher, to be had in either order. */
async function twoOf(site: Site): Promise<Program[]> {
  const programs = [await site.start(), await site.start()]
  expect([await roleOf(programs[0]!), await roleOf(programs[1]!)]).toEqual(['poller', 'watcher'])
  return programs
}

const names = async (program: Program): Promise<string> => {
  const { body } = await program.call('sessions')
  return body.map((one: Json) => `${one.name}${one.is_default ? '*' : ''}`).join(' ')
}
const pollsNow = (site: Site) => site.sandbox.world.core.stats.polls_now

/** Waits until it holds, and says after how many ms of these programs. */
async function soon(
  what: string,
  programs: readonly Program[],
  look: () => boolean | Promise<boolean>,
): Promise<number> {
  await using watch = stopwatchOf(() => Promise.all(programs.map(roleOf)))
  await until(what, 30_000, look)
  return watch.ms
}

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
      const programs = await twoOf(site)
      const [here, there] = [programs[at]!, programs[1 - at]!]
      await until('both are polled', 30_000, () => pollsNow(site) === 2)
      await here.call('set_default', { session_name: 'other' })
      expect(
        await soon('the default', programs, async () => (await names(there)) === 'other* s'),
      ).toBeLessThan(takenUpMs)
      await here.call('rename_session', { old_name: 'other', new_name: 'work' })
      expect(await soon('the name', programs, async () => (await names(there)) === 'work* s')).toBeLessThan(
        takenUpMs,
      )
      await using watch = stopwatchOf(() => Promise.all(programs.map(roleOf)))
      await site.sandbox.say('to the new name', { from: user, to: bot.bot_id })
      const { body } = await there.call('recv', { timeout: 10, session: 'work' })
      expect(body).toMatchObject([{ text: 'to the new name', session: 'work' }])
      expect(watch.ms).toBeLessThan(takenUpMs)
      expect(site.sandbox.pollsAtOnce[bot.bot_id]).toBe(1)
    })

    test('a login is polled within 2 s, a logout ends the poll within 2 s', async () => {
      await using site = await openSite()
      const programs = await twoOf(site)
      const [here, there] = [programs[at]!, programs[1 - at]!]
      await until('polled', 30_000, () => pollsNow(site) === 1)
      const user = await site.sandbox.addUser('New')
      const { qr_url } = (await here.call('login', { session_name: 'new' })).body
      await site.sandbox.scan({ qrcode: qr_url, user, confirm: true })
      await until('confirmed', 30_000, async () => {
        const { body } = await here.call('login', { session_name: 'new', timeout: 5 })
        return body.status === 'confirmed'
      })
      const polled = soon('polled', programs, () => pollsNow(site) === 2)
      expect(await soon('it shows', programs, async () => (await names(there)) === 's* new')).toBeLessThan(
        takenUpMs,
      )
      expect(await polled).toBeLessThan(takenUpMs)
      await here.call('logout', { session_name: 'new' })
      const ended = soon('the poll ended', programs, () => pollsNow(site) === 1)
      expect(await soon('it is gone', programs, async () => (await names(there)) === 's*')).toBeLessThan(
        takenUpMs,
      )
      expect(await ended).toBeLessThan(takenUpMs)
    })

    test('a logout during a long poll, and while a batch is being committed, never brings the credentials back', async () => {
      await using site = await openSite()
      const programs = await twoOf(site)
      const [here, poller] = [programs[at]!, programs[0]!]
      await until('polled', 30_000, () => pollsNow(site) === 1)
      // The batch is stored; its cursor and context tokens wait for the lock, and the logout for its turn behind them.
      const lock = await openLock(join(site.dir, '.data.lock'))
      await lock.lock()
      await site.heard('in hand')
      const out = here.call('logout', { session_name: 's' })
      await lock.close()
      expect((await out).body).toEqual({ success: true, session: 's' })
      expect(existsSync(join(site.dir, 's'))).toBe(false)
      await site.say('too late')
      await until('nobody polls', 30_000, () => pollsNow(site) === 0)
      // A look of the poller later it is still so.
      await Bun.sleep(1500)
      expect(existsSync(join(site.dir, 's'))).toBe(false)
      expect((await poller.call('sessions')).body).toEqual([])
      const { body } = await poller.call('send', { to: site.user, text: 'x' })
      expect(body.code).toBe('not_connected')
    })
  })
}
