import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { BrowserContext, Page, ViewportSize } from 'playwright-core'
import texts from '../../src/sandbox/page/texts.json' with { type: 'json' }
import { Switches } from '../../src/sandbox/switches.ts'
import { violations } from '../support/axe.ts'
import { hasBrowser, sharedBrowser, watch } from '../support/browser.ts'
import { ilink } from '../support/ilink-client.ts'
import { withSandbox } from '../support/sandbox.ts'

const root = resolve(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')

test('every text of the page is there in each language, and so is a sentence for every switch', () => {
  const { en, zh } = texts as Record<string, Record<string, string>>
  const isOwn = (key: string) => /^(switch|error)\./.test(key)
  const keys = (table: object) => Object.keys(table).filter(key => !isOwn(key))
  expect(keys(zh!)).toEqual(keys(en!))
  // The sandbox says these in English itself.
  const switches = Object.keys(zh!).filter(key => key.startsWith('switch.'))
  expect(switches).toEqual(
    Object.keys(Switches.properties)
      .map(name => `switch.${name}`)
      .sort(),
  )
  const [page, script] = [read('src/sandbox/page/phone.html'), read('src/sandbox/page/phone.js')]
  for (const [, key, text] of page.matchAll(/data-t="([^"]+)"[^>]*>([^<]*)</g))
    expect([key, text]).toEqual([key, en![key!]])
  const asked = [
    ...page.matchAll(/data-t(?:-\w+)?="([^"]+)"/g),
    ...script.matchAll(/'((?:bot|chats?|codes|people|quote|clock)\.[a-z_]+)'/g),
  ].map(([, key]) => key!)
  expect(asked.filter(key => !(key in en!))).toEqual([])
  for (const table of [en!, zh!])
    for (const [key, text] of Object.entries(table)) expect([key, text]).toEqual([key, text.trim() || '?'])
  const placeholders = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(([name]) => name).sort()
  for (const key of keys(en!)) expect([key, placeholders(zh![key]!)]).toEqual([key, placeholders(en![key]!)])
})

test('the README names buttons as the page does', () => {
  const named = [...read('README.md').matchAll(/press "([^"]+)" on the phone/g)].map(([, name]) => name!)
  expect(named.length).toBeGreaterThan(0)
  expect(named.filter(name => !Object.values(texts.en).includes(name))).toEqual([])
})

let context: Promise<BrowserContext> | undefined
/** Closed at the end. What one keeps is apart from the others': each has a sandbox of its own. */
async function newPage(stack: AsyncDisposableStack, viewport: ViewportSize): Promise<Page> {
  context ??= sharedBrowser().then(({ browser }) => browser.newContext({ locale: 'en' }))
  const page = await (await context).newPage()
  stack.defer(() => page.close())
  await page.setViewportSize(viewport)
  return page
}

test.skipIf(!hasBrowser)(
  'a person scans, confirms, writes, sends a picture and sees the answers, with nothing from elsewhere',
  async () => {
    await using sandbox = await withSandbox({ switches: { typing_ms: 60_000 } })
    await using stack = new AsyncDisposableStack()
    const page = await newPage(stack, { width: 360, height: 740 })
    const complaints: string[] = []
    watch(page, sandbox.url, complaints)
    await page.goto(`${sandbox.url}/phone`)
    await page.getByText('live', { exact: true }).waitFor()
    expect(await page.getByRole('button', { name: 'Send' }).isDisabled()).toBe(true)

    // On a narrow screen, what is not the phone is a screen of its own.
    const toPeople = async () => {
      while (await page.locator('.phone').isVisible()) await page.locator('#back').click()
    }
    await toPeople()
    // What a switch is set to can be read, however narrow the column.
    await page.getByText('Behaviour', { exact: true }).click()
    await page.locator('.switches select').first().waitFor()
    for (const width of [360, 600, 920, 1280]) {
      await page.setViewportSize({ width, height: 740 })
      const cut = await page.locator('.switches select').evaluateAll(fields =>
        fields.flatMap(field => {
          const { width } = field.getBoundingClientRect()
          const style = (field as HTMLElement).style
          style.cssText = 'width: max-content; min-width: 0; max-width: none'
          const needed = field.getBoundingClientRect().width
          style.cssText = ''
          return needed > width + 0.5 ? [`${field.getAttribute('data-name')}: ${width} of ${needed}`] : []
        }),
      )
      expect(cut).toEqual([])
    }
    await page.setViewportSize({ width: 360, height: 740 })
    await page.getByText('Behaviour', { exact: true }).click()
    await page.locator('#people button').first().click()

    const client = ilink(sandbox.url)
    const { qrcode } = await client.post('get_bot_qrcode?bot_type=3', {})
    await page.getByRole('button', { name: 'Scan only' }).click()
    await page.getByRole('button', { name: 'Agree', exact: true }).click()
    const login = await client.get(`get_qrcode_status?qrcode=${qrcode}`)
    const done = login.bot_token ? login : await client.get(`get_qrcode_status?qrcode=${qrcode}`)
    const bot = ilink(sandbox.url, done.bot_token)
    // What is over leaves the page.
    await page.getByRole('img', { name: 'QR code' }).waitFor({ state: 'hidden' })

    await page.getByLabel('Message to the bot').fill('hello <b>bot</b> 你好')
    await page.keyboard.press('Enter')
    await page.locator('#chat').getByText('hello <b>bot</b> 你好').waitFor()
    const heard = await bot.poll()
    expect(heard.msgs[0].item_list[0].text_item.text).toBe('hello <b>bot</b> 你好')

    const png = await page.screenshot()
    await page
      .locator('input[data-kind=image]')
      .setInputFiles({ name: 'sky.png', mimeType: 'image/png', buffer: png })
    await page.locator('.user img').waitFor()
    expect((await bot.poll(heard.get_updates_buf)).msgs[0].item_list[0].type).toBe(2)
    // In the units in which the panel says it.
    await sandbox.media('file', new Uint8Array(20_000_000), { name: 'big.zip' })
    await page.getByText('20 MB', { exact: true }).waitFor()

    const user = done.ilink_user_id
    const { typing_ticket } = await bot.post('getconfig', { ilink_user_id: user })
    await bot.post('sendtyping', { ilink_user_id: user, typing_ticket, status: 1 })
    await page.getByText('The bot is typing').waitFor({ state: 'attached' })
    await bot.send(user, 'an answer')
    await page.locator('#chat').getByText('an answer', { exact: true }).waitFor()
    const { media } = await bot.upload(user, 1, png)
    await bot.send(user, '', '', { item_list: [{ type: 2, image_item: { media } }] })
    const picture = page.locator('.bot img')
    await picture.waitFor()
    await page.waitForFunction(
      () => (document.querySelector('.bot img') as HTMLImageElement).naturalWidth === 360,
    )
    const paper = await bot.upload(user, 3, new Uint8Array(1000))
    await bot.send(user, '', '', {
      item_list: [{ type: 4, file_item: { media: paper.media, file_name: 'paper.pdf', len: '1000' } }],
    })
    await page.getByRole('link', { name: /paper\.pdf/ }).waitFor()
    await page.locator('.bot', { hasText: 'an answer' }).getByRole('button', { name: 'Quote' }).focus()
    await page.keyboard.press('Enter')
    await page.getByLabel('Message to the bot').fill('about this')
    await page.keyboard.press('Enter')
    await page.locator('.user .ref', { hasText: 'an answer' }).waitFor()

    // Digits: asked for by the phone, shown on it, typed by the client.
    const second = await client.post('get_bot_qrcode?bot_type=3', {})
    await page.getByRole('button', { name: 'Ask for digits' }).click()
    await page.getByRole('button', { name: 'Scan and agree' }).click()
    const digits = await page.locator('.digits:visible').textContent()
    const verified = await client.get(`get_qrcode_status?qrcode=${second.qrcode}&verify_code=${digits}`)
    expect(verified.status).toBe('confirmed')
    const third = await client.post('get_bot_qrcode?bot_type=3', {})
    // The code before may still be shown, with a button of that name.
    await page.locator(`[data-name="${third.qrcode} codes.expire"]`).click()
    expect((await client.get(`get_qrcode_status?qrcode=${third.qrcode}`)).status).toBe('expired')

    // The new bot has a chat of its own; that of the one before can still be read.
    await page.getByText('A user must write first').waitFor()
    expect(await page.locator('#chat').getByText('an answer', { exact: true }).count()).toBe(0)
    await page.getByRole('button', { name: texts.en['chats.back'] }).click()
    await page.getByRole('button', { name: /^Bot \(logged out\)/ }).click()
    await page.locator('#chat').getByText('an answer', { exact: true }).first().waitFor()
    expect(await page.getByRole('button', { name: 'Send' }).isDisabled()).toBe(true)

    await toPeople()
    await page.getByLabel('Days').fill('1')
    await page.getByLabel('Hours').fill('2')
    await page.getByRole('button', { name: 'Move on' }).click()
    await page.getByText('1 day and 2 hours ahead').waitFor()
    expect(sandbox.world.core.aheadMs).toBe(26 * 3_600_000)

    await client.post('get_bot_qrcode?bot_type=3', {})
    await page.getByText('Behaviour', { exact: true }).click()
    await page.getByText(Switches.properties.empty_cursor.description!).waitFor()
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      expect([colorScheme, await violations(page)]).toEqual([colorScheme, []])
    }
    await page.getByRole('button', { name: '中文' }).click()
    await page.setViewportSize({ width: 320, height: 740 })
    const [title, line] = await Promise.all([
      page.locator('h1').boundingBox(),
      page.locator('#line').boundingBox(),
    ])
    expect(line!.x - title!.x - title!.width).toBeGreaterThanOrEqual(8)
    await page.getByRole('button', { name: '扫码并同意' }).waitFor()
    await page.getByText('光标为空时').waitFor()
    expect(await page.locator('html').getAttribute('lang')).toBe('zh')
    expect(await (await page.reload())?.ok()).toBe(true)
    await page.getByRole('button', { name: '扫码并同意' }).waitFor()

    for (const width of [320, 768, 1280]) {
      await page.setViewportSize({ width, height: 800 })
      expect(
        await page.evaluate(() => document.documentElement.scrollWidth - innerWidth),
      ).toBeLessThanOrEqual(0)
    }
    expect(complaints).toEqual([])

    // A look that failed is forgotten with the next one that works.
    await page.route('**/phone/state*', route => route.abort())
    await sandbox.switches({ typing_ms: 6000 })
    await page.getByText(texts.zh['line.lost']).waitFor()
    await page.unroute('**/phone/state*')
    await sandbox.switches({ typing_ms: 60_000 })
    await page.getByText(texts.zh['line.live'], { exact: true }).waitFor()
  },
)

test.skipIf(!hasBrowser)(
  'the newest message stays in view as the window changes, unless one has gone back',
  async () => {
    await using sandbox = await withSandbox()
    await using stack = new AsyncDisposableStack()
    const bot = sandbox.bot()
    for (let nth = 0; nth < 30; nth++) await sandbox.say(`message ${nth}`, { to: bot.bot_id })
    const page = await newPage(stack, { width: 390, height: 844 })
    await page.goto(`${sandbox.url}/phone`)
    const chat = page.locator('#chat')
    await chat.getByText('message 29', { exact: true }).waitFor()
    const below = () =>
      chat.evaluate(async list => {
        // What follows a change of size is done before the second frame.
        for (let frames = 0; frames < 2; frames++) await new Promise(requestAnimationFrame)
        return Math.round(list.scrollHeight - list.scrollTop - list.clientHeight)
      })
    const sizes = [
      { width: 390, height: 600 },
      { width: 844, height: 390 },
      { width: 390, height: 844 },
    ]
    for (const size of sizes) {
      await page.setViewportSize(size)
      expect([size, await below()]).toEqual([size, 0])
    }
    await chat.evaluate(list => list.scrollTo(0, 200))
    const kept = () => chat.evaluate(list => list.scrollTop)
    expect(await below()).toBeGreaterThan(100)
    await page.setViewportSize({ width: 390, height: 600 })
    await sandbox.say('one more', { to: bot.bot_id })
    await chat.getByText('one more', { exact: true }).waitFor()
    expect(await below()).toBeGreaterThan(100)
    expect(await kept()).toBe(200)
  },
)

test.skipIf(!hasBrowser)(
  'a person sees the chats with bots that the person talks with, and in which there is something new',
  async () => {
    await using sandbox = await withSandbox()
    await using stack = new AsyncDisposableStack()
    const [own, other] = [sandbox.bot(), sandbox.bot(await sandbox.addUser('Mei'))]
    // Nobody writes to this one.
    sandbox.bot(await sandbox.addUser('Carl'))
    const answer = (bot: typeof own, text: string) =>
      ilink(sandbox.url, bot.token).send(own.user_id, text, '', {})
    await sandbox.say('hello', { to: own.bot_id, from: own.user_id })
    await sandbox.say('hello', { to: other.bot_id, from: own.user_id })
    const page = await newPage(stack, { width: 1280, height: 844 })
    await page.goto(`${sandbox.url}/phone`)
    const rows = (list: string) => page.locator(`${list} li:visible`)
    const unread = (list: string) => rows(list).filter({ has: page.locator('.unread') })
    await page.getByRole('button', { name: texts.en['chats.back'] }).click()
    await rows('#chats').nth(1).waitFor()
    expect(await rows('#chats').count()).toBe(2)
    expect(await unread('#people').count()).toBe(0)
    await answer(other, 'an offer')
    await unread('#chats').filter({ hasText: 'an offer' }).waitFor()
    expect([await unread('#chats').count(), await unread('#people').count()]).toEqual([1, 1])
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      expect([colorScheme, await violations(page)]).toEqual([colorScheme, []])
    }
    await unread('#chats').getByRole('button').press('Enter')
    await page.locator('.bot', { hasText: 'an offer' }).waitFor()
    await unread('#people').waitFor({ state: 'detached' })
    // What comes into the open chat is seen; what comes into the other one is not, also after a reload.
    await answer(other, 'one more')
    await page.locator('.bot', { hasText: 'one more' }).waitFor()
    expect(await unread('#people').count()).toBe(0)
    await answer(own, 'hello?')
    await answer(own, 'are you there?')
    await unread('#people').getByText('2', { exact: true }).waitFor()
    await page.reload()
    await unread('#people').waitFor()
    await page.getByRole('button', { name: texts.en['chats.back'] }).click()
    await unread('#chats').first().waitFor()
    expect(await unread('#chats').allInnerTexts()).toEqual([expect.stringContaining('are you there?')])
  },
)

test.skipIf(!hasBrowser)('on a phone the people are a screen, and a tap on one opens the chat', async () => {
  await using sandbox = await withSandbox()
  await using stack = new AsyncDisposableStack()
  const bot = sandbox.bot()
  const mei = await sandbox.addUser('Mei')
  await sandbox.say('Is it open today?', { to: sandbox.bot(mei).bot_id, from: mei })
  await sandbox.say('hello', { to: bot.bot_id })
  const page = await newPage(stack, { width: 390, height: 844 })
  await page.goto(`${sandbox.url}/phone`)
  const [phone, people] = [page.locator('.phone'), page.locator('#people')]
  await phone.locator('#chat').getByText('hello', { exact: true }).waitFor()
  expect(await people.isVisible()).toBe(false)
  await page.getByRole('button', { name: texts.en['people.back'] }).click()
  await phone.waitFor({ state: 'hidden' })
  expect(await violations(page)).toEqual([])
  // Each has a last line.
  await people.getByRole('button').filter({ hasText: 'Mei' }).filter({ hasText: 'Is it open today?' }).click()
  const said = phone.locator('#chat').getByText('Is it open today?')
  await said.waitFor()
  expect((await said.boundingBox())!.y).toBeLessThan(844)
  expect(await page.evaluate(() => scrollY)).toBe(0)
  await people.waitFor({ state: 'hidden' })
})

test.skipIf(!hasBrowser)('two codes are told apart, and one that changed nothing says so', async () => {
  await using sandbox = await withSandbox()
  await using stack = new AsyncDisposableStack()
  const { logins, people } = sandbox.world
  const bot = sandbox.bot()
  logins.create([])
  logins.create([people.findBot(bot.bot_id)!.token])
  const page = await newPage(stack, { width: 1280, height: 720 })
  await page.goto(`${sandbox.url}/phone`)
  const cards = page.locator('.code')
  await cards.nth(1).waitFor()
  const [one, other] = await cards.locator('.made').allInnerTexts()
  expect(one).not.toBe(other!)
  await cards.first().getByRole('button', { name: texts.en['codes.scan_agree'] }).click()
  const name = people.listUsers()[0]!.name
  await cards.first().getByText(texts.en['codes.bound'].replace('{name}', name)).waitFor()
  expect(await cards.first().getByRole('button').count()).toBe(0)
})

test.skipIf(!hasBrowser)('it opens as somebody who has a chat, not as the first of all', async () => {
  await using sandbox = await withSandbox()
  await using stack = new AsyncDisposableStack()
  const mum = await sandbox.addUser('Mum')
  sandbox.bot(mum)
  const page = await newPage(stack, { width: 1280, height: 740 })
  await page.goto(`${sandbox.url}/phone`)
  await page.getByText('live', { exact: true }).waitFor()
  await page.locator('#people button[aria-current]', { hasText: 'Mum' }).waitFor()
})
