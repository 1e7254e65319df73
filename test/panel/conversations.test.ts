import { expect, test } from 'bun:test'
import { hasBrowser, withPanel } from '../support/panel.ts'

test.skipIf(!hasBrowser)(
  'the page of conversations opens, and loads nothing from elsewhere',
  async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/conversations' })
    await page.getByRole('heading', { level: 1, name: 'Conversations' }).waitFor()
    expect(panel.complaints).toEqual([])
  },
  30_000,
)
