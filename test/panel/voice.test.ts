import { describe, expect, test } from 'bun:test'
import { hasBrowser } from '../support/browser.ts'
import { withPanel } from '../support/panel.ts'
import { silkOf, speak } from '../support/voice.ts'

describe.skipIf(!hasBrowser)('a voice message', () => {
  test('plays, with its transcript beside it; one that cannot be decoded says so, and can be saved', async () => {
    await using panel = await withPanel()
    const { sandbox } = panel
    await sandbox.media('voice', new Blob([new Uint8Array(await speak(1))]), { transcript: '喂,你好' })
    const broken = silkOf(Array.from({ length: 50 }, () => new Uint8Array()))
    await sandbox.media('voice', new Blob([new Uint8Array(broken)]))
    await panel.receive(2)
    const [{ user_id } = { user_id: '' }] = panel.bots.values()
    const page = await panel.open({ path: `/conversations/default/${encodeURIComponent(user_id)}` })
    const voices = page.getByRole('log', { name: 'Messages' }).locator('.voice')
    await voices.nth(0).getByText('喂,你好').waitFor()
    await voices.nth(0).getByRole('button', { name: 'Play' }).click()
    await panel.until('it plays to its end', async () =>
      voices
        .nth(0)
        .locator('audio')
        .evaluate(it => (it as HTMLAudioElement).ended && (it as HTMLAudioElement).duration === 1),
    )
    await voices.nth(1).getByText('cannot be played').waitFor()
    expect(await voices.nth(1).getByRole('button', { name: 'Play' }).count()).toBe(0)
    expect(panel.complaints).toEqual([])
  })
})
