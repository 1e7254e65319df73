/** A drill with real processes: a backup under load, the loss of the machine, and the restored copy in its place. */

import { Database } from 'bun:sqlite'
import { expect } from 'bun:test'
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ended } from '../support/ended.ts'
import { folderOfTest } from '../support/folder.ts'
import { logIn, type Service, startService } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

export const passphrase = 'a passphrase of many words'
export const user = 'user@im.wechat'

export interface Program {
  command: readonly string[]
  env: Record<string, string>
}
export const usual: Program = { command: svcProgram, env: {} }

/** Runs a command to its end. */
export function run({ command, env }: Program, args: readonly string[], folder: string) {
  const whole = { PATH: process.env.PATH ?? '', HOME: folder, ...env }
  return ended([...command, ...args], { cwd: folder, env: whole })
}

export async function backUp(program: Program, folder: string, args: readonly string[]) {
  const { status, stdout, stderr } = await run(program, ['backup', ...args, '--json'], folder)
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  return JSON.parse(stdout)
}

const start = ({ command, env }: Program, dir: string) =>
  startService({ command, env, dir, args: ['--pace', 'off'] })

/** Lets a user write and svc answer until `stop` is called. */
function talk(service: Service) {
  let stopped = false
  let count = 0
  const done = (async () => {
    for (; !stopped; count++) {
      await service.phone('say', { from: user, text: `question ${count}` })
      const { body } = await service.call('send', { to: user, text: `answer ${count}` })
      // What the user wrote may not be there yet.
      if (body.status !== 'accepted' && body.code !== 'quota_exhausted') throw new Error(JSON.stringify(body))
    }
  })()
  return {
    get count() {
      return count
    },
    async stop() {
      stopped = true
      await done
      return count
    },
  }
}

/** A service with an account and a user who has written. */
export async function lived(program: Program, dir: string): Promise<Service> {
  const service = await start(program, dir)
  await service.phone('users', { id: user, name: 'User' })
  await logIn(service, 'work', user)
  await service.phone('say', { from: user, text: 'hello' })
  const { body } = await service.call('recv', { timeout: 30 })
  expect(body).toMatchObject([{ text: 'hello' }])
  return service
}

/** Returns the texts in the store of a service. */
function textsIn(dir: string): string[] {
  using db = new Database(join(dir, 'messages.db'), { readonly: true })
  return db
    .query<{ text: string }, []>('SELECT text FROM message')
    .all()
    .map(({ text }) => text)
}

/** Backs up under load, restores elsewhere, and goes on with the conversation. */
export async function drill(program: Program): Promise<void> {
  const folder = folderOfTest()
  const [first, second] = [join(folder, 'first'), join(folder, 'second')]
  mkdirSync(first, { mode: 0o700 })
  const phrase = join(folder, 'phrase')
  writeFileSync(phrase, `${passphrase}\n`, { mode: 0o600 })
  const file = join(folder, 'svc.tar.age')
  let answered = 0
  {
    await using service = await lived(program, first)
    await service.phone('users', { id: 'late@im.wechat', name: 'Late' })
    const queued = await service.call('send', {
      to: 'late@im.wechat',
      text: 'later',
      when_closed: 'queue',
    })
    expect(queued.body).toMatchObject({ status: 'queued' })
    const load = talk(service)
    await until('some answers', 30_000, () => load.count > 3)
    const before = load.count
    const made = await backUp(program, folder, [file, '-d', first, '--passphrase-file', phrase])
    expect(made).toMatchObject({ path: file, size: statSync(file).size, encrypted: true })
    answered = await load.stop()
    expect(answered).toBeGreaterThan(before)
    expect(readdirSync(first).filter(name => name.endsWith('.tmp'))).toEqual([])
    await service.kill('SIGKILL')
  }
  const args = [file, '-d', second, '--sandbox', '--passphrase-file', phrase]
  const { status, stdout, stderr } = await run(program, ['restore', ...args], folder)
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(stdout).toMatch(/^1 send must be approved .*work \(\S+@im\.bot\)/ms)

  await using copy = await start(program, second)
  await copy.phone('say', { from: user, text: 'still there?' })
  await until('it is received', 30_000, () => textsIn(second).includes('still there?'))
  const texts = textsIn(second)
  expect(new Set(texts).size).toBe(texts.length)
  expect(texts).toContain('question 0')

  expect((await copy.call('send', { to: user, text: 'yes' })).body).toMatchObject({ status: 'accepted' })
  const waiting = await (await fetch(`${copy.url}/outbox`)).json()
  expect(waiting).toMatchObject([{ to_user: 'late@im.wechat', waits_for: 'approval' }])
}
