import { expect, test } from 'bun:test'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { withPanel } from '../support/panel.ts'

test.skipIf(!hasBrowser)(
  'the address of an account shows its conversations alone, and leads back to all',
  async () => {
    await using panel = await withPanel({ sessions: ['one', '客服'] })
    const { sandbox, bots } = panel
    for (const [name, bot] of bots) {
      await sandbox.say(`to ${name}`, { from: bot.user_id, to: bot.bot_id })
    }
    await panel.until('both came', async () => (await panel.gateway.conversations.list()).length === 2)
    const page = await panel.open({ path: `/conversations/${encodeURIComponent('客服')}` })
    await page.getByText('to 客服').waitFor()
    expect(await page.getByText('to one').count()).toBe(0)
    expect(await violationsInBothThemes(page)).toEqual([])
    await page.getByRole('link', { name: 'Show the conversations of all accounts' }).click()
    await page.getByText('to one').waitFor()
    expect(page.url()).toBe(`${panel.url}/conversations`)
    expect(panel.complaints).toEqual([])
  },
)

test.skipIf(!hasBrowser)('the address of an account that there is not says so', async () => {
  await using panel = await withPanel()
  const page = await panel.open({ path: '/conversations/nope' })
  await page.getByText(/^There is no account named \W*nope\W* \(any more\)\.$/).waitFor()
  expect(await page.getByText('Nobody has written yet').count()).toBe(0)
  expect(await violationsInBothThemes(page)).toEqual([])
  await page.getByRole('link', { name: 'Show all accounts' }).click()
  await page.waitForURL(`${panel.url}/sessions`)
  expect(panel.complaints).toEqual([])
})

test.skipIf(!hasBrowser)(
  'so does a conversation of an account that there is not; one of an account that was logged out stays to be read',
  async () => {
    await using panel = await withPanel({ sessions: ['one', 'left'] })
    const { sandbox, bots } = panel
    const { user_id, bot_id } = bots.get('left')!
    await sandbox.say('kept to be read', { from: user_id, to: bot_id })
    await panel.until('it came', async () => (await panel.gateway.conversations.list()).length === 1)
    for (const [locale, width, said, link] of [
      ['en', 1280, /^There is no account named \W*nope\W* \(any more\)\.$/, 'Show all accounts'],
      ['zh', 390, /^没有名为 \W*nope\W* 的账号（或已不存在）。$/, '显示全部账号'],
    ] as const) {
      const path = '/conversations/nope/someone'
      const page = await panel.open({ path, locale, viewport: { width, height: 800 } })
      await page.getByText(said).waitFor()
      expect(await page.getByRole('textbox').count()).toBe(0)
      expect(await violationsInBothThemes(page)).toEqual([])
      await page.getByRole('link', { name: link }).click()
      await page.waitForURL(`${panel.url}/sessions`)
    }
    await panel.gateway.accounts.logout('left')
    const page = await panel.open({ path: `/conversations/left/${encodeURIComponent(user_id)}` })
    await page.getByText('kept to be read').last().waitFor()
    await page.getByText('This account is logged out. Its messages stay here to be read.').waitFor()
    expect(panel.complaints).toEqual([])
  },
)
