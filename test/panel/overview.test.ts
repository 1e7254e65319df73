import { describe, expect, test } from 'bun:test'
import type { Locator, Page } from 'playwright-core'
import en from '../../locales/en.json'
import { SvcError } from '../../src/model/error.ts'
import { owner } from '../../src/model/principal.ts'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { failure } from '../support/failure.ts'
import { withPanel, write } from '../support/panel.ts'
import { wordsOf } from '../support/panel-hand.ts'

const words = wordsOf('en')

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const title = (page: Page) => page.getByRole('heading', { level: 1, name: 'Overview' })
const says = (page: Page, text: string) => page.locator('.sentence', { hasText: text }).waitFor()

describe.skipIf(!hasBrowser)('the overview', () => {
  test('with healthy accounts: says so, has a card for each, is accessible and works by keyboard', async () => {
    await using panel = await withPanel({ sessions: ['default', 'sales'] })
    await write(panel, 'hello there')
    const page = await panel.open()
    await says(page, words('overview.says_well_other', { count: 2 }))
    expect(await page.getByRole('heading', { name: en['overview.attention'] }).count()).toBe(0)
    const card = page
      .getByRole('listitem')
      .filter({ has: page.getByRole('link', { name: 'default', exact: true }) })
    await card.getByText('Connected').waitFor()
    await card.getByText(en['overview.polled'].replace('{when}', 'just now')).waitFor()
    await card.getByText('1 contact', { exact: true }).waitFor()
    await page.getByRole('link', { name: /^Conversations of .*default.*, 1 unread message$/ }).waitFor()
    await page.getByRole('link', { name: /hello there/ }).waitFor()
    expect(await violationsInBothThemes(page)).toEqual([])
    // By keyboard: the skip link, the navigation, the heading of the next page.
    await title(page).waitFor()
    await page.keyboard.press('Tab')
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Skip to content')
    await page.keyboard.press('Enter')
    await page.locator('#main:focus').waitFor()
    await page.keyboard.press('Shift+Tab')
    expect(await page.evaluate(() => document.activeElement?.textContent)).toContain('Settings')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Settings' }).and(page.locator(':focus')).waitFor()
    await page.waitForFunction(() => document.title.endsWith('Settings · svc'))
    expect(await page.locator('.rail [aria-current]').innerText()).toBe('Settings')
    await page.keyboard.press('Tab')
    expect(await page.evaluate(() => document.activeElement?.closest('main') !== null)).toBe(true)
    expect(panel.complaints).toEqual([])
  })

  test('without an account: three steps, and the button leads to a QR code', async () => {
    await using panel = await withPanel({ sessions: [] })
    const page = await panel.open()
    await says(page, 'There is no account yet')
    await page.locator('.welcome li').nth(2).waitFor()
    expect(await page.locator('.welcome li').count()).toBe(3)
    await page.getByRole('link', { name: 'Add the first account' }).click()
    await page.getByRole('dialog').locator('svg, img').first().waitFor()
    expect(panel.complaints).toEqual([])
  })

  test('shows users who wait while their window closes, and sends that wait', async () => {
    await using panel = await withPanel({ sessions: ['default', 'sales'], switches: { quota: 0 } })
    panel.clock.step(-22 * hourMs)
    await write(panel, 'are you there?')
    panel.clock.step(22 * hourMs)
    await write(panel, 'go on', 'sales')
    const { user_id: to } = panel.bots.get('sales')!
    for (let sent = 0; sent < 10; sent++) await panel.send({ to, session: 'sales', text: `answer ${sent}` })
    await panel.send({ to, session: 'sales', text: 'one too many', when_closed: 'queue' })

    const page = await panel.open({ hastens: 2000 })
    const matter = (text: string | RegExp) => page.locator('.concern', { hasText: text })
    await page.getByRole('heading', { name: /[12]\D*h.* left to answer/ }).waitFor()
    // One line; the detail comes by a press.
    expect(await matter('left to answer').getByText('are you there?').count()).toBe(0)
    await matter('left to answer').getByRole('button').click()
    await matter('left to answer').getByText('are you there?').waitFor()
    expect(await violationsInBothThemes(page)).toEqual([])
    await page.getByRole('link', { name: 'Answer' }).click()
    await page.waitForURL(
      ({ pathname }) =>
        decodeURIComponent(pathname) === `/conversations/default/${panel.bots.get('default')!.user_id}`,
    )
    await page.getByRole('link', { name: 'Overview' }).click()
    await panel.send({ text: 'shall I?', approval: 'nobody' })
    await matter(words('overview.approvals_one', { count: 1 }))
      .getByRole('link')
      .click()
    await page.getByRole('heading', { level: 1, name: en['approvals.title'] }).waitFor()
    await page.getByRole('link', { name: 'Overview' }).click()
    await matter(words('overview.queued_one', { count: 1 }))
      .getByRole('link')
      .click()
    await page.getByRole('button', { name: 'Do not send: one too many' }).click()
    await page.getByText('It will not be sent').waitFor()
    await page.getByText(en['approvals.none_queued']).waitFor()
    expect((await panel.gateway.outbox.list(owner)).map(({ waits_for }) => waits_for)).toEqual(['approval'])
    expect(panel.complaints).toEqual([])
  })

  test('messages per hour: by pointer, by keys, as a table, and live', async () => {
    await using panel = await withPanel()
    // No hour ends during the test.
    const aheadMs = 1.25 * hourMs - (Date.now() % hourMs)
    panel.clock.step(aheadMs)
    await panel.sandbox.advance(aheadMs)
    for (const text of ['one', 'two', 'three']) await write(panel, text)
    const { user_id: to } = panel.bots.get('default')!
    await panel.send({ to, text: 'an answer' })
    // A zone where it is 0, 6, 12 or 18 o'clock: then the last hour has a label.
    const hour = Math.floor((Date.now() + aheadMs) / hourMs)
    const page = await panel.open({ timezoneId: `Etc/GMT-${(6 - (hour % 6)) % 6}`, hastens: 5000 })
    const chart = page.getByRole('slider')
    const named = chart.locator('.hour').last()
    await named.waitFor()
    const edgeOf = async (one: Locator) => one.evaluate(element => element.getBoundingClientRect().right)
    expect(await edgeOf(named)).toBeGreaterThan((await edgeOf(chart)) - 40)
    expect(await edgeOf(named)).toBeLessThanOrEqual(await edgeOf(chart))
    await chart.focus()
    await page.keyboard.press('End')
    expect(await chart.getAttribute('aria-valuetext')).toEndWith(': 3 received, 1 sent')
    await page.getByText(/: 3 received, 1 sent$/).waitFor()
    await page.keyboard.press('ArrowLeft')
    expect(await chart.getAttribute('aria-valuetext')).toEndWith(': 0 received, 0 sent')
    const box = (await chart.boundingBox())!
    await page.mouse.move(box.x + box.width - 8, box.y + 40)
    await page.getByText(/: 3 received, 1 sent$/).waitFor()
    await page.getByText('Show as a table').click()
    expect((await page.locator('.numbers tbody tr').first().innerText()).split('\t').slice(1)).toEqual([
      '3',
      '1',
    ])
    expect(await page.locator('.numbers tbody tr').count()).toBe(24)
    // A refused message does not count as sent, and its conversation shows that.
    await panel.sandbox.fail('sendmessage', 'ret', { times: 1, code: -3, delay_ms: 0 })
    expect(await failure(panel.send({ text: 'who are you?' }))).toBeInstanceOf(SvcError)
    await page.getByRole('link', { name: /Not sent.*who are you\?/ }).waitFor()
    await write(panel, 'four')
    await page.locator('.totals .received dd', { hasText: '4' }).waitFor()
    expect(await page.locator('.totals .sent dd').innerText()).toBe('1')
    expect(panel.complaints).toEqual([])
  })

  test('fifty accounts: problems first, a filter by name, no horizontal scrolling on a small phone', async () => {
    const names = Array.from({ length: 50 }, (_none, index) => `bot-${index + 1}`)
    await using panel = await withPanel({ sessions: names })
    panel.sandbox.world.people.expire(panel.bots.get('bot-37')!.bot_id)
    const page = await panel.open({ viewport: { width: 360, height: 720 } })
    await says(page, words('overview.says_bad_one', { count: 1 }))
    expect(await page.locator('.fleet h3').first().innerText()).toBe('bot-37')
    expect(await page.evaluate(() => document.querySelector('main')!.scrollWidth)).toBeLessThanOrEqual(360)
    expect(await page.locator('.fleet > li').count()).toBe(5)
    await page.getByRole('searchbox', { name: 'Find an account' }).fill('BOT-4')
    await page.getByText('11 accounts found').waitFor()
    expect(await page.locator('.fleet > li').count()).toBe(11)
    await page.getByRole('searchbox').fill('')
    await page.getByRole('button', { name: '45 more' }).click()
    expect(await page.locator('.fleet > li').count()).toBe(50)
    await page.getByRole('searchbox').fill('nobody')
    await page.getByText('No account with that name').waitFor()
    expect(panel.complaints).toEqual([])
  })
})
