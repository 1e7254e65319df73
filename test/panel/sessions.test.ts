import { describe, expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Locator, Page } from 'playwright-core'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { withPanel } from '../support/panel.ts'

const dialog = (page: Page) => page.locator('[role=dialog], [role=alertdialog]')
const heading = (page: Page) => dialog(page).getByRole('heading', { level: 2 })
const code = (page: Page) => page.getByRole('img', { name: 'QR code for WeChat' })
const names = (page: Page) => page.locator('.account h2').allTextContents()
/** Keys are for what has the focus, which comes a moment after what is to have it. */
const keysGoTo = (page: Page, target: Locator) => target.and(page.locator(':focus')).waitFor()
/** The focus goes back a moment after the dialog is gone. */
const focused = (page: Page, label: string) =>
  page.waitForFunction(
    wanted => document.activeElement?.getAttribute('aria-label')?.includes(wanted) ?? false,
    label,
  )

describe.skipIf(!hasBrowser)('the accounts page', () => {
  test('the first account: from an empty page to a bot that is awake, by keyboard, through wrong digits', async () => {
    await using panel = await withPanel({ sessions: [], switches: { verify_code: 'on' } })
    const page = await panel.open({ path: '/sessions' })
    expect(await violationsInBothThemes(page)).toEqual([])
    await page.getByRole('button', { name: 'Wake it up' }).focus()
    await page.keyboard.press('Enter')
    await code(page).waitFor()
    expect(await code(page).getAttribute('src')).toStartWith('data:image/svg+xml,')
    expect(await violationsInBothThemes(page)).toEqual([])
    const { verify_code } = await panel.sandbox.scan({ confirm: true })
    const digits = page.getByLabel('Number on the phone')
    await keysGoTo(page, digits)
    await page.keyboard.type('1')
    await page.keyboard.press('Enter')
    await page.getByRole('alert').getByText('That was not the number').waitFor()
    expect(await digits.getAttribute('aria-invalid')).toBe('true')
    expect(await violationsInBothThemes(page)).toEqual([])
    await keysGoTo(page, digits)
    await page.keyboard.type(verify_code!)
    await page.keyboard.press('Enter')
    await keysGoTo(page, page.getByRole('button', { name: 'Done' }))
    expect(await heading(page).textContent()).toContain('default')
    expect(await violationsInBothThemes(page)).toEqual([])
    await page.keyboard.press('Enter')
    await page.locator('.account .badge.good').waitFor()
    expect(await names(page)).toEqual(['default'])
    expect(panel.complaints).toEqual([])
  })

  test('a code that ran out is another one with a notice; closing calls the login off; a link begins none', async () => {
    await using panel = await withPanel()
    const logins = async () =>
      (await panel.gateway.accounts.list()).filter(one => one.status === 'logging_in').length
    // A link from elsewhere to the same address.
    const page = await panel.open({ path: '/sessions/new/login' })
    await dialog(page).getByText('when you are ready').waitFor()
    expect(await logins()).toBe(0)
    await dialog(page).getByRole('button', { name: 'Show the QR code' }).click()
    await code(page).waitFor()
    const first = await code(page).getAttribute('src')
    await panel.sandbox.phone('POST', 'expire')
    await dialog(page).getByText('This is a new one').waitFor()
    expect(await code(page).getAttribute('src')).not.toBe(first)
    expect(await violationsInBothThemes(page)).toEqual([])
    const second = await code(page).getAttribute('src')
    await page.reload()
    await code(page).waitFor()
    expect(await code(page).getAttribute('src')).toBe(second)
    await panel.sandbox.scan({})
    await dialog(page).getByText('Confirm on the phone').waitFor()
    await page.keyboard.press('Escape')
    await panel.until('the login is called off', async () => (await logins()) === 0)
    expect(new URL(page.url()).pathname).toBe('/sessions')
    expect(panel.complaints).toEqual([])
  })

  test('a login whose page was left ends within a minute, one that was scanned goes on', async () => {
    await using panel = await withPanel()
    const logins = async () =>
      (await panel.gateway.accounts.list()).filter(one => one.status === 'logging_in').map(({ name }) => name)
    const begin = async (name: string) => {
      const page = await panel.open({ path: `/sessions/${name}/login` })
      await dialog(page).getByRole('button', { name: 'Show the QR code' }).click()
      await code(page).waitFor()
      return page
    }
    const scanned = await begin('scanned')
    await panel.sandbox.scan({})
    await dialog(scanned).getByText('Confirm on the phone').waitFor()
    const left = await begin('left')
    const stays = await begin('stays')
    await left.goto('about:blank')
    await scanned.close({ runBeforeUnload: true })
    expect((await logins()).sort()).toEqual(['left', 'scanned', 'stays'])
    await panel.until('it has ended', async () => {
      panel.clock.advance(1000)
      return !(await logins()).includes('left')
    })
    expect((await logins()).sort()).toEqual(['scanned', 'stays'])
    expect(await code(stays).count()).toBe(1)
  })

  test('adding: a free name is proposed, a bad or taken one is refused in place', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/sessions' })
    await page.getByRole('link', { name: 'Add account' }).click()
    const name = page.getByLabel('Name (optional)')
    expect(await name.getAttribute('placeholder')).toBe('account-2')
    for (const [bad, why] of [
      ['DEFAULT', 'already'],
      ['<img src=x onerror=alert(1)>', 'cannot be used'],
      ['长'.repeat(65), 'longer than 64'],
      ['a\u200fb', 'not a letter'],
    ] as const) {
      await name.fill(bad)
      await page.keyboard.press('Enter')
      await page.getByRole('alert').getByText(why).waitFor()
    }
    expect(await violationsInBothThemes(page)).toEqual([])
    const longest = '长'.repeat(64)
    await name.fill(longest)
    await page.keyboard.press('Enter')
    await code(page).waitFor()
    await panel.sandbox.scan({ user: await panel.sandbox.addUser('another'), confirm: true })
    await page.getByRole('button', { name: 'Done' }).click()
    expect(await names(page)).toEqual(['default', longest])
    for (const width of [360, 2560]) {
      await page.setViewportSize({ width, height: 800 })
      const over = await page.evaluate(
        () => document.documentElement.scrollWidth > document.documentElement.clientWidth,
      )
      expect([width, over]).toEqual([width, false])
    }
  })

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

  test('who is in a field before the first frame of a dialog is back at its menu after it', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/icon.svg' })
    // As on a machine that is busy.
    await page.addInitScript(() => {
      const frame = window.requestAnimationFrame
      window.requestAnimationFrame = then => window.setTimeout(() => frame.call(window, then), 500)
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
    // News count the time by frames. Here it does not pass: they stay.
    await page.addInitScript(() => {
      const frame = window.requestAnimationFrame
      window.requestAnimationFrame = then => frame.call(window, () => then(0))
      performance.now = () => 0
    })
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
    await page.getByRole('button', { name: /^Log in again one by one \(2\)/ }).click()
    await comes('bot-99')
    await page.getByRole('button', { name: /^Skip to .*bot-90.*last/ }).click()
    await comes('bot-90')
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
    expect(decodeURIComponent(new URL(page.url()).pathname)).toBe(`/conversations/a/${evil}`)
  })
})
