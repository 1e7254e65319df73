/** The accounts of OpenClaw's WeChat plugin come over, and its folder stays as it was. */
import { expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { contexts, fingerprint, folders, json, move, openClawAccount, told } from './profile.ts'

const savedAt = '2026-09-01T08:00:00.000Z'
const account = (more: object = {}) => ({
  ...{
    token: 'b0f5860fdecb@im.bot:pretend',
    savedAt,
    baseUrl: 'https://idc.weixin.example',
    userId: 'oA@im.wechat',
  },
  ...more,
})

async function index(from: string, ids: unknown): Promise<void> {
  await mkdir(join(from, 'openclaw-weixin'), { recursive: true })
  await writeFile(
    join(from, 'openclaw-weixin', 'accounts.json'),
    typeof ids === 'string' ? ids : JSON.stringify(ids),
  )
}

test('accounts, cursors and context tokens come over under the names of the settings', async () => {
  await using at = await folders()
  const { from, into } = at
  await index(from, ['b0f5860fdecb-im-bot', 'c1f5860fdecb-im-bot'])
  await openClawAccount(from, 'b0f5860fdecb-im-bot', {
    account: account(),
    sync: { get_updates_buf: 'buf-b' },
    contexts: { 'oA@im.wechat': 'ctx-a', 'oB@im.wechat': '', 'o组@im.wechat': 'ctx-c' },
  })
  await openClawAccount(from, 'c1f5860fdecb-im-bot', {
    account: { token: 'opaque' },
    sync: { get_updates_buf: '' },
  })
  const channels = {
    'openclaw-weixin': { accounts: { 'b0f5860fdecb-im-bot': { name: '客服', enabled: true } } },
  }
  await writeFile(join(from, 'openclaw.json'), JSON.stringify({ channels }))
  const before = fingerprint(from)
  await move('openclaw', at, { dryRun: true })
  expect(existsSync(into)).toBe(false)
  const { findings, plan } = await move('openclaw', at)
  expect(fingerprint(from)).toEqual(before)
  expect(plan.history).toBeUndefined()
  expect(existsSync(join(into, 'messages.db'))).toBe(false)
  expect(told(findings, 'problem')).toEqual([])
  expect(json(into, '客服', 'token.json')).toEqual({
    ...{
      bot_id: 'b0f5860fdecb@im.bot',
      token: 'b0f5860fdecb@im.bot:pretend',
      base_url: 'https://idc.weixin.example',
    },
    ...{ user_id: 'oA@im.wechat', cursor: 'buf-b', created_at: Date.parse(savedAt) },
  })
  // No times are known, so none are made up.
  expect(contexts(into, '客服')).toEqual({
    'oA@im.wechat': { token: 'ctx-a', used: 0, first_seen: 0 },
    'o组@im.wechat': { token: 'ctx-c', used: 0, first_seen: 0 },
  })
  expect(told(findings, 'warning').join()).toContain('does not note when users wrote')
  expect(json(into, 'c1f5860fdecb', 'token.json')).toMatchObject({
    ...{
      bot_id: 'c1f5860fdecb@im.bot',
      token: 'opaque',
      base_url: 'https://ilinkai.weixin.qq.com',
      cursor: '',
    },
  })
  const again = await move('openclaw', at)
  expect([...again.applied.sessions.values()]).toEqual([
    { login: 'kept', users: 0 },
    { login: 'kept', users: 0 },
  ])
})

test('ids in small letters, as a fork writes them: the own user gets the true one back, the others are told', async () => {
  await using at = await folders()
  const { from, into } = at
  await index(from, ['b0f5860fdecb-im-bot'])
  await openClawAccount(from, 'b0f5860fdecb-im-bot', {
    account: account(),
    contexts: { 'oa@im.wechat': 'ctx-a', 'ob@im.wechat': 'ctx-b' },
  })
  const { findings } = await move('openclaw', at)
  expect(contexts(into, 'b0f5860fdecb')).toEqual({
    'oA@im.wechat': { token: 'ctx-a', used: 0, first_seen: 0 },
    'ob@im.wechat': { token: 'ctx-b', used: 0, first_seen: 0 },
  })
  expect(told(findings, 'warning').filter(text => text.includes('small letters'))).toHaveLength(1)
})

test('files under the id of the bot itself, and the one cursor and token of the first versions, are found', async () => {
  await using at = await folders()
  const { from } = at
  await index(from, ['b0f5860fdecb-im-bot'])
  await openClawAccount(from, 'b0f5860fdecb@im.bot', { contexts: { 'oA@im.wechat': 'ctx-a' } })
  const [credentials, sync] = [
    join(from, 'credentials', 'openclaw-weixin'),
    join(from, 'agents', 'default', 'sessions', '.openclaw-weixin-sync'),
  ]
  for (const folder of [credentials, sync]) await mkdir(folder, { recursive: true })
  await writeFile(join(credentials, 'credentials.json'), JSON.stringify({ token: 'B0F5860fdecb@im.bot:old' }))
  await writeFile(join(sync, 'default.json'), JSON.stringify({ get_updates_buf: 'old-buf' }))
  const { findings } = await move('openclaw', at)
  expect(told(findings, 'problem')).toEqual([])
  // As the token spells it: ids are told apart by case.
  expect(json(at.into, 'b0f5860fdecb', 'token.json')).toMatchObject({
    ...{ bot_id: 'B0F5860fdecb@im.bot', token: 'B0F5860fdecb@im.bot:old', cursor: 'old-buf' },
  })
  expect(contexts(at.into, 'b0f5860fdecb')).toMatchObject({ 'oA@im.wechat': { token: 'ctx-a' } })

  // With a second account both may be the other one's.
  await index(from, ['b0f5860fdecb-im-bot', 'c1f5860fdecb-im-bot'])
  await openClawAccount(from, 'c1f5860fdecb-im-bot', { account: account({ token: 'c' }) })
  const two = await move('openclaw', { from, into: join(at.root, 'two') })
  expect(two.plan.sessions.map(({ source }) => [source.bot_id, source.cursor])).toEqual([
    ['c1f5860fdecb@im.bot', ''],
  ])
  expect(told(two.findings, 'problem').join()).toContain('account b0f5860fdecb-im-bot: its file is missing')
  expect(told(two.findings, 'warning').join()).toContain('account c1f5860fdecb-im-bot: its cursor is missing')
})

test('damaged files are told without their content, and the rest comes over', async () => {
  await using at = await folders()
  const { from } = at
  await index(from, ['["b0f5'].join())
  await openClawAccount(from, 'b0f5860fdecb-im-bot', { account: account(), sync: '{', contexts: '[1]' })
  await openClawAccount(from, 'c1f5860fdecb-im-bot', { account: '{"token": "sec' })
  await writeFile(join(from, 'openclaw.json'), '{ // by hand\n channels: {} }')
  const { findings, plan } = await move('openclaw', at)
  const problems = told(findings, 'problem')
  expect(problems).toContainEqual(expect.stringContaining('accounts.json does not parse'))
  expect(problems).toContainEqual(
    expect.stringContaining('account c1f5860fdecb-im-bot: its file does not parse'),
  )
  expect(problems).toContainEqual(
    expect.stringContaining('account b0f5860fdecb-im-bot: its file of context tokens'),
  )
  expect(problems.join()).not.toContain('sec')
  expect(told(findings, 'warning')).toContainEqual(expect.stringContaining('its cursor does not parse'))
  expect(told(findings, 'note')).toContainEqual(expect.stringContaining('openclaw.json does not parse'))
  expect(plan.sessions.map(({ name }) => name)).toEqual(['b0f5860fdecb'])
})

test('settings that svc has otherwise are told; accounts that are not listed stay; ids lead nowhere else', async () => {
  await using at = await folders()
  const { from } = at
  await index(from, ['b0f5860fdecb-im-bot', '../../elsewhere', '', 7])
  await openClawAccount(from, 'b0f5860fdecb-im-bot', { account: account() })
  await openClawAccount(from, 'c1f5860fdecb-im-bot', { account: account() })
  const own = { name: 'a', enabled: false, cdnBaseUrl: 'https://cdn.example', routeTag: 3 }
  await writeFile(join(from, 'openclaw.json'), JSON.stringify({ channels: { 'openclaw-weixin': own } }))
  const { findings, plan } = await move('openclaw', at)
  expect(plan.sessions.map(({ name }) => name)).toEqual(['a'])
  const text = told(findings, 'warning').join()
  for (const part of ['is switched off in OpenClaw', 'a CDN of its own', 'a routeTag'])
    expect(text).toContain(part)
  expect(told(findings, 'note').join()).toContain('no longer lists do not come over: c1f5860fdecb-im-bot')
})

test('a running gateway is seen by its lock, a dead one is not', async () => {
  await using at = await folders()
  await index(at.from, ['b0f5860fdecb-im-bot'])
  await openClawAccount(at.from, 'b0f5860fdecb-im-bot', { account: account() })
  const locks = join(tmpdir(), process.getuid ? `openclaw-${process.getuid()}` : 'openclaw')
  const made = !existsSync(locks)
  await mkdir(locks, { recursive: true })
  const lock = join(locks, `gateway.${crypto.randomUUID().slice(0, 8)}.lock`)
  const write = (pid: number) =>
    writeFile(lock, JSON.stringify({ pid, createdAt: savedAt, configPath: join(at.from, 'openclaw.json') }))
  try {
    await write(process.pid)
    const { plan, findings } = await move('openclaw', at, { dryRun: true })
    expect(plan.running).toBe(true)
    expect(told(findings, 'warning')).toContain(`OpenClaw is running (process ${process.pid})`)
    const dead = Bun.spawn(['true'])
    await dead.exited
    await write(dead.pid)
    expect((await move('openclaw', at, { dryRun: true })).plan.running).toBe(false)
  } finally {
    await rm(made ? locks : lock, { recursive: true, force: true })
  }
})
