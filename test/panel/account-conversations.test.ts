import { expect, test } from 'bun:test'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser, withPanel } from '../support/panel.ts'

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
