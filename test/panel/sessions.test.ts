import { describe, expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Locator, Page } from 'playwright-core'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { withPanel, write } from '../support/panel.ts'

const dialog = (page: Page) => page.locator('[role=dialog], [role=alertdialog]')
const heading = (page: Page) => dialog(page).getByRole('heading', { level: 2 })
const code = (page: Page) => page.getByRole('img', { name: 'QR code for WeChat' })
const names = (page: Page) => page.locator('.account h2').allTextContents()
/** The focus goes back a moment after the dialog is gone. */
const focused = (page: Page, label: string) =>
  page.waitForFunction(
    wanted => document.activeElement?.getAttribute('aria-label')?.includes(wanted) ?? false,
    label,
  )

/** News count the time by frames. Where it does not pass, they stay. */
const newsStay = () => {
  const frame = window.requestAnimationFrame
  window.requestAnimationFrame = then => frame.call(window, () => then(0))
  performance.now = () => 0
}

describe.skipIf(!hasBrowser)('the accounts page', () => {
  test('rename, default and logout by the menu; the keyboard is back where it was; a logout is asked about', async () => {
    await using panel = await withPanel({ sessions: ['a', 'b'] })
    const page = await panel.open({ path: '/sessions/b' })
    const menu = (of: string) => page.getByRole('button', { name: `Actions for \u2068${of}\u2069` })
    const choose = async (of: string, entry: string) => {
      await menu(of).focus()
      await page.keyboard.press('Enter')
      const item = page.getByRole('menuitem', { name: entry })
      await item.waitFor()
      // The first entry is chosen a frame after the menu opened; arrows before that would be forgotten.
      await page.locator('[role=menuitem][data-highlighted]').waitFor()
      for (let tries = 0; tries < 6 && (await item.getAttribute('data-highlighted')) === null; tries++) {
        await page.keyboard.press('ArrowDown')
      }
      expect(await violationsInBothThemes(page)).toEqual([])
      await page.keyboard.press('Enter')
    }
    await choose('b', 'Rename')
    const field = dialog(page).getByLabel('Name')
    await field.fill('a')
    await page.keyboard.press('Enter')
    await page.getByRole('alert').getByText('already').waitFor()
    await page.keyboard.press('Escape')
    await dialog(page).waitFor({ state: 'detached' })
    await focused(page, 'Actions for')
    await choose('b', 'Rename')
    await field.fill('客服')
    await page.keyboard.press('Enter')
    await dialog(page).waitFor({ state: 'detached' })
    expect(decodeURIComponent(new URL(page.url()).pathname)).toBe('/sessions/客服')
    await focused(page, 'Actions for \u2068客服')
    await choose('客服', 'Make default')
    await page.locator('.account', { hasText: '客服' }).getByText('Default', { exact: true }).waitFor()
    expect(await names(page)).toEqual(['客服', 'a'])
    await choose('客服', 'Log out')
    expect(await dialog(page).getAttribute('role')).toBe('alertdialog')
    expect(await dialog(page).textContent()).toContain('WeChat may refuse')
    expect(await violationsInBothThemes(page)).toEqual([])
    await dialog(page).getByRole('button', { name: 'Cancel' }).click()
    expect((await panel.gateway.accounts.list()).length).toBe(2)
    await choose('客服', 'Log out')
    await dialog(page).getByRole('button', { name: 'Log out' }).click()
    await dialog(page).waitFor({ state: 'detached' })
    expect(await names(page)).toEqual(['a'])
  })

  test('what waits for an account is told before its logout; after it, a new login is what is offered', async () => {
    await using panel = await withPanel()
    await write(panel, 'Is it blue?')
    await panel.send({ text: 'It is.', approval: 'nobody' })
    const page = await panel.open({ path: '/sessions' })
    await page.getByRole('button', { name: 'Actions for' }).click()
    await page.getByRole('menuitem', { name: 'Log out' }).click()
    await dialog(page).locator('.waits', { hasText: '1' }).waitFor()
    expect(await violationsInBothThemes(page)).toEqual([])
    await dialog(page).getByRole('button', { name: 'Log out' }).click()
    await dialog(page).waitFor({ state: 'detached' })
    const login = (inside: string) => page.locator(`${inside} a[href="/sessions/default/login"]`)
    await login('.logged-out').waitFor()
    await page.getByRole('link', { name: 'Overview' }).click()
    await login('.logged-out').waitFor()
    expect(await page.locator('.welcome').count()).toBe(0)
    await login('.asks').waitFor()
    expect(await page.locator('.asks').getByRole('button').count()).toBe(1)
    expect(await violationsInBothThemes(page)).toEqual([])
    await page.setViewportSize({ width: 390, height: 800 })
    await page.locator('.asks').getByRole('link').first().click()
    const asked = page.locator('.message', { hasText: 'It is.' })
    await login('.message').waitFor()
    expect(await asked.getByRole('button').count()).toBe(1)
    expect(await violationsInBothThemes(page)).toEqual([])
    expect(panel.complaints).toEqual([])
  })

  test('the conversations of an account that was renamed go with it, in other tabs too', async () => {
    await using panel = await withPanel()
    await write(panel, 'Is it blue?')
    const other = await panel.open({ path: '/conversations' })
    const page = await panel.open({ path: '/sessions' })
    const row = (of: Page) => of.getByRole('link').filter({ hasText: 'Is it blue?' })
    await row(other).waitFor()
    // Asked for in the middle of the rename: the messages still stand under the old name, the account has the new one.
    for (const each of [page, other])
      await each.route(
        '**/api/conversations',
        route => route.fulfill({ contentType: 'application/json', body: '{"conversations":[]}' }),
        { times: 1 },
      )
    await page.getByRole('button', { name: 'Actions for' }).click()
    await page.getByRole('menuitem', { name: 'Rename' }).click()
    await dialog(page).getByLabel('Name').fill('shop')
    await page.keyboard.press('Enter')
    await dialog(page).waitFor({ state: 'detached' })
    await page
      .getByRole('navigation')
      .getByRole('link', { name: /^Conversations/ })
      .click()
    for (const each of [page, other]) {
      await each.locator('a.conversation[href*="/shop/"]').waitFor()
      await row(each).click()
      await each.getByRole('log').getByText('Is it blue?').waitFor()
    }
    expect(panel.complaints).toEqual([])
  })

  test('a check says that it is under way, and in its place what came of it', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/icon.svg' })
    await page.addInitScript(newsStay)
    await page.goto(`${panel.url}/sessions/default`)
    const asked = Promise.withResolvers<void>()
    const held = Promise.withResolvers<void>()
    await page.route('**/check', async route => {
      asked.resolve()
      await held.promise
      await route.continue()
    })
    const toast = page.locator('.toast')
    await page.getByRole('button', { name: 'Actions for' }).click()
    await page.getByRole('menuitem', { name: 'Check with WeChat' }).click()
    await asked.promise
    await toast.locator('.spinner').waitFor()
    // A tick would say that it is done.
    expect(await toast.locator('> svg').count()).toBe(0)
    expect(await violationsInBothThemes(page)).toEqual([])
    held.resolve()
    await toast.locator('> svg').waitFor()
    expect(await toast.count()).toBe(1)
    expect(await toast.getAttribute('data-type')).toBe('success')
    expect(panel.complaints).toEqual([])
  })

  test('who is in a field before the first frame of a dialog is back at its menu after it', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/icon.svg' })
    // As on a machine that is busy. Both, since a timer's number may also be that of a frame somebody else waits for.
    await page.addInitScript(() => {
      window.requestAnimationFrame = then => window.setTimeout(() => then(performance.now()), 500)
      window.cancelAnimationFrame = id => window.clearTimeout(id)
    })
    await page.goto(`${panel.url}/sessions`)
    await page.getByRole('button', { name: 'Actions for' }).click()
    await page.getByRole('menuitem', { name: 'Rename' }).click()
    const field = dialog(page).getByLabel('Name')
    await field.fill('a')
    await page
      .locator('main[aria-hidden], [aria-hidden] main, [inert]')
      .first()
      .waitFor({ state: 'attached' })
    await page.keyboard.press('Escape')
    await dialog(page).waitFor({ state: 'detached' })
    await focused(page, 'Actions for')
    expect(panel.complaints).toEqual([])
  })

  test('what a person opens lies above the news: it can be pressed before they are gone', async () => {
    await using panel = await withPanel({ sessions: ['a', 'b'] })
    const page = await panel.open({ path: '/sessions', viewport: { width: 390, height: 430 } })
    await page.addInitScript(newsStay)
    await page.reload()
    const menu = page.getByRole('button', { name: 'Actions for \u2068b\u2069' })
    const entry = (name: string) => page.getByRole('menuitem', { name })
    const news = page.locator('.toast')
    const underNews = async (target: Locator) => {
      const box = (await target.boundingBox())!
      const boxes = await Promise.all((await news.all()).map(one => one.boundingBox()))
      return boxes.some(it => it && it.y < box.y + box.height && it.y + it.height > box.y)
    }
    await menu.click()
    await entry('Make default').click()
    await news.getByText('default').waitFor()
    await menu.click()
    await entry('Log out').click({ trial: true })
    expect(await underNews(entry('Log out'))).toBe(true)
    await entry('Log out').click()
    await page.setViewportSize({ width: 390, height: 480 })
    const cancel = dialog(page).getByRole('button', { name: 'Cancel' })
    await cancel.click({ trial: true })
    expect(await underNews(cancel)).toBe(true)
    await cancel.click()
    await dialog(page).waitFor({ state: 'detached' })
    // Beside a dialog they can be sent away as ever, and it stays.
    await page.setViewportSize({ width: 1280, height: 800 })
    await menu.click()
    await entry('Rename').click()
    await news.getByRole('button', { name: 'Close' }).click()
    await news.and(page.locator('[data-state=closed]')).waitFor()
    expect(await dialog(page).count()).toBe(1)
    expect(panel.complaints).toEqual([])
  })

  test('a hundred accounts: found by name, trouble first, many logged in again one after the other', async () => {
    const all = Array.from({ length: 100 }, (_none, index) => `bot-${index + 1}`)
    await using panel = await withPanel({ sessions: all })
    const lost = ['bot-7', 'bot-42', 'bot-80', 'bot-99']
    for (const name of lost) panel.sandbox.world.people.expire(panel.bots.get(name)!.bot_id)
    const page = await panel.open({ viewport: { width: 1440, height: 900 } })
    const told = page.locator('.concern', { hasText: '4 accounts must be logged in again' })
    await told.waitFor()
    expect(await page.locator('.concern').count()).toBe(1)
    expect(await violationsInBothThemes(page)).toEqual([])
    const comes = (name: string) => heading(page).getByText(name, { exact: false }).waitFor()
    await told.getByRole('button').click()
    await comes('bot-7')
    await code(page).waitFor()
    await panel.sandbox.scan({ user: panel.bots.get('bot-7')!.user_id, confirm: true })
    await page.getByRole('button', { name: /^Next: .*bot-42.* \(3 to go\)/ }).click()
    await comes('bot-42')
    await code(page).waitFor()
    await page.getByRole('button', { name: /^Skip to .*bot-80/ }).click()
    await comes('bot-80')
    await page.keyboard.press('Escape')
    await dialog(page).waitFor({ state: 'detached' })

    const rows = page.locator('.account-table tbody tr')
    await panel.until('three are left', async () => (await page.locator('tbody .badge.bad').count()) === 3)
    expect(await rows.locator('th a').first().innerText()).toBe('bot-42')
    expect(await rows.count()).toBe(100)
    await page.getByRole('searchbox').fill('BOT-9')
    await panel.until('found', async () => (await rows.count()) === 11)
    await page.getByRole('button', { name: 'Select the 1 in trouble' }).click()
    await page.getByRole('checkbox', { name: /Select .*bot-90/ }).check()
    expect(await violationsInBothThemes(page)).toEqual([])
    for (const width of [320, 390, 1440]) {
      await page.setViewportSize({ width, height: 800 })
      const over = await page.evaluate(() => document.querySelector('main')!.scrollWidth - innerWidth)
      expect([width, Math.max(0, over)]).toEqual([width, 0])
    }
    const oneByOne = page.getByRole('button', { name: /^Log in again one by one \(2\)/ })
    const skip = page.getByRole('button', { name: /^Skip to .*bot-90.*last/ })
    await oneByOne.click()
    await comes('bot-99')
    await skip.waitFor()
    // Whoever goes back has left them all: the next login is alone.
    await page.goBack()
    await dialog(page).waitFor({ state: 'detached' })
    await page.goForward()
    await comes('bot-99')
    expect(await skip.count()).toBe(0)
    await page.goBack()
    await oneByOne.click()
    await skip.click()
    await comes('bot-90')
    await page.goto(`${panel.url}/accounts`)
    await page.waitForURL(`${panel.url}/sessions`)
    expect(panel.complaints).toEqual([])
  })

  test('an account in trouble says what to do; who writes is shown with what is left, whatever the id', async () => {
    await using panel = await withPanel({ sessions: ['a', 'broken'] })
    const evil = '<b onclick=alert(1)>&amp;"\u202eevil@im.wechat'
    await panel.sandbox.raw(
      {
        ...{ message_id: 7, from_user_id: evil, to_user_id: panel.bots.get('a')!.bot_id, message_type: 1 },
        ...{ message_state: 2, create_time_ms: Date.now(), context_token: 'c' },
        item_list: [{ type: 1, text_item: { text: 'hi' } }],
      },
      panel.bots.get('a')!.bot_id,
    )
    await panel.receive(1)
    await writeFile(join(panel.dir, 'broken', 'token.json'), '{')
    const page = await panel.open({ path: '/sessions' })
    await page.locator('.account', { hasText: 'broken' }).getByText('cannot be read').waitFor()
    await page.getByText('1 person has written').click()
    const user = page.locator('.account details a')
    expect(await user.textContent()).toBe(evil.replace('@im.wechat', ''))
    expect(await page.locator('.account details li').textContent()).toContain('10 answers left within 24h')
    expect(await violationsInBothThemes(page)).toEqual([])
    await user.click()
    await page.waitForURL(({ pathname }) => decodeURIComponent(pathname) === `/conversations/a/${evil}`)
  })
})
