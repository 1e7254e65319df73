import { describe, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { openLock } from '../../src/platform/lock.ts'
import { given } from '../support/given.ts'
import { hosted } from './support/hosted.ts'
import { cursorsIn, usedIn } from './support/log-file.ts'
import { bindOver, canMount } from './support/mounts.ts'
import { until } from './support/program.ts'
import { openSite, type Site, sentRows } from './support/upstream.ts'

const it = given(openSite)

const usedOf = (site: Site): number => usedIn(site.dir, site.user)
const cursorOf = (site: Site) => cursorsIn(site.dir).get(site.bot)
const seenTexts = async (site: Site) =>
  (await site.sandbox.messages({ from: 'bot', limit: 1000 })).map(message => message.items[0]?.text)

describe('a poller killed', () => {
  it('after the messages are stored, before context tokens and cursor: all three are there once after a restart', async site => {
    const first = await site.start()
    await site.heard('zero')
    const before = await until('the cursor moves', 30_000, () => cursorOf(site) || undefined)
    const lock = await openLock(join(site.dir, '.data.lock'))
    await lock.lock()
    await site.heard('one')
    // It waits for the data lock now.
    expect(cursorOf(site)).toBe(before)
    await first.kill('SIGKILL')
    await lock.close()
    expect(cursorOf(site)).toBe(before)
    await using second = await hosted(site)
    await until('the cursor moves', 30_000, () => cursorOf(site)! > before)
    await site.say('two')
    expect(await site.stored(3)).toEqual(['zero', 'one', 'two'])
    await until('the context is there', 30_000, () => usedOf(site) === 0)
    const answer = await second.call('send', { to: site.user, text: 'hello' })
    expect(answer.body).toMatchObject({ status: 'accepted', remaining: 9 })
  })

  test.skipIf(!canMount)(
    'between context tokens and cursor: the batch comes again and changes nothing (skipped where mounting is forbidden)',
    async () => {
      await using site = await openSite()
      const first = await site.start()
      await site.heard('zero')
      const before = await until('the cursor moves', 30_000, () => cursorOf(site) || undefined)
      // A file that something is mounted on cannot be replaced: contexts.json is written, token.json is not.
      const undo = bindOver(join(site.dir, 's/token.json'))
      try {
        const sent = await first.call('send', { to: site.user, text: 'uses one' })
        expect(sent.body.remaining).toBe(9)
        await site.heard('one')
        await until('contexts.json is ahead', 30_000, () => usedOf(site) === 0)
        expect(cursorOf(site)).toBe(before)
        // Now it stands between the two; and the disk's trouble was told.
        await until('it is told', 30_000, () => first.log().includes('batch not committed'))
        await first.kill('SIGKILL')
      } finally {
        undo()
      }
      await using _second = await hosted(site)
      await until('the cursor moves', 30_000, () => cursorOf(site)! > before)
      await site.say('two')
      expect(await site.stored(3)).toEqual(['zero', 'one', 'two'])
    },
  )

  it('with a batch on its way from upstream: it comes again', async site => {
    const first = await site.start()
    await site.asked('getupdates', 1)
    await site.sandbox.fail('getupdates', 'hang', { after: true })
    await site.heard('zero')
    await site.say('one')
    await site.asked('getupdates', 2)
    await first.kill('SIGKILL')
    await using _second = await hosted(site)
    expect(await site.stored(2)).toEqual(['zero', 'one'])
  })
})

describe('a service killed in the middle of a send', () => {
  for (const reached of [true, false]) {
    const what = reached ? 'that had reached the user' : 'that had not arrived'
    it(`${what}: it ends as unknown, is not sent again, and costs one unit of quota at most`, async site => {
      const first = await site.start()
      await site.heard('hi')
      await until('the context is there', 30_000, () =>
        first.call('sessions').then(({ body }) => body[0].user_count),
      )
      await site.sandbox.fail('sendmessage', 'hang', { after: reached })
      const broken = first.call('send', { to: site.user, text: 'once' }).catch(() => 'broken')
      await site.asked('sendmessage', 1)
      await until('upstream has it', 30_000, async () => !reached || (await seenTexts(site)).length === 1)
      await first.kill('SIGKILL')
      expect(await broken).toBe('broken')
      expect(sentRows(site)).toEqual([{ text: 'once', status: 'sending' }])

      await using second = await hosted(site)
      await until('it is settled', 30_000, () => sentRows(site)[0]?.status === 'unknown')
      const { body } = await second.call('history', { direction: 'sent' })
      expect(body.messages).toMatchObject([{ text: 'once', status: 'unknown' }])
      expect(usedOf(site)).toBe(1)
      expect((await second.call('send', { to: site.user, text: 'next' })).body).toMatchObject({
        remaining: 8,
      })
      expect(await seenTexts(site)).toEqual(reached ? ['once', 'next'] : ['next'])
      expect(site.requests('sendmessage')).toBe(2)
    })
  }

  it('of several parts: the parts before it stay accepted, it is unknown, the ones after it were never sent', async site => {
    const first = await site.start()
    await site.heard('hi')
    const part = (letter: string) => letter.repeat(16_000)
    const text = ['a', 'b', 'c'].map(part).join('\n\n')
    await site.sandbox.fail('sendmessage', 'slow', { delay_ms: 1 })
    await site.sandbox.fail('sendmessage', 'hang')
    const broken = first.call('send', { to: site.user, text }).catch(() => 'broken')
    await site.asked('sendmessage', 2)
    await first.kill('SIGKILL')
    expect(await broken).toBe('broken')
    await using _second = await hosted(site)
    await until('it is settled', 30_000, () => sentRows(site)[1]?.status === 'unknown')
    expect(sentRows(site).map(row => [row.text[0], row.status])).toEqual([
      ['a', 'accepted'],
      ['b', 'unknown'],
    ])
    expect((await seenTexts(site)).map(seen => seen?.[0])).toEqual(['a'])
    expect(usedOf(site)).toBe(2)
    await site.say('again')
    await until('the quota is fresh', 30_000, () => usedOf(site) === 0)
  })

  it('during the upload: nothing was sent, no row claims so, and the same key sends', async site => {
    const first = await site.start()
    await site.heard('hi')
    await site.sandbox.fail('upload', 'hang')
    const data = Buffer.alloc(2_000_000, 7).toString('base64')
    const input = { to: site.user, media: [{ kind: 'file', data, file_name: 'a.bin' }], idempotency_key: 'k' }
    const broken = first.call('send', input).catch(() => 'broken')
    // Past the address, in the upload itself: the fault has struck, and does not wait for the next send.
    await site.asked('upload', 1)
    await first.kill('SIGKILL')
    expect(await broken).toBe('broken')
    expect(sentRows(site)).toEqual([])
    await using second = await hosted(site)
    expect((await second.call('send', input)).body).toMatchObject({ status: 'accepted', remaining: 9 })
    expect((await site.sandbox.messages({ from: 'bot' })).length).toBe(1)
    // What the dead one left of the file is swept away later; it lies in the media root's own folder, not among the user's.
    expect(readdirSync(site.dir).filter(name => name.endsWith('.tmp'))).toEqual([])
  })
})
