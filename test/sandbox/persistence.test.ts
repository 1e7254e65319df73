import { expect, test } from 'bun:test'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { followSandbox, joinSandbox, startSandbox } from '../../src/sandbox/sandbox.ts'
import { folderOfTest } from '../support/folder.ts'
import { ilink } from '../support/ilink-client.ts'
import { withSandbox } from '../support/sandbox.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { until } from '../support/until.ts'

const script = `
import { systemClock } from '${join(import.meta.dir, '../../src/platform/clock.ts')}'
import { silentLog } from '${join(import.meta.dir, '../../src/platform/log.ts')}'
import { startSandbox } from '${join(import.meta.dir, '../../src/sandbox/sandbox.ts')}'
const { url } = await startSandbox({ dir: process.argv[1], host: '127.0.0.1', port: 0, clock: systemClock, log: silentLog })
console.log(url)
`

async function processOn(dir: string) {
  const child = Bun.spawn([process.execPath, '-e', script, dir], { stdout: 'pipe', stderr: 'inherit' })
  const reader = child.stdout.getReader()
  let url = ''
  while (!url.endsWith('\n')) {
    const { value, done } = await reader.read()
    if (done) throw new Error('the sandbox did not start')
    url += new TextDecoder().decode(value)
  }
  return { child, url: url.trim() }
}

async function logIn(url: string) {
  const { qrcode } = await ilink(url).post('get_bot_qrcode?bot_type=3', {})
  await fetch(`${url}/phone/scan`, { method: 'POST', body: '{"confirm":true}' })
  return await ilink(url).get(`get_qrcode_status?qrcode=${qrcode}`)
}

test('kill -9 loses nothing: users, bot, messages, media, cursor, quota, switches, time', async () => {
  const dir = folderOfTest()
  const first = await processOn(dir)
  const phone = async (path: string, body: BodyInit = '{}') =>
    (await fetch(`${first.url}/phone/${path}`, { method: 'POST', body })).json()
  const login = await logIn(first.url)
  const bot = ilink(first.url, login.bot_token)
  await phone('switches', '{"hold_ms":1,"burst":"off"}')
  await phone('clock', '{"advance_ms":1000000}')
  await phone('say', '{"text":"before"}')
  const { get_updates_buf: cursor, msgs } = await bot.poll()
  await bot.send(login.ilink_user_id, 'answer', msgs[0].context_token)
  const media = await phone('media?kind=file&name=a.txt', 'bytes')
  await phone('say', '{"text":"after"}')
  first.child.kill('SIGKILL')
  await first.child.exited

  expect((await stat(dir)).mode & 0o077).toBe(0)
  expect((await stat(join(dir, 'world.db'))).mode & 0o077).toBe(0)
  await using again = await withSandbox({ dir })
  expect(again.world.core.now() - Date.now()).toBeGreaterThan(990_000)
  const now = ilink(again.url, login.bot_token)
  const rest = await now.poll(cursor)
  expect(rest.msgs.length).toBe(2)
  expect(rest.msgs[1].item_list[0].text_item.text).toBe('after')
  expect(
    (await again.messages()).map(message => message.items[0]?.text ?? message.items[0]?.file_name),
  ).toEqual([...['before', 'answer', 'a.txt', 'after']])
  expect(Buffer.from(await again.mediaBytes(media.media_id)).toString()).toBe('bytes')
})

test('stopping answers the polls that are held, at once', async () => {
  const sandbox = await withSandbox()
  const held = ilink(sandbox.url, sandbox.bot().token).poll()
  const status = ilink(sandbox.url).get(
    `get_qrcode_status?qrcode=${(await ilink(sandbox.url).get('get_bot_qrcode?bot_type=3')).qrcode}`,
  )
  const { stats } = sandbox.world.core
  const bothHeld = () => stats.polls_now === 1 && stats.requests.get_qrcode_status === 1
  await until('both are held', 30_000, bothHeld)
  using watch = stopwatch()
  await sandbox[Symbol.asyncDispose]()
  expect(watch.ms).toBeLessThan(5000)
  expect((await held).msgs).toEqual([])
  expect((await status).status).toBe('wait')
})

test('others use the running sandbox, and one of them takes its place at the same address when it is gone', async () => {
  const dir = folderOfTest()
  const own = { dir, host: '127.0.0.1', port: 0, clock: systemClock, log: silentLog }
  expect(await followSandbox(own)).toBeUndefined()
  const first = await processOn(dir)
  const bot = ilink(first.url, (await logIn(first.url)).bot_token)
  const followers = [await followSandbox(own), await followSandbox(own)]
  expect(followers.map(follower => follower?.url)).toEqual([first.url, first.url])
  expect(await startSandbox(own).catch((error: { code: string }) => error.code)).toBe('store_unavailable')
  first.child.kill('SIGKILL')
  await first.child.exited
  await until('it answers again', 30_000, async () => (await joinSandbox(dir))?.url === first.url)
  await fetch(`${first.url}/phone/say`, { method: 'POST', body: '{"text":"still here"}' })
  expect((await bot.poll()).msgs[0].item_list[0].text_item.text).toBe('still here')
  for (const follower of followers) await follower?.stop()
  expect(await joinSandbox(dir)).toBeUndefined()
  const second = await startSandbox(own)
  await second.stop()
})

test('what is older than a month is removed: messages, media and codes; the next message has its own number', async () => {
  const dir = folderOfTest()
  const post = async (url: string, path: string, body: BodyInit = '{}') =>
    (await fetch(`${url}/phone/${path}`, { method: 'POST', body })).json()
  let token: string
  let cursor: string
  {
    await using first = await withSandbox({ dir })
    const login = await logIn(first.url)
    token = login.bot_token
    await post(first.url, 'say', '{"text":"old"}')
    await post(first.url, 'media?kind=file&name=a.txt', 'bytes')
    cursor = (await ilink(first.url, token).poll()).get_updates_buf
    await post(first.url, 'clock', `{"advance_ms":${31 * 24 * 3_600_000}}`)
    await post(first.url, 'say', '{"text":"young"}')
  }
  await using again = await withSandbox({ dir })
  const rows = (table: string) => again.world.core.db.all(`SELECT * FROM ${table}`).length
  expect((await again.messages()).map(one => one.items[0]?.text)).toEqual(['young'])
  expect([rows('media'), rows('login'), rows('bot')]).toEqual([0, 0, 1])
  expect(await readdir(join(dir, 'media'))).toEqual([])
  await post(again.url, 'say', '{"text":"next"}')
  const { msgs } = await ilink(again.url, token).poll(cursor)
  expect(
    msgs.map((one: { item_list: { text_item: { text: string } }[] }) => one.item_list[0]!.text_item.text),
  ).toEqual(['young', 'next'])
})
