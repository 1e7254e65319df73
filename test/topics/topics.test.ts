/** Who may say what to which topic, and how topics are changed (`src/topics/topics.ts`). */
import { expect, test } from 'bun:test'
import { createGrant, rejectWider } from '../../src/access/grants.ts'
import { onlyNotifies, presets, type Right } from '../../src/model/access.ts'
import { createDirectCall } from '../../src/model/call.ts'
import type { MediaContent } from '../../src/model/message.ts'
import { owner, type Principal } from '../../src/model/principal.ts'
import type { Notice } from '../../src/model/topic.ts'
import { changeTopic, notify } from '../../src/operations/topics.ts'
import { Topics } from '../../src/topics/topics.ts'
import { openSqlite } from '../storage/sqlite/support.ts'
import { failure } from '../support/failure.ts'
import { runtimeOf } from '../support/runtime.ts'

const said = [{ text: 'hello', priority: 'default' as const }]

async function setUp() {
  const t = await openSqlite()
  const runtime = runtimeOf({ clock: t.clock })
  const kept: MediaContent[] = []
  const topics = new Topics(
    {
      topics: t.store.topics,
      findRight: async () => undefined,
      findTopName: async () => 'top',
      isRunning: async () => true,
      findChat: async () => ({ session: 's', user_id: 'mUm@im.wechat' }),
      keepFile: async file => {
        kept.push(file)
        return { kind: file.kind, upload_id: 'kept' }
      },
    },
    runtime,
  )
  for (const name of ['home', 'work']) await topics.add(owner, { name, to: ['Mum'] })
  return { kept, topics, store: t.store.topics, [Symbol.asyncDispose]: () => t[Symbol.asyncDispose]() }
}

const keyOf = (topics: string[] | undefined): Principal => ({
  kind: 'key',
  id: 'k',
  grant: { rights: ['notify'], ...(topics && { topics }) },
})

test('a key notifies the topics that it names; others do not exist for it', async () => {
  await using s = await setUp()
  const { topics } = s
  const say = (by: Principal, topic: string) => topics.accept(createDirectCall({ by }), topic, said)
  const key = keyOf(['home'])
  expect(await say(key, 'home')).toMatchObject([{ topic: 'home' }])
  const [other, unknown, none] = [say(key, 'work'), say(key, 'nope'), say(keyOf([]), 'home')].map(failure)
  expect(await other).toEqual(await unknown)
  expect(await none).toMatchObject({ code: 'not_found' })
  expect(await failure(topics.find(key, 'work'))).toMatchObject({ code: 'not_found' })
  expect(await topics.find(key, 'home')).toMatchObject({ name: 'home' })
})

test('a key with this right names its topics, and gives on no others', () => {
  const grant = createGrant({ can: ['notify'], topics: ['home', 'home'] }, {})
  expect(grant).toEqual({ rights: ['notify'], topics: ['home'] })
  expect([onlyNotifies(grant), onlyNotifies({ rights: ['notify', 'history'] })]).toEqual([true, false])
  expect(createGrant({ can: ['all'] }, {}).topics).toBeUndefined()
  for (const [input, scope] of [
    [{ can: ['notify'] }, {}],
    [{ can: ['read'], topics: ['home'] }, {}],
    [{ can: ['notify'], topics: ['home'] }, { users: ['mUm@im.wechat'] }],
    [{ can: ['topics'] }, { bots: ['b'] }],
  ] as const)
    expect(() => createGrant({ ...input, can: [...input.can] } as never, scope)).toThrow()
  const own = { rights: ['keys', 'notify'] as Right[], topics: ['home'] }
  expect(() => rejectWider({ rights: ['notify'], topics: ['home', 'work'] }, own)).toThrow('certain topics')
  expect(() => rejectWider({ rights: ['notify'] }, own)).toThrow('certain topics')
  rejectWider({ rights: ['keys'] }, own)
  rejectWider({ rights: ['notify'], topics: ['home'] }, own)
  for (const [preset, rights] of Object.entries(presets) as [string, readonly Right[]][])
    expect([preset, rights.includes('topics') || rights.includes('notify')]).toEqual([
      preset,
      preset === 'all',
    ])
})

test('a topic is changed in what is given; nothing else is accepted as its name, zone or content', async () => {
  await using s = await setUp()
  const { topics } = s
  await topics.change(owner, {
    topic: 'home',
    quiet: '23:00-07:00',
    time_zone: 'Asia/Shanghai',
    secret: 'sixteen letters.',
    keep_seconds: 60,
  })
  const changed = {
    quiet: '23:00-07:00',
    time_zone: 'Asia/Shanghai',
    signed: true,
    keep_seconds: 60,
    answers: 5,
  }
  expect(await topics.change(owner, { topic: 'home', digest: true })).toMatchObject({
    ...changed,
    digest: true,
  })
  expect(changeTopic.parse({ topic: 'home', answers: 2 })).toEqual({ topic: 'home', answers: 2 })
  const cleared = await topics.change(owner, { topic: 'home', quiet: '', secret: '' })
  expect([cleared.quiet, cleared.signed]).toEqual([undefined, false])
  for (const wrong of [
    topics.change(owner, { topic: 'home', time_zone: 'Moon/Base' }),
    topics.add(owner, { name: 'notify', to: ['Mum'] }),
    topics.add(owner, { name: 'weak', to: ['Mum'], secret: 'fifteen letters' }),
    topics.change(owner, { topic: 'home', secret: 'x' }),
    topics.accept(createDirectCall(), 'home', [{ text: ' ', priority: 'max' }]),
  ])
    expect(await failure(wrong)).toMatchObject({ code: 'invalid_arguments' })
  expect(await failure(topics.remove(owner, 'nope'))).toMatchObject({ code: 'not_found' })
})

test('a file of the caller is kept when it comes', async () => {
  await using s = await setUp()
  const media = { kind: 'image' as const, path: '/tmp/a.png' }
  await s.topics.accept(createDirectCall(), 'home', [{ text: '', priority: 'low', media }])
  const [waiting] = await s.store.listWaiting('home', 1)
  expect(await s.store.readNotices([waiting!.id])).toMatchObject([{ media: { upload_id: 'kept' } }])
})

test('what was not understood is counted until the topic is changed, and what says nothing is never the same again', async () => {
  await using s = await setUp()
  const { topics } = s
  const say = (...notices: Partial<Notice>[]) =>
    topics.accept(
      createDirectCall(),
      'home',
      notices.map(one => ({ text: 'x', priority: 'default', ...one })),
    )
  expect(await topics.show(owner, 'home')).not.toHaveProperty('template_missed')
  await say({ unread: { template: true } }, { unread: { template: true, severity: 'disaster' } })
  await say({ unread: { severity: 'disaster' } })
  const found = { template_missed: 2, unknown_severities: { disaster: 2 } }
  expect(await topics.show(owner, 'home')).toMatchObject(found)
  await topics.change(owner, { topic: 'home', priorities: { disaster: 'high' } })
  expect(await topics.show(owner, 'home')).not.toHaveProperty('unknown_severities')

  for (const text of [': ', '…', 'triggered']) {
    const ids = [...(await say({ text }, { text })), ...(await say({ text }))].map(({ id }) => id)
    expect(new Set(ids).size).toBe(3)
  }
  const same = await say({ text: '⚠️' }, { text: '⚠️' })
  expect(same[0]!.id).toBe(same[1]!.id)
})

test('the command line takes the words for a priority that a header takes, and refuses others', async () => {
  await using s = await setUp()
  await s.topics.change(owner, { topic: 'home', max_priority: 'max', priorities: { 紧急: 'max' } })
  const say = (priority: string) =>
    notify.run(
      { topics: s.topics } as never,
      { topic: 'home', text: `said ${priority}`, priority },
      createDirectCall(),
    )
  for (const [word, priority] of [
    ['URGENT', 'max'],
    [' 4 ', 'high'],
    ['0', 'default'],
    ['', 'default'],
    ['critical', 'max'],
    ['紧急', 'max'],
  ] as const) {
    const { id } = await say(word)
    const waiting = await s.store.listWaiting('home', 100)
    expect([word, waiting.find(one => one.shared_id === id)?.priority]).toEqual([word, priority])
  }
  for (const word of ['hgih', '9', 'very-urgent'])
    expect(await failure(say(word))).toMatchObject({ code: 'invalid_arguments', field: 'priority' })
})

test('a text that no message can hold is a file, too', async () => {
  await using s = await setUp()
  const text = `${'磁盘已满。'.repeat(4000)}FATAL: backup failed`
  await s.topics.accept(createDirectCall(), 'home', [{ text, priority: 'high' }])
  const [waiting] = await s.store.listWaiting('home', 1)
  const [kept] = await s.store.readNotices([waiting!.id])
  expect(kept!.media).toEqual({ kind: 'file', upload_id: 'kept' })
  expect(kept!.text.startsWith('磁盘已满')).toBe(true)
  expect(kept!.text.endsWith('FATAL: backup failed')).toBe(true)
  const missing = Number(/\d[\d,]*/.exec(kept!.text)![0].replaceAll(',', ''))
  const gap = /\n\[[^\]]*\]\n/.exec(kept!.text)![0]
  expect(kept!.text.length - gap.length + missing).toBe(text.length)
})

test('a long text as a file begins with its title, and has its name', async () => {
  await using s = await setUp()
  const text = 'x'.repeat(20_000)
  for (const [title, name] of [
    ['Backup: sda/1 failed', 'Backup sda 1 failed.txt'],
    ['备份失败', '备份失败.txt'],
    ['???', 'notice.txt'],
    [undefined, 'notice.txt'],
  ] as const) {
    await s.topics.accept(createDirectCall(), 'home', [{ text, priority: 'high', ...(title && { title }) }])
    const { data = '', file_name } = s.kept.at(-1)!
    const said = Buffer.from(data, 'base64').toString()
    expect([file_name, said.split('\n')[0]]).toEqual([name, title ?? text])
    expect(said.endsWith(text)).toBe(true)
  }
})

test('a key that is made again under its name by the same maker is the same sender; the owner and the panel end all', async () => {
  await using s = await setUp()
  const grant = { rights: ['notify'] as Right[], topics: ['home'] }
  const key: Principal = { kind: 'key', id: 'k1', name: 'server', grant }
  const say = async (by: Principal, notice: Partial<Notice> = {}) => {
    const said = { text: 'disk full', priority: 'default' as const, fingerprint: 'disk', ...notice }
    return (await s.topics.accept(createDirectCall({ by }), 'home', [said]))[0]!.id
  }
  const first = await say(key)
  expect(await say({ ...key, id: 'k2' })).toBe(first)
  const others: Principal[] = [
    { ...key, name: 'other' },
    { ...key, maker: 'k9' },
    { kind: 'open', id: 'home', grant },
  ]
  const ids = [first, ...(await Promise.all(others.map(by => say(by))))]
  expect(new Set(ids).size).toBe(4)
  const waiting = async () =>
    (await s.topics.show(owner, 'home')).notices.filter(({ name }) => name === 'disk full').length
  await say(others[0]!, { resolved: true })
  expect(await waiting()).toBe(3)
  const panel: Principal = { kind: 'panel', id: 'k3', name: 'operator', grant }
  await say(panel, { resolved: true })
  expect(await waiting()).toBe(0)
})

test('people are added, taken out and given hours of their own by name, also with a closed account', async () => {
  await using s = await setUp()
  const { topics } = s
  await s.store.join('home', [{ session: 'd', user_id: 'dAd@im.wechat' }])
  const dad = 'dAd@im.wechat'
  const peopleOf = async () => (await topics.show(owner, 'home')).people
  expect(await peopleOf()).toMatchObject([{ connected: false }, { user_id: dad, connected: false }])
  await topics.change(owner, { topic: 'home', user: dad, quiet: '22:00-06:00', answers: 2 })
  expect((await peopleOf())[1]).toMatchObject({ quiet: '22:00-06:00', answers: 2 })
  await topics.change(owner, { topic: 'home', user: dad, quiet: '' })
  expect((await peopleOf())[1]).not.toHaveProperty('quiet')
  await topics.change(owner, { topic: 'home', user: dad, time_zone: 'Asia/Shanghai' })
  await topics.change(owner, { topic: 'home', user: dad, time_zone: '' })
  expect((await peopleOf())[1]).toMatchObject({ answers: 2 })
  expect((await peopleOf())[1]).not.toHaveProperty('time_zone')
  for (const wrong of [
    { user: 'nobody', quiet: '' },
    { time_zone: '' },
    { user: dad, digest: true },
    { user: dad, paused_until: 1 },
    { remove: ['nobody'] },
    { remove: [dad, 'mUm@im.wechat'] },
    { user: dad, time_zone: 'Moon/Base' },
  ])
    expect(await failure(topics.change(owner, { topic: 'home', ...wrong }))).toMatchObject({
      code: 'invalid_arguments',
    })
  const many = Array.from({ length: 18 }, (_, nth) => ({ session: 's', user_id: `u${nth}@im.wechat` }))
  await s.store.join('home', many)
  // The one who is found is among them already, so nobody leaves for a refused change.
  await s.store.leave({ name: 'home', users: ['mUm@im.wechat'] })
  await s.store.join('home', [{ session: 's', user_id: 'last@im.wechat' }])
  expect(await failure(topics.change(owner, { topic: 'home', add: ['Mum'] }))).toMatchObject({ field: 'add' })
  await topics.change(owner, { topic: 'home', add: ['Mum'], remove: [dad] })
  expect((await peopleOf()).map(({ user_id }) => user_id)).not.toContain(dad)
  expect(await peopleOf()).toHaveLength(20)
})

test('where nothing runs, nothing is said to gather or to be on its way', async () => {
  const t = await openSqlite()
  await using _ = t
  const ports = {
    topics: t.store.topics,
    findRight: async () => ({ remaining: 10 }),
    findTopName: async () => 'top',
    isRunning: async () => false,
    findChat: async () => ({ session: 's', user_id: 'mUm@im.wechat' }),
    keepFile: async () => ({ kind: 'file', upload_id: 'kept' }) as const,
  }
  const topics = new Topics(ports, runtimeOf({ clock: t.clock }))
  await topics.add(owner, { name: '家', to: ['Mum'] })
  await topics.accept(createDirectCall(), '家', said)
  expect((await topics.show(owner, '家')).notices).toMatchObject([{ status: 'waiting', why: 'not_running' }])
  const [{ version } = { version: 0 }] = await t.store.topics.listPersons()
  const { notices } = await t.store.topics.read({ session: 's', user_id: 'mUm@im.wechat' })
  const bulletin = {
    session: 's',
    user_id: 'mUm@im.wechat',
    id: 'b',
    text: '',
    media: [],
    answers: 1,
    priority: 'high' as const,
  }
  const ids = notices.map(({ id }) => id)
  await t.store.topics.claim({ ...bulletin, notices: ids, missed: {}, names: {}, doubts: [] }, version)
  expect((await topics.show(owner, '家')).notices).toMatchObject([{ status: 'waiting', why: 'not_running' }])
  for (const name of ['a b', '', '家\u200b', 'x'.repeat(65), 'notify'])
    expect([name, await failure(topics.add(owner, { name, to: ['Mum'] }))]).toMatchObject([
      name,
      { code: 'invalid_arguments' },
    ])
})
