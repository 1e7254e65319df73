/** What every engine must do for webhook endpoints (`src/storage/webhooks.ts`). */
import { expect } from 'bun:test'
import type { WebhookProgress, WebhookTry } from '../../src/storage/webhooks.ts'
import { maxTries } from '../../src/storage/webhooks.ts'
import { onEach } from './engines.ts'
import { webhook as endpoint, rename } from './support.ts'

const went = (more: Partial<WebhookProgress> = {}): WebhookProgress => ({
  epoch: 0,
  position: 'at-8',
  lanes: [],
  ended: [],
  tries: [],
  health: {},
  ...more,
})
const tried = (event: string, more: Partial<WebhookTry> = {}): WebhookTry => ({
  at: 5,
  event,
  type: 'message.received',
  outcome: 'done',
  status: 200,
  took_ms: 3,
  ...more,
})

onEach(
  it => {
    it('endpoints are stored as added, survive a restart, and are removed with all their data', async t => {
      const full = endpoint('a', {
        types: ['message.received'],
        session: 'work',
        user: 'u@im.wechat',
        headers: { 'X-Key': 'hush' },
        allow_private: true,
        replies: true,
      })
      await t.store.webhooks.add(full)
      await t.store.webhooks.add(endpoint('b', { created_at: 2 }))
      await t.reopen()
      const found = await t.store.webhooks.list()
      expect(found.map(({ id }) => id)).toEqual(['a', 'b'])
      expect(await t.store.webhooks.get('a')).toEqual(found[0]!)
      expect(await t.store.webhooks.get('c')).toBeUndefined()
      expect(found[0]).toEqual({
        ...full,
        paused: false,
        epoch: 0,
        tries: { done: 0, failed: 0, gave_up: 0 },
      })
      await t.store.webhooks.progress.save(
        'a',
        went({ tries: [tried('e')], lanes: [{ session: 's', user: 'c', position: 'at-7' }] }),
      )
      expect(await t.store.webhooks.remove('a')).toBe(true)
      expect(await t.store.webhooks.remove('a')).toBe(false)
      expect(await t.store.webhooks.progress.listTries('a', 10)).toEqual([])
      expect(await t.store.webhooks.progress.listLanes('a')).toEqual([])
      expect(await t.store.webhooks.progress.save('a', went())).toBe(false)
    })

    it('a change changes what it names, and takes away what it names as undefined', async t => {
      const { webhooks } = t.store
      await webhooks.add(endpoint('a'))
      expect(await webhooks.change('none', { paused: true })).toBe(false)
      const secrets = [{ secret: 'whsec_BB==' }, { secret: 'whsec_AA==', until: 9 }]
      await webhooks.change('a', {
        paused: true,
        disabled: { reason: 'gone', at: 5 },
        rotation: { secret: 'whsec_BB==', until: 9 },
      })
      expect((await webhooks.list())[0]).toMatchObject({
        paused: true,
        disabled: { reason: 'gone', at: 5 },
        secrets,
      })
      await webhooks.change('a', { paused: false, disabled: undefined })
      const [now] = await webhooks.list()
      expect(now?.disabled).toBeUndefined()
      expect(now).toMatchObject({ paused: false, secrets })
    })

    it('a subscription that may reach other addresses is in another epoch', async t => {
      const { webhooks } = t.store
      await webhooks.add({ ...endpoint('a'), subscription: { words: ['w'] }, expires_at: 9 })
      const reach = { allow_private: true, subscription: { words: ['w'], ca: 'PEM' } }
      await webhooks.change('a', { expires_at: 10 })
      expect(await webhooks.get('a')).toMatchObject({ epoch: 0, allow_private: false, expires_at: 10 })
      await webhooks.change('a', reach)
      expect(await webhooks.get('a')).toMatchObject({ epoch: 1, ...reach })
    })

    it('resumed without a failure, it stays in its epoch', async t => {
      const { webhooks } = t.store
      await webhooks.add(endpoint('a'))
      await webhooks.progress.save('a', went({ lanes: [{ session: 's', user: 'd', position: 'at-12' }] }))
      await webhooks.change('a', { paused: true })
      await webhooks.change('a', { paused: false })
      expect(await webhooks.get('a')).toMatchObject({ epoch: 0, paused: false })
      await webhooks.change('a', { disabled: { reason: 'r', at: 1 } })
      await webhooks.change('a', { paused: false, disabled: undefined })
      expect(await webhooks.get('a')).toMatchObject({ epoch: 1 })
    })

    it('resumed, it is in another epoch, and what failed is due at once', async t => {
      const { webhooks } = t.store
      await webhooks.add(endpoint('a'))
      const trouble = { event: 'e9', tries: 2, failed_at: 100, retry_at: 200 }
      const lanes = [
        { session: 's', user: 'c', position: 'at-9', trouble },
        { session: 's', user: 'd', position: 'at-12' },
      ]
      await webhooks.progress.save('a', went({ lanes, health: { next_try_at: 200 } }))
      await webhooks.change('a', { paused: true })
      expect((await webhooks.get('a'))?.epoch).toBe(0)
      await webhooks.change('a', { paused: false })
      expect(await webhooks.get('a')).toMatchObject({ epoch: 1, paused: false })
      expect((await webhooks.get('a'))?.next_try_at).toBeUndefined()
      expect(await webhooks.progress.listLanes('a')).toEqual([
        { ...lanes[0]!, trouble: { ...trouble, retry_at: 0 } },
        lanes[1]!,
      ])
      expect(await webhooks.progress.save('a', went())).toBe(false)
    })

    it('of two concurrent rotations the later secret is current, and the other one is the previous', async t => {
      const { webhooks } = t.store
      await webhooks.add(endpoint('a'))
      const rotate = (secret: string) => webhooks.change('a', { rotation: { secret, until: 9 } })
      await Promise.all([rotate('whsec_BB=='), rotate('whsec_CC==')])
      // Any of them may be the later one.
      const secrets = (await webhooks.list())[0]!.secrets
      expect(secrets.map(({ secret }) => secret).toSorted()).toEqual(['whsec_BB==', 'whsec_CC=='])
      expect(secrets.map(({ until }) => until)).toEqual([undefined, 9])
    })

    it('after a takeover, unstored progress of the previous process is rejected', async t => {
      const { webhooks } = t.store
      await webhooks.add(endpoint('a'))
      await webhooks.progress.takeOver()
      const epoch = async () => (await webhooks.get('a'))!.epoch
      const before = await epoch()
      expect(await webhooks.progress.save('a', went({ epoch: before, health: { next_try_at: 9 } }))).toBe(
        true,
      )
      expect((await webhooks.list())[0]).toMatchObject({ position: 'at-8', next_try_at: 9 })
      // Called again while it delivers, it changes nothing.
      expect(await webhooks.progress.takeOver(new Set(['a']))).toEqual(new Set(['a']))
      expect((await webhooks.get('a'))!.next_try_at).toBe(9)
      // Nobody else delivered meanwhile: what is under way goes on.
      expect(await webhooks.progress.takeOver()).toEqual(new Set(['a']))
      expect((await webhooks.get('a'))!.next_try_at).toBeUndefined()
      expect(await epoch()).toBe(before)
      // A replay begins an epoch of its own. It is no other process.
      await webhooks.rewind('a', 'at-3', 'at-8')
      await webhooks.progress.takeOver()
      expect(await epoch()).toBe(before + 1)
      // One that was added since is taken along, and is its own from then on.
      await webhooks.add(endpoint('new'))
      expect(await webhooks.progress.takeOver(new Set(['a']))).toEqual(new Set(['a', 'new']))
      const taken = await webhooks.list()
      await webhooks.progress.takeOver()
      expect(await webhooks.list()).toEqual(taken)
      await webhooks.remove('new')
      await using other = await t.second()
      await other.store.webhooks.progress.takeOver()
      expect(await webhooks.progress.save('a', went({ epoch: before + 1, position: 'at-30' }))).toBe(false)
      const since = await epoch()
      await webhooks.add(endpoint('b'))
      await other.store.webhooks.progress.takeOver()
      expect(await epoch()).toBe(since)
      await webhooks.progress.takeOver()
      expect(await epoch()).toBeGreaterThan(since)
      expect(await webhooks.progress.save('a', went({ epoch: since }))).toBe(false)
    })

    it('position, lanes and tries of an endpoint are stored atomically', async t => {
      const { webhooks } = t.store
      await webhooks.add(endpoint('a'))
      const trouble = { event: 'e9', tries: 2, failed_at: 100, retry_at: 200 }
      const health = {
        last_success_at: 50,
        failing_since: 100,
        last_error: 'HTTP 500',
        last_error_code: 'http_status' as const,
        next_try_at: 5100,
      }
      const failed = tried('e9', { outcome: 'failed', status: 500, detail: 'HTTP 500', code: 'http_status' })
      await webhooks.progress.save(
        'a',
        went({
          ...{
            position: 'at-20',
            lanes: [
              { session: 's', user: 'c', position: 'at-9', trouble },
              { session: 's', user: 'd', position: 'at-12' },
            ],
          },
          ...{
            tries: [tried('e8'), failed],
            health,
          },
        }),
      )
      await t.reopen()
      const kept = t.store.webhooks
      expect(await kept.progress.listLanes('a')).toEqual([
        { session: 's', user: 'c', position: 'at-9', trouble },
        { session: 's', user: 'd', position: 'at-12' },
      ])
      expect((await kept.list())[0]).toMatchObject({
        position: 'at-20',
        ...health,
        tries: { done: 1, failed: 1, gave_up: 0 },
      })
      expect(await kept.progress.listTries('a', 10)).toEqual([failed, tried('e8')])
      const gave = tried('e9', { outcome: 'gave_up' })
      const lanes = [{ session: 's', user: 'c', position: 'at-10' }]
      await kept.progress.save(
        'a',
        went({ position: 'at-21', lanes, ended: [{ session: 's', user: 'd' }], tries: [gave], health: {} }),
      )
      expect(await kept.progress.listLanes('a')).toEqual(lanes)
      const [now] = await kept.list()
      expect(now).toMatchObject({ last_success_at: 50, tries: { done: 1, failed: 1, gave_up: 1 } })
      expect([now?.failing_since, now?.last_error_code, now?.next_try_at]).toEqual([
        undefined,
        undefined,
        undefined,
      ])
      const disabled = { reason: 'it answered with 410', code: 'gone' as const, at: 7 }
      await kept.change('a', { disabled })
      expect((await kept.list())[0]?.disabled).toEqual(disabled)
      await kept.change('a', { disabled: undefined })
      expect((await kept.list())[0]?.disabled).toBeUndefined()
      expect(await kept.progress.listTries('a', 10, 'gave_up')).toEqual([gave])
      expect(await kept.progress.listTries('a', 1)).toEqual([gave])
    })

    it('a rewind begins a new epoch: later lanes are removed, and progress from before is rejected', async t => {
      const { webhooks } = t.store
      await webhooks.add(endpoint('a'))
      const late = { session: 's', user: 'late', position: 'at-2' }
      const lanes = [
        { session: 's', user: 'c', position: 'at-9' },
        { ...late, user: 'd', position: 'at-3' },
        late,
      ]
      await webhooks.progress.save('a', went({ position: 'at-30', lanes, health: { next_try_at: 9 } }))
      expect(await webhooks.rewind('a', 'at-3', 'at-30')).toBe(true)
      expect(await webhooks.rewind('none', 'at-3', '')).toBe(false)
      expect(await webhooks.progress.listLanes('a')).toEqual([late])
      expect((await webhooks.list())[0]).toMatchObject({ position: 'at-3', replayed: 'at-30', epoch: 1 })
      expect((await webhooks.list())[0]?.next_try_at).toBeUndefined()
      expect(await webhooks.progress.save('a', went({ position: 'at-31' }))).toBe(false)
      expect(await webhooks.progress.save('a', went({ position: 'at-4', epoch: 1 }))).toBe(true)
      expect(await webhooks.rewind('a', 'at-30', 'at-30')).toBe(true)
      expect((await webhooks.list())[0]).toMatchObject({ position: 'at-30', epoch: 2 })
    })

    it('a try by hand is kept and counted, and changes nothing else', async t => {
      const { webhooks } = t.store
      await webhooks.add(endpoint('a'))
      const [before] = await webhooks.list()
      expect(await webhooks.progress.addTry('a', tried('t1', { outcome: 'failed' }))).toBe(true)
      expect(await webhooks.progress.addTry('a', tried('t2'))).toBe(true)
      expect(await webhooks.progress.addTry('none', tried('t3'))).toBe(false)
      expect((await webhooks.progress.listTries('a', 10)).map(({ event }) => event)).toEqual(['t2', 't1'])
      expect(await webhooks.progress.listTries('none', 10)).toEqual([])
      expect(await webhooks.list()).toEqual([{ ...before!, tries: { done: 1, failed: 1, gave_up: 0 } }])
    })

    it('answers are read with the tries of their event alone, and leave by their age', async t => {
      const { webhooks, maintenance } = t.store
      await webhooks.add(endpoint('a'))
      const answer = 'no: \u{1f600}\n\tlocked'
      const failed = tried('e1', { outcome: 'failed', answer })
      const done = tried('e1', { at: 9, answer: 'ok' })
      await webhooks.progress.save('a', went({ tries: [failed, tried('e2', { answer: 'other' })] }))
      await webhooks.progress.addTry('a', done)
      const list = (outcome?: 'done') => webhooks.progress.listTries('a', 10, outcome, 'e1')
      expect(await list()).toEqual([done, failed])
      expect(await list('done')).toEqual([done])
      expect((await webhooks.progress.listTries('a', 10)).map(one => 'answer' in one)).toEqual([
        ...[false, false, false],
      ])
      expect(await maintenance.removeOld('answer', 9)).toBe(false)
      expect(await list()).toEqual([done, tried('e1', { outcome: 'failed' })])
    })

    it('a try by hand of an event is refused once the epoch has changed', async t => {
      const { webhooks } = t.store
      await webhooks.add(endpoint('a'))
      expect(await webhooks.progress.addTry('a', tried('e1'), 0)).toBe(true)
      await webhooks.rewind('a', 'at-3', 'at-8')
      expect(await webhooks.progress.addTry('a', tried('e1', { answer: 'late' }), 0)).toBe(false)
      expect(await webhooks.progress.listTries('a', 10)).toEqual([tried('e1')])
      expect((await webhooks.get('a'))?.tries.done).toBe(1)
    })

    it('the newest tries of each outcome are kept', async t => {
      const { webhooks } = t.store
      await webhooks.add(endpoint('a'))
      const many = (count: number, from = 0) =>
        Array.from({ length: count }, (_, nth) => tried(`e${from + nth}`))
      const failed = tried('bad', { outcome: 'gave_up' })
      await webhooks.progress.save('a', went({ tries: [failed, ...many(maxTries.done + 50)] }))
      await webhooks.progress.save('a', went({ tries: many(3, 1000) }))
      const kept = await webhooks.progress.listTries('a', 10_000)
      expect(kept.filter(({ outcome }) => outcome === 'done')).toHaveLength(maxTries.done)
      expect(kept[0]?.event).toBe('e1002')
      expect(kept.at(-1)).toEqual(failed)
      expect((await webhooks.list())[0]?.tries.done).toBe(maxTries.done + 53)
    })

    it('an endpoint of one session and its lanes follow a rename, ignoring case', async t => {
      const { webhooks } = t.store
      await webhooks.add(endpoint('a', { session: 'Work' }))
      await webhooks.add(endpoint('b', { created_at: 2 }))
      const lanes = [
        { session: 'Work', user: 'u', position: 'at-9' },
        { session: 'other', user: 'u', position: 'at-8' },
      ]
      await webhooks.progress.save('b', went({ lanes }))
      await rename(t, 'work', 'office')
      const found = await webhooks.list()
      expect(found.map(({ session }) => session)).toEqual(['office', undefined])
      expect(found[1]?.epoch).toBe(1)
      const names = (await webhooks.progress.listLanes('b')).map(({ session }) => session)
      expect(names.sort()).toEqual(['office', 'other'])
    })

    it('a change is visible to other processes, and ends their waits', async t => {
      await using other = await t.second()
      const seen = await other.store.log.getHead()
      const stop = AbortSignal.timeout(60_000)
      const woken = other.store.log.wait(seen, 60_000, stop)
      await t.store.webhooks.add(endpoint('a'))
      await woken
      expect(stop.aborted).toBe(false)
      expect(await other.store.webhooks.list()).toHaveLength(1)
    })
  },
  { sealed: true },
)
