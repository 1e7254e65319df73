/** `svc agent` as an owner meets it: in the sandbox, with the scripted agent. */
import { expect, test } from 'bun:test'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { testClock } from '../support/clock.ts'
import { agentReads, type Running, type Serving, serveHere, svc, svcRunning } from '../support/command.ts'
import { folderOfFile } from '../support/folder.ts'
import { type Json, logIn, servedAt } from '../support/service.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const home = folderOfFile()
const newDir = () => mkdtemp(join(home, 'data-'))

/** `svc agent` on a directory of the sandbox, and its phone. */
function startAgent(dir: string, ...args: string[]) {
  return startAgentAt(systemClock, dir, ...args)
}

function startAgentAt(clock: Clock, dir: string, ...args: string[]) {
  const place = ['--sandbox', '--sandbox-port', '0', '--pace', 'off', '-d', dir]
  const running = svcRunning(['agent', ...place, '--gather', '0.1', ...args], { home, clock })
  const phoneUrl = () =>
    until(
      'the phone has an address',
      30_000,
      () => /(http:\S+)\/phone/.exec(running.stdout)?.[1],
      () => running.stdout + running.stderr,
    )
  const post = async (path: string, body: unknown): Promise<Json> => {
    const response = await fetch(`${await phoneUrl()}/phone/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    if (!response.ok) throw new Error(`${path}: ${await response.text()}`)
    return response.json()
  }
  const chat = async () => (await fetch(`${await phoneUrl()}/phone/chat`)).text()
  return {
    running,
    post,
    chat,
    scan: () => post('scan', { confirm: true }),
    isReady: () =>
      until('it answers', 30_000, () => /may talk with it\n/.test(running.stdout), outputOf(running)),
    shows: (text: string) =>
      until(
        `"${text}" in the chat`,
        30_000,
        async () => ((await chat()).includes(text) ? true : undefined),
        outputOf(running),
      ),
    async stop() {
      using watch = stopwatch()
      running.stop('SIGINT')
      const { status } = await running.exited
      return { status, ms: watch.ms }
    },
  }
}

const newUser = async (service: Serving, name: string): Promise<string> =>
  (await service.phone('users', { name })).id

const outputOf = (running: Running) => () => running.stdout + running.stderr
const echo = ['--', 'svc', 'echo-agent']

test('without an account it shows a QR code, then answers the owner, and ends soon', async () => {
  const agent = startAgent(await newDir(), ...echo)
  await until('there is a code', 30_000, () => agent.running.stdout.includes('Scan and agree'))
  await agent.scan()
  await agent.isReady()
  expect(agent.running.stdout).toMatch(
    /agent "agent" answers in session default \(\S+@im\.bot\): only its owner \S+@im\.wechat/,
  )
  await agent.post('say', { text: 'Hello' })
  await agent.shows('You said: Hello')
  // It works on something that takes long.
  await agent.post('say', { text: 'slow 600' })
  await until('it types', 30_000, async () => (await agent.chat()).includes('typing'))
  const { ms, status } = await agent.stop()
  expect(status).toBe(0)
  expect(ms).toBeLessThan(8000)
})

test('what its owner sets for a time is done then; commands list, add and cancel', async () => {
  const [dir, clock] = [await newDir(), testClock()]
  const agent = startAgentAt(clock, dir, '--zone', 'UTC', ...echo)
  await until('there is a code', 30_000, () => agent.running.stdout.includes('Scan and agree'))
  await agent.scan()
  await agent.isReady()
  await agentReads(dir, 'agent')
  await agent.post('say', { text: '/in 2h look at the oven' })
  await agent.shows('/cancel ')
  const run = async (...args: string[]) => {
    const { stdout } = await svc(['agent', 'times', ...args, '--json', '--sandbox', '-d', dir], { home })
    return JSON.parse(stdout)
  }
  const [time] = await run()
  expect(time).toMatchObject({ zone: 'UTC', prompt: 'look at the oven' })
  const series = await run('add', time.user_id, 'every day 8:00', 'news', '--zone', 'UTC')
  expect(series).toMatchObject({ when: 'every day 08:00', user_id: time.user_id })
  expect(await run('cancel', `${series.id}`)).toMatchObject({ id: series.id })
  const listed = await svc(['agent', 'times', '--sandbox', '-d', dir], { home })
  expect([listed.status, listed.stdout]).toEqual([0, expect.stringContaining('look at the oven')])
  // It is on a full minute.
  clock.advance(2 * 3_600_000 + 60_000)
  await agent.shows('You said: [')
  expect(await run()).toEqual([])
  expect((await agent.stop()).status).toBe(0)
})

test('Ctrl-C while the code is shown ends it, and leaves no account', async () => {
  const dir = await newDir()
  const agent = startAgent(dir, ...echo)
  await until('there is a code', 30_000, () => agent.running.stdout.includes('Scan and agree'))
  const { ms, status } = await agent.stop()
  expect(status).toBe(0)
  expect(ms).toBeLessThan(8000)
  expect((await svc(['sessions', '--json', '--sandbox', '-d', dir], { home })).stdout).toBe('[]\n')
})

/** Runs svc as a process until `look` finds something in what it printed, and kills it after `then`. */
async function killedAfter<T>(
  args: readonly string[],
  look: (stdout: string) => T | undefined | false,
  then: (found: T) => Promise<unknown> = async () => {},
): Promise<void> {
  const child = Bun.spawn([...svcProgram, args[0]!, '--sandbox', '--sandbox-port', '0', ...args.slice(1)], {
    stdout: 'pipe',
    stderr: 'ignore',
    env: { PATH: process.env.PATH ?? '', HOME: home, TMPDIR: process.env.TMPDIR ?? '' },
  })
  let stdout = ''
  const reading = (async () => {
    for await (const bytes of child.stdout) stdout += new TextDecoder().decode(bytes)
  })()
  try {
    await then(
      await until(
        'it got that far',
        30_000,
        () => look(stdout),
        () => stdout,
      ),
    )
  } finally {
    child.kill('SIGKILL')
    await Promise.all([reading, child.exited])
  }
}

test('killed while it shows the code, it goes on with the login', async () => {
  const dir = await newDir()
  await killedAfter(['agent', '-d', dir, ...echo], stdout => stdout.includes('Scan and agree'))
  const agent = startAgent(dir, ...echo)
  await until('there is a code', 30_000, () => agent.running.stdout.includes('Scan and agree'))
  await agent.scan()
  await agent.isReady()
  expect(agent.running.stdout).toMatch(/only its owner \S+@im\.wechat/)
  expect((await agent.stop()).status).toBe(0)
})

test('after a service was killed during a login over REST, the login goes on', async () => {
  const dir = await newDir()
  await killedAfter(
    ['openapi', '--no-banner', '--port', '0', '-d', dir],
    stdout => servedAt(stdout),
    service => service.call('login', { session_name: 'work' }),
  )
  const agent = startAgent(dir, ...echo)
  await until('there is a code', 30_000, () => agent.running.stdout.includes('Scan and agree'))
  await agent.scan()
  await agent.isReady()
  expect(agent.running.stdout).toMatch(/in session work .* only its owner \S+@im\.wechat/)
  expect((await agent.stop()).status).toBe(0)
})

test('beside a running service it uses its account and phone, over ACP too', async () => {
  const dir = await newDir()
  await using service = await serveHere(dir, { home }, '--pace', 'off')
  await logIn(service)
  const agent = startAgent(dir, '--acp', ...echo, '--acp')
  await agent.isReady()
  expect(agent.running.stdout).toContain(service.phoneUrl)
  await agentReads(dir, 'agent')
  await service.phone('say', { text: 'over ACP' })
  await agent.shows('You said: over ACP')
  // The start says what it knows of the mode.
  await until('the mode is said', 30_000, () => /agent "agent": mode careful/.test(agent.running.stdout))
  const other = startAgent(dir, '--acp', '--name', 'other', '--mode', 'nope', ...echo, '--acp')
  const failed = await other.running.exited
  expect([failed.status, failed.stderr]).toEqual([2, expect.stringContaining('"nope"')])
  expect((await agent.stop()).status).toBe(0)
  // The service goes on.
  expect((await service.call('sessions')).body).toHaveLength(1)
})

test('several agents of a file: each user gets the first one that is for them', async () => {
  const dir = await newDir()
  await using service = await serveHere(dir, { home }, '--pace', 'off')
  await logIn(service)
  const [session] = (await service.call('sessions')).body
  const [other, stranger] = [await newUser(service, 'other'), await newUser(service, 'stranger')]
  const file = join(dir, '..', 'agents.json')
  const say = (what: string) => ['sh', '-c', `read -r line; echo "${what} heard: $line"`]
  await writeFile(
    file,
    `{ "agents": [
      // Only for one user.
      { "name": "first", "command": ${JSON.stringify(say('first'))}, "users": { "${other}": {} }, "gather": 0.1 },
      { "name": "second", "session": "default", "command": ${JSON.stringify(say('second'))}, "gather": 0.1 },
    ] }`,
  )
  const place = ['--sandbox', '--pace', 'off', '-d', dir]
  const running = svcRunning(['agent', ...place, '--config', file], { home })
  await until(
    'both are there',
    30_000,
    () => running.stdout.split('may talk with it').length > 2,
    outputOf(running),
  )
  for (const name of ['first', 'second']) await agentReads(dir, name)
  const write = (from: string, text: string) => service.phone('say', { to: session.bot_id, from, text })
  await write(session.user_id, 'I am the owner')
  await write(other, 'I am other')
  await write(stranger, 'I am a stranger')
  const sent = async () => {
    const { messages } = (await service.call('history', { direction: 'sent' })).body
    return messages.map(({ text, to_user }: Json) => [to_user, text])
  }
  // The owner is also told about the stranger.
  await until('both have answered', 30_000, async () => (await sent()).length >= 3, outputOf(running))
  const answers = await sent()
  // Texts that wait at the same time go as one message.
  const toOwner = answers
    .filter(([user]: string[]) => user === session.user_id)
    .map(([, text]: string[]) => text)
  expect(toOwner.join('\n')).toContain('second heard: I am the owner')
  expect(toOwner.join('\n')).not.toContain('first heard')
  expect(answers).toContainEqual([other, 'first heard: I am other'])
  expect(answers.filter(([user]: string[]) => user === stranger)).toEqual([])
  running.stop('SIGTERM')
  expect((await running.exited).status).toBe(0)
})

test('wrong usage ends with 2, says what to type, and makes nothing', async () => {
  const dir = join(home, 'never')
  const file = join(home, 'bad.json')
  await writeFile(file, '{ "agents": [{ "command": ["x"], "nope": 1 }] }')
  const wrong: [args: string[], said: string][] = [
    [['claude', '-p'], 'svc agent -- claude -p'],
    [['claude', '--', '-p'], 'svc agent -- claude -p'],
    [['conversation'], 'svc agent conversations?'],
    [[], 'svc agent -- claude -p'],
    [['--acp'], 'svc agent -- claude -p'],
    [['--', 'no-such-program-here'], 'no-such-program-here'],
    [['--model', 'x', '--', 'true'], '--openai'],
    [['--openai', 'http://127.0.0.1:9/v1'], '--model'],
    [['--openai', 'ftp://x', '--model', 'm'], '--openai'],
    [['--folder', 'a', '--folder', 'b=c', '--', 'true'], '--folder'],
    [['--folder', 'b=c', '--folder', 'b=d', '--', 'true'], '--folder'],
    [['--folder', '7=c', '--', 'true'], '7=c'],
    [['--openai', 'http://127.0.0.1:9/v1', '--model', 'm', '--', 'true'], '--openai'],
    [['--gather', '11', '--', 'true'], '--gather'],
    [['--turns-per-day', '0', '--', 'true'], '--turns-per-day'],
    [['--minutes-per-turn', 'long', '--', 'true'], '--minutes-per-turn'],
    [['--name', '../x', '--', 'true'], '--name'],
    [['--allow', '', '--', 'true'], '--allow'],
    [['--config', join(home, 'absent.json')], 'absent.json'],
    [['--config', file], 'agents[0].nope'],
    [['--zone', 'Mars/Olympus', '--', 'true'], '--zone'],
    [['--config', file, '--isolate'], '--isolate'],
    [['--config', file, '--no-commands'], '--no-commands'],
    [['--config', file, '--mode', 'plan'], '--mode'],
    [['--mode', 'plan', '--', 'true'], '--mode'],
    [['--ask', '--', 'true'], '--ask'],
    [['--acp', '--ask', '--mode', 'plan', '--', 'true'], '--ask'],
    [['--config', file, '--', 'true'], '--config'],
  ]
  for (const [args, said] of wrong) {
    const ended = await svc(['agent', '-d', dir, ...args], { home })
    expect([args, ended.status, ended.stdout]).toEqual([args, 2, ''])
    expect([args, ended.stderr]).toEqual([args, expect.stringMatching(/^error: [^\n]+\n$/)])
    expect([args, ended.stderr]).toEqual([args, expect.stringContaining(said)])
  }
  expect(await Bun.file(join(dir, 'messages.db')).exists()).toBe(false)
})

test('a session that is not there is refused with the names of those that are', async () => {
  const dir = await newDir()
  const agent = startAgent(dir, '--', 'svc', 'echo-agent')
  await agent.scan()
  await agent.isReady()
  await agent.stop()
  const place = ['--sandbox', '--sandbox-port', '0', '-d', dir]
  const refused = await svc(['agent', ...place, '--session', 'nope', '--', 'svc', 'echo-agent'], { home })
  expect(refused.status).toBe(1)
  expect(refused.stderr).toMatch(/"nope".*svc login nope/)
  expect(refused.stdout).toBe('')
})
