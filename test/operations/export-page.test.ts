/** The page of an export: opens offline, runs nothing of what people wrote, and names what it does not have. */

import { describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { exportStylePath, makeExportStyle } from '../../scripts/export-style.ts'
import { createDirectCall } from '../../src/model/call.ts'
import { SvcError } from '../../src/model/error.ts'
import { owner } from '../../src/model/principal.ts'
import { exportMessages } from '../../src/operations/export.ts'
import { invoke } from '../../src/operations/gate.ts'
import { silentLog } from '../../src/platform/log.ts'
import { violations } from '../support/axe.ts'
import { hasBrowser, sharedBrowser } from '../support/browser.ts'
import { failure } from '../support/failure.ts'
import { folderOfFile } from '../support/folder.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'

const folder = folderOfFile()
const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==',
  'base64',
)
const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" onload="globalThis.hacked = 1"/>')
const hostile = [
  '</script><script>globalThis.hacked = 1</script>',
  '<img src=x onerror="globalThis.hacked = 1">',
  '"><svg onload=globalThis.hacked=1>',
  "</style></title><!-- <a href='javascript:globalThis.hacked=1'>",
  'a\u0000b\u0007c\u009fd \u202egpj.exe',
]

const pageOf = async ({ gateway }: Pick<TestGateway, 'gateway'>, input: object = {}) => {
  const call = createDirectCall()
  const { stream } = await invoke(exportMessages, gateway, { ...input, format: 'html' }, call, silentLog)
  return await new Response(stream).text()
}

test('a page says which conversations it has, by session and user, the newest first', async () => {
  await using t = await withGateway({ sessions: ['work', 'home'] })
  const [work, home] = [t.bots.get('work')!, t.bots.get('home')!]
  for (const text of ['one', 'two']) await t.sandbox.say(text, { from: work.user_id, to: work.bot_id })
  await t.receive(2)
  await t.sandbox.say('three', { from: home.user_id, to: home.bot_id })
  await t.receive(1)
  const page = await pageOf(t)
  const headings = [...page.matchAll(/<h2 class="foreign"[^>]*>([^<]+)</g)].map(
    ([, name]) => `${name}@im.wechat`,
  )
  expect(headings).toEqual([home.user_id, work.user_id])
  expect(page.match(/<article/g)).toHaveLength(3)
  expect(page.endsWith('</html>\n')).toBe(true)
  expect(await pageOf(t, { session: 'home' })).not.toContain('>two<')
})

test('what was only refused is a conversation where the panel lists one', async () => {
  await using t = await withGateway()
  await t.sandbox.say('one')
  const [{ from_user } = { from_user: '' }] = await t.receive(1)
  for (const to of ['nobody@im.wechat', from_user]) {
    if (to === from_user) await t.sandbox.fail('sendmessage', 'ret', { times: 1, code: -2 })
    expect(await failure(t.send({ to, text: 'refused' }))).toBeInstanceOf(SvcError)
  }
  const { messages } = await t.gateway.history.page({ limit: 10, offset: 0 })
  expect(messages.map(({ status = 'received' }) => status)).toEqual(['refused', 'refused', 'received'])
  expect(await pageOf(t)).not.toContain('nobody')
  // The user wrote before this page begins: the refused answer belongs to a conversation.
  const page = await pageOf(t, { since: messages[1]!.timestamp })
  expect([page.match(/<article/g)?.length, page.includes('nobody')]).toEqual([1, false])
})

test('one conversation has the name of its contact, its addresses are links, and a draft stands where it was sent', async () => {
  await using t = await withGateway()
  await t.sandbox.say('see https://example.com/a?b=1&c="2". and http://ex\u0430mple.com')
  const [{ from_user: user_id } = { from_user: '' }] = await t.receive(1)
  await t.gateway.users.name({ user_id, name: 'Mum & Dad' })
  const { outbox_id } = await t.send({ text: 'drafted first', approval: 'nobody' })
  await t.send({ text: 'never approved', approval: 'nobody' })
  t.clock.advance(10 * 60_000)
  await t.sandbox.advance(10 * 60_000)
  await t.sandbox.say('written meanwhile')
  await t.receive(1)
  t.clock.advance(5 * 60_000)
  await t.gateway.outbox.approve(owner, outbox_id!)
  const page = await pageOf(t)
  expect(page).toContain('<title>Mum &#38; Dad</title>')
  expect(
    [...page.matchAll(/<a href="([^"]+)" rel="noopener noreferrer">([^<]+)</g)].map(([, to]) => to),
  ).toEqual(['https://example.com/a?b=1&#38;c='])
  const said = [...page.matchAll(/dir="auto">([a-z ]+)</g)].map(([, text]) => text!.trim())
  expect(said.filter(text => text !== 'see')).toEqual([
    'written meanwhile',
    'drafted first',
    'never approved',
  ])
})

test('initials and colours are those of the panel', async () => {
  await using t = await withGateway()
  const say = (from: string) => {
    t.sandbox.world.people.ensureUser(from)
    return t.sandbox.say('hi', { from })
  }
  for (const [nth, name] of ['Mum', 'Anna Maria Li', '王小明', '🎉'].entries()) {
    const user_id = `o9cq80abcdefghij${nth}x@im.wechat`
    await say(user_id)
    await t.receive(1)
    await t.gateway.users.name({ user_id, name })
  }
  await say('o9cq80abcdefghijkz@im.wechat')
  await t.receive(1)
  const shown = [...(await pageOf(t)).matchAll(/<li><a.*?aria-hidden="true">([^<]*)</g)]
  expect(shown.map(([, initials]) => initials)).toEqual(['KZ', '🎉', '明', 'AM', 'M'])
})

describe('media', () => {
  test('a picture and a file are in the page; what cannot be is named, with the reason', async () => {
    await using t = await withGateway()
    await t.sandbox.media('image', png)
    await t.sandbox.media('image', svg)
    await t.sandbox.media('file', Buffer.from('a,b'), { name: 'Table "1".csv' })
    await t.sandbox.media('file', Buffer.alloc(9 * 1024 * 1024), { name: 'large.zip' })
    await t.receive(4)
    const page = await pageOf(t)
    expect(page).toContain(`src="data:image/png;base64,${png.toString('base64')}"`)
    expect(page).toContain(`href="data:application/octet-stream;base64,${svg.toString('base64')}"`)
    expect(page).toContain(
      `download="Table &#34;1&#34;.csv" href="data:application/octet-stream;base64,YSxi"`,
    )
    expect(page).toMatch(/large\.zip<\/span><span class="small soft">it is larger/)
    expect(page).toContain('<li>1 file: it is larger')
    expect(page).not.toContain('data:image/svg')
    expect(page).not.toContain('data:text')
  })

  test('what WeChat no longer has, and what breaks off, leaves the rest of the page whole', async () => {
    await using t = await withGateway()
    for (let nth = 0; nth < 3; nth++) await t.sandbox.media('image', png)
    await t.sandbox.say('the end')
    await t.receive(4)
    await t.sandbox.fail('download', '404', { times: 1 })
    await t.sandbox.fail('download', 'truncated', { times: 1 })
    const page = await pageOf(t)
    expect(page).toContain('<li>1 file: WeChat no longer has it</li>')
    expect(page).toContain('<li>1 file: it could not be fetched</li>')
    expect(page.match(/<img /g)).toHaveLength(1)
    expect(page).toContain('the end')
  })

  test('after several failures nothing more is fetched', async () => {
    await using t = await withGateway()
    for (let nth = 0; nth < 5; nth++) await t.sandbox.media('image', png)
    await t.receive(5)
    await t.sandbox.fail('download', 'corrupt', { times: 0 })
    let opened = 0
    const { open } = t.gateway.media
    Object.assign(t.gateway.media, {
      open: async (...args: Parameters<typeof open>) => {
        opened++
        throw new Error(`unreachable ${args[0].item}`)
      },
    })
    const page = await pageOf(t)
    expect(opened).toBe(3)
    expect(page).toContain('<li>2 files: WeChat could not be reached</li>')
  })
})

test('the policy allows the own style and nothing else that loads or runs', async () => {
  await using t = await withGateway()
  const page = await pageOf(t)
  const [, policy = ''] = /Content-Security-Policy" content="([^"]+)"/.exec(page) ?? []
  const [, style = ''] = /<style>([\s\S]*?)<\/style>/.exec(page) ?? []
  expect(policy).toContain(`'sha256-${createHash('sha256').update(style).digest('base64')}'`)
  expect(policy).toStartWith("default-src 'none'; ")
  expect(policy).not.toMatch(/unsafe|script|https?:|\*/)
})

test('the style is what the build makes of the rules of the panel', async () => {
  expect(readFileSync(exportStylePath, 'utf8')).toBe(await makeExportStyle())
})

test('a page is in the language and the time zone of its reader, and has no index of one', async () => {
  await using t = await withGateway({ sessions: ['work', 'home'] })
  const [work, home] = [t.bots.get('work')!, t.bots.get('home')!]
  for (const text of ['one', 'two']) await t.sandbox.say(text, { from: work.user_id, to: work.bot_id })
  await t.sandbox.say('three', { from: home.user_id, to: home.bot_id })
  await t.receive(3)
  const [message] = (await t.gateway.history.page({ limit: 1, offset: 0 })).messages
  const dayIn = (locale: string, timeZone: string) =>
    new Intl.DateTimeFormat(locale, { dateStyle: 'full', timeZone }).format(message!.timestamp)
  const chinese = await pageOf(t, { language: 'zh-CN', time_zone: 'Asia/Shanghai', session: 'home' })
  expect(chinese).toContain('<html lang="zh">')
  expect(chinese).toContain('1 条消息')
  expect(chinese).toContain('Asia/Shanghai')
  expect(chinese).toContain(dayIn('zh-CN', 'Asia/Shanghai'))
  const words = chinese.replace(/<style>.*?<\/style>/s, '')
  expect(words).not.toMatch(/Messages?|Received|exported|times|End of/)
  for (const part of ['<nav', 'href="#top"']) expect([part, chinese.includes(part)]).toEqual([part, false])
  const british = await pageOf(t, { language: 'en-GB', time_zone: 'America/New_York' })
  expect(british).toContain('3 messages · 2 conversations · exported on ')
  expect(british).toContain(dayIn('en-GB', 'America/New_York'))
  expect(british.match(/href="#c\d"/g)).toHaveLength(2)
  for (const input of [{ language: 'no language' }, { time_zone: 'Mars/Olympus' }])
    expect(await failure(pageOf(t, input))).toMatchObject({ code: 'invalid_arguments' })
})

describe.skipIf(!hasBrowser)('in a browser, from a file, without a network', () => {
  test('texts, names and file names run nothing; light and dark, wide and narrow, without a violation', async () => {
    await using t = await withGateway()
    for (const text of hostile) await t.sandbox.say(text)
    await t.sandbox.media('image', png)
    await t.sandbox.media('image', svg)
    for (const name of hostile) await t.sandbox.media('file', Buffer.from('x'), { name })
    const [{ from_user: user_id } = { from_user: '' }] = await t.receive(hostile.length * 2 + 2)
    await t.gateway.users.name({ user_id, name: hostile[1]!.slice(0, 40) })
    await t.send({ to: user_id, text: hostile.join('\n') })
    const path = join(folder, 'page.html')
    await Bun.write(path, await pageOf(t))
    const { browser } = await sharedBrowser()
    const seen: unknown[] = []
    for (const width of [1280, 360])
      for (const colorScheme of ['light', 'dark'] as const) {
        const context = await browser.newContext({
          viewport: { width, height: 800 },
          colorScheme,
          offline: true,
        })
        const page = await context.newPage()
        page.on('console', line => seen.push(line.text()))
        page.on('pageerror', error => seen.push(String(error)))
        page.on('request', request => {
          if (!/^(data|file):/.test(request.url())) seen.push(request.url())
        })
        await page.goto(`file://${path}`)
        for (const text of hostile.slice(0, 4))
          expect(await page.locator('main').textContent()).toContain(text)
        expect(await page.evaluate(() => Object(globalThis).hacked)).toBeUndefined()
        expect(
          await page.evaluate(() => document.querySelectorAll('script, iframe, [onload], [onerror]').length),
        ).toBe(0)
        expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBe(0)
        expect(await page.evaluate(() => document.images[0]?.naturalWidth)).toBe(1)
        expect(await violations(page)).toEqual([])
        await context.close()
      }
    expect(seen).toEqual([])
  })
})
