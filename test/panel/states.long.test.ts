/** Accessibility of states between the main pages: dialogs, waiting answers, empty pages. */

import { describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import en from '../../locales/en.json'
import texts from '../../src/sandbox/page/texts.json' with { type: 'json' }
import { violations, violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser, sharedBrowser } from '../support/browser.ts'
import { withPanel, write } from '../support/panel.ts'
import { wordsOf } from '../support/panel-hand.ts'
import { withSandbox } from '../support/sandbox.ts'

const words = wordsOf('en')

const hour = 3_600_000
const chatOf = (user: string) => `/conversations/default/${encodeURIComponent(user)}`
const isFit = async (page: Page, what: string) =>
  expect([what, await violationsInBothThemes(page)]).toEqual([what, []])
const dialog = (page: Page) => page.locator('[role=dialog], [role=alertdialog]')
const closed = async (page: Page) => {
  await page.keyboard.press('Escape')
  await dialog(page).waitFor({ state: 'detached' })
}
const code = (page: Page) => page.getByRole('img', { name: 'QR code for WeChat' })

describe.skipIf(!hasBrowser)('accessibility of states', () => {
  test('accounts: a menu, a logout with waiting sends, a running check, a logged-out account', async () => {
    await using panel = await withPanel({ sessions: ['a', 'b'] })
    await write(panel, 'Is it blue?', 'b')
    await panel.send({ session: 'b', to: panel.bots.get('b')!.user_id, text: 'It is.', approval: 'nobody' })
    const page = await panel.open({ path: '/sessions' })
    const menu = page.getByRole('button', { name: 'Actions for \u2068b\u2069' })
    const entry = (name: string) => page.getByRole('menuitem', { name })
    await menu.click()
    await entry('Log out').waitFor()
    await isFit(page, 'the menu')
    await entry('Log out').click()
    await dialog(page).locator('.waits').waitFor()
    await isFit(page, 'the logout')
    await closed(page)
    const begun = Promise.withResolvers<void>()
    const held = Promise.withResolvers<void>()
    await page.route('**/check_sessions', async route => {
      begun.resolve()
      await held.promise
      await route.continue()
    })
    await menu.click()
    await entry('Check with WeChat').click()
    await begun.promise
    await page.locator('.toast .spinner').waitFor()
    await isFit(page, 'news')
    held.resolve()
    await page.locator('.toast > svg').waitFor()
    for (const name of ['b', 'a']) await panel.gateway.accounts.logout(name)
    await page.goto(panel.url)
    await page.locator('.concern').getByRole('link').first().waitFor()
    await isFit(page, 'the overview of what is left')
    await page.setViewportSize({ width: 390, height: 800 })
    await page.locator('.concern').getByRole('link').first().click()
    await page.locator('.row-link').click()
    await page.locator('.yes, .draft footer a').first().waitFor()
    await isFit(page, 'a draft of an account that is logged out')
    await page.locator('.draft').getByRole('link', { name: en['approvals.open_talk'] }).click()
    await page.locator('.message', { hasText: 'It is.' }).waitFor()
    await isFit(page, 'its conversation')
    expect(panel.complaints).toEqual([])
  })

  test('logins: no account yet, the code, the end, a rejected name, a new code, many at once', async () => {
    await using panel = await withPanel({ sessions: [] })
    const page = await panel.open({ path: '/sessions' })
    const wake = page.getByRole('button', { name: en['welcome.go'] })
    await wake.waitFor()
    await isFit(page, 'no account')
    await wake.click()
    await code(page).waitFor()
    await isFit(page, 'the code')
    await panel.sandbox.phone('POST', 'expire')
    await dialog(page).getByText(en['login.renewed']).waitFor()
    await isFit(page, 'a new code')
    await panel.sandbox.scan({ confirm: true })
    await page.getByRole('button', { name: 'Done' }).waitFor()
    await isFit(page, 'the end')
    await page.getByRole('button', { name: 'Done' }).click()
    await page.getByRole('link', { name: 'Add account' }).click()
    await page.getByLabel('Name (optional)').fill('DEFAULT')
    await page.keyboard.press('Enter')
    await page.getByRole('alert').getByText('already').waitFor()
    await isFit(page, 'a rejected name')
    // The browser logs the rejected call.
    expect(panel.complaints.filter(line => !line.includes('422'))).toEqual([])

    const all = ['one', 'two', 'three', 'four']
    await using many = await withPanel({ sessions: all })
    for (const { bot_id } of many.bots.values()) many.sandbox.world.people.expire(bot_id)
    await page.goto(many.url)
    await page.locator('.concern', { hasText: '4 accounts need a new scan' }).waitFor()
    await isFit(page, 'many to log in')
    expect(many.complaints).toEqual([])
  })

  test('conversations: on a phone, a picture, a search, without an account, with a closed window', async () => {
    await using panel = await withPanel()
    const { sandbox } = panel
    const { user_id: user } = panel.bots.get('default')!
    await sandbox.bulk(150, 'number {n} of many')
    await panel.receive(150)
    const page = await panel.open({ path: '/settings' })
    const missing = new Set<string>()
    page.on(
      'response',
      answer => void (answer.status() === 404 && missing.add(new URL(answer.url()).pathname)),
    )
    const png = await page.screenshot({ clip: { x: 0, y: 0, width: 60, height: 40 } })
    await sandbox.media('image', new Uint8Array(png))
    await panel.receive(1)

    await page.goto(`${panel.url}${chatOf(user)}?q=number+10`)
    await page.locator('.hit', { hasText: 'number 10 of' }).click()
    await page.locator('article.looked', { hasText: 'number 10 of' }).waitFor()
    await isFit(page, 'what was found')
    // During a search they are open.
    await page.getByLabel('Kind').selectOption('Text')
    await page.locator('.hit').first().waitFor()
    await isFit(page, 'filters')

    await page.goto(`${panel.url}${chatOf(user)}?media=IMAGE`)
    await page.getByRole('button', { name: en['chat.open_picture'] }).waitFor()
    await isFit(page, 'all pictures')
    await page.getByRole('button', { name: en['chat.open_picture'] }).click()
    await page.getByRole('dialog', { name: 'Picture' }).getByRole('img', { name: 'Picture' }).waitFor()
    await isFit(page, 'a picture')
    await closed(page)

    await page.goto(`${panel.url}/conversations/default`)
    await page.getByRole('link', { name: 'Show the conversations of all accounts' }).waitFor()
    await isFit(page, 'those of an account')
    for (const path of ['/conversations/nope', '/conversations/nope/someone']) {
      await page.goto(`${panel.url}${path}`)
      await page.getByText(new RegExp(words('sessions.missing', { name: '\\W*nope\\W*' }))).waitFor()
      await isFit(page, path)
    }

    await page.evaluate(() => localStorage.setItem('svc.language', 'zh'))
    await page.setViewportSize({ width: 360, height: 740 })
    await page.reload()
    await page.getByText(/^没有名为/).waitFor()
    await isFit(page, 'no account, in Chinese')
    await page.goto(`${panel.url}/conversations`)
    await page.locator('a.conversation').waitFor()
    await isFit(page, 'the list on a phone')
    await page.locator('a.conversation').click()
    await page.getByRole('log', { name: '消息' }).locator('article').first().waitFor()
    await isFit(page, 'the chat on a phone')
    await page.evaluate(() => localStorage.removeItem('svc.language'))
    await page.setViewportSize({ width: 1280, height: 800 })

    panel.clock.advance(25 * hour)
    await sandbox.advance(25 * hour)
    await page.clock.setFixedTime(Date.now() + 25 * hour)
    await page.reload()
    await page.getByText(en['composer.closed']).first().waitFor()
    await isFit(page, 'a closed window')
    await page.getByRole('button', { name: 'Write a message for later' }).click()
    for (const text of ['for later', 'not at all']) {
      await page.getByRole('textbox').last().fill(text)
      await page.keyboard.press('Enter')
      await page.locator('article', { hasText: text }).getByText(en['delivery.queued_note']).waitFor()
    }
    await page
      .locator('article', { hasText: 'not at all' })
      .getByRole('button', { name: 'Do not send' })
      .click()
    await page.getByText(en['delivery.cancelled_note']).first().waitFor()
    await isFit(page, 'what waits, and what was taken back')
    // Without an account there are no messages to list. The browser logs the rejected call.
    expect([...missing]).toEqual(['/api/call/list_messages'])
    expect(panel.complaints.filter(line => !line.includes('404'))).toEqual([])
  })

  test('the phone: in Chinese on a narrow screen, with two codes, one of which changed nothing', async () => {
    await using sandbox = await withSandbox()
    const { logins, people } = sandbox.world
    const bot = sandbox.bot()
    logins.create([])
    logins.create([people.findBot(bot.bot_id)!.token])
    await using context = await (await sharedBrowser()).browser.newContext({ locale: 'zh' })
    const page = await context.newPage()
    await page.setViewportSize({ width: 320, height: 740 })
    await page.goto(`${sandbox.url}/phone`)
    const cards = page.locator('.code')
    await cards.nth(1).waitFor()
    await cards.first().getByRole('button', { name: texts.zh['codes.scan_agree'] }).click()
    const { name } = people.listUsers()[0]!
    await cards.first().getByText(texts.zh['codes.bound'].replace('{name}', name)).waitFor()
    await page.locator('#back').click()
    await page.locator('summary').first().click()
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      expect([colorScheme, await violations(page)]).toEqual([colorScheme, []])
    }
  })
})
