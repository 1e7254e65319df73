import { describe, expect, test } from 'bun:test'
import { rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { folderOfTest } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'
import { stopwatch } from '../support/stopwatch.ts'

describe('the accounts', () => {
  test('the default one first, then the oldest; a new default; the default goes, the oldest takes over', async () => {
    await using t = await withGateway({ sessions: [] })
    for (const name of ['c', 'a', 'b']) {
      await t.connect(name)
      t.clock.advance(1000)
    }
    const names = async () =>
      (await t.gateway.accounts.list()).map(({ name, is_default }) => (is_default ? `*${name}` : name))
    expect(await names()).toEqual(['*c', 'a', 'b'])
    expect(await t.gateway.accounts.setDefault('B')).toEqual({ success: true, default_session: 'b' })
    expect(await names()).toEqual(['*b', 'c', 'a'])
    expect(await t.gateway.accounts.logout('')).toEqual({ success: true, session: 'b' })
    expect(await names()).toEqual(['*c', 'a'])
    expect(await t.gateway.accounts.rename('', '新名字')).toEqual({
      success: true,
      old_name: 'c',
      new_name: '新名字',
    })
    expect(await names()).toEqual(['*新名字', 'a'])
  })
})

describe('the end', () => {
  test('closing during long polls takes a moment, and a second time nothing', async () => {
    await using t = await withGateway({ sessions: ['a', 'b', 'c'] })
    await t.until('held', () => t.sandbox.world.core.stats.polls_now === 3)
    using watch = stopwatch()
    await t.gateway.close()
    expect(watch.ms).toBeLessThan(4000)
    await t.gateway.close()
    expect(t.requests('notifystop')).toBe(3)
    expect(t.sandbox.world.core.stats.polls_now).toBe(0)
  })

  test('a copy of the directory goes on where the original ended: readers, people, answers left', async () => {
    await using t = await withGateway()
    await t.sandbox.say('one')
    const [message] = await t.receive(1)
    const { from_user, session } = message!
    await t.send({ to: from_user, text: 'an answer' })
    await t.gateway.users.name({ user_id: from_user, name: 'Mei' })
    const [before] = await t.gateway.accounts.listUsers(session)
    await t.gateway.close()
    const dir = join(folderOfTest(), 'copy')
    expect(Bun.spawnSync(['cp', '-a', t.dir, dir]).exitCode).toBe(0)
    await t.sandbox.say('two')
    await using copy = await withGateway({ sandbox: t.sandbox, dir, sessions: [] })
    expect(await copy.gateway.accounts.listUsers(session)).toEqual([before!])
    expect(before).toMatchObject({ name: 'Mei', remaining: 9 })
    expect((await copy.receive(1)).map(({ text }) => text)).toEqual(['two'])
  })

  test('nothing keeps the process alive afterwards', async () => {
    const dir = folderOfTest()
    await using t = await withGateway({ start: false })
    const program = `
      import { openGateway } from ${JSON.stringify(fileURLToPath(new URL('../../src/gateway/gateway.ts', import.meta.url)))}
      import { readConfig } from ${JSON.stringify(fileURLToPath(new URL('../../src/config.ts', import.meta.url)))}
      import { createDirectCall } from ${JSON.stringify(fileURLToPath(new URL('../../src/model/call.ts', import.meta.url)))}
      import { owner } from ${JSON.stringify(fileURLToPath(new URL('../../src/model/principal.ts', import.meta.url)))}
      import { silentLog } from ${JSON.stringify(fileURLToPath(new URL('../../src/platform/log.ts', import.meta.url)))}
      const gateway = await openGateway({
        config: readConfig({ basePath: ${JSON.stringify(dir)} }, {}), log: silentLog, version: '0', sandboxUrl: ${JSON.stringify(t.sandbox.url)},
      })
      await gateway.start()
      await gateway.logins.login(owner, { session_name: 'x', timeout: 1, force: false }, new AbortController().signal)
      const call = createDirectCall()
      await gateway.inbox.recv({ timeout: 0.2, limit: 1, consumer: 'default' }, call)
      const waiting = gateway.inbox.recv({ timeout: 200, limit: 1, consumer: 'default' }, call)
      await gateway.close()
      await waiting
      console.log('closed')
    `
    await writeFile(join(dir, 'life.ts'), program)
    const child = Bun.spawn([process.execPath, join(dir, 'life.ts')], { stdout: 'pipe', stderr: 'inherit' })
    let said = ''
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      said += chunk
      if (said === 'closed\n') break
    }
    expect(said).toBe('closed\n')
    using watch = stopwatch()
    expect(await child.exited).toBe(0)
    expect(watch.ms).toBeLessThan(4000)
  })
})

test('a poll lock that cannot be tried is logged once, however often it is tried, and once when it can be again', async () => {
  await using t = await withGateway()
  const times = (start: string) => t.lines.filter(line => line.includes(start)).length
  const aside = `${t.dir}-aside`
  await rename(t.dir, aside)
  try {
    await t.hurry(t.until('it is tried', () => times(' ERROR polling: ') > 0))
    await t.pass(10_000)
    expect(times(' ERROR polling: ')).toBe(1)
    await rename(aside, t.dir)
    await t.hurry(t.until('it polls again', async () => (await t.gateway.health()).role === 'poller'))
    // That it can be tried again, and that it was won.
    expect(times(' INFO polling: ')).toBe(2)
    expect(times(' ERROR polling: ')).toBe(1)
  } finally {
    await rm(aside, { recursive: true, force: true })
  }
})
