/** What one does in a chat besides reading and writing: the tabs of the list. */
import { expect, test } from 'bun:test'
import type { Locator, Page } from 'playwright-core'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { withPanel, write } from '../support/panel.ts'
import { wordsOf } from '../support/panel-hand.ts'

const t = wordsOf('en')
const wide = { width: 1440, height: 900 }
const log = (page: Page) => page.getByRole('log')
const bubble = (page: Page, text: string) => log(page).locator('article', { hasText: text })
const field = (page: Page) => page.getByRole('textbox', { name: t('composer.write'), exact: true })
const line = (page: Page, text: string) => page.locator('a.conversation', { hasText: text })
const isFocused = (of: Locator) => of.and(of.page().locator(':focus')).waitFor()

test.skipIf(!hasBrowser)(
  'tabs by keyboard and by URL, the colours of accounts; an open chat stays when it is read',
  async () => {
    await using panel = await withPanel({ sessions: ['blue', 'red'] })
    for (const session of ['blue', 'red']) await write(panel, `from ${session}`, session)
    await write(panel, 'again from blue', 'blue')
    const page = await panel.open({ path: '/conversations', viewport: wide })
    const texts = () => page.locator('a.conversation .lower .grow').allInnerTexts()
    const tab = (key: 'all' | 'unread' | 'waiting' | 'open') =>
      page.getByRole('tab', { name: t(`conversations.${key}`), exact: true })
    const isShown = (...wanted: string[]) =>
      panel.until(wanted.join(), async () => (await texts()).join() === wanted.join())
    await isShown('again from blue', 'from red')
    // Each account has its colour, and is named by it.
    const dots = page.locator('a.conversation .account-dot')
    expect(await dots.evaluateAll(all => all.map(one => one.getAttribute('title')))).toEqual(
      ['blue', 'red'].map(session => t('chat.session', { session })),
    )
    expect(
      new Set(await dots.evaluateAll(all => all.map(one => getComputedStyle(one).backgroundColor))).size,
    ).toBe(2)
    expect(await violationsInBothThemes(page)).toEqual([])
    await tab('all').focus()
    await page.keyboard.press('ArrowRight')
    await isFocused(tab('unread'))
    expect(new URL(page.url()).search).toBe('?show=unread')
    await line(page, 'from red').click()
    await panel.until(
      'it is read',
      async () => (await page.locator('a.conversation[aria-current] .count').count()) === 0,
    )
    await isShown('again from blue', 'from red')
    await page.reload()
    await isShown('again from blue', 'from red')
    await line(page, 'from blue').click()
    await isShown('again from blue')
    await field(page).fill('an answer')
    await field(page).press('Enter')
    await bubble(page, 'an answer').locator('.delivery.accepted').waitFor()
    await tab('waiting').click()
    // The open one, and the one that waits.
    await isShown('an answer', 'from red')
    await line(page, 'from red').click()
    await isShown('from red')
    await tab('open').click()
    await isShown('an answer', 'from red')
    // One account.
    await page.locator('.list-chips').getByRole('link', { name: 'blue' }).click()
    await isShown('an answer')
    expect(await dots.count()).toBe(0)
    await tab('unread').click()
    await page.getByText(t('conversations.none_unread')).waitFor()
    await page.getByRole('link', { name: t('conversations.show_all') }).click()
    await tab('all').click()
    await isShown('an answer', 'from red')
    expect(panel.complaints).toEqual([])
  },
)
