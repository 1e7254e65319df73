/**
 * The newest release and this build side by side: nodes on one database, processes on one data directory. The release is
 * made from its commit, whose message is `release VERSION`; without one in the history these tests are skipped.
 */
import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { startCluster } from '../support/cluster.ts'
import { ended } from '../support/ended.ts'
import { failure } from '../support/failure.ts'
import { isPostgresThere } from '../support/postgres.ts'
import { root } from '../support/repository.ts'
import { type Json, logIn, type Served, type Service, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const git = async (...args: string[]) => (await ended(['git', ...args], { cwd: root, env: {} })).stdout.trim()
const released =
  process.env.SVC_TEST_RELEASE ??
  (await git('log', '-1', '--format=%H', '--extended-regexp', '--grep=^release [0-9]+\\.[0-9]+\\.[0-9]+$'))

describe.skipIf(released === '')('beside the newest release (skipped without its commit)', () => {
  let folder = ''
  let release: string[] = []
  let releaseForm = 0
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'svc-release-'))
    const shell = async (command: string, cwd = root) => {
      const { status, stderr } = await ended(['sh', '-c', command], { cwd, env: { ...process.env } as never })
      if (status !== 0) throw new Error(stderr)
    }
    await shell(`git archive ${released} | tar -xf - -C ${folder}`)
    const isLockTheSame = (await git('diff', '--name-only', released, '--', 'bun.lock')) === ''
    if (isLockTheSame) await cp(join(root, 'node_modules'), join(folder, 'node_modules'), { recursive: true })
    else await shell(`'${process.execPath}' install --frozen-lockfile`, folder)
    release = [process.execPath, join(folder, 'src/main.ts')]
  }, 600_000)
  afterAll(() => rm(folder, { recursive: true, force: true }))

  test.skipIf(!isPostgresThere())(
    'as nodes of one database: each receives and sends, and each goes on alone',
    async () => {
      await using cluster = await startCluster({ nodes: 0 })
      const old = await cluster.addNode({ command: release })
      const now = await cluster.addNode()
      await cluster.logIn('bot')
      await liveTogether(old, now, cluster.phone)
      for (const [gone, other] of [
        [now, old],
        [old, now],
      ] as const) {
        await gone.kill('SIGKILL')
        await cluster.phone('say', { text: `after ${gone === now ? 'this build' : 'the release'} went` })
        const message = await next(other)
        expect(message.text).toContain('went')
        expect((await other.call('send', { to: message.from_user, text: 'I heard' })).status).toBe(200)
        if (gone === now) {
          await old.kill('SIGTERM')
          await cluster.addNode()
          break
        }
      }
    },
    600_000,
  )

  test('as processes of one data directory: each receives and sends, and the other takes over', async () => {
    const dir = join(folder, 'data')
    for (const [first, second] of [
      [release, undefined],
      [undefined, release],
    ]) {
      await rm(dir, { recursive: true, force: true })
      await mkdir(dir, { mode: 0o700 })
      const begin = (command: string[] | undefined) =>
        startService({ dir, args: ['--pace', 'off'], ...(command && { command }) })
      await using one = await begin(first)
      await logIn(one)
      const form = formOf(dir)
      // Where this build changed the form of the store, the release goes on if it runs, and does not start again.
      const startsNoMore = async () => expect(String(await failure(begin(release)))).toContain('exit')
      if (second === release && form > releaseForm) {
        await startsNoMore()
        continue
      }
      await using other = await begin(second)
      if (first === release) releaseForm = form
      await liveTogether(one, other, one.phone)
      await one.kill('SIGKILL')
      // The sandbox went with the first. The other serves it again at its address, which a third would not do.
      await until('the sandbox', 60_000, () =>
        fetch(`${one.phoneUrl}/phone/stats`).then(
          ({ ok }) => ok,
          () => false,
        ),
      )
      if (first === release && formOf(dir) > releaseForm) {
        await startsNoMore()
        await other.phone('say', { text: 'one went' })
        expect((await next(other)).text).toBe('one went')
        continue
      }
      await using third = await begin(first)
      await third.phone('say', { text: 'one went' })
      expect((await next(other)).text).toBe('one went')
    }
  }, 600_000)
})

/** The number of the form of the store. */
function formOf(dir: string): number {
  using database = new Database(join(dir, 'messages.db'), { readonly: true })
  return database.query<{ user_version: number }, []>('PRAGMA user_version').get()!.user_version
}

/** The next message for the usual reader. */
async function next(service: Served): Promise<Json> {
  return await until('a message', 60_000, async () => {
    const { body, status } = await service.call('recv', { timeout: 5 })
    if (status !== 200) return undefined
    return body[0]
  })
}

/** Both receive all, send, and see what the other did. */
async function liveTogether(one: Service, other: Service, phone: Service['phone']): Promise<void> {
  const texts = Array.from({ length: 20 }, (_none, nth) => `message ${nth}`)
  for (const text of texts) await phone('say', { text })
  const got: Json[] = []
  await until('all came', 60_000, async () => {
    for (const service of [one, other]) {
      const { body } = await service.call('recv', { timeout: 1 })
      got.push(...body)
    }
    return got.length >= texts.length
  })
  expect(got.map(({ text }) => text).sort()).toEqual([...texts].sort())
  for (const [nth, service] of [one, other].entries()) {
    const sent = await service.call('send', { to: got[0]!.from_user, text: `answer ${nth}` })
    expect([sent.status, sent.body.status]).toEqual([200, 'accepted'])
  }
  for (const service of [one, other]) {
    const { body } = await service.call('history', { limit: 100 })
    expect(body.total).toBe(texts.length + 2)
  }
}
