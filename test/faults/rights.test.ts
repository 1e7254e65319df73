import { afterEach, describe, expect, test } from 'bun:test'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { ended } from '../support/ended.ts'
import type { Json } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { hosted } from './support/hosted.ts'
import { cursorsIn } from './support/log-file.ts'
import { type Program, until } from './support/program.ts'
import { openSite } from './support/upstream.ts'

/** nobody: root is not stopped by modes. */
const stranger = 65534
const asStranger = ['setpriv', `--reuid=${stranger}`, `--regid=${stranger}`, '--clear-groups']

const canSwitch = (() => {
  const ok =
    process.getuid?.() === 0 &&
    Bun.which('setpriv') !== null &&
    // The sources may lie where only root may go; what ./scripts/test builds does not.
    Bun.spawnSync([...asStranger, ...svcProgram, '--version'], { stdout: 'ignore', stderr: 'ignore' })
      .exitCode === 0
  if (!ok)
    console.error('tests under another user are skipped: not root, no setpriv, or svc lies out of reach')
  return ok
})()

const dirs: string[] = []
afterEach(() => {
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true, force: true })
})
/** A folder of the stranger's, below one that anybody may enter. */
function ownFolder(): string {
  const parent = mkdtempSync('/tmp/svc-rights-')
  dirs.push(parent)
  chmodSync(parent, 0o755)
  const dir = join(parent, 'data')
  mkdirSync(dir)
  chownSync(dir, stranger, stranger)
  return dir
}
function giveAll(dir: string): void {
  for (const name of ['.', ...readdirSync(dir, { recursive: true, encoding: 'utf8' })])
    chownSync(join(dir, name), stranger, stranger)
}

/** A service of the stranger's that has stored `one`. */
async function openOwn() {
  const dir = ownFolder()
  const site = await openSite({ dir })
  giveAll(dir)
  const service = await site.start({ prefix: asStranger })
  await site.heard('one')
  return { dir, site, service, [Symbol.asyncDispose]: () => site[Symbol.asyncDispose]() }
}

async function refusal(program: Program): Promise<string> {
  expect(await program.ready).toBe(false)
  expect(await program.exited).toBe(1)
  expect(program.log()).not.toContain('bug in svc')
  expect(program.log()).not.toMatch(/^ +at /m)
  return program.log()
}

describe.skipIf(!canSwitch)('as another user (skipped where that is forbidden)', () => {
  test('a file of somebody else: one clear line, exit status 1, whichever it is', async () => {
    const dir = ownFolder()
    await using site = await openSite({ dir })
    const before = await hosted(site)
    await site.heard('one')
    await before.stop()
    // As a service of the stranger's leaves it.
    mkdirSync(join(dir, 'media'), { recursive: true })
    for (const { name, mode } of [
      { name: 'messages.db', mode: 0o444 },
      { name: 'messages.db', mode: 0o000 },
      { name: '.poll.lock', mode: 0o000 },
      { name: '.data.lock', mode: 0o444 },
      { name: 'media', mode: 0o555 },
    ]) {
      giveAll(dir)
      const path = join(dir, name)
      const own = statSync(path).mode
      chownSync(path, 0, 0)
      chmodSync(path, mode)
      expect(await refusal(site.launch({ prefix: asStranger }))).toContain(name)
      chmodSync(path, own)
    }
  })

  for (const file of ['token.json', 'contexts.json'])
    test(`a ${file} that may not be read: each command says so, and none takes it for lost or damaged`, async () => {
      const dir = ownFolder()
      await using site = await openSite({ dir })
      const before = await hosted(site)
      await site.heard('one')
      await before.stop()
      giveAll(dir)
      const path = join(dir, 's', file)
      chownSync(path, 0, 0)
      chmodSync(path, 0o600)
      const own = readFileSync(path, 'utf8')
      const where = ['-d', dir, '--upstream-url', site.sandbox.url]
      for (const [failed, ...words] of [
        [0, 'sessions'],
        [0, 'recv', '--timeout', '0'],
        [1, 'status'],
        [1, 'doctor'],
        [1, 'send', site.user, 'hi'],
        [1, 'check', 's'],
        [1, 'login', 's', '--timeout', '1'],
        [file === 'token.json' ? 0 : 1, 'users'],
        [file === 'token.json' ? 0 : 1, 'users', 's'],
        [1, 'logout', 's', '--yes'],
      ] as const) {
        const { status, stdout, stderr } = await ended([...asStranger, ...svcProgram, ...words, ...where], {
          cwd: '/',
          env: { PATH: process.env.PATH ?? '', HOME: dir },
          withinMs: 60_000,
        })
        const said = stdout + stderr
        expect([words[0], status, said]).toEqual([words[0], failed, said])
        expect(said).toContain(`s/${file} belongs to user 0`)
        expect(said).not.toMatch(/svc login s|damaged|bug in svc/)
      }
      expect(readFileSync(path, 'utf8')).toBe(own)
      expect(readdirSync(join(dir, 's')).filter(name => name.includes('corrupt'))).toEqual([])
    })

  test("a session's files that cannot be read: that session is disconnected, the other one works, and it heals", async () => {
    const dir = ownFolder()
    await using site = await openSite({ dir })
    const user = await site.sandbox.addUser('Other')
    const other = site.sandbox.bot(user)
    await site.connect('other', other)
    giveAll(dir)
    const service = await site.start({ prefix: asStranger })
    await site.heard('one')
    const files = ['token.json', 'contexts.json'].map(name => join(dir, 's', name))
    await until('contexts are there', 30_000, () => existsSync(files[1]!))
    // The look that finds another session has looked at these again: the service knows them by heart.
    await site.connect('third', site.sandbox.bot(await site.sandbox.addUser('Third')))
    giveAll(dir)
    await until('it is polled', 30_000, () => site.sandbox.world.core.stats.polls_now === 3)
    for (const path of files) {
      chownSync(path, 0, 0)
      chmodSync(path, 0o600)
    }
    const statuses = async () => {
      const { status, body } = await service.call('sessions')
      return (
        status === 200 &&
        body
          .map(({ name, status }: Json) => `${name} ${status}`)
          .sort()
          .join()
      )
    }
    await until(
      'it is told',
      30_000,
      async () => (await statuses()) === 'other connected,s disconnected,third connected',
    )
    await site.sandbox.say('works', { from: user, to: other.bot_id })
    await site.stored(2)
    const answered = await service.call('send', { to: user, text: 'hi' })
    expect(answered.body).toMatchObject({ status: 'accepted', session: 'other' })
    expect(service.log()).toMatch(/ WARNING state: .* folder=s /)
    for (const path of files) chownSync(path, stranger, stranger)
    await site.say('two')
    expect((await site.stored(3)).sort()).toEqual(['one', 'two', 'works'])
    expect(await statuses()).toBe('other connected,s connected,third connected')
    // Nobody took it for damaged.
    expect(readdirSync(join(dir, 's')).filter(name => name.includes('corrupt'))).toEqual([])
  })

  test("a session's folder that cannot be written while running: the cursor stays, sends go on, and nothing is lost when it can", async () => {
    await using own = await openOwn()
    const { dir, site, service } = own
    const cursor = await until('the cursor moves', 30_000, () => cursorsIn(dir).get(site.bot) || undefined)
    const folder = join(dir, 's')
    chownSync(folder, 0, 0)
    chmodSync(folder, 0o555)
    await site.heard('two')
    await until('it is told', 30_000, () => service.log().includes('batch not committed'))
    expect(cursorsIn(dir).get(site.bot)).toBe(cursor)
    const answer = await service.call('send', { to: site.user, text: 'hi' })
    expect(answer.body).toMatchObject({ status: 'accepted' })
    expect((await service.get('/healthz')).body).toMatchObject({ status: 'degraded' })
    chownSync(folder, stranger, stranger)
    chmodSync(folder, 0o700)
    await until('the cursor moves', 30_000, () => cursorsIn(dir).get(site.bot)! > cursor)
    await site.say('three')
    expect(await site.stored(3)).toEqual(['one', 'two', 'three'])
    expect((await service.call('send', { to: site.user, text: 'hi' })).body).toMatchObject({
      status: 'accepted',
    })
  })

  test('a data directory that cannot be written while running: open files go on, and it heals', async () => {
    await using own = await openOwn()
    const { dir, site, service } = own
    chownSync(dir, 0, 0)
    chmodSync(dir, 0o555)
    await site.say('two')
    expect(await site.stored(2)).toEqual(['one', 'two'])
    expect((await service.call('sessions')).status).toBe(200)
    chownSync(dir, stranger, stranger)
    chmodSync(dir, 0o700)
    await site.say('three')
    expect(await site.stored(3)).toEqual(['one', 'two', 'three'])
    expect(await service.kill('SIGTERM')).toBe(0)
  })

  test('a data directory that cannot be entered while running: the service says so, lives on, and heals', async () => {
    await using own = await openOwn()
    const { dir, site, service } = own
    chownSync(dir, 0, 0)
    chmodSync(dir, 0o700)
    await until('it is told', 30_000, () => service.log().includes('sessions to poll cannot be read'))
    // What goes unlooked at for a second is looked at then.
    await until('sessions cannot be read', 30_000, async () => {
      const { status, body } = await service.call('sessions')
      return status === 503 && body.code === 'store_unavailable'
    })
    await until('it is told', 30_000, async () => (await service.get('/healthz')).body.status === 'degraded')
    await site.say('two')
    chownSync(dir, stranger, stranger)
    await site.say('three')
    expect(await site.stored(3)).toEqual(['one', 'two', 'three'])
    await until('it is well', 30_000, async () => (await service.get('/healthz')).body.status === 'ok')
    expect(await service.kill('SIGTERM')).toBe(0)
  })
})
