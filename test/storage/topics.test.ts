/** What every engine must do for topics (`src/storage/topics.ts`). */
import { expect } from 'bun:test'
import type { Notice } from '../../src/model/topic.ts'
import type { NewBulletin, NewTopic } from '../../src/storage/topics.ts'
import { failure } from '../support/failure.ts'
import { onEach } from './engines.ts'
import type { Opened } from './support.ts'

const dayMs = 24 * 60 * 60_000
const person = { session: 's', user_id: 'mUm@im.wechat' }
const topic = (name: string, more: Partial<NewTopic> = {}): NewTopic => ({
  ...person,
  name,
  min_priority: 'min',
  max_priority: 'high',
  digest: false,
  answers: 5,
  keep_ms: dayMs,
  attach_private: false,
  made_by: 'owner',
  created_at: 1,
  ...more,
})
const alert = (text: string, more: Partial<Notice> = {}): Notice => ({ text, priority: 'default', ...more })
const disk = (more: Partial<Notice> = {}) => alert('disk full', { fingerprint: 'disk', ...more })

/** Names and counts of what waits for the person. */
const waiting = async ({ store }: Opened) =>
  (await store.topics.read(person)).notices
    .map(({ count, name, resolved, state }) => `${name} ${count} ${state}${resolved ? ' resolved' : ''}`)
    .sort()

const emptyBulletin = {
  ...person,
  text: '',
  media: [],
  answers: 1,
  priority: 'high' as const,
  missed: {},
  names: {},
  doubts: [],
}

/** Claims everything that waits, as a bulletin. */
async function claim(t: Opened, id: string, more: Partial<NewBulletin> = {}, at?: number): Promise<boolean> {
  const { topics } = t.store
  const [found] = await topics.listPersons()
  const { notices } = await topics.read(person)
  const all = notices.map(one => one.id)
  return topics.claim({ ...emptyBulletin, id, text: id, notices: all, ...more }, at ?? found?.version ?? 0)
}

onEach(
  it => {
    it('a topic keeps what it was given, is changed and removed', async t => {
      const { topics } = t.store
      const one = topic('home', {
        quiet: '23:00-07:00',
        zone: 'Asia/Shanghai',
        secret: 'for signatures',
        template: '{{ .a }}',
        priorities: { critical: 'max' },
        attach_private: true,
      })
      await topics.add(one)
      expect(await topics.find('home')).toMatchObject(one)
      expect(await failure(topics.add(one))).toMatchObject({ code: 'invalid_arguments' })
      const { secret: _, ...changed } = { ...one, digest: true, answers: 2 }
      expect(await topics.change('home', changed)).toBe(true)
      const now = await topics.find('home')
      expect(now).toMatchObject(changed)
      expect(now?.secret).toBeUndefined()
      expect(await topics.change('other', changed)).toBe(false)
      await topics.accept('home', [disk()])
      expect(await topics.remove({ name: 'home' })).toBe(true)
      expect([await topics.list(), await topics.accept('home', [disk()])]).toEqual([[], undefined])
      expect(await topics.countWaiting()).toEqual({})
    })

    it('the same is one, with a count; what is over before it went out is gone', async t => {
      const { topics } = t.store
      await topics.add(topic('home'))
      const [first] = (await topics.accept('home', [disk(), alert('a'), alert('a')]))!
      const [again] = (await topics.accept('home', [disk({ text: 'disk still full' })]))!
      expect(again).toEqual(first)
      expect(await waiting(t)).toEqual(['a 2 waiting', 'disk still full 2 waiting'])
      await topics.accept('home', [disk({ resolved: true })])
      expect(await waiting(t)).toEqual(['a 2 waiting'])
      await topics.accept('home', [disk({ resolved: true })])
      expect(await waiting(t)).toEqual(['a 2 waiting'])
      await topics.accept('home', [disk()])
      expect(await waiting(t)).toEqual(['a 2 waiting', 'disk full 1 waiting'])
    })

    it('what was sent is remembered: the same is only counted, and its end is a line', async t => {
      const { topics } = t.store
      await topics.add(topic('home'))
      await topics.accept('home', [disk(), alert('a')])
      expect(await claim(t, 'b1')).toBe(true)
      expect(await claim(t, 'b2')).toBe(false)
      await topics.accept('home', [disk()])
      expect(await topics.listPersons()).toEqual([])
      await topics.settle('b1', 'sent')
      expect((await topics.find('home'))?.sent).toBe(2)
      expect(await waiting(t)).toEqual(['disk full 2 sent'])
      expect(await topics.listPersons()).toEqual([])
      await topics.accept('home', [disk({ resolved: true })])
      expect(await waiting(t)).toEqual(['disk full 3 waiting resolved'])
      await claim(t, 'b3')
      await topics.settle('b3', 'sent')
      await topics.accept('home', [disk(), alert('a')])
      expect(await waiting(t)).toEqual(['a 2 sent', 'disk full 1 waiting'])
      t.clock.at += 10 * 60_000
      await topics.accept('home', [alert('a'), disk({ priority: 'high' })])
      expect(await waiting(t)).toEqual(['a 1 waiting', 'disk full 2 waiting'])
    })

    it('what was undone waits again, and what may have arrived is named later', async t => {
      const { topics } = t.store
      await topics.add(topic('home'))
      await topics.accept('home', [alert('a', { media: { kind: 'image', url: 'https://x' } }), alert('b')])
      const [{ version } = { version: 0 }] = await topics.listPersons()
      await topics.accept('home', [alert('c')])
      expect(await claim(t, 'b0', {}, version)).toBe(false)
      await claim(t, 'b1', { names: { a: 1 } })
      await topics.settle('b1', 'undone', true)
      const { bulletins, isSending, notices } = await topics.read(person)
      expect([bulletins, isSending, notices.map(one => one.has_media)]).toEqual([
        [],
        false,
        [false, false, false],
      ])
      await claim(t, 'b2', { names: { a: 1 }, answers: 2 })
      await topics.settle('b2', 'unknown')
      const after = await topics.read(person)
      expect(after).toMatchObject({ bulletins: [{ answers: 2 }], doubts: [{ id: 'b2', names: { a: 1 } }] })
      expect(await topics.listWaiting('home', 9)).toMatchObject([{ state: 'unknown' }, {}, {}])
      await topics.accept('home', [alert('d')])
      await claim(t, 'b3', { doubts: ['b2'] })
      expect((await topics.read(person)).doubts).toEqual([])
      await topics.settle('b3', 'undone')
      expect((await topics.read(person)).doubts).toHaveLength(1)
    })

    it('of two processes that claim what waits for a person at once, one gets it', async t => {
      const { topics } = t.store
      await topics.add(topic('home'))
      await topics.accept('home', [alert('a'), alert('b')])
      await using other = await t.second()
      const [{ version } = { version: 0 }] = await topics.listPersons()
      const { notices } = await topics.read(person)
      const ids = notices.map(one => one.id)
      const claimed = await Promise.all(
        [topics, other.store.topics].map((store, nth) =>
          store.claim({ ...emptyBulletin, id: `b${nth}`, notices: ids }, version),
        ),
      )
      expect(claimed.sort()).toEqual([false, true])
      expect((await topics.listWaiting('home', 9)).map(({ state }) => state)).toEqual(['sending', 'sending'])
    })

    it('a bulletin whose process has ended goes on elsewhere, as it was', async t => {
      const { topics } = t.store
      await topics.add(topic('home'))
      await topics.accept('home', [alert('a')])
      await claim(t, 'b1', { media: [{ kind: 'image', url: 'https://x' }] })
      await using other = await t.second()
      expect(await topics.takeOver(['b1'])).toEqual([])
      expect(await other.store.topics.takeOver([])).toEqual([])
      t.clock.at += 2 * 60_000
      const [taken, ...rest] = await other.store.topics.takeOver([])
      expect([taken, rest]).toMatchObject([
        { id: 'b1', text: 'b1', media: [{ url: 'https://x' }], ...person },
        [],
      ])
      await other.store.topics.settle('b1', 'sent')
      expect((await topics.read(person)).isSending).toBe(false)
    })

    it('what runs out of time, and what is too much, is counted by name', async t => {
      const { topics } = t.store
      await topics.add(topic('home', { keep_ms: 60_000 }))
      await topics.accept('home', [alert('a'), alert('a'), alert('constructor')])
      t.clock.at += 61_000
      await topics.expire()
      expect(await waiting(t)).toEqual([])
      const long = '龙'.repeat(4900)
      const many = Array.from({ length: 580 }, (_, nth) => alert(`${nth}${long}`, { title: 'storm' }))
      const accepted = (await topics.accept('home', many))!
      const more = accepted.filter(({ id }) => id === 0).length
      expect(more).toBeGreaterThan(5)
      const found = await topics.find('home')
      expect(found).toMatchObject({
        expired: 2,
        missed: { more: { storm: more }, expired: { a: 2, constructor: 1 } },
      })
      const told = { more: { storm: more }, expired: { a: 2 } }
      await claim(t, 'b1', { missed: { [found!.id]: told } })
      await topics.accept('home', [alert('c')])
      await topics.settle('b1', 'sent')
      expect((await topics.find('home'))?.missed).toEqual({ more: {}, expired: { constructor: 1 } })
    })

    it('what grows while it waits is bounded, and so is what ended before it was sent', async t => {
      const { topics } = t.store
      await topics.add(topic('home'))
      const many = (text: string) =>
        Array.from({ length: 580 }, (_, nth) => alert(text, { title: 'storm', fingerprint: `${nth}` }))
      await topics.accept('home', many('small'))
      await topics.accept('home', many('龙'.repeat(4900)))
      expect((await topics.find('home'))?.missed.more.storm).toBeGreaterThan(5)
      await topics.remove({ name: 'home' })
      await topics.add(topic('home'))
      const pairs = (from: number, to: number) =>
        Array.from({ length: to - from }, (_, nth) => disk({ fingerprint: `${from + nth}` })).flatMap(one => [
          one,
          { ...one, resolved: true },
        ])
      for (const [from, to] of [
        [0, 2000],
        [2000, 2001],
      ] as const)
        await topics.accept('home', pairs(from, to))
      await topics.accept('home', pairs(2000, 2001).slice(1))
      expect(await waiting(t)).toEqual([])
      await topics.accept('home', pairs(0, 1).slice(1))
      expect(await waiting(t)).toHaveLength(1)
    })
  },
  { sealed: true },
)
