/** `svc relay`: what is typed, what is shown, and what is written for a program. */
import { expect, test } from 'bun:test'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { owner } from '../../src/model/principal.ts'
import { relayProgram } from '../relay/protocol.ts'
import { cookieOf, pageHeaders } from '../support/admin.ts'
import { svc, svcRunning } from '../support/command.ts'
import { folderOfTest } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'
import { until } from '../support/until.ts'

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
  // No service runs: it gets the address at which one would listen, and the person is told.
  expect(next.stdout).toContain('CLAWEIXIN_API_ROOT=http://127.0.0.1:8000\n')
  expect([added.stderr.includes('svc openapi'), next.stderr.includes('svc openapi')]).toEqual([false, true])
  expect(next.stderr).toContain('claw')
  const list = await run('list')
  for (const word of ['claw', 'nonebot', '0 of 3', '0 of all']) expect(list.stdout).toContain(word)
  expect((await run('remove', 'claw', '--json')).status).toBe(0)
  expect(JSON.parse((await run('--json')).stdout)).toMatchObject([{ name: 'nonebot', unread: 0 }])
  expect((await run('remove', 'claw')).status).toBe(1)
})

test('a program logs in by itself, at another process than the one where its owner agrees', async () => {
  await using t = await withGateway({ sessions: ['work'], start: false })
  const run = (...args: string[]) => svc(['relay', ...args, '-d', t.dir], { home: folderOfTest() })
  const both = await run('add', 'claw', '--allow-login', '--for', 'openclaw')
  expect(both.status).toBe(2)
  const added = await run('add', 'claw', '--allow-login')
  expect([added.status, /svc_[0-9a-z]{8}_/.test(added.stdout + added.stderr)]).toEqual([0, false])
  expect(added.stderr).toContain('svc relay allow')
  const ask = await t.gateway.relayLogins.ask('192.0.2.7')
  if (typeof ask !== 'object') throw new Error(`no code: ${ask}`)
  expect(JSON.parse((await run('--json')).stdout)[0].asks).toMatchObject([{ address: '192.0.2.7' }])
  expect((await run('allow', 'nonsense', '-y')).status).not.toBe(0)
  const agreed = await run('allow', ask.number, '-y')
  expect([agreed.status, agreed.stdout.includes('192.0.2.7')]).toEqual([0, true])
  const got = await t.gateway.relayLogins.poll(ask.code, undefined, new AbortController().signal)
  expect(got).toMatchObject({ bot_id: t.bots.get('work')!.bot_id })
  expect((await run('allow', ask.number, '-y')).status).toBe(1)
})

test('a program that ends twice is looked up in the list of programs', async () => {
  await using t = await withGateway({ sessions: ['work'], start: false })
  const run = (...args: string[]) => svc(['relay', ...args, '-d', t.dir], { home: folderOfTest() })
  await run('add', 'claw')
  const removed = await run('remove', 'claw')
  expect([removed.status, removed.stdout]).toEqual([0, 'removed: claw\n'])
  expect(removed.stderr).toContain('.bak')
  await t.gateway.keys.add({ name: 'reader', can: ['read'] }, owner)
  for (const name of ['claw', 'nope', 'reader']) {
    const { status, stderr } = await run('remove', name)
    expect([name, status]).toEqual([name, 1])
    expect(stderr).toContain('svc relay list')
    expect(stderr).not.toMatch(/svc key|--help/)
  }
})

test('files that svc cannot change are named, and the program is there', async () => {
  await using t = await withGateway({ sessions: ['work'], start: false })
  const home = folderOfTest()
  const path = join(home, '.openclaw/openclaw-weixin/accounts.json')
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, '{"of": "another form"}')
  const { status, stderr, stdout } = await svc(['relay', 'add', 'claw', '--for', 'openclaw', '-d', t.dir], {
    home,
  })
  expect([status, stdout]).toEqual([
    1,
    expect.stringContaining(t.bots.get('work')!.bot_id.replace(/\W/g, '-')),
  ])
  expect(stderr).toContain(path)
  expect(stderr).not.toContain('try again')
  expect(await t.gateway.relayClients.list(owner)).toMatchObject([{ name: 'claw' }])
})

test('the warning names what answers what the program answers', async () => {
  await using t = await withGateway({ sessions: ['work'] })
  const run = (...args: string[]) => svc(['relay', 'add', ...args, '-d', t.dir], { home: folderOfTest() })
  const agent = { about: 'codex exec', allow: 'everyone', commands: true, place: 0, group: 'g' } as const
  for (const name of ['claude', 'codex']) {
    await t.gateway.inbox.begin(`agent-${name}`)
    await t.gateway.agents.claimAgent(name, undefined, { ...agent, group: name })
  }
  const all = await run('all')
  expect(all.stderr).toContain('agent claude, agent codex')
  expect(all.stderr).toContain('Of the agents, one answers.')
  expect(all.stderr).toContain('--answers')
  const called = await run('called', '--answers', 'called')
  expect(called.stderr).toContain('relay all')
  expect(called.stderr).not.toContain('--answers')
  // It answers only what it is called in.
  const share = await run('share', '--answers', '2')
  expect(share.stderr).toContain('relay all')
  expect(share.stderr).not.toContain('relay called')
  expect(share.stderr).not.toContain('--answers')
})

const url = 'https://svc.example.com/below'
for (const [title, args, expected] of [
  ['where the service listens', [], /listening on (\S+)/],
  ['the public address', ['--public-url', url], url],
  ['the port of the relay', ['--relay-port', '0'], /relay on (\S+)/],
  ['the public address before the port of the relay', ['--relay-port', '0', '--public-url', url], url],
  ['this machine for everybody', ['--host', '0.0.0.0', '--relay-port', '0'], /relay on (\S+)/],
  ['the port of the relay beside a socket', ['--relay-port', '0', '--socket', 'svc.sock'], /relay on (\S+)/],
] as const)
  test(`every door gives a program the same address: ${title}`, async () => {
    await using t = await withGateway({ sessions: ['work'], start: false })
    const home = folderOfTest()
    const token = 'a-token-of-this-test-0123456789'
    const running = svcRunning(
      ['openapi', '--port', '0', '--admin-port', '0', '--no-banner', '-d', t.dir, '--token', token, ...args]
        .join(' ')
        .replace(/--port 0 (.*--socket)/, '$1')
        .split(' '),
      { home, env: { SVC_UPSTREAM_URL: t.config.upstreamUrl } },
    )
    try {
      const lineOf = (pattern: RegExp) =>
        pattern.exec(running.stdout)?.[1]?.replace('//0.0.0.0:', '//127.0.0.1:')
      const panel = await until('it listens', 30_000, () => lineOf(/admin on (\S+)/))
      const right = typeof expected === 'string' ? expected : lineOf(expected)
      const post = (to: string, body: object, headers: Record<string, string>, more: RequestInit = {}) =>
        fetch(to, {
          method: 'POST',
          body: JSON.stringify(body),
          headers: { 'content-type': 'application/json', ...headers },
          ...more,
        })
      const signedIn = pageHeaders(cookieOf((await post(`${panel}/api/sign-in`, { token }, {})).headers))
      const bearer = { authorization: `Bearer ${token}` }
      const isOnSocket = args.join().includes('--socket')
      const rest = isOnSocket ? 'http://localhost' : lineOf(/listening on (\S+)/)!
      const unix = (isOnSocket ? { unix: join(home, 'svc.sock') } : {}) as RequestInit
      const added = [
        await (await post(`${rest}/relays`, { name: 'one' }, bearer, unix)).json(),
        await (await post(`${panel}/api/call/add_relay`, { name: 'two' }, signedIn)).json(),
        JSON.parse((await svc(['relay', 'add', 'three', '-d', t.dir, '--json'], { home })).stdout),
      ]
      expect((await svc(['relay', 'add', 'four', '-d', t.dir], { home })).stderr).not.toContain('svc openapi')
      expect(added.map(({ base_url, cdn_url }) => [base_url, cdn_url])).toEqual(
        added.map(() => [right, `${right}/ilink/c2c`]),
      )
      if (right === url) return
      const program = relayProgram(right!, added[0].id, added[0].token, 'x@im.wechat')
      expect((await program.post('msg/notifystart')).body.ret).toBe(0)
    } finally {
      running.stop('SIGTERM')
      await running.exited
    }
  })
