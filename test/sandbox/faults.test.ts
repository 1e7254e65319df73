import { expect, test } from 'bun:test'
import { faultKinds } from '../support/faults.ts'
import { ilink } from '../support/ilink-client.ts'
import { type TestSandbox, withSandbox } from '../support/sandbox.ts'
import { until } from '../support/until.ts'

const bind = (sandbox: TestSandbox) => {
  const bot = sandbox.bot()
  return { ...bot, ...ilink(sandbox.url, bot.token) }
}

test('every kind of fault strikes once and is over', async () => {
  await using sandbox = await withSandbox({ switches: { hold_ms: 1 } })
  const bot = bind(sandbox)
  const { requests } = sandbox.world.core.stats
  const result = async (kind: string) => {
    const before = requests.getupdates ?? 0
    const leaving = new AbortController()
    const answered = bot.poll('', leaving.signal).then(
      answer => `${answer.http} ${answer.text}`,
      (error: Error) => error.name,
    )
    if (kind === 'hang') {
      await until('it is asked', 30_000, () => (requests.getupdates ?? 0) > before)
      await Bun.sleep(50)
      leaving.abort()
    }
    return answered
  }
  const seen: Record<string, string> = {}
  for (const kind of Object.keys(faultKinds) as (keyof typeof faultKinds)[]) {
    await sandbox.fail('getupdates', kind, { delay_ms: 5, code: -7 })
    seen[kind] = (await result(kind)).slice(0, 40)
    expect(await result('')).toStartWith('200 {"ret":0,"msgs":[]')
  }
  expect(seen).toMatchObject({
    '400': expect.stringContaining('400 '),
    '401': expect.stringContaining('401 '),
    '404': '404 not found',
    '405': '405 ',
    '500': '500 ',
    '502': expect.stringContaining('502 <!DOCTYPE html>'),
    '524': expect.stringContaining('524 <!DOCTYPE html>'),
    hang: 'AbortError',
    reset: expect.stringMatching(/^(Type)?Error$/),
    cut: expect.stringMatching(/^(Type)?Error$/),
    slow: expect.stringContaining('200 {"ret":0'),
    malformed: 'SyntaxError',
    truncated: 'SyntaxError',
    html: expect.stringContaining('200 <!DOCTYPE html>'),
    empty_body: '200 ',
    nulls: expect.stringContaining('200 {"ret":null,'),
    empty: '200 {"ret":0,"msgs":[]}',
    ret: '200 {"ret":-7}',
    errcode: '200 {"errcode":-7}',
    expired: expect.stringContaining('200 {"errcode":-14,'),
  })
})

test('a fault hits the named bot and endpoint alone, as often as told, until it is mended', async () => {
  await using sandbox = await withSandbox({ switches: { hold_ms: 1 } })
  const one = bind(sandbox)
  const otherUser = await sandbox.addUser()
  const other = { ...sandbox.bot(otherUser) }
  await sandbox.fail('getupdates', '500', { bot: one.bot_id, times: 2 })
  expect((await ilink(sandbox.url, other.token).poll()).http).toBe(200)
  expect((await one.post('msg/notifystart', {})).http).toBe(200)
  expect([(await one.poll()).http, (await one.poll()).http, (await one.poll()).http]).toEqual([500, 500, 200])
  await sandbox.fail('*', '502', { times: 0 })
  expect([(await one.poll()).http, (await one.post('msg/notifystart', {})).http]).toEqual([502, 502])
  await sandbox.mend()
  expect((await one.poll()).http).toBe(200)
})

test('with "after" the send takes effect although its answer is lost', async () => {
  await using sandbox = await withSandbox()
  const bot = bind(sandbox)
  await sandbox.say('hi')
  await sandbox.fail('sendmessage', 'reset', { after: true })
  expect(await bot.send(bot.user_id, 'arrived').catch(() => 'lost')).toBe('lost')
  await sandbox.fail('sendmessage', 'reset')
  expect(await bot.send(bot.user_id, 'never').catch(() => 'lost')).toBe('lost')
  expect((await sandbox.messages({ from: 'bot' })).map(message => message.items[0]?.text)).toEqual([
    'arrived',
  ])
})

test('uploads and downloads fail in their own ways', async () => {
  await using sandbox = await withSandbox()
  const bot = bind(sandbox)
  const upload = async () => (await bot.upload(bot.user_id, 3, new Uint8Array(100_000))).response
  await sandbox.fail('upload', '201')
  expect((await upload()).status).toBe(201)
  await sandbox.fail('upload', 'no_param')
  const missing = await upload()
  expect([missing.status, missing.headers.get('x-encrypted-param')]).toEqual([200, null])

  const { media, cipher } = await bot.upload(bot.user_id, 3, new Uint8Array(100_000))
  const download = async () => {
    const url = `${sandbox.cdnUrl}/download?encrypted_query_param=${encodeURIComponent(media.encrypt_query_param)}`
    return Buffer.from(await (await fetch(url)).arrayBuffer())
  }
  await sandbox.fail('download', 'truncated')
  expect((await download()).length).toBeLessThan(cipher.length)
  await sandbox.fail('download', 'cut')
  expect(await download().catch(() => 'broken')).toBe('broken')
  await sandbox.fail('download', 'corrupt')
  const corrupt = await download()
  expect([corrupt.length, corrupt.equals(cipher)]).toEqual([cipher.length, false])
  await sandbox.fail('download', 'slow', { delay_ms: 60 })
  const started = performance.now()
  expect((await download()).equals(cipher)).toBe(true)
  expect(performance.now() - started).toBeGreaterThan(50)
})
