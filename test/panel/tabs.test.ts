import { expect, test } from 'bun:test'
import { hasBrowser } from '../support/browser.ts'
import { withPanel } from '../support/panel.ts'

test.skipIf(!hasBrowser)(
  'what somebody has read or answered counts as read in every panel that is open',
  async () => {
    await using panel = await withPanel()
    const { sandbox } = panel
    const [one, other] = [panel.bots.get('default')!.user_id, await sandbox.addUser('other')]
    await sandbox.say('to be read', { from: one })
    await sandbox.say('to be answered', { from: other })
    await panel.receive(2)
    const [here, elsewhere] = [await panel.open({ path: '/conversations' }), await panel.open({ path: '/' })]
    const waiting = elsewhere.getByRole('navigation').locator('.count')
    await waiting.getByText('2').waitFor()
    await here.getByRole('link', { name: /to be read/ }).click()
    await waiting.getByText('1').waitFor()
    await panel.send({ to: other, text: 'an answer' })
    await waiting.waitFor({ state: 'detached' })
    expect(panel.complaints).toEqual([])
  },
)
