import { describe, expect, test } from 'bun:test'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import en from '../../locales/en.json'
import { owner } from '../../src/model/principal.ts'
import { openDatabase } from '../../src/platform/sqlite.ts'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { testClock } from '../support/clock.ts'
import { withGateway } from '../support/gateway.ts'
import { type TestPanel, withPanel, write } from '../support/panel.ts'
import { wordsOf } from '../support/panel-hand.ts'
import { freePort } from '../support/port.ts'

const words = wordsOf('en')

const minuteMs = 60_000
const hourMs = 60 * minuteMs
/**
 * Waits until the overview shows a text. The panel checks once a second, so the clock first advances by 20 s.
 */
async function soon(panel: TestPanel, page: Page, text: string): Promise<void> {
  let seconds = 20
  await panel.until(text, async () => {
    if (seconds-- > 0) panel.clock.advance(1000)
    return (await page.locator('.sentence', { hasText: text }).count()) > 0
  })
}
const says = (page: Page, text: string) => page.locator('.sentence', { hasText: text }).waitFor()

describe.skipIf(!hasBrowser)('problems, on the overview and elsewhere', () => {
  test('work in the background that fails is there by its name, with the reason, until it works again', async () => {
    await using panel = await withPanel()
    const page = await panel.open()
    await says(page, words('overview.says_well_one', { count: 1 }))
    const rename = async (from: string, to: string) => {
      const db = await openDatabase(join(panel.dir, 'messages.db'))
      db.exec(`ALTER TABLE ${from} RENAME TO ${to}`)
      db.close()
    }
    await rename('topic', 'topic_away')
    const concern = page.locator('.concern', { hasText: words('overview.tasks_one', { count: 1 }) })
    await panel.until('it is told', async () => {
      panel.clock.advance(1000)
      return (await concern.count()) > 0
    })
    await concern.getByRole('button').first().click()
    await page
      .locator('.each li', { hasText: 'topics' })
      .getByText(/no such table/)
      .waitFor()
    expect(await violationsInBothThemes(page)).toEqual([])
    await rename('topic_away', 'topic')
    await panel.until('it works again', async () => {
      panel.clock.advance(1000)
      return (await concern.count()) === 0
    })
  })

  test('problems appear at once, the same on every page, each with what helps', async () => {
    await using panel = await withPanel({
      sessions: ['default', 'sales', 'ops'],
      switches: { send_reply: 'ret' },
    })
    await write(panel, 'hi')
    await write(panel, 'from sales', 'sales')
    for (const text of ['one', 'two']) await panel.send({ text, session: 'default' })
    const page = await panel.open()
    await says(page, words('overview.says_well_other', { count: 3 }))
    await page
      .getByRole('heading', { name: /^2 messages from .*default.* may not have been shown$/ })
      .waitFor()
    panel.sandbox.world.people.expire(panel.bots.get('sales')!.bot_id)
    await soon(panel, page, words('overview.says_bad_one', { count: 1 }))
    await writeFile(join(panel.dir, 'ops', 'token.json'), '{"bot_id":')
    await soon(panel, page, words('overview.says_bad_other', { count: 2 }))
    await page.locator('.concern', { hasText: 'new scan' }).getByRole('button').first().click()
    await page.getByRole('heading', { name: /ops.* files|files of .*ops/ }).waitFor()
    // Problems come first.
    expect(await page.locator('.fleet h3').allInnerTexts()).toEqual(['ops', 'sales', 'default'])
    expect(await violationsInBothThemes(page)).toEqual([])
    const badge = (row: string) => page.locator(row, { hasText: 'sales' }).locator('.state.bad').first()
    const texts = [await badge('.fleet > li').innerText()]
    await page.locator('.each li', { hasText: 'sales' }).getByRole('link', { name: 'Log in again' }).click()
    await page.waitForURL('**/sessions/sales/login')
    await page.getByRole('dialog').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    texts.push(await badge('.account-list tr').innerText())
    const navigate = (name: string) => page.getByRole('navigation').getByRole('link', { name }).click()
    await navigate('Conversations')
    await page.getByRole('link', { name: /from sales/ }).click()
    await page.locator('.composer').getByRole('link', { name: 'Log in again' }).waitFor()
    texts.push(await page.locator('main .state.bad').first().innerText())
    expect(new Set(texts).size).toBe(1)
    await page.locator('.composer').getByRole('link', { name: 'Log in again' }).click()
    await page.getByRole('img', { name: 'QR code for WeChat' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await navigate('Overview')
    await page.getByRole('link', { name: /two/ }).first().click()
    await page.getByText(en['delivery.suspect_note']).first().waitFor()
    expect(panel.complaints).toEqual([])
  })

  test('a stalled poller is shown with the commands that help, and the panel sees when it works again', async () => {
    await using panel = await withPanel({ start: false })
    // The clock of the poller is stopped: it does not respond until the clock advances.
    const clock = testClock({ runs: false })
    await using _poller = await withGateway({ sandbox: panel.sandbox, dir: panel.dir, sessions: [], clock })
    await panel.gateway.start()
    const page = await panel.open()
    await says(page, en['overview.says_well_one'])
    await page.getByText('Received by another process').waitFor()
    await panel.until('the stall is seen', async () => {
      if (panel.clock.sleeps(0, 1000)) panel.clock.advance(1000)
      return (await panel.gateway.health()).stalled
    })
    await says(page, en['overview.says_stalled'])
    await page.locator('.concern h3 button').first().click()
    await page.getByText(`kill -CONT ${process.pid}`).waitFor()
    await panel.until('it is seen to work', async () => {
      clock.advance(1000)
      if (panel.clock.sleeps(0, 1000)) panel.clock.advance(1000)
      return !(await panel.gateway.health()).stalled
    })
    await says(page, en['overview.says_well_one'])
    expect(panel.complaints).toEqual([])
  })

  test('a failing store is reported, also on a new page, until it works again', async () => {
    await using panel = await withPanel()
    await write(panel, 'kept')
    const page = await panel.open()
    await says(page, en['overview.says_well_one'])
    const path = join(panel.dir, 'messages.db')
    await rename(path, `${path}.away`)
    await soon(panel, page, 'Messages cannot be stored right now')
    await page.reload()
    await says(page, 'Messages cannot be stored right now')
    await page.getByText('default', { exact: true }).first().waitFor()
    await rename(`${path}.away`, path)
    await soon(panel, page, en['overview.says_well_one'])
    await page.getByRole('link', { name: /kept/ }).waitFor()
  })

  test('before the first answer an account is connecting; failing polls are shown with the last error', async () => {
    const clock = testClock()
    await using panel = await withPanel({ clock, start: false, sessions: [], switches: { hold_ms: 120_000 } })
    clock.step(-hourMs)
    await panel.connect('default')
    clock.step(hourMs)
    await panel.gateway.start()
    const page = await panel.open()
    await says(page, '1 account is connecting')
    const navigate = (name: string) => page.getByRole('navigation').getByRole('link', { name }).click()
    for (const name of ['Accounts', 'Overview']) {
      await navigate(name)
      const row = page.locator('li, tr').filter({ has: page.getByRole('link', { name: 'default' }) })
      await row.getByText('Connecting', { exact: true }).filter({ visible: true }).waitFor()
      const text = (await row.innerText()).toLowerCase()
      for (const key of ['session.connected', 'time.just_now'] as const)
        expect(text).not.toContain(words(key).toLowerCase())
    }
    await write(panel, 'hello')
    await says(page, en['overview.says_well_one'])
    await page.getByText(en['overview.polled'].replace('{when}', 'just now')).waitFor()
    await panel.sandbox.fail('getupdates', '500', { times: 0, delay_ms: 0 })
    await panel.sandbox.say('ends the poll')
    await panel.until('failing', async () => {
      clock.advance(1000)
      return (await panel.gateway.accounts.list())[0]?.poll_error !== undefined
    })
    await says(page, 'WeChat does not answer for 1 account')
    await page.locator('.concern h3 button').first().click()
    const failed = page.locator('main').getByText(/failed: .*500/)
    await failed.first().waitFor()
    await page.getByText(`svc doctor -d ${panel.dir}`).waitFor()
    await page.locator('.fleet').getByText('No answer').waitFor()
    expect(await page.locator('section', { has: page.locator('#attention') }).innerText()).not.toMatch(
      /just now/,
    )
    await navigate('Accounts')
    await page.getByRole('link', { name: 'default', exact: true }).click()
    await page
      .locator('.side-sheet')
      .getByText(/failed: .*500/)
      .waitFor()
    expect(panel.complaints).toEqual([])
  })

  test('failures and invalid input are explained in the viewer’s language', async () => {
    await using panel = await withPanel()
    const { webhooks } = panel.gateway
    const url = `http://127.0.0.1:${freePort()}/hook`
    const { id } = await webhooks.add(owner, { url, allow_private: true })
    await write(panel, 'hello')
    await panel.until(
      'failing',
      async () => (await webhooks.get(owner, id)).last_error_code === 'unreachable',
    )
    const { last_error = '' } = await webhooks.get(owner, id)
    const zh = wordsOf('zh')
    const page = await panel.open({ path: '/sessions/default', locale: 'zh-CN' })
    const dialog = page.getByRole('dialog')
    // The sheet has such a button, and until it has covered the page, so has the list behind it.
    await page
      .locator('.side-sheet')
      .getByRole('button', { name: zh('session.menu', { name: '\u2068default\u2069' }) })
      .click()
    await page.getByRole('menuitem', { name: zh('sessions.rename') }).click()
    await dialog.getByRole('textbox').fill('a b')
    await dialog.getByRole('textbox').press('Enter')
    await dialog.getByRole('alert').getByText(zh('sessions.name_characters')).waitFor()
    await page.goto(`${panel.url}/webhooks`)
    const main = page.locator('main')
    await main.locator('.row-link').first().click()
    const sheet = page.locator('.side-sheet')
    await sheet.getByText(zh('webhooks.why_unreachable')).first().waitFor()
    expect(await page.innerText('body')).not.toContain(last_error)
    await page.keyboard.press('Escape')
    await sheet.waitFor({ state: 'detached' })
    await page
      .getByRole('button', { name: zh('webhooks.add') })
      .first()
      .click()
    await dialog.locator('[name=url]').fill('https://1.1.1.1/')
    await dialog.locator('[name=headers]').fill('Host: a')
    await dialog.getByRole('button', { name: zh('webhooks.add') }).click()
    await dialog.getByRole('alert').getByText(zh('webhooks.headers_rejected')).waitFor()
    expect(panel.complaints.filter(one => !/422/.test(one))).toEqual([])
  })

  test('an open page follows when the clock of the service is set, and so do the days to choose from', async () => {
    await using panel = await withPanel()
    // Noon, so that no day ends during the test.
    const aheadMs = 36 * hourMs - (Date.now() % (24 * hourMs))
    panel.clock.step(aheadMs)
    await panel.sandbox.advance(aheadMs)
    await write(panel, 'hello')
    const page = await panel.open({ timezoneId: 'UTC' })
    // The viewer's clock is far behind, which must not matter.
    await says(page, en['overview.says_well_one'])
    await page.getByText(en['overview.polled'].replace('{when}', 'just now')).waitFor()
    await page.getByRole('link', { name: /hello/ }).click()
    await page.locator('.chat-state').getByText('10 answers').waitFor()
    expect(await page.getByRole('textbox', { name: 'Message' }).isEnabled()).toBe(true)
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
    // After the clock was set, the account does not count as silent.
    await page.getByRole('link', { name: 'Overview' }).click()
    await page.locator('.sentence').waitFor()
    expect(await page.locator('.sentence').allTextContents()).toEqual([
      expect.stringContaining(en['overview.says_well_one']),
    ])
    expect(panel.complaints).toEqual([])
  })

  test('after an interruption pictures come, and a message that may have arrived is not called unsent', async () => {
    await using panel = await withPanel()
    const { bot_id: to, user_id: from } = panel.bots.get('default')!
    const dot =
      'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
    await panel.sandbox.media('image', Buffer.from(dot, 'base64'), { name: 'dot.png', from, to })
    await panel.receive(1)
    const page = await panel.open({ path: '/icon.svg' })
    await page.route('**/api/media/**', route => route.abort())
    await page.goto(`${panel.url}/conversations/default/${encodeURIComponent(from)}`)
    const message = page.locator('.message.in')
    await message.getByText(en['error.unreachable']).waitFor()
    const resume = await panel.silence()
    await page.unroute('**/api/media/**')
    await page.getByRole('textbox', { name: en['composer.write'] }).fill('did it come?')
    await page.keyboard.press('Enter')
    const line = page.locator('.conversation')
    await line.locator('.badge.warn').getByText(en['delivery.unknown']).waitFor()
    expect(await line.getByText(en['delivery.refused']).count()).toBe(0)
    await resume()
    await message.locator('.picture img').waitFor()
    await line.locator('.delivery.accepted').waitFor()
  })
})
