/** `svc migrate` as a user runs it, with a home of its own. */
import { expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type Folders,
  fingerprint,
  folders,
  json,
  openClawAccount,
  rowsOf,
  weiLinkLog,
  weiLinkSession,
} from '../migrate/profile.ts'
import { svc as command } from '../support/command.ts'

const bot = 'aaaaaaaaaaaa@im.bot'

const svc = (at: Folders, args: string[], env: Record<string, string> = {}) =>
  command(['migrate', ...args], { home: at.root, env })

/** WeiLink's folder where it keeps it, in the home of the test. */
async function home(): Promise<Folders> {
  const at = await folders()
  await rename(at.from, join(at.root, '.weilink'))
  const from = join(at.root, '.weilink')
  await weiLinkSession(from, '工作 群', { bot, user: 'o1@im.wechat', cursor: 'buf' })
  using log = weiLinkLog(from)
  log.add({ message_id: '18', text: '你好', at: Date.now() }, { sent: true, text: 'hi', at: Date.now() + 1 })
  return { ...at, from, into: join(at.root, '.svc') }
}

test('a dry run says what would come over and makes not even the directory; then it comes over', async () => {
  await using at = await home()
  const before = fingerprint(at.from)
  const dry = await svc(at, ['weilink', '--dry-run'])
  expect(dry).toMatchObject({ status: 0, stderr: '' })
  expect(dry.stdout).toContain(bot)
  expect(existsSync(at.into)).toBe(false)
  const done = await svc(at, ['weilink'])
  expect(done).toMatchObject({ status: 0, stderr: '' })
  expect(done.stdout).toMatch(/^\* 工作-群 .* 0 .* aaaaaaaaaaaa@im\.bot$/m)
  const counts = done.stdout.split('\n').find(line => line.startsWith('history '))
  expect(counts?.match(/\d+/g)).toEqual(['2', '1', '1', '2', '0'])
  expect(`${dry.stdout}${done.stdout}`).not.toContain('pretend')
  expect(json(at.into, '工作-群', 'token.json')).toMatchObject({ bot_id: bot, cursor: 'buf' })
  expect(await rowsOf(at.into)).toHaveLength(2)
  expect(fingerprint(at.from)).toEqual(before)
})

test('--json is one object; the status is 1 when something could not come over, and the rest did', async () => {
  await using at = await home()
  await mkdir(join(at.from, 'broken'))
  await writeFile(join(at.from, 'broken', 'token.json'), '{')
  const { status, stdout, stderr } = await svc(at, ['weilink', '--json', '--from', at.from, '-d', at.into])
  expect({ status, stderr }).toEqual({ status: 1, stderr: '' })
  expect(stdout.trim().split('\n')).toHaveLength(1)
  expect(JSON.parse(stdout)).toMatchObject({
    ...{ program: 'weilink', from: at.from, into: at.into, dry_run: false, complete: false, running: false },
    default_session: '工作-群',
    sessions: [
      {
        ...{ name: '工作-群', from_name: '工作 群', bot_id: bot, user_id: 'o1@im.wechat' },
        ...{ login: 'added', cursor: 'taken', users: 0 },
      },
    ],
    history: { messages: 2, received: 1, sent: 1, added: 2, left_out: 0, damaged: 0, media_lost: 0 },
    // The file that is broken, and that the other program is not to run beside svc.
    findings: expect.arrayContaining([
      expect.objectContaining({ level: 'problem', text: expect.stringContaining('broken') }),
      expect.objectContaining({ level: 'warning', text: expect.stringContaining('WeiLink') }),
    ]),
  })
  expect(stdout).not.toContain('pretend')
  expect(await rowsOf(at.into)).toHaveLength(2)
})

test('OpenClaw is found where its variable says', async () => {
  await using at = await folders()
  await mkdir(join(at.from, 'openclaw-weixin'))
  await writeFile(join(at.from, 'openclaw-weixin', 'accounts.json'), '["aaaaaaaaaaaa-im-bot"]')
  await openClawAccount(at.from, 'aaaaaaaaaaaa-im-bot', {
    account: { token: 'pretend' },
    sync: { get_updates_buf: 'b' },
  })
  const done = await svc(at, ['openclaw', '-d', at.into], { OPENCLAW_STATE_DIR: at.from })
  expect(done).toMatchObject({ status: 0, stderr: '' })
  expect(json(at.into, 'aaaaaaaaaaaa', 'token.json')).toMatchObject({ bot_id: bot, cursor: 'b' })
})

test('in the sandbox nothing comes over, neither there nor into the real directory', async () => {
  await using at = await home()
  expect(await svc(at, ['weilink', '--sandbox'])).toMatchObject({ status: 2, stdout: '' })
  expect(await svc(at, ['weilink'], { SVC_SANDBOX: '1' })).toMatchObject({ status: 2, stdout: '' })
  for (const name of ['.svc', '.svc-sandbox']) expect(existsSync(join(at.root, name))).toBe(false)
})

test('what cannot be moved is one line that says what to do', async () => {
  await using at = await folders()
  const none = await svc(at, ['weilink'])
  expect(none).toMatchObject({ status: 1, stdout: '' })
  expect(none.stderr).toMatch(/^error: [^\n]*\.weilink\b[^\n]*--from[^\n]*\n$/)
  expect(existsSync(join(at.root, '.svc'))).toBe(false)
  await weiLinkSession(at.from, 'a', { bot })
  await mkdir(join(at.into, 'sandbox'), { recursive: true })
  const sandbox = await svc(at, ['weilink', '--from', at.from, '-d', at.into])
  expect(sandbox).toMatchObject({ status: 2, stdout: '' })
  expect(sandbox.stderr).toContain(at.into)
  expect(existsSync(join(at.into, 'a'))).toBe(false)
  // Ours looks much like WeiLink's.
  await writeFile(join(at.from, '.data.lock'), 'flock\n')
  for (const program of ['weilink', 'openclaw']) {
    const ours = await svc(at, [program, '--from', at.from, '-d', join(at.root, 'new')])
    expect(ours).toMatchObject({ status: 2, stdout: '' })
    expect(ours.stderr).toContain(`--from: ${at.from} `)
    expect(existsSync(join(at.root, 'new'))).toBe(false)
  }
  const misspelt = await svc(at, ['weilnk', '--dry-run'])
  expect(misspelt).toMatchObject({ status: 2, stdout: '' })
  expect(misspelt.stderr).toContain('svc migrate --help')
  const unnamed = await svc(at, [])
  expect(unnamed).toMatchObject({ status: 2, stdout: '' })
  // One part for each program, then where to look.
  expect(unnamed.stderr).toMatch(/^error: migrate: [^\n]+, [^\n]+\. [^\n]+ svc migrate --help\.\n$/)
})
