/** What is in svc already, names that svc does not allow, and folders that cannot be moved from or to. */
import { expect, test } from 'bun:test'
import { existsSync, symlinkSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { toSafeSessionName } from '../../src/migrate/target.ts'
import { normalizeSessionName } from '../../src/model/session.ts'
import { openLock } from '../../src/platform/lock.ts'
import { codeOf, failure } from '../support/failure.ts'
import { given } from '../support/given.ts'
import {
  contexts,
  fingerprint,
  folders,
  json,
  move,
  rowsOf,
  seconds,
  told,
  weiLinkLog,
  weiLinkSession,
} from './profile.ts'

const it = given(folders)

const now = Date.now()
const botA = 'aaaaaaaaaaaa@im.bot'
const botB = 'bbbbbbbbbbbb@im.bot'

/** A session that svc has. */
async function ours(into: string, name: string, token: object, users?: object): Promise<void> {
  await mkdir(join(into, name), { recursive: true, mode: 0o700 })
  const whole = { base_url: 'https://ours.example', cursor: 'our cursor', created_at: now - 1000, ...token }
  await writeFile(join(into, name, 'token.json'), JSON.stringify(whole))
  if (users) await writeFile(join(into, name, 'contexts.json'), JSON.stringify(users))
}

test('names that svc does not allow become the nearest that it does', () => {
  for (const [given, wanted] of [
    ['work', 'work'],
    ['工作', '工作'],
    ['my bot', 'my-bot'],
    ['.hidden', 'hidden'],
    ['客服 😀 (1)', '客服-1'],
    ['a.', 'a'],
    ['media', '_media'],
    ['Sandbox', '_Sandbox'],
    ['messages.db', '_messages.db'],
    ['CON', '_CON'],
    ['😀', 'session'],
    ['../..', 'session'],
    ['e\u0301te\u0301', 'été'],
    ['x'.repeat(100), 'x'.repeat(60)],
  ] as const) {
    expect(toSafeSessionName(given)).toBe(wanted)
    expect(normalizeSessionName(wanted)).toBe(wanted)
  }
  for (const long of ['工'.repeat(100), '\u{20000}'.repeat(64), `${'-'.repeat(70)}a`]) {
    expect(() => normalizeSessionName(`${toSafeSessionName(long)}-12`)).not.toThrow()
  }
})

it('a login that svc has stays as it is, whatever its name; of each user the newer context stays', async at => {
  await ours(
    at.into,
    'renamed',
    { bot_id: botA, token: `${botA}:pretend` },
    {
      'both@im.wechat': { token: 'ours', received_at: now - 10, used: 2, first_seen: now - 500 },
      'theirs-newer@im.wechat': {
        token: 'ours',
        received_at: now - 900,
        used: 9,
        last_sent_at: now - 5,
        first_seen: now - 900,
      },
      'timeless@im.wechat': { token: 'ours', received_at: now - 10, used: 0, first_seen: 1 },
    },
  )
  await weiLinkSession(at.from, 'work', {
    ...{ bot: botA, cursor: 'their cursor', created: now },
    contexts: {
      'both@im.wechat': { t: 'theirs', ts: seconds(now - 800), first_seen: seconds(now - 5000) },
      'theirs-newer@im.wechat': { t: 'theirs', ts: seconds(now - 100), sc: 1 },
      'timeless@im.wechat': { t: 'theirs' },
      'new@im.wechat': { t: 'theirs', ts: seconds(now - 100) },
    },
  })
  const token = json(at.into, 'renamed', 'token.json')
  const { plan, findings, applied } = await move('weilink', at)
  expect(plan.sessions).toMatchObject([{ name: 'renamed', action: 'kept' }])
  expect(applied.sessions.get('renamed')).toEqual({ login: 'kept', users: 3 })
  expect(told(findings, 'note').join()).toMatch(/"work".*"renamed"/)
  expect(json(at.into, 'renamed', 'token.json')).toEqual(token)
  expect(contexts(at.into, 'renamed')).toEqual({
    'both@im.wechat': { token: 'ours', received_at: now - 10, used: 2, first_seen: now - 5000 },
    'theirs-newer@im.wechat': {
      ...{ token: 'theirs', received_at: now - 100, used: 1, last_sent_at: now - 5, first_seen: now - 900 },
    },
    'timeless@im.wechat': { token: 'ours', received_at: now - 10, used: 0, first_seen: 1 },
    'new@im.wechat': { token: 'theirs', received_at: now - 100, used: 0, first_seen: now - 100 },
  })
  expect(existsSync(join(at.into, 'work'))).toBe(false)
})

test('of two logins of one bot the newer one is taken; an expired one gives way', async () => {
  for (const [older, wins] of [
    [{ created_at: now - 1000 }, 'theirs'],
    [{ created_at: now + 1000 }, 'ours'],
    [{ created_at: now + 1000, expired_at: now }, 'theirs'],
  ] as const) {
    await using at = await folders()
    await ours(at.into, 'work', { bot_id: botA, token: 'ours', note: 'kept', ...older })
    await weiLinkSession(at.from, 'work', {
      bot: botA,
      token: 'theirs',
      cursor: 'their cursor',
      created: now,
    })
    const { applied } = await move('weilink', at)
    const file = json(at.into, 'work', 'token.json')
    expect(file).toMatchObject({
      token: wins,
      note: 'kept',
      cursor: wins === 'theirs' ? 'their cursor' : 'our cursor',
    })
    expect(applied.sessions.get('work')).toMatchObject({ login: wins === 'theirs' ? 'renewed' : 'kept' })
    if (wins === 'theirs') expect(file.expired_at).toBeUndefined()
  }
})

it('the name of another bot, and whatever else has a name, is left to it', async at => {
  await ours(at.into, 'Work', { bot_id: botB, token: 'b' })
  await writeFile(join(at.into, 'work-2'), 'a file')
  await writeFile(join(at.into, '.default_session'), 'Work\n')
  const before = fingerprint(join(at.into, 'Work'))
  await weiLinkSession(at.from, 'work', { bot: botA })
  await weiLinkSession(at.from, 'my bot', { bot: 'cccccccccccc@im.bot' })
  await weiLinkSession(at.from, 'my-bot', { bot: 'dddddddddddd@im.bot' })
  await writeFile(join(at.from, '.default_session'), 'work')
  using log = weiLinkLog(at.from)
  log.add({ message_id: '1', text: 'hi', at: now, bot: botA })
  const { findings, plan } = await move('weilink', at)
  expect(plan.sessions.map(({ source, name }) => [source.name, name])).toEqual([
    ['my bot', 'my-bot'],
    ['my-bot', 'my-bot-2'],
    ['work', 'work-3'],
  ])
  expect(fingerprint(join(at.into, 'Work'))).toEqual(before)
  expect((await rowsOf(at.into))[0]).toMatchObject({ session: 'work-3' })
  expect(told(findings, 'warning')).toContainEqual(
    expect.stringContaining('"work" will be "work-3" in svc: svc has something else under the name "work"'),
  )
  expect(told(findings, 'note')).toContainEqual(expect.stringContaining('svc keeps its own default session'))
  expect(await Bun.file(join(at.into, '.default_session')).text()).toBe('Work\n')
  // Where it went the first time, it goes again.
  expect((await move('weilink', at)).plan.sessions.map(({ name, action }) => [name, action])).toEqual([
    ['my-bot', 'kept'],
    ['my-bot-2', 'kept'],
    ['work-3', 'kept'],
  ])
})

it('a folder that a move or a logout left half done takes no name, and what lies in it is not taken over', async at => {
  await mkdir(join(at.into, 'work'), { recursive: true, mode: 0o700 })
  await writeFile(
    join(at.into, 'work', 'contexts.json'),
    JSON.stringify({ 'x@im.wechat': { token: 'of whom?' } }),
  )
  await writeFile(join(at.into, 'work', 'token.json.0123456789ab.tmp'), '{"bot')
  await weiLinkSession(at.from, 'work', { bot: botA })
  const { plan } = await move('weilink', at)
  expect(plan.sessions).toMatchObject([{ name: 'work', action: 'added' }])
  expect(contexts(at.into, 'work')).toEqual({})
})

it('two sessions with one bot are one: that of the newer login', async at => {
  await weiLinkSession(at.from, 'copy', { bot: botA, token: 'old', created: now - 5000 })
  await weiLinkSession(at.from, 'work', { bot: botA, token: 'new', created: now })
  const { plan, findings } = await move('weilink', at)
  expect(plan.sessions).toMatchObject([{ name: 'work', source: { token: 'new' } }])
  expect(told(findings, 'note').join()).toMatch(/"copy".*"work"/)
})

it('an address that is none becomes the usual one', async at => {
  await weiLinkSession(at.from, 'a', { bot: botA, base_url: 'file:///etc' })
  await weiLinkSession(at.from, 'b', { bot: botB, base_url: 'https://idc.example/' })
  const { findings } = await move('weilink', at)
  expect(json(at.into, 'a', 'token.json').base_url).toBe('https://ilinkai.weixin.qq.com')
  expect(json(at.into, 'b', 'token.json').base_url).toBe('https://idc.example')
  expect(told(findings, 'warning').join()).toContain('its API address cannot be used')
})

it('a target that is the source, lies in it, or is the sandbox’s is refused, and so is a source with nothing in it', async at => {
  await weiLinkSession(at.from, 'a', { bot: botA })
  const link = join(at.root, 'link')
  symlinkSync(at.from, link)
  const before = fingerprint(at.from)
  for (const into of [at.from, join(at.from, 'svc'), join(link, 'deep', 'svc')]) {
    expect(await codeOf(move('weilink', { from: at.from, into }))).toBe('invalid_arguments')
  }
  expect(fingerprint(at.from)).toEqual(before)
  await mkdir(join(at.into, 'sandbox'), { recursive: true })
  for (const dryRun of [{}, { dryRun: true as const }]) {
    expect(await failure(move('weilink', at, dryRun))).toMatchObject({
      code: 'invalid_arguments',
      message: expect.stringContaining(at.into),
    })
  }
  const empty = join(at.root, 'empty')
  await mkdir(empty)
  for (const program of ['weilink', 'openclaw'] as const) {
    for (const from of [empty, join(at.root, 'absent')]) {
      expect(await codeOf(move(program, { from, into: join(at.root, 'x') }))).toBe('not_found')
    }
  }
  expect(existsSync(join(at.root, 'x'))).toBe(false)
})

it('while WeiLink polls nothing is moved, and a dry run says so', async at => {
  await weiLinkSession(at.from, 'a', { bot: botA })
  const path = join(at.from, '.poll.lock')
  // WeiLink's lock is the kernel's, on a file without content.
  const lock = await openLock(path, { kind: 'flock' })
  await writeFile(path, '')
  expect(await lock.tryLock()).toBe(true)
  try {
    const before = fingerprint(at.from)
    const { findings } = await move('weilink', at, { dryRun: true })
    expect(told(findings, 'warning').join()).toContain('WeiLink is running')
    expect(await failure(move('weilink', at))).toMatchObject({ code: 'poll_lock_held' })
    expect(existsSync(at.into)).toBe(false)
    expect(fingerprint(at.from)).toEqual(before)
  } finally {
    await lock.close()
  }
  expect((await move('weilink', at)).plan.running).toBe(false)
})

it('more messages than svc keeps: the oldest stay behind, and none of svc’s own is pushed out', async at => {
  await weiLinkSession(at.from, 'a', { bot: botA })
  using log = weiLinkLog(at.from)
  log.add(
    ...Array.from({ length: 30 }, (_, i) => ({ message_id: String(i + 1), text: `m${i + 1}`, at: now + i })),
  )
  const { applied, findings } = await move('weilink', at, { storeMaxCount: 20 })
  expect(applied.history).toEqual({ added: 20, leftOut: 10 })
  expect((await rowsOf(at.into)).map(({ text }) => text)).toEqual(
    Array.from({ length: 20 }, (_, i) => `m${i + 11}`),
  )
  expect(told(findings, 'problem').join()).toContain('oldest messages that were not moved: 10.')
  // With more room what was left out comes after.
  expect((await move('weilink', at, { storeMaxCount: 0 })).applied.history).toEqual({ added: 10, leftOut: 0 })
  expect(await rowsOf(at.into)).toHaveLength(30)
})
