import { expect, test } from 'bun:test'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { withPanel } from '../support/panel.ts'

const hour = 3_600_000

test.skipIf(!hasBrowser)(
  'a conversation takes two lines, whatever there is to say of it, and tells of the right to answer when little is left',
  async () => {
    await using panel = await withPanel({ sessions: ['one', 'another'] })
    const { sandbox, bots } = panel
    await sandbox.say('first', { from: bots.get('one')!.user_id, to: bots.get('one')!.bot_id })
    await panel.receive(1)
    await panel.clock.advance(23 * hour)
    await sandbox.advance(23 * hour)
    await sandbox.say('second', { from: bots.get('another')!.user_id, to: bots.get('another')!.bot_id })
    await panel.receive(1)
    const page = await panel.open({ viewport: { width: 320, height: 700 } })
    await page.clock.setFixedTime(Date.now() + 23 * hour)
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
    expect(await row('second').locator('.session-tag').innerText()).toBe('another')
    expect(await violationsInBothThemes(page)).toEqual([])
    // The way back from the pictures and files is in view beside their kinds.
    await row('second').getByRole('link').click()
    await page.getByRole('log').waitFor()
    await page.goto(`${page.url()}?media=IMAGE`)
    const back = (await page.getByRole('link', { name: 'Back to the messages' }).boundingBox())!
    expect(back.x + back.width).toBeLessThanOrEqual(320)
    expect(panel.complaints).toEqual([])
  },
)

test.skipIf(!hasBrowser)(
  'the arrows go on from the row that has the focus, wherever a message has moved it',
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

test.skipIf(!hasBrowser)(
  'a list that is being loaded is fit for everybody, on a low screen too',
  async () => {
    await using panel = await withPanel()
    const page = await panel.open({ viewport: { width: 390, height: 500 } })
    await page.route('**/api/conversations**', () => {})
    await page.goto(`${panel.url}/conversations`)
    await page.locator('.list > .skeleton').waitFor()
    expect(await violationsInBothThemes(page)).toEqual([])
  },
)
