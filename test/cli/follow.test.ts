/** svc recv --follow, and what a kill between writing and confirming leaves. */
import { expect, test } from 'bun:test'
import { closeSync, openSync, read } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import type { Message } from '../../src/model/message.ts'
import { sandboxAlone, svc } from '../support/command.ts'
import { folderOfFile } from '../support/folder.ts'
import { jsonLines, overhear } from '../support/overheard.ts'
import { logIn, type Service, startService } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const home = folderOfFile()

async function withService(): Promise<Service> {
  const dir = await mkdtemp(join(home, 'data-'))
  const service = await startService({ dir, env: { HOME: home } })
  await logIn(service)
  return service
}

const args = (service: Service, ...words: string[]) => [...words, '--json', '--sandbox', '-d', service.dir]
const recv = async (service: Service, ...words: string[]): Promise<Message[]> =>
  JSON.parse((await svc(args(service, 'recv', '--timeout', '0', ...words), { home })).stdout)

/** The command with its output on a pipe that is read as it comes. */
function following(service: Service, ...words: string[]) {
  const child = Bun.spawn([...svcProgram, ...args(service, 'recv', '--follow', ...words)], {
    cwd: home,
    env: { PATH: process.env.PATH ?? '', HOME: home },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const said = overhear(child)
  const seen = () => jsonLines<Message>(said)
  return {
    seen,
    exited: said.exited,
    texts: () => seen().map(({ text }) => text),
    until: (count: number) =>
      until(
        `${count} came`,
        30_000,
        () => seen().length >= count,
        () => said.stdout,
      ),
    async end(signal: NodeJS.Signals) {
      child.kill(signal)
      return { status: await said.exited, stderr: said.stderr }
    },
  }
}

test('Ctrl-C ends typing whose request is not answered, with 0 and without a word', async () => {
  await using service = await withService()
  const { id, from_user } = await (async () => {
    await service.phone('say', { text: 'are you there?' })
    const [message] = (await service.call('recv', { timeout: 20 })).body as Message[]
    return message!
  })()
  expect(id).toBe(1)
  const child = Bun.spawn([...svcProgram, ...args(service, 'typing', from_user, '--seconds', '60')], {
    ...{ cwd: home, env: { PATH: process.env.PATH ?? '', HOME: home }, stdout: 'pipe', stderr: 'pipe' },
  })
  const said = overhear(child)
  await until('it is shown', 30_000, () => said.stdout.includes('\n'))
  // The next request finds a WeChat that stands still.
  process.kill(service.pid, 'SIGSTOP')
  try {
    await Bun.sleep(5000)
    child.kill('SIGINT')
    expect([await said.exited, said.stderr]).toEqual([0, ''])
  } finally {
    process.kill(service.pid, 'SIGCONT')
  }
})

/** A new consumer begins at the end: it is there once its first call was made. */
const begun = async (service: Service, consumer: string) => {
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
  await using service = await startService({ dir, env: { HOME: home } })
  await logIn(service)
  const follower = following(service, '-c', 'heir')
  // It follows once this has come.
  await until('it follows', 30_000, async () => {
    await phone.say('are you there')
    await Bun.sleep(50)
    return follower.seen().length > 0
  })
  await service.kill('SIGTERM')
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
async function killedWhileWriting(service: Service, ...words: string[]): Promise<void> {
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
  await using service = await withService()
  await service.kill('SIGTERM')
  await using phone = await sandboxAlone(service.dir, home)
  await recv(service)
  await phone.say(long('one'))
  await killedWhileWriting(service, 'recv', '--timeout', '60')
  const again = await recv(service)
  expect(again.map(({ text, redelivered }) => [text.slice(0, 3), redelivered])).toEqual([['one', true]])
  expect(await recv(service)).toEqual([])
})

test('killed while a line is written, --follow begins with that message, marked', async () => {
  await using service = await withService()
  await begun(service, 'cli')
  await service.phone('say', { text: long('one') })
  await service.phone('say', { text: 'two' })
  await killedWhileWriting(service, 'recv', '--follow')
  const again = following(service)
  await again.until(2)
  expect((await again.end('SIGINT')).status).toBe(0)
  expect(again.seen().map(({ text, redelivered }) => [text.slice(0, 3), redelivered])).toEqual([
    ['one', true],
    ['two', undefined],
  ])
})
