/** `svc key`: what is typed, what is shown, and what the first key changes. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { Svc } from '../../src/index.ts'
import { presets } from '../../src/model/access.ts'
import { svc } from '../support/command.ts'
import { folderOfTest } from '../support/folder.ts'
import type { Json } from '../support/rest.ts'

/** A data directory, and the commands on it. */
async function directory() {
  const home = folderOfTest()
  const dir = join(home, 'data')
  await (await Svc.open({ basePath: dir })).close()
  const run = (args: readonly string[], env: Record<string, string> = {}) =>
    svc([...args, '-d', dir], { home, env })
  async function json(...args: string[]): Promise<Json> {
    const { status, stdout, stderr } = await run([...args, '--json'])
    expect({ args, status, stderr }).toEqual({ args, status: 0, stderr: '' })
    return JSON.parse(stdout)
  }
  return { run, json }
}

test('what is typed becomes the grant, and each verb does what it says', async () => {
  const { json, run } = await directory()
  const before = Date.now()
  const limits = ['--rate', '10/s', '--max-open', '3', '--max-bytes', '1.5g/d']
  const what = ['--can', 'read,webhooks', '--tools', 'send', '--users', 'a@b,c@d', '--users', 'e@f']
  const added = await json('key', 'add', 'bot', ...what, ...limits, '--expires', '30d')
  expect(added).toMatchObject({
    name: 'bot',
    can: ['read', 'webhooks'],
    tools: ['send'],
    users: ['a@b', 'c@d', 'e@f'],
    limits: { calls_per_second: 10, open: 3, bytes_per_day: 1_500_000_000 },
    made_by: 'owner',
  })
  expect(Math.abs(added.expires_at - before - 30 * 86_400_000)).toBeLessThan(60_000)
  const { key, ...shown } = added
  expect(await json('key', 'show', 'bot')).toEqual(shown)
  expect(await json('key', 'list')).toEqual([shown])
  const rotated = await json('key', 'rotate', added.id, '--keep-old', '1d')
  expect(rotated.key).not.toBe(key)
  expect(Math.abs(rotated.rotating_until - before - 86_400_000)).toBeLessThan(60_000)
  for (const words of [['key'], ['key', 'show', 'bot'], ['key', 'me']]) {
    const { status, stdout } = await run(words)
    expect([words, status, stdout.includes(key.slice(-64))]).toEqual([words, 0, false])
  }
  const { stdout } = await run(['key', 'rotate', 'bot'])
  expect(stdout).toMatch(new RegExp(`svc_${added.id}_[0-9a-f]{64}`))
  expect(await json('key', 'revoke', 'bot')).toEqual({ success: true, revoked: [added.id] })
  expect((await run(['key', 'rotate', 'bot'])).status).toBe(1)
  expect((await json('key'))[0].status).toBe('revoked')
  const me = await json('key', 'me')
  expect(me).toMatchObject({ principal: 'owner', rights: presets.all })
  expect(me.tools).toContain('send')
})

test('the first key makes the master token, and says what has changed', async () => {
  const { json, run } = await directory()
  expect((await run(['token'])).status).toBe(1)
  const first = await run(['key', 'add', 'first', '--can', 'read'])
  expect([first.status, first.stderr]).toEqual([0, expect.stringContaining('svc token')])
  const { status, stdout: token } = await run(['token'])
  expect([status, token.trim().length > 20]).toEqual([0, true])
  const second = await run(['key', 'add', 'second', '--can', 'read'])
  expect([second.status, second.stderr]).toEqual([0, ''])
  expect((await run(['token'])).stdout).toBe(token)
  // Also when a program reads the result, and not where a token is configured.
  const other = await directory()
  await other.json('key', 'add', 'first', '--can', 'read')
  expect((await other.run(['token'])).status).toBe(0)
  const given = await directory()
  const added = await given.run(['key', 'add', 'first', '--can', 'read'], {
    SVC_TOKEN: 'a-long-enough-token',
  })
  expect([added.status, (await given.run(['token'])).status]).toEqual([0, 1])
  expect((await json('key')).length).toBe(2)
})
