import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { folderOfTest } from '../support/folder.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { pollLockNote, runSvc, until } from './support/program.ts'
import { openSite, pair, roleOf, type Site, type SiteOptions } from './support/upstream.ts'

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
/** svc in a process that has one of these modules loaded before. */
const preloaded = (name: string) => ({
  command: [process.execPath, '--preload', join(import.meta.dir, 'support', name), main],
})

/** A site whose processes must do without the kernel's flock. */
async function openFallbackSite(options: SiteOptions = {}): Promise<Site> {
  const site = await openSite(options)
  for (const name of ['.poll.lock', '.data.lock'])
    writeFileSync(join(site.dir, name), 'lockfile\n', { mode: 0o600 })
  return site
}
/** A poller whose event loop is blocked since it stored `before`, and a watcher; the user has written `meanwhile`. */
async function withBlocked(site: Site) {
  const { poller: blocked, watcher } = await pair(site, preloaded('blocks.ts'))
  await site.heard('before')
  process.kill(blocked.pid, 'SIGUSR2')
  await until('it is blocked', 30_000, () => blocked.log().includes('blocked\n'))
  await site.say('meanwhile')
  return { blocked, watcher }
}
/** Lets go on who is blocked. */
const wake = (site: Site) => writeFileSync(join(site.dir, 'go-on'), '')
const atOnce = (site: Site) => site.sandbox.pollsAtOnce[site.bot]
/** Polls that are over before anybody may take over: a sleeping process cannot hang up. */
const brief = { hold_ms: 2000, longpolling_timeout_ms: 2000 }

// Each waits for real seconds: side by side.
describe.concurrent('takeover', () => {
  for (const [kind, open, withinMs] of [
    ['flock', openSite, 3000],
    ['lockfile', openFallbackSite, 10_000],
  ] as const) {
    test(`by ${kind}, a poller killed with SIGKILL: a watcher polls within ${withinMs / 1000} s and nothing is lost or doubled`, async () => {
      await using site = await open()
      const { poller, watcher } = await pair(site)
      await site.heard('before')
      // Its next poll: what comes after it is not his.
      await site.asked('getupdates', 2)
      const polls = site.requests('getupdates')
      await poller.kill('SIGKILL')
      using watch = stopwatch()
      await site.say('meanwhile')
      await site.asked('getupdates', polls + 1)
      expect(watch.ms).toBeLessThan(withinMs)
      expect(await site.stored(2)).toEqual(['before', 'meanwhile'])
      expect(pollLockNote(site.dir)?.pid).toBe(watcher.pid)
      expect(readFileSync(join(site.dir, '.poll.lock'), 'utf8')).toStartWith(`${kind}\n`)
      expect(await roleOf(watcher)).toBe('poller')
      expect(atOnce(site)).toBe(1)
    })
  }

  test('with lock folders, a poller whose event loop is blocked loses the lock, and follows when it wakes: never two polls', async () => {
    await using site = await openFallbackSite({ switches: brief })
    const { blocked, watcher } = await withBlocked(site)
    expect(await site.stored(2)).toEqual(['before', 'meanwhile'])
    expect(await roleOf(watcher)).toBe('poller')
    wake(site)
    await until('it woke up and gave polling up', 30_000, async () => (await roleOf(blocked)) === 'watcher')
    const polls = site.requests('getupdates')
    await site.heard('after')
    await site.asked('getupdates', polls + 2)
    expect(site.texts()).toEqual(['before', 'meanwhile', 'after'])
    expect(await roleOf(watcher)).toBe('poller')
    expect(atOnce(site)).toBe(1)
  })

  test('with the kernel’s lock, a poller whose event loop is blocked keeps it, and goes on: nobody else polls', async () => {
    await using site = await openSite({ switches: brief })
    const { blocked, watcher } = await withBlocked(site)
    const note = pollLockNote(site.dir)
    expect(note?.pid).toBe(blocked.pid)
    // Longer than any takeover.
    await Bun.sleep(11_000)
    expect(site.texts()).toEqual(['before'])
    wake(site)
    await until('it answers again', 30_000, () => roleOf(blocked))
    expect(await site.stored(2)).toEqual(['before', 'meanwhile'])
    expect(await Promise.all([roleOf(blocked), roleOf(watcher)])).toEqual(['poller', 'watcher'])
    // Nobody took it meanwhile, not even for a moment.
    expect(pollLockNote(site.dir)).toEqual(note)
    expect(atOnce(site)).toBe(1)
  })

  test('a poller stopped (SIGSTOP) for longer than its poll may last loses nothing of an upstream that says it once', async () => {
    await using site = await openSite({ switches: { ...brief, replay: 'never' } })
    const poller = await site.start()
    await site.asked('getupdates', 2)
    // The hold and 8 s: its deadline passes while it sleeps.
    await until('a poll is held', 30_000, () => site.sandbox.world.core.stats.polls_now === 1)
    process.kill(poller.pid, 'SIGSTOP')
    await site.say('while it sleeps')
    await Bun.sleep(12_000)
    await site.say('when it wakes')
    process.kill(poller.pid, 'SIGCONT')
    expect(await site.stored(2)).toEqual(['while it sleeps', 'when it wakes'])
    expect(atOnce(site)).toBe(1)
  })

  test('a poll lock deleted by hand: who starts now polls, the other one notices within 2 s, and nothing is lost', async () => {
    await using site = await openSite()
    const poller = await site.start()
    await site.asked('getupdates', 1)
    await site.heard('before')
    unlinkSync(join(site.dir, '.poll.lock'))
    using watch = stopwatch()
    const other = site.launch()
    await until('the loss is noticed', 30_000, () => poller.log().includes(' WARNING polling: '))
    expect(watch.ms).toBeLessThan(2500)
    await other.ready
    await site.say('after')
    expect(await site.stored(2)).toEqual(['before', 'after'])
    await until('one polls and one follows', 30_000, async () => {
      const roles = await Promise.all([roleOf(poller), roleOf(other)])
      return roles.sort().join() === 'poller,watcher'
    })
    expect(existsSync(join(site.dir, '.poll.lock'))).toBe(true)
  })
})

describe('a directory whose lock kind this process cannot use', () => {
  for (const [what, recorded, options] of [
    ['flock, on a machine without it', 'flock', preloaded('windows.ts')],
    ['one of a later version', 'quantum', {}],
  ] as const) {
    test(`svc refuses to start, says why and what to do, and leaves it as it is: ${what}`, async () => {
      const dir = folderOfTest()
      for (const name of ['.poll.lock', '.data.lock'])
        writeFileSync(join(dir, name), `${recorded}\n`, { mode: 0o600 })
      await using program = runSvc(['openapi', '--no-banner', '--port', '0', '-d', dir], {
        ...('command' in options && { command: [...options.command] }),
      })
      expect(await program.exited).toBe(1)
      expect(program.url).toBe('')
      expect(program.log()).toStartWith('error: ')
      for (const named of ['.lock', `"${recorded}"`]) expect(program.log()).toContain(named)
      for (const name of ['.poll.lock', '.data.lock'])
        expect(readFileSync(join(dir, name), 'utf8')).toBe(`${recorded}\n`)
    })
  }
})
