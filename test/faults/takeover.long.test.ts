/** What a watcher does when its poller is killed or stopped; killed alone: takeover-locks, with either kind of lock. */
import { expect } from 'bun:test'
import { given } from '../support/given.ts'
import { pollLockNote, until } from './support/program.ts'
import { openSite, pair, roleOf } from './support/upstream.ts'

const it = given(openSite)

it('many pollers killed one after the other: each is followed within 3 s, never by two', async site => {
  const programs = [await site.start(), await site.start(), await site.start()]
  for (let n = 0; programs.length > 0; n++) {
    await site.say(`m${n}`)
    await site.stored(n + 1)
    const { pid } = pollLockNote(site.dir)!
    const index = programs.findIndex(program => program.pid === pid)
    expect(index).not.toBe(-1)
    const [poller] = programs.splice(index, 1)
    await poller!.kill('SIGKILL')
    if (programs.length === 0) break
    await until('somebody polls', 3000, () => pollLockNote(site.dir)?.pid !== pid)
  }
  expect(site.texts()).toEqual(['m0', 'm1', 'm2'])
  expect(site.sandbox.pollsAtOnce[site.bot]).toBe(1)
})

it('a stopped poller (SIGSTOP) keeps its lock: watchers do not poll, they still read and send, and nothing doubles when it wakes', async site => {
  const { poller, watcher } = await pair(site)
  await site.heard('before')
  await site.asked('getupdates', 2)
  process.kill(poller.pid, 'SIGSTOP')
  const polls = site.requests('getupdates')
  await site.say('while it sleeps 1', 'while it sleeps 2')
  // Longer than any takeover.
  await Bun.sleep(4000)
  expect(await roleOf(watcher)).toBe('watcher')
  expect(site.requests('getupdates')).toBe(polls)
  expect((await watcher.call('recv', { timeout: 0 })).body.map((m: { text: string }) => m.text)).toEqual([
    'before',
  ])
  expect((await watcher.call('send', { to: site.user, text: 'still here' })).body).toMatchObject({
    success: true,
  })
  process.kill(poller.pid, 'SIGCONT')
  await site.say('after')
  expect(await site.stored(4)).toEqual(['before', 'while it sleeps 1', 'while it sleeps 2', 'after'])
  expect(await roleOf(poller)).toBe('poller')
  expect(await roleOf(watcher)).toBe('watcher')
  expect(site.sandbox.pollsAtOnce[site.bot]).toBe(1)
})

it('a watcher reports a stalled poller, and that it works again', async site => {
  const { poller, watcher } = await pair(site)
  const health = async () => (await watcher.get('/healthz')).body
  expect(await health()).toMatchObject({ status: 'ok', stalled: false })
  process.kill(poller.pid, 'SIGSTOP')
  await until('it is told', 30_000, async () => (await health()).stalled)
  expect(await health()).toMatchObject({ status: 'degraded', role: 'watcher' })
  await until('its log warns', 30_000, () => watcher.log().includes(' WARNING polling: '))
  process.kill(poller.pid, 'SIGCONT')
  await until('it is well again', 30_000, async () => !(await health()).stalled)
  expect(await health()).toMatchObject({ status: 'ok', role: 'watcher' })
})

it('a poller stopped in the middle of storing a batch: watchers get an error, not a wrong answer, and all is well when it wakes', async site => {
  const { poller, watcher } = await pair(site)
  // Stopped at random moments of a busy minute: now and then it holds the data lock or the store's write lock.
  for (let n = 0; n < 8; n++) {
    await Promise.all(Array.from({ length: 10 }, (_, i) => site.say(`m${n}-${i}`)))
    await Bun.sleep(n * 3)
    process.kill(poller.pid, 'SIGSTOP')
    const [sent, read] = await Promise.all([
      watcher.call('send', { to: site.user, text: `answer ${n}` }),
      watcher.call('recv', { timeout: 0, consumer: 'w' }),
    ])
    // The store waits 2 s for a writer, the data lock 10 s.
    for (const { status, body } of [sent, read]) {
      if (status !== 200) expect(body.code).toBe('store_unavailable')
    }
    process.kill(poller.pid, 'SIGCONT')
  }
  const texts = await site.stored(80)
  expect(new Set(texts).size).toBe(80)
  expect(texts.length).toBe(80)
  expect(site.sandbox.pollsAtOnce[site.bot]).toBe(1)
  const seen = (await site.sandbox.messages({ from: 'bot', limit: 1000 })).map(
    message => message.items[0]?.text,
  )
  expect(new Set(seen).size).toBe(seen.length)
}, 300_000)
