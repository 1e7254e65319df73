/**
 * What one plain send over REST does from the socket to the answer, by the number of calls of functions of `src`: each
 * thing once. A higher number is a second look at something; find it with the list that a failure prints.
 */
import { expect, test } from 'bun:test'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { folderOfTest } from '../support/folder.ts'
import { startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const user = 'o9cqAbCdEf@im.wechat'

/** Writes a session to which the user has just written. */
function writeSession(dir: string, base_url: string): void {
  const folder = join(dir, 'shop')
  mkdirSync(folder, { mode: 0o700 })
  const now = Date.now()
  const token = {
    bot_id: 'a1@im.bot',
    token: 'a1@im.bot:t',
    base_url,
    user_id: user,
    cursor: '',
    created_at: now,
  }
  const context = { token: 'A'.repeat(120), received_at: now, used: -100, first_seen: now }
  writeFileSync(join(folder, 'token.json'), JSON.stringify(token), { mode: 0o600 })
  writeFileSync(join(folder, 'contexts.json'), JSON.stringify({ [user]: context }), { mode: 0o600 })
}

/** Starts a server in the place of WeChat that takes every message, and holds polls. */
function startUpstream() {
  let sent = 0
  return Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    fetch: request =>
      new URL(request.url).pathname.endsWith('getupdates')
        ? new Promise<Response>(() => {})
        : Response.json({ ret: 0, message_id: String(++sent) }),
  })
}

test('a plain send runs thirteen statements, and does each thing once', async () => {
  const dir = folderOfTest()
  await using upstream = startUpstream()
  writeSession(dir, upstream.url.origin)
  const preload = join(import.meta.dirname, '../support/calls.ts')
  await using service = await startService({
    dir,
    sandbox: false,
    command: [process.execPath, '--preload', preload, join(import.meta.dirname, '../../src/main.ts')],
    args: ['--upstream-url', upstream.url.origin, '--pace', 'off', '--log-level', 'error'],
  })
  const send = async (text: string) => {
    expect((await service.call('send', { to: user, text })).body).toMatchObject({ status: 'accepted' })
  }
  const takeCounts = async () => {
    const before = service.log().length
    process.kill(service.pid, 'SIGUSR2')
    return await until('the counts', 10_000, () => {
      const line = /^calls (.*)\n/m.exec(service.log().slice(before))?.[1]
      return line === undefined ? undefined : (JSON.parse(line) as Record<string, number>)
    })
  }
  // The first sends write down what they learn of the account, and the service does other things now and then.
  let least: [string, number][] = []
  for (let round = 0; round < 20 && (round < 4 || isMore(least)); round++) {
    await send('before')
    await takeCounts()
    await send(`number ${round}`)
    const counted = Object.entries(await takeCounts())
    if (round === 0 || sumOf(counted) < sumOf(least)) least = counted
  }
  const statements = least.find(([name]) => name === 'src/platform/sqlite.ts:statementOf')?.[1]
  expect(statements).toBe(13)
  const listed = least.toSorted(([, a], [, b]) => b - a).map(([name, count]) => `${count} ${name}`)
  expect({ isMore: isMore(least), listed }).toMatchObject({ isMore: false })
})

const sumOf = (counts: readonly [string, number][]) => counts.reduce((sum, [, count]) => sum + count, 0)

/** Returns whether a send does more than it did when this was written: calls, and files with one of them. */
const isMore = (counts: readonly [string, number][]): boolean =>
  sumOf(counts) > 680 || new Set(counts.map(([name]) => name.split(':')[0])).size > 102
