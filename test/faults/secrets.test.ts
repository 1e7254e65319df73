import { expect, onTestFinished, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createSealer } from '../../src/platform/sealing.ts'
import { readSecretState, writeSecretState } from '../../src/storage/sqlite/secret-state.ts'
import { filesWith } from '../storage/sqlite/secret-directory.ts'
import { svc } from '../support/command.ts'
import { folderOfTest } from '../support/folder.ts'
import { given } from '../support/given.ts'
import { svcProgram } from '../support/svc-program.ts'
import { hosted } from './support/hosted.ts'
import { runOnce } from './support/program.ts'
import { openSite, type Site } from './support/upstream.ts'

const it = given(openSite)

/** Runs `svc secrets` in a process of its own. */
const secrets = (site: Site, ...words: string[]) => runOnce(['secrets', ...words, '--json', '-d', site.dir])

const secretIn = (file: string) => readFileSync(file, 'utf8').trim()
const keyIdIn = (file: string) => createSealer(secretIn(file)).keyId!

/** Every secret of the session that svc keeps now. */
function tokensOf(site: Site): string[] {
  const read = (name: string) => JSON.parse(readFileSync(join(site.dir, 's', name), 'utf8'))
  return [
    read('token.json').token,
    ...Object.values<{ token: string }>(read('contexts.json')).map(({ token }) => token),
  ]
}

/** A service starts, the user writes and gets an answer, and the service stops. */
async function converse(site: Site, text: string, secretKey?: string): Promise<void> {
  await using service = await hosted(site, { config: { secretKey } })
  await site.heard(text)
  const sent = await service.call('send', { to: site.user, text: `answer to ${text}` })
  expect(sent.body).toMatchObject({ status: 'accepted' })
  const { body } = await service.call('history', { limit: 50 })
  expect(body.messages.map((one: { text: string }) => one.text)).toContain(text)
}

it('on, rotated and off between conversations: they go on, and a copy without the key shows no token', async site => {
  const [key, nextKey] = ['key', 'next'].map(name => join(folderOfTest(), name)) as [string, string]
  await converse(site, 'one')
  const tokens = tokensOf(site)
  expect(tokens.length).toBe(2)
  const shown = async () => (await Promise.all(tokens.map(token => filesWith(site.dir, token)))).flat()
  expect((await shown()).length).toBeGreaterThan(2)
  expect(await secrets(site, 'on', '--secret-key-file', key)).toMatchObject({ status: 0 })
  expect(await shown()).toEqual([])
  for (const words of [['sessions'], ['history'], ['send', site.user, 'x'], ['openapi', '--port', '0']])
    expect(await runOnce([...words, '-d', site.dir])).toMatchObject({
      status: 1,
      stderr: expect.stringContaining(keyIdIn(key)),
    })
  await converse(site, 'two', secretIn(key))
  expect(await shown()).toEqual([])
  const rotated = await secrets(site, 'rotate', '--secret-key-file', key, '--new-secret-key-file', nextKey)
  expect(rotated).toMatchObject({ status: 0 })
  expect(await filesWith(site.dir, `svc-sealed:${keyIdIn(key)}`)).toEqual([])
  await converse(site, 'three', secretIn(nextKey))
  expect(await shown()).toEqual([])
  expect(await secrets(site, 'off', '--secret-key-file', nextKey)).toMatchObject({ status: 0 })
  expect(await filesWith(site.dir, 'svc-sealed:')).toEqual([])
  await converse(site, 'four')
  expect(site.texts()).toEqual(['one', 'two', 'three', 'four'])
})

it('refused beside a service, and beside a command that has not ended; no key is made', async site => {
  const key = join(folderOfTest(), 'key')
  const refused = async () => {
    const { status, stderr } = await secrets(site, 'on', '--secret-key-file', key)
    expect([status, JSON.parse(stderr).code, await Bun.file(key).exists()]).toEqual([
      1,
      'store_unavailable',
      false,
    ])
    expect(await readSecretState(site.dir)).toEqual({ key: null })
  }
  const service = await site.start()
  await site.heard('one')
  await refused()
  await service.kill('SIGTERM')
  await site.sandbox.fail('sendmessage', 'hang')
  const where = ['-d', site.dir, '--upstream-url', site.sandbox.url]
  const sending = Bun.spawn([...svcProgram, 'send', site.user, 'hangs', ...where], { stderr: 'ignore' })
  onTestFinished(() => sending.kill('SIGKILL'))
  await site.asked('sendmessage', 1)
  await refused()
  sending.kill('SIGKILL')
  await sending.exited
  expect(await secrets(site, 'on', '--secret-key-file', key)).toMatchObject({ status: 0 })
})

test('while it is not finished, every command refuses the directory and says what to run', async () => {
  const home = folderOfTest()
  const dir = join(home, 'data')
  const key = join(home, 'key')
  expect(await svc(['secrets', 'on', '--secret-key-file', key, '-d', dir], { home })).toMatchObject({
    status: 0,
  })
  await writeSecretState(dir, { from: null, to: keyIdIn(key) })
  for (const words of [
    'sessions',
    'history',
    'recv --timeout 0',
    'send u@im.wechat x',
    'users',
    'outbox',
    'webhook',
    'events',
    'key',
    'audit',
    'openapi --port 0',
    'admin',
    'mcp',
  ])
    for (const given of [[], ['--secret-key-file', key]]) {
      const ended = await svc([...words.split(' '), ...given, '-d', dir], { home })
      expect([words, ended]).toEqual([
        words,
        expect.objectContaining({ status: 1, stderr: expect.stringContaining('svc secrets') }),
      ])
    }
  const status = await svc(['secrets', 'status', '--json', '-d', dir], { home })
  expect(JSON.parse(status.stdout)).toMatchObject({ state: 'unfinished', from: null, to: keyIdIn(key) })
  expect(await svc(['secrets', 'off', '--secret-key-file', key, '-d', dir], { home })).toMatchObject({
    status: 1,
  })
  expect(await svc(['secrets', 'on', '--secret-key-file', key, '-d', dir], { home })).toMatchObject({
    status: 0,
  })
  expect(await svc(['sessions', '--secret-key-file', key, '-d', dir], { home })).toMatchObject({ status: 0 })
})
