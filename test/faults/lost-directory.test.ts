/** The data directory taken away under a running service, and what dead writers leave in it. */
import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { testClock } from '../support/clock.ts'
import { hosted } from './support/hosted.ts'
import { cursorsIn } from './support/log-file.ts'
import { until } from './support/program.ts'
import { openSite, roleOf, type Site } from './support/upstream.ts'

const calls = (site: Site) =>
  [
    ['sessions', {}],
    ['recv', { timeout: 0 }],
    ['recv', { timeout: 30 }],
    ['recv', { timeout: 0, session: 's' }],
    ['history', {}],
    ['download', { message_id: '1' }],
    ['send', { to: site.user, text: 'x' }],
    ['send', { to: site.user, text: 'x', when_closed: 'queue' }],
    ['send', { to: site.user, media: [{ kind: 'file', data: 'eHh4', file_name: 'a' }] }],
    ['login', { session_name: 'new', timeout: 0 }],
    ['logout', { session_name: 's' }],
    ['rename_session', { old_name: 's', new_name: 't' }],
    ['set_default', { session_name: 's' }],
  ] as const

/** That the poll lock cannot be tried. */
const untried = ' ERROR polling: '

describe('the data directory', () => {
  for (const how of ['deleted', 'moved away'] as const) {
    test(`${how} while running: every call that needs it says store_unavailable and what to do, nothing is put in its place, no message is taken`, async () => {
      await using site = await openSite()
      await using service = await hosted(site, { clock: testClock({ runs: false }) })
      await site.heard('one')
      await until('the cursor moves', 30_000, () => cursorsIn(site.dir).get(site.bot) || undefined)
      await until('it is polled', 30_000, () => site.sandbox.world.core.stats.polls_now > 0)
      const aside = `${site.dir}-aside`
      await service.call('recv', { timeout: 0 })
      const waiting = service.call('recv', { timeout: 60 })
      // Asked for after it, and answered: the one before waits.
      await service.call('recv', { timeout: 0, consumer: 'beside' })
      expect(Bun.peek.status(waiting)).toBe('pending')
      try {
        if (how === 'deleted') rmSync(site.dir, { recursive: true })
        else renameSync(site.dir, aside)
        const { hurry } = service.gateway
        // Nobody writes meanwhile.
        await service.gateway.pass(4000)
        expect(await waiting).toMatchObject({ status: 503, body: { code: 'store_unavailable' } })
        await site.say('two')
        await hurry(until('it is told', 30_000, () => service.log().includes('removed or replaced')))
        expect(await service.get('/healthz')).toMatchObject({
          status: 503,
          body: {
            ...{ status: 'degraded', store: 'unavailable' },
            trouble: {
              message: expect.stringMatching(/removed|cannot be read/),
              hint: expect.stringMatching(/[Rr]estart svc/),
            },
          },
        })
        expect(JSON.stringify(await service.get('/healthz'))).not.toContain(site.dir)
        for (const [tool, input] of calls(site)) {
          const { status, body } = await service.call(tool, input)
          expect({ tool, status, code: body.code }).toEqual({ tool, status: 503, code: 'store_unavailable' })
          expect(body.hint).toBeString()
        }
        expect((await fetch(`${service.url}/outbox`)).status).toBe(503)
        const upload = await fetch(`${service.url}/media?file_name=a`, { method: 'POST', body: 'xxx' })
        expect(upload.status).toBe(503)
        expect(site.requests('sendmessage')).toBe(0)
        expect(existsSync(site.dir)).toBe(false)
        expect(service.log()).not.toContain('unexpected error')
        await service.stop()
        if (how === 'moved away') {
          // Put back and started again, as the hint says: nothing is lost.
          renameSync(aside, site.dir)
          await using _again = await hosted(site)
          expect(await site.stored(2)).toEqual(['one', 'two'])
        }
      } finally {
        rmSync(aside, { recursive: true, force: true })
      }
    })
  }

  test('moved away and put back while running: it goes on by itself, and the log says each once', async () => {
    await using site = await openSite()
    await using service = await hosted(site)
    await site.heard('one')
    const aside = `${site.dir}-aside`
    try {
      renameSync(site.dir, aside)
      const historyIs = (status: number) => async () => (await service.call('history')).status === status
      const { hurry } = service.gateway
      await hurry(until('the lock is tried', 30_000, () => service.log().includes(untried)))
      await hurry(until('reading fails', 30_000, historyIs(503)))
      renameSync(aside, site.dir)
      await hurry(until('it polls again', 30_000, async () => (await roleOf(service)) === 'poller'))
      await site.say('two')
      expect(await hurry(site.stored(2))).toEqual(['one', 'two'])
      await hurry(until('reading works', 30_000, historyIs(200)))
      expect((await service.get('/healthz')).body).not.toHaveProperty('trouble')
      const times = (start: string) => service.log().split(start).length - 1
      expect(times(untried)).toBe(1)
      // That it can be tried again, and that it was won.
      expect(times(' INFO polling: ')).toBe(2)
    } finally {
      rmSync(aside, { recursive: true, force: true })
    }
  })

  test('with half-written files of dead writers: old ones go at the start, a new one stays', async () => {
    await using site = await openSite()
    const old = new Date(Date.now() - 2 * 60 * 60_000)
    for (const [name, at] of [
      ['token.json.0123456789ab.tmp', old],
      ['contexts.json.0123456789ab.tmp', old],
      ['token.json.ba9876543210.tmp', new Date()],
    ] as const) {
      writeFileSync(join(site.dir, 's', name), '{"token":"secret"', { mode: 0o600 })
      utimesSync(join(site.dir, 's', name), at, at)
    }
    await using service = await hosted(site)
    await until('they are gone', 30_000, () => / INFO .* files=2$/m.test(service.log()))
    const left = readdirSync(join(site.dir, 's')).filter(name => name.endsWith('.tmp'))
    expect(left).toEqual(['token.json.ba9876543210.tmp'])
  })
})
