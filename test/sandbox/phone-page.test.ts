import { expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { chromium } from 'playwright-core'
import { ilink } from '../support/ilink-client.ts'
import { withSandbox } from '../support/sandbox.ts'

const chromiumPath = '/usr/bin/chromium'
const here = existsSync(chromiumPath)
if (!here) console.warn(`skipped: the phone's page, since ${chromiumPath} is missing`)

test.skipIf(!here)(
  'a person scans, confirms, writes, sends a picture and sees the answers, with nothing from elsewhere',
  async () => {
    await using sandbox = await withSandbox({ switches: { typing_ms: 60_000 } })
    await using stack = new AsyncDisposableStack()
    const browser = await chromium.launch({
      executablePath: chromiumPath,
      args: [
        ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
        ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
      ],
    })
    stack.defer(() => browser.close())
    const page = await browser.newPage({ viewport: { width: 360, height: 740 } })
    page.setDefaultTimeout(30_000)
    const complaints: string[] = []
    page.on('pageerror', error => complaints.push(String(error)))
    page.on('console', line => void (line.type() === 'error' && complaints.push(line.text())))
    page.on('request', request => {
      if (!/^data:|^blob:/.test(request.url()) && !request.url().startsWith(sandbox.url))
        complaints.push(request.url())
    })
    await page.goto(`${sandbox.url}/phone`)
    await page.getByText('live', { exact: true }).waitFor()
    expect(await page.getByRole('button', { name: 'Send' }).isDisabled()).toBe(true)

    // What a switch is set to can be read, however narrow the column.
    await page.getByText('Time and behaviour').click()
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
    await page.getByText('Time and behaviour').click()

    const client = ilink(sandbox.url)
    const { qrcode } = await client.post('get_bot_qrcode?bot_type=3', {})
    await page.getByRole('button', { name: /^Scan as/ }).click()
    await page.getByRole('button', { name: 'Agree', exact: true }).click()
    const login = await client.get(`get_qrcode_status?qrcode=${qrcode}`)
    const done = login.bot_token ? login : await client.get(`get_qrcode_status?qrcode=${qrcode}`)
    const bot = ilink(sandbox.url, done.bot_token)

    await page.getByLabel('Message to the bot').fill('hello <b>bot</b> 你好')
    await page.keyboard.press('Enter')
    await page.getByText('hello <b>bot</b> 你好').waitFor()
    const heard = await bot.poll()
    expect(heard.msgs[0].item_list[0].text_item.text).toBe('hello <b>bot</b> 你好')

    const png = await page.screenshot()
    await page
      .locator('input[data-kind=image]')
      .setInputFiles({ name: 'sky.png', mimeType: 'image/png', buffer: png })
    await page.locator('.user img').waitFor()
    expect((await bot.poll(heard.get_updates_buf)).msgs[0].item_list[0].type).toBe(2)

    const user = done.ilink_user_id
    const { typing_ticket } = await bot.post('getconfig', { ilink_user_id: user })
    await bot.post('sendtyping', { ilink_user_id: user, typing_ticket, status: 1 })
    await page.getByLabel('The bot is typing').waitFor()
    await bot.send(user, 'an answer')
    await page.getByText('an answer').waitFor()
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
    await page.getByRole('button', { name: 'Let it expire' }).click()
    expect((await client.get(`get_qrcode_status?qrcode=${third.qrcode}`)).status).toBe('expired')

    for (const width of [360, 768, 1280]) {
      await page.setViewportSize({ width, height: 800 })
      expect(
        await page.evaluate(() => document.documentElement.scrollWidth - innerWidth),
      ).toBeLessThanOrEqual(0)
    }
    expect(complaints).toEqual([])
  },
)
