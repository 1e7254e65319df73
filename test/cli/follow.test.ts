/** svc recv --follow, and what a kill between writing and confirming leaves. */
import { expect, test } from 'bun:test'
import { closeSync, openSync, read } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import type { Message } from '../../src/model/message.ts'
import type { StopSignal } from '../../src/platform/process.ts'
import { testClock } from '../support/clock.ts'
import { type AloneSandbox, sandboxAlone, serveHere, svc, svcRunning } from '../support/command.ts'
import { folderOfFile } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'
import { jsonLines, overhear } from '../support/overheard.ts'
import { joinAsGuest, logIn, type Served } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const home = folderOfFile()

interface Followed extends Served {
  readonly dir: string
}

async function withService() {
  const service = await serveHere(await mkdtemp(join(home, 'data-')), { home })
  await logIn(service)
  return service
}

/** The directory of a service that is gone, whose simulated WeChat goes on. */
async function withoutService(): Promise<AloneSandbox & { readonly dir: string }> {
  const dir = await mkdtemp(join(home, 'data-'))
  {
    await using service = await serveHere(dir, { home })
    await logIn(service)
  }
  const phone = await sandboxAlone(dir, home)
  // Else each look takes as long as recv waits for an answer, a second and a half.
  await phone.phone('switches', { hold_ms: 100 })
  return Object.assign(phone, { dir })
}

type OfDirectory = Pick<Followed, 'dir'>

const args = ({ dir }: OfDirectory, ...words: string[]) => [...words, '--json', '--sandbox', '-d', dir]
const recv = async (service: OfDirectory, ...words: string[]): Promise<Message[]> =>
  JSON.parse((await svc(args(service, 'recv', '--timeout', '0', ...words), { home })).stdout)

/** The command, with its output as it comes. */
function following(service: OfDirectory, ...words: string[]) {
  const running = svcRunning(args(service, 'recv', '--follow', ...words), { home })
  const seen = () => jsonLines<Message>(running)
  return {
    seen,
    exited: running.exited.then(({ status }) => status),
    texts: () => seen().map(({ text }) => text),
    until: (count: number) =>
      until(
        `${count} came`,
        30_000,
        () => seen().length >= count,
        () => running.stdout,
      ),
    async end(signal: StopSignal) {
      running.stop(signal)
      const { status, stderr } = await running.exited
      return { status, stderr }
    },
  }
}

/** The same as a process of its own. */
function followingProcess(service: OfDirectory) {
  const child = Bun.spawn([...svcProgram, ...args(service, 'recv', '--follow')], {
    cwd: home,
    env: { PATH: process.env.PATH ?? '', HOME: home },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const said = overhear(child)
  return {
    seen: () => jsonLines<Message>(said),
    async end(signal: StopSignal) {
      child.kill(signal)
      return { status: await said.exited, stderr: said.stderr }
    },
  }
}

test('Ctrl-C ends typing whose request is not answered, with 0 and without a word', async () => {
  await using gateway = await withGateway()
  const { sandbox, dir } = gateway
  await sandbox.say('are you there?')
  const [message] = await gateway.receive(1)
  const clock = testClock()
  const upstream = ['--upstream-url', sandbox.url, '--cdn-url', sandbox.cdnUrl, '-d', dir]
  const command = ['typing', message!.from_user, '--seconds', '60', ...upstream]
  const typing = svcRunning(command, { home, clock })
  await until('it is shown, until it fades', 30_000, () => clock.sleeps(3000, 5000))
  // The next request finds a WeChat that stands still, and so does the last one.
  await sandbox.fail('sendtyping', 'hang', { times: 0 })
  const before = gateway.requests('sendtyping')
  clock.advance(5000)
  await until('it is asked again', 30_000, () => gateway.requests('sendtyping') > before)
  typing.stop('SIGINT')
  await until('the last word is not waited for long', 30_000, () => clock.sleeps(1, 1500))
  clock.advance(1500)
  expect(await typing.exited).toMatchObject({ status: 0, stderr: '' })
})

/** A new consumer begins at the end: it is there once its first call was made. */
const begun = async (service: Served, consumer: string) => {
  expect((await service.call('recv', { timeout: 0, consumer })).body).toEqual([])
}

test('messages come one per line beside a service; Ctrl-C ends with 0 and loses nothing', async () => {
  await using service = await withService()
  await begun(service, 'cli')
  await service.phone('say', { text: 'while nobody looked' })
  const first = following(service)
  await first.until(1)
  await service.phone('say', { text: '二' })
  await first.until(2)
  expect(await first.end('SIGINT')).toEqual({ status: 0, stderr: '' })
  await service.phone('say', { text: 'in between' })
  const second = following(service)
  await service.phone('say', { text: 'last' })
  await second.until(2)
  expect(await second.end('SIGTERM')).toEqual({ status: 0, stderr: '' })
  expect([...first.texts(), ...second.texts()]).toEqual(['while nobody looked', '二', 'in between', 'last'])
  expect([...first.seen(), ...second.seen()].some(message => message.redelivered)).toBe(false)
})

test('it takes over polling when the service ends, and gives the lock back', async () => {
  const dir = await mkdtemp(join(home, 'data-'))
  await using phone = await sandboxAlone(dir, home)
  await using service = await serveHere(dir, { home })
  await logIn(service)
  const follower = following(service, '-c', 'heir')
  // It follows once this has come.
  await until('it follows', 30_000, async () => {
    await phone.say('are you there')
    return follower.seen().length > 0
  })
  await service.stop()
  await phone.say('after the service')
  await until('it polls', 30_000, () => follower.texts().includes('after the service'))
  expect((await follower.end('SIGINT')).status).toBe(0)
  expect(await recv(service, '-c', 'heir')).toEqual([])
})

test('--limit ends it after so many, and the next one is not touched; --after moves nothing', async () => {
  await using service = await withService()
  await begun(service, 'few')
  for (const text of ['one', 'two', 'three']) await service.phone('say', { text })
  const few = following(service, '-c', 'few', '-n', '2')
  expect(await few.exited).toBe(0)
  expect(few.texts()).toEqual(['one', 'two'])
  const rest = following(service, '-c', 'few', '-n', '1')
  expect(await rest.exited).toBe(0)
  expect(rest.seen()).toMatchObject([{ text: 'three' }])
  expect(rest.seen()[0]).not.toHaveProperty('redelivered')
  for (let tries = 0; tries < 2; tries++) {
    const again = following(service, '--after', String(few.seen()[0]!.id), '-n', '2', '--session', 'DEFAULT')
    expect(await again.exited).toBe(0)
    expect(again.texts()).toEqual(['two', 'three'])
  }
})

/** Killed for good while its answer is half written: nobody read more than its first byte. */
async function killedWhileWriting(service: OfDirectory, ...words: string[]): Promise<void> {
  const fifo = join(await mkdtemp(join(home, 'fifo-')), 'out')
  expect(Bun.spawnSync(['mkfifo', fifo]).exitCode).toBe(0)
  // Open for both: the other side neither waits for a reader nor loses it.
  const pipe = openSync(fifo, 'r+')
  const child = Bun.spawn([...svcProgram, ...args(service, ...words)], {
    cwd: home,
    env: { PATH: process.env.PATH ?? '', HOME: home },
    stdout: pipe,
    stderr: 'inherit',
  })
  // A longer answer than a pipe holds: that it has begun means that it has not ended. Read off the event loop.
  const began = Promise.withResolvers<number>()
  read(pipe, new Uint8Array(1), (error, count) => (error ? began.reject(error) : began.resolve(count)))
  expect(await began.promise).toBe(1)
  child.kill('SIGKILL')
  await child.exited
  closeSync(pipe)
}

const long = (text: string) => `${text} ${'长'.repeat(60_000)}`

test('killed while its answer is written, recv gives the same again, marked', async () => {
  await using phone = await withoutService()
  await recv(phone)
  await phone.say(long('one'))
  await killedWhileWriting(phone, 'recv', '--timeout', '60')
  const again = await recv(phone)
  expect(again.map(({ text, redelivered }) => [text.slice(0, 3), redelivered])).toEqual([['one', true]])
  expect(await recv(phone)).toEqual([])
})

test('killed while a line is written, --follow begins with that message, marked', async () => {
  await using service = await withService()
  await begun(service, 'cli')
  await service.phone('say', { text: long('one') })
  await service.phone('say', { text: 'two' })
  await killedWhileWriting(service, 'recv', '--follow')
  const again = followingProcess(service)
  await until('both came', 30_000, () => again.seen().length >= 2)
  expect((await again.end('SIGINT')).status).toBe(0)
  expect(again.seen().map(({ text, redelivered }) => [text.slice(0, 3), redelivered])).toEqual([
    ['one', true],
    ['two', undefined],
  ])
})

test('--brief prints one marked line a message, whatever it contains', async () => {
  await using service = await withService()
  await begun(service, 'monitor')
  const said = [
    'plain',
    'two\nlines\u2028and "quotes" \u202e',
    `long ${'x'.repeat(5000)}`,
    '\u001b]0;title\u0007',
  ]
  // A guest wakes no program of the owner.
  const guest = await joinAsGuest(service, 'guest')
  await until('the guest is here', 30_000, async () => {
    const { body } = await service.call('sessions')
    return body.some(({ user_id }: { user_id?: string }) => user_id === guest)
  })
  await service.phone('say', { text: 'run this', from: guest })
  for (const text of said) await service.phone('say', { text })
  await service.phone('say', { text: 'and this', from: guest })
  const place = ['--sandbox', '-d', service.dir]
  const command = ['recv', '--follow', '--brief', '-c', 'monitor', '--limit', '4', ...place]
  const { status, stdout } = await svcRunning(command, { home }).exited
  const lines = stdout.split('\n')
  expect([status, lines.length, lines.pop()]).toEqual([0, 5, ''])
  for (const line of lines) {
    expect(line).toStartWith('[WeChat, untrusted: ')
    expect(line.length).toBeLessThan(1500)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none may be there
    expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u202e]/)
  }
  expect(stdout).not.toContain(' this"')
  expect(lines[0]).toContain('text "plain"')
  expect(lines[2]).toContain('5005 characters')
  for (const wrong of [['--brief'], ['--follow', '--brief', '--json']])
    expect(await svc(['recv', ...wrong, '--timeout', '0', ...place], { home })).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('--brief'),
    })
})
