/** Nothing is lost by a key: the focus stays near, and what cannot come back asks before it goes. */
import { describe, expect, test } from 'bun:test'
import type { Locator, Page } from 'playwright-core'
import { hasBrowser } from '../support/browser.ts'
import { type TestPanel, withPanel, write } from '../support/panel.ts'
import { wordsOf } from '../support/panel-hand.ts'

const t = wordsOf('en')
const lying = { width: 1280, height: 800 }
const upright = { width: 800, height: 1280 }
const dialogOf = (page: Page) => page.locator('[role=dialog], [role=alertdialog]')
const chatOf = (panel: TestPanel) =>
  `/conversations/default/${encodeURIComponent(panel.bots.get('default')!.user_id)}`
const focused = (page: Page, selector: string) => page.locator(selector).and(page.locator(':focus')).waitFor()

describe.skipIf(!hasBrowser)('the focus', () => {
  test('goes into the gallery, and Escape leads back to the messages', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    for (const viewport of [lying, upright]) {
      const page = await panel.open({ path: chatOf(panel), viewport })
      await page.getByRole('button', { name: t('chat.menu') }).click()
      await page.getByRole('menuitem', { name: t('gallery.title') }).click()
      await focused(page, '.gallery')
      await page.keyboard.press('Escape')
      await page.getByRole('log').waitFor()
      await page.waitForFunction(() => document.activeElement?.closest('.chat'))
    }
    expect(panel.complaints).toEqual([])
  })

  test('of a chat in a window that is turned: in the field once there is room, and not taken from a writer', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    const page = await panel.open({ path: chatOf(panel), viewport: upright })
    await focused(page, '.chat h1')
    await page.setViewportSize(lying)
    await focused(page, '.composer textarea')
    await page.locator('.conversation').first().waitFor()
    await page.setViewportSize(upright)
    await page.locator('.conversation').first().waitFor({ state: 'detached' })
    await focused(page, '.composer textarea')
    await page.getByRole('button', { name: t('chat.menu') }).focus()
    await page.setViewportSize(lying)
    await page.locator('.conversation').first().waitFor()
    await focused(page, '[aria-haspopup=menu]')
    expect(panel.complaints).toEqual([])
  })

  test('of a chat on a touch screen opens no keyboard, however it is turned', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    const page = await panel.open({ path: chatOf(panel), viewport: upright, hasTouch: true, isMobile: true })
    await focused(page, '.chat h1')
    await page.setViewportSize(lying)
    await page.locator('.conversation').first().waitFor()
    expect(await page.locator('.composer textarea').and(page.locator(':focus')).count()).toBe(0)
    expect(panel.complaints).toEqual([])
  })

  test('of each dialog begins at what one does there; what confirms is called as what opened it', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    const page = await panel.open({ path: chatOf(panel) })
    let pressed = ''
    const press = async (button: Locator) => {
      pressed = await button.innerText()
      await button.click()
    }
    const open: Record<string, (() => Promise<void>)[]> = {
      '/settings': [() => page.keyboard.press('?')],
      '/keys': [() => press(page.getByRole('main').getByRole('button', { name: t('access.add') }))],
      '/webhooks': [() => press(page.getByRole('button', { name: t('webhooks.add') }))],
      '/sessions': [() => page.getByRole('link', { name: t('sessions.add') }).click()],
      [chatOf(panel)]: ['chat.jump', 'chat.export', 'chat.forget'].map(key => async () => {
        await page.getByRole('button', { name: t('chat.menu') }).click()
        await press(page.getByRole('menuitem', { name: t(key as 'chat.jump') }))
      }),
    }
    for (const [path, ways] of Object.entries(open)) {
      await page.goto(panel.url + path)
      await page.getByRole('heading', { level: 1 }).first().waitFor()
      for (const begin of ways) {
        await begin()
        await dialogOf(page).waitFor()
        await page.waitForFunction(() => document.activeElement?.closest('[role$=dialog]'))
        const at = await page.evaluate(() => document.activeElement!.matches('header *'))
        expect([path, at]).toEqual([path, false])
        const confirms = dialogOf(page).locator('footer :is(.primary, .danger)')
        // The next step of a login is the code; the list of keys confirms nothing.
        if (path !== '/sessions' && path !== '/settings')
          expect(pressed).toStartWith((await confirms.innerText()).split(' ')[0]!)
        await page.keyboard.press('Escape')
        await dialogOf(page).waitFor({ state: 'detached' })
      }
    }
    expect(panel.complaints).toEqual([])
  })
})

describe.skipIf(!hasBrowser)('what would be lost asks before it goes', () => {
  test('a key that is shown once: Escape, the cross, and the back button', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/settings' })
    await page.getByRole('link', { name: t('nav.keys') }).click()
    await page
      .getByRole('main')
      .getByRole('button', { name: t('access.add') })
      .click()
    await page.getByLabel(t('access.name'), { exact: true }).fill('Mona')
    await page.keyboard.press('Enter')
    const secret = dialogOf(page).getByText(/^svc_\w+$/)
    await secret.waitFor()
    const ways = [
      () => page.keyboard.press('Escape'),
      () => page.getByRole('button', { name: t('action.close') }).click(),
      () => page.evaluate(() => history.back()),
    ]
    for (const leave of ways) {
      await leave()
      await page.getByText(t('ask.secret')).waitFor()
      await focused(page, '.lost .primary')
      await page.keyboard.press('Enter')
      await page.getByText(t('ask.secret')).waitFor({ state: 'detached' })
      expect(await secret.count()).toBe(1)
    }
    await page.getByRole('button', { name: t('access.secret_kept') }).click()
    await dialogOf(page).waitFor({ state: 'detached' })
    expect(panel.complaints).toEqual([])
  })

  test('a filled form: a click beside it, and Escape; an empty one just closes', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/webhooks' })
    const begin = () =>
      page
        .getByRole('main')
        .getByRole('button', { name: t('webhooks.add') })
        .click()
    await begin()
    await dialogOf(page).waitFor()
    await page.keyboard.press('Escape')
    await dialogOf(page).waitFor({ state: 'detached' })
    await begin()
    // Its first field has the focus: it stands.
    await focused(page, '[role=dialog] input')
    const headers = page.getByLabel(t('webhooks.headers_optional'))
    await headers.fill('Authorization: Bearer abc')
    for (const leave of [() => page.mouse.click(20, 400), () => page.keyboard.press('Escape')]) {
      await leave()
      await page.getByText(t('ask.typed')).waitFor()
      await page.keyboard.press('Escape')
      await page.getByRole('button', { name: t('ask.stay') }).click()
      expect(await headers.inputValue()).toBe('Authorization: Bearer abc')
    }
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: t('ask.leave') }).click()
    await dialogOf(page).waitFor({ state: 'detached' })
    expect(panel.complaints).toEqual([])
  })
})
