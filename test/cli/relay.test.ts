/** `svc relay`: what is typed, what is shown, and what is written for a program. */
import { expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { svc } from '../support/command.ts'
import { folderOfTest } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'

test('a program is added with its files, listed, and removed', async () => {
  await using t = await withGateway({ sessions: ['work'], start: false })
  const home = folderOfTest()
  const { bot_id, user_id } = t.bots.get('work')!
  const run = (...args: string[]) => svc(['relay', ...args, '-d', t.dir], { home })
  const url = 'http://127.0.0.1:8123'
  const added = await run(
    'add',
    'claw',
    '--session',
    'work',
    '--answers',
    '3',
    '--for',
    'openclaw',
    '--url',
    url,
  )
  const token = /svc_[0-9a-z]{8}_[0-9a-f]{64}/.exec(added.stdout)?.[0]
  expect([added.status, token]).toEqual([0, expect.any(String)])
  for (const word of [url, `${url}/ilink/c2c`, bot_id, user_id]) expect(added.stdout).toContain(word)
  const id = bot_id.replace(/\W/g, '-')
  const path = join(home, `.openclaw/openclaw-weixin/accounts/${id}.json`)
  expect(JSON.parse(await readFile(path, 'utf8'))).toEqual({ token, baseUrl: url, userId: user_id })
  expect(added.stderr).toContain(path)
  const next = await run('add', 'nonebot', '--session', 'work', '--for', 'nonebot')
  expect(next.stdout).toContain('CLAWEIXIN_TOKEN=')
  expect(next.stderr).toContain('claw')
  const list = await run('list')
  for (const word of ['claw', 'nonebot', '0 of 3', '0 of all']) expect(list.stdout).toContain(word)
  expect((await run('remove', 'claw', '--json')).status).toBe(0)
  expect(JSON.parse((await run('--json')).stdout)).toMatchObject([{ name: 'nonebot', unread: 0 }])
  expect((await run('remove', 'claw')).status).toBe(1)
})
