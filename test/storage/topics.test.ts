/** What every engine must do for topics (`src/storage/topics.ts`). */
import { expect } from 'bun:test'
import { type Notice, untilSaid } from '../../src/model/topic.ts'
import type {
  NewBulletin,
  NewTopic,
  NoticeSender,
  TopicPerson,
  TopicStore,
} from '../../src/storage/topics.ts'
import { planFactsOf } from '../../src/topics/facts.ts'
import { planBulletin } from '../../src/topics/plan.ts'
import { failure } from '../support/failure.ts'
import { onEach } from './engines.ts'
import type { Opened } from './support.ts'

const dayMs = 24 * 60 * 60_000
const person = { session: 's', user_id: 'mUm@im.wechat' }
const dad = { session: 'd', user_id: 'dAd@im.wechat' }
const topic = (name: string, more: Partial<NewTopic> = {}): NewTopic => ({
  people: [person],
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

/** Says something as the owner. */
const say = (topics: TopicStore, notices: readonly Notice[]) => topics.accept('home', notices, {})

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
        time_zone: 'Asia/Shanghai',
        secret: 'for signatures',
        template: '{{ .a }}',
        priorities: { critical: 'max' },
        attach_private: true,
        paused_until: untilSaid,
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
      await say(topics, [disk()])
      expect(await topics.remove('home')).toBe(true)
      expect([await topics.list(), await say(topics, [disk()])]).toEqual([[], undefined])
      expect((await topics.countWaiting()).size).toBe(0)
    })

    it('a pause holds what waits until its end or quiet hours are over, and ends when the topic goes on', async t => {
      const { topics } = t.store
      await topics.add(topic('home'))
      const fates = async () => {
        const right = { remaining: 10, last_received: 0 }
        const { go, waits } = planBulletin(planFactsOf(await topics.read(person), right, t.clock.now()))
        return go.length > 0 ? go.length : waits.map(({ until, why }) => [why, until])
      }
      const hourMs = 3_600_000
      const until = t.clock.now() + hourMs
      await topics.change('home', topic('home', { max_priority: 'max', paused_until: until }))
      await say(topics, [disk({ priority: 'high' }), alert('a')])
      expect(await fates()).toEqual([
        ['paused', until],
        ['paused', until],
      ])
      t.clock.at += hourMs
      expect(await fates()).toBe(2)
      await topics.change('home', topic('home', { paused_until: untilSaid }))
      expect(await fates()).toEqual([
        ['paused', undefined],
        ['paused', undefined],
      ])
      t.clock.at += 20 * hourMs
      expect(await fates()).toHaveLength(2)
      await topics.change('home', topic('home'))
      expect(await fates()).toBe(2)
      // What ends later holds it.
      const now = new Date(t.clock.now())
      const [before, after] = [-1, 2].map(
        hours => `${String((now.getUTCHours() + hours + 24) % 24).padStart(2, '0')}:00`,
      )
      const quiet = { quiet: `${before}-${after}`, time_zone: 'UTC' }
      await topics.change('home', topic('home', { ...quiet, paused_until: now.getTime() + 60_000 }))
      expect(await fates()).toMatchObject(Array(2).fill(['quiet', expect.any(Number)]))
      await topics.change('home', topic('home', { ...quiet, paused_until: now.getTime() + 3 * hourMs }))
      expect(await fates()).toMatchObject(Array(2).fill(['paused', now.getTime() + 3 * hourMs]))
    })

    it('the same is one, with a count; what is over before it went out is gone', async t => {
      const { topics } = t.store
      await topics.add(topic('home'))
      const [first] = (await say(topics, [disk(), alert('a'), alert('a')]))!
      const [again] = (await say(topics, [disk({ text: 'disk still full' })]))!
      expect(again).toEqual(first)
      expect(await waiting(t)).toEqual(['a 2 waiting', 'disk still full 2 waiting'])
      await say(topics, [disk({ resolved: true })])
      expect(await waiting(t)).toEqual(['a 2 waiting'])
      await say(topics, [disk({ resolved: true })])
      expect(await waiting(t)).toEqual(['a 2 waiting'])
      await say(topics, [disk()])
      expect(await waiting(t)).toEqual(['a 2 waiting', 'disk full 1 waiting'])
    })

    it('an end without words has the name of what ended; nobody hears of the end of what was never said', async t => {
      const { topics } = t.store
      await topics.add(topic('home'))
      const over = { ...disk({ resolved: true }), text: '' }
      await say(topics, [over])
      expect(await waiting(t)).toEqual([])
      await say(topics, [disk()])
      await claim(t, 'b1')
      await say(topics, [over])
      expect((await topics.read(person)).notices).toMatchObject([
        { name: 'disk full', resolved: true, state: 'waiting' },
      ])
    })

    it('what was sent is remembered: the same is only counted, and its end is a line', async t => {
      const { topics } = t.store
      await topics.add(topic('home'))
      await say(topics, [disk(), alert('a')])
      expect(await claim(t, 'b1')).toBe(true)
      expect(await claim(t, 'b2')).toBe(false)
      await say(topics, [disk()])
      expect(await topics.listPersons()).toEqual([])
      await topics.settle('b1', 'sent')
      expect((await topics.find('home'))?.sent).toBe(2)
      expect(await waiting(t)).toEqual(['disk full 2 sent'])
      expect(await topics.listPersons()).toEqual([])
      await say(topics, [disk({ resolved: true })])
      expect(await waiting(t)).toEqual(['disk full 3 waiting resolved'])
      await claim(t, 'b3')
      await topics.settle('b3', 'sent')
      await say(topics, [disk(), alert('a')])
      expect(await waiting(t)).toEqual(['a 2 sent', 'disk full 1 waiting'])
      t.clock.at += 10 * 60_000
      await say(topics, [alert('a'), disk({ priority: 'high' })])
      expect(await waiting(t)).toEqual(['a 1 waiting', 'disk full 2 waiting'])
    })

    it('another text of what was sent waits with its count, is bounded, and goes once it was sent', async t => {
      const { topics } = t.store
      await topics.add(topic('home'))
      await say(topics, [disk()])
      await claim(t, 'b1')
      await say(topics, [disk({ text: 'fuller' })])
      await topics.settle('b1', 'sent')
      const read = async () => {
        const { notices } = await topics.read(person)
        return (await topics.readNotices(notices.map(({ id }) => id))).map(
          ({ count, is_repeat, reported, state, text }) => [state, text, count - reported, is_repeat],
        )
      }
      expect(await read()).toEqual([['waiting', 'fuller', 1, true]])
      await claim(t, 'b2')
      await topics.settle('b2', 'undone')
      await say(topics, [disk({ text: 'full' })])
      expect(await read()).toEqual([['waiting', 'full', 2, true]])
      await claim(t, 'b3')
      await topics.settle('b3', 'sent')
      await say(topics, [disk({ text: 'full' })])
      expect(await read()).toEqual([['sent', '', 1, true]])
      await say(topics, [disk({ text: 'x'.repeat(30_000) })])
      expect(`${(await read())[0]![1]}`.length).toBeWithin(14_000, 15_001)
      t.clock.at += dayMs
      await topics.expire()
      expect(Object.values((await topics.find('home'))!.people[0]!.missed.expired)).toEqual([2])
    })

    it('what was undone waits again, and what may have arrived is named later', async t => {
      const { topics } = t.store
      await topics.add(topic('home'))
      await say(topics, [alert('a', { media: { kind: 'image', url: 'https://x' } }), alert('b')])
      const [{ version } = { version: 0 }] = await topics.listPersons()
      await say(topics, [alert('c')])
      expect(await claim(t, 'b0', {}, version)).toBe(false)
      await claim(t, 'b1', { names: { a: 1 }, media: [{ kind: 'image', url: 'https://x' }] })
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
      await say(topics, [alert('d')])
      await claim(t, 'b3', { doubts: ['b2'] })
      expect((await topics.read(person)).doubts).toEqual([])
      await topics.settle('b3', 'undone')
      expect((await topics.read(person)).doubts).toHaveLength(1)
    })

    it('of two processes that claim what waits for a person at once, one gets it', async t => {
      const { topics } = t.store
      await topics.add(topic('home'))
      await say(topics, [alert('a'), alert('b')])
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
      await say(topics, [alert('a')])
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
      await say(topics, [alert('a'), alert('a'), alert('constructor')])
      t.clock.at += 61_000
      await topics.expire()
      expect(await waiting(t)).toEqual([])
      const long = '龙'.repeat(4900)
      const many = Array.from({ length: 580 }, (_, nth) => alert(`${nth}${long}`, { title: 'storm' }))
      const accepted = (await say(topics, many))!
      const more = accepted.filter(({ id }) => id === '0').length
      expect(more).toBeGreaterThan(5)
      const found = await topics.find('home')
      const [member] = found!.people
      expect([found!.expired, member!.missed]).toEqual([
        2,
        { more: { storm: more }, expired: { a: 2, constructor: 1 } },
      ])
      const told = { more: { storm: more }, expired: { a: 2 } }
      await claim(t, 'b1', { missed: { [member!.id]: told } })
      await say(topics, [alert('c')])
      await topics.settle('b1', 'sent')
      expect((await topics.find('home'))?.people[0]?.missed).toEqual({
        more: {},
        expired: { constructor: 1 },
      })
    })

    it('what grows while it waits is bounded, and so is what ended before it was sent', async t => {
      const { topics } = t.store
      await topics.add(topic('home'))
      const many = (text: string) =>
        Array.from({ length: 580 }, (_, nth) => alert(text, { title: 'storm', fingerprint: `${nth}` }))
      await say(topics, many('small'))
      await say(topics, many('龙'.repeat(4900)))
      expect((await topics.find('home'))?.people[0]?.missed.more.storm).toBeGreaterThan(5)
      await topics.remove('home')
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
        await say(topics, pairs(from, to))
      await say(topics, pairs(2000, 2001).slice(1))
      expect(await waiting(t)).toEqual([])
      await say(topics, pairs(0, 1).slice(1))
      expect(await waiting(t)).toHaveLength(1)
    })

    it('each person of a topic has what waits, what was sent and what was missed on their own', async t => {
      const { topics } = t.store
      await topics.add(topic('home', { people: [person, dad] }))
      const [accepted, ...more] = (await say(topics, [disk()]))!
      expect(more).toEqual([])
      const all = await topics.listWaiting('home', 9)
      expect(all.map(one => one.shared_id)).toEqual([accepted!.id, accepted!.id])
      expect(await topics.listPersons()).toHaveLength(2)
      const mum = (await topics.listPersons()).find(one => one.user_id === person.user_id)!
      const own = (await topics.read(person)).notices
      expect(own).toHaveLength(1)
      const sent = { ...emptyBulletin, id: 'b1', notices: own.map(({ id }) => id) }
      expect(await topics.claim(sent, mum.version)).toBe(true)
      expect(await topics.listPersons()).toMatchObject([dad])
      await topics.settle('b1', 'sent')
      expect((await topics.find('home'))?.sent).toBe(1)
      const [again] = (await say(topics, [disk()]))!
      expect(again!.id).toBe(accepted!.id)
      expect((await topics.read(dad)).notices).toMatchObject([{ count: 2, state: 'waiting' }])
      // What one was told is over for that person; for the other one it never was.
      await say(topics, [disk({ resolved: true })])
      expect((await topics.read(person)).notices).toMatchObject([{ resolved: true, state: 'waiting' }])
      expect((await topics.read(dad)).notices).toEqual([])
    })

    it('people come and go; what waits for who goes is gone, and the last one takes the topic along', async t => {
      const { topics } = t.store
      await topics.add(topic('home', { quiet: '23:00-07:00' }))
      await say(topics, [disk()])
      await topics.join('home', [dad, person])
      await topics.changeOwn('home', dad.user_id, {
        quiet: '20:00-06:00',
        time_zone: 'Asia/Shanghai',
        answers: 2,
      })
      expect((await topics.find('home'))?.people).toMatchObject([
        { ...person, own: {} },
        { ...dad, own: { quiet: '20:00-06:00', answers: 2 } },
      ])
      const had = async (who: TopicPerson) => (await topics.read(who)).topics[0]
      expect(await had(person)).toMatchObject({ quiet: '23:00-07:00', answers: 5 })
      expect(await had(dad)).toMatchObject({ quiet: '20:00-06:00', time_zone: 'Asia/Shanghai', answers: 2 })
      await say(topics, [alert('a')])
      await topics.leave({ name: 'home', users: [person.user_id] })
      expect([await waiting(t), await had(person)]).toEqual([[], undefined])
      expect((await topics.read(dad)).notices).toHaveLength(1)
      await topics.leave({ session: dad.session })
      expect([await topics.find('home'), await say(topics, [disk()])]).toEqual([undefined, undefined])
    })

    it('a topic has at most 20 people, each once', async t => {
      const { topics } = t.store
      const many = (from: number, to: number) =>
        Array.from({ length: to - from }, (_, nth) => ({ session: 's', user_id: `u${from + nth}@im.wechat` }))
      await topics.add(topic('home', { people: many(0, 19) }))
      await topics.join('home', many(18, 20))
      expect(await failure(topics.join('home', many(20, 21)))).toMatchObject({ code: 'invalid_arguments' })
      expect((await topics.find('home'))?.people).toHaveLength(20)
      const [accepted] = (await say(topics, [disk()]))!
      expect(await topics.listWaiting('home', 99)).toHaveLength(20)
      expect((await topics.listWaiting('home', 99)).every(one => one.shared_id === accepted!.id)).toBe(true)
    })

    it('whoever is erased leaves a topic; for the others it goes on, also while that is under way', async t => {
      const { people, topics } = t.store
      await topics.add(topic('home', { people: [person, dad] }))
      await say(topics, [disk()])
      await people.begin(person.user_id)
      expect(await say(topics, [alert('a')])).toHaveLength(1)
      await people.erase(person.user_id)
      expect((await topics.find('home'))?.people).toMatchObject([dad])
      expect((await topics.read(dad)).notices).toHaveLength(2)
      expect(await say(topics, [alert('b')])).toHaveLength(1)
      await people.erase(dad.user_id)
      expect([await topics.list(), await topics.countWaiting()]).toEqual([[], new Map()])
    })

    it('what one sender said is neither the same as, nor over by, what another one says', async t => {
      const { topics } = t.store
      await topics.add(topic('home'))
      const from = async (id: string | undefined, notice: Notice) =>
        (await topics.accept('home', [notice], id === undefined ? {} : { id, family: 'key top' }))![0]!.id
      const first = await from('key a', disk())
      const second = await from('key b', disk({ text: 'I am the disk' }))
      expect(second).not.toBe(first)
      expect(await from('key a', disk())).toBe(first)
      expect(await waiting(t)).toEqual(['I am the disk 1 waiting', 'disk full 2 waiting'])
      await from('key b', disk({ resolved: true }))
      expect(await waiting(t)).toEqual(['disk full 2 waiting'])
      // An end of nothing that this sender said is a notice of its own.
      await from('key c', disk({ text: 'I say it is over', resolved: true }))
      expect(await waiting(t)).toContain('disk full 2 waiting')
      await from('key b', disk({ text: 'again' }))
      await from(undefined, disk({ text: 'the owner knows more' }))
      expect(await waiting(t)).toHaveLength(3)
      await from(undefined, disk({ resolved: true }))
      expect((await waiting(t)).filter(line => !line.includes('resolved'))).toEqual([])
    })

    it('a sender has with its family no more of what waits than it leaves free, and the owner may take the rest', async t => {
      const { topics } = t.store
      await topics.add(topic('home'))
      const long = (nth: number) => alert(`${nth} `.padEnd(15_000, 'x'))
      const countKept = async (from: number, most: number, sender: NoticeSender) => {
        const notices = Array.from({ length: most }, (_, nth) => long(from + nth))
        return (await topics.accept('home', notices, sender))!.filter(({ id }) => id !== '0').length
      }
      const family = 'key one'
      const greedy =
        (await countKept(0, 150, { id: 'key k1 below', family })) +
        (await countKept(500, 10, { family })) +
        (await countKept(600, 300, { id: 'key  one', family }))
      expect(greedy).toBeGreaterThan(200)
      expect(greedy).toBeLessThan(300)
      for (const id of ['key  one', 'key k1 below', 'key k1 another', undefined])
        expect(await countKept(1000, 1, { ...(id && { id }), family })).toBe(0)
      expect(await countKept(2000, 100, { id: 'key two', family: 'key two' })).toBe(100)
      const rest = await countKept(3000, 600, {})
      expect(rest).toBeGreaterThan(100)
      expect(greedy + 100 + rest).toBeLessThan(600)
    })
  },
  { sealed: true },
)
