/** `svc export`: where the file goes, and what is left when it cannot be written. */
import { expect, test } from 'bun:test'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Message } from '../../src/model/message.ts'
import { svcRunning } from '../support/command.ts'
import { folderOfFile } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'
import { jsonLines } from '../support/overheard.ts'

const home = folderOfFile()
let files = 0
const fileOf = (ending: string) => join(home, `${++files}.${ending}`)
const leftovers = async () => (await readdir(home)).filter(name => name.endsWith('.tmp'))

async function withMessages() {
  const t = await withGateway()
  for (const text of ['one', 'two']) await t.sandbox.say(text)
  await t.receive(2)
  const env = { SVC_UPSTREAM_URL: t.sandbox.url, SVC_CDN_URL: `${t.sandbox.url}/c2c` }
  const start = (...words: string[]) => svcRunning(['export', ...words, '-d', t.dir], { home, env })
  return { ...t, start, run: (...words: string[]) => start(...words).exited }
}

test('the ending of the file says the format; --format is stronger', async () => {
  await using t = await withMessages()
  const [lines, page, forced] = [fileOf('jsonl'), fileOf('html'), fileOf('html')]
  expect(await t.run('-o', lines)).toMatchObject({ status: 0, stdout: `${lines}\n` })
  const messages = jsonLines<Message>({ stdout: await Bun.file(lines).text() })
  expect(messages.map(({ text }) => text)).toEqual(['one', 'two'])
  expect((await stat(lines)).mode & 0o777).toBe(0o600)
  await t.run('-o', page)
  expect(await Bun.file(page).text()).toStartWith('<!doctype html>')
  const { stdout } = await t.run('-o', forced, '--format', 'jsonl', '--json')
  expect(JSON.parse(stdout)).toEqual({ path: forced, size: Bun.file(lines).size })
  expect(await Bun.file(forced).text()).toBe(await Bun.file(lines).text())
  expect(await leftovers()).toEqual([])
})

test('an ending of another format needs --format, and leaves no file', async () => {
  await using t = await withMessages()
  for (const ending of ['csv', 'json', 'TXT', 'pdf']) {
    const path = fileOf(ending)
    expect(await t.run('-o', path)).toMatchObject({ status: 2, stdout: '' })
    expect(await Bun.file(path).exists()).toBe(false)
    expect((await t.run('-o', path, '--format', 'jsonl')).status).toBe(0)
  }
  for (const path of [fileOf('NDJSON'), join(home, 'messages')]) {
    await t.run('-o', path)
    expect(await Bun.file(path).text()).toStartWith('{"')
  }
})

test('without a file, or with -, the messages go to stdout', async () => {
  await using t = await withMessages()
  const plain = await t.run()
  expect(plain.stdout.split('\n')).toHaveLength(3)
  expect((await t.run('-o', '-')).stdout).toBe(plain.stdout)
  expect((await t.run('--format', 'html')).stdout).toEndWith('</html>\n')
})

test('an existing file is kept, unless --force says otherwise', async () => {
  await using t = await withMessages()
  const path = fileOf('jsonl')
  await Bun.write(path, 'precious')
  expect((await t.run('-o', path)).status).toBe(2)
  expect(await Bun.file(path).text()).toBe('precious')
  expect((await t.run('-o', path, '--force')).status).toBe(0)
  expect(await Bun.file(path).text()).toContain('"one"')
  for (const wrong of [join(home, 'missing', 'a.jsonl'), home])
    expect((await t.run('-o', wrong, '--force')).status).toBe(2)
  expect(await leftovers()).toEqual([])
})

test('a file that another program made during the export is kept', async () => {
  await using t = await withMessages()
  const path = fileOf('html')
  await t.sandbox.media('image', Buffer.from('x'))
  await t.receive(1)
  const answer = Promise.withResolvers<void>()
  await t.sandbox.fail('download', 'slow', { times: 1, until: answer.promise })
  const running = t.start('-o', path)
  await t.until('the export runs', async () => (await leftovers()).length > 0)
  await Bun.write(path, 'precious')
  answer.resolve()
  expect((await running.exited).status).toBe(2)
  expect(await Bun.file(path).text()).toBe('precious')
  expect(await leftovers()).toEqual([])
})

test('a signal leaves neither file nor part', async () => {
  await using t = await withMessages()
  const path = fileOf('html')
  await t.sandbox.media('image', Buffer.from('x'))
  await t.receive(1)
  await t.sandbox.fail('download', 'hang', { times: 0 })
  const running = t.start('-o', path)
  await t.until('the export runs', async () => (await leftovers()).length > 0)
  running.stop('SIGINT')
  expect((await running.exited).stderr).toBe('')
  expect(await Bun.file(path).exists()).toBe(false)
  expect(await leftovers()).toEqual([])
})
