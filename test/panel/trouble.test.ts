import { describe, expect, test } from 'bun:test'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { testClock } from '../support/clock.ts'
import { withGateway } from '../support/gateway.ts'
import { type TestPanel, withPanel, write } from '../support/panel.ts'
import { wordsOf } from '../support/panel-hand.ts'
import { freePort } from '../support/port.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
/** Waits for what the panel finds when it looks, once a second: some seconds pass at once, the others as they do. */
async function soon(panel: TestPanel, page: Page, text: string): Promise<void> {
  let seconds = 20
  await panel.until(text, async () => {
    if (seconds-- > 0) panel.clock.advance(1000)
    return (await page.locator('.sentence', { hasText: text }).count()) > 0
  })
}
const says = (page: Page, text: string) => page.locator('.sentence', { hasText: text }).waitFor()

describe.skipIf(!hasBrowser)('what is wrong, on the overview and elsewhere', () => {
  test('an expired and a damaged account are told as it happens, each with the way out', async () => {
    await using panel = await withPanel({ sessions: ['default', 'sales', 'ops'] })
    const page = await panel.open()
    await says(page, 'All 3 accounts are well')
    panel.sandbox.world.people.expire(panel.bots.get('sales')!.bot_id)
    await soon(panel, page, '1 account needs you')
    await writeFile(join(panel.dir, 'ops', 'token.json'), '{"bot_id":')
    await soon(panel, page, '2 accounts need you')
    await page.getByRole('heading', { name: /ops.* files|files of .*ops/ }).waitFor()
    // Trouble stands first.
    expect(await page.locator('.fleet h3').allInnerTexts()).toEqual(['ops', 'sales', 'default'])
    expect(await violationsInBothThemes(page)).toEqual([])
    const row = page.locator('.concern', { hasText: 'sales' })
    await row.getByRole('link', { name: 'Log in again' }).click()
    await page.waitForURL('**/sessions/sales/login')
    await page.getByRole('dialog').waitFor()
    expect(panel.complaints).toEqual([])
  })

  test('a stalled poller is named with the commands that help, and the panel sees it wake', async () => {
    await using panel = await withPanel({ start: false })
    // Its time stands still: it shows no life, and goes on when it is let.
    const clock = testClock({ runs: false })
    await using _poller = await withGateway({ sandbox: panel.sandbox, dir: panel.dir, sessions: [], clock })
    await panel.gateway.start()
    const page = await panel.open()
    await says(page, 'Your account is well')
    await page.getByText('Received by another process').waitFor()
    await panel.until('the stall is seen', async () => {
      if (panel.clock.sleeps(0, 1000)) panel.clock.advance(1000)
      return (await panel.gateway.health()).stalled
    })
    await says(page, 'No messages come in right now')
    await page.getByText(`kill -CONT ${process.pid}`).waitFor()
    expect(await violationsInBothThemes(page)).toEqual([])
    await panel.until('it is seen to work', async () => {
      clock.advance(1000)
      if (panel.clock.sleeps(0, 1000)) panel.clock.advance(1000)
      return !(await panel.gateway.health()).stalled
    })
    await says(page, 'Your account is well')
    expect(panel.complaints).toEqual([])
  })

  test('a process that takes over is no trouble, however long it has followed', async () => {
    await using panel = await withPanel({ start: false, sessions: [] })
    panel.clock.step(-hourMs)
    await panel.connect('default')
    panel.clock.step(hourMs)
    const poller = await withGateway({ sandbox: panel.sandbox, dir: panel.dir, sessions: [] })
    await using stack = new AsyncDisposableStack()
    stack.use(poller)
    await panel.gateway.start()
    panel.clock.step(10 * minuteMs)
    const page = await panel.open()
    await page.getByText('Received by another process').waitFor()
    await page.evaluate(() => {
      const said: string[] = []
      Object.assign(window, { said })
      const look = () => said.push(document.querySelector('.sentence')?.textContent ?? '')
      new MutationObserver(look).observe(document.body, {
        childList: true,
        subtree: true,
        characterData: true,
      })
    })
    await poller.gateway.close()
    await panel.until('it took over', () => {
      panel.clock.advance(1000)
      return panel.gateway.health().then(({ role }) => role === 'poller')
    })
    await says(page, '1 account is connecting')
    await write(panel, 'hello')
    await says(page, 'Your account is well')
    const said = await page.evaluate(() => (window as unknown as { said: string[] }).said)
    expect(said.filter(one => /does not answer/.test(one))).toEqual([])
    expect(panel.complaints).toEqual([])
  })

  test('a store that fails is told, also to who comes then, and forgotten when it is mended', async () => {
    await using panel = await withPanel()
    await write(panel, 'kept')
    const page = await panel.open()
    await says(page, 'Your account is well')
    const path = join(panel.dir, 'messages.db')
    await rename(path, `${path}.away`)
    await soon(panel, page, 'Messages cannot be stored right now')
    const late = await panel.open()
    await says(late, 'Messages cannot be stored right now')
    await late.getByText('default', { exact: true }).first().waitFor()
    expect(await violationsInBothThemes(late)).toEqual([])
    await rename(`${path}.away`, path)
    await soon(panel, page, 'Your account is well')
    await says(late, 'Your account is well')
    await late.getByRole('link', { name: /kept/ }).waitFor()
  })

  test('what may not have been shown, how many and of which account, and in its conversation', async () => {
    await using panel = await withPanel({ switches: { send_reply: 'ret' } })
    await write(panel, 'hi')
    for (const text of ['one', 'two']) await panel.send({ text })
    const page = await panel.open()
    await page
      .getByRole('heading', { name: /^2 messages from .*default.* may not have been shown$/ })
      .waitFor()
    expect(await violationsInBothThemes(page)).toEqual([])
    await page.getByRole('link', { name: /two/ }).first().click()
    await page.getByText('May not have been shown: WeChat took it').first().waitFor()
    expect(panel.complaints).toEqual([])
  })

  test('before the first answer after a start nothing says that an account is connected', async () => {
    await using panel = await withPanel({ start: false, sessions: [], switches: { hold_ms: 120_000 } })
    panel.clock.step(-hourMs)
    await panel.connect('default')
    panel.clock.step(hourMs)
    await panel.gateway.start()
    const page = await panel.open()
    await says(page, '1 account is connecting')
    for (const path of ['/', '/sessions']) {
      await page.goto(`${panel.url}${path}`)
      const card = page.getByRole('listitem').filter({ has: page.getByRole('link', { name: 'default' }) })
      await card.getByText('Connecting', { exact: true }).waitFor()
      const shown = (await card.innerText()).toLowerCase()
      for (const key of ['session.connected', 'time.just_now'] as const)
        expect(shown).not.toContain(wordsOf('en')(key).toLowerCase())
      expect(await violationsInBothThemes(page)).toEqual([])
    }
    await page.goto(panel.url)
    await write(panel, 'hello')
    await says(page, 'Your account is well')
    await page.getByText('Last contact just now').waitFor()
    expect(panel.complaints).toEqual([])
  })

  test('WeChat that does not answer for long', async () => {
    const clock = testClock()
    clock.step(-10 * minuteMs)
    await using panel = await withPanel({ clock, start: false })
    await panel.sandbox.fail('getupdates', 'hang')
    await panel.gateway.start()
    clock.step(10 * minuteMs)
    const page = await panel.open()
    await says(page, 'WeChat does not answer for 1 account')
    await page.getByText('No poll was answered since the start.').waitFor()
    await page.getByText(`svc doctor -d ${panel.dir}`).waitFor()
    await page.locator('.fleet').getByText('No answer').waitFor()
    expect(await violationsInBothThemes(page)).toEqual([])
    expect(panel.complaints).toEqual([])
  })

  test('a webhook that fails says why in the words of the viewer', async () => {
    await using panel = await withPanel()
    const { webhooks } = panel.gateway
    const url = `http://127.0.0.1:${freePort()}/hook`
    const { id } = await webhooks.add({ url, allow_private: true })
    await write(panel, 'hello')
    await panel.until('failing', async () => (await webhooks.get(id)).last_error_code === 'unreachable')
    const { last_error = '' } = await webhooks.get(id)
    const inChinese = await panel.open({ path: '/webhooks', locale: 'zh-CN' })
    const main = inChinese.locator('main')
    await main.getByText(wordsOf('zh')('webhooks.why_unreachable')).first().waitFor()
    expect(await main.innerText()).not.toContain(last_error)
    const inEnglish = await panel.open({ path: '/webhooks' })
    await inEnglish.locator('main').getByText(last_error).first().waitFor()
    expect(panel.complaints).toEqual([])
  })

  test('what a person gave and cannot be used is explained in the words of the viewer', async () => {
    await using panel = await withPanel()
    const zh = wordsOf('zh')
    const page = await panel.open({ path: '/sessions/default', locale: 'zh-CN' })
    const dialog = page.getByRole('dialog')
    await page.getByRole('button', { name: zh('session.menu', { name: '\u2068default\u2069' }) }).click()
    await page.getByRole('menuitem', { name: zh('sessions.rename') }).click()
    for (const [name, key] of [
      ['a'.repeat(65), 'sessions.name_too_long'],
      ['a.', 'sessions.name_dot'],
      ['a b', 'sessions.name_characters'],
      ['media', 'sessions.name_reserved'],
    ] as const) {
      await dialog.getByRole('textbox').fill(name)
      await page.keyboard.press('Enter')
      await dialog.getByRole('alert').getByText(zh(key)).waitFor()
    }
    await page.goto(`${panel.url}/webhooks`)
    await page
      .getByRole('button', { name: zh('webhooks.add') })
      .first()
      .click()
    for (const [url, headers, key] of [
      ['https://1.1.1.1/', 'Host: a', 'webhooks.headers_refused'],
      ['ftp://1.1.1.1/', '', 'webhooks.url_bad'],
    ] as const) {
      await dialog.locator('[name=url]').fill(url)
      await dialog.locator('[name=headers]').fill(headers)
      await dialog.getByRole('button', { name: zh('webhooks.add') }).click()
      await dialog.getByRole('alert').getByText(zh(key)).waitFor()
    }
    expect(panel.complaints.filter(one => !/422/.test(one))).toEqual([])
  })

  test('polls that fail: with the last error, on the overview and at the account', async () => {
    await using panel = await withPanel({ clock: testClock() })
    await write(panel, 'hello')
    const page = await panel.open()
    await says(page, 'Your account is well')
    await panel.sandbox.fail('getupdates', '500', { times: 0, delay_ms: 0 })
    await write(panel, 'ends the poll')
    await panel.until('failing', async () => {
      panel.clock.advance(1000)
      return (await panel.gateway.accounts.list())[0]?.poll_error !== undefined
    })
    await says(page, 'WeChat does not answer for 1 account')
    await page
      .locator('main')
      .getByText(/last poll failed.*500/i)
      .first()
      .waitFor()
    expect(await page.locator('section', { has: page.locator('#attention') }).innerText()).not.toMatch(
      /just now/,
    )
    expect(await violationsInBothThemes(page)).toEqual([])
    await page.goto(new URL('/sessions', page.url()).href)
    await page
      .getByText(/last poll failed.*500/i)
      .first()
      .waitFor()
    // Elsewhere it says so in the viewer's language, and of the error only what was said in no words of svc's.
    const { poll_error = '', poll_error_code } = (await panel.gateway.accounts.list())[0]!
    expect(poll_error_code).toBe('upstream_error')
    for (const path of ['/', '/sessions']) {
      const inChinese = await panel.open({ path, locale: 'zh-CN' })
      await inChinese.locator('main').getByText('HTTP 500').first().waitFor()
      expect(await inChinese.locator('main').innerText()).not.toContain(poll_error)
    }
    expect(panel.complaints).toEqual([])
  })

  test('every page says the same of an account, and the chat leads to the way out', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    const user = panel.bots.get('default')!.user_id
    panel.sandbox.world.people.expire(panel.bots.get('default')!.bot_id)
    const page = await panel.open()
    const said = page.locator('main .badge.bad').first()
    const texts = []
    for (const path of ['/', '/sessions', `/conversations/default/${encodeURIComponent(user)}`]) {
      await page.goto(`${panel.url}${path}`)
      texts.push(await said.innerText())
    }
    expect(new Set(texts).size).toBe(1)
    await page.locator('.composer').getByRole('link', { name: 'Log in again' }).click()
    await page.getByRole('img', { name: 'QR code for WeChat' }).waitFor()
    expect(panel.complaints).toEqual([])
  })

  test('a viewer whose clock is wrong sees no trouble where there is none', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    const page = await panel.open()
    await says(page, 'Your account is well')
    await page.clock.setSystemTime(Date.now() + 25 * hourMs)
    await page.reload()
    await says(page, 'Your account is well')
    await page.getByText('Last contact just now').waitFor()
    await page.getByRole('link', { name: /hello/ }).click()
    const field = page.getByRole('textbox', { name: 'Message' })
    await field.and(page.locator(':focus')).waitFor()
    await page.locator('.chat-state').getByText('10 answers').waitFor()
    expect(await field.isEnabled()).toBe(true)
    expect(panel.complaints).toEqual([])
  })

  test('a clock of the service that is moved: an open page follows, with the days that can be chosen', async () => {
    await using panel = await withPanel()
    // Noon: no day ends meanwhile.
    const aheadMs = 36 * hourMs - (Date.now() % (24 * hourMs))
    panel.clock.step(aheadMs)
    await panel.sandbox.advance(aheadMs)
    await write(panel, 'hello')
    const page = await panel.open({ timezoneId: 'UTC' })
    await page.getByRole('link', { name: /hello/ }).click()
    const newestDay = async () => {
      await page.getByRole('button', { name: 'More about this conversation' }).click()
      await page.getByRole('menuitem', { name: 'Go to a day' }).click()
      const max = await page.getByLabel('Day', { exact: true }).getAttribute('max')
      await page.keyboard.press('Escape')
      await page.getByRole('dialog').waitFor({ state: 'detached' })
      return max
    }
    const before = await newestDay()
    expect(Date.parse(before!)).toBeGreaterThan(0)
    panel.clock.step(72 * hourMs)
    panel.clock.advance(16_000)
    await page.locator('.chat-state').getByText('Closed').waitFor()
    expect(Date.parse((await newestDay())!) - Date.parse(before!)).toBe(72 * hourMs)
    // What was heard before that is no silence since then.
    await page.getByRole('link', { name: 'Overview' }).click()
    await page.locator('.sentence').waitFor()
    expect(await page.locator('.sentence').allTextContents()).toEqual([
      expect.stringContaining('Your account is well'),
    ])
    expect(panel.complaints).toEqual([])
  })
})
