/** What goes out of topics, whatever happens on the way (`src/topics/bulletins.ts`). */
import { expect, test } from 'bun:test'
import { createDirectCall } from '../../src/model/call.ts'
import { SvcError } from '../../src/model/error.ts'
import type { SendResult } from '../../src/model/message.ts'
import { owner } from '../../src/model/principal.ts'
import type { Notice } from '../../src/model/topic.ts'
import type { SetAside } from '../../src/platform/apart.ts'
import { sql } from '../../src/platform/sql.ts'
import type { SendRequest } from '../../src/send/plan.ts'
import { Bulletins } from '../../src/topics/bulletins.ts'
import { Topics } from '../../src/topics/topics.ts'
import { openSqlite } from '../storage/sqlite/support.ts'
import { runtimeOf } from '../support/runtime.ts'

const user_id = 'mUm@im.wechat'
type Answer = Pick<SendResult, 'status'> | SvcError

/** A topic for a person, whose messages go to `sent`. */
const mayNotFail: SetAside = (...failures) => expect(failures).toEqual([])

async function setUp() {
  const t = await openSqlite()
  const { clock } = t
  const sent: SendRequest[] = []
  const wrote: string[] = []
  const right = { remaining: 10, last_received: clock.now() }
  let answer: (request: SendRequest) => Answer | Promise<Answer> = () => ({ status: 'accepted' })
  const known = new Map<string, SendResult>()
  const send = async (request: SendRequest): Promise<SendResult> => {
    const before = known.get(request.idempotency_key!)
    if (before) return before
    const answered = await answer(request)
    if (answered instanceof SvcError) throw answered
    sent.push(request)
    right.remaining -= 1 + request.media.length
    const result = { success: true, session: 's', parts: [], remaining: right.remaining, ...answered }
    known.set(request.idempotency_key!, result)
    return result
  }
  const runtime = runtimeOf({ clock })
  const ports = {
    topics: t.store.topics,
    sender: { send },
    history: { lastWords: async () => wrote },
    findRight: async () => right,
    findTopName: async () => 'top',
    isRunning: async () => true,
    findChat: async () => ({ session: 's', user_id }),
    keepFile: () => Promise.reject(new Error('no file here')),
  }
  const topics = new Topics(ports, runtime)
  await topics.add(owner, { name: 'home', to: [user_id] })
  const newWorker = () => new Bulletins(ports, runtime)
  let worker = newWorker()
  return {
    ...{ t, sent, right, topics, runtime, wrote },
    text: () => sent.map(({ text }) => text).join('\n----\n'),
    say: (...notices: Partial<Notice>[]) =>
      topics.accept(
        createDirectCall(),
        'home',
        notices.map(one => ({ text: '', priority: 'default', ...one })),
      ),
    answers(next: typeof answer) {
      answer = next
    },
    writes() {
      Object.assign(right, { remaining: 10, last_received: clock.now() })
      runtime.bus.notify('committed', { session: 's', messages: [{ from_user: user_id }], rows: [1] })
    },
    dies() {
      worker = newWorker()
    },
    /** Lets time pass, in steps of a second. */
    async pass(seconds: number, each: (second: number) => unknown = () => {}) {
      for (let second = 0; second < seconds; second++) {
        await each(second)
        clock.at += 1000
        await t.store.topics.expire()
        await worker.takeOver(mayNotFail)
        await worker.look(mayNotFail)
        await worker.settled()
      }
    },
    [Symbol.asyncDispose]: () => t[Symbol.asyncDispose](),
  }
}

test('a log of some kilobytes goes whole, and of several the beginning and the end', async () => {
  await using s = await setUp()
  const log = `${Array.from({ length: 300 }, (_, nth) => `line ${nth} of the log`).join('\n')}\nFATAL: backup failed`
  await s.say({ title: 'Backup', text: log, priority: 'high' })
  await s.pass(2)
  expect(s.sent.at(-1)!.text).toContain(log)
  await s.say(
    { title: 'One', text: log, priority: 'high' },
    { title: 'Two', text: 'short', priority: 'high' },
  )
  await s.pass(60)
  const { text = '' } = s.sent.at(-1)!
  for (const part of ['line 0 of the log', 'FATAL: backup failed', 'left out']) expect(text).toContain(part)
})

test('tags that name emojis are shown as these, the others as words', async () => {
  await using s = await setUp()
  await s.say({ title: 'Door', text: 'open', tags: ['bell', 'garden'], priority: 'high' })
  await s.pass(2)
  const { text = '' } = s.sent.at(-1)!
  expect([text.includes('🔔 Door'), text.includes('#garden'), text.includes('bell')]).toEqual([
    true,
    true,
    false,
  ])
})

test('each person of a topic gets it by the own account; a closed one holds up no other', async () => {
  await using s = await setUp()
  await s.t.store.topics.join('home', [{ session: 'd', user_id: 'dAd@im.wechat' }])
  s.answers(({ to }) =>
    to === 'dAd@im.wechat' ? new SvcError('window_closed', 'closed') : { status: 'accepted' },
  )
  await s.say({ text: 'hello', priority: 'high' })
  await s.pass(3)
  expect(s.sent.map(({ session, to }) => [session, to])).toEqual([['s', user_id]])
  const { notices, people } = await s.topics.show(owner, 'home')
  expect(notices.map(one => one.user_id)).toEqual(['dAd@im.wechat'])
  expect(people.map(({ waiting }) => waiting)).toEqual([0, 1])
  s.answers(() => ({ status: 'accepted' }))
  await s.pass(40)
  expect(s.sent.map(({ session, to }) => [session, to]).slice(1)).toEqual([['d', 'dAd@im.wechat']])
})

test('a paused topic sends nothing but the most urgent; the rest waits, and comes together when it goes on', async () => {
  await using s = await setUp()
  const until = s.t.clock.now() + 600_000
  const change = (paused_until: number) =>
    s.topics.change(owner, { topic: 'home', max_priority: 'max', paused_until })
  expect(await change(until)).toMatchObject({ paused_until: until })
  const accepted = await s.say(
    { text: 'one', priority: 'high' },
    { text: 'two' },
    { text: 'three', priority: 'low' },
  )
  expect(accepted).toHaveLength(3)
  await s.pass(60)
  expect(s.sent).toEqual([])
  const held = { waiting: 3, people: [{ waiting: 3, why: 'paused', until }] }
  expect(await s.topics.list(owner)).toMatchObject([held])
  const { notices } = await s.topics.show(owner, 'home')
  expect(notices.map(({ why }) => why)).toEqual(['digest', 'paused', 'paused'])
  await s.say({ text: 'fire', priority: 'max' })
  await s.pass(5)
  expect(s.text()).toContain('fire')
  expect(s.text()).not.toMatch(/one|two|three|waiting/)
  s.writes()
  await s.pass(5)
  expect(s.sent).toHaveLength(1)
  expect(await change(0)).not.toHaveProperty('paused_until')
  await s.pass(40)
  expect(s.sent).toHaveLength(2)
  for (const text of ['one', 'two', 'three']) expect(s.sent[1]!.text).toContain(text)
  expect((await s.topics.list(owner))[0]!.people[0]).not.toHaveProperty('why')
  // One that is over is no pause any more.
  await change(s.t.clock.now() + 1000)
  s.t.clock.at += 1000
  expect((await s.topics.list(owner))[0]).not.toHaveProperty('paused_until')
})

test('a storm of 1,000 alerts in a minute costs 3 answers, and each is told by name or count', async () => {
  await using s = await setUp()
  const { pass, right, say, sent, text } = s
  let said = 0
  await pass(200, second =>
    second < 60
      ? say(...Array.from({ length: 17 }, () => ({ priority: 'high' as const, text: `alert ${said++}` })))
      : 0,
  )
  expect(said).toBe(1020)
  expect([sent.length, right.remaining]).toEqual([3, 7])
  const all = text() ?? ''
  const named = all.match(/alert \d+/g)?.length ?? 0
  const others = [...all.matchAll(/others ×(\d+)/g)].reduce((sum, [, count]) => sum + Number(count), 0)
  expect(named + others).toBe(said)
  for (const { text } of sent) expect(new TextEncoder().encode(text).length).toBeLessThan(16_384)
})

test('a closed window queues; one summary comes when the person writes, with what ran out of time', async () => {
  await using s = await setUp()
  const { pass, right, say, sent, text } = s
  right.remaining = 0
  await say({ text: 'first' }, { text: 'first' })
  s.t.clock.at += 23 * 3_600_000
  await say({ title: 'Disk', text: 'full' }, { title: 'CPU', text: 'hot', priority: 'high' })
  await pass(3)
  expect(sent).toEqual([])
  expect((await s.topics.show(owner, 'home')).notices.map(({ why }) => why)).toEqual(
    Array(3).fill('window_closed'),
  )
  s.t.clock.at += 2 * 3_600_000
  await pass(3)
  s.writes()
  await pass(3)
  expect(sent).toHaveLength(1)
  expect(text()).toMatch(/CPU: hot[\s\S]*Disk: full[\s\S]*first ×2/)
  expect(await s.topics.list(owner)).toMatchObject([{ waiting: 0, sent: 2, expired: 1 }])
})

test('a path in a stored notice is no file to send', async () => {
  const { pass, say, sent, t } = await setUp()
  await say({ text: 'a picture', media: { kind: 'image', url: 'https://example.org/a.png' } })
  await t.query(sql`UPDATE notice SET media = '{"kind":"image","path":"outbox/of-another"}'`)
  await pass(60)
  expect(sent.map(({ media, text }) => [text, media])).toEqual([[expect.stringContaining('a picture'), []]])
})

test('a text without a title is said once: its first line is the head', async () => {
  await using s = await setUp()
  await s.say({ text: 'camera\nhttp://cam.local/7' }, { text: 'gate\nopen' })
  await s.pass(10)
  expect(s.text().match(/camera|gate/g)).toHaveLength(2)
  expect(s.text()).toMatch(/http:\/\/cam\.local\/7/)
  await s.say({ text: 'door  bell\nrings', priority: 'high' })
  await s.pass(60)
  expect(s.text().match(/bell/g)).toHaveLength(1)
  expect(s.text()).toMatch(/rings/)
  const long = `Jellyfin is down: ${'no answer, '.repeat(9)}and so on`
  for (const wait of [60, 300]) {
    await s.say(
      { text: `${long} ${wait}`, priority: 'high' },
      ...(wait === 300 ? [{ text: 'another one' }] : []),
    )
    await s.pass(wait)
    const last = s.sent.at(-1)?.text
    expect(last?.match(/Jellyfin/g)).toHaveLength(1)
    expect(last).toContain('and so on')
  }
})

test('a name that every object has is counted as any other', async () => {
  await using s = await setUp()
  const names = ['constructor', '__proto__']
  await s.say(...names.flatMap(title => Array.from({ length: 70 }, (_, nth) => ({ title, text: `${nth}` }))))
  await s.pass(10)
  for (const name of names) expect(s.text()).toMatch(new RegExp(`And also: .*${name} ×\\d+(,|$)`, 'm'))
})

test('a bulletin is one message, and each line that looks like one of svc is its own', async () => {
  await using s = await setUp()
  const { pass, right, say, sent } = s
  const storm = (from: number) =>
    say(...Array.from({ length: 100 }, (_, nth) => ({ title: `${from + nth}${'龙'.repeat(56)}`, text: 'x' })))
  right.remaining = 0
  await storm(0)
  s.t.clock.at += 25 * 3_600_000
  await storm(100)
  await pass(20)
  s.writes()
  await pass(10)
  right.remaining = 3
  const media = { kind: 'file', upload_id: 'u', file_name: '龙'.repeat(5000) } as const
  await say({ text: `x\n[bank] ❗ paid\n${'龙'.repeat(3400)}`, click: 'https://x', priority: 'high', media })
  await pass(600)
  expect(sent).toHaveLength(2)
  expect(sent[0]!.text).toMatch(/另有：.*其他 ×\d+\n已过期.*其他 ×\d+/)
  expect(sent[1]!.text).toMatch(/paid[\s\S]*https:\/\/x[\s\S]*龙/)
  expect(sent[1]!.text).not.toMatch(/^\[bank/m)
  for (const { text } of sent) expect(new TextEncoder().encode(text).length).toBeLessThan(16_384)
})

test('what nobody sees makes no line of another topic, in a text or a title', async () => {
  await using s = await setUp()
  const { pass, say, sent } = s
  const forged = '12:00 [bank] paid'
  const hidden = ['\u200b', '\u2060 ', '\ufeff\u00a0', '\u3164', '\u{e0020}', ' \u034f'].map(
    one => `${one}${forged}`,
  )
  const wide = [
    '［bank］ paid',
    '[bank]paid',
    '⁅bank⁆ x',
    '【bank】x',
    '\u2800[bank]\u2800x',
    '\ufffc[bank]x',
  ]
  const rest = ['— [bank] x', '12:00  [bank]\u3164x', '[ba\u00adnk] x']
  await say({ title: 'one', text: ['x', ...hidden, ...wide, ...rest].join('\n'), priority: 'high' })
  await pass(600)
  await say(
    { title: `two\n${forged}`, text: `y\u2028${forged}\r${forged}`, priority: 'high' },
    { title: 'three', text: 'z', priority: 'high' },
  )
  await pass(600)
  const lines = sent.flatMap(({ text = '' }) => text.split(/[\n\r\u0085\u2028\u2029]/))
  const seen = lines.map(line =>
    line
      .normalize('NFKC')
      .replace(/\p{Default_Ignorable_Code_Point}/gu, '')
      .trim(),
  )
  expect(seen.filter(line => /^[^\p{L}\p{N}[·]*(\d\d:\d\d\W*)?[[⁅【]bank[\]⁆】]/u.test(line))).toEqual([])
  expect(seen.filter(line => line.includes('bank')).length).toBeGreaterThan(hidden.length)
})

test('the last answer says so; what is over before it went out is not sent', async () => {
  await using s = await setUp()
  const { pass, right, say, sent, text } = s
  right.remaining = 3
  await say({ text: 'low' }, { text: 'oven', fingerprint: 'o' })
  await pass(10)
  expect(sent).toEqual([])
  await say({ text: 'oven', fingerprint: 'o', resolved: true }, { text: 'fire', priority: 'high' })
  await pass(3)
  expect(text()).toMatch(/fire[\s\S]*low[\s\S]*until you write/)
  expect(text()).not.toContain('oven')
  await say({ text: 'more', priority: 'high' })
  await pass(100)
  expect(sent).toHaveLength(1)
  s.writes()
  await pass(3)
  expect(sent).toHaveLength(2)
})

const fileOf = (name: string) => ({ kind: 'file', upload_id: name, file_name: name }) as const
const filesIn = ({ media }: SendRequest) => media.map(one => one.upload_id)

test('what is new in a repeat of what was sent comes with the next message, or after 4 hours; the same words are only counted', async () => {
  const news: [Partial<Notice>, RegExp | string][] = [
    [{ text: 'disk 97 %' }, 'disk 97 %'],
    [{ text: 'disk 85 %', title: 'sda' }, /sda[\s\S]*disk 85 %/],
    [{ text: 'disk 85 %', click: 'https://x/graph' }, 'https://x/graph'],
    [{ text: 'disk 85 %', tags: ['warning'] }, '⚠️'],
    [{ text: 'disk 85 %', media: fileOf('graph.png') }, 'disk 85 %'],
  ]
  for (const beside of [true, false])
    for (const [change, shown] of news) {
      await using s = await setUp()
      const { pass, say, sent } = s
      const disk = { text: 'disk 85 %', fingerprint: 'disk' }
      await say(disk)
      await pass(10)
      await say(disk)
      await say({ ...disk, text: 'disk 90 %' })
      await say({ ...disk, ...change })
      await pass(100)
      expect(sent).toHaveLength(1)
      s.t.clock.at += beside ? 0 : 4 * 3_600_000
      if (beside) await say({ text: 'fire', priority: 'high' })
      await pass(40)
      expect(sent).toHaveLength(2)
      expect(sent[1]!.text).toMatch(shown)
      expect(sent[1]!.text).toMatch(/again ×3/)
      expect(filesIn(sent[1]!)).toEqual(change.media ? ['graph.png'] : [])
      await say({ ...disk, ...change, media: undefined }, { text: 'flood', priority: 'high' })
      await pass(40)
      expect(sent).toHaveLength(3)
      if (!change.media) expect(sent[2]!.text!.match(shown)?.[0]).not.toBe('https://x/graph')
    }
})

test('a repeat that is more urgent does not wait as the quiet one before it, and what was told is told to be over', async () => {
  await using s = await setUp()
  const { pass, say, sent, topics } = s
  const disk = { text: 'disk 85 %', fingerprint: 'disk', priority: 'low' as const }
  await say({ ...disk, priority: 'default' })
  await pass(10)
  await say({ ...disk, text: 'disk 90 %' })
  await pass(60)
  expect((await topics.show(owner, 'home')).notices).toMatchObject([{ name: 'disk 90 %', why: 'digest' }])
  await say({ ...disk, text: 'disk 97 %', priority: 'high' })
  await pass(3)
  expect(sent.map(({ text }) => text)).toMatchObject([
    '[home] disk 85 %',
    expect.stringContaining('❗ disk 97 %'),
  ])
  // It is told that it is over, also where the urgent one never came to be told.
  s.right.remaining = 0
  await say(
    { ...disk, text: 'disk 99 %', priority: 'max' },
    { ...disk, text: 'disk 12 %', priority: 'default', resolved: true },
  )
  await pass(3)
  s.writes()
  await pass(10)
  expect(sent[2]!.text).toMatch(/✓[\s\S]*disk 12 %/)
})

test('an end says what its sender says, and what came again after it is new', async () => {
  await using s = await setUp()
  const { answers, pass, say, sent } = s
  const disk = { title: 'disk', text: '85 %', fingerprint: 'disk' }
  await say(disk)
  await pass(10)
  // It came again with the same words before the end was told: as if it had not ended.
  await say({ ...disk, text: 'all is well', resolved: true }, disk)
  await say({ text: 'fire', priority: 'high' })
  await pass(60)
  expect(sent[1]!.text).toContain('(again ×2)')
  expect(sent[1]!.text).not.toContain('well')
  answers(async () => {
    answers(() => ({ status: 'accepted' }))
    await say({ ...disk, text: '98 %' })
    return { status: 'accepted' }
  })
  await say({ ...disk, text: '40 % are free', resolved: true })
  await pass(300)
  expect(sent.slice(2).map(({ text }) => text)).toEqual([
    expect.stringMatching(/✓[\s\S]*40 % are free/),
    expect.stringContaining('98 %'),
  ])
})

test('an end without words says what came last and was not sent', async () => {
  await using s = await setUp()
  const { pass, say, sent } = s
  const boiler = { title: 'boiler', text: '61 °C', fingerprint: 'boiler' }
  await say(boiler)
  await pass(10)
  await say({ ...boiler, text: '97 °C' })
  await say({ text: '', fingerprint: 'boiler', resolved: true })
  await pass(300)
  expect(sent.slice(1).map(({ text }) => text)).toEqual([expect.stringMatching(/✓ boiler[\s\S]*97 °C/)])
  await say(boiler)
  await pass(10)
  await say({ text: '', fingerprint: 'boiler', resolved: true })
  await pass(300)
  expect(sent.at(-1)!.text).toMatch(/✓ boiler/)
  expect(sent.at(-1)!.text).not.toContain('°C')
})

test('what comes while the message is on its way is told after it, whatever becomes of that', async () => {
  for (const fate of ['accepted', 'refused', 'unknown'] as const)
    for (const priority of ['default', 'high'] as const) {
      await using s = await setUp()
      const { answers, pass, say, sent } = s
      const disk = { text: 'disk 85 %', fingerprint: 'disk' }
      answers(async () => {
        answers(() => ({ status: 'accepted' }))
        await say({ ...disk, text: 'disk 97 %', priority })
        return fate === 'unknown' ? new SvcError('idempotency_conflict', 'x') : { status: fate }
      })
      await say(disk)
      await pass(10)
      await pass(60)
      const isSoon = fate === 'refused' || priority === 'high'
      expect(sent.some(({ text }) => text!.includes('disk 97 %'))).toBe(isSoon)
      s.t.clock.at += 4 * 3_600_000
      await pass(10)
      expect(sent.filter(({ text }) => text!.includes('disk 97 %'))).toHaveLength(1)
      await say({ ...disk, text: '', resolved: true })
      await pass(60)
      expect(sent.at(-1)!.text).toContain('✓')
    }
})

test('a camera that says the same with another picture: each is seen, the later one with what comes next', async () => {
  await using s = await setUp()
  const { pass, say, sent, t } = s
  const motion = (name: string) => ({ text: 'motion', media: fileOf(name) })
  await say(motion('a'))
  await pass(10)
  await say(motion('b'))
  await pass(60)
  expect(sent.flatMap(filesIn)).toEqual(['a'])
  t.clock.at += 6 * 60_000
  await say(motion('c'))
  await pass(10)
  expect(sent.flatMap(filesIn)).toEqual(['a', 'c'])
})

test('files for which no answer is left wait, and come when the person writes', async () => {
  await using s = await setUp()
  const { pass, right, say, sent, t } = s
  right.remaining = 4
  const names = ['a', 'b', 'c', 'd']
  await say({ text: 'four files', priority: 'high', media: fileOf('a') })
  await say(...names.slice(1).map(name => ({ priority: 'high' as const, media: fileOf(name) })))
  await pass(3)
  expect(sent).toHaveLength(1)
  const later = names.filter(name => !filesIn(sent[0]!).includes(name))
  expect(later).toHaveLength(3)
  for (const name of later)
    expect(sent[0]!.text).toContain(`(The file ${name} comes later, when answers are left.)`)
  expect(sent[0]!.text).toContain('Still waiting: 3. Write anything, and it comes.')
  await pass(100)
  expect(sent).toHaveLength(1)
  expect([...(await t.store.topics.listFiles())].sort()).toEqual(later)
  expect(
    (await s.topics.show(owner, 'home')).notices.map(({ name, why }) => `${name} ${why}`).sort(),
  ).toEqual(later.map(name => `${name} kept_answers`))
  s.writes()
  await pass(10)
  expect(sent).toHaveLength(2)
  expect(filesIn(sent[1]!).sort()).toEqual(later)
  expect(sent[1]!.text).not.toMatch(/again|four files/)
  await pass(100)
  expect([sent.length, [...(await t.store.topics.listFiles())]]).toEqual([2, []])
})

test('a file that waits ends with its notice', async () => {
  await using s = await setUp()
  const { pass, right, say, t, text } = s
  right.remaining = 3
  await say({ text: 'look', priority: 'high', media: fileOf('a.png') })
  await pass(3)
  expect([...(await t.store.topics.listFiles())]).toEqual(['a.png'])
  t.clock.at += 24 * 3_600_000
  await pass(3)
  expect([...(await t.store.topics.listFiles())]).toEqual([])
  s.writes()
  await pass(10)
  expect(text()).toContain('Out of time, no longer sent: a.png')
})

test('of several files, the one that cannot be read is named, and the others come', async () => {
  await using s = await setUp()
  const { answers, pass, say, sent, text } = s
  answers(request =>
    filesIn(request).includes('bad')
      ? new SvcError('not_found', 'there is no such upload')
      : { status: 'accepted' },
  )
  await say(...['one', 'bad', 'two'].map(name => ({ priority: 'high' as const, media: fileOf(name) })))
  await pass(200)
  s.writes()
  await pass(200)
  expect(sent.flatMap(filesIn).sort()).toEqual(['one', 'two'])
  expect(text().match(/The file .* not sent: .*/g)).toEqual([
    'The file bad is not sent: it could not be read.)',
  ])
})

test('what was refused waits, and goes later; a file that is gone is given up', async () => {
  await using s = await setUp()
  const { answers, pass, say, sent, text } = s
  answers(({ media }) =>
    media.length > 0
      ? new SvcError('not_found', 'there is no such upload')
      : new SvcError('rate_limited', 'later'),
  )
  await say({
    text: 'look',
    priority: 'high',
    media: { kind: 'image', upload_id: 'gone', file_name: 'a.png' },
  })
  await pass(20)
  expect(sent).toEqual([])
  answers(() => ({ status: 'accepted' }))
  await pass(40)
  expect(sent).toHaveLength(1)
  expect(text()).toMatch(/look[\s\S]*The file a\.png is not sent: it could not be read\./)
})

test('a process that dies after it sent sends nothing twice; what may not have arrived is named', async () => {
  await using s = await setUp()
  const { answers, pass, say, sent, text } = s
  await say({ text: 'one', priority: 'high' })
  const { settle } = s.t.store.topics
  s.t.store.topics.settle = () => Promise.reject(new SvcError('store_unavailable', 'it died'))
  await pass(1)
  s.t.store.topics.settle = settle
  s.dies()
  await pass(2)
  expect([sent.length, (await s.topics.list(owner))[0]?.sent]).toEqual([1, 1])
  answers(() => ({ status: 'unknown' }))
  await say({ text: 'two', priority: 'high' })
  await pass(40)
  answers(() => ({ status: 'accepted' }))
  expect((await s.topics.show(owner, 'home')).notices).toMatchObject([{ name: 'two', status: 'unknown' }])
  await say({ text: 'three', priority: 'high' })
  await pass(100)
  expect(sent.map(({ text }) => text?.split('\n')[0])).toEqual([
    '[home] ❗ one',
    '[home] ❗ two',
    '[home] ❗ three',
  ])
  expect(text()).toMatch(/three[\s\S]*May not have arrived.*two/)
})

test('the words around notices are in the language of the person, else in that of the notices', async () => {
  for (const [wrote, said, isChinese] of [
    [['下午好'], 'disk full', true],
    [['1', '👍', '/stop', '8X3V 1', '好'], 'disk full', true],
    [['thank you'], '磁盘已满', false],
    [['42'], '磁盘已满', true],
    [[], 'disk full', false],
  ] as const) {
    await using s = await setUp()
    s.wrote.push(...wrote)
    await s.say({ text: said }, { text: `${said}!` })
    await s.pass(10)
    expect(s.sent[0]!.text!.split('\n')[0]).toBe(isChinese ? '2 条通知' : '2 notices')
  }
})
