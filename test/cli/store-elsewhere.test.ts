/** Directories whose store is in a database, or was moved: what svc says to who looks in the wrong place. */
import { expect, test } from 'bun:test'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connectPg } from '../../src/platform/postgres.ts'
import { sql } from '../../src/platform/sql.ts'
import { svc, svcRunning } from '../support/command.ts'
import { newDatabase, secret } from '../support/databases.ts'
import { folderOfFile } from '../support/folder.ts'
import { isPostgresThere } from '../support/postgres.ts'
import { servedAt } from '../support/service.ts'
import { until } from '../support/until.ts'

const home = folderOfFile()
const nowhere = { SVC_UPSTREAM_URL: 'http://127.0.0.1:9', SVC_CDN_URL: 'http://127.0.0.1:9' }

/** Runs a service on the directory until it listens. @returns its log */
async function serve(dir: string, env: Record<string, string>): Promise<string> {
  const running = svcRunning(['openapi', '--port', '0', '--no-banner', '-d', dir], { home, env })
  await until(
    'it listens',
    30_000,
    () => servedAt(running.stdout, false),
    () => running.stderr,
  )
  running.stop('SIGTERM')
  return (await running.exited).stderr
}

test.skipIf(!isPostgresThere())(
  'svc knows where the store of a directory is',
  async () => {
    await using database = await newDatabase()
    const { host, pathname } = new URL(database.url)
    const given = { ...nowhere, SVC_STORE_URL: database.url, SVC_SECRET_KEY: secret }
    const [node, own, moved] = ['node', 'own', 'moved'].map(name => join(home, name)) as [
      string,
      string,
      string,
    ]

    // The address is forgotten.
    expect(await serve(node, given)).not.toContain('not used')
    const place = `${host}${pathname}`
    for (const args of [
      ['sessions'],
      ['nodes'],
      ['token'],
      ['backup', 'svc.tar'],
      ['openapi', '--port', '0'],
    ]) {
      const { status, stderr } = await svc([...args, '-d', node], { home, env: nowhere })
      expect([args, status, stderr.includes(place), stderr.includes('--store-url-file')]).toEqual([
        args,
        1,
        true,
        true,
      ])
      expect(stderr).not.toContain('svc login')
    }
    const forgotten = await svc(['status', '-d', node], { home, env: nowhere })
    expect([forgotten.status, forgotten.stdout.includes(place), forgotten.stdout.includes('login')]).toEqual([
      1,
      true,
      false,
    ])
    expect((await svc(['doctor', '-d', node], { home, env: nowhere })).stdout).toContain(place)
    for (const words of ['sessions', 'doctor']) {
      const { stderr, stdout } = await svc([words, '-d', node], { home, env: given })
      expect(stdout + stderr).not.toContain('--store-url-file')
    }

    // A store is here, and the address of a database is given.
    mkdirSync(own, { mode: 0o700 })
    writeFileSync(join(own, 'messages.db'), '')
    const lines = (await serve(own, given)).split('\n').filter(line => line.includes('is not used'))
    expect(lines).toEqual([expect.stringMatching(/ WARNING .*svc store copy .*own postgres/)])
    expect(existsSync(join(own, '.restoring'))).toBe(false)

    // It was moved there.
    mkdirSync(moved, { mode: 0o700 })
    writeFileSync(join(moved, 'messages.db'), '')
    writeFileSync(join(moved, '.restoring'), JSON.stringify({ moved_to: `postgres://${host}${pathname}` }))
    const says = `the store in ${moved} was moved to postgres://${host}${pathname}`
    const { status, stdout } = await svc(['status', '-d', moved], { home, env: nowhere })
    expect([status, stdout.includes(says), stdout.includes('login')]).toEqual([1, true, false])
    expect(await serve(moved, given)).not.toContain('is not used')

    // And away from there again.
    const connection = await connectPg({ url: database.url, name: 'tests', answerMs: 5000 })
    await connection.run(sql`UPDATE svc.meta SET moved_to = '/back'`)
    connection.destroy()
    const back = await svc(['status', '--json', '-d', node], { home, env: given })
    expect(JSON.parse(back.stdout)).toMatchObject({
      ok: false,
      unread: true,
      trouble: ['the store was moved to /back'],
    })
  },
  60_000,
)

test.skipIf(!isPostgresThere())(
  'commands that only look at a database make no folder',
  async () => {
    await using database = await newDatabase()
    const env = { ...nowhere, SVC_STORE_URL: database.url, SVC_SECRET_KEY: secret }
    const own = join(home, 'looking')
    mkdirSync(own)
    for (const words of ['nodes', 'doctor', 'status', 'sessions', 'outbox', 'consumers', 'messages search x'])
      for (const folder of [[], ['-d', join(own, 'named')], ['-d', own]]) {
        const { stderr } = await svc([...words.split(' '), ...folder], { home: own, env })
        expect([words, readdirSync(own), /svc-\w{6}\b/.exec(stderr.replaceAll(home, ''))]).toEqual([
          words,
          [],
          null,
        ])
      }
  },
  60_000,
)

test('the simulated WeChat for nodes starts beside the address of their database', async () => {
  const env = { SVC_STORE_URL_FILE: join(home, 'none') }
  const running = svcRunning(['sandbox', '--sandbox-port', '0', '-d', join(home, 'wechat')], { home, env })
  await until(
    'it listens',
    30_000,
    () => running.stdout.includes('phone on'),
    () => running.stderr,
  )
  running.stop('SIGTERM')
  await running.exited
})
