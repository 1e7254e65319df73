/** The accounts of OpenClaw's WeChat plugin come over, and its folder stays as it was. */
import { expect } from 'bun:test'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { given } from '../support/given.ts'
import { contexts, fingerprint, folders, json, move, openClawAccount, told } from './profile.ts'

const it = given(folders)

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

it('accounts, cursors and context tokens come over under the names of the settings', async at => {
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
  expect(told(findings, 'warning').join()).toContain('does not store when users wrote')
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

it('ids in small letters, as a fork writes them: the own user gets the true one back, the others are told', async at => {
  const { from, into } = at
  await index(from, ['b0f5860fdecb-im-bot'])
  await openClawAccount(from, 'b0f5860fdecb-im-bot', {
    account: account(),
    sync: { get_updates_buf: 'buf-b' },
    contexts: { 'oa@im.wechat': 'ctx-a', 'ob@im.wechat': 'ctx-b' },
  })
  const { findings } = await move('openclaw', at)
  expect(contexts(into, 'b0f5860fdecb')).toEqual({
    'oA@im.wechat': { token: 'ctx-a', used: 0, first_seen: 0 },
    'ob@im.wechat': { token: 'ctx-b', used: 0, first_seen: 0 },
  })
  expect(told(findings, 'warning').filter(text => text.includes('lower case'))).toHaveLength(1)
})

it('damaged files are told without their content, and the rest comes over', async at => {
  const { from } = at
  await index(from, ['b0f5860fdecb-im-bot', 'c1f5860fdecb-im-bot'])
  await openClawAccount(from, 'b0f5860fdecb-im-bot', { account: account(), sync: '{', contexts: '[1]' })
  await openClawAccount(from, 'c1f5860fdecb-im-bot', { account: '{"token": "sec' })
  await writeFile(join(from, 'openclaw.json'), '{ // by hand\n channels: {} }')
  const { findings, plan } = await move('openclaw', at)
  const problems = told(findings, 'problem')
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
  await index(from, '["b0f5')
  const none = await move('openclaw', at)
  expect(told(none.findings, 'problem')).toEqual([expect.stringContaining('accounts.json does not parse')])
  expect(none.plan.sessions).toEqual([])
})

it('an account that is switched off is told; accounts that are not listed stay; ids lead nowhere else', async at => {
  const { from } = at
  await index(from, ['b0f5860fdecb-im-bot', '../../elsewhere', '', 7])
  await openClawAccount(from, 'b0f5860fdecb-im-bot', { account: account() })
  await openClawAccount(from, 'c1f5860fdecb-im-bot', { account: account() })
  const accounts = { 'b0f5860fdecb-im-bot': { name: 'a', enabled: false } }
  await writeFile(
    join(from, 'openclaw.json'),
    JSON.stringify({ channels: { 'openclaw-weixin': { accounts } } }),
  )
  const { findings, plan } = await move('openclaw', at)
  expect(plan.sessions.map(({ name }) => name)).toEqual(['a'])
  expect(told(findings, 'warning').join()).toContain('is disabled in OpenClaw')
})
