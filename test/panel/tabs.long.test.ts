import { expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { hasBrowser, launchBrowser, watch } from '../support/browser.ts'
import { withPanel } from '../support/panel.ts'
import { wordsOf } from '../support/panel-hand.ts'

/** Hides or shows a tab. A headless browser does not do that by itself. */
const show = (page: Page, state: 'hidden' | 'visible') =>
  page.evaluate(value => {
    Object.defineProperty(document, 'visibilityState', { value, configurable: true })
    document.dispatchEvent(new Event('visibilitychange'))
  }, state)

test.skipIf(!hasBrowser)(
  'with more tabs than a browser has connections to a host, the newest is live, and so is each tab that is shown again',
  async () => {
    await using panel = await withPanel()
    await using browser = await launchBrowser()
    await using context = await browser.newContext({ locale: 'en' })
    const pages: Page[] = []
    for (let nth = 0; nth < 8; nth++) {
      const page = await context.newPage()
      watch(page, panel.url, panel.complaints)
      await page.goto(`${panel.url}/conversations`)
      await page.getByText(wordsOf('en')('conversations.none')).waitFor()
      const before = pages.at(-1)
      if (before) await show(before, 'hidden')
      pages.push(page)
    }
    await panel.sandbox.say('heard by the newest')
    await pages.at(-1)!.getByText('heard by the newest').waitFor()
    await show(pages[0]!, 'visible')
    await pages[0]!.getByText('heard by the newest').waitFor()
    await panel.sandbox.say('and by who is back')
    await pages[0]!.getByText('and by who is back').waitFor()
    expect(panel.complaints).toEqual([])
  },
)

test.skipIf(!hasBrowser)('a request without an answer is given up and sent again', async () => {
  await using panel = await withPanel()
  await panel.sandbox.say('hello')
  await panel.receive(1)
  const page = await panel.open({ path: '/icon.svg' })
  await page.route('**/api/call/list_conversations', () => {}, { times: 1 })
  await page.goto(`${panel.url}/conversations`)
  await page.locator('.list').getByText('hello').waitFor({ timeout: 60_000 })
  await page.locator('.offline').waitFor({ state: 'detached' })
  expect(panel.complaints).toEqual([])
})
