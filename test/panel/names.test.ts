/** The list of conversations, and the names that people give to users. */
import { describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { withPanel, write } from '../support/panel.ts'

const hourMs = 3_600_000

/** Takes a screenshot if SVC_SHOTS names a folder. */
const shot = async (page: Page, name: string) => {
  if (process.env.SVC_SHOTS) await page.screenshot({ path: `${process.env.SVC_SHOTS}/${name}.png` })
}

describe.skipIf(!hasBrowser)('names', () => {
  test('by keyboard: a name is given in a chat, shown and searched everywhere, rejected if another user has it', async () => {
    await using panel = await withPanel()
    const { sandbox } = panel
    const { bot_id, user_id } = panel.bots.get('default')!
    const other = await sandbox.addUser('other')
    await sandbox.say('from another', { from: other, to: bot_id })
    await sandbox.say('from mum')
    await panel.until('both are known', async () => (await panel.gateway.users.list()).length === 2)
    await panel.gateway.users.name({ user_id: other, name: '王小明' })
    const page = await panel.open({
      path: `/conversations/default/${encodeURIComponent(user_id)}`,
    })
    const head = page.locator('.chat-head')
    await head.getByRole('button', { name: 'Give a name' }).focus()
    await page.keyboard.press('Enter')
    const field = head.getByRole('textbox', { name: 'Name' })
    await field.and(page.locator(':focus')).waitFor()
    await page.keyboard.type('王小明')
    await page.keyboard.press('Enter')
    await head.getByRole('alert').and(page.locator(':not(:empty)')).waitFor()
    expect(await violationsInBothThemes(page)).toEqual([])
    await shot(page, 'refused')
    await field.fill('  Mum  Smith ')
    await page.keyboard.press('Enter')
    await head.getByRole('heading', { name: 'Mum Smith' }).waitFor()
    await head.getByRole('button', { name: 'Change the name' }).and(page.locator(':focus')).waitFor()
    await page.locator('.list').getByText('Mum Smith').waitFor()
    await page.locator('.list').getByText('王小明').waitFor()
    expect(await page.locator('.list').innerText()).not.toContain(user_id.slice(0, 12))
    await shot(page, 'named')
    // Escape keeps the old name.
    await page.keyboard.press('Enter')
    await page.keyboard.type('nobody')
    await page.keyboard.press('Escape')
    await head.getByRole('heading', { name: 'Mum Smith' }).waitFor()

    await page.getByRole('searchbox').fill('mum')
    await page.locator('.list .conversation', { hasText: 'Mum Smith' }).first().waitFor()
    await page.locator('.list .conversation', { hasText: '王小明' }).waitFor({ state: 'detached' })
    // A name that is given elsewhere appears here by itself.
    await panel.gateway.users.name({ user_id, name: 'Mother' })
    await head.getByRole('heading', { name: 'Mother' }).waitFor()
    expect(panel.complaints.filter(one => !/422/.test(one))).toEqual([])
  })

  test('a name that a user of another account has is accepted, and the panel names that account', async () => {
    await using panel = await withPanel({ sessions: ['one', 'two'] })
    const { sandbox } = panel
    const [one, two] = ['one', 'two'].map(name => panel.bots.get(name)!)
    for (const { user_id, bot_id } of [one!, two!]) await sandbox.say('hello', { from: user_id, to: bot_id })
    await panel.until('both are known', async () => (await panel.gateway.users.list()).length === 2)
    await panel.gateway.users.name({ user_id: one!.user_id, name: 'Mum' })
    const page = await panel.open({ path: `/conversations/two/${encodeURIComponent(two!.user_id)}` })
    const edit = page.locator('.chat-head .name-edit')
    await edit.getByRole('button').click()
    await edit.getByRole('textbox').fill('Mum')
    await page.keyboard.press('Enter')
    await page.locator('.chat-head').getByRole('heading', { name: 'Mum' }).waitFor()
    await page.locator('.toast', { hasText: 'one' }).waitFor({ timeout: 15_000 })
    expect(panel.complaints).toEqual([])
  })

  test('a name stays that is given while an older list of the accounts is still on its way', async () => {
    await using panel = await withPanel({ sessions: ['one'] })
    await write(panel, 'hello', 'one')
    const page = await panel.open()
    // Without its stream the page asks for everything again every few seconds, and hears of no change.
    await page.route('**/api/events', route => route.fulfill({ status: 500 }))
    await page.goto(`${panel.url}/sessions/one`)
    const users = page.locator('.side-sheet .users')
    await users.getByRole('button').first().waitFor()
    const asked = Promise.withResolvers<void>()
    const answers = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const ends = answers.values()
    await page.route('**/api/call/list_accounts', async route => {
      const response = await route.fetch()
      asked.resolve()
      await ends.next().value?.promise
      await route.fulfill({ response })
    })
    await asked.promise
    await users.getByRole('button').first().click()
    await users.getByRole('textbox').fill('Anna')
    await page.keyboard.press('Enter')
    await users.getByRole('link', { name: 'Anna' }).waitFor()
    const next = page.waitForRequest('**/api/call/list_accounts')
    answers[0]!.resolve()
    await next
    expect(await users.getByRole('link').first().textContent()).toContain('Anna')
    answers[1]!.resolve()
    await page.unrouteAll({ behavior: 'ignoreErrors' })
  })

  test('on a phone, in Chinese: a name is given in the list of an account and shown as the title of the chat', async () => {
    await using panel = await withPanel({ sessions: ['one', 'two'] })
    const { sandbox } = panel
    const { bot_id, user_id } = panel.bots.get('one')!
    await sandbox.say('hello', { from: user_id, to: bot_id })
    await panel.until('known', async () => (await panel.gateway.users.list()).length === 1)
    const page = await panel.open({
      path: '/sessions/one',
      locale: 'zh',
      colorScheme: 'dark',
      viewport: { width: 390, height: 844 },
      hasTouch: true,
    })
    const users = page.locator('.side-sheet .users')
    await users.getByRole('button').first().click()
    await shot(page, 'phone-edit')
    await users
      .getByRole('textbox')
      .fill('一个名字特别特别长的老朋友，住在很远很远的地方，每年只写一次信给我们大家看')
    await users.locator('button[type=submit]').click()
    await users.getByRole('link', { name: '一个名字' }).waitFor()
    // The same user scanned the code of this account.
    await page.locator('.side-sheet dd', { hasText: '一个名字' }).first().waitFor()
    await shot(page, 'phone-users')
    await users.getByRole('link', { name: '一个名字' }).click()
    await page.locator('.chat-head h1', { hasText: '一个名字' }).waitFor()
    await shot(page, 'phone-chat')
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true)
    await page.locator('.chat-head .name-edit button').click()
    await shot(page, 'phone-chat-edit')
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true)
    await page.locator('.chat-head input').fill('')
    await page.locator('.chat-head button[type=submit]').click()
    await page.locator('.chat-head h1', { hasText: user_id.slice(0, 5) }).waitFor()
    expect(panel.complaints).toEqual([])
  })
})

test.skipIf(!hasBrowser)(
  'a conversation in the list has always two lines, and shows the reply window when little is left',
  async () => {
    await using panel = await withPanel({ sessions: ['one', 'another'] })
    const { sandbox, bots } = panel
    await sandbox.say('first', { from: bots.get('one')!.user_id, to: bots.get('one')!.bot_id })
    await panel.receive(1)
    await panel.clock.advance(23 * hourMs)
    await sandbox.advance(23 * hourMs)
    await sandbox.say('second', { from: bots.get('another')!.user_id, to: bots.get('another')!.bot_id })
    await panel.receive(1)
    const page = await panel.open({ viewport: { width: 320, height: 700 } })
    await page.clock.setFixedTime(Date.now() + 23 * hourMs)
    await page.goto(`${panel.url}/conversations`)
    const row = (text: string) => page.getByRole('listitem').filter({ hasText: text })
    await row('second').waitFor()
    const heights = await page
      .locator('.list-row')
      .evaluateAll(rows => rows.map(row => row.getBoundingClientRect().height))
    expect(heights).toEqual([68, 68])
    const isCut = await page
      .locator('.conversation')
      .evaluateAll(all => all.map(one => one.scrollHeight > one.clientHeight + 1))
    expect(isCut).toEqual([false, false])
    await row('first').locator('.badge.right.warn').waitFor()
    expect(await row('second').locator('.badge.right').count()).toBe(0)
    expect(await row('second').locator('.account-dot').innerText()).toContain('another')
    // The button that leaves the gallery is in view beside the kinds of media.
    await row('second').getByRole('link').click()
    await page.getByRole('log').waitFor()
    await page.goto(`${page.url()}?media=IMAGE`)
    const back = (await page.getByRole('link', { name: 'Back to the messages' }).boundingBox())!
    expect(back.x + back.width).toBeLessThanOrEqual(320)
    expect(panel.complaints).toEqual([])
  },
)

test.skipIf(!hasBrowser)(
  'the arrow keys go on from the focused row after a message has moved it',
  async () => {
    await using panel = await withPanel()
    const { sandbox } = panel
    const to = panel.bots.get('default')!.bot_id
    const users: string[] = []
    for (const name of ['d', 'c', 'b', 'a']) {
      const from = await sandbox.addUser(name)
      users.push(from)
      await sandbox.say(`from ${name}`, { from, to })
      await panel.receive(1)
    }
    const page = await panel.open({ path: '/conversations' })
    const row = (name: string) => page.locator('[data-stop]', { hasText: `from ${name}` })
    await row('b').focus()
    await sandbox.say('again from d', { from: users[0]!, to })
    await page.locator('[data-index="0"]', { hasText: 'again from d' }).waitFor()
    await row('b').and(page.locator(':focus')).waitFor()
    await page.keyboard.press('ArrowDown')
    await row('c').and(page.locator(':focus')).waitFor()
  },
)
